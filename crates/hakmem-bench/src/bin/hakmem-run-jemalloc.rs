//! The process of a measurement on jemalloc.

fn main() -> std::process::ExitCode {
    hakmem_bench::process::main::<tikv_jemallocator::Jemalloc>("jemalloc")
}
