//! The process of a measurement on mimalloc.

fn main() -> std::process::ExitCode {
    hakmem_bench::process::main::<mimalloc::MiMalloc>("mimalloc")
}
