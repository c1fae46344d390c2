//! An option: its name, its values, what people are told of it, and where its value lies.

use super::knob::{ByClass, Knob};
use super::options::Shown;
use core::fmt;

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
/// for entry in TABLE {
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

impl Entry {
    /// The option's name. In the environment [`PREFIX`](super::options::PREFIX) stands before it.
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
}
