//! The process of one measurement: a small program with one allocator, so that what is resident is
//! that allocator's.
//!
//! Each allocator has such a program, `hakmem-run-<allocator>`, made of this file. It has no other
//! allocator, whose code might run at its start, and no library for its command line.
//!
//! ```text
//! hakmem-run-NAME run-one WORKLOAD NAME [--scale SCALE]
//!                                       one line of JSON; HAKMEM_ variables are read
//! hakmem-run-system run-probe PROBE [--library PATH] [--scale SCALE]
//!                                       whatever serves malloc is measured
//! ```

use crate::heap::Subject;
use crate::probes::{child, library};
use crate::run_one;
use crate::workloads::{self, Scale};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// What the command line asks for.
struct Wish {
    task: String,
    name: String,
    allocator: Option<String>,
    library: Option<PathBuf>,
    scale: Scale,
}

/// Measures on allocator `A`, called `own`.
pub fn main<A: Subject>(own: &'static str) -> ExitCode {
    main_with::<A>(own, Vec::new())
}

/// [`main`] for an allocator that was given `options`.
pub fn main_with<A: Subject>(own: &'static str, options: Vec<String>) -> ExitCode {
    match run::<A>(own, options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hakmem-run-{own}: {error}");
            ExitCode::from(2)
        }
    }
}

fn run<A: Subject>(own: &'static str, options: Vec<String>) -> io::Result<()> {
    let wish = parse(std::env::args().skip(1))?;
    match wish.task.as_str() {
        "run-one" if wish.allocator.as_deref() == Some(own) => {
            let workload = workloads::table::<A>().any(&wish.name);
            let workload = workload.ok_or_else(|| unknown("workload", &wish.name))?;
            let mut line = run_one::run_on(workload, own, wish.scale);
            line.options = options;
            run_one::print(&line)
        }
        "run-one" => Err(unknown("allocator", &wish.allocator.unwrap_or_default())),
        // It is for what serves `malloc`.
        "run-probe" if own == library::SYSTEM => child::run(&child::Options {
            name: wish.name,
            library: wish.library,
            scale: wish.scale,
        }),
        other => Err(unknown("task", other)),
    }
}

fn unknown(what: &str, name: &str) -> io::Error {
    io::Error::other(format!("there is no {what} '{name}'"))
}

fn parse(mut arguments: impl Iterator<Item = String>) -> io::Result<Wish> {
    let mut plain = Vec::new();
    let (mut library, mut scale) = (None, "full".to_owned());
    while let Some(argument) = arguments.next() {
        let mut value = || {
            let missing = || io::Error::other(format!("{argument} needs a value"));
            arguments.next().ok_or_else(missing)
        };
        match argument.as_str() {
            "--library" => library = Some(PathBuf::from(value()?)),
            "--scale" => scale = value()?,
            _ => plain.push(argument),
        }
    }
    let mut plain = plain.into_iter();
    let (Some(task), Some(name), allocator, None) =
        (plain.next(), plain.next(), plain.next(), plain.next())
    else {
        return Err(io::Error::other("it is started by hakmem-bench"));
    };
    let scale = run_one::scale(&scale).ok_or_else(|| unknown("scale", &scale))?;
    Ok(Wish {
        task,
        name,
        allocator,
        library,
        scale,
    })
}
