//! Sets `ported` where the allocator has a port to the target: see `src/os`. With `--cfg
//! hakmem_fallback` in RUSTFLAGS no target has one, for tests of `src/fallback`.
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
        && env::var_os("CARGO_CFG_HAKMEM_FALLBACK").is_none()
    {
        println!("cargo::rustc-cfg=ported");
    }
}
