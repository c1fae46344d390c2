//! The process that is soaked: starts all threads, lets them work and rest in turn, and tells every
//! second how far they are.

use super::roles;
use super::stage::{Phase, Stage};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

/// Seconds of work, and of the rest after it: long enough for free memory to be given back.
pub const WORK: u64 = 8;
/// The rest.
pub const REST: u64 = 2;
/// Blocks on their way between threads.
const ROOM: usize = 20_000;

/// What to run.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// For so long
    #[arg(long, value_name = "SECONDS")]
    seconds: u64,
    /// Where random numbers begin
    #[arg(long)]
    seed: u64,
}

/// One line of what it tells.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Told {
    /// Whether its threads rest.
    pub resting: bool,
    /// Steps by role.
    pub steps: Vec<u64>,
    /// hakmem's figures; none on another allocator.
    pub hakmem: Option<Figures>,
}

/// The figures of `struct hakmem_stats` by their names in `hakmem.h`.
pub type Figures = BTreeMap<String, u64>;

/// The names of the fields of `struct hakmem_stats`, in their order. All are `uint64_t`.
fn names() -> Vec<&'static str> {
    let header = include_str!("../../../hakmem-ffi/include/hakmem.h");
    let (_, from) = header
        .split_once("struct hakmem_stats {")
        .expect("the header has it");
    let (fields, _) = from.split_once('}').expect("it ends");
    let fields = fields.lines().map(str::trim);
    fields
        .filter_map(|line| line.strip_prefix("uint64_t ")?.strip_suffix(';'))
        .collect()
}

/// Asks the library that serves this process, if it is hakmem.
fn figures() -> Option<Figures> {
    // SAFETY: the name is a NUL-terminated string.
    let function = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"hakmem_stats".as_ptr()) };
    if function.is_null() {
        return None;
    }
    // SAFETY: hakmem.h declares the function of this name so.
    let function: unsafe extern "C" fn(*mut u64) = unsafe { std::mem::transmute(function) };
    let names = names();
    let mut figures = vec![0; names.len()];
    // SAFETY: the structure is an array of as many `uint64_t` as the header names.
    unsafe { function(figures.as_mut_ptr()) };
    Some(names.into_iter().map(str::to_owned).zip(figures).collect())
}

/// Runs it. Lines go to standard output.
pub fn run(options: &Options) -> io::Result<()> {
    let stage = Stage::new(options.seed, ROOM);
    let outcome = thread::scope(|scope| {
        for (role, what) in roles::ALL.iter().enumerate() {
            for number in 0..what.threads {
                let stage = &stage;
                scope.spawn(move || (what.play)(stage, role, number));
            }
        }
        let told = tell(&stage, options.seconds);
        stage.set(Phase::End);
        told
    });
    stage.clear();
    outcome
}

fn tell(stage: &Stage, seconds: u64) -> io::Result<()> {
    let start = Instant::now();
    for second in 1..=seconds {
        thread::sleep(
            (start + Duration::from_secs(second)).saturating_duration_since(Instant::now()),
        );
        // The line of a second belongs to the phase that it was spent in.
        let resting = is_rest(second - 1);
        let told = Told {
            resting,
            steps: stage.steps.iter().map(|s| s.load(Relaxed)).collect(),
            hakmem: figures(),
        };
        let mut line = serde_json::to_string(&told)?;
        line.push('\n');
        io::stdout().write_all(line.as_bytes())?;
        if is_rest(second) != resting {
            stage.set(if resting { Phase::Work } else { Phase::Rest });
        }
    }
    Ok(())
}

fn is_rest(second: u64) -> bool {
    second % (WORK + REST) >= WORK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_the_header_has_a_name() {
        let names = names();
        assert_eq!(names.first(), Some(&"allocations"));
        assert_eq!(names.last(), Some(&"in_flight"));
        assert_eq!(names.len(), 14);
    }
}
