//! Candidates for one setting, rated against each other. A pure state machine: callers pass the
//! time.
//!
//! The ratings are those of Elo, from chess. In each round every two candidates meet, and the
//! cheaper one gets the larger part of a point. Each rating then moves by the difference between
//! the result and what the two ratings predicted. A lead of 400 points predicts costs of one to
//! ten. So one odd round moves little, and a habit of some rounds moves much.
//!
//! A round ends when the candidates' costs have come apart: the program demanded memory again that
//! some candidates had kept and others had not. The cost of keeping it until then is in the same
//! round. If that does not happen for [`KEEP_MS`], the round ends too.

use super::trials::{KEEP_MS, Track};
use super::{Memory, Settings};

/// The most candidates of a setting.
const MOST: usize = 6;
/// The most points that a match moves.
const K: i32 = 96;
/// A lead over the candidate in force that changes the setting at once, …
const CLEAR: i32 = 100;
/// … and one that does if it was there in the round before, too.
const ENOUGH: i32 = 50;
/// Candidates within so many points of the leader are as good.
const CLOSE: i32 = 25;
/// The largest distance of a rating from the mean. So a round or two undo a habit of an hour.
const FAR: i32 = 200;
/// One part in so many of a round's time is noise in the costs; …
const NOISE: u64 = 200;
/// … a shorter round than this counts as this long, in milliseconds.
const LONG: u32 = 1000;

/// A setting that the learner moves.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::stats::{self, What};
///
/// let of_decay = stats::decisions().filter(|decision| decision.what == What::Decay);
/// println!("{} decisions changed how long free memory stays", of_decay.count());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// `DECAY_MS`.
    Decay,
    /// `HUGE_CACHE_MIB`.
    HugeCache,
}

impl What {
    /// All of them, in the order of the learner's races.
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::stats::What;
    ///
    /// assert_eq!(What::ALL.map(What::name), ["DECAY_MS", "HUGE_CACHE_MIB"]);
    /// ```
    pub const ALL: [Self; 2] = [Self::Decay, Self::HugeCache];

    /// The option's name.
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::stats::What;
    ///
    /// assert_eq!(What::Decay.name(), "DECAY_MS");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            Self::Decay => "DECAY_MS",
            Self::HugeCache => "HUGE_CACHE_MIB",
        }
    }

    /// The candidates, the option's default among them.
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::options::Options;
    /// use hakmem::stats::What;
    ///
    /// assert!(What::Decay.values().contains(&Options::DEFAULT.decay_ms));
    /// ```
    pub fn values(self) -> &'static [u32] {
        match self {
            Self::Decay => &[125, 250, 500, 1000, 2000, 4000],
            Self::HugeCache => &[8, 32, 128, 512, 2048],
        }
    }

    /// Puts a value of it into settings.
    pub fn put(self, settings: &mut Settings, value: u32) {
        match self {
            Self::Decay => settings.decay_ms = value,
            Self::HugeCache => settings.huge_mib = value,
        }
    }

    /// Its value in settings.
    pub fn of(self, settings: &Settings) -> u32 {
        match self {
            Self::Decay => settings.decay_ms,
            Self::HugeCache => settings.huge_mib,
        }
    }

    /// True if a memory keeps more or less by it.
    pub fn concerns(self, memory: Memory) -> bool {
        match self {
            Self::Decay => true,
            Self::HugeCache => memory == Memory::Huge,
        }
    }
}

/// A change of a setting, with the figures that led to it.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::stats::{self, Decision};
///
/// for Decision { at_ms, what, from, to, .. } in stats::decisions() {
///     println!("after {at_ms} ms: {} from {from} to {to}", what.name());
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// Milliseconds since the learner began.
    pub at_ms: u32,
    /// The setting, …
    pub what: What,
    /// … its old value …
    pub from: u32,
    /// … and its new one.
    pub to: u32,
    /// What the round cost with the old value: microseconds of faults, …
    pub from_fault_us: u64,
    /// … and memory kept free, in microseconds of the same worth.
    pub from_hold_us: u64,
    /// The cost of faults with the new value.
    pub to_fault_us: u64,
    /// The cost of memory kept free with the new value.
    pub to_hold_us: u64,
    /// The length of the round, in milliseconds.
    pub round_ms: u32,
    /// The old value's rating after the round, …
    pub from_rating: i32,
    /// … and the new value's. 1500 is the mean.
    pub to_rating: i32,
}

/// The race of one setting's candidates.
#[derive(Debug)]
pub struct Race {
    what: What,
    open: bool,
    current: usize,
    /// The leader of the last round, if its lead was large enough.
    ahead: Option<usize>,
    age_ms: u32,
    pub(super) tracks: [Track; MOST],
    /// The ratings, less 1500.
    ratings: [i32; MOST],
}

impl Race {
    /// A race that has not begun.
    pub const fn new(what: What) -> Self {
        Self {
            what,
            open: false,
            current: 0,
            ahead: None,
            age_ms: 0,
            tracks: [Track::NEW; MOST],
            ratings: [0; MOST],
        }
    }

    /// The setting that it is about.
    pub fn what(&self) -> What {
        self.what
    }

    /// Begins with the value in force. The race decides nothing if the setting may not move, or if
    /// its value is no candidate.
    #[inline(never)]
    pub fn begin(&mut self, settings: &Settings, may_move: bool) {
        *self = Self::new(self.what);
        let current = self.what.values().iter().position(|&value| value == self.what.of(settings));
        self.open = may_move && current.is_some();
        self.current = current.unwrap_or(0);
    }

    fn tracks(&self) -> &[Track] {
        &self.tracks[..self.what.values().len()]
    }

    /// Notes that `ms` milliseconds have passed, and ends the round if it is time. Returns the
    /// decision, whose time the caller sets.
    #[inline(never)]
    pub fn pass(&mut self, ms: u32) -> Option<Decision> {
        self.age_ms += ms;
        let noise = u64::from(self.age_ms.max(LONG)) * 1_000_000 / NOISE;
        let faults = || self.tracks().iter().map(Track::fault_ns);
        let apart = faults().max()? - faults().min()?;
        if apart < noise && u64::from(self.age_ms) < KEEP_MS {
            return None;
        }
        self.rate(noise);
        let decision = if self.open { self.decide() } else { None };
        self.age_ms = 0;
        for track in &mut self.tracks {
            (track.faulted, track.held) = (0, 0);
        }
        decision
    }

    /// Every two candidates meet. Their costs count beyond those of the best, plus `noise`, as a
    /// ratio: no choice could have spared the program what all of them cost.
    fn rate(&mut self, noise: u64) {
        let n = self.tracks().len();
        let total = |track: &Track| track.fault_ns().saturating_add(track.hold_ns());
        let best = self.tracks().iter().map(total).min().unwrap_or(0);
        let cost = |track: &Track| (total(track) - best).min(u64::MAX / 4000);
        let before = self.ratings;
        for a in 0..n {
            for b in a + 1..n {
                let (own, other) = (cost(&self.tracks[a]) + noise, cost(&self.tracks[b]) + noise);
                let points = (other * 1000 / (own + other)) as i32;
                let change = K * (points - foretold(before[a] - before[b])) / 1000;
                self.ratings[a] += change;
                self.ratings[b] -= change;
            }
        }
        for rating in &mut self.ratings {
            *rating = (*rating).clamp(-FAR, FAR);
        }
    }

    fn decide(&mut self) -> Option<Decision> {
        let ratings = &self.ratings[..self.tracks().len()];
        let (leader, best) =
            ratings.iter().copied().enumerate().max_by_key(|&(i, r)| (r, usize::MAX - i))?;
        let lead = best - ratings[self.current];
        let was_ahead = self.ahead.take() == Some(leader);
        if lead < ENOUGH {
            return None;
        }
        if lead < CLEAR && !was_ahead {
            self.ahead = Some(leader);
            return None;
        }
        // Of the candidates that are as good, take the one that changes least.
        let as_good = (0..ratings.len()).filter(|&i| ratings[i] >= best - CLOSE);
        let (from, to) = (self.current, as_good.min_by_key(|i| i.abs_diff(self.current))?);
        self.current = to;
        let (values, tracks) = (self.what.values(), &self.tracks);
        Some(Decision {
            at_ms: 0,
            what: self.what,
            from: values[from],
            to: values[to],
            from_fault_us: tracks[from].fault_ns() / 1000,
            from_hold_us: tracks[from].hold_ns() / 1000,
            to_fault_us: tracks[to].fault_ns() / 1000,
            to_hold_us: tracks[to].hold_ns() / 1000,
            round_ms: self.age_ms,
            from_rating: 1500 + ratings[from],
            to_rating: 1500 + ratings[to],
        })
    }
}

/// The result, in thousandths of a point, to expect of a candidate with this lead: 1000 / (1 +
/// 10^(-lead / 400)).
fn foretold(lead: i32) -> i32 {
    const STEP: i32 = 50;
    const AT: [i32; 18] =
        [500, 571, 640, 703, 760, 808, 849, 882, 909, 930, 947, 960, 969, 977, 983, 987, 990, 993];
    let ahead = lead.abs().min(STEP * 16);
    let i = (ahead / STEP) as usize;
    let points = AT[i] + (AT[i + 1] - AT[i]) * (ahead % STEP) / STEP;
    if lead < 0 { 1000 - points } else { points }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    extern crate std;
    use super::*;

    const DEFAULT: Settings = Settings { decay_ms: 500, huge_mib: 32, huge_percent: 100 };

    /// A race for the decay, at 500 ms, whose candidates have these ratings.
    fn race(ratings: [i32; MOST]) -> Race {
        let mut race = Race::new(What::Decay);
        race.begin(&DEFAULT, true);
        race.ratings = ratings;
        race
    }

    fn decided(race: &mut Race) -> Option<u32> {
        race.decide().map(|d| d.to)
    }

    #[test]
    fn a_clear_lead_is_followed_at_once_and_a_small_one_never() {
        assert_eq!(decided(&mut race([0, 0, 0, CLEAR, 0, 0])), Some(1000));
        let mut close = race([0, 0, 0, CLEAR - 1, 0, 0]);
        assert_eq!(decided(&mut close), None);
        assert_eq!(decided(&mut close), Some(1000), "it is there the second time");
        let mut small = race([0, 0, 0, ENOUGH - 1, 0, 0]);
        assert_eq!([decided(&mut small), decided(&mut small), decided(&mut small)], [None; 3]);
        let mut enough = race([0, 0, 0, ENOUGH, 0, 0]);
        assert_eq!([decided(&mut enough), decided(&mut enough)], [None, Some(1000)]);
        assert_eq!(decided(&mut race([0; MOST])), None);
    }

    #[test]
    fn a_lead_counts_that_was_there_in_the_round_before() {
        let mut race = race([0, 0, 0, 70, 0, 0]);
        assert_eq!(decided(&mut race), None);
        race.ratings = [70, 0, 0, 0, 0, 0];
        assert_eq!(decided(&mut race), None, "another one's");
        race.ratings = [0, 0, 0, 70, 0, 0];
        assert_eq!(decided(&mut race), None, "not the last time");
        race.ratings = [0; MOST];
        assert_eq!(decided(&mut race), None);
        race.ratings = [0, 0, 0, 70, 0, 0];
        assert_eq!([decided(&mut race), decided(&mut race)], [None, Some(1000)]);
        race.ratings = [0, 0, 0, 0, 0, 70];
        assert_eq!([decided(&mut race), decided(&mut race)], [None, Some(4000)]);
    }

    #[test]
    fn of_those_that_are_as_good_the_nearest_is_chosen() {
        assert_eq!(decided(&mut race([0, 0, 0, 120 - CLOSE, 100, 120])), Some(1000));
        assert_eq!(decided(&mut race([0, 0, 0, 119 - CLOSE, 100, 120])), Some(2000));
    }

    #[test]
    fn a_decision_has_the_figures_of_its_round() {
        let mut race = race([0, 0, -50, 0, 150, 0]);
        race.age_ms = 1250;
        race.tracks[2] = Track { faulted: 1000, held: 4_000_000, ..Track::NEW };
        race.tracks[4] = Track { faulted: 500, held: 8_000_000, ..Track::NEW };
        let decision = Decision {
            at_ms: 0,
            what: What::Decay,
            from: 500,
            to: 2000,
            from_fault_us: 730,
            from_hold_us: 730,
            to_fault_us: 365,
            to_hold_us: 1460,
            round_ms: 1250,
            from_rating: 1450,
            to_rating: 1650,
        };
        assert_eq!(race.decide(), Some(decision));
    }

    /// As in Elo's formula, and less beyond the ratings that there are.
    #[test]
    fn what_is_foretold_is_close_to_the_formula() {
        for lead in -2 * FAR..=2 * FAR {
            let exact = 1000.0 / (1.0 + 10f64.powf(-f64::from(lead) / 400.0));
            assert!(
                (f64::from(foretold(lead)) - exact).abs() < 2.5,
                "{lead}: {} {exact}",
                foretold(lead)
            );
            assert_eq!(foretold(lead) + foretold(-lead), 1000);
        }
    }
}
