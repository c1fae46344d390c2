//! An option: its name, its values, what people are told of it, and where its value lies.

use super::knob::{ByClass, Knob};

/// Where an option's value lies.
#[derive(Debug)]
pub enum Setting {
    /// In a knob.
    One(&'static Knob),
    /// In a knob for each class.
    Each(&'static ByClass),
    /// In `os`, which lies below this module.
    Timing,
    /// In `report`.
    Elsewhere,
}

/// The values that an option takes.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::options::{TABLE, Values};
///
/// let switches = TABLE.iter().filter(|entry| entry.values() == Values::Switch);
/// for switch in switches {
///     println!("{} is 0 or 1", switch.name());
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Whole numbers in a range that includes both ends.
    Number(u32, u32),
    /// 0 for off, 1 for on.
    Switch,
    /// One of some words.
    Word(&'static [&'static str]),
    /// A text of the described form. The module `report` reads it, at start only.
    Text(&'static str),
}

impl Values {
    /// True if a knob may have the value `n`.
    ///
    /// Of [`Values::Word`], `n` is the number of the word. O(1).
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::options::Values;
    ///
    /// assert!(Values::Switch.allow(1) && !Values::Switch.allow(2));
    /// ```
    pub const fn allow(&self, n: u32) -> bool {
        match self {
            Self::Number(from, to) => *from <= n && n <= *to,
            Self::Switch => n <= 1,
            Self::Word(words) => (n as usize) < words.len(),
            Self::Text(_) => false,
        }
    }
}

/// An option, with what people are told of it.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::options::TABLE;
///
/// for entry in &TABLE {
///     println!("HAKMEM_{}: {}", entry.name(), entry.meaning());
/// }
/// ```
#[derive(Debug)]
pub struct Entry {
    pub(crate) name: &'static str,
    pub(crate) values: Values,
    pub(crate) default: u32,
    pub(crate) unit: &'static str,
    pub(crate) meaning: &'static str,
    pub(crate) setting: Setting,
}
