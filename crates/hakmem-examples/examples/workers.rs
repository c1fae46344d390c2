//! Workers of tokio that give up their free memory before they sleep.
//!
//! tokio calls `on_thread_park` when a worker has nothing to do. There each worker returns the
//! blocks on its free lists, so that other threads can use them, and the system gets the rest back
//! after the decay.
//!
//! ```sh
//! cargo run --release -p hakmem-examples --example workers
//! ```
//!
//! The program prints how much its free lists and live blocks hold at most while all workers sleep:
//!
//! ```text
//! 1000 tasks have run
//! less than 1 MiB is in use
//! ```

use hakmem::{Hakmem, stats};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: Hakmem = Hakmem::new();

const WORKERS: usize = 4;

/// Workers that sleep now.
static ASLEEP: AtomicUsize = AtomicUsize::new(0);

/// A task that needs memory for a moment.
async fn task(number: usize) -> usize {
    let words: Vec<String> = (0..number).map(|i| format!("word {i}")).collect();
    words.len()
}

fn main() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .on_thread_park(|| {
            hakmem::thread_idle();
            ASLEEP.fetch_add(1, Ordering::Relaxed);
        })
        .on_thread_unpark(|| {
            ASLEEP.fetch_sub(1, Ordering::Relaxed);
        })
        .build()?;
    let ran = runtime.block_on(async {
        let tasks: Vec<_> = (0..1000).map(|i| tokio::spawn(task(i))).collect();
        let mut ran = 0;
        for task in tasks {
            ran += usize::from(task.await.is_ok());
        }
        ran
    });
    println!("{ran} tasks have run");

    // A worker that found a task at the last moment sleeps a little later.
    let end = Instant::now() + Duration::from_secs(60);
    while ASLEEP.load(Ordering::Relaxed) < WORKERS && Instant::now() < end {
        std::thread::yield_now();
    }
    hakmem::thread_idle();
    let bytes = stats::process().live_bytes_upper_bound;
    println!("less than {} MiB is in use", bytes / (1 << 20) + 1);
    Ok(())
}
