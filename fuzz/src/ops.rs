//! The operations that inputs are made of.

use arbitrary::Arbitrary;
use hakmem_core::c;
use std::ffi::CString;

/// An operation, and who does it.
#[derive(Debug, Clone, Copy, Arbitrary)]
pub struct Step {
    who: u8,
    pub op: Op,
}

impl Step {
    /// The thread: 0 is the one that runs the sequence, and does most; the others are 1 to
    /// `THREADS`.
    pub fn who(self) -> usize {
        usize::from(self.who % 8).saturating_sub(7 - THREADS)
    }
}

/// Threads besides the first.
pub const THREADS: usize = 3;

/// One operation. Blocks are looked up by number, modulo the number of live blocks.
#[derive(Debug, Clone, Copy, Arbitrary)]
pub enum Op {
    Alloc(Size, Align),
    AllocZeroed(Size, Align),
    Realloc(u8, Size),
    /// To the size that the block has anyway.
    ReallocToUsable(u8),
    Dealloc(u8),
    /// Several blocks of one size, so that short inputs fill pages.
    Fill(u8, Size),
    /// Frees every so many blocks, so that short inputs make holes.
    Thin(u8),
    /// Gives free memory back, which must not touch what is live.
    Trim,
    /// The thread ends; its heap, with what is live in it, waits for the next one.
    End,
    /// A child process goes on with so many operations; this one waits, and then does them too.
    Fork(u8),
}

/// A size as a mantissa and an exponent, so that all magnitudes are equally easy to reach, and a
/// small distance from it.
#[derive(Debug, Clone, Copy, Arbitrary)]
pub struct Size(u8, u8, i8);

impl Size {
    pub fn bytes(self, least: usize) -> usize {
        let Self(mantissa, exponent, distance) = self;
        let size = (8 + usize::from(mantissa % 8)) << (exponent % 20);
        (size / 8).saturating_add_signed(distance.into()).max(least)
    }
}

/// An alignment: mostly small ones, up to 1 MiB.
#[derive(Debug, Clone, Copy, Arbitrary)]
pub struct Align(u8);

impl Align {
    pub const LEAST: Self = Self(0);

    pub fn bytes(self) -> usize {
        match self.0 {
            0..224 => 1 << (self.0 % 5),
            high => 1 << (high % 21),
        }
    }
}

/// The allocator's knobs, as the environment would set them: rare paths become common ones. The
/// first value is the default.
#[derive(Debug, Clone, Copy, Arbitrary)]
pub struct Knobs([u8; KNOBS.len()]);

const KNOBS: [(&str, &[u32]); 7] = [
    ("CARVE_BYTES", &[4096, 16, 256, 65536]),
    ("UNFULL_FRACTION", &[8, 1, 1024]),
    ("PARK_BLOCKS", &[8, 0, 1, 255]),
    ("CACHED_PAGES", &[4, 0, 1, 1024]),
    ("BATCH_BYTES", &[262_144, 0, 64, 4096]),
    ("POPULATE_FROM_PAGES", &[16, 0, 1]),
    ("DECAY_MS", &[500, 0, 1]),
];

impl Knobs {
    /// Sets them all, so that an input does not depend on the one before.
    pub fn set(&self) {
        let value = |i: usize, values: &[u32]| values[usize::from(self.0[i]) % values.len()];
        let all = KNOBS.iter().enumerate();
        set(all.map(|(i, (name, values))| format!("HAKMEM_{name}={}", value(i, values))));
    }
}

/// Sets options of the form `HAKMEM_NAME=value`.
pub fn set(options: impl Iterator<Item = String>) {
    let options: Vec<_> = options.map(|o| CString::new(o).unwrap()).collect();
    let mut block: Vec<_> = options.iter().map(|o| o.as_ptr()).collect();
    block.push(std::ptr::null());
    // SAFETY: a NULL-terminated array of C strings that live until it returns.
    unsafe { c::configure(block.as_ptr()) };
}
