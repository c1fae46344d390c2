//! What happened between two readings.

use crate::checked::total;
use crate::stat::figures::Moment;
use crate::view::Reading;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Per second, unless said otherwise.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Rates {
    /// The time between the readings.
    pub seconds: f64,
    pub allocations: f64,
    pub frees: f64,
    pub refills: f64,
    pub remote_frees: f64,
    pub large: f64,
    pub huge: f64,
    pub syscalls: f64,
    pub purged_bytes: f64,
    /// Processors kept busy.
    pub cpu: f64,
    /// Allocations, by block size.
    pub classes: HashMap<u64, f64>,
    /// Blocks put on lists, by heap: from the oldest, which stays where it is when new ones come.
    pub heaps: Vec<f64>,
    /// Calls, by name.
    pub calls: HashMap<String, f64>,
}

impl Rates {
    /// None: the counters began anew, in another program say.
    pub fn between(before: &Moment, now: &Moment, time: Duration) -> Option<Self> {
        if now.allocations < before.allocations || now.heaps < before.heaps {
            return None;
        }
        let seconds = time.as_secs_f64().max(1e-3);
        let per = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let calls = |m: &Moment| total(m.syscalls.iter().map(|c| c.calls));
        let old: HashMap<_, _> = before
            .classes
            .iter()
            .map(|c| (c.size, c.allocations))
            .collect();
        let old_calls: HashMap<_, _> = before.syscalls.iter().map(|c| (&c.name, c.calls)).collect();
        let heaps = now.thread_heaps.iter().rev().enumerate().map(|(i, heap)| {
            let old = before.thread_heaps.iter().rev().nth(i);
            per(heap.listed, old.map_or(0, |h| h.listed))
        });
        Some(Self {
            seconds,
            allocations: per(now.allocations, before.allocations),
            frees: per(now.frees, before.frees),
            refills: per(now.refills, before.refills),
            remote_frees: per(now.remote_frees, before.remote_frees),
            large: per(now.large_allocations, before.large_allocations),
            huge: per(now.huge_allocations, before.huge_allocations),
            syscalls: per(calls(now), calls(before)),
            purged_bytes: per(now.purged_bytes, before.purged_bytes),
            cpu: per(now.cpu_nanos, before.cpu_nanos) / 1e9,
            classes: now
                .classes
                .iter()
                .map(|c| {
                    (
                        c.size,
                        per(c.allocations, old.get(&c.size).copied().unwrap_or(0)),
                    )
                })
                .collect(),
            heaps: heaps.collect(),
            calls: now
                .syscalls
                .iter()
                .map(|c| {
                    (
                        c.name.clone(),
                        per(c.calls, old_calls.get(&c.name).copied().unwrap_or(0)),
                    )
                })
                .collect(),
        })
    }
}

/// The last readings at one process.
#[derive(Default)]
pub struct History {
    last: Option<(Reading, Instant)>,
    /// None after the first reading.
    pub rates: Option<Rates>,
    /// Bytes resident and live, allocations per second: oldest first.
    pub resident: Vec<u64>,
    pub live: Vec<u64>,
    pub allocations: Vec<u64>,
    /// When each was.
    times: Vec<Instant>,
}

/// As many points as the widest terminal has columns for.
const POINTS: usize = 512;

impl History {
    pub fn add(&mut self, reading: Reading, at: Instant) {
        self.rates = self.last.as_ref().and_then(|(before, then)| {
            Rates::between(&before.moment, &reading.moment, at.duration_since(*then))
        });
        let rate = self.rates.as_ref().map_or(0.0, |r| r.allocations);
        for (points, point) in [
            (&mut self.resident, reading.moment.resident_bytes),
            (&mut self.live, reading.moment.live_bytes),
            (&mut self.allocations, rate as u64),
        ] {
            if points.len() == POINTS {
                points.remove(0);
            }
            // What is drawn is multiplied by the height of the drawing.
            points.push(point.min(1 << 48));
        }
        if self.times.len() == POINTS {
            self.times.remove(0);
        }
        self.times.push(at);
        self.last = Some((reading, at));
    }

    /// The time that the last so many points span.
    pub fn span(&self, points: usize) -> Duration {
        let shown = &self.times[self.times.len().saturating_sub(points)..];
        match shown {
            [first, .., last] => last.duration_since(*first),
            _ => Duration::ZERO,
        }
    }

    pub fn reading(&self) -> Option<&Reading> {
        self.last.as_ref().map(|(reading, _)| reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stat::figures::Class;

    fn moment(allocations: u64, of_64: u64) -> Moment {
        let class = Class {
            size: 64,
            allocations: of_64,
            ..Class::default()
        };
        Moment {
            allocations,
            heaps: 1,
            classes: vec![class],
            ..Moment::default()
        }
    }

    #[test]
    fn per_second_is_by_the_time_that_went_by() {
        let time = Duration::from_millis(500);
        let rates = Rates::between(&moment(100, 40), &moment(150, 60), time).unwrap();
        assert_eq!((rates.allocations, rates.classes[&64]), (100.0, 40.0));
        let mut other = moment(150, 60);
        other.classes[0].size = 80;
        let rates = Rates::between(&moment(100, 40), &other, time).unwrap();
        assert_eq!(rates.classes[&80], 120.0, "a class that is new");
    }

    #[test]
    fn another_program_has_no_rates() {
        assert_eq!(
            Rates::between(&moment(100, 1), &moment(99, 1), Duration::from_secs(1)),
            None
        );
    }
}
