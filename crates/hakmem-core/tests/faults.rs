//! Runs the short form of `faults_sweep`, which needs the core with the feature `fault-injection`:
//! built apart, so that nothing else is. `ci/faults` is the long form.

use std::path::Path;
use std::process::Command;

#[test]
fn every_refused_system_call_is_survived() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        // Of the workspace, so that all crates but the core are those that it has built already.
        .args(["test", "--quiet", "--workspace"])
        .args(["--features", "hakmem-core/fault-injection"])
        .args(["--test", "faults_sweep"])
        .arg("--target-dir")
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = cargo.output().expect("cargo runs");
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    println!("{out}\n{err}");
    assert!(output.status.success(), "the sweep failed: {err}");
    assert!(out.contains("injection points"), "nothing was swept: {out}");
}
