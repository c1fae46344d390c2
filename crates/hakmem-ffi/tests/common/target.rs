//! The machine that the library and the programs are built for: this one, or one that an emulator
//! stands for. `ci/aarch64` sets both variables.

use std::path::Path;
use std::process::Command;

/// The other machine, as compilers name it: `aarch64-linux-gnu`.
const TARGET: &str = "TEST_HAKMEM_TARGET";
/// The program that runs programs for it.
const EMULATOR: &str = "TEST_HAKMEM_EMULATOR";

fn other() -> Option<String> {
    std::env::var(TARGET).ok()
}

/// A compiler: `cc` or `c++`.
pub fn compiler(name: &str) -> Command {
    Command::new(match (other(), name) {
        (None, _) => name.to_owned(),
        (Some(target), "cc") => format!("{target}-gcc"),
        (Some(target), _) => format!("{target}-g++"),
    })
}

/// Starts a program that was built for the machine.
pub fn start(program: impl AsRef<Path>) -> Command {
    match std::env::var_os(EMULATOR) {
        None => Command::new(program.as_ref()),
        Some(emulator) => {
            let mut command = Command::new(emulator);
            command.arg(program.as_ref());
            command
        }
    }
}
