//! A clock for single calls: the counter of the processor, which is read in some ten nanoseconds,
//! and is compared with the system's clock to know how fast it counts.

use std::time::Instant;

/// Now.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn now() -> u64 {
    // SAFETY: reads a counter that every processor of this architecture has.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Now: the system's clock, in nanoseconds, where nothing else is known.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn now() -> u64 {
    use std::sync::OnceLock;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Both clocks at one moment.
#[derive(Debug)]
pub struct Rate {
    ticks: u64,
    clock: Instant,
}

impl Rate {
    /// Begins the comparison of the clocks.
    pub fn begin() -> Self {
        Self {
            ticks: now(),
            clock: Instant::now(),
        }
    }

    /// The length of a tick in nanoseconds, on average since then.
    pub fn nanos(&self) -> f64 {
        let nanos = self.clock.elapsed().as_nanos() as f64;
        nanos / (now() - self.ticks).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn ticks_and_nanoseconds_are_the_same_time() {
        let rate = Rate::begin();
        thread::sleep(Duration::from_millis(30));
        let (before, clock) = (now(), Instant::now());
        thread::sleep(Duration::from_millis(30));
        let (ticks, nanos) = (now() - before, clock.elapsed().as_nanos() as f64);
        let ratio = ticks as f64 * rate.nanos() / nanos;
        assert!((0.9..1.1).contains(&ratio), "{ratio}");
    }
}
