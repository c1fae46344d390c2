//! The criterion benches of hakmem and its peers; one executable, because each one links for a
//! while.

mod large;
mod mixed;
mod small;
mod threads;

use criterion::Criterion;
use std::time::Duration;

/// Calls `$bench::<A>($group, name, …)` for every allocator of the comparison.
#[macro_export]
macro_rules! for_each_allocator {
    ($bench:ident, $group:expr $(, $argument:expr)*) => {
        $bench::<hakmem_core::Hakmem>($group, "hakmem" $(, $argument)*);
        #[cfg(feature = "mimalloc")]
        $bench::<mimalloc::MiMalloc>($group, "mimalloc" $(, $argument)*);
        $bench::<std::alloc::System>($group, "system" $(, $argument)*);
    };
}

fn main() {
    // Short enough for all of them in a few minutes; `hakmem-bench compare` is for figures that go
    // on record.
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    small::benches(&mut criterion);
    mixed::benches(&mut criterion);
    large::benches(&mut criterion);
    threads::benches(&mut criterion);
    criterion.final_summary();
}
