//! The unwinder: the return addresses on the calling thread's stack, by the tables that programs
//! have for exceptions.

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod processor;
pub mod rules;
pub mod stack;
