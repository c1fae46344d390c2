//! The program that is to run on hakmem, and the library that serves it.

use super::finding::{Finding, Verdict};
use crate::checked;
use crate::library::{self, Library};
use crate::needed;
use crate::own::{self, Own};
use crate::proc;
use crate::program::{self, Machine, NotStarted};
use crate::scratch::Scratch;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs};

/// The library: where it is, its version, and whether it serves a program on this system.
pub fn library(given: Option<&Path>) -> Finding {
    const SUBJECT: &str = "library";
    let library = match library::find(given) {
        Ok(library) => library,
        Err(why) => {
            return Finding::new(
                Verdict::Problem,
                SUBJECT,
                "none",
                format!("hakmem run cannot work: {why}."),
                "Put libhakmem.so beside hakmem, or in ../lib, or name it by --lib PATH.",
            );
        }
    };
    let path = library.path.display().to_string();
    if !own::is_hakmem(&library.path) {
        return Finding::new(
            Verdict::Problem,
            SUBJECT,
            &path,
            "This is another library.",
            "Name libhakmem.so by --lib PATH.",
        );
    }
    let this = match proc::own_file() {
        Ok(this) => this,
        Err(why) => {
            return Finding::new(
                Verdict::Note,
                SUBJECT,
                &path,
                format!("Whether it serves a program was not tried, because {why}."),
                "hakmem run --lib PATH PROG tries it.",
            );
        }
    };
    let scratch = match Scratch::new() {
        Ok(scratch) => scratch,
        Err(why) => {
            return Finding::new(
                Verdict::Note,
                SUBJECT,
                &path,
                format!("Whether it serves a program was not tried: hakmem {why}."),
                "Let TMPDIR name a folder that can be written. Until then hakmem run cannot tell \
                 whether hakmem serves a program, and options that need a report fail.",
            );
        }
    };
    match version(&this, &library, scratch.folder()) {
        Ok(version) if version == env!("CARGO_PKG_VERSION") => Finding::ok(
            SUBJECT,
            &format!("{path}, version {version}"),
            "It served a program just now.",
        ),
        Ok(version) => Finding::new(
            Verdict::Note,
            SUBJECT,
            &format!("{path}, version {version}"),
            format!(
                "It served a program just now. This command has version {}.",
                env!("CARGO_PKG_VERSION")
            ),
            "Install both from one version: top, stat --pid and map --pid need that.",
        ),
        Err(why) => Finding::new(
            Verdict::Problem,
            SUBJECT,
            &path,
            format!("It did not serve a program: {why}."),
            "If that is not a limit of this shell (ulimit -a), build the library again on this \
             system: cargo build --release -p hakmem-ffi.",
        ),
    }
}

/// Runs this command on the library. The map that it leaves in `scratch` names the library's
/// version.
fn version(this: &Path, library: &Library, scratch: &Path) -> Result<String, String> {
    let map = scratch.join("map");
    let preload = library::preload(&library.path, Some(scratch), None)?;
    let mut command = Command::new(this);
    for (name, _) in env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"HAKMEM_") {
            command.env_remove(name);
        }
    }
    let output = command
        .arg("--version")
        .env("LD_PRELOAD", preload)
        .env("HAKMEM_MAP", &map)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| e.to_string())?;
    let text = fs::read_to_string(&map).map_err(|_| {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let first = text.lines().next().unwrap_or("it said nothing");
        first.to_owned()
    })?;
    let map = text.lines().find_map(|line| {
        let map: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(map.get("version")?.as_str()?.to_owned())
    });
    map.ok_or_else(|| "its map has no version".into())
}

/// What is known of a program before it runs.
pub fn program(word: &OsStr, given: Option<&Path>) -> Result<Vec<Finding>, NotStarted> {
    let path = program::find(word)?;
    // Without a library: what this command is built for.
    let machine = match library::find(given) {
        Ok(library) => Ok(library.machine),
        Err(_) => env::current_exe().and_then(|this| Machine::of_library(&this)),
    };
    let executed = program::executed(&path);
    let mut all = vec![file(&path, &executed)];
    let own = program::own(&path);
    all.push(match own {
        // Nothing is to be loaded into it.
        Some(Own::Hakmem { .. }) => Finding::ok(
            "preload",
            "not needed",
            "hakmem is inside the program. Nothing is loaded into it.",
        ),
        _ => reach(machine.ok().and_then(|m| program::obstacle(&path, m))),
    });
    all.push(
        match needed::allocator(&executed).filter(|_| own.is_none()) {
            Some(library) => of_library(&library),
            None => allocator(own),
        },
    );
    Ok(all)
}

/// The file, and what the system executes for it.
fn file(path: &Path, executed: &Path) -> Finding {
    const SUBJECT: &str = "program";
    let found = path.display().to_string();
    let executes = executed.display();
    if executed == path {
        return Finding::ok(SUBJECT, &found, "This file is what the system executes.");
    }
    if executed.file_name() != Some(OsStr::new("env")) {
        let what = format!("It is a script. What follows is about its interpreter, {executes}.");
        return Finding::ok(SUBJECT, &found, what);
    }
    let example = match program::looked_for(path) {
        Some(name) => format!(": hakmem doctor {}", checked::name(&name)),
        None => String::new(),
    };
    Finding::new(
        Verdict::Note,
        SUBJECT,
        &found,
        format!("It is a script. {executes} looks for its interpreter when it starts."),
        format!(
            "Name the interpreter instead{example}. A wrapper, such as pyenv's, hides the real \
             program: name that one."
        ),
    )
}

/// Whether a preloaded library gets into the program.
fn reach(obstacle: Option<String>) -> Finding {
    const SUBJECT: &str = "preload";
    let Some(why) = obstacle else {
        return Finding::ok(
            SUBJECT,
            "works",
            "Its file shows nothing that keeps a preloaded library out.",
        );
    };
    let advice = if why.contains("statically linked") {
        "Link it to libhakmem.a, or make hakmem the global allocator of a Rust program."
    } else if why.contains("musl") {
        "Link it to a libhakmem.a for musl: docs/platforms.md."
    } else if why.contains("LD_PRELOAD") {
        "Start it from a process that has these rights already, or link it to hakmem."
    } else {
        "Build libhakmem.so for that machine."
    };
    Finding::new(
        Verdict::Problem,
        SUBJECT,
        "does not work",
        format!("hakmem cannot serve it: {why}."),
        advice,
    )
}

const ALLOCATOR: &str = "allocator";

/// A library that brings malloc, which the program takes by that name alone.
fn of_library(library: &str) -> Finding {
    Finding::new(
        Verdict::Note,
        ALLOCATOR,
        library,
        "The program needs this library, which has a malloc. When hakmem is preloaded, hakmem's \
         malloc comes first and serves the program.",
        "Figures of the library (of mallctl, say) are then those of an allocator without work.",
    )
}

fn allocator(own: Option<Own>) -> Finding {
    match own {
        None => Finding::ok(
            ALLOCATOR,
            "malloc",
            "The file shows no other allocator. A file without symbols may hide one.",
        ),
        Some(Own::Hakmem { certain: true }) => {
            Finding::ok(ALLOCATOR, "hakmem inside", "hakmem serves the program.")
        }
        Some(Own::Hakmem { certain: false }) => Finding::new(
            Verdict::Note,
            ALLOCATOR,
            "hakmem inside, and malloc",
            "The program calls malloc, too, which is the C library's.",
            "To have hakmem serve both, preload libhakmem.so as well: LD_PRELOAD.",
        ),
        Some(Own::Other(what)) => Finding::new(
            Verdict::Note,
            ALLOCATOR,
            what,
            "hakmem serves only what the program allocates by the C library's functions.",
            "hakmem run --require PROG tells how much that is. Or build it without that one.",
        ),
    }
}
