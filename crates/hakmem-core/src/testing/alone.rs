//! Runs one test in a process of its own: it starts the test program again, for that test alone.

extern crate std;

use core::panic::Location;
use std::boxed::Box;
use std::env;
use std::format;
use std::panic::{set_hook, take_hook};
use std::path::Path;
use std::process::{Command, Output, abort};
use std::string::String;

/// Set in such a process: the name of the test.
const NAME: &str = "TEST_HAKMEM_ALONE";
/// Names the emulator that runs test programs which are for another processor than the machine's.
const EMULATOR: &str = "TEST_HAKMEM_EMULATOR";

/// Runs `case`, the body of the test `name`, in a process of its own, on its first thread.
#[track_caller]
pub fn alone(name: &str, case: fn()) {
    if apart(name, &[]).is_none() {
        case();
    }
}

/// Starts the test program again.
pub fn this_program() -> Command {
    let program = env::current_exe().unwrap();
    match env::var_os(EMULATOR) {
        None => Command::new(program),
        Some(emulator) => {
            let mut command = Command::new(emulator);
            command.arg(program);
            command
        }
    }
}

/// Runs the test `name` in a process of its own, with these environment variables, and fails if the
/// test fails. Returns None in that process itself.
///
/// The calling test is the one named `name`, or `name` in a module that is named like the caller's
/// file.
#[track_caller]
pub fn apart(name: &str, variables: &[(&str, &str)]) -> Option<Output> {
    if env::var_os(NAME).is_some() {
        // Else a thread that fails would leave others that wait for it, and the test would hang.
        let report = take_hook();
        set_hook(Box::new(move |panic| {
            report(panic);
            abort();
        }));
        return None;
    }
    let mut command = this_program();
    let file = Path::new(Location::caller().file()).file_stem().unwrap();
    let in_module = format!("{}::{name}", file.display());
    command.args(["--exact", name, &in_module]).env(NAME, name);
    command.args(["--nocapture", "--test-threads=1"]);
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let failed = String::from_utf8_lossy(&output.stderr);
    let passed = output.status.success() && said.contains("1 passed");
    assert!(passed, "{}: {said}{failed}", output.status);
    Some(output)
}
