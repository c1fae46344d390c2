//! Behaviours of hakmem as the `#[global_allocator]`: `conformance NAME hakmem` runs one,
//! `conformance --list` names them. The tests of the C library run it, and describe its output.

use hakmem_core::Hakmem;
use std::process::ExitCode;

mod blocks;
mod limits;
mod process;
mod support;
mod threads;

#[global_allocator]
static ALLOCATOR: Hakmem = Hakmem::new();

type Behaviour = (&'static str, fn());

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let all = || {
        [blocks::ALL, threads::ALL, process::ALL, limits::ALL]
            .into_iter()
            .flatten()
    };
    match &arguments[1..] {
        [list] if list == "--list" => {
            for (name, _) in all() {
                println!("{name}");
            }
            ExitCode::SUCCESS
        }
        [name, _] => {
            let Some((_, run)) = all().find(|(known, _)| known == name) else {
                eprintln!("no behaviour {name}");
                return ExitCode::from(2);
            };
            // SAFETY: no preconditions. It ends what hangs.
            unsafe { libc::alarm(120) };
            let before = hakmem_core::stats::process().allocations;
            run();
            println!("ok {}", hakmem_core::stats::process().allocations - before);
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("usage: conformance NAME hakmem, or --list");
            ExitCode::from(2)
        }
    }
}

/// Lists functions by their names.
macro_rules! behaviours {
    ($($name:ident)*) => { &[$((stringify!($name), $name as fn())),*] };
}
pub(crate) use behaviours;
