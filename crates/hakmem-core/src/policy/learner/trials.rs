//! The trials: a pure state machine. It has no clock, no lock and no allocation. Callers pass the
//! time and the program's demand, and it returns settings.
//!
//! From the bytes in use over time it computes the cost of every setting, not only of the one in
//! force. So the candidates for a setting run side by side on the same demand, as `Track`s, and
//! compete by ratings (`race`).
//!
//! ```text
//! kept: what a candidate would have resident, live or not
//! demand rises above kept          → the difference is faulted in: cost
//! time passes                      → kept beyond what is in use, times time: cost
//! the decay is over                → kept falls to the peak since
//! huge blocks freed                → kept falls to what may stay
//! ```
//!
//! Rules
//! 1. Times wrap. A time before the last one counts as the same moment.
//! 2. Whatever the callers report, the learner only ever chooses among the candidates.

use super::demand::{self, BUCKET_MS, Demand};
use super::race::{Decision, Race, What};
use super::{Memory, Settings};

/// Nanoseconds to fault a KiB in and to give it back: 2650 + 270 for 4 KiB (`docs/design.md`).
const FAULT_NS: u64 = 730;
/// To keep memory free for so long costs as much as to fault it in once. So 32 MiB cost half a per
/// cent of a core's time.
pub(super) const KEEP_MS: u64 = 4000;

const POOLS: [Memory; 2] = [Memory::Slots, Memory::Huge];

/// What a candidate would keep, and what that has cost in this round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Track {
    /// KiB kept, by memory.
    pub(super) kept: [u32; 2],
    /// KiB faulted in.
    pub(super) faulted: u64,
    /// KiB kept free, times milliseconds.
    pub(super) held: u64,
}

impl Track {
    pub(super) const NEW: Self = Self { kept: [0; 2], faulted: 0, held: 0 };

    fn rise(&mut self, memory: Memory, high: u32) {
        let kept = &mut self.kept[memory as usize];
        self.faulted += u64::from(high.saturating_sub(*kept));
        *kept = high.max(*kept);
    }

    fn limit(&mut self, memory: Memory, most: u32) {
        let kept = &mut self.kept[memory as usize];
        *kept = most.min(*kept);
    }

    pub(super) fn fault_ns(&self) -> u64 {
        self.faulted.saturating_mul(FAULT_NS)
    }

    pub(super) fn hold_ns(&self) -> u64 {
        self.held.saturating_mul(FAULT_NS) / KEEP_MS
    }
}

/// Makes a candidate's settings from those in force.
type Candidate<'a> = dyn Fn(&Settings) -> Settings + 'a;

/// The state machine. It calls `F` with each decision.
#[derive(Debug)]
pub struct Learner<F> {
    /// The time up to which costs are computed, in milliseconds.
    time: u32,
    begun: u32,
    settings: Settings,
    demand: [Demand; 2],
    races: [Race; What::ALL.len()],
    log: F,
}

impl<F: FnMut(&Decision)> Learner<F> {
    /// A learner that has not begun.
    pub const fn new(log: F) -> Self {
        Self {
            time: 0,
            begun: 0,
            settings: Settings::NONE,
            demand: [const { Demand::new() }; 2],
            races: [Race::new(What::Decay), Race::new(What::HugeCache)],
            log,
        }
    }

    /// Begins, or begins again, with these settings. `may_move` is false for a setting that
    /// somebody chose.
    pub fn begin(&mut self, now: u32, settings: Settings, may_move: impl Fn(What) -> bool) {
        (self.time, self.begun, self.settings) = (now, now, settings);
        self.demand = [const { Demand::new() }; 2];
        for race in &mut self.races {
            race.begin(&settings, may_move(race.what()));
        }
    }

    /// The settings in force.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Reports that a memory has `level` KiB in use, and had `high` KiB since the last report.
    pub fn demand(&mut self, now: u32, memory: Memory, level: u32, high: u32) {
        self.turn(now);
        let (high, settings) = (high.max(level), self.settings);
        self.demand[memory as usize].note(level, high);
        self.each_track(memory, &mut |track, candidate| {
            track.rise(memory, high);
            if memory == Memory::Huge {
                track.limit(memory, candidate(&settings).huge_limit(level));
            }
        });
    }

    /// Reports that no cached run fitted a huge block of `kib` KiB, though the cache had as much in
    /// other pieces. So a candidate that keeps more gains nothing by it.
    pub fn misfit(&mut self, kib: u32) {
        self.each_track(Memory::Huge, &mut |track, _| {
            track.faulted += u64::from(kib);
            let kept = &mut track.kept[Memory::Huge as usize];
            *kept = kept.saturating_add(kib);
        });
    }

    /// Reports that it is `now`. O(8 s) at most.
    #[inline(never)]
    pub fn turn(&mut self, now: u32) {
        let elapsed = now.wrapping_sub(self.time);
        if !(BUCKET_MS..=u32::MAX / 2).contains(&elapsed) {
            return;
        }
        let buckets = elapsed / BUCKET_MS;
        self.time = self.time.wrapping_add(buckets * BUCKET_MS);
        // After so many buckets nothing changes any more.
        for _ in 0..buckets.min(2 * demand::BUCKETS as u32) {
            self.pass_bucket();
        }
    }

    /// KiB in use.
    #[cfg(test)]
    pub fn level(&self, memory: Memory) -> u32 {
        self.demand[memory as usize].level()
    }

    /// With the first candidate: KiB faulted in since the round began, and KiB kept.
    #[cfg(test)]
    pub fn faulted_and_kept(&self, what: What, memory: Memory) -> (u64, u32) {
        let track = &self.races[what as usize].tracks[0];
        (track.faulted, track.kept[memory as usize])
    }

    #[inline(never)]
    fn pass_bucket(&mut self) {
        let settings = self.settings;
        for memory in POOLS {
            self.demand[memory as usize].pass();
            let demand = self.demand[memory as usize];
            let level = demand.level();
            self.each_track(memory, &mut |track, candidate| {
                let kept = track.kept[memory as usize];
                track.held += u64::from(kept.saturating_sub(level)) * u64::from(BUCKET_MS);
                track.limit(memory, demand.peak_within(candidate(&settings).decay_ms));
            });
        }
        for i in 0..self.races.len() {
            let Some(mut decision) = self.races[i].pass(BUCKET_MS) else { continue };
            decision.at_ms = self.time.wrapping_sub(self.begun);
            decision.what.put(&mut self.settings, decision.to);
            (self.log)(&decision);
        }
    }

    /// Calls `f` for each candidate that concerns the memory, with a function that makes its
    /// settings.
    #[inline(never)]
    fn each_track(&mut self, memory: Memory, f: &mut dyn FnMut(&mut Track, &Candidate)) {
        for race in self.races.iter_mut().filter(|race| race.what().concerns(memory)) {
            let what = race.what();
            for (track, &value) in race.tracks.iter_mut().zip(what.values()) {
                f(track, &|settings| {
                    let mut settings = *settings;
                    what.put(&mut settings, value);
                    settings
                });
            }
        }
    }
}
