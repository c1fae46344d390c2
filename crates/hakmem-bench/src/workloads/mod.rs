//! The workloads, and the table of all of them.
//!
//! An operation is what the table says, mostly one block allocated, touched and freed. The counts
//! make a workload last 0.2–0.6 s on the system allocator in a full run, unless another allocator
//! is so much slower at it that the comparison would take minutes; then they are set by that one.

pub mod cfrac;
pub mod churn;
pub mod crossed;
pub mod fixed;
pub mod glibc;
pub mod grow;
pub mod growing;
pub mod large;
pub mod larson;
pub mod latency;
pub mod leak;
pub mod map;
pub mod messages;
pub mod minimiser;
pub mod mixed;
pub mod mstress;
mod natural;
pub mod nbody;
pub mod pareto;
pub mod phases;
pub mod regrow;
pub mod remote;
pub mod rptest;
pub mod sh6;
pub mod sh8;
mod shared;
pub mod sharing;
pub mod text;
pub mod timed;
mod workload;

pub use workload::{Scale, Workload};

use crate::heap::Subject;
use std::alloc::System;

/// Everything that is measured in process, compiled for one allocator. It stands for its workloads:
/// the others are parts of probes and curves and are run by name only.
#[derive(Debug)]
pub struct Suite {
    workloads: &'static [Workload],
    growth: fn() -> &'static [Workload],
    timed: fn() -> &'static [Workload],
}

impl std::ops::Deref for Suite {
    type Target = [Workload];
    fn deref(&self) -> &[Workload] {
        self.workloads
    }
}

impl Suite {
    /// The workload, the step of growth or the timed probe called `name`.
    pub fn any(&self, name: &str) -> Option<&'static Workload> {
        let parts = [self.workloads, (self.growth)(), (self.timed)()];
        parts.iter().find_map(|part| find(part, name))
    }
}

/// The workloads for allocator `A`, and what else is measured on it.
pub fn table<A: Subject>() -> &'static Suite {
    const {
        &Suite {
            workloads: Table::<A>::ALL,
            growth: growing::table::<A>,
            timed: timed::table::<A>,
        }
    }
}

/// The workload called `name` in `table`.
pub fn find(table: &'static [Workload], name: &str) -> Option<&'static Workload> {
    table.iter().find(|w| w.name == name)
}

/// The names of all workloads.
pub fn names() -> impl Iterator<Item = &'static str> {
    table::<System>().iter().map(|w| w.name)
}

/// Names that a measured process takes besides those of workloads.
pub fn names_of_parts() -> impl Iterator<Item = &'static str> {
    let parts = [growing::table::<System>(), timed::table::<System>()];
    parts.into_iter().flatten().map(|w| w.name)
}

struct Table<A>(std::marker::PhantomData<A>);

macro_rules! workload {
    ($name:literal, $ops:expr, $threads:literal, $run:expr, $what:literal, $source:literal) => {
        Workload {
            name: $name,
            ops: $ops,
            threads: $threads,
            what: $what,
            source: $source,
            run: $run,
        }
    };
}

#[rustfmt::skip]
impl<A: Subject> Table<A> {
    const ALL: &'static [Workload] = &[
        workload!("fixed_16", 24_000_000, 1, fixed::run::<A, 16>, "16 B from a batch of 1,000, which is freed FIFO, LIFO, shuffled in turn", "HAKMEM fixed sizes"),
        workload!("fixed_32", 24_000_000, 1, fixed::run::<A, 32>, "the same with 32 B", "HAKMEM fixed sizes"),
        workload!("fixed_64", 24_000_000, 1, fixed::run::<A, 64>, "the same with 64 B", "HAKMEM fixed sizes"),
        workload!("fixed_128", 15_000_000, 1, fixed::run::<A, 128>, "the same with 128 B", "HAKMEM fixed sizes"),
        workload!("fixed_256", 15_000_000, 1, fixed::run::<A, 256>, "the same with 256 B", "HAKMEM fixed sizes"),
        workload!("fixed_512", 15_000_000, 1, fixed::run::<A, 512>, "the same with 512 B", "HAKMEM fixed sizes"),
        workload!("fixed_1024", 8_000_000, 1, fixed::run::<A, 1024>, "the same with 1024 B", "HAKMEM fixed sizes"),
        workload!("tiny_hot", 40_000_000, 1, fixed::tiny_hot::<A>, "64 B, freed at once", "HAKMEM tiny hot"),
        workload!("random_mixed_64", 25_000_000, 1, |n, m| mixed::run::<A>(64, n, m), "replace a random one of 64 blocks by one of 16–1040 B", "HAKMEM random mixed"),
        workload!("random_mixed_1k", 15_000_000, 1, |n, m| mixed::run::<A>(1_000, n, m), "the same with 1,000 blocks", "HAKMEM random mixed"),
        workload!("random_mixed_10k", 8_000_000, 1, |n, m| mixed::run::<A>(10_000, n, m), "the same with 10,000 blocks", "HAKMEM random mixed"),
        workload!("random_mixed_100k", 2_000_000, 1, |n, m| mixed::run::<A>(100_000, n, m), "the same with 100,000 blocks", "HAKMEM random mixed"),
        workload!("pareto", 4_000_000, 1, |n, m| pareto::run::<A>(1, n, m), "replace one of 32,768 blocks, mostly the same few, by one of 8–1024 B after Pareto; all of it written, and read before it goes", "alloc-test"),
        workload!("pareto_mt", 5_000_000, 2, |n, m| pareto::run::<A>(2, n, m), "the same in two threads with blocks of their own", "alloc-test"),
        workload!("glibc_simple", 15_000_000, 1, glibc::bursts::<A>, "bursts of 25, 100, 400, 1,600 blocks of one size of 16–256 B, freed oldest first", "glibc's bench-malloc-simple"),
        workload!("glibc_replace", 5_000_000, 1, |n, m| glibc::replace::<A>(1, n, m), "replace a random one of 1,024 blocks by one of 4 B–32 KiB, each doubling as likely", "glibc's bench-malloc-thread"),
        workload!("glibc_replace_mt", 5_000_000, 2, |n, m| glibc::replace::<A>(2, n, m), "the same in two threads with blocks of their own", "glibc's bench-malloc-thread"),
        workload!("json", 16_000_000, 1, |n, m| large::pairs::<A>(64 << 10, n, m), "64 KiB, freed at once", "HAKMEM json scenario"),
        workload!("mir", 16_000_000, 1, |n, m| large::pairs::<A>(256 << 10, n, m), "256 KiB, freed at once", "HAKMEM mir scenario"),
        workload!("vm", 80_000, 1, large::vm::<A>, "2 MiB, one byte written in every 4 KiB, freed at once", "HAKMEM vm scenario"),
        workload!("mid_large_mt", 1_000_000, 2, large::mid_mt::<A>, "per thread, replace a random one of 64 blocks by one of 8–64 KiB", "HAKMEM mid-large with threads"),
        workload!("buffers", 100, 1, large::buffers::<A>, "replace a random one of 20 buffers by one of 5–25 MiB, each 4 KiB page written", "mimalloc-bench's malloc-large"),
        workload!("realloc_vec", 8, 1, grow::doubling::<A>, "a buffer from 16 B to 64 MiB by doubling, each new 4 KiB page written", "a growing Vec"),
        workload!("realloc_huge", 2, 1, grow::huge::<A>, "a buffer from 1 MiB to 256 MiB by 1.5, all of it written as it grows", "mimalloc issues 614, 693"),
        workload!("realloc_1g", 1024, 1, grow::doubling_to::<A>, "1 MiB of a buffer that doubles from 16 B to 1 GiB, each new 4 KiB page written", "a growing Vec"),
        workload!("calloc_large", 80, 1, large::zeroed::<A>, "64 MiB of zeroes, one byte read and written, freed", "mimalloc issue 1104"),
        workload!("larson", 6_000_000, 2, |n, m| larson::run::<A>((8, 1000), n, m), "replace a random one of 1,000 blocks by one of 8–1000 B; every 10,000 operations a new thread takes over the blocks", "Larson and Krishnan 1998"),
        workload!("larson_unsized", 6_000_000, 2, |n, m| larson::headed::<A>((8, 1000), n, m), "the same where the size stands in the block, to be read before it is freed; the allocator is told it", "Larson and Krishnan 1998"),
        workload!("larson_tiny", 10_000_000, 2, |n, m| larson::run::<A>((8, 128), n, m), "larson with blocks of 8–128 B", "HAKMEM Larson profiles"),
        workload!("larson_mid", 2_000_000, 2, |n, m| larson::run::<A>((1 << 10, 32 << 10), n, m), "larson with blocks of 1–32 KiB", "HAKMEM Larson profiles"),
        workload!("xthread_free", 5_000_000, 2, |n, m| remote::run::<A>(1, n, m), "one thread allocates 16–512 B in batches of 256, another frees", "xmalloc-test"),
        workload!("prodcons_2x2", 5_000_000, 4, |n, m| remote::run::<A>(2, n, m), "the same with two threads on each side of one queue", "xmalloc-test"),
        workload!("xmalloc", 20_000_000, 2, remote::xmalloc::<A>, "one thread allocates 6 B–2 KiB in batches of 4,096, another frees", "xmalloc-test"),
        workload!("rptest", 2_500_000, 2, rptest::run::<A>, "per thread, replace a random one of 1,000 blocks by one of 8–16000 B, mostly small; every other 100 are freed by the other thread", "rpmalloc-benchmark"),
        workload!("thread_churn", 3_000, 2, churn::run::<A>, "a thread that allocates 64 blocks of 16–1024 B, frees them and ends; two at a time", "mleak, thread pools"),
        workload!("thread_leak", 3_000, 2, leak::run::<A>, "a thread that frees 64 blocks of one that has ended, allocates 256 of 16–1024 B, and leaves 64; two at a time", "mimalloc-bench's mleak"),
        workload!("mstress", 3_000_000, 2, mstress::run::<A>, "allocate 16 B–4 KiB, some 64 KiB; some blocks stay, some move through 1,000 slots shared by all threads; threads are replaced", "mimalloc's mstress"),
        workload!("messages", 3_000_000, 4, messages::run::<A>, "a message of 64 B, 8–200 B of text and sometimes 1–32 KiB sent to a mailbox, another received; a thread ends after 2,000", "threads with mailboxes"),
        workload!("crossed", 10_000_000, 4, crossed::run::<A>, "per thread, 16–512 B, some up to 32 KiB, into a random one of 2,000 slots; one of the next thread's is freed", "threads with shared arrays"),
        workload!("string_build", 600_000, 1, text::strings::<A>, "a string of 10–2,000 B built by appending; 1,000 strings live", "text processing"),
        workload!("json_tree", 80, 1, text::trees::<A>, "a JSON-like tree of about 20,000 values, built and dropped", "serde_json values"),
        workload!("hash_map", 3_000_000, 1, map::run::<A>, "an entry with a value of 8–127 B into a hash map that grows to 50,000; a quarter is replaced and a quarter removed before it is dropped", "hash tables"),
        workload!("cfrac", 200_000, 1, cfrac::run::<A>, "a step of factoring 68-bit numbers by continued fractions, each number a block of 4–40 B", "Morrison and Brillhart 1975; cfrac"),
        workload!("minimiser", 2000, 1, minimiser::run::<A>, "a function of 8–12 variables in 12–32 products minimised: complement, expand, irredundant; 64 are kept", "Brayton et al. 1984; espresso"),
        workload!("nbody", 200, 1, nbody::run::<A>, "a step of 4,000 bodies: an octree of them is built, accelerates an eighth of them, and is dropped", "Barnes and Hut 1986; barnes"),
        workload!("sh6_lifo", 10_000_000, 1, |n, m| sh6::run::<A>(sh6::Order::Lifo, n, m), "5,000 small blocks (8–400 B, mostly small), freed newest first", "SmartHeap sh6bench"),
        workload!("sh6_fifo", 10_000_000, 1, |n, m| sh6::run::<A>(sh6::Order::Fifo, n, m), "the same, freed oldest first", "SmartHeap sh6bench"),
        workload!("sh6_random", 8_000_000, 1, |n, m| sh6::run::<A>(sh6::Order::Random, n, m), "the same, freed in random order", "SmartHeap sh6bench"),
        workload!("sh8", 30_000_000, 2, sh8::run::<A>, "per thread, 3,000 small blocks as above; a third is freed oldest, a third newest first, a third at random; one in 16 stays for two rounds", "SmartHeap sh8bench"),
        workload!("phases", 12_000_000, 1, phases::run::<A>, "20 MB of one size of 16 B–40 KB, each time a quarter larger; then all live blocks but a random 5 % are freed", "Robson 1971"),
        workload!("regrow", 6_000_000, 1, regrow::run::<A>, "a million blocks of 24–72 B, of which a random nine tenths are freed, again and again", "a flushed cache"),
        workload!("sharing_active", 8_000_000, 2, sharing::active::<A>, "per thread, allocate 8 B, write it 100 times, free", "Hoard's cache-thrash"),
        workload!("sharing_passive", 8_000_000, 2, sharing::passive::<A>, "the same after freeing a neighbour of the other thread's block", "Hoard's cache-scratch"),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for name in names() {
            assert_eq!(names().filter(|n| *n == name).count(), 1, "{name}");
            assert!(find(table::<System>(), name).is_some());
        }
    }

    #[test]
    fn every_scale_does_something() {
        for w in table::<System>().iter() {
            assert!(
                w.ops_at(Scale::Smoke) >= 1 && w.ops_at(Scale::Quick) <= w.ops_at(Scale::Full),
                "{}",
                w.name
            );
        }
    }
}
