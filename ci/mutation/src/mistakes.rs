//! Reads the deliberate mistakes that models must find, and finds their places in the source. The
//! list is `crates/hakmem-core/tests/mistakes/list.toml`.

use crate::weave::{Change, Form, Node, Places, choices};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// All mistakes by their names.
pub type Mistakes = BTreeMap<String, Mistake>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mistake {
    /// One sentence, for readers.
    #[serde(rename = "what")]
    _what: String,
    pub places: Vec<Place>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The file, below the crate's `src`.
    pub file: String,
    /// The function; None: the text is the file's only one.
    #[serde(rename = "in")]
    function: Option<String>,
    replace: String,
    by: String,
}

/// Asks whether a mistake is made; for the end of `base/sync/mod.rs`. The test program has the
/// answer.
pub const SWITCH: &str = "
pub(crate) fn makes(mistake: &str) -> bool {
    unsafe extern \"Rust\" {
        safe fn hakmem_makes(mistake: &str) -> bool;
    }
    hakmem_makes(mistake)
}
";

/// What can be replaced in a file.
struct Parts<'a> {
    places: Places<'a>,
    /// Expressions, and the insides of blocks.
    wholes: Vec<Range<usize>>,
    /// The bodies of functions, by name.
    bodies: Vec<(String, Range<usize>)>,
}

impl Parts<'_> {
    fn body(&mut self, sig: &syn::Signature, block: &syn::Block) {
        self.bodies.push((sig.ident.to_string(), self.places.range(block.span())));
    }

    /// The one place of a text.
    fn find(&self, text: &str, place: &Place) -> Result<Range<usize>, String> {
        let all = text.match_indices(&place.replace).map(|(at, found)| at..at + found.len());
        let is_in = |at: &Range<usize>| match &place.function {
            None => true,
            Some(name) => self
                .bodies
                .iter()
                .any(|(n, body)| n == name && body.start <= at.start && at.end <= body.end),
        };
        let found: Vec<_> = all.filter(is_in).collect();
        match &found[..] {
            [one] => Ok(one.clone()),
            more => {
                let function =
                    place.function.as_ref().map_or(String::new(), |name| format!(", in {name},"));
                Err(format!(
                    "{}{function} has this {} times, not once: {}",
                    place.file,
                    more.len(),
                    place.replace
                ))
            }
        }
    }

    /// The smallest part that has all of `range`.
    fn around(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let around =
            self.wholes.iter().filter(|whole| whole.start <= range.start && range.end <= whole.end);
        around.min_by_key(|whole| whole.len()).cloned()
    }
}

impl<'ast> Visit<'ast> for Parts<'_> {
    fn visit_item_fn(&mut self, f: &'ast syn::ItemFn) {
        self.body(&f.sig, &f.block);
        visit::visit_item_fn(self, f);
    }
    fn visit_impl_item_fn(&mut self, f: &'ast syn::ImplItemFn) {
        self.body(&f.sig, &f.block);
        visit::visit_impl_item_fn(self, f);
    }
    /// `const_new!` has a function.
    fn visit_impl_item_macro(&mut self, m: &'ast syn::ImplItemMacro) {
        if let Ok(f) = m.mac.parse_body() {
            Visit::visit_impl_item_fn(self, &f);
        }
    }
    fn visit_expr(&mut self, e: &'ast syn::Expr) {
        self.wholes.push(self.places.range(e.span()));
        visit::visit_expr(self, e);
    }
    fn visit_block(&mut self, b: &'ast syn::Block) {
        let braces = b.brace_token.span;
        self.wholes
            .push(self.places.range(braces.open()).end..self.places.range(braces.close()).start);
        visit::visit_block(self, b);
    }
}

/// `text`, which is that of `file`, with those of `mistakes` that are in it and `wanted`, each as a
/// choice. All that are in it must fit.
pub fn weave(
    file: &str,
    text: &str,
    mistakes: &Mistakes,
    wanted: &BTreeSet<&str>,
) -> Result<String, String> {
    let parsed = syn::parse_file(text).map_err(|e| format!("{file}: {e}"))?;
    let mut parts = Parts { places: Places::new(text), wholes: Vec::new(), bodies: Vec::new() };
    parts.visit_file(&parsed);
    // Which range is what instead, and which part is what with all of a mistake's changes that are
    // in it.
    let mut wholes = Vec::new();
    for (name, mistake) in mistakes {
        let mut edits = Vec::new();
        for place in mistake.places.iter().filter(|place| place.file == file) {
            let found = parts.find(text, place).map_err(|e| format!("{name}: {e}"))?;
            edits.push((found, &*place.by));
        }
        edits.sort_by_key(|(range, _)| range.start);
        for (range, _) in edits.iter().filter(|_| wanted.contains(name.as_str())) {
            let whole = parts
                .around(range)
                .ok_or_else(|| format!("{name}: {file}: no part of a function"))?;
            wholes.push((name, changed(text, &whole, &edits), whole));
        }
    }
    let (mut nodes, mut changes) = (Vec::new(), BTreeMap::new());
    for (number, (name, replacement, range)) in wholes.iter().enumerate() {
        nodes.push(Node { range: range.clone(), form: Form::Whole, mutants: vec![number] });
        changes.insert(
            number,
            Change { on: format!("crate::base::sync::makes({name:?})"), replacement },
        );
    }
    Ok(choices(text, nodes, &changes))
}

/// The part `whole` of a text with those of `edits` that are in it, which are in order.
fn changed(text: &str, whole: &Range<usize>, edits: &[(Range<usize>, &str)]) -> String {
    let (mut out, mut at) = (String::new(), whole.start);
    for (range, by) in
        edits.iter().filter(|(range, _)| whole.start <= range.start && range.end <= whole.end)
    {
        out.push_str(&text[at..range.start]);
        out.push_str(by);
        at = range.end;
    }
    out + &text[at..whole.end]
}
