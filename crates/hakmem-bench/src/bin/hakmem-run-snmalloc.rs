//! The process of a measurement on snmalloc.

fn main() -> std::process::ExitCode {
    hakmem_bench::process::main::<snmalloc_rs::SnMalloc>("snmalloc")
}
