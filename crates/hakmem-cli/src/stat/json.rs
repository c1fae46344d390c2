//! The figures as JSON, for programs: `docs/formats.md` describes the keys. Most are those of a
//! report.

use super::figures::Moment;
use crate::view::Reading;
use serde_json::{Map, Value, json};

/// Rises when a key changes its meaning or goes.
const SCHEMA: u32 = 1;

pub type Object = Map<String, Value>;

/// An object on a line of its own.
pub fn line(object: Object) -> String {
    Value::from(object).to_string() + "\n"
}

/// A report.
pub fn of(m: &Moment) -> Object {
    let mut all = figures("stat", m);
    all.insert("exact".into(), (m.running_heaps == 0).into());
    all
}

/// A reading; `kind` is the command that took it.
pub fn of_reading(kind: &str, look: &Reading) -> Object {
    let mut m = look.moment.clone();
    m.event = "outside".into();
    m.decisions = look.decisions.iter().map(|d| d.what.clone()).collect();
    let mut all = figures(kind, &m);
    let usage = &look.usage;
    all.extend([
        ("exact".into(), look.whole.into()),
        ("program".into(), usage.name.as_str().into()),
        ("threads".into(), known(usage.threads)),
        ("process_resident_bytes".into(), known(usage.resident_bytes)),
        // They are not read.
        ("foreign_sites".into(), Value::Null),
    ]);
    all
}

/// A number that is 0 only if it is not known, or if there is none.
fn known(number: u64) -> Value {
    match number {
        0 => Value::Null,
        _ => number.into(),
    }
}

/// What is known of a process at one moment; null for the rest.
fn figures(kind: &str, m: &Moment) -> Object {
    let mut all = object(m);
    all.remove("peak_resident_kib");
    all.extend([
        ("schema".into(), SCHEMA.into()),
        ("kind".into(), kind.into()),
        (
            "peak_resident_bytes".into(),
            known(m.peak_resident_kib.saturating_mul(1024)),
        ),
        ("program".into(), Value::Null),
        ("threads".into(), Value::Null),
        ("process_resident_bytes".into(), Value::Null),
        ("hard_limit_bytes".into(), known(m.hard_limit_bytes)),
    ]);
    let unknown = |keys: &[&str], all: &mut Object| {
        all.extend(keys.iter().map(|&key| (key.into(), Value::Null)));
    };
    if m.resident_bytes == 0 && m.live_bytes > 0 {
        unknown(&["resident_bytes"], &mut all);
    }
    // No process runs without a page fault.
    if m.minor_faults == 0 && m.major_faults == 0 {
        unknown(&["minor_faults", "major_faults", "cpu_nanos"], &mut all);
    }
    if m.held_bytes.is_none() {
        unknown(&["refused"], &mut all);
    }
    for (heap, shown) in m.program_heaps.iter().zip(items(&mut all, "program_heaps")) {
        shown.insert("limit_bytes".into(), known(heap.limit_bytes));
    }
    for (call, shown) in m.syscalls.iter().zip(items(&mut all, "syscalls")) {
        if call.calls > 0 {
            shown.insert("nanos".into(), known(call.nanos));
        }
    }
    all
}

fn object(m: &Moment) -> Object {
    match json!(m) {
        Value::Object(all) => all,
        _ => Object::new(),
    }
}

/// The items of a list.
pub fn items<'a>(all: &'a mut Object, list: &str) -> impl Iterator<Item = &'a mut Object> {
    let items = all.get_mut(list).and_then(Value::as_array_mut);
    items.into_iter().flatten().filter_map(Value::as_object_mut)
}

#[cfg(test)]
mod tests {
    use super::super::figures::{ProgramHeap, Syscall};
    use super::*;

    /// What a report has as 0 because nothing says it.
    #[test]
    fn what_is_not_known_is_null() {
        let call = |nanos| Syscall {
            name: "mmap".into(),
            calls: 3,
            nanos,
            ..Syscall::default()
        };
        let all = of(&Moment {
            live_bytes: 64,
            program_heaps: vec![ProgramHeap::default()],
            syscalls: vec![call(0), call(7)],
            ..Moment::default()
        });
        for key in [
            "resident_bytes",
            "peak_resident_bytes",
            "process_resident_bytes",
            "program",
            "threads",
            "minor_faults",
            "major_faults",
            "cpu_nanos",
            "held_bytes",
            "hard_limit_bytes",
            "refused",
        ] {
            assert_eq!(all[key], Value::Null, "{key}");
        }
        assert_eq!(all["program_heaps"][0]["limit_bytes"], Value::Null);
        assert_eq!(all["syscalls"][0]["nanos"], Value::Null);
        assert_eq!(all["syscalls"][1]["nanos"], 7);
        assert_eq!(all["live_bytes"], 64);
        assert_eq!(all["frees"], 0);
    }

    #[test]
    fn what_is_known_is_there() {
        let all = of(&Moment {
            resident_bytes: 4096,
            peak_resident_kib: 3,
            major_faults: 1,
            held_bytes: Some(0),
            hard_limit_bytes: 1 << 20,
            ..Moment::default()
        });
        for (key, value) in [
            ("resident_bytes", 4096),
            ("peak_resident_bytes", 3072),
            ("minor_faults", 0),
            ("major_faults", 1),
            ("cpu_nanos", 0),
            ("held_bytes", 0),
            ("hard_limit_bytes", 1 << 20),
            ("refused", 0),
        ] {
            assert_eq!(all[key], value, "{key}");
        }
        assert_eq!(all.get("peak_resident_kib"), None);
    }
}
