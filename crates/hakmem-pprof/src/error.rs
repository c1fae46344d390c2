//! What can go wrong.

use hakmem_core::profile::MAX_INTERVAL;
use std::fmt;

/// Why there is no profile.
///
/// ```
/// let why = hakmem_pprof::dump_pprof().unwrap_err();
/// assert_eq!(why.to_string(), "the heap profile is not on");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// hakmem does not serve programs on this target.
    NoPort,
    /// hakmem is not the allocator of this program: its `#[global_allocator]` is another.
    NotServed,
    /// The profile was never switched on.
    Off,
    /// There is no such interval.
    Interval(u64),
    /// This process was forked in the middle of a change of the profile, which ended it.
    Lost,
    /// There is no memory for the profile.
    NoMemory,
    /// The profile has more than is looked at, in words for a person.
    TooLarge(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPort => f.write_str("hakmem has no port to this target"),
            Self::NotServed => f.write_str("hakmem is not the allocator of this program"),
            Self::Off => f.write_str("the heap profile is not on"),
            Self::Interval(bytes) => {
                write!(f, "{bytes} bytes are no interval: 1 to {MAX_INTERVAL}")
            }
            Self::Lost => f.write_str("a fork has cut the heap profile of this process short"),
            Self::NoMemory => f.write_str("there is no memory for the heap profile"),
            Self::TooLarge(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Error {}
