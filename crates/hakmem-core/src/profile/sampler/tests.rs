//! Unit tests of the sampler: its distances are right whatever the pace, the run and the thread do.

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
