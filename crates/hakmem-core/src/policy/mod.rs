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
        pub static TABLE: &[Entry] = &[
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
                meaning: " 1: hakmem times system calls. Reports have the times.",
                setting: Setting::Timing,
            },
            Entry {
                name: "STATS",
                values: Text("0, 1, json or csv; or with :FILE"),
                default: 0,
                unit: "",
                meaning: " A report at exit: for people (1), in JSON or in CSV. It goes to \
                    standard error, or is appended to FILE. 0: no report.",
                setting: Setting::Elsewhere,
            },
            Entry {
                name: "STATS_SIGNAL",
                values: Text("a signal, such as USR2"),
                default: 0,
                unit: "",
                meaning: " At this signal hakmem writes what `STATS` and `MAP` ask for. If \
                    neither is set, hakmem leaves the signal alone and says so.",
                setting: Setting::Elsewhere,
            },
            Entry {
                name: "PROFILE",
                values: Text("a file"),
                default: 0,
                unit: "",
                meaning: " Samples allocations from the start. At exit the heap profile is \
                    appended to the file. `%p` in its name stands for the process number.",
                setting: Setting::Elsewhere,
            },
            Entry {
                name: "PROFILE_SIGNAL",
                values: Text("a signal, such as USR1"),
                default: 0,
                unit: "",
                meaning: " At this signal hakmem writes the profile that `PROFILE` asks for.",
                setting: Setting::Elsewhere,
            },
            Entry {
                name: "ERRORS",
                values: Text("a file"),
                default: 0,
                unit: "",
                meaning: " Reports of the program's errors are appended to the file. Standard \
                    error then has the first line of each alone. `%p` in its name stands for the \
                    process number.",
                setting: Setting::Elsewhere,
            },
            Entry {
                name: "MAP",
                values: Text("a file"),
                default: 0,
                unit: "",
                meaning: " At exit, and at `STATS_SIGNAL`, a map of the heap is appended to the \
                    file: what each slot of 64 KiB holds. `hakmem map` draws it. `%p` in its name \
                    stands for the process number.",
                setting: Setting::Elsewhere,
            },
        ];
    };
    (@type One) => { Knob };
    (@type Each) => { ByClass };
}

use Values::{Number, Switch, Text, Word};

options! {
    /// `learn` adapts `DECAY_MS` and `HUGE_CACHE_MIB` to the program, unless they are set. `frozen`
    /// changes nothing.
    mode: Mode = Mode::Frozen, One MODE, "MODE", Word(&["frozen", "learn"]), "";
    /// Bytes of a page that hakmem cuts into blocks at a time. Each further cut of the page doubles
    /// them, up to 16 KiB or the value. A higher value touches memory earlier, and refills less
    /// often.
    carve_bytes: u32 = 4096, Each CARVE_BYTES, "CARVE_BYTES", Number(16, 65536), "bytes";
    /// hakmem allocates from a full page again once one of so many of its blocks is free, or 32 of
    /// them are. A higher value uses freed blocks earlier, and refills more often.
    unfull_fraction: u32 = 8, Each UNFULL_FRACTION, "UNFULL_FRACTION", Number(1, 1024), "";
    /// Empty pages of 64 KiB that a thread keeps for itself, for all classes together. 0 keeps
    /// none. When a page becomes empty, the value of its class decides whether the thread keeps it.
    /// Lower it if many threads keep memory.
    cached_pages: u32 = 4, Each CACHED_PAGES, "CACHED_PAGES", Number(0, 1024), "pages";
    /// A page may be parked if at most this many of its blocks are live, and at most a quarter of
    /// them. hakmem gives the memory between the live blocks of a parked page back. 0 parks none.
    park_blocks: u32 = 32, One PARK_BLOCKS, "PARK_BLOCKS", Number(0, 255), "blocks";
    /// Heaps that never share pages: the first ones that threads made. A later heap takes the first
    /// blocks of a class, of up to 2 KiB each, from pages that heaps share. Lower it if many
    /// threads allocate little. 1 shares most. 0 is a special case: no heap shares.
    shared_from_heaps: u32 = 32,
        One SHARED_FROM_HEAPS, "SHARED_FROM_HEAPS", Number(0, u32::MAX), "heaps";
    /// Bytes of blocks of other heaps that a thread frees before it sends them to these heaps. With
    /// more than 128 such heaps it is more, up to twice as much. Lower it if threads that only free
    /// keep memory.
    batch_bytes: u32 = 256 << 10, One BATCH_BYTES, "BATCH_BYTES", Number(0, 1 << 20), "bytes";
    /// 1: blocks of one page travel to their heap together. 0: each block travels alone.
    batch_by_page: bool = true, One BATCH_BY_PAGE, "BATCH_BY_PAGE", Switch, "";
    /// Pages of 64 KiB that a thread must have in use before hakmem has the system make a fresh
    /// page resident by one call, in place of 16 page faults. 0: it never does.
    populate_from_pages: u32 = 16,
        One POPULATE_FROM_PAGES, "POPULATE_FROM_PAGES", Number(0, u32::MAX), "pages";
    /// Huge pages of the system. `auto` asks for them in memory that the program is likely to fill,
    /// and in up to 64 MiB of other memory, or more where such memory was found filled. `always`
    /// asks for them in all fresh memory. `never` refuses them. Memory of which a part was given
    /// back has none.
    thp: Thp = Thp::Auto, One THP, "THP", Word(&["auto", "never", "always"]), "";
    /// Only for `THP=auto`, and only for blocks up to 1 MiB: how many segments of 2 MiB the program
    /// must fill before fresh ones ask for huge pages. Raise it for huge pages in large heaps
    /// alone.
    thp_from_segments: u32 = 1,
        One THP_FROM_SEGMENTS, "THP_FROM_SEGMENTS", Number(1, u32::MAX), "segments";
    /// Milliseconds that free memory stays before it goes back to the system. Lower it to have
    /// memory back sooner. Raise it if the program faults the same memory in again. Above a
    /// second, a fork does not give free memory back.
    decay_ms: u32 = 500, One DECAY_MS, "DECAY_MS", Number(0, 86_400_000), "ms";
    /// MiB of free memory at which hakmem starts a thread that gives memory back while the program
    /// does not allocate. A program that is idle with less keeps it. 0: no thread. Lower it for a
    /// small service.
    scavenger: u32 = 16, One SCAVENGE_MIB, "SCAVENGER", Number(0, 1 << 20), "MiB";
    /// MiB of free memory that may stay beyond what the program needed at most in the last
    /// `DECAY_MS`, and beyond a sixteenth of its present need. Threads that free more give it back
    /// in steps, before its decay. Blocks over 1 MiB do not count.
    surplus_mib: u32 = 16, One SURPLUS_MIB, "SURPLUS_MIB", Number(0, 1 << 20), "MiB";
    /// MiB of freed blocks over 1 MiB that may stay until their decay is over. What is beyond goes
    /// back at once. `HUGE_CACHE_PERCENT` may allow more: set both to 0 to keep none.
    huge_cache_mib: u32 = 32, One HUGE_CACHE_MIB, "HUGE_CACHE_MIB", Number(0, 1 << 20), "MiB";
    /// The same limit as `HUGE_CACHE_MIB`, as a share of the bytes in blocks over 1 MiB, in per
    /// cent: of those that are live, or of those that were freed in the last `DECAY_MS`, whichever
    /// are more. hakmem subtracts from the latter what was allocated since in smaller blocks. With
    /// `SCAVENGER=0` only live ones count. The larger of the two limits counts.
    huge_cache_percent: u32 = 100,
        One HUGE_CACHE_PERCENT, "HUGE_CACHE_PERCENT", Number(0, 1000), "%";
    /// Soft limit of the memory that hakmem holds, in MiB. When hakmem takes memory beyond it, all
    /// free memory goes back at once. 0: no limit.
    soft_limit_mib: u32 = 0, One SOFT_LIMIT_MIB, "SOFT_LIMIT_MIB", Number(0, 1 << 24), "MiB";
    /// Hard limit of the memory that hakmem holds, in MiB. An allocation that would exceed it calls
    /// the program's limit callback, if there is one. Then it fails with ENOMEM. 0: no limit.
    hard_limit_mib: u32 = 0, One HARD_LIMIT_MIB, "HARD_LIMIT_MIB", Number(0, 1 << 24), "MiB";
    /// Soft limit as a share of what the process's cgroups allow (`memory.high`, `memory.max`), in
    /// per cent. 80 is a good start. 0: no such limit. If `SOFT_LIMIT_MIB` is set too, the lower of
    /// the two limits counts.
    limit_percent: u32 = 0, One LIMIT_PERCENT, "LIMIT_PERCENT", Number(0, 100), "%";
    /// Shortens the decay to a twentieth of `DECAY_MS` while the system lacks memory: if some task
    /// waited for memory in at least this per cent of the last 10 s (the kernel's PSI figures). The
    /// scavenger reads that once a second: `SCAVENGER=0` switches it off. 0: hakmem does not read
    /// it.
    pressure_percent: u32 = 0, One PRESSURE_PERCENT, "PRESSURE_PERCENT", Number(0, 100), "%";
    /// What `free` and `realloc` do with a pointer that hakmem did not return. `forward` passes it
    /// to the next allocator, and ends the process if no allocator can have returned it. `leak`
    /// does nothing with it. `abort` ends the process.
    foreign: Foreign = Foreign::Forward,
        One FOREIGN, "FOREIGN", Word(&["forward", "leak", "abort"]), "";
    /// How much the hardened build does; other builds ignore it. `low` checks tags, links and
    /// sizes. `default` also wipes freed blocks, checks that nobody wrote to them, has small ones
    /// wait, and takes the access away from some large ones. `high` takes it away from each large
    /// one.
    hardened: Hardened = Hardened::Default,
        One HARDENED, "HARDENED", Word(&["default", "low", "high"]), "";
    /// What the hardened build, or a sampled guard, does with an error of the program. `abort`
    /// reports it and ends the process. `report` reports it and goes on. `ignore` goes on. hakmem
    /// does not use the block again. A broken free list, a pointer to memory without a block, and
    /// what the default build finds without a guard always end the process.
    on_error: OnError = OnError::Abort,
        One ON_ERROR, "ON_ERROR", Word(&["abort", "report", "ignore"]), "";
    /// hakmem puts about one of so many allocations up to 64 KiB between memory without access. An
    /// overflow or a use after the free faults there, and is reported. At most one in 16 ms for
    /// 1000 and above; 5000 is a good start. 0: none. The hardened build ignores it.
    guard_sample: u32 = 0, One GUARD_SAMPLE, "GUARD_SAMPLE", Number(0, 1 << 30), "allocations";
    /// After so many frees of foreign pointers hakmem writes the call site of the last one on
    /// standard error, once. 0: never.
    foreign_report: u32 = 1000, One FOREIGN_REPORT, "FOREIGN_REPORT", Number(0, u32::MAX), "frees";
    /// Bytes that are allocated between two samples of the heap profile, on average. Fewer give a
    /// finer profile that costs more. Read when the profile begins.
    profile_interval: u32 = 512 << 10,
        One PROFILE_INTERVAL, "PROFILE_INTERVAL", Number(1, 1 << 30), "bytes";
}
