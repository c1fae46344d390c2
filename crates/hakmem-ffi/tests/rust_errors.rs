//! Errors of unsafe code in Rust programs: which of them each build finds. `docs/security.md` has
//! the table.

use crate::common::{built, finish};
use crate::errors::{BY_FENCE, bless, built_hardened};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const SIZES: [&str; 3] = ["40", "3000", "200000"];
/// For these errors there are no sizes.
const WITHOUT_SIZE: [&str; 3] = ["on_stack", "variable", "block_of_c"];
/// What the hardened build does not find: C's free takes its block; and a large block that is freed
/// while others wait comes back as it was.
const NOT_FOUND: [(&str, usize); 2] = [("block_of_c", 0), ("read_reused", 2)];
/// What the default build finds at all sizes.
const BY_DEFAULT: [&str; 5] = [
    "twice",
    "twice_between",
    "realloc_freed",
    "on_stack",
    "variable",
];

/// Whether each error is found at each size: as the first event and as a later one. The names are
/// in the program's order.
fn found_by(program: &Path) -> (Vec<String>, BTreeMap<String, [bool; 3]>) {
    let output = finish(Command::new(program).env_remove("HAKMEM_STATS"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let text = String::from_utf8(output.stdout).expect("lines");
    let (mut names, mut found) = (Vec::new(), BTreeMap::new());
    for line in text.lines() {
        let words: Vec<_> = line.split(' ').collect();
        let [name, size, event, outcome] = words[..] else {
            panic!("{line}")
        };
        let i = SIZES.iter().position(|s| *s == size).expect("a size");
        // Later large blocks are fenced only if none was in the same tick of the clock.
        let is_by_chance = i == 2 && event != "1" && BY_FENCE.contains(&name);
        if names.last().is_none_or(|last| last != name) {
            names.push(name.to_owned());
        }
        let all: &mut [bool; 3] = found.entry(name.to_owned()).or_insert([true; 3]);
        all[i] &= outcome != "missed" || is_by_chance;
    }
    (names, found)
}

fn cells(name: &str, found: [bool; 3]) -> String {
    let is_without = WITHOUT_SIZE.contains(&name);
    let cell = |i: usize| match found[i] {
        _ if is_without && i > 0 => " ",
        true => "yes",
        false => "–",
    };
    (0..3).map(cell).collect::<Vec<_>>().join(" | ")
}

fn count(name: &str, found: [bool; 3]) -> usize {
    let sizes = if WITHOUT_SIZE.contains(&name) { 1 } else { 3 };
    found[..sizes].iter().filter(|found| **found).count()
}

#[test]
fn each_build_finds_what_it_promises_of_rust_programs() {
    let default = built::released(&[]).example("errors");
    let hardened = built_hardened().example("errors");
    // By chance the block is the first one of its page, and has no neighbour in front: so two runs.
    let ((names, mut first), (_, second)) = (found_by(&hardened), found_by(&hardened));
    for (name, found) in &mut first {
        let pairs = found.iter_mut().zip(second[name]);
        pairs.for_each(|(found, again)| *found |= again);
    }
    let hardened = first;
    let (_, default) = found_by(&default);
    let mut table = String::from(
        "| error | default: 40 B | 3,000 B | 200,000 B | hardened: 40 B | 3,000 B | 200,000 B |\n\
         |---|---|---|---|---|---|---|\n",
    );
    let (mut all, mut sums) = (0, [0; 2]);
    for name in &names {
        let found = [default[name], hardened[name]];
        for (i, size) in SIZES.iter().enumerate() {
            let is_known = NOT_FOUND.contains(&(name, i));
            let is_none = WITHOUT_SIZE.contains(&name.as_str()) && i > 0;
            assert!(
                is_known || is_none || found[1][i],
                "{name} with {size} bytes is missed"
            );
        }
        let is_shown = BY_DEFAULT.contains(&name.as_str());
        assert!(!is_shown || found[0] == [true; 3], "{name} is missed");
        all += count(name, [true; 3]);
        sums = [0, 1].map(|i| sums[i] + count(name, found[i]));
        let cells = found.map(|found| cells(name, found)).join(" | ");
        table += &format!("| `{name}` | {cells} |\n");
    }
    table += &format!(
        "| **found of {all}** | **{}** | | | **{}** | | |\n",
        sums[0], sums[1]
    );
    bless("rust errors", &table);
}
