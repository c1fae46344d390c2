//! When the next sample of a heap is due. `estimate` draws the distances.
//!
//! A sample's place is a number: what the heap's count of allocated blocks of the class will be. So
//! the code that allocates notes nothing here. The caller passes that count of a class, modulo
//! [`WRAP`], as `handed`.

use super::pace::Pace;
use super::{DEFAULT_INTERVAL, estimate, interval_of, outside, run};
use crate::base::size_class::{CLASSES, SIZES};
use crate::guard::points::Points;
use crate::os;
use crate::unwind::stack::Scratch;
use core::cell::{Cell, UnsafeCell};

/// Counts of blocks are modulo this.
pub const WRAP: u32 = 1 << 31;
/// The largest distance of a point, in blocks.
const FAR: u64 = 1 << 30;
/// Stands in place of a shift: there is no point yet, and the next one is to be drawn at that
/// count.
const NONE_YET: u8 = u8::MAX;

/// The next samples of a heap. Its memory lives for ever, as the heap's does. The fields that each
/// refill reads come first.
#[repr(C)]
pub struct Sampler {
    /// The run of the profile for which the points and the thread are right. Any other number:
    /// `begin` must run.
    run: Cell<u32>,
    /// The next point of each class: the count at which the next block is the sample.
    due_at: [Cell<u32>; CLASSES],
    /// The shift of the interval when the point was drawn, a power of two; or `NONE_YET`.
    shift: [Cell<u8>; CLASSES],
    /// The run in which the points were drawn, and its interval.
    drawn_in: Cell<u32>,
    interval: Cell<u64>,
    /// Bytes of large and huge blocks, and of blocks of program heaps, before the next such sample.
    /// None: it is to be drawn.
    large_left: Cell<Option<u64>>,
    large_shift: Cell<u32>,
    /// The samples that get a guarded place.
    pub guards: Points,
    pace: Pace,
    random: Cell<u64>,
    scratch_in_use: Cell<bool>,
    scratch: UnsafeCell<Scratch>,
}

impl Sampler {
    /// Makes a sampler, in memory from the system. None: out of memory.
    #[cold]
    pub fn make() -> Option<&'static Self> {
        let at = os::map_memory(size_of::<Self>())?;
        // SAFETY: fresh memory of that size, aligned to a system page, and nobody else has it. It
        // is zero, which is valid for all fields but `large_left`, and that is written first. This
        // does not touch most of the scratch.
        let this = unsafe {
            let this = os::at(at).cast::<Self>();
            (&raw mut (*this).large_left).write(Cell::new(None));
            &*this
        };
        this.random.set(at as u64 ^ os::now_ns().rotate_left(32));
        Some(this)
    }

    /// splitmix64.
    fn next_random(&self) -> u64 {
        self.random.set(self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        let mut z = self.random.get();
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// The heap gets another thread, which has another stack, and maybe another speed.
    pub fn change_thread(&self) {
        self.run.set(0);
        self.with_scratch(Scratch::forget);
    }

    /// Blocks of `class` that the heap may allocate before `is_due` must run again. 0: at the next
    /// block, or because the points are not of this run.
    #[inline(always)]
    pub fn left(&self, class: usize, handed: u32) -> u32 {
        if self.run.get() == run() { self.distance(class, handed) } else { 0 }
    }

    /// The distance to the next point, if there is one.
    #[inline(always)]
    pub fn distance(&self, class: usize, handed: u32) -> u32 {
        self.due_at[class].get().wrapping_sub(handed) % WRAP
    }

    /// True if the next block of `class` is a sample.
    pub fn is_due(&self, class: usize, handed: impl Fn(usize) -> u32) -> bool {
        if self.run.get() != run() {
            self.begin(&handed);
        }
        while self.distance(class, handed(class)) == 0 {
            if self.shift[class].get() != NONE_YET {
                return true;
            }
            self.draw(class, handed(class));
        }
        false
    }

    /// Makes the sampler fit for the present run. Forgets points of another run, as counts went on
    /// meanwhile or began anew. It may forget points at any time: distances have no memory.
    #[cold]
    fn begin(&self, handed: impl Fn(usize) -> u32) {
        outside::prepare();
        let run = run();
        if self.drawn_in.replace(run) != run {
            self.interval.set(interval_of(run));
            self.large_left.set(None);
            for class in 0..CLASSES {
                self.due_at[class].set(handed(class));
                self.shift[class].set(NONE_YET);
            }
        }
        self.run.set(run);
        if self.pace.shift() > 0 && self.pace.look(os::now_ns()) {
            self.draw_nearer(handed);
        }
    }

    /// The next block of `class`, which is due, becomes a sample or is left out. Draws the point
    /// after it. Returns the interval that this point was drawn with. `now` reads the clock.
    pub fn take(
        &self,
        class: usize,
        handed: impl Fn(usize) -> u32,
        now: impl FnOnce() -> u64,
    ) -> u64 {
        let interval = self.interval.get() << self.shift[class].get();
        self.keep_pace(&handed, now);
        self.draw(class, handed(class).wrapping_add(1));
        interval
    }

    /// Draws the next point of `class`, from the block that comes at the count `from`.
    fn draw(&self, class: usize, from: u32) {
        let shift = self.pace.shift();
        let blocks = estimate::distance(self.next_random(), self.interval.get() << shift)
            / u64::from(SIZES[class]);
        self.shift[class].set(if blocks < FAR { shift as u8 } else { NONE_YET });
        self.due_at[class].set(from.wrapping_add(blocks.min(FAR) as u32));
    }

    /// The interval of the sample that an allocation of `size` bytes is, a large or huge block.
    /// None: it is no sample.
    pub fn take_large(
        &self,
        size: u64,
        handed: impl Fn(usize) -> u32,
        now: impl FnOnce() -> u64,
    ) -> Option<u64> {
        self.take_first(size, 1, handed, now).map(|(_, interval)| interval)
    }

    /// The first sample of the next `count` blocks of `size` bytes: how many come before it, and
    /// its interval. The blocks behind it are to be looked at anew. None: there is none.
    pub fn take_first(
        &self,
        size: u64,
        count: u64,
        handed: impl Fn(usize) -> u32,
        now: impl FnOnce() -> u64,
    ) -> Option<(u64, u64)> {
        if self.run.get() != run() {
            self.begin(&handed);
        }
        let left = self.large_left.get().unwrap_or_else(|| {
            self.large_shift.set(self.pace.shift());
            estimate::distance(self.next_random(), self.interval.get() << self.pace.shift())
        });
        let all = size * count;
        self.large_left.set(left.checked_sub(all));
        if left >= all {
            return None;
        }
        let interval = self.interval.get() << self.large_shift.get();
        self.keep_pace(handed, now);
        Some((left.checked_div(size)?, interval))
    }

    /// Counts a sample for the pace. A program that sets a smaller interval than the default gets
    /// it, whatever it costs.
    fn keep_pace(&self, handed: impl Fn(usize) -> u32, now: impl FnOnce() -> u64) {
        if self.interval.get() >= DEFAULT_INTERVAL && self.pace.took(now) {
            self.draw_nearer(handed);
        }
    }

    /// The interval is shorter than before: draws long distances anew. Otherwise a program that
    /// once allocated fast would wait long for its samples. A point at the next block stays. For
    /// any other class the next block is known to be no sample, that stays so, and what comes after
    /// it has no memory.
    #[cold]
    fn draw_nearer(&self, handed: impl Fn(usize) -> u32) {
        let shift = self.pace.shift();
        for class in 0..CLASSES {
            if u32::from(self.shift[class].get()) > shift && self.distance(class, handed(class)) > 0
            {
                self.draw(class, handed(class).wrapping_add(1));
            }
        }
        if self.large_shift.get() > shift {
            self.large_left.set(None);
        }
    }

    /// Runs `f` with the scratch. None: a frame of this thread that a signal interrupted is using
    /// it.
    pub fn with_scratch<R>(&self, f: impl FnOnce(&mut Scratch) -> R) -> Option<R> {
        if self.scratch_in_use.replace(true) {
            return None;
        }
        // SAFETY: only the heap's holder calls this, which is the calling thread, and the flag was
        // not set: no other frame of the thread has a reference to the scratch (rule 3 of
        // `profile`).
        let result = f(unsafe { &mut *self.scratch.get() });
        self.scratch_in_use.set(false);
        Some(result)
    }
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests {
    extern crate std;
    use super::*;
    use crate::base::sync::Ordering::Relaxed;
    use std::collections::BTreeSet;

    const HUGE: u64 = 1 << 20;

    /// A program with blocks of all classes above 16 KiB, of one of the smallest classes, and of
    /// large ones. It has a clock of its own.
    struct Program {
        sampler: &'static Sampler,
        /// The heap's lists, cut where a sample is due.
        lists: [u32; CLASSES],
        handed: [u32; CLASSES],
        now: u64,
        allocated: f64,
        /// The sum that the samples stand for, the square of its standard error, and their
        /// intervals.
        estimate: f64,
        variance: f64,
        intervals: BTreeSet<u64>,
    }

    impl Program {
        fn new() -> Self {
            // For all tests of this process. They sample nothing.
            super::super::INTERVAL.store(DEFAULT_INTERVAL, Relaxed);
            super::super::RUN.store(1, Relaxed);
            let sampler = Sampler::make().unwrap();
            // Counts that wrap soon.
            let handed = [WRAP - 100; CLASSES];
            (0..CLASSES).for_each(|class| assert_eq!(sampler.left(class, handed[class]), 0));
            let (now, intervals) = (1 << 40, BTreeSet::new());
            Self {
                sampler,
                lists: [0; CLASSES],
                handed,
                now,
                allocated: 0.0,
                estimate: 0.0,
                variance: 0.0,
                intervals,
            }
        }

        fn sample(&mut self, size: u64, interval: u64) {
            let p = -(-(size as f64) / interval as f64).exp_m1();
            self.estimate += size as f64 / p;
            self.variance += (size as f64 / p).powi(2) * (1.0 - p);
            self.intervals.insert(interval);
        }

        /// Allocates one block of each kind, at `ns` nanoseconds for a MiB.
        fn round(&mut self, ns: u64) {
            for class in (0..CLASSES).filter(|&class| class == 1 || SIZES[class] > 16 << 10) {
                let size = u64::from(SIZES[class]);
                self.allocated += size as f64;
                self.now += (ns * size) >> 20;
                if self.lists[class] == 0 {
                    if self.sampler.is_due(class, |class| self.handed[class]) {
                        let interval =
                            self.sampler.take(class, |class| self.handed[class], || self.now);
                        self.sample(size, interval);
                        self.handed[class] = (self.handed[class] + 1) % WRAP;
                        continue;
                    }
                    self.lists[class] = self.sampler.left(class, self.handed[class]).min(16);
                    self.handed[class] = (self.handed[class] + self.lists[class]) % WRAP;
                }
                self.lists[class] -= 1;
            }
            self.allocated += HUGE as f64;
            self.now += ns;
            if let Some(interval) =
                self.sampler.take_large(HUGE, |class| self.handed[class], || self.now)
            {
                self.sample(HUGE, interval);
            }
        }
    }

    #[test]
    fn estimates_stay_right_while_the_interval_changes() {
        let mut program = Program::new();
        for phase in 0..4000 {
            // Half a GiB a second, and 2.5 to 40 GiB, for as short a time as the pace can change.
            let ns = [2_000_000, 400_000, 80_000, 25_000][phase % 4];
            for _ in 0..[4, 20, 60, 120][phase % 4] {
                program.round(ns);
            }
        }
        let off = (program.estimate - program.allocated) / program.variance.sqrt();
        let exact = program.variance.sqrt() / program.allocated;
        assert!(off.abs() < 4.5 && exact < 0.015, "{off} standard errors of {exact}");
        assert!(program.intervals.len() >= 4, "{:?}", program.intervals);
    }

    #[test]
    fn a_distance_keeps_the_interval_that_it_was_drawn_with() {
        let sampler = Program::new().sampler;
        // No window of the pace ends.
        let (handed, now) = (|_: usize| 0, || 0);
        assert_eq!(sampler.take_large(0, handed, now), None);
        sampler.draw(7, 0);
        sampler.pace.set_shift(3);
        assert_eq!(sampler.take(7, handed, now), DEFAULT_INTERVAL);
        assert_eq!(sampler.take_large(u64::MAX, handed, now), Some(DEFAULT_INTERVAL));
        sampler.pace.set_shift(5);
        assert_eq!(sampler.take(7, handed, now), DEFAULT_INTERVAL << 3);
        assert_eq!(sampler.take_large(0, handed, now), None);
        assert_eq!(sampler.take_large(u64::MAX, handed, now), Some(DEFAULT_INTERVAL << 5));
    }

    /// The block after a change is found with the old interval, or not at all. On average it is
    /// found once.
    #[test]
    fn a_block_that_was_looked_at_is_not_looked_at_again() {
        const CLASS: usize = CLASSES - 1;
        let sampler = Program::new().sampler;
        sampler.begin(|_| 0);
        let (mut found, mut times) = (0.0, 0.0);
        let weight = 1.0 / -(-f64::from(SIZES[CLASS]) / (DEFAULT_INTERVAL << 2) as f64).exp_m1();
        for _ in 0..50_000 {
            sampler.pace.set_shift(2);
            sampler.draw(CLASS, 0);
            sampler.pace.set_shift(0);
            sampler.draw_nearer(|_| 0);
            times += 1.0;
            if sampler.is_due(CLASS, |_| 0) {
                assert_eq!(sampler.shift[CLASS].get(), 2);
                found += weight;
            }
        }
        let error = (weight / times).sqrt();
        assert!(
            (found / times - 1.0).abs() < 5.0 * error && error < 0.1,
            "{} ± {error}",
            found / times
        );
    }

    /// A point beyond the range of counts is drawn in parts.
    #[test]
    fn a_point_may_be_farther_away_than_counts_go() {
        let sampler = Program::new().sampler;
        sampler.begin(|_| 0);
        let mut sum = 0.0;
        for _ in 0..1000 {
            // The mean is 2 FAR blocks.
            sampler.pace.set_shift((2 * FAR * u64::from(SIZES[0]) / DEFAULT_INTERVAL).ilog2());
            sampler.draw(0, 0);
            let mut handed = 0;
            while !sampler.is_due(0, |_| handed) {
                let left = sampler.left(0, handed);
                handed = (handed + left) % WRAP;
                sum += f64::from(left) / (2 * FAR) as f64;
            }
        }
        assert!((sum / 1000.0 - 1.0).abs() < 5.0 / 1000f64.sqrt(), "{sum}");
    }

    /// The first numbers of the published generator, from this seed.
    #[test]
    fn random_numbers_are_those_of_splitmix64() {
        let sampler = Program::new().sampler;
        sampler.random.set(1_234_567);
        let known =
            [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431];
        assert_eq!([(); 4].map(|()| sampler.next_random()), known);
    }

    /// Other distances are not drawn anew.
    #[test]
    fn distances_of_a_longer_interval_are_drawn_anew() {
        let sampler = Program::new().sampler;
        sampler.begin(|_| 0);
        sampler.pace.set_shift(3);
        sampler.draw(0, 1000);
        assert_eq!(sampler.take_large(0, |_| 0, || 0), None);
        let drawn = || (sampler.due_at[0].get(), sampler.large_left.get());
        let before = drawn();
        sampler.draw_nearer(|_| 0);
        assert_eq!(drawn(), before);
        sampler.pace.set_shift(2);
        sampler.draw_nearer(|_| 0);
        assert!(drawn().0 != before.0 && drawn().1.is_none());
    }

    /// The counts stay with the heap, the stack does not.
    #[test]
    fn points_outlive_the_thread_but_not_the_run() {
        let sampler = Program::new().sampler;
        sampler.random.set(1);
        while sampler.is_due(0, |_| 0) || sampler.left(0, 0) < 10 {
            sampler.take(0, |_| 0, || 0);
        }
        let left = sampler.left(0, 0);
        sampler.with_scratch(|scratch| scratch.know(16, 32)).unwrap();
        sampler.change_thread();
        assert_eq!(sampler.left(0, 0), 0, "it is looked at");
        assert_eq!(sampler.with_scratch(|scratch| scratch.known()), Some((0, 0)));
        assert!(!sampler.is_due(0, |_| 0) && sampler.left(0, 0) == left);
        sampler.run.set(2);
        sampler.drawn_in.set(2);
        assert_eq!(sampler.left(0, 0), 0, "another run");
        assert!(!sampler.is_due(0, |_| 0) && sampler.left(0, 0) != left);
    }

    #[test]
    fn each_run_begins_anew() {
        let sampler = Program::new().sampler;
        while sampler.is_due(0, |_| 0) || sampler.left(0, 0) < 10 {
            sampler.take(0, |_| 0, || 0);
        }
        assert!(sampler.left(0, 9) > 0, "the count is all that it goes by");
        sampler.run.set(2);
        sampler.drawn_in.set(2);
        assert_eq!(sampler.left(0, 0), 0, "counts went on while nobody looked");
        assert!(sampler.is_due(0, |_| 77) || sampler.left(0, 77) < FAR as u32);
    }

    #[test]
    fn a_slow_program_has_the_plain_interval_soon_after_it_was_fast() {
        let mut program = Program::new();
        (0..20_000).for_each(|_| program.round(10_000));
        assert!(program.intervals.last() > Some(&(DEFAULT_INTERVAL * 16)));
        // A quarter of the rate that is too much. The program must come to a sample first, one in
        // 128 MiB: about 40 come here.
        (0..4000).for_each(|_| program.round(4_000_000));
        program.intervals.clear();
        (0..4000).for_each(|_| program.round(4_000_000));
        assert_eq!(program.intervals, [DEFAULT_INTERVAL].into());
    }
}
