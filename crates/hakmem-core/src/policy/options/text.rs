//! The values of options as text: with units, by class, and in the form in which they are shown.
//!
//! Rules
//! 1. A text that the option does not take changes nothing.
//! 2. The text of a value is one that the option takes.

use super::{Entry, Values};
use crate::base::size_class::{self, MEDIUM_MAX, SIZES};
use crate::os;
use crate::policy::Setting;
use core::fmt;

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

/// True for the name of a unit of time or memory.
pub(super) fn is_unit(name: &str) -> bool {
    unit_of(name).is_some()
}

impl Entry {
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
    pub(super) fn store(&self, n: u32) {
        match self.setting {
            Setting::One(knob) => knob.set(n),
            Setting::Each(knobs) => knobs.set_all(n),
            Setting::Timing => os::set_timing(n != 0),
            Setting::Elsewhere => {}
        }
    }

    /// Sets the option. None: it does not take the value, and nothing has changed.
    pub(super) fn put(&self, value: &str) -> Option<()> {
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
pub(in crate::policy) struct Shown(pub(in crate::policy) Values, pub(in crate::policy) u32);

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
pub struct Value(pub(super) &'static Entry);

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
