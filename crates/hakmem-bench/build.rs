//! Notes which compiler and which crates a benchmark was built with: figures without them cannot be
//! compared.

use std::process::Command;
use std::{env, fs};

fn main() {
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let version = Command::new(rustc)
        .arg("--version")
        .output()
        .map(|o| String::from_utf8_lossy(&o.stdout).into_owned());
    set(
        "RUSTC_VERSION",
        version.as_deref().map_or("unknown", str::trim),
    );
    set("BUILD_PROFILE", &env::var("PROFILE").unwrap_or_default());
    set(
        "BUILD_OPT_LEVEL",
        &env::var("OPT_LEVEL").unwrap_or_default(),
    );
    set("BUILD_TARGET", &env::var("TARGET").unwrap_or_default());

    let lock = "../../Cargo.lock";
    println!("cargo:rerun-if-changed={lock}");
    println!("cargo:rerun-if-changed=build.rs");
    let text = fs::read_to_string(lock).unwrap_or_default();
    for (variable, package) in [
        ("CORE_CRATE_VERSION", "hakmem-core"),
        ("JEMALLOC_CRATE_VERSION", "tikv-jemallocator"),
        ("MIMALLOC_CRATE_VERSION", "mimalloc"),
        ("RPMALLOC_CRATE_VERSION", "rpmalloc-sys"),
        ("RUSTY_ALLOC_CRATE_VERSION", "rusty_alloc"),
        ("SNMALLOC_CRATE_VERSION", "snmalloc-rs"),
    ] {
        set(variable, locked(&text, package).unwrap_or("unknown"));
    }
}

fn set(name: &str, value: &str) {
    println!("cargo:rustc-env={name}={value}");
}

/// The version of package `name` in a lock file: the line after its name.
fn locked<'a>(lock: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = lock.lines();
    lines.find(|line| line.strip_prefix("name = ").map(|n| n.trim_matches('"')) == Some(name))?;
    lines
        .next()?
        .strip_prefix("version = ")
        .map(|v| v.trim_matches('"'))
}
