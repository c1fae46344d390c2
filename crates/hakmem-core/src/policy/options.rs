//! The options: from the environment when the library starts, from a Rust program's [`Options`],
//! and by calls.
//!
//! Where hakmem does not serve (see [`is_active`](crate::is_active)), the calls take the same names
//! and values and [`get`] shows them. They have no effect there, and nobody reads the environment.
//!
//! Precedence: runtime calls, then environment, then the `Options` struct. So the user of a program
//! can change what its author chose. An option that somebody has set stays in mode `learn`, too.

use crate::base::size_class::{self, MEDIUM_MAX, SIZES};
use crate::base::sync::Ordering::Relaxed;
use crate::base::sync::plain::{AtomicBool, AtomicU32};
use crate::{os, policy};
use core::fmt;
use policy::Setting;

pub use policy::{Entry, Foreign, Hardened, Mode, OnError, Options, TABLE, Thp, Values};

/// The beginning of the options' names in the environment.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::options;
///
/// assert_eq!(format!("{}DECAY_MS", options::PREFIX), "HAKMEM_DECAY_MS");
/// ```
pub const PREFIX: &str = "HAKMEM_";

/// A set of options, by their places in `TABLE`. Words of 32 bits are there on every target.
pub(super) struct Chosen([AtomicU32; TABLE.len().div_ceil(32)]);

impl Chosen {
    const fn new() -> Self {
        Self([const { AtomicU32::new(0) }; TABLE.len().div_ceil(32)])
    }

    /// Adds `TABLE[i]`. True: it was there.
    pub(super) fn add(&self, i: usize) -> bool {
        self.0[i / 32].fetch_or(1 << (i % 32), Relaxed) >> (i % 32) & 1 != 0
    }

    fn has(&self, i: usize) -> bool {
        self.0[i / 32].load(Relaxed) >> (i % 32) & 1 != 0
    }
}

/// What somebody has set.
static CHOSEN: Chosen = Chosen::new();
/// What the environment has set.
pub(super) static FROM_ENVIRONMENT: Chosen = Chosen::new();
/// True once a Rust program's struct was applied.
static STRUCT_SEEN: AtomicBool = AtomicBool::new(false);
/// True once the environment was read, or if it is not to be read.
#[cfg_attr(ported, unsafe(link_section = ".data.hakmem"))]
pub(super) static ENVIRONMENT_READ: AtomicBool = AtomicBool::new(false);

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
                Values::Number(from, to) => write!(f, "not a number from {from} to {to}"),
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
/// assert_eq!(why.to_string(), "not a number from 0 to 86400000");
/// # Ok::<(), options::Error>(())
/// ```
pub fn set(name: &str, value: &str) -> Result<(), Error> {
    let name = name.strip_prefix(PREFIX).unwrap_or(name);
    // Blocks that were freed at one level would fail the checks of the other.
    if cfg!(feature = "hardened") && name == "HARDENED" {
        return Err(Error::AtStart);
    }
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
    if name == "GUARD_SAMPLE" {
        // For stacks in reports. The search may allocate, so it is not left to the first sample.
        os::find_objects();
        os::find_program();
    }
    #[cfg(ported)]
    if matches!(name, "LIMIT_PERCENT" | "PRESSURE_PERCENT") {
        policy::limits::read();
    }
    Ok(i)
}

/// Sets an option that is a number, for all classes, unless the environment did. For wishes of a
/// program in terms of another allocator.
///
/// # Errors
///
/// [`Error::Unknown`], or [`Error::Value`] if `n` is out of its range. It is no error if the
/// environment goes before.
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
    if !entry.values.allow(n) {
        return Err(Error::Value(entry));
    }
    if !FROM_ENVIRONMENT.has(i) {
        CHOSEN.add(i);
        entry.store(n);
    }
    Ok(())
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

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Time,
    Memory,
}

/// What a unit measures, and its size in milliseconds or bytes.
fn unit_of(name: &str) -> Option<(Kind, u64)> {
    Some(match name {
        "ms" => (Kind::Time, 1),
        "s" => (Kind::Time, 1000),
        "min" => (Kind::Time, 60_000),
        "h" => (Kind::Time, 3_600_000),
        "B" | "bytes" => (Kind::Memory, 1),
        "KiB" => (Kind::Memory, 1 << 10),
        "MiB" => (Kind::Memory, 1 << 20),
        "GiB" => (Kind::Memory, 1 << 30),
        _ => return None,
    })
}

impl Entry {
    /// The option's name. In the environment [`PREFIX`] stands before it.
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::options::TABLE;
    ///
    /// let decay = TABLE.iter().find(|entry| entry.name() == "DECAY_MS").unwrap();
    /// assert_eq!(decay.name(), "DECAY_MS");
    /// ```
    pub fn name(&self) -> &'static str {
        self.name
    }
    /// The values that it takes.
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::options::{TABLE, Values};
    ///
    /// let decay = TABLE.iter().find(|entry| entry.name() == "DECAY_MS").unwrap();
    /// assert_eq!(decay.values(), Values::Number(0, 86_400_000));
    /// ```
    pub fn values(&self) -> Values {
        self.values
    }
    /// The unit of its numbers; empty if they have none.
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::options::TABLE;
    ///
    /// let decay = TABLE.iter().find(|entry| entry.name() == "DECAY_MS").unwrap();
    /// assert_eq!(decay.unit(), "ms");
    /// ```
    pub fn unit(&self) -> &'static str {
        self.unit
    }
    /// Its meaning, in a sentence or two.
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::options::TABLE;
    ///
    /// let decay = TABLE.iter().find(|entry| entry.name() == "DECAY_MS").unwrap();
    /// assert!(decay.meaning().starts_with("Milliseconds that free memory stays"));
    /// ```
    pub fn meaning(&self) -> &'static str {
        // The text has the blank that stands behind the slashes of a comment.
        self.meaning.trim_ascii()
    }
    /// The value if nobody sets it. None: it has none.
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::options::TABLE;
    ///
    /// let decay = TABLE.iter().find(|entry| entry.name() == "DECAY_MS").unwrap();
    /// assert_eq!(decay.default_value().unwrap().to_string(), "500");
    /// ```
    pub fn default_value(&self) -> Option<impl fmt::Display + use<>> {
        (!matches!(self.values, Values::Text(_))).then_some(Shown(self.values, self.default))
    }
    /// True if each size class has a value of its own.
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::options::TABLE;
    ///
    /// let decay = TABLE.iter().find(|entry| entry.name() == "DECAY_MS").unwrap();
    /// assert!(!decay.is_by_class());
    /// ```
    pub fn is_by_class(&self) -> bool {
        matches!(self.setting, Setting::Each(_))
    }

    /// The number that a text stands for. None: the option does not take it.
    fn parse(&self, value: &str) -> Option<u32> {
        let n = match self.values {
            Values::Word(words) => words.iter().position(|word| *word == value)? as u32,
            _ => value.parse().ok().or_else(|| self.convert(value))?,
        };
        self.values.allow(n).then_some(n)
    }

    /// Reads a number with a unit, and converts it to the option's own unit. None: the unit is of
    /// another kind, or the result is no whole number.
    fn convert(&self, value: &str) -> Option<u32> {
        let at = value.find(|c: char| !c.is_ascii_digit())?;
        let (n, unit) = value.split_at_checked(at)?;
        let (kind, size) = unit_of(unit)?;
        let (own_kind, own_size) = unit_of(self.unit)?;
        let n = n.parse::<u64>().ok()?.checked_mul(size)?;
        let is_whole = kind == own_kind && n.is_multiple_of(own_size);
        is_whole.then(|| u32::try_from(n / own_size).ok())?
    }

    /// Reads a part of a value by class. Returns the class (None: all classes) and the number.
    fn parse_part(&self, part: &str) -> Option<(Option<usize>, u32)> {
        let Some((size, n)) = part.split_once(':') else { return Some((None, self.parse(part)?)) };
        let size: usize = size.parse().ok()?;
        let class = (1..=MEDIUM_MAX).contains(&size).then(|| size_class::of8(size))?;
        Some((Some(class), self.parse(n)?))
    }

    /// Sets the option, for all classes if it has a value for each.
    fn store(&self, n: u32) {
        match self.setting {
            Setting::One(knob) => knob.set(n),
            Setting::Each(knobs) => knobs.set_all(n),
            Setting::Timing => os::set_timing(n != 0),
            Setting::Elsewhere => {}
        }
    }

    /// Sets the option. None: it does not take the value, and nothing has changed.
    fn put(&self, value: &str) -> Option<()> {
        match self.setting {
            Setting::Each(knobs) => {
                let parts = || value.split(',').map(|part| self.parse_part(part));
                if parts().any(|part| part.is_none()) {
                    return None;
                }
                for (class, n) in parts().flatten() {
                    match class {
                        Some(class) => knobs.set(class, n),
                        None => knobs.set_all(n),
                    }
                }
            }
            _ => self.store(self.parse(value)?),
        }
        Some(())
    }
}

/// A number in the form of its option.
struct Shown(Values, u32);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Values::Word(words) => f.pad(words.get(self.1 as usize).copied().unwrap_or("?")),
            _ => self.1.fmt(f),
        }
    }
}

/// The present value of an option.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::options;
///
/// let value = options::get("MODE").unwrap();
/// assert_eq!(value.to_string(), "frozen");
/// options::set("MODE", "learn")?;
/// assert_eq!(value.to_string(), "learn");
/// # Ok::<(), options::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Value(&'static Entry);

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(entry) = *self;
        match entry.setting {
            Setting::One(knob) => Shown(entry.values, knob.get()).fmt(f),
            Setting::Timing => u32::from(os::timing()).fmt(f),
            Setting::Each(knobs) => {
                let all = knobs.all();
                all.fmt(f)?;
                let changed = SIZES.iter().enumerate().map(|(class, size)| (size, knobs.of(class)));
                changed
                    .filter(|(_, n)| *n != all)
                    .try_for_each(|(size, n)| write!(f, ",{size}:{n}"))
            }
            Setting::Elsewhere => Ok(()),
        }
    }
}

/// True if somebody has set the option of `knob`.
pub(crate) fn is_chosen(knob: &policy::Knob) -> bool {
    let is_it = |entry: &Entry| matches!(entry.setting, Setting::One(k) if core::ptr::eq(k, knob));
    TABLE.iter().position(is_it).is_some_and(|i| CHOSEN.has(i))
}

/// Applies a Rust program's struct, once. Options that somebody has set stay.
#[inline]
pub(crate) fn apply(options: &Options) {
    if !STRUCT_SEEN.load(Relaxed) {
        apply_now(options);
    }
}

#[cold]
#[inline(never)]
fn apply_now(options: &Options) {
    options.each_changed(|i, value| {
        if !CHOSEN.add(i) {
            TABLE[i].store(value);
        }
    });
    #[cfg(ported)]
    if options.limit_percent != 0 || options.pressure_percent != 0 {
        policy::limits::read();
    }
    STRUCT_SEEN.store(true, Relaxed);
}

/// Makes the process ignore its environment. For a program that contains this crate but allocates
/// with another allocator, and starts other programs which the options are for. It must call this
/// before the crate's own constructor runs: from a constructor with a priority (in the section
/// `.init_array.00101`).
///
/// ```standalone_crate
/// # extern crate hakmem_core as hakmem;
/// extern "C" fn before_the_crate() {
///     hakmem::options::leave_environment();
/// }
///
/// #[used]
/// #[unsafe(link_section = ".init_array.00101")]
/// static BEFORE_THE_CRATE: extern "C" fn() = before_the_crate;
/// # fn main() {}
/// ```
pub fn leave_environment() {
    ENVIRONMENT_READ.store(true, Relaxed);
}
