//! A reading as a line of JSON: `docs/formats.md` describes the keys.

use super::rates::{History, Rates};
use crate::stat::json::{Object, items, line, of_reading};
use crate::view::Reading;
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// The newest reading.
pub fn text(history: &History) -> String {
    let Some(reading) = history.reading() else {
        return String::new();
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut all = of(reading, history.rates.as_ref());
    all.insert(
        "unix_ms".into(),
        json!(now.ok().map(|now| now.as_millis() as u64)),
    );
    line(all)
}

/// The figures and the rates; null before there are some.
fn of(reading: &Reading, rates: Option<&Rates>) -> Object {
    let mut all = of_reading("top", reading);
    all.insert("rates".into(), rates.map_or(Value::Null, totals));
    let m = &reading.moment;
    for (class, shown) in m.classes.iter().zip(items(&mut all, "classes")) {
        let rate = rates.map(|r| r.classes.get(&class.size).copied().unwrap_or(0.0));
        shown.insert("allocations_per_second".into(), json!(rate));
    }
    // Rates of heaps are in the order of their age.
    let heaps = m.thread_heaps.len();
    for (i, shown) in items(&mut all, "thread_heaps").enumerate() {
        let rate = rates.and_then(|r| r.heaps.get(heaps - 1 - i));
        shown.insert("listed_per_second".into(), json!(rate));
    }
    for (call, shown) in m.syscalls.iter().zip(items(&mut all, "syscalls")) {
        let rate = rates.map(|r| r.calls.get(&call.name).copied().unwrap_or(0.0));
        shown.insert("calls_per_second".into(), json!(rate));
    }
    all
}

fn totals(rates: &Rates) -> Value {
    json!({
        "seconds": rates.seconds,
        "allocations_per_second": rates.allocations,
        "frees_per_second": rates.frees,
        "refills_per_second": rates.refills,
        "remote_frees_per_second": rates.remote_frees,
        "large_allocations_per_second": rates.large,
        "huge_allocations_per_second": rates.huge,
        "syscalls_per_second": rates.syscalls,
        "purged_bytes_per_second": rates.purged_bytes,
        "busy_processors": rates.cpu,
    })
}
