//! The comments of the source cite rules by the name of a module and a number, as in "`page` rule
//! 2", and those of their own module as in "(rule 2)". Each such rule is there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The numbers of the rules at the beginning of each module, by the module's path.
type Rules = BTreeMap<String, BTreeSet<u32>>;

/// `backend::page` for `backend/page/mod.rs`.
fn module(inside: &Path) -> String {
    let name = inside.with_extension("").display().to_string();
    name.trim_end_matches("/mod").replace('/', "::")
}

fn rules(text: &str) -> BTreeSet<u32> {
    let number = |line: &str| line.strip_prefix("//! ")?.split_once(". ")?.0.parse().ok();
    text.lines().filter_map(number).collect()
}

/// The text in one line, without what begins a line of a comment.
fn joined(text: &str) -> String {
    let line = |line: &str| {
        let line = line.trim_start();
        let marks = ["//! ", "/// ", "// "];
        let text = marks.iter().find_map(|mark| line.strip_prefix(mark));
        text.unwrap_or(line).trim().to_owned()
    };
    text.lines().map(line).collect::<Vec<_>>().join(" ")
}

/// The numbers that `text` begins with: one, or two of "2 and 3", "2, 3" and "2 to 3".
fn numbers(text: &str) -> Vec<u32> {
    let number = |text: &str| {
        let digits = text.chars().take_while(char::is_ascii_digit);
        digits.collect::<String>().parse().ok()
    };
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let second = [" and ", ", ", " to "]
        .iter()
        .find_map(|word| number(rest.strip_prefix(word)?));
    number(text).into_iter().chain(second).collect()
}

/// What `text` cites: the module's name, empty for its own, and the numbers.
fn cited(text: &str) -> Vec<(String, Vec<u32>)> {
    let text = joined(text);
    let mut found = Vec::new();
    for (i, _) in text.match_indices("rule") {
        let (before, after) = (&text[..i], &text[i + "rule".len()..]);
        let after = after.strip_prefix('s').unwrap_or(after);
        let numbers = after.strip_prefix(' ').map(numbers).unwrap_or_default();
        let name = before.strip_suffix("` ").map(|b| b.rsplit('`').next());
        let name = name.flatten().filter(|name| {
            !name.is_empty() && name.chars().all(|c| c.is_lowercase() || "_:".contains(c))
        });
        match name {
            _ if numbers.is_empty() => {}
            Some(name) => found.push((name.to_owned(), numbers)),
            None if before.ends_with('(') => found.push((String::new(), numbers)),
            None => {}
        }
    }
    found
}

/// True if the module of that path, or one that it lies in, has these rules.
fn has_own(all: &Rules, module: &str, numbers: &[u32]) -> bool {
    let has = |path: &str| {
        let rules = all.get(path);
        rules.is_some_and(|rules| numbers.iter().all(|n| rules.contains(n)))
    };
    let outer = module.rsplit_once("::");
    has(module) || outer.is_some_and(|(outer, _)| has_own(all, outer, numbers))
}

#[test]
fn each_that_is_cited_is_there() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    crate::layers::files(&source, &mut paths);
    let files: Vec<_> = paths
        .iter()
        .map(|path| {
            let inside = path.strip_prefix(&source).expect("a file of the source");
            let text = std::fs::read_to_string(path).expect("a file in UTF-8");
            (module(inside), text)
        })
        .collect();
    let all: Rules = files
        .iter()
        .map(|(path, text)| (path.clone(), rules(text)))
        .collect();
    let mut wrong = Vec::new();
    for (path, text) in &files {
        for (name, numbers) in cited(text) {
            let is_there = if name.is_empty() {
                has_own(&all, path, &numbers)
            } else {
                let ends = format!("::{name}");
                all.iter().any(|(of, rules)| {
                    (*of == name || of.ends_with(&ends))
                        && numbers.iter().all(|n| rules.contains(n))
                })
            };
            if !is_there {
                wrong.push(format!("{path}: `{name}` rules {numbers:?}"));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn citations_are_read() {
    let text = "//! 1. A rule (rule 2).\n/// See `page` rule\n/// 12, and `a::b` rules 2 to 3.\n\
                // No rule here; `Page` rule 3 is of no module.";
    let found = cited(text);
    let expected = [("", vec![2]), ("page", vec![12]), ("a::b", vec![2, 3])];
    assert_eq!(
        found,
        expected.map(|(name, numbers)| (name.to_owned(), numbers))
    );
    assert_eq!(rules(text), BTreeSet::from([1]));
}
