//! `hakmem run`: exit statuses, environment, and what it says about programs that it did not serve.

use crate::common;

use common::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;

#[test]
fn the_exit_status_is_the_programs() {
    for status in [0, 1, 7, 125, 255] {
        let output = run(&[], &["bash", "-c", &format!("exit {status}")])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(status));
        assert_eq!(stderr(&output), "");
    }
}

#[test]
fn a_deadly_signal_is_the_programs_and_leaves_no_second_core() {
    let folder = tempfile::tempdir().unwrap();
    let dump_cores = || {
        // SAFETY: live values; both calls are plain system calls.
        unsafe {
            let mut limit = std::mem::zeroed();
            libc::getrlimit(libc::RLIMIT_CORE, &mut limit);
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_CORE, &limit);
        }
        Ok(())
    };
    for signal in [
        "TERM", "INT", "KILL", "SEGV", "ABRT", "QUIT", "HUP", "PIPE", "USR1", "RTMIN",
    ] {
        // Under nohup one of them is ignored from the start.
        let script = format!("$SIG{{{signal}}} = 'DEFAULT'; kill '{signal}', $$; sleep 60");
        let words = ["perl", "-e", &script];
        let mut command = run(&["--stats"], &words);
        command.current_dir(folder.path());
        // SAFETY: the closure makes two system calls.
        let output = unsafe { command.pre_exec(dump_cores) }.output().unwrap();
        let plain = std::process::Command::new(words[0])
            .args(&words[1..])
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(
            output.status.signal().is_some() && output.status.signal() == plain.status.signal(),
            "{signal}"
        );
        assert!(!output.status.core_dumped(), "{signal}");
        assert!(
            stderr(&output).contains("killed the process before it could report"),
            "{signal}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn the_program_sees_its_own_name_and_arguments() {
    let output = run(&[], &program(&["name"])).output().unwrap();
    assert_eq!(stdout(&output).trim(), PROGRAM.to_str().unwrap());
    // Options after the program's name are its own, with and without the dashes.
    for dashes in [&["--"][..], &[]] {
        let mut command = hakmem();
        command.arg("run").arg("--lib").arg(&*LIBRARY).args(dashes);
        let output = command
            .args(["sh", "-c", "echo $0 $@", "--stats", "--", "-x"])
            .output()
            .unwrap();
        assert_eq!(stdout(&output), "--stats -- -x\n");
    }
}

#[test]
fn programs_that_cannot_start_have_the_shells_statuses() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, mode: u32, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let cases = [
        ("no-such-program".to_owned(), 127, "not found on PATH"),
        ("/no/such/program".to_owned(), 127, "No such file"),
        (String::new(), 127, "name is empty"),
        (
            file("plain", 0o644, "#!/bin/sh\n"),
            126,
            "Permission denied",
        ),
        (
            folder.path().to_str().unwrap().to_owned(),
            126,
            "is a directory",
        ),
        (
            file("script", 0o755, "#!/no/interpreter\n"),
            126,
            "its interpreter /no/interpreter does not exist",
        ),
    ];
    for (program, status, why) in cases {
        let output = run(&[], &[&program]).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{program}");
        let text = stderr(&output);
        assert!(
            text.starts_with("hakmem: cannot run") && text.contains(why),
            "{program}: {text}"
        );
    }
}

#[test]
fn wrong_usage_is_status_2() {
    for arguments in [
        &["run"][..],
        &["run", "--bogus", "true"],
        &["run", "--lib"],
        &["walk"],
        &[],
    ] {
        let output = hakmem().args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(
            stderr(&output).starts_with("error:") || stderr(&output).contains("Usage:"),
            "{arguments:?}"
        );
    }
}

#[test]
fn a_missing_library_is_status_125_and_says_where_it_was_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("bin")).unwrap();
    let alone = copied(
        Path::new(env!("CARGO_BIN_EXE_hakmem")),
        &folder.path().join("bin"),
    );
    let output = std::process::Command::new(&alone)
        .args(["run", "true"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    let root = folder.path().canonicalize().unwrap();
    let places = [
        "lib/hakmem/libhakmem.so",
        "lib/libhakmem.so",
        "bin/libhakmem.so",
    ];
    let folders = ["bin", "lib", "lib/hakmem"].map(|name| root.join(name).display().to_string());
    let [own, lib, packaged] = folders;
    let looked = format!("looked for libhakmem.so in {own}, {lib} and {packaged} (");
    assert_says(&output, &looked);

    // All places work, the nearest one first.
    fs::create_dir_all(folder.path().join("lib/hakmem")).unwrap();
    for place in places {
        fs::copy(&*LIBRARY, root.join(place)).unwrap();
        let output = std::process::Command::new(&alone)
            .args(["run", "sh", "-c", "echo $LD_PRELOAD"])
            .output()
            .unwrap();
        assert_eq!(stdout(&output).trim(), root.join(place).to_str().unwrap());
    }

    for (path, why) in [
        ("/no/lib.so", "looked for /no/lib.so"),
        ("/", "is not a file"),
        ("Cargo.toml", "not a shared"),
    ] {
        let output = hakmem()
            .args(["run", "--lib", path, "true"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(125));
        assert_says(&output, why);
    }
}

#[test]
fn what_is_preloaded_already_stays_preloaded() {
    let mut command = run(&[], &["bash", "-c", "echo $LD_PRELOAD"]);
    let output = command.env("LD_PRELOAD", "libm.so.6").output().unwrap();
    assert_eq!(
        stdout(&output).trim(),
        format!("{}:libm.so.6", LIBRARY.display())
    );
    assert_eq!(stderr(&output), "");
}

#[test]
fn the_library_may_lie_in_a_folder_with_a_space() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("my lib: hakmem.so");
    fs::copy(&*LIBRARY, &library).unwrap();
    let output = hakmem()
        .args(["run", "--require", "--lib"])
        .arg(&library)
        .arg("true")
        .output()
        .unwrap();
    assert_eq!(
        (output.status.code(), stderr(&output)),
        (Some(0), String::new())
    );
}

#[test]
fn nothing_is_left_behind() {
    let scratch = tempfile::tempdir().unwrap();
    let script = "test -s ${HAKMEM_STATS#json:} && stat -c %a ${HAKMEM_STATS%/*} | sed \
        s/^json://; kill -9 $$";
    for (program, status) in [
        (&["true"][..], 0),
        (&["sh", "-c", script], 137),
        (&["/no/program"], 127),
    ] {
        let output = run(&["--stats"], program)
            .env("TMPDIR", scratch.path())
            .output()
            .unwrap();
        assert_eq!(
            output
                .status
                .code()
                .unwrap_or_else(|| 128 + output.status.signal().unwrap()),
            status
        );
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
    }
}

#[test]
fn static_programs_are_told_beforehand() {
    let marker = tempfile::tempdir().unwrap().keep().join("started");
    for program in [&*STATIC, &*STATIC_PIE] {
        let words = [
            program.to_str().unwrap(),
            "marker",
            marker.to_str().unwrap(),
        ];
        let output = run(&["--require"], &words).output().unwrap();
        assert_eq!(output.status.code(), Some(125));
        assert_says(&output, "statically linked");
        assert!(!marker.exists(), "it was started");

        let output = run(&[], &words).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert_says(&output, "cannot run on hakmem");
        assert_says(&output, "did NOT run on hakmem");
        fs::remove_file(&marker).unwrap();
    }
    fs::remove_dir(marker.parent().unwrap()).unwrap();
}

/// The library would end it before its beginning, so that it runs without.
#[test]
fn a_program_for_the_loader_of_musl_is_told_beforehand() {
    let folder = tempfile::tempdir().unwrap();
    let loader = folder.path().join("ld-musl-x.so.1");
    let build = |name: &str, loader: &str| {
        let flag = format!("-Wl,--dynamic-linker={loader}");
        BUILT.compile("program.c", name, &[&flag])
    };
    // glibc's, under the other's name.
    let bash = fs::read("/bin/sh").unwrap();
    let start = bash
        .windows(4)
        .position(|b| b == b"/lib")
        .expect("a loader");
    let real = bash[start..].split(|&b| b == 0).next().unwrap();
    let real = std::str::from_utf8(real).unwrap();
    std::os::unix::fs::symlink(real, &loader).unwrap();
    let loader = loader.to_str().unwrap();
    let program = build("for-musl", loader);
    let words = [program.to_str().unwrap(), "exec", "/usr/bin/env"];
    let output = run(&[], &words).output().unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(
        !stdout(&output).contains("LD_PRELOAD="),
        "{}",
        stdout(&output)
    );
    let why = format!("{loader}, is musl's, and the library is for glibc");
    assert_eq!(text.matches(&why).count(), 1, "it is said once: {text}");
    assert!(
        text.contains("did NOT run on hakmem, for the reason above"),
        "{text}"
    );
    assert_eq!(
        run(&["--require"], &words).output().unwrap().status.code(),
        Some(125)
    );

    for (name, loader) in [
        ("for-no-musl", "/no/ld-musl-x86_64.so.1"),
        ("for-no-loader", "/no/ld.so"),
    ] {
        let program = build(name, loader);
        let output = run(&[], &[&program]).output().unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(126), "{text}");
        let why = format!("its dynamic loader {loader} does not exist\n");
        assert!(text.ends_with(&why), "{text}");
    }
}

#[test]
fn a_program_that_turns_into_a_static_one_is_not_taken_for_served() {
    for (options, status) in [(&["--stats"][..], 2), (&["--require"], 125)] {
        let output = run(options, &program(&["exec", STATIC.to_str().unwrap()]))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(status));
        assert_says(&output, "what it served is not known");
        assert!(
            !stderr(&output).contains("allocations served"),
            "{}",
            stderr(&output)
        );
    }
}

#[test]
fn a_static_program_with_dynamic_children_is_told_apart_from_them() {
    let output = run(
        &["--stats"],
        &[STATIC.to_str().unwrap(), "exec", "/bin/true"],
    )
    .output()
    .unwrap();
    // The same process, so it is served after all: the last image counts.
    assert!(
        !stderr(&output).contains("did NOT run"),
        "{}",
        stderr(&output)
    );
    let shell = format!("{} exec /bin/sh -c 'exit 3'; exit 4", STATIC.display());
    let output = run(&[], &["bash", "-c", &shell]).output().unwrap();
    assert_eq!(
        (output.status.code(), stderr(&output)),
        (Some(4), String::new())
    );
}

#[test]
fn secure_programs_are_told_beforehand() {
    // SAFETY: always succeeds.
    let root = unsafe { libc::geteuid() } == 0;
    let folder = tempfile::Builder::new()
        .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
        .unwrap();
    let (path, arguments) = if root {
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let copy = folder.path().join("setuid");
        fs::copy(&*PROGRAM, &copy).unwrap();
        chown(&copy, Some(65534), None).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).unwrap();
        (copy, "name")
    } else {
        ("/bin/su".into(), "--version")
    };
    let output = run(&[], &[path.to_str().unwrap(), arguments])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_says(&output, "has the setuid bit");
    assert_says(&output, "did NOT run on hakmem");
}

#[test]
fn a_library_that_reports_nothing_is_not_taken_for_hakmem() {
    // Any other shared library.
    let libm = [
        "/lib64/libm.so.6",
        "/lib/x86_64-linux-gnu/libm.so.6",
        "/lib/aarch64-linux-gnu/libm.so.6",
    ];
    let libm = libm.iter().find(|p| fs::exists(p).unwrap()).expect("libm");
    for (options, status) in [(&[][..], 7), (&["--require"], 125)] {
        let mut command = hakmem();
        command.args(["run", "--lib", libm]).args(options);
        let output = command.args(["--", "sh", "-c", "exit 7"]).output().unwrap();
        assert_eq!(output.status.code(), Some(status));
        assert_says(&output, "sh did NOT run on hakmem");
    }
}

#[test]
fn a_program_that_allocates_nothing_is_not_taken_for_served() {
    for (options, status) in [(&[][..], 0), (&["--require"], 125)] {
        let output = run(options, &["true"])
            .env("FAKE_ALLOCATIONS", "0")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(status));
        assert_says(&output, "served no allocations");
    }
}

#[test]
fn an_end_without_exit_handlers_is_described() {
    let output = run(&["--stats"], &program(&["_exit"])).output().unwrap();
    assert_eq!(output.status.code(), Some(9));
    assert!(stderr(&output).contains("(_exit)") && !stderr(&output).contains("allocations served"));
    assert_says(
        &output,
        "hakmem stat --pid PID shows the figures before the end",
    );

    let output = run(&["--stats", "--require"], &["sh", "-c", "kill -KILL $$"])
        .output()
        .unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGKILL));
    assert_says(&output, "SIGKILL killed the process before it could report");
    assert_says(
        &output,
        "hakmem stat --pid PID shows the figures before the end",
    );
    assert!(!stderr(&output).contains("allocations served"));
}

/// Nobody asked for figures.
#[test]
fn an_end_without_exit_handlers_is_no_news() {
    for words in [
        &["sh", "-c", "kill -TERM $$"][..],
        &["sh", "-c", "kill -PIPE $$"],
        &[PROGRAM.to_str().unwrap(), "_exit"],
    ] {
        let output = run(&[], words).output().unwrap();
        assert_eq!(stderr(&output), "", "{words:?}");
    }
}

/// The library was loaded and could not say so.
#[test]
fn a_lost_report_is_not_taken_for_another_allocator() {
    for (options, status) in [(&[][..], 7), (&["--require"], 125)] {
        let mut command = hakmem();
        command.args(["run", "--lib"]).arg(&*HAKMEM).args(options);
        command.args(["bash", "-c", "exit 7"]);
        let none = || {
            let limit = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            // SAFETY: a live rlimit; no file grows from here on.
            unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) };
            // SAFETY: the write fails then, and nothing more.
            unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
            Ok(())
        };
        // SAFETY: the closure makes two system calls.
        let output = unsafe { command.pre_exec(none) }.output().unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(status), "{text}");
        assert!(
            text.contains("whether bash ran on hakmem is not known"),
            "{text}"
        );
        assert!(!text.contains("did NOT run"), "{text}");
    }
}

#[test]
fn the_summary_has_the_programs_figures_and_the_totals() {
    let output = run(&["--stats"], &["true"]).output().unwrap();
    let text = stderr(&output);
    assert!(
        text.contains("allocations served  1,234, 1 freed"),
        "{text}"
    );
    assert!(
        text.contains("mmap              1 in 777 ns"),
        "timing is on: {text}"
    );
    assert!(!text.contains("all together"), "{text}");

    let output = run(&["--stats"], &program(&["children"])).output().unwrap();
    let text = stderr(&output);
    assert!(text.contains("all together (3 processes)"), "{text}");
    assert!(text.contains("allocations served  3,702"), "{text}");
}

#[test]
fn wishes_for_statistics_that_are_overruled_are_mentioned() {
    let output = run(&[], &["true"])
        .env("HAKMEM_STATS", "1")
        .output()
        .unwrap();
    assert_says(&output, "HAKMEM_STATS is set");
}

#[test]
fn a_missing_hardened_library_comes_with_the_way_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let alone = copied(Path::new(env!("CARGO_BIN_EXE_hakmem")), folder.path());
    let mut command = std::process::Command::new(&alone);
    let output = command.args(["run", "--hardened", "true"]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert_says(&output, "libhakmem-hardened.so");
    assert_says(&output, "./install.sh");
    // As the page has it.
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/security.md");
    let page = fs::read_to_string(page).unwrap();
    for part in [
        "cargo build --release -p hakmem-ffi",
        "--features hardened --target-dir target/hardened",
        "target/hardened/release/libhakmem.so",
    ] {
        assert_says(&output, part);
        assert!(page.contains(part), "{part}");
    }
}

/// The hardened build has no sampled guards, and the default build no levels.
#[test]
fn options_of_the_other_build_are_told() {
    let mut command = hakmem();
    command.args(["run", "--hardened", "--guard", "true"]);
    let output = command.output().unwrap();
    assert_ended(&output, 2, "");
    assert_says(&output, "the hardened build has no sampled guards");

    for (value, told) in [("high", true), ("default", false), ("", false)] {
        let mut command = hakmem();
        command.args(["run", "--lib"]).arg(&*HAKMEM).arg("true");
        let output = command.env("HAKMEM_HARDENED", value).output().unwrap();
        let text = stderr(&output);
        let line = "hakmem: HAKMEM_HARDENED has no effect on the default build; hakmem run";
        assert_eq!(text.contains(line), told, "{value:?}: {text}");
    }
}
