//! Options in the environment: those that hakmem ignores.

use super::finding::{Finding, Verdict};
use crate::build::Build;
use crate::proc::Variables;
use hakmem_core::options::{self, Error, PREFIX};

/// `build`: the one that is to obey them, if that is known. `limited`: whether a control group
/// limits the memory, or may do so.
pub fn finding(variables: &Variables, build: Option<Build>, limited: bool) -> Finding {
    const SUBJECT: &str = "options";
    let ours: Vec<_> = variables
        .iter()
        .filter(|(name, _)| name.starts_with(PREFIX))
        .collect();
    if ours.is_empty() {
        return Finding::ok(SUBJECT, "none set", "All options have their defaults.");
    }
    let all: Vec<_> = ours
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    // This process has another allocator: to set an option here only checks it.
    let wrong = ours
        .iter()
        .find_map(|(name, value)| match options::set(name, value) {
            Ok(()) | Err(Error::AtStart) => None,
            Err(why) => Some(format!("hakmem ignores {name}={value}: {why}.")),
        });
    let all = all.join(" ");
    let note = |why, advice| Finding::new(Verdict::Note, SUBJECT, &all, why, advice);
    if let Some(why) = wrong {
        return note(why, "hakmem options lists the names and their values.");
    }
    if let Some((why, advice)) = build.and_then(|build| of_other_build(variables, build)) {
        return note(why, advice);
    }
    let percent = value(variables, "HAKMEM_LIMIT_PERCENT").unwrap_or_default();
    if !limited && percent.parse().is_ok_and(|percent: u32| percent > 0) {
        let why = "HAKMEM_LIMIT_PERCENT has nothing to act on: no control group limits the memory.";
        return note(
            why.into(),
            "Limit the memory of the group, or set HAKMEM_SOFT_LIMIT_MIB.",
        );
    }
    Finding::ok(SUBJECT, &all, "hakmem options NAME says what each does.")
}

fn value(variables: &Variables, wanted: &str) -> Option<String> {
    let found = variables.iter().find(|(name, _)| name == wanted);
    found.map(|(_, value)| value.clone())
}

/// An option that only the other build obeys, and what to do.
fn of_other_build(variables: &Variables, build: Build) -> Option<(String, &'static str)> {
    let name = build.ignored(|name| value(variables, name))?;
    let advice = match build {
        Build::Default => "hakmem run --hardened PROG takes the hardened build.",
        Build::Hardened => "Only the default build has sampled guards.",
    };
    Some((format!("The {} ignores {name}.", build.name()), advice))
}
