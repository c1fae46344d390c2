//! The process of a measurement on the system's allocator, or on a library that is preloaded.

fn main() -> std::process::ExitCode {
    hakmem_bench::process::main::<std::alloc::System>("system")
}
