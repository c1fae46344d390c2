//! A program that root starts and that goes on as another user: what it reports is not lost.

use crate::common;

use common::*;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Output;
use tempfile::TempDir;

/// A program that becomes nobody, allocates, and exits with 3.
const AS_NOBODY: &str = "$( = $) = '65534 65534'; $< = $> = 65534; $> == 65534 or die; \
                         my @a = map { 'x' x 100 } 1 .. 1000; exit 3";

/// A folder with the library that every user may read. None: the tests are another user's.
fn folder() -> Option<TempDir> {
    // SAFETY: always succeeds.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: only root can become another user");
        return None;
    }
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    copied(&HAKMEM, folder.path());
    Some(folder)
}

/// What the command does in the folder, with the library there and a program.
fn done(folder: &TempDir, words: &[&str], program: &[&str]) -> Output {
    let mut command = hakmem();
    command.args(words).arg("--lib");
    command.arg(folder.path().join(HAKMEM.file_name().unwrap()));
    command
        .args(program)
        .current_dir(folder.path())
        .output()
        .unwrap()
}

#[test]
fn the_program_changes_its_user() {
    let words = ["run", "--stats", "--require"];
    let Some(folder) = folder() else { return };
    let output = done(&folder, &words, &["perl", "-e", AS_NOBODY]);
    assert_ended(&output, 3, "");
    assert_says(&output, "allocations");
    let said = stderr(&output);
    assert!(!said.contains("report lost"), "{said}");
}

/// By another program, so that the library is loaded as nobody.
#[test]
fn the_program_is_executed_as_another_user() {
    let program = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "perl",
        "-e",
        "exit 3",
    ];
    let Some(folder) = folder() else { return };
    let output = done(&folder, &["run", "--require"], &program);
    assert_ended(&output, 3, "");
    assert_eq!(stderr(&output), "");
}

#[test]
fn maps_and_profiles_of_another_user() {
    let Some(folder) = folder() else { return };
    let program = ["perl", "-e", &AS_NOBODY.replace("exit 3", "exit 0")];
    for words in [
        &["map", "-o", "heap.svg"][..],
        &["profile", "--interval", "1", "-o", "heap"],
    ] {
        assert_ended(&done(&folder, words, &program), 0, "");
    }
    assert!(folder.path().join("heap.svg").exists());
    assert!(folder.path().join("heap.pb.gz").exists());
}

/// Others pass through the folder and do not list it, and the names of the files are no two times
/// the same. A user who is not root has the folder alone.
#[test]
fn rights_to_the_files() {
    // SAFETY: always succeeds.
    let is_root = unsafe { libc::geteuid() } == 0;
    let script = "file=${HAKMEM_STATS#json:}; stat -c %a ${file%/*} $file $HAKMEM_ERRORS; \
                  echo ${file##*/}";
    let names = [(), ()].map(|()| {
        let mut command = run(&[], &["sh", "-c", script]);
        let said = stdout(&command.output().unwrap());
        let lines: Vec<_> = said.lines().collect();
        match is_root {
            true => assert_eq!(lines[..3], ["711", "622", "622"]),
            false => assert_eq!(lines[0], "700"),
        }
        lines[3].to_owned()
    });
    assert_ne!(names[0], names[1]);
    assert_eq!(names[0].len(), "report-".len() + 32, "{}", names[0]);
}

/// A report that could not be written is one of the reasons that are given.
#[test]
fn a_process_that_did_not_report() {
    let output = run(&["--require"], &program(&["_exit"])).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert_says(&output, "or it could not write its report");
}
