//! The options: every choice that a user may have a reason to change, in one table. Only slow paths
//! read them.
//!
//! The table generates the rest: the names in the environment and in `hakmem options`, the struct
//! for Rust programs, and the page in `docs`.

#[cfg(ported)]
pub mod environment;
pub mod learner;
#[cfg(ported)]
pub mod limits;
pub mod options;

/// The name by which slow paths call the learner.
#[cfg(ported)]
pub use learner as learn;

use crate::base::size_class::CLASSES;
use crate::base::sync::Ordering::Relaxed;
use crate::base::sync::plain::AtomicU32;

/// The value of an option, which may change while the program runs. Programs outside read it as a
/// number of four bytes.
#[derive(Debug)]
#[repr(transparent)]
pub struct Knob(AtomicU32);

impl Knob {
    const fn new(value: u32) -> Self {
        Self(AtomicU32::new(value))
    }
    /// The present value.
    #[inline]
    pub fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }
    /// Changes the value.
    pub fn set(&self, value: u32) {
        self.0.store(value, Relaxed);
    }
    /// True for a switch that is on.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.get() != 0
    }
}

/// A value for each size class. Programs outside read numbers in this order.
#[derive(Debug)]
#[repr(C)]
pub struct ByClass {
    all: Knob,
    of: [Knob; CLASSES],
}

impl ByClass {
    const fn new(value: u32) -> Self {
        let mut of = [const { Knob::new(0) }; CLASSES];
        let mut class = 0;
        while class < CLASSES {
            of[class] = Knob::new(value);
            class += 1;
        }
        Self { all: Knob::new(value), of }
    }
    /// The present value for a class.
    #[inline]
    pub fn of(&self, class: usize) -> u32 {
        self.of[class].get()
    }
    /// Changes the value for one class.
    pub fn set(&self, class: usize, value: u32) {
        self.of[class].set(value);
    }
    /// The last value that was set for all classes.
    pub fn all(&self) -> u32 {
        self.all.get()
    }
    /// Changes the values for all classes.
    pub fn set_all(&self, value: u32) {
        self.all.set(value);
        self.of.iter().for_each(|knob| knob.set(value));
    }
}

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

/// Makes of one table: the knobs, the struct `Options`, its defaults, and `TABLE`.
macro_rules! options {
    ($(
        $(#[doc = $meaning:literal])+
        $field:ident: $type:ty = $default:expr, $kind:ident $knob:ident, $name:literal, $values:expr, $unit:literal;
    )*) => {
        $(
            // In one section with the other words that every process reads. Those of all zero bytes
            // would otherwise lie elsewhere.
            $(#[doc = $meaning])+
            #[cfg_attr(ported, unsafe(link_section = ".data.hakmem"))]
            pub static $knob: options!(@type $kind) = <options!(@type $kind)>::new(Options::DEFAULT.$field as u32);
        )*

        /// The options of a Rust program: see [`Hakmem::with`](crate::Hakmem::with). The
        /// environment takes precedence.
        ///
        /// ```
        /// # extern crate hakmem_core as hakmem;
        /// use hakmem::options::Options;
        ///
        /// // All but one are as they are if nothing is said.
        /// let options = Options { decay_ms: 1000, ..Options::DEFAULT };
        /// assert_eq!(options.surplus_mib, 16);
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct Options {
            $( $(#[doc = $meaning])+ pub $field: $type, )*
        }

        impl Options {
            /// The values of options that nobody has set.
            ///
            /// ```
            /// # extern crate hakmem_core as hakmem;
            /// use hakmem::options::Options;
            ///
            /// assert_eq!(Options::DEFAULT.decay_ms, 500);
            /// ```
            pub const DEFAULT: Self = Self { $( $field: $default, )* };

            /// Checks the values. In a constant, a value out of its range stops the compiler.
            pub(crate) const fn check(&self) {
                $( assert!($values.allow(self.$field as u32), concat!(stringify!($field), " is out of its range")); )*
            }

            /// Calls `f` for each option that is not at its default, with its number in `TABLE`.
            pub(crate) fn each_changed(&self, mut f: impl FnMut(usize, u32)) {
                let values = [ $( self.$field as u32, )* ];
                for (i, value) in values.into_iter().enumerate() {
                    if value != TABLE[i].default {
                        f(i, value);
                    }
                }
            }
        }

        /// Every option. Those of the struct come first, in its order.
        ///
        /// ```
        /// # extern crate hakmem_core as hakmem;
        /// use hakmem::options::TABLE;
        ///
        /// assert_eq!(TABLE.iter().filter(|entry| entry.name() == "DECAY_MS").count(), 1);
        /// ```
        pub static TABLE: [Entry; 33] = [
            $( Entry {
                name: $name,
                values: $values,
                default: Options::DEFAULT.$field as u32,
                unit: $unit,
                meaning: concat!($($meaning),+),
                setting: Setting::$kind(&$knob),
            }, )*
            Entry {
                name: "TIMING",
                values: Switch,
                default: 0,
                unit: "",
                meaning: " hakmem times system calls as well as counting them.",
                setting: Setting::Timing,
            },
            Entry {
                name: "STATS",
                values: Text("1, json or csv, and :FILE behind it"),
                default: 0,
                unit: "",
                meaning: " A report at exit: in lines for people, JSON or CSV, on standard error or appended to FILE.",
                setting: Setting::Elsewhere,
            },
            Entry {
                name: "STATS_SIGNAL",
                values: Text("a signal, such as USR2"),
                default: 0,
                unit: "",
                meaning: " The signal at which there is a report at once, in the form that STATS asks for.",
                setting: Setting::Elsewhere,
            },
            Entry {
                name: "PROFILE",
                values: Text("a file"),
                default: 0,
                unit: "",
                meaning: " Allocations are sampled from the start, and the heap profile is written there at exit.",
                setting: Setting::Elsewhere,
            },
            Entry {
                name: "PROFILE_SIGNAL",
                values: Text("a signal, such as USR1"),
                default: 0,
                unit: "",
                meaning: " The signal at which the heap profile is written at once.",
                setting: Setting::Elsewhere,
            },
            Entry {
                name: "ERRORS",
                values: Text("a file"),
                default: 0,
                unit: "",
                meaning: " What hakmem says of the program's errors goes there, too, and stacks go there alone.",
                setting: Setting::Elsewhere,
            },
            Entry {
                name: "MAP",
                values: Text("a file"),
                default: 0,
                unit: "",
                meaning: " What each slot holds is written there at exit and at STATS_SIGNAL, for `hakmem map`.",
                setting: Setting::Elsewhere,
            },
        ];
    };
    (@type One) => { Knob };
    (@type Each) => { ByClass };
}

use Values::{Number, Switch, Text, Word};

options! {
    /// `learn` adapts some options to the program, unless somebody has set them; `frozen` changes
    /// none.
    mode: Mode = Mode::Frozen, One MODE, "MODE", Word(&["frozen", "learn"]), "";
    /// Bytes of fresh blocks that go on a thread's list at a time. If more of the page was carved
    /// before, as many bytes as that, up to 16 KiB.
    carve_bytes: u32 = 4096, Each CARVE_BYTES, "CARVE_BYTES", Number(16, 65536), "bytes";
    /// A full page goes back into the queue once one in so many of its blocks is free.
    unfull_fraction: u32 = 8, Each UNFULL_FRACTION, "UNFULL_FRACTION", Number(1, 1024), "";
    /// Empty pages of 64 KiB that a thread keeps for itself; 0 keeps none.
    cached_pages: u32 = 4, Each CACHED_PAGES, "CACHED_PAGES", Number(0, 1024), "pages";
    /// A page with at most this many used blocks, and at most a quarter of its blocks used, may be
    /// parked: hakmem gives its unused parts back. 0 parks none.
    park_blocks: u32 = 32, One PARK_BLOCKS, "PARK_BLOCKS", Number(0, 255), "blocks";
    /// Number of heaps from which on further ones get their first blocks, up to 2 KiB each, from
    /// pages that they share; 0: none do.
    shared_from_heaps: u32 = 32, One SHARED_FROM_HEAPS, "SHARED_FROM_HEAPS", Number(0, u32::MAX), "heaps";
    /// Bytes of other threads' blocks that a thread frees and keeps before it sends them. Up to
    /// twice as many if they go to more than 128 threads.
    batch_bytes: u32 = 256 << 10, One BATCH_BYTES, "BATCH_BYTES", Number(0, 1 << 20), "bytes";
    /// 1: blocks that a thread frees for another heap travel in one batch for each page; 0: each
    /// alone.
    batch_by_page: bool = true, One BATCH_BY_PAGE, "BATCH_BY_PAGE", Switch, "";
    /// Pages of 64 KiB that a thread must have before fresh ones are faulted in whole, by one call
    /// instead of 16 faults; 0 leaves it to the faults.
    populate_from_pages: u32 = 16, One POPULATE_FROM_PAGES, "POPULATE_FROM_PAGES", Number(0, u32::MAX), "pages";
    /// Huge pages. `auto` asks for them in memory that the program is likely to fill, and tries
    /// them in up to 64 MiB that it may fill. `never` refuses them everywhere, `always` asks for
    /// them everywhere. Memory of which a part was given back never has them.
    thp: Thp = Thp::Auto, One THP, "THP", Word(&["auto", "never", "always"]), "";
    /// With THP at `auto`: segments of 2 MiB full of small blocks from which on fresh ones ask for
    /// huge pages. Only beyond that number may fresh segments try them.
    thp_from_segments: u32 = 1, One THP_FROM_SEGMENTS, "THP_FROM_SEGMENTS", Number(1, u32::MAX), "segments";
    /// Milliseconds that free memory stays before it goes back to the system.
    decay_ms: u32 = 500, One DECAY_MS, "DECAY_MS", Number(0, 86_400_000), "ms";
    /// MiB of idle free memory at which hakmem starts a thread that gives it back; 0 forbids the
    /// thread.
    scavenger: u32 = 16, One SCAVENGE_MIB, "SCAVENGER", Number(0, 1 << 20), "MiB";
    /// MiB of free memory that may stay beyond what the program needed in the last `DECAY_MS`; the
    /// rest goes back at once.
    surplus_mib: u32 = 16, One SURPLUS_MIB, "SURPLUS_MIB", Number(0, 1 << 20), "MiB";
    /// MiB of freed blocks over 1 MiB that stay until their decay is over; the rest goes back at
    /// once.
    huge_cache_mib: u32 = 32, One HUGE_CACHE_MIB, "HUGE_CACHE_MIB", Number(0, 1 << 20), "MiB";
    /// The same limit in per cent of the live bytes of such blocks. The larger limit counts.
    huge_cache_percent: u32 = 100, One HUGE_CACHE_PERCENT, "HUGE_CACHE_PERCENT", Number(0, 1000), "%";
    /// Soft limit of the memory that hakmem holds, in MiB; 0: none. When it takes memory beyond the
    /// limit, all free memory goes back at once.
    soft_limit_mib: u32 = 0, One SOFT_LIMIT_MIB, "SOFT_LIMIT_MIB", Number(0, 1 << 24), "MiB";
    /// Hard limit of the memory that hakmem holds, in MiB; 0: none. An allocation that would exceed
    /// it fails with ENOMEM, after the program's callback.
    hard_limit_mib: u32 = 0, One HARD_LIMIT_MIB, "HARD_LIMIT_MIB", Number(0, 1 << 24), "MiB";
    /// Soft limit in per cent of what the process's cgroups allow (`memory.high`, `memory.max`); 0:
    /// none. The lower soft limit counts.
    limit_percent: u32 = 0, One LIMIT_PERCENT, "LIMIT_PERCENT", Number(0, 100), "%";
    /// Per cent of the last 10 s in which tasks waited for memory (PSI) from which on free memory
    /// stays for a twentieth of `DECAY_MS`; 0: hakmem does not ask.
    pressure_percent: u32 = 0, One PRESSURE_PERCENT, "PRESSURE_PERCENT", Number(0, 100), "%";
    /// What hakmem does with foreign pointers: hand them to the next allocator, leak them, or end
    /// the process.
    foreign: Foreign = Foreign::Forward, One FOREIGN, "FOREIGN", Word(&["forward", "leak", "abort"]), "";
    /// How much the hardened build does: `low` checks tags, links and sizes; `default` also wipes
    /// freed blocks, checks that nobody wrote to them, lets small ones wait and fences some large
    /// ones; `high` fences each large one.
    hardened: Hardened = Hardened::Default, One HARDENED, "HARDENED", Word(&["default", "low", "high"]), "";
    /// What the hardened build, or a sampled guard, does with an error of the program: end the
    /// process with a report, report it and go on, or go on. The block that was found stays unused.
    on_error: OnError = OnError::Abort, One ON_ERROR, "ON_ERROR", Word(&["abort", "report", "ignore"]), "";
    /// About one in so many allocations up to 64 KiB lies between memory without access, so that
    /// errors of its use fault and are reported; 0: none. Not in the hardened build.
    guard_sample: u32 = 0, One GUARD_SAMPLE, "GUARD_SAMPLE", Number(0, 1 << 30), "allocations";
    /// At this many frees of foreign pointers hakmem reports, once, the call site of the last one;
    /// 0: never.
    foreign_report: u32 = 1000, One FOREIGN_REPORT, "FOREIGN_REPORT", Number(0, u32::MAX), "frees";
    /// Mean distance between two samples of the heap profile, in bytes.
    profile_interval: u32 = 512 << 10, One PROFILE_INTERVAL, "PROFILE_INTERVAL", Number(1, 1 << 30), "bytes";
}
