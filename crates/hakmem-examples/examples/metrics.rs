//! The gauges of memory through the crate `metrics`, here for Prometheus.
//!
//! ```sh
//! cargo run --release --example metrics
//! ```
//!
//! prints what a scrape gets: `hakmem_memory_bytes{gauge="allocated"} 1234` and five more.

use hakmem_core::Hakmem;
use hakmem_core::stats::gauges;
use metrics::gauge;
use metrics_exporter_prometheus::PrometheusBuilder;

#[global_allocator]
static ALLOCATOR: Hakmem = Hakmem::new();

/// Passes the gauges on. A program calls this before each scrape, or every few seconds.
fn record() {
    for (name, bytes) in gauges().named() {
        gauge!("hakmem_memory_bytes", "gauge" => name).set(bytes as f64);
    }
}

fn main() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let page = recorder.handle();
    metrics::set_global_recorder(recorder).expect("there is no other recorder");

    let data = vec![1u8; 10 << 20];
    record();
    print!("{}", page.render());
    drop(data);
}
