//! The process of a measurement on rpmalloc.

fn main() -> std::process::ExitCode {
    hakmem_bench::process::main::<hakmem_bench::rpmalloc::RpMalloc>("rpmalloc")
}
