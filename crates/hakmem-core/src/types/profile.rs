//! What calls of the heap profile take and return.

/// The default for the mean distance between samples, in bytes.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::profile;
///
/// assert!(profile::start(profile::DEFAULT_INTERVAL));
/// assert_eq!(profile::interval(), 524_288);
/// ```
pub const DEFAULT_INTERVAL: u64 = 512 << 10;
/// The largest interval.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::profile;
///
/// assert!(!profile::start(profile::MAX_INTERVAL + 1));
/// ```
pub const MAX_INTERVAL: u64 = 1 << 40;

/// Why hakmem writes a profile or a report.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::profile::{self, Event};
///
/// assert!(profile::start(profile::DEFAULT_INTERVAL));
/// let text = profile::dump(Event::Exit, |text| String::from_utf8_lossy(text).into_owned());
/// assert!(text.unwrap().contains("event=exit"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The program ends.
    Exit,
    /// A signal requested it.
    Signal,
    /// The program requested it.
    Call,
}

impl Event {
    /// The word for it in profiles and reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Exit => "exit",
            Self::Signal => "signal",
            Self::Call => "call",
        }
    }
}

/// The error of a call that may not wait: a thread is changing the books.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::profile::{self, Event};
///
/// // There is no profile: nothing can be busy with it.
/// assert_eq!(profile::dump_at_once(Event::Call, |_| ()), Ok(None));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Busy;

impl core::fmt::Display for Busy {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("another thread is changing the profile")
    }
}

impl core::error::Error for Busy {}
