//! Memory from the system, and its metadata: arenas, segments, pages and the owners of pages.
//!
//! For any address, this layer finds the slot and the page that it lies in, or says that it is
//! foreign.

pub(crate) mod arena;
pub(crate) mod check;
pub(crate) mod density;
pub(crate) mod filling;
pub(crate) mod first_touch;
pub(crate) mod foreign;
pub(crate) mod held;
pub(crate) mod lately;
pub(crate) mod list;
pub(crate) mod nodes;
pub(crate) mod nothing;
pub(crate) mod owner;
pub(crate) mod ownerless;
pub(crate) mod page;
mod rarely;
pub(crate) mod remote_batch;
pub(crate) mod segment;
pub(crate) mod stray;
pub(crate) mod tried;
