//! The folders of the source are layers: each uses those ahead of it in `src/README.md`, and none
//! behind.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The names in the list of the page, in their order.
fn layers() -> Vec<String> {
    let page = std::fs::read_to_string(source().join("README.md")).expect("the page");
    let item = |line: &str| {
        let (number, rest) = line.split_once(". `")?;
        number.parse::<u32>().ok()?;
        Some(rest.split_once('`')?.0.to_owned())
    };
    page.lines().filter_map(item).collect()
}

/// The number of modules that a file of the source lies in, itself included.
fn depth(inside: &Path) -> usize {
    let folder_itself = inside.ends_with("mod.rs");
    inside.components().count() - usize::from(folder_itself)
}

/// What `text` names of the crate, without its comments and its tests. The text is of a module that
/// lies `depth` deep: so many `super::` lead to the crate.
fn uses(text: &str, depth: usize) -> BTreeSet<String> {
    let text = text.split("\nmod tests {").next().unwrap_or_default();
    let code = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    let code = code.collect::<Vec<_>>().join("\n");
    let code = code.replace(&"super::".repeat(depth), "crate::");
    let mut found = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let word = |text: &str| text.chars().take_while(|&c| is_word(c)).collect();
        match rest.strip_prefix('{') {
            None => {
                found.insert(word(rest));
            }
            Some(group) => {
                // The first word of each item; the items of inner groups are what is behind it.
                let mut depth = 1;
                let mut begins = true;
                for (i, c) in group.char_indices() {
                    match c {
                        '{' => depth += 1,
                        '}' => depth -= 1,
                        ',' if depth == 1 => begins = true,
                        c if begins && is_word(c) => {
                            found.insert(word(&group[i..]));
                            begins = false;
                        }
                        _ => {}
                    }
                    if depth == 0 {
                        break;
                    }
                }
            }
        }
    }
    found
}

pub fn files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => files(&path, into),
            false if path.extension().is_some_and(|e| e == "rs") => into.push(path),
            false => {}
        }
    }
}

#[test]
fn each_uses_only_those_ahead_of_it() {
    let layers = layers();
    let place = |name: &str| layers.iter().position(|layer| layer == name);
    let mut all = Vec::new();
    files(&source(), &mut all);
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for path in all {
        let inside = path.strip_prefix(source()).expect("a file of the source");
        let first = inside.iter().next().expect("a name").to_string_lossy();
        let layer = first.trim_end_matches(".rs");
        let is_test =
            inside.ends_with("tests.rs") || inside.components().any(|c| c.as_os_str() == "tests");
        if ["lib", "model", "testing"].contains(&layer) || is_test {
            continue;
        }
        let own = place(layer).unwrap_or_else(|| panic!("src/README.md does not name {layer}"));
        seen.insert(own);
        let text = std::fs::read_to_string(&path).expect("a file in UTF-8");
        for name in uses(&text, depth(inside)) {
            if place(&name).is_some_and(|of| of > own) {
                wrong.push(format!("{} uses {name}", inside.display()));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
    assert_eq!(
        seen.len(),
        layers.len(),
        "src/README.md names one that is not there"
    );
}

#[test]
fn groups_of_names_are_read() {
    let text = "use crate::{a, b::{c, d}, e as f};\n// crate::g\nlet x = crate::h::i();\n\
                use super::k;\nuse super::super::l::m;\n\nmod tests {\n crate::j";
    let found: Vec<_> = uses(text, depth(Path::new("a/b.rs"))).into_iter().collect();
    assert_eq!(found, ["a", "b", "e", "h", "l"]);
    assert_eq!(depth(Path::new("a/b/mod.rs")), 2);
}
