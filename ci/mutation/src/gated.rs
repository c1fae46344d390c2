//! Finds the items of a file that this build does not have: their `cfg` does not hold here.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::{fs, io};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Meta, Token};

/// The lines of these items, by file.
#[derive(Default)]
pub struct Gated(HashMap<String, Vec<RangeInclusive<usize>>>);

impl Gated {
    /// True if a line of a file is in such an item.
    pub fn has(&mut self, file: &str, line: usize) -> io::Result<bool> {
        if !self.0.contains_key(file) {
            let parsed = syn::parse_file(&fs::read_to_string(Path::new(file))?);
            let mut finder = Finder(Vec::new());
            finder.visit_file(&parsed.map_err(io::Error::other)?);
            self.0.insert(file.to_owned(), finder.0);
        }
        Ok(self.0[file].iter().any(|lines| lines.contains(&line)))
    }
}

struct Finder(Vec<RangeInclusive<usize>>);

impl Finder {
    fn look(&mut self, attributes: &[Attribute], item: &impl Spanned) {
        let is_out = |a: &Attribute| {
            a.path().is_ident("cfg") && a.parse_args::<Meta>().is_ok_and(|m| !holds(&m))
        };
        if attributes.iter().any(is_out) {
            let span = item.span();
            self.0.push(span.start().line..=span.end().line);
        }
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_fn(&mut self, i: &'ast syn::ItemFn) {
        self.look(&i.attrs, i);
        visit::visit_item_fn(self, i);
    }
    fn visit_impl_item_fn(&mut self, i: &'ast syn::ImplItemFn) {
        self.look(&i.attrs, i);
        visit::visit_impl_item_fn(self, i);
    }
    fn visit_item_mod(&mut self, i: &'ast syn::ItemMod) {
        self.look(&i.attrs, i);
        visit::visit_item_mod(self, i);
    }
    fn visit_item_impl(&mut self, i: &'ast syn::ItemImpl) {
        self.look(&i.attrs, i);
        visit::visit_item_impl(self, i);
    }
    fn visit_item_const(&mut self, i: &'ast syn::ItemConst) {
        self.look(&i.attrs, i);
    }
    fn visit_item_static(&mut self, i: &'ast syn::ItemStatic) {
        self.look(&i.attrs, i);
    }
    fn visit_local(&mut self, i: &'ast syn::Local) {
        self.look(&i.attrs, i);
        visit::visit_local(self, i);
    }
    fn visit_expr_if(&mut self, i: &'ast syn::ExprIf) {
        self.look(&i.attrs, i);
        visit::visit_expr_if(self, i);
    }
    fn visit_expr_block(&mut self, i: &'ast syn::ExprBlock) {
        self.look(&i.attrs, i);
        visit::visit_expr_block(self, i);
    }
}

/// Whether a condition holds in the build of the mutants: of the machine's own target, for tests,
/// with no feature and under no checker.
fn holds(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("test") || path.is_ident("unix"),
        Meta::NameValue(pair) => {
            let value = match &pair.value {
                syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => text.value(),
                _ => return false,
            };
            match () {
                () if pair.path.is_ident("target_os") => value == std::env::consts::OS,
                () if pair.path.is_ident("target_arch") => value == std::env::consts::ARCH,
                () if pair.path.is_ident("target_env") => value == "gnu",
                () => false,
            }
        }
        Meta::List(list) => {
            let parts = list
                .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
                .unwrap_or_default();
            match () {
                () if list.path.is_ident("all") => parts.iter().all(holds),
                () if list.path.is_ident("any") => parts.iter().any(holds),
                () => !parts.iter().all(holds), // not
            }
        }
    }
}
