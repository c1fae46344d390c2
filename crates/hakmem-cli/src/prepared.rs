//! A program that is about to be run on hakmem, to be looked at: `hakmem top` and `hakmem map`.
//! (`hakmem run` and `stat` run what hakmem cannot serve, too.)

use crate::checked::say;
use crate::child::{self, Child, End};
use crate::outcome::signal_name;
use crate::own::Own;
use crate::program::{self, NotStarted};
use crate::scratch::Scratch;
use crate::{library, run};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};

pub struct Prepared {
    command: Vec<OsString>,
    path: PathBuf,
    /// Nothing, if the program has hakmem inside.
    preload: Option<OsString>,
    scratch: Scratch,
}

impl Prepared {
    /// Finds the program and the library.
    pub fn new(command: &[OsString], lib: Option<&Path>) -> Result<Self, NotStarted> {
        let name = command[0].to_string_lossy();
        let own_failure = |why: String| NotStarted {
            why,
            status: run::OWN_FAILURE,
        };
        let path = program::find(&command[0]).map_err(|e| named(&name, e))?;
        let library = match program::own(&path) {
            Some(Own::Hakmem { .. }) => None,
            own => {
                let library = library::find(lib).map_err(own_failure)?;
                if let Some(why) = program::obstacle(&path, library.machine) {
                    return Err(own_failure(format!("{name} cannot run on hakmem: {why}")));
                }
                if let Some(Own::Other(what)) = own {
                    say(&format!(
                        "{name} uses {what}; hakmem serves only what the C library allocates"
                    ));
                }
                Some(library)
            }
        };
        let scratch = Scratch::new().map_err(own_failure)?;
        let existing = std::env::var_os("LD_PRELOAD");
        let preload = library
            .map(|library| {
                library::preload(&library.path, Some(scratch.folder()), existing.as_deref())
            })
            .transpose()
            .map_err(own_failure)?;
        Ok(Self {
            command: command.to_vec(),
            path,
            preload,
            scratch,
        })
    }

    /// A folder of its own, for as long as this lives.
    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// What the program needs in its environment to run on hakmem.
    pub fn environment(&self) -> Vec<(&str, &OsStr)> {
        let preload = self.preload.as_deref();
        preload
            .map(|value| ("LD_PRELOAD", value))
            .into_iter()
            .collect()
    }

    /// The line for a program that has ended and left nothing of what it was to write. `way` takes
    /// that from outside.
    pub fn without(&self, what: &str, way: &str, end: End) -> String {
        let name = self.command[0].to_string_lossy();
        if let End::Killed(signal) = end {
            let signal = signal_name(signal);
            return format!(
                "{name} left no {what}: {signal} killed the process before it could report; if it \
                 runs on hakmem, {way} before the end"
            );
        }
        match self.preload {
            Some(_) => format!(
                "{name} left no {what}: it did not run on hakmem, ended without exit handlers \
                 (_exit, exec, a signal), or could not write"
            ),
            None => format!("hakmem inside {name} served it, but wrote no {what}"),
        }
    }

    /// See [`child::start`].
    pub fn start(
        &self,
        environment: &[(&str, &OsStr)],
        output: Option<&[File; 2]>,
    ) -> Result<Child, NotStarted> {
        let name = self.command[0].to_string_lossy();
        child::start(&self.path, &self.command, environment, output)
            .map_err(|e| named(&name, NotStarted::from_exec(&self.path, &e)))
    }
}

fn named(name: &str, e: NotStarted) -> NotStarted {
    NotStarted {
        why: format!("cannot run {}: {}", program::shown(name), e.why),
        ..e
    }
}
