//! What people see of a heap: figures as values, and reports of them.

#[cfg(all(feature = "reports", not(any(miri, shuttle))))]
pub mod report;
pub mod stats;
