//! One measurement from the parent's side: a process is started, runs to its end, and has printed a
//! line of figures.

use crate::child::{self, Capture, Finished, ending};
use crate::executables;
use crate::options;
use crate::sample::{ChildLine, Inside, Sample};
use std::io;
use std::process::Command;

/// The command that runs a workload, or a part of a probe or curve, on a built-in allocator.
pub fn command(name: &str, allocator: &str, scale: &str) -> io::Result<Command> {
    let mut command = Command::new(executables::of(allocator)?);
    clean(&mut command);
    command.args(["run-one", name, allocator, "--scale", scale]);
    Ok(command)
}

/// Takes out of the environment what would change the figures.
pub fn clean(command: &mut Command) {
    options::remove(command);
    // A preloaded allocator would take the place of the one that is to be measured as the system's.
    command.env_remove("LD_PRELOAD");
}

/// The figures of a run of the allocator, or the side of a comparison, of that name.
pub fn sample(line: ChildLine, finished: &Finished, name: &str, round: u32) -> Sample {
    let usage = finished.usage;
    Sample {
        workload: line.workload,
        allocator: name.to_owned(),
        round,
        ops: line.ops,
        nanos: line.nanos,
        wall_nanos: finished.wall.as_nanos() as u64,
        user_micros: usage.user_us,
        system_micros: usage.system_us,
        max_rss_kib: usage.max_rss_kib,
        minor_faults: usage.minor_faults,
        major_faults: usage.major_faults,
        inside: Some(Inside {
            rss_start_kib: line.rss_start_kib,
            rss_net_kib: usage.max_rss_kib.saturating_sub(line.rss_start_kib),
            faults_net: line.faults,
        }),
        outcome: None,
    }
}

/// Runs a command that prints one line of figures; its words on standard error become part of an
/// error.
pub fn run(command: &mut Command) -> Result<(ChildLine, Finished), String> {
    let captures = || Ok((Capture::new()?, Capture::new()?));
    let (output, errors) = captures().map_err(|e: io::Error| e.to_string())?;
    let finished = run_into(command, &output, &errors)?;
    if finished.status.success() {
        return Ok((line(output)?, finished));
    }
    let words = errors.text().unwrap_or_default();
    let ending = ending(finished.status);
    Err(match words.trim() {
        "" => ending,
        words => format!("{ending}: {words}"),
    })
}

/// Runs a command to its end, with its output captured.
pub fn run_into(
    command: &mut Command,
    output: &Capture,
    errors: &Capture,
) -> Result<Finished, String> {
    let mut redirected = || {
        let (output, errors) = (output.stdio()?, errors.stdio()?);
        child::run(command.stdout(output).stderr(errors))
    };
    let finished = redirected();
    finished.map_err(|e: io::Error| format!("{}: {e}", command.get_program().display()))
}

/// The line that a measured process has printed.
pub fn line(output: Capture) -> Result<ChildLine, String> {
    let text = output.text().map_err(|e| e.to_string())?;
    serde_json::from_str(&text)
        .map_err(|e| format!("the child's report cannot be read ({e}): {text:?}"))
}
