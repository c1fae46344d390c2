//! The process of a measurement on hakmem. A Rust program sets no options by its environment; this
//! one does, for comparisons of their values.

use hakmem_bench::{options, process};

fn main() -> std::process::ExitCode {
    process::main_with::<hakmem_core::Hakmem>("hakmem", options::read())
}
