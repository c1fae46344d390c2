//! The process of a measurement on rusty_alloc.

fn main() -> std::process::ExitCode {
    hakmem_bench::process::main::<hakmem_bench::rusty_alloc::RustyAlloc>("rusty_alloc")
}
