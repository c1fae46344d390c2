//! The options: every choice that a user may have a reason to change, in one table. Only slow paths
//! read them.
//!
//! The table generates the rest: the names in the environment and in `hakmem options`, the struct
//! for Rust programs, and the page in `docs`.

mod choices;
mod entry;
#[cfg(ported)]
pub mod environment;
mod knob;
pub mod learner;
#[cfg(ported)]
pub mod limits;
pub mod options;

pub use choices::{Foreign, Hardened, Mode, OnError, Thp};
pub use entry::{Entry, Setting, Values};
pub use knob::{ByClass, Knob};

/// Makes of one table: the knobs, the struct `Options`, its defaults, and `TABLE`.
macro_rules! options {
    ($(
        $(#[doc = $meaning:literal])+
        $field:ident: $type:ty = $default:expr,
            $kind:ident $knob:ident, $name:literal, $values:expr, $unit:literal;
    )*) => {
        $(
            // In one section with the other words that every process reads. Those of all zero bytes
            // would otherwise lie elsewhere.
            $(#[doc = $meaning])+
            #[cfg_attr(ported, unsafe(link_section = ".data.hakmem"))]
            pub static $knob: options!(@type $kind) =
                <options!(@type $kind)>::new(Options::DEFAULT.$field as u32);
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
                $(
                    assert!(
                        $values.allow(self.$field as u32),
                        concat!(stringify!($field), " is out of its range")
                    );
                )*
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
                meaning: " A report at exit: in lines for people, JSON or CSV, on standard error \
                    or appended to FILE.",
                setting: Setting::Elsewhere,
            },
            Entry {
                name: "STATS_SIGNAL",
                values: Text("a signal, such as USR2"),
                default: 0,
                unit: "",
                meaning: " The signal at which there is a report at once, in the form that STATS \
                    asks for.",
                setting: Setting::Elsewhere,
            },
            Entry {
                name: "PROFILE",
                values: Text("a file"),
                default: 0,
                unit: "",
                meaning: " Allocations are sampled from the start, and the heap profile is \
                    written there at exit.",
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
                meaning: " What hakmem says of the program's errors goes there, too, and stacks \
                    go there alone.",
                setting: Setting::Elsewhere,
            },
            Entry {
                name: "MAP",
                values: Text("a file"),
                default: 0,
                unit: "",
                meaning: " What each slot holds is written there at exit and at STATS_SIGNAL, for \
                    `hakmem map`.",
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
    shared_from_heaps: u32 = 32,
        One SHARED_FROM_HEAPS, "SHARED_FROM_HEAPS", Number(0, u32::MAX), "heaps";
    /// Bytes of other threads' blocks that a thread frees and keeps before it sends them. Up to
    /// twice as many if they go to more than 128 threads.
    batch_bytes: u32 = 256 << 10, One BATCH_BYTES, "BATCH_BYTES", Number(0, 1 << 20), "bytes";
    /// 1: blocks that a thread frees for another heap travel in one batch for each page; 0: each
    /// alone.
    batch_by_page: bool = true, One BATCH_BY_PAGE, "BATCH_BY_PAGE", Switch, "";
    /// Pages of 64 KiB that a thread must have before fresh ones are faulted in whole, by one call
    /// instead of 16 faults; 0 leaves it to the faults.
    populate_from_pages: u32 = 16,
        One POPULATE_FROM_PAGES, "POPULATE_FROM_PAGES", Number(0, u32::MAX), "pages";
    /// Huge pages. `auto` asks for them in memory that the program is likely to fill, and tries
    /// them in up to 64 MiB that it may fill. `never` refuses them everywhere, `always` asks for
    /// them everywhere. Memory of which a part was given back never has them.
    thp: Thp = Thp::Auto, One THP, "THP", Word(&["auto", "never", "always"]), "";
    /// With THP at `auto`: segments of 2 MiB full of small blocks from which on fresh ones ask for
    /// huge pages. Only beyond that number may fresh segments try them.
    thp_from_segments: u32 = 1,
        One THP_FROM_SEGMENTS, "THP_FROM_SEGMENTS", Number(1, u32::MAX), "segments";
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
    huge_cache_percent: u32 = 100,
        One HUGE_CACHE_PERCENT, "HUGE_CACHE_PERCENT", Number(0, 1000), "%";
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
    foreign: Foreign = Foreign::Forward,
        One FOREIGN, "FOREIGN", Word(&["forward", "leak", "abort"]), "";
    /// How much the hardened build does: `low` checks tags, links and sizes; `default` also wipes
    /// freed blocks, checks that nobody wrote to them, lets small ones wait and fences some large
    /// ones; `high` fences each large one.
    hardened: Hardened = Hardened::Default,
        One HARDENED, "HARDENED", Word(&["default", "low", "high"]), "";
    /// What the hardened build, or a sampled guard, does with an error of the program: end the
    /// process with a report, report it and go on, or go on. The block that was found stays unused.
    on_error: OnError = OnError::Abort,
        One ON_ERROR, "ON_ERROR", Word(&["abort", "report", "ignore"]), "";
    /// About one in so many allocations up to 64 KiB lies between memory without access, so that
    /// errors of its use fault and are reported; 0: none. Not in the hardened build.
    guard_sample: u32 = 0, One GUARD_SAMPLE, "GUARD_SAMPLE", Number(0, 1 << 30), "allocations";
    /// At this many frees of foreign pointers hakmem reports, once, the call site of the last one;
    /// 0: never.
    foreign_report: u32 = 1000, One FOREIGN_REPORT, "FOREIGN_REPORT", Number(0, u32::MAX), "frees";
    /// Mean distance between two samples of the heap profile, in bytes.
    profile_interval: u32 = 512 << 10,
        One PROFILE_INTERVAL, "PROFILE_INTERVAL", Number(1, 1 << 30), "bytes";
}
