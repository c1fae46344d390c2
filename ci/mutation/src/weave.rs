//! Weaves mutants into a source file. Each place that has mutants becomes a choice at run time.
//!
//! ```text
//! a + b          →  (if on(7) { a - b } else if on(8) { a * b } else { a + b })
//! fn f() -> T {  →  fn f() -> T { if on(9) { return T::default(); }
//! pattern => x   →  pattern if !on(10) => x
//! ```
//!
//! So the compiler builds all mutants at once, and a trial costs a run, not a build. A changed
//! expression has no other changes inside, as only one mutant is on at a time. The unchanged
//! expression has them.
//!
//! Code that the compiler evaluates cannot choose at run time. The weaver leaves such places alone
//! and reports them.

use crate::list::{Mutant, Place, Span};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Constant functions that the program calls at run time only, by module. The weaver makes them
/// plain functions.
const AT_RUN_TIME: [(&str, &[&str]); 3] = [
    ("proto/slots.rs", &["active", "dirty_of", "word", "run", "starts_of_runs", "has_run"]),
    ("backend/segment/mod.rs", &["listed_as"]),
    ("base/size_class.rs", &["computed"]),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// An expression with an operator, at this range.
    Operator(usize, usize),
    Body,
    Arm {
        has_guard: bool,
    },
    /// All of an expression, or of a block's inside.
    Whole,
}

/// A place that has mutants, by their numbers.
pub struct Node {
    pub range: Range<usize>,
    pub form: Form,
    pub mutants: Vec<usize>,
}

/// What a mutant does to its place.
pub struct Change<'a> {
    /// Asks whether it is on.
    pub on: String,
    pub replacement: &'a str,
}

/// A file with its mutants woven in.
pub struct Woven {
    pub text: String,
    /// The numbers of those that are in it.
    pub numbers: Vec<usize>,
}

pub struct Places<'a> {
    starts: Vec<usize>,
    text: &'a str,
}

impl<'a> Places<'a> {
    pub fn new(text: &'a str) -> Self {
        let starts =
            std::iter::once(0).chain(text.match_indices('\n').map(|(i, _)| i + 1)).collect();
        Self { starts, text }
    }
    /// The byte at a line and a column in characters, both from 1.
    fn byte(&self, place: Place) -> usize {
        let line = &self.text[self.starts[place.line - 1]..];
        let inside: usize = line.chars().take(place.column - 1).map(char::len_utf8).sum();
        self.starts[place.line - 1] + inside
    }
    pub fn range(&self, span: proc_macro2::Span) -> Range<usize> {
        let place = |at: proc_macro2::LineColumn| Place { line: at.line, column: at.column + 1 };
        self.byte(place(span.start()))..self.byte(place(span.end()))
    }
    fn range_of(&self, span: Span) -> Range<usize> {
        self.byte(span.start)..self.byte(span.end)
    }
}

struct Finder<'a> {
    places: Places<'a>,
    /// Mutants by genre and the range they name.
    wanted: HashMap<(String, Range<usize>), Vec<usize>>,
    nodes: Vec<Node>,
    /// `const` words that are taken away.
    unconst: Vec<Range<usize>>,
    constant: usize,
    /// Names out of `AT_RUN_TIME`.
    at_run_time: &'static [&'static str],
}

impl Finder<'_> {
    fn note(&mut self, genre: &str, named: Range<usize>, range: Range<usize>, form: Form) {
        if self.constant == 0
            && let Some(mutants) = self.wanted.get(&(genre.to_owned(), named))
        {
            self.nodes.push(Node { range, form, mutants: mutants.clone() });
        }
    }

    fn constantly(&mut self, f: impl FnOnce(&mut Self)) {
        self.constant += 1;
        f(self);
        self.constant -= 1;
    }

    fn function(
        &mut self,
        sig: &syn::Signature,
        block: &syn::Block,
        visit: impl FnOnce(&mut Self),
    ) {
        let name = sig.ident.to_string();
        if let Some(word) = sig.constness {
            if !self.at_run_time.contains(&name.as_str()) {
                return self.constantly(visit);
            }
            self.unconst.push(self.places.range(word.span()));
        }
        if let (Some(first), Some(last)) = (block.stmts.first(), block.stmts.last()) {
            let (first, last) = (self.places.range(first.span()), self.places.range(last.span()));
            let open = self.places.range(block.brace_token.span.open()).end;
            self.note("FnValue", first.start..last.end, open..open, Form::Body);
        }
        visit(self);
    }
}

fn has_let(expr: &syn::Expr) -> bool {
    match expr {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(b) => has_let(&b.left) || has_let(&b.right),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, f: &'ast syn::ItemFn) {
        self.function(&f.sig, &f.block, |this| visit::visit_block(this, &f.block));
    }
    fn visit_impl_item_fn(&mut self, f: &'ast syn::ImplItemFn) {
        self.function(&f.sig, &f.block, |this| visit::visit_block(this, &f.block));
    }
    fn visit_item_mod(&mut self, m: &'ast syn::ItemMod) {
        let is_test = |a: &syn::Attribute| a.path().is_ident("cfg") && quoted(a).contains("test");
        if !m.attrs.iter().any(is_test) {
            visit::visit_item_mod(self, m);
        }
    }
    fn visit_item_const(&mut self, i: &'ast syn::ItemConst) {
        self.constantly(|this| visit::visit_item_const(this, i));
    }
    fn visit_impl_item_const(&mut self, i: &'ast syn::ImplItemConst) {
        self.constantly(|this| visit::visit_impl_item_const(this, i));
    }
    fn visit_item_static(&mut self, i: &'ast syn::ItemStatic) {
        self.constantly(|this| visit::visit_item_static(this, i));
    }
    fn visit_expr_const(&mut self, e: &'ast syn::ExprConst) {
        self.constantly(|this| visit::visit_expr_const(this, e));
    }
    fn visit_expr_repeat(&mut self, e: &'ast syn::ExprRepeat) {
        self.visit_expr(&e.expr);
        self.constantly(|this| this.visit_expr(&e.len));
    }
    fn visit_type(&mut self, t: &'ast syn::Type) {
        self.constantly(|this| visit::visit_type(this, t));
    }
    fn visit_pat(&mut self, p: &'ast syn::Pat) {
        self.constantly(|this| visit::visit_pat(this, p));
    }
    fn visit_expr_binary(&mut self, e: &'ast syn::ExprBinary) {
        if !has_let(&e.left) && !has_let(&e.right) {
            let (left, op, right) = (
                self.places.range(e.left.span()),
                self.places.range(e.op.span()),
                self.places.range(e.right.span()),
            );
            self.note(
                "BinaryOperator",
                op.clone(),
                left.start..right.end,
                Form::Operator(op.start, op.end),
            );
        }
        visit::visit_expr_binary(self, e);
    }
    fn visit_expr_unary(&mut self, e: &'ast syn::ExprUnary) {
        let (op, all) = (self.places.range(e.op.span()), self.places.range(e.span()));
        self.note("UnaryOperator", op.clone(), all, Form::Operator(op.start, op.end));
        visit::visit_expr_unary(self, e);
    }
    fn visit_arm(&mut self, a: &'ast syn::Arm) {
        let (all, pat) = (self.places.range(a.span()), self.places.range(a.pat.span()));
        let before = pat.end;
        let arm = all.start..self.places.range(a.body.span()).end;
        let has_guard = a.guard.is_some();
        let at = match &a.guard {
            Some((_, guard)) => self.places.range(guard.span()).start,
            None => before,
        };
        // Named with its comma or without.
        self.note("MatchArm", arm.clone(), at..at, Form::Arm { has_guard });
        if all != arm {
            self.note("MatchArm", all, at..at, Form::Arm { has_guard });
        }
        if let Some((_, guard)) = &a.guard {
            let guard = self.places.range(guard.span());
            self.note("MatchArmGuard", guard.clone(), guard, Form::Whole);
        }
        visit::visit_arm(self, a);
    }
}

fn quoted(a: &syn::Attribute) -> String {
    match &a.meta {
        syn::Meta::List(list) => list.tokens.to_string(),
        _ => String::new(),
    }
}

/// The number of the mutant in whose text byte `at` of a woven file lies.
pub fn mutant_at(text: &str, at: usize) -> Option<usize> {
    let start = text[..at].rfind("/*M")?;
    let number = text[start + 3..].split_once("*/")?.0;
    let end = start + text[start..].find(&format!("/*m{number}*/"))?;
    (at < end).then(|| number.parse().ok())?
}

/// `text` with one mutant in it for good.
pub fn plainly(text: &str, mutant: &Mutant) -> String {
    let range = Places::new(text).range_of(mutant.span);
    format!("{}{}{}", &text[..range.start], mutant.replacement, &text[range.end..])
}

/// Weaves `mutants` into `text`, which is that of `module`. The numbers are what switches them on.
pub fn weave<'a>(
    module: &str,
    text: &str,
    mutants: &BTreeMap<usize, &'a Mutant>,
) -> syn::Result<Woven> {
    let places = Places::new(text);
    let mut wanted: HashMap<_, Vec<usize>> = HashMap::new();
    for (&number, mutant) in mutants {
        wanted
            .entry((mutant.genre.clone(), places.range_of(mutant.span)))
            .or_default()
            .push(number);
    }
    let at_run_time =
        AT_RUN_TIME.iter().find(|(file, _)| *file == module).map_or(&[][..], |(_, names)| names);
    let mut finder =
        Finder { places, wanted, nodes: Vec::new(), unconst: Vec::new(), constant: 0, at_run_time };
    finder.visit_file(&syn::parse_file(text)?);
    let Finder { mut nodes, unconst, .. } = finder;
    for word in unconst {
        nodes.push(Node { range: word, form: Form::Whole, mutants: Vec::new() });
    }
    let numbers = nodes.iter().flat_map(|n| n.mutants.iter().copied()).collect();
    let change = |(&n, m): (&usize, &&'a Mutant)| {
        (n, Change { on: format!("crate::woven::on({n})"), replacement: &m.replacement })
    };
    Ok(Woven { text: choices(text, nodes, &mutants.iter().map(change).collect()), numbers })
}

/// `text` with a choice at each of `nodes`.
pub fn choices(text: &str, mut nodes: Vec<Node>, changes: &BTreeMap<usize, Change>) -> String {
    // Outer ones first; of those at the same place, insertions first.
    nodes.sort_by_key(|n| (n.range.start, !n.range.is_empty(), Reverse(n.range.end)));
    let mut out = String::new();
    emit(text, 0..text.len(), &nodes, &mut 0, changes, &mut out);
    out
}

fn emit(
    text: &str,
    range: Range<usize>,
    nodes: &[Node],
    next: &mut usize,
    changes: &BTreeMap<usize, Change>,
    out: &mut String,
) {
    let mut at = range.start;
    while let Some(node) = nodes.get(*next).filter(|n| n.range.start < range.end) {
        *next += 1;
        out.push_str(&text[at..node.range.start]);
        at = node.range.end;
        if node.mutants.is_empty() {
            continue; // A `const`.
        }
        match node.form {
            Form::Body => {
                for &n in &node.mutants {
                    let Change { on, replacement } = &changes[&n];
                    out.push_str(&format!(
                        " if {on} {{ /*M{n}*/ return {replacement}; /*m{n}*/ }}"
                    ));
                }
            }
            Form::Arm { has_guard } => {
                for (i, &n) in node.mutants.iter().enumerate() {
                    let word = if has_guard || i > 0 { "" } else { " if " };
                    let and = if has_guard { " && " } else { "" };
                    out.push_str(&format!("{word}/*M{n}*/!{}/*m{n}*/{and}", changes[&n].on));
                }
            }
            Form::Whole | Form::Operator(..) => {
                out.push('(');
                for &n in &node.mutants {
                    let Change { on, replacement } = &changes[&n];
                    let changed = match node.form {
                        Form::Operator(from, to) => {
                            let (before, after) =
                                (&text[node.range.start..from], &text[to..node.range.end]);
                            format!("{before}{replacement}{after}")
                        }
                        _ => replacement.to_string(),
                    };
                    out.push_str(&format!("if {on} {{ /*M{n}*/ {changed} /*m{n}*/ }} else "));
                }
                out.push_str("{ ");
                emit(text, node.range.clone(), nodes, next, changes, out);
                out.push_str(" })");
            }
        }
    }
    out.push_str(&text[at..range.end]);
}
