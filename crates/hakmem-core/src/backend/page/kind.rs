//! What a slot is used for, and in which list of `parked` a page is.

/// What a slot is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Free, or in a cache: no live block starts or lies here.
    Free = 0,
    /// The first slot of a page of blocks.
    Page = 1,
    /// A further slot of such a page.
    Follow = 2,
    /// The first slot of an allocation of whole slots.
    Large = 3,
    /// The first slot of an allocation of whole segments.
    Huge = 4,
    /// The first slot of a page of sampled blocks (`profile::pages`).
    Sampled = 6,
    /// A sampled allocation of whole slots (`profile::marked`).
    SampledLarge = 7,
    /// A sampled allocation of whole segments.
    SampledHuge = 8,
    /// The first slot of a page of a program heap (`program`).
    ProgramPage = 9,
    /// The first slot of a program heap's allocation of whole slots.
    ProgramLarge = 10,
    /// The first slot of a program heap's allocation of whole segments.
    ProgramHuge = 11,
}

/// The list of `parked` that a page is in. All zero bytes are `Unpurged`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ParkedList {
    /// Few of its blocks are used. The purger has not purged its holes yet.
    Unpurged = 0,
    /// Few of its blocks are used. It has not changed since the purger purged its holes.
    Purged = 1,
    /// Any heap that shares takes blocks of it.
    Shared = 2,
    /// All its blocks are used. It is in no list.
    Full = 3,
    /// A fork interrupted its purge, and this is the child. It is in no list. No thread allocates
    /// from it, and it is given up once all its blocks are free.
    Lost = 4,
}
