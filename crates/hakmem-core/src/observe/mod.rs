//! What people see of the allocator: its figures as values (`stats`), and reports of them
//! (`report`).

#[cfg(all(ported, feature = "reports", not(any(miri, shuttle))))]
pub mod report;
pub mod stats;
