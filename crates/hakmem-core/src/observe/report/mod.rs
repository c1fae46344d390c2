//! Reports, maps and profiles. The environment asks for them at exit or on a signal, and the
//! program at any time.
//!
//! In a program with this allocator `HAKMEM_STATS`, `HAKMEM_STATS_SIGNAL`, `HAKMEM_MAP`,
//! `HAKMEM_PROFILE` and `HAKMEM_PROFILE_SIGNAL` mean what they mean under `libhakmem.so`:
//! `docs/observability.md` describes them. The crate's constructor reads them before `main`. All of
//! this needs the feature `reports`, which is on by default.
//!
//! The functions here write the same texts when the program calls them.
//!
//! ```
//! # extern crate hakmem_core as hakmem;
//! use hakmem::Hakmem;
//! use hakmem::report::{self, Format};
//!
//! #[global_allocator]
//! static ALLOCATOR: Hakmem = Hakmem::new();
//!
//! let blocks: Vec<Box<[u8; 100]>> = (0..1000).map(|_| Box::new([1; 100])).collect();
//! let mut text = String::new();
//! report::write(&mut text, Format::Json)?;
//! assert!(text.starts_with(r#"{"schema":2,"event":"call""#) && text.ends_with("}\n"));
//! assert_eq!(blocks.len(), 1000);
//!
//! // Lines for people, on standard error.
//! report::write_to(2, Format::Human)?;
//! # Ok::<(), report::Error>(())
//! ```
//!
//! Each function makes its text in memory that the system maps for it. So none of them allocates.
//! Figures are in bytes, not KiB, unless their key says otherwise.
//!
//! Rules
//! 1. A copy of the allocator starts its reports once. In a program's copy this crate's constructor
//!    starts them. `libhakmem.so` has a constructor of its own.
//! 2. A copy in any other library does not read the environment: its signal handlers would stay
//!    when its code is unloaded. The functions of this module work in it.
//! 3. A program's copy tells a `libhakmem.so` in the same process to leave the reports to it
//!    (`life::take_over`).

#[doc(hidden)]
pub mod errno;
mod figures;
mod forms;
mod handler;
mod human;
#[doc(hidden)]
pub mod life;
#[doc(hidden)]
pub mod make;
#[doc(hidden)]
pub mod map;
#[doc(hidden)]
pub mod out;
mod profile;
mod settings;
mod sink;
mod totals;
mod usage;

#[doc(hidden)]
pub use crate::profile::Event;
pub use crate::types::report::{Error, Format};
#[doc(hidden)]
pub use totals::Totals;

use core::ffi::c_int;
use core::fmt;

/// Writes a report to `out`, in one call of `write_str`. The figures are those of the moment before
/// that call, so `out` may allocate.
///
/// O(memory in use), and a system call for each segment of 2 MiB in use.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::report::{self, Format};
///
/// let mut lines = String::new();
/// report::write(&mut lines, Format::Csv)?;
/// assert!(lines.starts_with("pid,event,list,item,name,value\n"));
/// # Ok::<(), report::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::NoMemory`] if the system has no memory for the text, [`Error::NotWritten`] if not all
/// of it was taken.
pub fn write(out: &mut dyn fmt::Write, format: Format) -> Result<(), Error> {
    result(make::with(format, Event::Call, |text| write_text(out, text)))
}

/// Writes a report to a file descriptor. Neither a pipe that nobody reads nor a limit on a file's
/// size ends the program.
///
/// As [`write()`].
///
/// # Errors
///
/// [`Error::NoMemory`] if the system has no memory for the text, [`Error::NotWritten`] if not all
/// of it was taken.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::report::{self, Format};
///
/// report::write_to(2, Format::Human)?; // Standard error.
/// # Ok::<(), report::Error>(())
/// ```
pub fn write_to(fd: c_int, format: Format) -> Result<(), Error> {
    result(make::with(format, Event::Call, |text| out::write_all(fd, text)))
}

/// Writes to `out` what each slot of the heap holds, as one line of JSON. `hakmem map --file FILE`
/// draws it.
///
/// O(memory in use), and a system call for each segment of 2 MiB in use.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// let mut line = String::new();
/// hakmem::report::write_map(&mut line)?;
/// assert!(line.starts_with(r#"{"schema":1,"kind":"map""#));
/// # Ok::<(), hakmem::report::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::NoMemory`] if the system has no memory for the text, [`Error::NotWritten`] if not all
/// of it was taken.
pub fn write_map(out: &mut dyn fmt::Write) -> Result<(), Error> {
    result(map::with(Event::Call, |text| write_text(out, text)))
}

/// [`write_map`] to a file descriptor, as [`write_to`].
///
/// # Errors
///
/// [`Error::NoMemory`] if the system has no memory for the text, [`Error::NotWritten`] if not all
/// of it was taken.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use std::os::fd::AsRawFd;
///
/// let file = std::fs::File::create("/dev/null").unwrap();
/// hakmem::report::write_map_to(file.as_raw_fd())?;
/// # Ok::<(), hakmem::report::Error>(())
/// ```
pub fn write_map_to(fd: c_int) -> Result<(), Error> {
    result(map::with(Event::Call, |text| out::write_all(fd, text)))
}

/// Writes a text to `out`. False: `out` did not take it.
fn write_text(out: &mut dyn fmt::Write, text: &[u8]) -> bool {
    core::str::from_utf8(text).is_ok_and(|text| out.write_str(text).is_ok())
}

fn result(written: Option<bool>) -> Result<(), Error> {
    match written {
        Some(true) => Ok(()),
        Some(false) => Err(Error::NotWritten),
        None => Err(Error::NoMemory),
    }
}
