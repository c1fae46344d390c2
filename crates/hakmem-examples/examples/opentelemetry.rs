//! The gauges of memory through the crate `opentelemetry`.
//!
//! ```sh
//! cargo run --release -p hakmem-examples --example opentelemetry
//! ```
//!
//! prints what an exporter gets: `hakmem.memory{gauge=allocated} 1234` and five more. A service
//! takes an exporter for OTLP instead of the one in memory.

use hakmem::Hakmem;
use hakmem::stats::gauges;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Meter, MeterProvider};
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData, ResourceMetrics};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};

#[global_allocator]
static ALLOCATOR: Hakmem = Hakmem::new();

/// Makes a gauge with six values. The library reads them when it exports, and not before.
fn observe(meter: &Meter) {
    let builder = meter.u64_observable_gauge("hakmem.memory");
    let builder = builder.with_unit("By").with_callback(|observer| {
        for (name, bytes) in gauges().named() {
            observer.observe(bytes, &[KeyValue::new("gauge", name)]);
        }
    });
    builder.build();
}

/// Prints what was exported.
fn print(exported: &ResourceMetrics) {
    let metrics = exported.scope_metrics().flat_map(|scope| scope.metrics());
    for metric in metrics {
        let AggregatedMetrics::U64(MetricData::Gauge(gauge)) = metric.data() else {
            continue;
        };
        for point in gauge.data_points() {
            let labels: Vec<String> = point
                .attributes()
                .map(|label| format!("{}={}", label.key, label.value))
                .collect();
            println!(
                "{}{{{}}} {}",
                metric.name(),
                labels.join(","),
                point.value()
            );
        }
    }
}

fn main() {
    let exporter = InMemoryMetricExporter::default();
    let provider = SdkMeterProvider::builder()
        .with_periodic_exporter(exporter.clone())
        .build();
    observe(&provider.meter("hakmem"));

    let data = vec![1u8; 10 << 20];
    provider.force_flush().expect("it is exported");
    let exported = exporter.get_finished_metrics().expect("what was exported");
    exported.iter().for_each(print);
    drop(data);
    provider.shutdown().expect("it ends");
}
