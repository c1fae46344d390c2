//! The unwinder: the return addresses on the calling thread's stack, by the tables that programs
//! have for exceptions.

pub mod rules;
pub mod stack;
