//! The protocols between threads. Each is a small type of its own.
//!
//! No protocol knows of arenas, heaps or classes. So loom can drive each one alone (`tests/loom`).
//! In most of them threads meet at one word, which they change by compare-and-swap. The word guards
//! other memory. The thread that gives the memory up writes the word with release. The thread that
//! takes the memory reads the word with acquire. So the second thread sees all that the first
//! wrote. `bounds`, `hints`, `run_bin`, `journal`, `pause`, `take_away` and `worker` need other
//! orders: their heads say which.

pub mod bounds;
pub mod deferred;
pub mod guarded;
pub mod heap_state;
pub mod hints;
pub mod id_stack;
pub mod inbox;
pub mod journal;
pub mod lock;
pub mod owner;
pub mod page_list;
pub mod page_state;
pub mod pause;
pub mod place;
pub mod run_bin;
pub mod slots;
pub mod take_away;
pub mod taken;
pub mod worker;
