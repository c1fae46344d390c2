//! The protocols that several threads take part in, each a small type of its own.
//!
//! None of them knows of arenas, heaps or classes, so that loom can drive each one alone (`tests/loom`). What
//! they have in common: the word that is changed by compare-and-swap is the only thing threads meet at; what it guards is published by
//! the release of the one who lets go and seen by the acquire of the one who takes hold.

pub mod bounds;
pub mod heap_state;
pub mod hints;
pub mod id_stack;
pub mod inbox;
pub mod journal;
pub mod lock;
pub mod owner;
pub mod page_list;
pub mod run_bin;
pub mod slots;
pub mod worker;
