//! Where the crate is not supported.

use std::io::Write;
use std::process::{Command, Stdio};

/// Its root alone is compiled, as for a target without a port: what it left in would be looked for
/// in other files.
#[test]
fn one_sentence_is_the_only_error() {
    let root = include_str!("../src/lib.rs");
    assert!(root.matches("cfg(ported)").count() > 15);
    let mut compiler = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()))
        .args([
            "--edition=2024",
            "--crate-type=lib",
            "--emit=metadata",
            "-o",
        ])
        .arg(concat!(env!("CARGO_TARGET_TMPDIR"), "/unsupported.rmeta"))
        .args(["--error-format=short", "--cap-lints=allow", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = compiler.stdin.take().unwrap();
    input.write_all(root.as_bytes()).unwrap();
    drop(input);
    let output = compiler.wait_with_output().unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8(output.stderr).unwrap();
    let errors: Vec<_> = text.lines().filter(|line| line.contains("error")).collect();
    assert!(
        errors[0].ends_with(
            "hakmem-core supports Linux on x86-64 and aarch64 with 64-bit pointers alone."
        ),
        "{text}"
    );
    // The other line counts them.
    assert_eq!(errors.len(), 2, "{text}");
    assert!(errors[1].contains("1 previous error"), "{text}");
}
