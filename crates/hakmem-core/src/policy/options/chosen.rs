//! Which options somebody has set, and what is applied once: the struct of a Rust program, and the
//! environment.
//!
//! Rules
//! 1. What is set by a call or by the environment stays when the struct is applied.
//! 2. The environment is read once at most, and the struct is applied once.

use super::{Entry, Options, TABLE};
use crate::base::sync::Ordering::Relaxed;
use crate::base::sync::plain::{AtomicBool, AtomicU32};
use crate::policy;
use policy::Setting;

/// A set of options, by their places in `TABLE`. Words of 32 bits are there on every target.
pub(in crate::policy) struct Chosen([AtomicU32; TABLE.len().div_ceil(32)]);

impl Chosen {
    const fn new() -> Self {
        Self([const { AtomicU32::new(0) }; TABLE.len().div_ceil(32)])
    }

    /// Adds `TABLE[i]`. True: it was there.
    pub(in crate::policy) fn add(&self, i: usize) -> bool {
        self.0[i / 32].fetch_or(1 << (i % 32), Relaxed) >> (i % 32) & 1 != 0
    }

    pub(super) fn has(&self, i: usize) -> bool {
        self.0[i / 32].load(Relaxed) >> (i % 32) & 1 != 0
    }
}

/// What somebody has set.
pub(super) static CHOSEN: Chosen = Chosen::new();
/// What the environment has set.
pub(in crate::policy) static FROM_ENVIRONMENT: Chosen = Chosen::new();
/// True once a Rust program's struct was applied.
static STRUCT_SEEN: AtomicBool = AtomicBool::new(false);
/// True once the environment was read, or if it is not to be read.
#[cfg_attr(ported, unsafe(link_section = ".data.hakmem"))]
pub(in crate::policy) static ENVIRONMENT_READ: AtomicBool = AtomicBool::new(false);

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
