//! When a heap's next sample is due: see `estimate` for the distances.
//!
//! That stands as what the heap's count of handed out blocks will be, so that whoever hands them out has nothing to note here. The
//! caller tells that count of a class, modulo [`WRAP`], as `handed`.

use super::pace::Pace;
use super::{DEFAULT_INTERVAL, estimate, interval, run, stack::Scratch};
use crate::base::size_class::{CLASSES, SIZES};
use crate::os;
use core::cell::{Cell, UnsafeCell};

/// Counts of blocks are taken modulo this.
pub const WRAP: u32 = 1 << 31;
/// No point is known to be farther away, in blocks.
const FAR: u64 = 1 << 30;
/// In place of a stretching: no point was found so far, the next is to be drawn there.
const NONE_YET: u8 = u8::MAX;

/// What a heap knows of its samples to come. Its memory is for ever, as the heap's. What each refill reads comes first.
#[repr(C)]
pub struct Sampler {
    /// The run of the profile that the points are for and the thread is known in; any other: that is to be looked at.
    run: Cell<u32>,
    /// Where each class's next point is: the count when the block that comes next is the sample.
    due_at: [Cell<u32>; CLASSES],
    /// What the interval was stretched by when that was drawn, as a power of two; or `NONE_YET`.
    shift: [Cell<u8>; CLASSES],
    /// The run that the points are for.
    drawn_in: Cell<u32>,
    /// Bytes of large blocks and huge blocks before the next such sample; none: to be drawn.
    large_left: Cell<Option<u64>>,
    large_shift: Cell<u32>,
    pace: Pace,
    random: Cell<u64>,
    scratch_in_use: Cell<bool>,
    scratch: UnsafeCell<Scratch>,
}

impl Sampler {
    /// Makes one, in memory from the system. None: there is none.
    #[cold]
    pub fn make() -> Option<&'static Self> {
        let at = os::map_memory(size_of::<Self>())?;
        // SAFETY: fresh memory of that size, aligned to a page, and nobody else's. All zero is a valid scratch and valid
        // cells; what is not zero is set below. Most of the scratch is not touched.
        let this = unsafe { &*os::at(at).cast::<Self>() };
        this.random.set(at as u64 ^ os::now_ns().rotate_left(32));
        this.large_left.set(None);
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

    /// Another thread will go on, with another stack, and maybe slower.
    pub fn change_thread(&self) {
        self.run.set(0);
        self.with_scratch(Scratch::forget);
    }

    /// Blocks of `class` that may be handed out before the next one has to be looked at; 0: it is the next, or there is nothing to go
    /// by, in this run.
    #[inline(always)]
    pub fn left(&self, class: usize, handed: u32) -> u32 {
        if self.run.get() == run() { self.distance(class, handed) } else { 0 }
    }

    /// As `left`, if there is a point.
    #[inline(always)]
    pub fn distance(&self, class: usize, handed: u32) -> u32 {
        self.due_at[class].get().wrapping_sub(handed) % WRAP
    }

    /// Whether the next block of `class` is a sample.
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

    /// What was drawn in another run is forgotten, as counts went on or began anew. That may be done at any time: distances have no
    /// memory.
    #[cold]
    fn begin(&self, handed: impl Fn(usize) -> u32) {
        let run = run();
        if self.drawn_in.replace(run) != run {
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

    /// The next block of `class`, which is due, is taken for a sample, or left out: draws the one after it. Returns the interval that
    /// this one was drawn with. `now` is the clock.
    pub fn take(&self, class: usize, handed: impl Fn(usize) -> u32, now: impl FnOnce() -> u64) -> u64 {
        let interval = interval() << self.shift[class].get();
        self.keep_pace(&handed, now);
        self.draw(class, handed(class).wrapping_add(1));
        interval
    }

    /// Draws the next point of `class`, from the block that comes when the count is `from`.
    fn draw(&self, class: usize, from: u32) {
        let shift = self.pace.shift();
        let blocks = estimate::distance(self.next_random(), interval() << shift) / u64::from(SIZES[class]);
        self.shift[class].set(if blocks < FAR { shift as u8 } else { NONE_YET });
        self.due_at[class].set(from.wrapping_add(blocks.min(FAR) as u32));
    }

    /// If an allocation of `size` bytes, large, is a sample: the interval that it was drawn with.
    pub fn take_large(&self, size: u64, handed: impl Fn(usize) -> u32, now: impl FnOnce() -> u64) -> Option<u64> {
        let left = self.large_left.get().unwrap_or_else(|| {
            self.large_shift.set(self.pace.shift());
            estimate::distance(self.next_random(), interval() << self.pace.shift())
        });
        self.large_left.set(left.checked_sub(size));
        if left >= size {
            return None;
        }
        let interval = interval() << self.large_shift.get();
        self.keep_pace(handed, now);
        Some(interval)
    }

    /// A sample is taken. Who asks for a smaller interval than usual gets it, whatever it costs.
    fn keep_pace(&self, handed: impl Fn(usize) -> u32, now: impl FnOnce() -> u64) {
        if interval() >= DEFAULT_INTERVAL && self.pace.took(now) {
            self.draw_nearer(handed);
        }
    }

    /// The interval is shorter than it was: long distances are drawn anew, or a program that was fast once would wait long for
    /// its samples. No point that was found is given up: where the next block is no sample, that stands, and what comes
    /// after it has no memory.
    #[cold]
    fn draw_nearer(&self, handed: impl Fn(usize) -> u32) {
        let shift = self.pace.shift();
        for class in 0..CLASSES {
            if u32::from(self.shift[class].get()) > shift && self.distance(class, handed(class)) > 0 {
                self.draw(class, handed(class).wrapping_add(1));
            }
        }
        if self.large_shift.get() > shift {
            self.large_left.set(None);
        }
    }

    /// Runs `f` with the scratch. None: an interrupted frame of this thread is using it.
    pub fn with_scratch<R>(&self, f: impl FnOnce(&mut Scratch) -> R) -> Option<R> {
        if self.scratch_in_use.replace(true) {
            return None;
        }
        // SAFETY: rule 3: the heap is the calling thread's, and no frame of it has the scratch.
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

    /// A program of blocks of all classes above 16 KiB, of one of the smallest, and of larger ones, on a clock of its own.
    struct Program {
        sampler: &'static Sampler,
        /// As a heap has them: cut where a sample is due.
        lists: [u32; CLASSES],
        handed: [u32; CLASSES],
        now: u64,
        allocated: f64,
        /// What the samples stand for, the square of its standard error, and their intervals.
        estimate: f64,
        variance: f64,
        intervals: BTreeSet<u64>,
    }

    impl Program {
        fn new() -> Self {
            // For all tests of this process; nothing is sampled.
            super::super::INTERVAL.store(DEFAULT_INTERVAL, Relaxed);
            super::super::RUN.store(1, Relaxed);
            let sampler = Sampler::make().unwrap();
            // Counts that wrap soon.
            let handed = [WRAP - 100; CLASSES];
            (0..CLASSES).for_each(|class| assert_eq!(sampler.left(class, handed[class]), 0));
            let (now, intervals) = (1 << 40, BTreeSet::new());
            Self { sampler, lists: [0; CLASSES], handed, now, allocated: 0.0, estimate: 0.0, variance: 0.0, intervals }
        }

        fn sample(&mut self, size: u64, interval: u64) {
            let p = -(-(size as f64) / interval as f64).exp_m1();
            self.estimate += size as f64 / p;
            self.variance += (size as f64 / p).powi(2) * (1.0 - p);
            self.intervals.insert(interval);
        }

        /// One block of each kind, with this time for a MiB.
        fn round(&mut self, ns: u64) {
            for class in (0..CLASSES).filter(|&class| class == 1 || SIZES[class] > 16 << 10) {
                let size = u64::from(SIZES[class]);
                self.allocated += size as f64;
                self.now += (ns * size) >> 20;
                if self.lists[class] == 0 {
                    if self.sampler.is_due(class, |class| self.handed[class]) {
                        let interval = self.sampler.take(class, |class| self.handed[class], || self.now);
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
            if let Some(interval) = self.sampler.take_large(HUGE, |class| self.handed[class], || self.now) {
                self.sample(HUGE, interval);
            }
        }
    }

    #[test]
    fn estimates_stay_right_while_the_interval_changes() {
        let mut program = Program::new();
        for phase in 0..4000 {
            // Half a GiB a second, and 2.5 to 40 GiB: as short as the pace may change.
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
        let (handed, now) = (|_: usize| 0, || 0); // No window ends.
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

    /// The block after a change is found with the old interval or not at all: on average it is found once.
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
        assert!((found / times - 1.0).abs() < 5.0 * error && error < 0.1, "{} ± {error}", found / times);
    }

    /// What was drawn beyond what a count can tell is drawn in parts.
    #[test]
    fn a_point_may_be_farther_away_than_counts_go() {
        let sampler = Program::new().sampler;
        sampler.begin(|_| 0);
        let mut sum = 0.0;
        for _ in 0..1000 {
            // A mean of 2 FAR blocks.
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

    /// Of the generator as it was published, from this seed.
    #[test]
    fn random_numbers_are_those_of_splitmix64() {
        let sampler = Program::new().sampler;
        sampler.random.set(1_234_567);
        let known = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431];
        assert_eq!([(); 4].map(|()| sampler.next_random()), known);
    }

    /// And no other ones.
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

    /// The counts go on with the heap, the stack does not.
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
        // A quarter of the rate that is too much. It has to come to a sample, one in 128 MiB: 40 are to be expected here.
        (0..4000).for_each(|_| program.round(4_000_000));
        program.intervals.clear();
        (0..4000).for_each(|_| program.round(4_000_000));
        assert_eq!(program.intervals, [DEFAULT_INTERVAL].into());
    }
}
