//! Sets `ported` where the allocator has a port to the target: see `src/os`. With `--cfg
//! hakmem_fallback` in RUSTFLAGS no target has one: for tests of `src/fallback`, and for programs
//! under tools that bring an allocator (AddressSanitizer).
//!
//! Under Miri a program's blocks come from the fallback too. So Miri knows each of them. `--cfg
//! hakmem_interpreted` gives Miri the allocator itself, for `ci/miri`.
use std::env;

/// Operating system and processor of each port.
const PORTS: [[&str; 2]; 2] = [["linux", "x86_64"], ["linux", "aarch64"]];

fn main() {
    let target =
        ["OS", "ARCH"].map(|part| env::var(format!("CARGO_CFG_TARGET_{part}")).unwrap_or_default());
    let width = env::var("CARGO_CFG_TARGET_POINTER_WIDTH").unwrap_or_default();
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(ported)");
    // For measurements alone: see `harden`.
    let parts = r#""pad", "neighbour", "wiping", "check", "links", "quarantine", "fence""#;
    println!("cargo::rustc-check-cfg=cfg(hakmem_without, values({parts}))");
    if PORTS.iter().any(|port| *port == target)
        && width == "64"
        && !is_set("HAKMEM_FALLBACK")
        && (!is_set("MIRI") || is_set("HAKMEM_INTERPRETED"))
    {
        println!("cargo::rustc-cfg=ported");
    }
}

/// True if rustc has this `--cfg`.
fn is_set(name: &str) -> bool {
    env::var_os(format!("CARGO_CFG_{name}")).is_some()
}
