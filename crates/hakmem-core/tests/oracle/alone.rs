//! Tests that need a process of their own: this program again, for one test.

use std::env;
use std::process::Command;

const NAME: &str = "TEST_HAKMEM_ALONE";

/// Runs `case`, which is the test `name`, in a process of its own.
pub fn alone(name: &str, case: fn()) {
    if env::var_os(NAME).is_some() {
        return case();
    }
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(NAME, name);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
}
