//! The programs that hold the behaviours, built when first needed.

use crate::common::target::{self, start};
use crate::common::{library, released, run};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};
use tempfile::TempDir;

/// The program of the Rust front end.
pub const RUST: &str = "Rust";

/// Every program that holds behaviours.
pub const ALL: &[&str] = &[
    "aligned.c",
    "blocks.c",
    "figures.c",
    "foreign.c",
    "forks.c",
    "fortified.c",
    "initialising.c",
    "libraries.c",
    "limits.c",
    "operators.cpp",
    "page_size.c",
    "relatives.c",
    "signals.c",
    "sizes.c",
    "start.c",
    "threads.c",
    "zeroes.c",
    RUST,
];

/// Copies of the library with a thread-local variable: more than a fresh table of such has places.
const TLS_COPIES: usize = 70;

/// A program that is built by whoever needs it first.
type Build = Arc<OnceLock<PathBuf>>;

/// Where programs and the libraries that they load are built; gone with this value.
pub struct Workshop {
    directory: TempDir,
    built: Mutex<HashMap<(&'static str, bool), Build>>,
    libraries: OnceLock<()>,
}

impl Workshop {
    pub fn new() -> Self {
        Self {
            directory: TempDir::new_in(env!("CARGO_TARGET_TMPDIR"))
                .expect("a directory to build in"),
            built: Mutex::default(),
            libraries: OnceLock::new(),
        }
    }

    /// The directory of the libraries that programs load; they run in it.
    pub fn libraries(&self) -> &Path {
        self.libraries.get_or_init(|| self.build_libraries());
        self.directory.path()
    }

    /// The program, with libhakmem.a linked into it if `static`. Built once.
    pub fn program(&self, source: &'static str, r#static: bool) -> PathBuf {
        let cell = {
            let mut built = self.built.lock().expect("no build panicked");
            Arc::clone(built.entry((source, r#static)).or_default())
        };
        cell.get_or_init(|| match source {
            RUST => released().example("conformance"),
            _ => self.build(source, r#static),
        })
        .clone()
    }

    pub fn behaviours_of(&self, source: &'static str) -> Vec<String> {
        let output = run(start(self.program(source, false)).arg("--list"));
        let text = String::from_utf8(output.stdout).expect("names");
        text.lines().map(str::to_owned).collect()
    }

    fn build(&self, source: &str, r#static: bool) -> PathBuf {
        let kind = if r#static { "static" } else { "plain" };
        let program = self.directory.path().join(format!("{source}-{kind}"));
        let mut compiler = compiler(source);
        // Exported, so that dlsym finds what libhakmem.a brings, and the program's functions go
        // before the libraries'.
        compiler.arg("-rdynamic").arg("-o").arg(&program);
        compiler.arg(sources().join(source));
        if r#static {
            compiler.arg(&library().r#static);
        }
        run(&mut compiler);
        program
    }

    fn build_libraries(&self) {
        let at = |name: &str| self.directory.path().join(name);
        std::fs::create_dir(at("inner")).expect("a directory");
        for (source, library) in [
            ("embedding.c", "embedding.so"),
            ("plain.c", "plain.so"),
            ("plain.c", "inner/inner.so"),
            ("runpath.c", "runpath.so"),
            ("fixed_tls.c", "fixed_tls.so"),
            ("tls.c", "tls_0.so"),
        ] {
            let mut compiler = compiler(source);
            compiler.args(["-shared", "-fPIC", "-o"]).arg(at(library));
            compiler.arg(sources().join(source));
            if source == "embedding.c" {
                // An allocator that nobody else sees.
                compiler.arg(&crate::common::library().r#static);
                compiler.args(["-Wl,--exclude-libs,ALL", "-Wl,-Bsymbolic"]);
            }
            if source == "runpath.c" {
                compiler.args(["-Wl,--enable-new-dtags", "-Wl,-rpath,$ORIGIN/inner"]);
            }
            run(&mut compiler);
        }
        for i in 1..TLS_COPIES {
            std::fs::copy(at("tls_0.so"), at(&format!("tls_{i}.so"))).expect("a copy");
        }
    }
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/programs")
}

fn compiler(source: &str) -> Command {
    let (program, standard) = if source.ends_with(".cpp") {
        ("c++", "-std=gnu++17")
    } else {
        ("cc", "-std=gnu11")
    };
    let mut command = target::compiler(program);
    // No builtins: calls of malloc and free are the subject, not to be reasoned away.
    command.args([
        standard,
        "-D_GNU_SOURCE",
        "-O1",
        "-g",
        "-fno-builtin",
        "-pthread",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-deprecated-declarations",
        "-Wno-alloc-size-larger-than",
        "-Wno-use-after-free",
    ]);
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    command.arg("-I").arg(include);
    command
}
