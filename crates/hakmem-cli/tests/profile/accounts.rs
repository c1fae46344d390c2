//! What programs say that they allocated, and how a profile attributes it.

use super::common::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;

/// What a function did, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Account {
    pub live: f64,
    pub all: f64,
}

/// The program's own accounts.
pub fn truth(output: &Output) -> BTreeMap<String, Account> {
    let text = stdout(output);
    let lines = text.lines().map(|line| {
        let words: Vec<_> = line.split(' ').collect();
        let [name, live, all] = words[..] else {
            panic!("{line}")
        };
        (
            name.to_owned(),
            Account {
                live: live.parse().unwrap(),
                all: all.parse().unwrap(),
            },
        )
    });
    lines.collect()
}

/// Reads folded stacks: the functions, outermost first, and the bytes.
pub fn folded(path: &Path) -> Vec<(Vec<String>, f64)> {
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty()).map(|line| {
        let (stack, bytes) = line.rsplit_once(' ').unwrap();
        (
            stack.split(';').map(str::to_owned).collect(),
            bytes.parse().unwrap(),
        )
    });
    lines.collect()
}

/// At least 95 % of each function's bytes are its own, and no other's are.
pub fn attributed(
    truth: &BTreeMap<String, Account>,
    prefix: &Path,
    name_of: impl Fn(&str) -> String,
) {
    for which in ["live", "allocated"] {
        let stacks = folded(&prefix.with_extension(format!("{which}.folded")));
        let mut missing = 0.0;
        let mut total = 0.0;
        for (name, account) in truth {
            let want = if which == "live" {
                account.live
            } else {
                account.all
            };
            let name = name_of(name);
            let of = |stack: &[String]| stack.contains(&name);
            let got: f64 = stacks
                .iter()
                .filter(|(stack, _)| of(stack))
                .map(|(_, bytes)| bytes)
                .sum();
            println!("{which} {name}: {got} for {want}");
            // What is sampled has an error of its own, of about 2 % here.
            assert!(
                got > want * 0.93 - 1e6 && got < want * 1.07 + 1e6,
                "{which} {name}: {got} for {want}"
            );
            missing += (want - got).max(0.0);
            total += want;
        }
        assert!(
            missing < 0.05 * total,
            "{which}: {missing} of {total} bytes are not where they belong"
        );
        let elsewhere: f64 = stacks
            .iter()
            .filter(|(stack, _)| !truth.keys().any(|name| stack.contains(&name_of(name))))
            .map(|(_, bytes)| bytes)
            .sum();
        assert!(
            elsewhere < 0.05 * total,
            "{which}: {elsewhere} bytes besides {total}"
        );
    }
}
