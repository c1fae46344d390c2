//! What is printed on a terminal fits its width; a pipe gets all of it.

use crate::common;

use common::terminal::Terminal;
use common::*;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

/// What the command shows on a terminal, in whole lines: those that the terminal breaks are one.
fn shown(command: Command, columns: u16) -> String {
    let mut terminal = Terminal::of_size(command, &[], 400, columns);
    let (status, text) = terminal.end();
    assert!(status.success(), "{status}: {text}");
    text
}

#[track_caller]
fn assert_fits(text: &str, columns: usize) {
    let long = text.lines().find(|line| line.chars().count() > columns);
    assert_eq!(long, None, "{text}");
}

fn hakmem_with<S: AsRef<OsStr>>(words: &[S]) -> Command {
    let mut command = hakmem();
    command.args(words);
    command
}

/// Runs the line in a shell, with the command under test and the library as `$0` and `$1`.
fn shell(line: &str, more: &str) -> Command {
    let mut command = Command::new("sh");
    let hakmem = env!("CARGO_BIN_EXE_hakmem");
    command.args(["-c", line, hakmem]).arg(&*HAKMEM).arg(more);
    command
}

/// The heads of the table of classes, and the row of a size.
fn of_class<'a>(text: &'a str, size: &str) -> [Vec<&'a str>; 2] {
    let begins = |line: &&str, word| line.split_whitespace().next() == Some(word);
    let mut lines = text.lines();
    let heads = lines.find(|line| begins(line, "size") && line.contains("live"));
    let row = lines.find(|line| begins(line, size));
    [heads, row].map(|line| {
        let line = line.unwrap_or_else(|| panic!("no row {size} in {text}"));
        let cells = line.split("  ").map(str::trim);
        cells.filter(|cell| !cell.is_empty()).collect()
    })
}

#[test]
fn tables_of_a_process() {
    let mut command = Command::new(&*KNOWN);
    command.env("LD_PRELOAD", &*HAKMEM).stdin(Stdio::piped());
    let known = Ready::new(command);
    let pid = known.pid().to_string();
    let words = ["stat", "--all", "--pid", &pid];

    let piped = stdout(&hakmem_with(&words).output().unwrap());
    let [all_heads, all_cells] = of_class(&piped, "3072");
    let heads = "size|allocations|frees|by others|list hits|taken|carved|full/unfull|pages|live|\
                 unused|at peak";
    assert_eq!(all_heads.join("|"), heads);
    assert!(piped.contains("  in batches/chains\n"), "{piped}");
    assert!(!piped.contains("shows"), "{piped}");
    let slots = piped.lines().find(|l| l.contains("slots of 64 KiB"));
    assert!(slots.unwrap().contains(", without memory "), "{piped}");
    // Whoever has a terminal, but prints to something else, gets the same.
    let line = format!("\"$0\" {} | cat", words.join(" "));
    assert_eq!(shown(shell(&line, ""), 80).trim_end(), piped.trim_end());

    for columns in [100, 80, 60] {
        let text = shown(hakmem_with(&words), columns);
        assert_fits(&text, columns.into());
        let [heads, cells] = of_class(&text, "3072");
        assert_eq!(heads.len(), cells.len(), "{text}");
        for (short, head) in [("size", "size"), ("live", "live"), ("hits", "list hits")] {
            let cell = |heads: &[&str], cells: &[&str], head| {
                let at = heads.iter().position(|&h| h == head);
                cells[at.unwrap_or_else(|| panic!("no {head} in {text}"))].to_owned()
            };
            let whole = cell(&all_heads, &all_cells, head);
            assert_eq!(cell(&heads, &cells, short), whole, "{text}");
        }
        // In 100, short heads are enough for these numbers.
        let left_out = all_heads.len() - heads.len();
        assert_eq!(left_out > 1, columns < 100, "{text}");
        let said =
            format!("\n  {left_out} columns more: a wider terminal or | less -S shows them\n");
        assert_eq!(text.contains(&said), left_out > 0, "{said} {text}");
    }
    let text = shown(hakmem_with(&words), 80);
    let slots = text.lines().skip_while(|l| !l.contains("slots of 64 KiB"));
    let slots: Vec<_> = slots.take(2).collect();
    assert!(slots[0].ends_with(','), "{text}");
    let value = slots[0].find("pages ").unwrap();
    assert_eq!(
        slots[1].len() - slots[1].trim_start().len(),
        value,
        "{text}"
    );

    let wide = shown(hakmem_with(&words), 132);
    assert_eq!(of_class(&wide, "3072"), [all_heads, all_cells]);
    assert!(!wide.contains("columns more"), "{wide}");
}

/// The tables are on standard error, and say how it can be kept; so is the summary of all
/// processes.
#[test]
fn tables_and_summaries_of_a_program() {
    let text = shown(
        shell("\"$0\" stat --lib \"$1\" perl -e 1 >/dev/null", ""),
        80,
    );
    assert_fits(&text, 80);
    assert!(text.contains("or 2>FILE shows them\n"), "{text}");

    let starts = "perl -e 'kill 9, $$'; exit 0";
    let run = "\"$0\" run --stats --lib \"$1\" bash -c \"$2\"";
    let text = shown(shell(run, starts), 80);
    let text = &text[text.find("hakmem: all together").expect("a sum")..];
    assert_fits(text, 80);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let silent =
        "not included 1 program without a report at the end (exec, _exit, signal, running)";
    assert!(words.ends_with(silent), "{text}");
    let piped = shown(shell(&format!("{run} 2>&1 | cat"), starts), 80);
    let whole = silent.replace("included ", "included        ");
    assert!(piped.trim_end().ends_with(&whole), "{piped}");
}

/// Of the command itself, too: the longest message is that of the missing library.
#[test]
fn messages() {
    let folder = tempfile::tempdir().unwrap();
    let alone = copied(Path::new(env!("CARGO_BIN_EXE_hakmem")), folder.path());
    let line = format!("{} run --hardened true; test $? = 125", alone.display());
    let text = shown(shell(&line, ""), 80);
    assert_fits(&text, 80);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("library not found"), "{text}");
}

#[test]
fn the_summary_of_a_profile() {
    let folder = tempfile::tempdir().unwrap();
    let program = BUILT.compile(
        "profiled.c",
        "profiled-narrow",
        &["-O2", "-g", "-fno-builtin", "-pthread"],
    );
    let output = folder.path().join("out");
    let line = format!(
        "\"$0\" profile --lib \"$1\" --interval 2048 -o {} \"$2\" >/dev/null; test $? = 3",
        output.display()
    );
    let text = shown(shell(&line, program.to_str().unwrap()), 80);
    let (figures, files) = text.split_once("\n\n  wrote ").expect("names of files");
    assert_fits(figures, 80);
    assert!(files.contains("out.pb.gz"), "a name is whole: {text}");
    let main = figures.lines().find_map(|line| line.find("  grows < main"));
    let by = main.expect("a function and its caller") + 2;
    let callers = format!("{:by$}< ", "");
    assert!(
        figures.lines().any(|line| line.starts_with(&callers)),
        "{text}"
    );
}

/// All words of a text, without what divides them.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What a pipe gets has the width that it always had; a terminal gets the same words.
#[test]
fn findings_and_options_in_narrow_terminals() {
    let library = HAKMEM.to_str().unwrap();
    for words in [&["doctor", "--lib", library][..], &["options"]] {
        let piped = stdout(&hakmem_with(words).output().unwrap());
        assert!(piped.lines().any(|line| line.chars().count() > 60));
        assert_fits(&piped, 80);
        for columns in [60, 40] {
            let text = shown(hakmem_with(words), columns);
            // A name that is longer is whole.
            let long = text
                .lines()
                .filter(|line| line.chars().count() > columns.into());
            let long: Vec<_> = long.map(str::trim).collect();
            assert!(long.iter().all(|line| !line.contains(' ')), "{long:?}");
            let said = joined(&text)
                .replace("default: ", "")
                .replace("; values: ", " ");
            let is_same = said == joined(&piped);
            assert!(
                is_same || words[0] == "doctor",
                "{columns}: {text}\n{piped}"
            );
        }
    }
    let text = shown(hakmem_with(&["doctor", "--lib", library]), 40);
    assert!(joined(&text).contains(library), "{text}");
    let text = shown(hakmem_with(&["options", "THP"]), 40);
    let head = "  HAKMEM_THP\n      default: auto; values: auto,\n      never, always\n";
    assert!(text.starts_with(head), "{text}");
    let text = shown(hakmem_with(&["options", "STATS"]), 70);
    let head = format!(
        "  {:<27} {:<15} 0, 1, json or csv;\n{:46}or with :FILE\n",
        "HAKMEM_STATS", "none", ""
    );
    assert!(text.starts_with(&head), "{text}");
}

/// The variable counts on a terminal, as it does for other programs; a pipe has no columns.
#[test]
fn the_width_that_the_user_wants() {
    let of = |columns: &str| {
        let command = hakmem_with(&["options"]);
        let mut terminal = Terminal::of_size(command, &[("COLUMNS", columns)], 400, 100);
        terminal.end().1
    };
    let wide = of("");
    for no_width in ["0", "-1", "x", "99999999"] {
        assert_eq!(of(no_width), wide);
    }
    let narrow = of("50");
    assert_fits(&narrow, 50);
    assert_ne!(narrow, wide);
    let piped = |columns| {
        let mut command = hakmem_with(&["options"]);
        stdout(&command.env("COLUMNS", columns).output().unwrap())
    };
    assert_eq!(piped("50"), piped("100"));
}

#[test]
fn options_of_a_process() {
    let mut command = Command::new(&*KNOWN);
    command
        .env("LD_PRELOAD", &*HAKMEM)
        .env("HAKMEM_DECAY_MS", "1234")
        .stdin(Stdio::piped());
    let known = Ready::new(command);
    let pid = known.pid().to_string();
    let words = ["options", "--pid", &pid, "DECAY_MS"];
    let text = shown(hakmem_with(&words), 40);
    assert_eq!(text.trim_end(), "HAKMEM_DECAY_MS=1234  (default: 500)");
    let text = shown(hakmem_with(&words), 30);
    assert_eq!(
        text.trim_end(),
        "HAKMEM_DECAY_MS=1234\n      (default: 500)"
    );
}

#[test]
fn reports_of_errors() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("errors");
    let report = "hakmem: Double Free at 0x7e0000 (48 bytes) by thread 7:\n\
                  hakmem:     #12 0x55d0c0de (/no/such/library.so.1.0+0x1234)\n";
    std::fs::write(&file, report).unwrap();
    let words = ["errors", file.to_str().unwrap()];
    let piped = stdout(&hakmem_with(&words).output().unwrap());
    assert_eq!(piped, report);
    assert_eq!(shown(hakmem_with(&words), 80).trim_end(), report.trim_end());
    let text = shown(hakmem_with(&words), 50);
    let broken = format!(
        "hakmem: Double Free at 0x7e0000 (48 bytes) by\n{:8}thread 7:\n\
         hakmem:     #12 0x55d0c0de\n{:16}(/no/such/library.so.1.0+0x1234)",
        "", ""
    );
    assert_eq!(text.trim_end(), broken);
}
