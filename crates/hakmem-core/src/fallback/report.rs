//! Reports. They have no figures on this target: hakmem does not serve the program.

pub use crate::types::profile::Event;
pub use crate::types::report::{Error, Format};

use super::system;
use core::ffi::c_int;
use core::fmt;

const MAP: &str =
    concat!(r#"{"schema":1,"kind":"map","event":"call","active":false,"segments":[]}"#, "\n");

fn text(format: Format) -> &'static str {
    match format {
        Format::Human => "hakmem: does not serve this program: it has no port to this target\n",
        Format::Json => concat!(r#"{"schema":2,"event":"call","active":false}"#, "\n"),
        Format::Csv => "pid,event,list,item,name,value\n",
    }
}

/// Writes a report without figures to `out`: a sentence, a JSON object without them, or the head of
/// a table.
///
/// # Errors
///
/// [`Error::NotWritten`] if `out` does not take it.
pub fn write(out: &mut dyn fmt::Write, format: Format) -> Result<(), Error> {
    out.write_str(text(format)).map_err(|_| Error::NotWritten)
}

/// [`write()`] to a file descriptor.
///
/// # Errors
///
/// [`Error::NotWritten`] if it is not taken, and always on a target without files.
pub fn write_to(fd: c_int, format: Format) -> Result<(), Error> {
    if system::write(fd, text(format).as_bytes()) { Ok(()) } else { Err(Error::NotWritten) }
}

/// Writes a map without segments to `out`.
///
/// # Errors
///
/// [`Error::NotWritten`] if `out` does not take it.
pub fn write_map(out: &mut dyn fmt::Write) -> Result<(), Error> {
    out.write_str(MAP).map_err(|_| Error::NotWritten)
}

/// [`write_map`] to a file descriptor.
///
/// # Errors
///
/// [`Error::NotWritten`] if it is not taken, and always on a target without files.
pub fn write_map_to(fd: c_int) -> Result<(), Error> {
    if system::write(fd, MAP.as_bytes()) { Ok(()) } else { Err(Error::NotWritten) }
}
