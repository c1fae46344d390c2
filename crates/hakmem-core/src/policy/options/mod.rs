//! The options: from the environment when the library starts, from a Rust program's [`Options`],
//! and by calls.
//!
//! Where hakmem does not serve (see [`is_active`](crate::is_active)), the calls take the same names
//! and values and [`get`] shows them. They have no effect there, and nobody reads the environment.
//!
//! Precedence: runtime calls, then environment, then the `Options` struct. So the user of a program
//! can change what its author chose. An option that somebody has set stays in mode `learn`, too.

mod chosen;
mod error;
mod text;

use crate::{os, policy};
use policy::Setting;

use chosen::CHOSEN;
#[cfg(ported)]
pub(super) use chosen::ENVIRONMENT_READ;
pub(super) use chosen::FROM_ENVIRONMENT;
pub use chosen::leave_environment;
pub(crate) use chosen::{apply, is_chosen};
pub use error::Error;
pub use policy::{Entry, Foreign, Hardened, Mode, OnError, Options, TABLE, Thp, Values};
pub(super) use text::Shown;
pub use text::Value;

/// The beginning of the options' names in the environment.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::options;
///
/// assert_eq!(format!("{}DECAY_MS", options::PREFIX), "HAKMEM_DECAY_MS");
/// ```
pub const PREFIX: &str = "HAKMEM_";

impl Default for Options {
    /// [`Options::DEFAULT`].
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::options::Options;
    ///
    /// let options = Options { decay_ms: 100, ..Options::default() };
    /// assert_eq!(options.huge_cache_mib, Options::DEFAULT.huge_cache_mib);
    /// ```
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Sets an option by its name, with or without `HAKMEM_` before it, to a value as in the
/// environment. For an option by class, `4096` sets all classes, `64:8192` sets the class of 64
/// bytes, and `4096,64:8192,128:8192` sets all of that in turn. A number may have a unit: `2s` is
/// `2000` for an option in milliseconds, `4KiB` is `4096` for one in bytes.
///
/// Earlier decisions, such as which pages a heap keeps, stay. If the call fails, nothing changes.
///
/// # Errors
///
/// [`Error`] says which.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::options;
///
/// options::set("DECAY_MS", "2s")?;
/// assert_eq!(options::get("HAKMEM_DECAY_MS").unwrap().to_string(), "2000");
/// let why = options::set("DECAY_MS", "-1").unwrap_err();
/// assert_eq!(why.to_string(), "not a whole number from 0 to 86400000, in ms");
/// # Ok::<(), options::Error>(())
/// ```
pub fn set(name: &str, value: &str) -> Result<(), Error> {
    let name = name.strip_prefix(PREFIX).unwrap_or(name);
    // Blocks that were freed at one level would fail the checks of the other.
    if cfg!(feature = "hardened") && name == "HARDENED" {
        return Err(Error::AtStart);
    }
    os::note_stderr();
    set_exactly(name, value).map(|_| ())
}

/// [`set`] for the exact name. Returns the option's number in `TABLE`.
pub(super) fn set_exactly(name: &str, value: &str) -> Result<usize, Error> {
    let (i, entry) = find(name).ok_or(Error::Unknown)?;
    if let Setting::Elsewhere = entry.setting {
        return Err(Error::AtStart);
    }
    // A constructor may have freed blocks at the program's own level: a higher one would check
    // them.
    let is_lower = super::HARDENED.get() == super::Hardened::Low as u32 && value != "low";
    if cfg!(feature = "hardened") && name == "HARDENED" && is_lower {
        return Err(Error::AtStart);
    }
    entry.put(value).ok_or(Error::Value(entry))?;
    CHOSEN.add(i);
    follow(name);
    Ok(i)
}

/// Sets an option that is a number, for all classes, unless the environment did. For wishes of a
/// program in terms of another allocator.
///
/// # Errors
///
/// [`Error::Unknown`], [`Error::Value`] if `n` is out of its range, or [`Error::AtStart`] for the
/// level of the hardened build. It is no error if the environment goes before.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::options;
///
/// // mallopt(M_TRIM_THRESHOLD, …) of another allocator, for instance.
/// options::suggest("SURPLUS_MIB", 64)?;
/// assert_eq!(options::get("SURPLUS_MIB").unwrap().to_string(), "64");
/// # Ok::<(), options::Error>(())
/// ```
pub fn suggest(name: &str, n: u32) -> Result<(), Error> {
    let (i, entry) = find(name).ok_or(Error::Unknown)?;
    if cfg!(feature = "hardened") && name == "HARDENED" {
        return Err(Error::AtStart);
    }
    if !entry.values.allow(n) {
        return Err(Error::Value(entry));
    }
    if !FROM_ENVIRONMENT.has(i) {
        CHOSEN.add(i);
        entry.store(n);
        follow(name);
    }
    Ok(())
}

/// What an option brings with it when it was set.
fn follow(name: &str) {
    if name == "GUARD_SAMPLE" {
        // For stacks in reports. The search may allocate, so it is not left to the first sample.
        os::find_objects();
        os::find_program();
    }
    #[cfg(ported)]
    if matches!(name, "LIMIT_PERCENT" | "PRESSURE_PERCENT") {
        policy::limits::read();
    }
}

/// The value of an option, in the form that [`set`] takes. None: no option has that name, or it is
/// read at start only.
///
/// O(options).
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::options;
///
/// assert_eq!(options::get("DECAY_MS").unwrap().to_string(), "500");
/// assert!(options::get("NO_SUCH_OPTION").is_none());
/// ```
pub fn get(name: &str) -> Option<Value> {
    let (_, entry) = find(name.strip_prefix(PREFIX).unwrap_or(name))?;
    match entry.setting {
        Setting::Elsewhere => None,
        _ => Some(Value(entry)),
    }
}

fn find(name: &str) -> Option<(usize, &'static Entry)> {
    TABLE.iter().enumerate().find(|(_, entry)| entry.name == name)
}
