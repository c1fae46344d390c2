//! The gauges of memory through the crate `metrics`.
//!
//! ```sh
//! cargo run --release -p hakmem-examples --example metrics
//! ```
//!
//! The program prints what an exporter gets, here by a recorder of its own. A service installs an
//! exporter such as `metrics-exporter-prometheus` instead, and calls `record` every few seconds:
//!
//! ```text
//! hakmem_memory_bytes{gauge=allocated} 10488960
//! …
//! ```

use hakmem::Hakmem;
use hakmem::stats::gauges;
use metrics::{
    Counter, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: Hakmem = Hakmem::new();

/// Passes the gauges on.
fn record() {
    for (name, bytes) in gauges().named() {
        metrics::gauge!("hakmem_memory_bytes", "gauge" => name).set(bytes as f64);
    }
}

/// Prints each gauge when it is set.
struct Printer;

struct Line(Key);

impl GaugeFn for Line {
    fn set(&self, value: f64) {
        let labels = self.0.labels().map(|label| (label.key(), label.value()));
        let labels: Vec<String> = labels.map(|(key, of)| format!("{key}={of}")).collect();
        println!("{}{{{}}} {value}", self.0.name(), labels.join(","));
    }
    fn increment(&self, _: f64) {}
    fn decrement(&self, _: f64) {}
}

impl Recorder for Printer {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(Arc::new(Line(key.clone())))
    }
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

fn main() {
    metrics::set_global_recorder(Printer).expect("there is no other recorder");
    let data = vec![1u8; 10 << 20];
    record();
    drop(data);
}
