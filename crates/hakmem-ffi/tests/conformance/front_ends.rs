//! The front ends that a behaviour is tried by, and one try.

use crate::behaviours::Behaviour;
use crate::common::target::start;
use crate::common::{finish, library};
use crate::programs::{RUST, Workshop};
use std::path::Path;
use std::process::Command;

/// How a program gets its allocator.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FrontEnd {
    /// `LD_PRELOAD` of libhakmem.so.
    Preload,
    /// libhakmem.a linked into it.
    Static,
    /// `#[global_allocator]`.
    Rust,
    /// The C library's own: the control.
    Glibc,
}

pub const FRONT_ENDS: [FrontEnd; 4] = [
    FrontEnd::Preload,
    FrontEnd::Static,
    FrontEnd::Rust,
    FrontEnd::Glibc,
];

/// What became of one behaviour by one front end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    Held,
    /// The C library has no such behaviour, for this reason.
    Lacking(String),
    Failed(String),
}

impl FrontEnd {
    pub fn name(self) -> &'static str {
        match self {
            Self::Preload => "preload",
            Self::Static => "static",
            Self::Rust => "rust",
            Self::Glibc => "glibc",
        }
    }

    /// Why the behaviour does not apply to this front end; None if it does.
    pub fn excluded(self, behaviour: &Behaviour) -> Option<&'static str> {
        match self {
            Self::Rust if behaviour.rust.is_some() => behaviour.rust,
            Self::Glibc => None,
            _ => hardened_lacks(behaviour.name),
        }
    }

    /// Runs the behaviour's program to its end.
    pub fn run(self, behaviour: &'static Behaviour, workshop: &Workshop) -> Outcome {
        self.run_by(|program| start(program), behaviour, workshop)
    }

    /// [`FrontEnd::run`], with the program started by what is made of its path.
    pub fn run_by(
        self,
        start: impl FnOnce(&Path) -> Command,
        behaviour: &'static Behaviour,
        workshop: &Workshop,
    ) -> Outcome {
        let source = if self == Self::Rust {
            RUST
        } else {
            behaviour.program
        };
        let mut command = start(&workshop.program(source, self == Self::Static));
        command.current_dir(workshop.libraries());
        command.arg(behaviour.name);
        command.arg(if self == Self::Glibc {
            "glibc"
        } else {
            "hakmem"
        });
        command
            .env_remove("LD_PRELOAD")
            .env_remove("HAKMEM_STATS")
            .envs(behaviour.options.iter().copied());
        if self == Self::Preload {
            command.env("LD_PRELOAD", &library().shared);
        }
        let output = finish(&mut command);
        let text = String::from_utf8_lossy(&output.stdout);
        let said = judge(&text, self != Self::Glibc);
        match said {
            Outcome::Failed(why) => Outcome::Failed(format!(
                "{why}; {}: {}",
                output.status,
                String::from_utf8_lossy(&output.stderr)
            )),
            _ if !output.status.success() => Outcome::Failed(format!(
                "passed, then {}: {}",
                output.status,
                String::from_utf8_lossy(&output.stderr)
            )),
            said => said,
        }
    }
}

/// Why a behaviour does not apply to the hardened build; None: it does, or this is the default
/// build.
pub fn hardened_lacks(behaviour: &str) -> Option<&'static str> {
    const LACKS: [(&str, &str); 4] = [
        ("mallinfo_counts", WAITS),
        ("mallinfo_tells_mapped_and_free_blocks", WAITS),
        (
            "sized_delete_forgives_a_wrong_size",
            "the hardened build reports it",
        ),
        (
            "reserved_address_space_is_not_charged",
            "with its tag, a block of 1 MiB has 2 MiB of address space",
        ),
    ];
    const WAITS: &str = "a freed block that waits counts as live";
    let mut lacks = LACKS.iter().filter(|_| cfg!(feature = "hardened"));
    Some(lacks.find(|(name, _)| *name == behaviour)?.1)
}

/// Reads a program's output: "ok N" lines, one for each process that reports, or a line of another
/// kind at the end. Under hakmem each must have got blocks from it.
fn judge(text: &str, on_hakmem: bool) -> Outcome {
    let mut outcome = Outcome::Failed("the program said nothing".to_owned());
    for line in text.lines() {
        let blocks = line.strip_prefix("ok ").and_then(|n| n.parse::<u64>().ok());
        outcome = match (blocks, line.strip_prefix("lacks ")) {
            (Some(0), _) if on_hakmem => {
                return Outcome::Failed("hakmem served no block".to_owned());
            }
            (Some(n), _) if n > 0 && !on_hakmem => {
                return Outcome::Failed("hakmem served the C library's run".to_owned());
            }
            (Some(_), _) => Outcome::Held,
            (None, Some(why)) if !on_hakmem => Outcome::Lacking(why.to_owned()),
            _ => return Outcome::Failed(line.to_owned()),
        };
    }
    outcome
}
