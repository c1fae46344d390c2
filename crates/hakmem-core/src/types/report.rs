//! What calls for reports take and return.

use core::fmt;

/// What a report looks like.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::report::{self, Format};
///
/// for format in [Format::Human, Format::Json, Format::Csv] {
///     let mut text = String::new();
///     report::write(&mut text, format)?;
///     assert!(text.ends_with('\n'));
/// }
/// # Ok::<(), report::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Lines for people.
    Human,
    /// One JSON line.
    Json,
    /// A line for each figure: `pid,event,list,item,name,value`.
    Csv,
}

/// Why there is no report, or not all of it.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::report::{self, Error, Format};
///
/// let nowhere = -1; // No file descriptor.
/// assert_eq!(report::write_to(nowhere, Format::Json), Err(Error::NotWritten));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// The system has no memory for the text.
    NoMemory,
    /// The writer or the descriptor did not take all of the text.
    NotWritten,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoMemory => "the system has no memory for the text",
            Self::NotWritten => "the text was not written as a whole",
        })
    }
}

impl core::error::Error for Error {}
