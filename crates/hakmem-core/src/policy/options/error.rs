//! Why an option was not set, in words.

use super::{Entry, Values, text};
use core::fmt;

/// Why an option was not set.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::options::{self, Error};
///
/// assert!(matches!(options::set("NO_SUCH_OPTION", "1"), Err(Error::Unknown)));
/// assert!(matches!(options::set("DECAY_MS", "soon"), Err(Error::Value(_))));
/// assert!(matches!(options::set("STATS", "1"), Err(Error::AtStart)));
/// ```
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Error {
    /// No option has that name.
    Unknown,
    /// The option takes other values.
    Value(&'static Entry),
    /// The option is read at start only.
    AtStart,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("there is no such option"),
            Self::AtStart => f.write_str("it is read at start alone"),
            Self::Value(entry) => match entry.values {
                Values::Number(from, to) if entry.is_by_class() => {
                    write!(f, "not numbers from {from} to {to} as in 4096,64:8192")
                }
                Values::Number(from, to) => {
                    write!(f, "not a whole number from {from} to {to}")?;
                    // A value may have another unit of time or memory.
                    if text::is_unit(entry.unit) {
                        write!(f, ", in {}", entry.unit)
                    } else {
                        Ok(())
                    }
                }
                Values::Switch => f.write_str("neither 0 nor 1"),
                Values::Word(words) => {
                    f.write_str("not one of ")?;
                    words.iter().enumerate().try_for_each(|(i, word)| {
                        f.write_str(if i == 0 { "" } else { ", " })?;
                        f.write_str(word)
                    })
                }
                Values::Text(what) => write!(f, "not {what}"),
            },
        }
    }
}

impl core::error::Error for Error {}
