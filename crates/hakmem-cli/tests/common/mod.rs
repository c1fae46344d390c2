//! What the tests of `hakmem run` share: programs compiled once per test run, and the command under
//! test.
#![allow(dead_code, reason = "each test file uses its own part")]

pub mod terminal;

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::LazyLock;

/// Programs and libraries built from tests/programs.
pub struct Built {
    folder: PathBuf,
}

impl Built {
    pub fn compile(&self, source: &str, name: &str, flags: &[&str]) -> PathBuf {
        let output = self.folder.join(name);
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/programs")
            .join(source);
        // Under a name of its own first: another test process may be running the program.
        let draft = self.folder.join(format!("{name}.{}", std::process::id()));
        let status = Command::new("cc")
            .args(["-Wall", "-O1", "-o"])
            .arg(&draft)
            .arg(&source)
            .args(flags)
            .status();
        assert!(
            status.expect("cc is needed to test").success(),
            "cc {}",
            source.display()
        );
        std::fs::rename(&draft, &output).unwrap();
        output
    }
}

pub static BUILT: LazyLock<Built> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("run");
    std::fs::create_dir_all(&folder).unwrap();
    Built { folder }
});

/// A library that reports as libhakmem.so does.
pub static LIBRARY: LazyLock<PathBuf> =
    LazyLock::new(|| BUILT.compile("library.c", "libfake.so", &["-shared", "-fPIC"]));
pub static PROGRAM: LazyLock<PathBuf> =
    LazyLock::new(|| BUILT.compile("program.c", "program", &[]));
pub static STATIC: LazyLock<PathBuf> =
    LazyLock::new(|| BUILT.compile("program.c", "static", &["-static"]));
pub static STATIC_PIE: LazyLock<PathBuf> =
    LazyLock::new(|| BUILT.compile("program.c", "pie", &["-static-pie"]));
/// Allocates exactly what it is known to.
pub static KNOWN: LazyLock<PathBuf> =
    LazyLock::new(|| BUILT.compile("known.c", "known", &["-fno-builtin", "-pthread"]));
/// Makes heaps of its own.
pub static HEAPS: LazyLock<PathBuf> =
    LazyLock::new(|| BUILT.compile("heaps.c", "heaps", &["-fno-builtin", "-ldl"]));
/// Has what a reader from outside finds in it forged.
pub static FORGE: LazyLock<PathBuf> =
    LazyLock::new(|| BUILT.compile("forge.c", "forge", &["-fno-builtin"]));
pub static TERMINAL: LazyLock<PathBuf> =
    LazyLock::new(|| BUILT.compile("terminal.c", "terminal", &["-lutil"]));

#[path = "../../../hakmem-ffi/tests/common/built.rs"]
pub mod built;

/// The libhakmem.so of this workspace.
pub static HAKMEM: LazyLock<PathBuf> = LazyLock::new(|| built::released(&[]).of("hakmem", ".so"));

pub fn hakmem() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hakmem"));
    for name in [
        "LD_PRELOAD",
        "HAKMEM_STATS",
        "HAKMEM_TIMING",
        "FAKE_ALLOCATIONS",
    ] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// A copy of a file in `folder`. By another process: a child of another test would have the copy
/// open for writing, and it could not be run.
pub fn copied(file: &Path, folder: &Path) -> PathBuf {
    let copied = Command::new("cp").arg(file).arg(folder).status();
    assert!(copied.unwrap().success());
    folder.join(file.file_name().unwrap())
}

/// The command under test, in a folder where users get who may get nowhere else, and write.
pub fn for_nobody() -> (PathBuf, PathBuf) {
    use std::os::unix::fs::PermissionsExt;
    let place = tempfile::tempdir_in("/tmp").unwrap().keep();
    std::fs::set_permissions(&place, PermissionsExt::from_mode(0o777)).unwrap();
    let command = copied(Path::new(env!("CARGO_BIN_EXE_hakmem")), &place);
    (command, place)
}

/// `hakmem run` with the reporting library, some options, and a program with its arguments.
pub fn run<S: AsRef<OsStr>>(options: &[&str], program: &[S]) -> Command {
    let mut command = hakmem();
    command
        .arg("run")
        .arg("--lib")
        .arg(&*LIBRARY)
        .args(options)
        .arg("--")
        .args(program);
    command
}

pub fn program(arguments: &[&str]) -> Vec<String> {
    let mut words = vec![PROGRAM.to_str().unwrap().to_owned()];
    words.extend(arguments.iter().map(|a| a.to_string()));
    words
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Fails unless standard error has `part`.
#[track_caller]
pub fn assert_says(output: &Output, part: &str) {
    let text = stderr(output);
    assert!(text.contains(part), "{part:?} is not in {text}");
}

/// Fails unless the program ended with this status and this standard output.
#[track_caller]
pub fn assert_ended(output: &Output, status: i32, text: &str) {
    let ended = (output.status.code(), stdout(output));
    assert_eq!(ended, (Some(status), text.to_owned()), "{}", stderr(output));
}

/// A process on hakmem with figures as `changes` say: see programs/forge.c.
pub fn forged(changes: &[&str]) -> Ready {
    let mut command = Command::new(&*FORGE);
    command
        .args(changes)
        .env("LD_PRELOAD", &*HAKMEM)
        .stdin(Stdio::piped());
    Ready::new(command)
}

/// Runs the command with 1 GiB of address space, 256 MiB of memory that is no file's and 60 s of
/// processor time: what needs more dies of it.
pub fn bounded(command: &mut Command) -> Output {
    use std::os::unix::process::CommandExt;
    let limit = |what, value| {
        let limit = libc::rlimit {
            rlim_cur: value,
            rlim_max: value,
        };
        // SAFETY: a live rlimit.
        match unsafe { libc::setrlimit(what, &limit) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    let limits = move || {
        limit(libc::RLIMIT_AS, 1 << 30)?;
        limit(libc::RLIMIT_DATA, 256 << 20)?;
        limit(libc::RLIMIT_CPU, 60)
    };
    // SAFETY: the closure only makes system calls.
    unsafe { command.pre_exec(limits) }.output().unwrap()
}

/// The command refused, in one line that can be shown, or was content; no other end is a good one.
pub fn refused_or_done(output: &Output, what: &str) -> bool {
    let (code, text) = (
        output.status.code(),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        matches!(code, Some(0 | 1)),
        "{what}: {:?}, {text}",
        output.status
    );
    let lines = text.lines().count();
    assert_eq!(lines, usize::from(code == Some(1)), "{what}: {text}");
    for part in [&output.stdout, &output.stderr] {
        let part = std::str::from_utf8(part).expect("UTF-8");
        let hidden = part.chars().find(|c| c.is_control() && *c != '\n');
        assert_eq!(hidden, None, "{what}: {part:?}");
    }
    code == Some(1)
}

/// A command that has printed "ready".
pub struct Ready {
    pub child: Child,
    lines: BufReader<ChildStdout>,
}

impl Ready {
    pub fn new(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut ready = Self { child, lines };
        assert_eq!(ready.line(), "ready");
        ready
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub fn kill(&self, signal: i32) {
        // SAFETY: the child is not reaped, so the pid is its own.
        assert_eq!(unsafe { libc::kill(self.pid(), signal) }, 0);
    }

    /// The pid of the program that hakmem started.
    pub fn program(&self) -> i32 {
        let path = format!("/proc/{0}/task/{0}/children", self.pid());
        std::fs::read_to_string(path)
            .unwrap()
            .trim()
            .parse()
            .unwrap()
    }

    /// What is left on standard output, once nobody holds it any more.
    pub fn rest(&mut self) -> String {
        let mut text = String::new();
        self.lines.read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for Ready {
    /// A failed test leaves no processes behind: the program, stopped or not, dies with hakmem.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
