//! The choices of options whose values are words.
//!
//! Rules
//! 1. The number of a choice is the place of its word in the table (`Values::Word`).

use super::THP;

/// Whether hakmem changes options by itself.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::{Configured, Hakmem, options::{Mode, Options}};
///
/// #[global_allocator]
/// static ALLOCATOR: Configured =
///     Hakmem::with(Options { mode: Mode::Learn, ..Options::DEFAULT });
///
/// # fn main() { assert_eq!(hakmem::options::get("MODE").unwrap().to_string(), "learn"); }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u32)]
pub enum Mode {
    /// Every option stays as it is set.
    #[default]
    Frozen = 0,
    /// hakmem adapts options that nobody has set to the program's behaviour.
    Learn = 1,
}

/// Which memory uses huge pages.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::{Configured, Hakmem, options::{Thp, Options}};
///
/// #[global_allocator]
/// static ALLOCATOR: Configured =
///     Hakmem::with(Options { thp: Thp::Never, ..Options::DEFAULT });
///
/// # fn main() { assert_eq!(hakmem::options::get("THP").unwrap().to_string(), "never"); }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u32)]
pub enum Thp {
    /// hakmem asks for them where it expects the program to fill them, and tries them in up to
    /// 64 MiB that it may fill. The rest has what the system gives.
    #[default]
    Auto = 0,
    /// None, whatever the system gives to other programs.
    Never = 1,
    /// hakmem asks for them everywhere.
    Always = 2,
}

impl Thp {
    /// The present choice.
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::options::{self, Thp};
    ///
    /// options::set("THP", "always")?;
    /// assert_eq!(Thp::now(), Thp::Always);
    /// # Ok::<(), options::Error>(())
    /// ```
    pub fn now() -> Self {
        match THP.get() {
            1 => Self::Never,
            2 => Self::Always,
            _ => Self::Auto,
        }
    }
}

/// What hakmem does with a pointer outside every arena.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::{Configured, Hakmem, options::{Foreign, Options}};
///
/// #[global_allocator]
/// static ALLOCATOR: Configured =
///     Hakmem::with(Options { foreign: Foreign::Abort, ..Options::DEFAULT });
///
/// # fn main() { assert_eq!(hakmem::options::get("FOREIGN").unwrap().to_string(), "abort"); }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u32)]
pub enum Foreign {
    /// Hands it to the next allocator in link order. Leaks it if there is none.
    #[default]
    Forward = 0,
    /// Leaks it.
    Leak = 1,
    /// Ends the process with a line that names it.
    Abort = 2,
}

/// How much the hardened build does. The environment or the program's constant sets it. It does not
/// change while the program runs.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::{Configured, Hakmem, options::{Hardened, Options}};
///
/// #[global_allocator]
/// static ALLOCATOR: Configured =
///     Hakmem::with(Options { hardened: Hardened::Low, ..Options::DEFAULT });
///
/// # fn main() { assert_eq!(hakmem::options::get("HARDENED").unwrap().to_string(), "low"); }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u32)]
pub enum Hardened {
    /// What costs little in real programs.
    #[default]
    Default = 0,
    /// Tags, links and sizes alone.
    Low = 1,
    /// As `Default`, and each large block of up to 32 MiB lies without access after its free, not
    /// one in some milliseconds.
    High = 2,
}

/// What the hardened build does when it finds an error of the program.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::{Configured, Hakmem, options::{OnError, Options}};
///
/// #[global_allocator]
/// static ALLOCATOR: Configured =
///     Hakmem::with(Options { on_error: OnError::Report, ..Options::DEFAULT });
///
/// # fn main() {
/// # assert_eq!(hakmem::options::get("ON_ERROR").unwrap().to_string(), "report");
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u32)]
pub enum OnError {
    /// Ends the process with a line that names the error.
    #[default]
    Abort = 0,
    /// Writes the line and goes on.
    Report = 1,
    /// Goes on.
    Ignore = 2,
}
