//! Tests of what both builds have in common, in the hardened build.

use crate::harden::{self, tag};
use crate::policy::{self, Hardened};

/// Bytes that a block has for its tag: a request of a size less this gets a block of that size.
pub const BEHIND: usize = if harden::ON { tag::BYTES } else { 0 };

/// From now on freed blocks go to free lists and caches at once, in this build as in the other. The
/// process is a test's own.
pub fn keep_nothing_back() {
    policy::HARDENED.set(Hardened::Low as u32);
}
