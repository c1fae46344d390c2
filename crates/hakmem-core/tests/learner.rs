//! The learner as a machine: fed with demand by a script, with a clock that the script moves.
#![cfg(not(any(loom, shuttle)))]

use hakmem_core::learner::{Decision, Learner, Memory, Settings, What};
use proptest::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;

const DEFAULT: Settings = Settings {
    decay_ms: 500,
    huge_mib: 32,
    huge_percent: 100,
};
const MIB: u32 = 1024;

/// A learner, and what it decided.
type Noting = Learner<Box<dyn FnMut(&Decision)>>;
type Log = Rc<RefCell<Vec<Decision>>>;

fn learner() -> (Noting, Log) {
    let log = Rc::new(RefCell::new(Vec::new()));
    let to = log.clone();
    let note = move |d: &Decision| to.borrow_mut().push(*d);
    (Learner::new(Box::new(note)), log)
}

/// A learner and the time.
struct Script {
    learner: Noting,
    log: Log,
    now: u32,
}

impl Script {
    fn begin(settings: Settings) -> Self {
        // The clock wraps on the way.
        let now = u32::MAX - 5_000;
        let (mut learner, log) = learner();
        learner.begin(now, settings, |_| true);
        Self { learner, log, now }
    }

    /// Time passes, as the purge sees it: a pass now and then.
    fn wait(&mut self, ms: u32) {
        for piece in (0..ms).step_by(100) {
            self.now = self.now.wrapping_add((ms - piece).min(100));
            self.learner.turn(self.now);
        }
    }

    /// Time passes unseen.
    fn jump(&mut self, ms: u32) {
        self.now = self.now.wrapping_add(ms);
        self.learner.turn(self.now);
    }

    fn slots(&mut self, mib: u32) {
        self.learner
            .demand(self.now, Memory::Slots, mib * MIB, mib * MIB);
    }

    fn huge(&mut self, mib: u32) {
        self.learner
            .demand(self.now, Memory::Huge, mib * MIB, mib * MIB);
    }

    /// Memory is wanted for 50 ms, and again so often.
    fn bursts(&mut self, times: u32, mib: u32, period: u32) {
        for _ in 0..times {
            self.slots(mib);
            self.wait(50);
            self.slots(0);
            self.wait(period - 50);
        }
    }

    /// A buffer comes and goes, without a pause.
    fn buffers(&mut self, ms: u32, mib: u32) {
        for _ in 0..ms / 10 {
            self.huge(mib);
            self.wait(5);
            self.huge(0);
            self.wait(5);
        }
    }

    fn decisions(&self) -> Vec<Decision> {
        self.log.borrow().clone()
    }

    fn of(&self, what: What) -> Vec<Decision> {
        let all = self.decisions().into_iter();
        all.filter(|d| d.what == what).collect()
    }

    fn decay(&self) -> u32 {
        self.learner.settings().decay_ms
    }
}

/// The first burst that finds its memory gone is enough: from the third on it is there.
#[test]
fn a_decay_shorter_than_the_pause_is_lengthened_at_once() {
    let mut script = Script::begin(DEFAULT);
    script.bursts(2, 100, 800);
    assert!(script.decay() >= 1000, "{:?}", script.learner.settings());
    script.bursts(200, 100, 800);
    let decisions = script.of(What::Decay);
    assert_eq!(decisions.len(), 1, "and stays: {decisions:#?}");
    let d = decisions[0];
    assert!(d.at_ms <= 1000, "within a second: {d:?}");
    assert_eq!((d.from, d.to), (500, 1000), "no longer than need be: {d:?}");
    // 100 MiB were faulted in, at 730 ns a KiB, twice with the one and once with the other.
    let once = 100 * 1024 * 730 / 1000;
    assert_eq!((d.from_fault_us, d.to_fault_us), (2 * once, once), "{d:?}");
    assert!(
        d.from_hold_us < d.to_hold_us && d.to_rating > d.from_rating,
        "{d:?}"
    );
}

/// Pauses that are longer than anything is worth keeping for.
#[test]
fn memory_that_does_not_come_back_is_given_back_sooner() {
    let mut script = Script::begin(DEFAULT);
    script.bursts(12, 1000, 7000);
    assert!(script.decay() <= 250, "{:?}", script.of(What::Decay));
    let decisions = script.decisions();
    script.bursts(100, 1000, 7000);
    assert_eq!(
        script.decisions(),
        decisions,
        "it does not go back and forth"
    );
}

/// Each phase wants what the one before did not.
#[test]
fn phases_that_differ_are_followed() {
    let mut script = Script::begin(DEFAULT);
    for _ in 0..5 {
        script.bursts(6, 300, 900);
        assert!(script.decay() >= 1000, "{:?}", script.of(What::Decay));
        script.bursts(4, 300, 8000);
        assert!(script.decay() <= 500, "{:?}", script.of(What::Decay));
    }
    assert!(
        script.of(What::Decay).len() <= 20,
        "{:?}",
        script.of(What::Decay)
    );
}

/// Even from the most extreme habit.
#[test]
fn a_habit_is_unlearnt_within_two_bursts() {
    let mut script = Script::begin(DEFAULT);
    script.bursts(100, 1000, 7000);
    let before = script.now;
    script.bursts(2, 300, 800);
    script.slots(300);
    script.wait(200);
    assert!(
        script.decay() >= 1000,
        "{:?} after {} ms",
        script.of(What::Decay),
        script.now.wrapping_sub(before)
    );
}

#[test]
fn a_cache_too_small_for_the_buffers_is_enlarged_at_once() {
    let mut script = Script::begin(DEFAULT);
    script.buffers(1000, 100);
    let decisions = script.of(What::HugeCache);
    assert_eq!(script.learner.settings().huge_mib, 128, "{decisions:?}");
    assert!(decisions[0].at_ms <= 500, "{decisions:?}");
    script.buffers(20_000, 100);
    assert_eq!(script.of(What::HugeCache), decisions, "and stays");
}

/// Buffers none of which fits where the last one was.
#[test]
fn a_cache_that_is_of_no_use_is_made_smaller() {
    let mut script = Script::begin(DEFAULT);
    for i in 0..4000 {
        let mib = 100 + i % 50;
        script.learner.misfit(mib * MIB);
        script.huge(mib);
        script.wait(5);
        script.huge(0);
        script.wait(5);
    }
    assert_eq!(
        script.learner.settings().huge_mib,
        8,
        "{:?}",
        script.of(What::HugeCache)
    );
}

/// Steady growth, steady churn, nothing at all: there is nothing to choose between.
#[test]
fn without_a_reason_nothing_is_changed() {
    let mut script = Script::begin(DEFAULT);
    for mib in 0..2000 {
        script.slots(mib);
        script.wait(10);
    }
    script.wait(20_000);
    for i in 0..2000 {
        script.slots(1900 + i % 7 * 10);
        script.wait(20);
    }
    script.wait(3_600_000);
    assert_eq!(script.decisions(), []);
}

/// Some MiB are not worth a decision.
#[test]
fn small_things_are_noise() {
    let mut script = Script::begin(DEFAULT);
    script.bursts(100, 2, 800);
    assert_eq!(script.decisions(), []);
}

#[test]
fn what_may_not_be_moved_stays() {
    let mut script = Script::begin(DEFAULT);
    script
        .learner
        .begin(script.now, DEFAULT, |what| what != What::Decay);
    script.bursts(20, 300, 800);
    script.buffers(1000, 100);
    assert_eq!(
        (script.decay(), script.learner.settings().huge_mib),
        (500, 128)
    );
    // A value that is no candidate is somebody's choice, too.
    let odd = Settings {
        decay_ms: 501,
        ..DEFAULT
    };
    let mut script = Script::begin(odd);
    script.bursts(20, 300, 800);
    assert_eq!(script.decay(), 501);
}

/// What was not looked at passes at the next look, up to there and no further.
#[test]
fn it_makes_no_difference_how_often_it_is_told_the_time() {
    let run = |wait: fn(&mut Script, u32)| {
        let mut script = Script::begin(DEFAULT);
        for (times, pause) in [
            (6, 800),
            (5, 7000),
            (1, 15_000),
            (5, 1700),
            (3, 15_000),
            (9, 900),
        ] {
            for _ in 0..times {
                script.slots(300);
                wait(&mut script, 50);
                script.slots(0);
                wait(&mut script, pause);
            }
        }
        // But for when it is said.
        let said = script.decisions().into_iter();
        said.map(|d| Decision { at_ms: 0, ..d }).collect::<Vec<_>>()
    };
    let often = run(Script::wait);
    assert!(often.len() >= 3, "{often:#?}");
    assert_eq!(run(Script::jump), often);
}

/// What is in use all the time costs nothing, whatever is chosen.
#[test]
fn only_free_memory_costs() {
    let run = |live: u32| {
        let mut script = Script::begin(DEFAULT);
        script.slots(live);
        script.wait(5000);
        for _ in 0..10 {
            script.slots(live + 200);
            script.wait(50);
            script.slots(live);
            script.wait(850);
        }
        script.decisions()
    };
    assert!(!run(0).is_empty());
    for live in [1, 50, 2000] {
        assert_eq!(run(live), run(0), "{live} MiB live");
    }
}

/// As much as is live stays in any case: here it is enough.
#[test]
fn a_cache_that_suffices_by_what_is_live_is_left_as_it_is() {
    let mut script = Script::begin(DEFAULT);
    for _ in 0..500 {
        script.huge(600);
        script.wait(5);
        script.huge(350);
        script.wait(5);
    }
    assert_eq!(script.of(What::HugeCache), []);
    for _ in 0..500 {
        script.huge(600);
        script.wait(5);
        script.huge(200);
        script.wait(5);
    }
    let decisions = script.of(What::HugeCache);
    assert_eq!(script.learner.settings().huge_mib, 512, "{decisions:?}");
}

/// The figures of a decision are of what it is about.
#[test]
fn pages_do_not_count_for_the_huge_cache() {
    let run = |slots: u32| {
        let mut script = Script::begin(DEFAULT);
        for i in 0..200 {
            script.slots(if i % 20 < 10 { slots } else { 0 });
            script.buffers(10, 100);
        }
        script.of(What::HugeCache)
    };
    assert!(!run(0).is_empty());
    assert_eq!(run(300), run(0));
}

/// Told in their order, each from where the one before it led.
#[test]
fn every_decision_is_told_once() {
    let mut script = Script::begin(DEFAULT);
    for _ in 0..20 {
        script.bursts(6, 300, 900);
        script.bursts(4, 300, 8000);
    }
    let log = script.decisions();
    assert!(log.len() > 30, "{}", log.len());
    assert!(log.is_sorted_by_key(|d| d.at_ms));
    for what in What::ALL {
        let of = script.of(what);
        assert!(of.windows(2).all(|pair| pair[0].to == pair[1].from));
    }
}

/// The same script twice.
#[test]
fn it_is_deterministic() {
    let run = || {
        let mut script = Script::begin(DEFAULT);
        script.bursts(10, 200, 700);
        script.buffers(500, 60);
        script.bursts(3, 500, 9000);
        script.decisions()
    };
    assert!(!run().is_empty());
    assert_eq!(run(), run());
}

#[derive(Debug, Clone)]
enum Told {
    Demand(u32, bool, u32, u32),
    Misfit(u32),
    Turn(u32),
    Begin(u32, [u32; 3]),
}

fn told() -> impl Strategy<Value = Told> {
    let odd = || prop_oneof![Just(0), Just(u32::MAX), 0..1000_u32, any::<u32>()];
    prop_oneof![
        (odd(), any::<bool>(), odd(), odd()).prop_map(|(t, w, l, h)| Told::Demand(t, w, l, h)),
        odd().prop_map(Told::Misfit),
        odd().prop_map(Told::Turn),
        (odd(), [odd(), odd(), odd()]).prop_map(|(t, s)| Told::Begin(t, s)),
    ]
}

proptest! {
    /// Nonsense: clocks that jump, levels without sense, settings that are no candidates. It
    /// chooses among the candidates, and what is no candidate stays.
    #[test]
    fn nonsense_is_survived(script in prop::collection::vec(told(), 0..300)) {
        let (mut learner, log) = learner();
        let mut begun = learner.settings();
        for told in script {
            match told {
                Told::Demand(now, huge, level, high) => {
                    learner.demand(now, if huge { Memory::Huge } else { Memory::Slots }, level, high);
                }
                Told::Misfit(kib) => learner.misfit(kib),
                Told::Turn(now) => {
                    learner.turn(now);
                }
                Told::Begin(now, [decay_ms, huge_mib, huge_percent]) => {
                    begun = Settings { decay_ms, huge_mib, huge_percent };
                    learner.begin(now, begun, |_| true);
                }
            }
            let now = learner.settings();
            prop_assert_eq!(now.huge_percent, begun.huge_percent);
            for what in What::ALL {
                let (value, first) = (what.of(&now), what.of(&begun));
                prop_assert!(value == first || what.values().contains(&value) && what.values().contains(&first));
            }
        }
        for d in log.borrow().iter() {
            prop_assert!(d.from != d.to && d.what.values().contains(&d.to));
            prop_assert!((1250..=1750).contains(&d.to_rating));
        }
    }
}
