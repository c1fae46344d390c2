//! Errors of programs: which of them each build finds. `docs/security.md` has the table.

use crate::common;

use common::{Language, Link, compile, finish, library};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::{fs, thread};
use tempfile::TempDir;

/// Bytes of a block of one slot's page, of another, and of one with slots of its own.
const SIZES: [&str; 3] = ["40", "3000", "200000"];
/// The event of the program that is the error.
const EVENTS: [&str; 2] = ["1", "200"];
/// For these errors there are no sizes.
const WITHOUT_SIZE: [&str; 6] = [
    "on_stack",
    "on_stack_alloca",
    "variable",
    "mapping",
    "zero_write",
    "zero_read",
];
/// What the hardened build does not find: the memory is another allocator's, for all that it knows;
/// and a large block that is freed while others wait comes back as it was.
const NOT_FOUND: [(&str, &str); 2] = [("mapping", "40"), ("read_reused", "200000")];

/// Of a large block, only a fence shows these. The first block that is freed gets one, a later one
/// if none was fenced in the same tick of the clock.
pub const BY_FENCE: [&str; 5] = [
    "write_freed_start",
    "write_freed_middle",
    "write_freed_end",
    "read_freed",
    "poison",
];

fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compile(Language::Cpp, "errors.cpp", Link::Plain))
}

/// What the default build finds at all sizes: what does not depend on where blocks lie.
const BY_DEFAULT: [&str; 8] = [
    "twice",
    "twice_between",
    "realloc_freed",
    "size_of_freed",
    "unaligned",
    "poison",
    "delete_twice",
    "on_stack",
];

/// What is built with the feature `hardened`: the library, and the fixture `errors`.
pub fn built_hardened() -> &'static common::built::Artifacts {
    let packages = ["-p", "hakmem-ffi", "-p", "hakmem-fixtures"];
    let targets = ["--release", "--lib", "--example", "errors"];
    let features = ["--features", "hakmem-ffi/hardened,hakmem-fixtures/hardened"];
    let args = [&packages[..], &targets, &features].concat();
    common::built::apart("hardened", &args)
}

/// The library of a build with the feature `hardened`.
pub fn hardened() -> PathBuf {
    built_hardened().of("hakmem", ".so")
}

/// The static library of that build.
pub fn hardened_static() -> PathBuf {
    built_hardened().of("hakmem", ".a")
}

/// What a block in a guarded place does not show: what is not freed, memory of others, and which
/// function made a block, with which size.
const NOT_GUARDED: [&str; 9] = [
    "over_1_lost",
    "mapping",
    "new_free",
    "new_delete_array",
    "array_delete",
    "malloc_delete",
    "delete_smaller",
    "delete_larger",
    "delete_near",
];

/// A build, or a choice of its options.
struct Build {
    library: PathBuf,
    /// Each allocation gets a guarded place, or as many as there is room for.
    is_guarded: bool,
}

/// What became of an error.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Missed,
    Harmless,
    Fault,
    Report,
}

impl Outcome {
    fn of(name: &str, size: &str, event: &str, build: &Build) -> Self {
        let mut command = Command::new(program());
        command
            .args([name, size, event])
            .env("LD_PRELOAD", &build.library)
            .env(
                "HAKMEM_GUARD_SAMPLE",
                if build.is_guarded { "1" } else { "0" },
            )
            .env_remove("HAKMEM_STATS");
        let output = finish(&mut command);
        let stderr = String::from_utf8_lossy(&output.stderr);
        match (output.status.code(), output.status.signal()) {
            (Some(0), _) => Self::Missed,
            (Some(42), _) => Self::Harmless,
            (_, Some(libc::SIGABRT)) if stderr.starts_with("hakmem: ") => Self::Report,
            (_, Some(libc::SIGSEGV | libc::SIGBUS)) => Self::Fault,
            other => panic!("{name} {size} {event}: {other:?}: {stderr}"),
        }
    }
}

/// The worse outcome of the two events.
fn outcomes(name: &str, build: &Build) -> Vec<Outcome> {
    let worst = |size| {
        let is_by_fence = size == SIZES[2] && BY_FENCE.contains(&name);
        let is_first = is_by_fence || build.is_guarded;
        let events = if is_first { &EVENTS[..1] } else { &EVENTS };
        let all = events
            .iter()
            .map(|event| Outcome::of(name, size, event, build));
        all.min().expect("there is one")
    };
    let sizes = if WITHOUT_SIZE.contains(&name) {
        &SIZES[..1]
    } else if build.is_guarded {
        &SIZES[..2]
    } else {
        &SIZES
    };
    sizes.iter().map(|size| worst(size)).collect()
}

fn names() -> Vec<String> {
    let output = finish(Command::new(program()).arg("list"));
    let text = String::from_utf8(output.stdout).expect("names");
    text.lines().map(str::to_owned).collect()
}

/// Whether each is found is the same in each run. How it shows may depend on where blocks lie.
#[test]
fn each_build_finds_what_it_promises() {
    let build = |library, is_guarded| Build {
        library,
        is_guarded,
    };
    let builds = [
        build(library().shared.clone(), false),
        build(library().shared.clone(), true),
        build(hardened(), false),
    ];
    let rows = thread::scope(|scope| {
        let row = |name: String| {
            let builds = &builds;
            scope.spawn(move || {
                let found = builds.each_ref().map(|build| outcomes(&name, build));
                (name, found)
            })
        };
        let running: Vec<_> = names().into_iter().map(row).collect();
        let finished = running.into_iter().map(|row| row.join().expect("a row"));
        finished.collect::<Vec<_>>()
    });
    let mut table = String::from(
        "| error | default: 40 B | 3,000 B | 200,000 B | guarded: 40 B | 3,000 B | hardened: 40 B \
         | 3,000 B | 200,000 B |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    let (mut all, mut found) = (0, [0; 3]);
    for (name, [default, guarded, hardened]) in &rows {
        let is_shown = !NOT_GUARDED.contains(&name.as_str());
        assert!(
            !is_shown || guarded.iter().all(|o| *o != Outcome::Missed),
            "{name} in a guarded place is missed"
        );
        let is_shown = BY_DEFAULT.contains(&name.as_str());
        assert!(
            !is_shown || default.iter().all(|o| *o != Outcome::Missed),
            "{name} is missed by default"
        );
        for (i, outcome) in hardened.iter().enumerate() {
            let is_known = NOT_FOUND.contains(&(name.as_str(), SIZES[i]));
            assert!(
                is_known || *outcome != Outcome::Missed,
                "{name} with {} bytes is missed",
                SIZES[i]
            );
        }
        all += hardened.len();
        for (found, outcomes) in found.iter_mut().zip([default, guarded, hardened]) {
            *found += outcomes.iter().filter(|o| **o != Outcome::Missed).count();
        }
        let cells = [(default, 3), (guarded, 2), (hardened, 3)].map(|(outcomes, sizes)| {
            let cell = |i: usize| {
                outcomes
                    .get(i)
                    .map_or(" ", |o| if *o == Outcome::Missed { "–" } else { "yes" })
            };
            (0..sizes).map(cell).collect::<Vec<_>>().join(" | ")
        });
        table += &format!("| `{name}` | {} |\n", cells.join(" | "));
    }
    table += &format!(
        "| **found of {all}** | **{}** | | | **{} of {}** | | **{}** | | |\n",
        found[0],
        found[1],
        rows.iter()
            .map(|(_, [_, guarded, _])| guarded.len())
            .sum::<usize>(),
        found[2]
    );
    bless("errors", &table);
}

/// With BLESS=1, writes a table to its place in `docs/security.md`. What the default build finds
/// may depend on where blocks lie: the page is no promise of it.
pub fn bless(mark: &str, table: &str) {
    if std::env::var_os("BLESS").is_none() {
        return;
    }
    // Two tests write the page.
    static PAGE: Mutex<()> = Mutex::new(());
    let _held = PAGE.lock();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/security.md");
    let text = std::fs::read_to_string(&page).expect("the page");
    let mark = format!("<!-- {mark} -->\n");
    let (before, rest) = text.split_once(&mark).expect("a mark");
    let (_, after) = rest.split_once("<!-- end -->").expect("an end");
    let made = format!("{before}{mark}{table}<!-- end -->{after}");
    std::fs::write(page, made).expect("the page can be written");
}

/// What the hardened library says of an error, after which the program goes on.
fn told(name: &str, size: &str, choice: &str) -> String {
    let mut command = Command::new(program());
    command
        .args([name, size, "1"])
        .env("LD_PRELOAD", hardened())
        .env("HAKMEM_ON_ERROR", choice)
        .env_remove("HAKMEM_STATS");
    let output = finish(&mut command);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{name} {size} {choice}: {stderr}");
    stderr
}

/// A program goes on after an error if it is to, and the block stays unused. What was told of a
/// block is not told again when the block after it is freed, nor at exit.
#[test]
fn a_program_goes_on_if_it_is_to() {
    for (name, size) in [
        ("over_1", "40"),
        ("over_1", "33"),
        ("over_1", "200000"),
        ("over_1_lost", "40"),
        ("over_1_lost", "33"),
        ("under_1", "40"),
        ("under_32", "40"),
    ] {
        let text = told(name, size, "report");
        let heads = text.lines().filter(|line| {
            line.starts_with("hakmem: overflow ") || line.starts_with("hakmem: write in front ")
        });
        assert_eq!(heads.count(), 1, "{name} {size}: {text}");
        assert_eq!(told(name, size, "ignore"), "", "{name} {size}");
    }
}

/// The stack is that of the call that found a write, which is not the code that wrote.
#[test]
fn a_report_of_an_earlier_write_says_so() {
    const EARLIER: &str =
        "hakmem: the write was earlier: the stack is that of the call that found it\n";
    for (name, size, times) in [
        ("write_freed_start", "40", 1),
        ("write_freed_middle", "40", 1),
        ("write_freed_middle", "3000", 1),
        ("over_1", "40", 1),
        ("over_1", "33", 1),
        ("over_1_lost", "40", 1),
        ("under_1", "40", 1),
        ("twice", "40", 0),
        ("new_free", "40", 0),
    ] {
        let text = told(name, size, "report");
        assert!(text.contains(" of process "), "{name} {size}: {text}");
        assert_eq!(
            text.matches(EARLIER).count(),
            times,
            "{name} {size}: {text}"
        );
    }
}

#[test]
fn the_level_low_finds_overflows_and_double_frees() {
    for name in ["over_1", "twice", "new_free", "delete_near"] {
        let mut command = Command::new(program());
        command
            .args([name, "40", "1"])
            .env("LD_PRELOAD", hardened())
            .env("HAKMEM_HARDENED", "low");
        let output = finish(&mut command);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            output.status.signal(),
            Some(libc::SIGABRT),
            "{name}: {stderr}"
        );
    }
}

/// Each build says what it saw, where the pointer lies, and which thread came from where.
#[test]
fn a_report_names_the_page_the_thread_and_the_stack() {
    for library in [library().shared.clone(), hardened()] {
        let small = report_of("twice", "40", &library);
        assert!(small[0].contains("double free of 0x"), "{small:#?}");
        let place = small[1].split_once("of the page at 0x");
        let (_, place) = place.unwrap_or_else(|| panic!("{small:#?}"));
        // The others are live: 32, before the block.
        let words: Vec<_> = place.split([' ', ':']).collect();
        let (used, all) = words
            .iter()
            .position(|word| *word == "are")
            .map(|at| (words[at - 3], words[at - 1]))
            .unwrap_or_else(|| panic!("{small:#?}"));
        let (used, all): (u32, u32) = (used.parse().expect("used"), all.parse().expect("blocks"));
        assert!(
            place.contains("of blocks of 48 bytes (class "),
            "{small:#?}"
        );
        assert!(
            (32..1000).contains(&used) && all == 65536 / 48,
            "{small:#?}"
        );
        assert!(small[2].starts_with("hakmem: thread "), "{small:#?}");
        let program = program().file_name().expect("a name").to_string_lossy();
        let frames = small[3..].iter().filter(|line| line.contains("    #"));
        assert!(
            frames.filter(|line| line.contains(&*program)).count() >= 2,
            "{small:#?}"
        );
        let large = report_of("inside_16", "200000", &library);
        assert!(
            large[1].contains(" lies in the large block of 262144 bytes at 0x"),
            "{large:#?}"
        );
    }
}

/// Containers give their programs a filter. The stack is read by files then.
#[test]
fn a_report_has_a_stack_under_an_inherited_filter() {
    for library in [library().shared.clone(), hardened()] {
        let mut command = common::filter::under_narrow(program());
        command
            .args(["twice", "40", "1"])
            .env("LD_PRELOAD", library)
            .env("HAKMEM_SCAVENGER", "0");
        let stderr = String::from_utf8_lossy(&finish(&mut command).stderr).into_owned();
        let name = program().file_name().expect("a name").to_string_lossy();
        let own = stderr
            .lines()
            .filter(|line| line.contains("    #") && line.contains(&*name));
        assert!(own.count() >= 2, "{stderr}");
    }
}

/// Several processes may append to one file.
#[test]
fn a_report_names_the_process_and_its_program() {
    let directory = TempDir::new().expect("a directory");
    let file = directory.path().join("errors");
    for library in [library().shared.clone(), hardened()] {
        let ran = ["twice", "inside_8"].map(|error| {
            let child = Command::new(program())
                .args([error, "40", "1"])
                .env("LD_PRELOAD", &library)
                .env("HAKMEM_ERRORS", &file)
                .env("HAKMEM_GUARD_SAMPLE", "0")
                .stderr(Stdio::null())
                .spawn()
                .expect("the program runs");
            let number = child.id();
            child.wait_with_output().expect("it ends");
            number
        });
        let text = fs::read_to_string(&file).expect("the reports");
        fs::remove_file(&file).expect("the file was there");
        let program = program().file_name().expect("a name").to_string_lossy();
        for number in ran {
            let line = format!("hakmem: thread {number} of process {number} ({program}):\n");
            assert_eq!(text.matches(&line).count(), 1, "{line}{text}");
        }
    }
}

/// The lines of the report that ends the program.
fn report_of(name: &str, size: &str, library: &Path) -> Vec<String> {
    let mut command = Command::new(program());
    command
        .args([name, size, "1"])
        .env("LD_PRELOAD", library)
        .env("HAKMEM_GUARD_SAMPLE", "0")
        .env_remove("HAKMEM_STATS");
    let output = finish(&mut command);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{stderr}");
    let lines: Vec<_> = stderr.lines().map(str::to_owned).collect();
    assert!(lines.len() > 3, "{stderr}");
    lines
}

/// Also where no block of the page is used any more.
#[test]
fn a_double_free_is_called_so() {
    for size in ["40", "1000", "3000", "4000", "20000"] {
        for library in [&library().shared, &hardened()] {
            let first = report_of("twice", size, library).swap_remove(0);
            let wanted = "hakmem: double free of 0x";
            assert!(first.starts_with(wanted), "{size} {library:?}: {first}");
        }
    }
}

/// Runs a program whose handler of SIGABRT waits for another thread, on both builds. The handler
/// must come to its end, behind a report that begins so.
#[track_caller]
fn ends_by_its_handler(program: &Path, change: impl Fn(&mut Command), report: &str) {
    for library in [&library().shared, &hardened()] {
        let mut command = Command::new(program);
        command
            .env("LD_PRELOAD", library)
            .env_remove("HAKMEM_STATS");
        change(&mut command);
        let output = finish(&mut command);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{command:?}: {stderr}");
        assert!(stderr.starts_with(report), "{command:?}: {stderr}");
    }
}

/// A sample of the profile finds the error, under the lock of the profile.
#[test]
fn a_handler_of_the_end_may_wait_for_a_thread_that_allocates() {
    let program = compile(Language::C, "handler.c", Link::Plain);
    for interval in ["1000000", "64"] {
        let profiled = |command: &mut Command| {
            command
                .env("HAKMEM_PROFILE", "/dev/null")
                .env("HAKMEM_PROFILE_INTERVAL", interval);
        };
        ends_by_its_handler(&program, profiled, "hakmem: corrupt free list at 0x");
    }
}

/// The error is found under the lock of shared pages, which any thread may want.
#[test]
fn a_handler_of_the_end_may_wait_for_a_thread_that_shares_pages() {
    let program = compile(Language::C, "handler_shared.c", Link::Plain);
    for thread in ["new", "older"] {
        let named = |command: &mut Command| {
            command.arg(thread);
        };
        ends_by_its_handler(&program, named, "hakmem: double free of 0x");
    }
}

/// The error is found under the lock of a program heap, which any thread may use.
#[test]
fn a_handler_of_the_end_may_wait_for_a_thread_that_uses_a_program_heap() {
    let program = compile(Language::C, "handler_heap.c", Link::Plain);
    ends_by_its_handler(&program, |_| (), "hakmem: corrupt free list at 0x");
}

/// Whichever large block was freed: nobody can use it, and what it had is gone.
#[test]
fn the_level_high_fences_each_large_block() {
    for (name, outcome) in [
        ("read_freed", Outcome::Fault),
        ("write_freed_middle", Outcome::Fault),
        ("read_reused", Outcome::Harmless),
    ] {
        let mut command = Command::new(program());
        command
            .args([name, "200000", "200"])
            .env("LD_PRELOAD", hardened())
            .env("HAKMEM_HARDENED", "high")
            .env_remove("HAKMEM_STATS");
        let output = finish(&mut command);
        let ended = match (output.status.code(), output.status.signal()) {
            (Some(42), _) => Outcome::Harmless,
            (_, Some(libc::SIGSEGV)) => Outcome::Fault,
            (_, _) => Outcome::Missed,
        };
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(ended == outcome, "{name}: {:?} {stderr}", output.status);
    }
}
