//! The pages: every link leads somewhere, and every command runs.
//!
//! A block of commands is fenced as `sh`. The test runs it in a scratch folder, with the command
//! and the library on PATH. A block that cannot run here has a comment before it: `<!-- not run:
//! why -->`. The lines of a block that begin with `$ ` are its commands; without any, all lines
//! are.

use crate::common;

use common::*;
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// The blocks that are not run, of all pages in docs. Whoever adds one says so here.
const NOT_RUN: usize = 32;
/// Folders whose pages are not the project's own.
const LEFT_OUT: [&str; 2] = ["target", ".git"];

fn repository() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.join("../..").canonicalize().unwrap()
}

/// All pages in a folder and below it.
fn pages(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            if !LEFT_OUT.iter().any(|&left| entry.file_name() == left) {
                pages(&path, all);
            }
        } else if path.extension() == Some(OsStr::new("md")) {
            all.push(path);
        }
    }
}

/// What a page has.
#[derive(Default)]
struct Page {
    anchors: BTreeSet<String>,
    links: Vec<String>,
    /// Commands, and the reason why they are not run.
    blocks: Vec<(String, Option<String>)>,
}

impl Page {
    fn read(text: &str) -> Self {
        let mut page = Self::default();
        let (mut heading, mut block, mut reason) = (None, None, None);
        let mut seen = BTreeMap::new();
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    page.anchors
                        .insert(slug(&heading.take().unwrap(), &mut seen));
                }
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.to_string());
                }
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(kind))) if &*kind == "sh" => {
                    block = Some(String::new());
                }
                Event::End(TagEnd::CodeBlock) => {
                    page.blocks
                        .extend(block.take().map(|block| (block, reason.take())));
                }
                Event::Html(html) => {
                    let why = html.trim().strip_prefix("<!-- not run: ");
                    let why = why.and_then(|why| why.strip_suffix(" -->"));
                    reason = why.map(str::to_owned);
                }
                Event::Text(text) | Event::Code(text) => {
                    heading.iter_mut().for_each(|all| all.push_str(&text));
                    block.iter_mut().for_each(|all| all.push_str(&text));
                }
                _ => {}
            }
        }
        page
    }
}

/// The anchor that a heading gets. One that is there already gets a number.
fn slug(heading: &str, seen: &mut BTreeMap<String, usize>) -> String {
    let mut slug = String::new();
    for c in heading.trim().chars().flat_map(char::to_lowercase) {
        match c {
            ' ' => slug.push('-'),
            '-' | '_' => slug.push(c),
            c if c.is_alphanumeric() => slug.push(c),
            _ => {}
        }
    }
    let before = seen.entry(slug.clone()).or_insert(0);
    *before += 1;
    match *before {
        1 => slug,
        n => format!("{slug}-{}", n - 1),
    }
}

/// What is wrong with the links of the pages.
fn broken(all: &BTreeMap<PathBuf, Page>) -> Vec<String> {
    let mut broken = Vec::new();
    for (path, page) in all {
        for link in &page.links {
            let is_web = link.contains("://") || link.starts_with("mailto:");
            if is_web {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => Ok(path.clone()),
                file => path.parent().unwrap().join(file).canonicalize(),
            };
            let is_there = target.is_ok_and(|target| match all.get(&target) {
                _ if anchor.is_empty() => true,
                Some(page) => page.anchors.contains(anchor),
                // Of another file nothing is known: a line of source, a chart.
                None => target.extension() != Some(OsStr::new("md")),
            });
            if !is_there {
                broken.push(format!("{}: {link}", path.display()));
            }
        }
    }
    broken
}

fn read(paths: Vec<PathBuf>) -> BTreeMap<PathBuf, Page> {
    let page = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        (path, Page::read(&text))
    };
    paths.into_iter().map(page).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut paths = Vec::new();
    pages(&repository(), &mut paths);
    let all = read(paths);
    assert!(all.len() > 30 && all.values().map(|page| page.links.len()).sum::<usize>() > 100);
    let broken = broken(&all);
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn links_that_lead_nowhere_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let page = "# A `b` c: d\n\n## A b c d\n\n[x](#a-b-c-d) [x](#a-b-c-d-1) [x](b.md#e) [x](.)\n\n\
                [x](#f)\n[x](b.md#g)\n![x](c.svg)\n[x](https://no.where/)\n";
    fs::write(folder.join("a.md"), page).unwrap();
    fs::write(folder.join("b.md"), "e\n=\n").unwrap();
    let mut paths = Vec::new();
    pages(&folder, &mut paths);
    let broken = broken(&read(paths));
    let ends: Vec<_> = broken
        .iter()
        .map(|line| line.split_once(": ").unwrap().1)
        .collect();
    assert_eq!(ends, ["#f", "b.md#g", "c.svg"]);
}

/// Every page of docs is in the book.
#[test]
fn every_page_has_a_place() {
    let folder = repository().join("docs");
    let summary = Page::read(&fs::read_to_string(folder.join("SUMMARY.md")).unwrap());
    for entry in fs::read_dir(&folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") && name != "SUMMARY.md" {
            assert!(summary.links.contains(&name), "SUMMARY.md has no {name}");
        }
    }
}

/// The commands of a block, with what its placeholders stand for.
fn script(block: &str, pid: u32) -> String {
    let (mut commands, mut goes_on) = (Vec::new(), false);
    let marked = block.lines().any(|line| line.starts_with("$ "));
    for line in block.lines() {
        let command = line.strip_prefix("$ ");
        if !marked || goes_on || command.is_some() {
            commands.push(command.unwrap_or(line));
            goes_on = line.ends_with('\\');
        }
    }
    let text = commands.join("\n");
    let text = text.replace("/path/to/libhakmem.so", HAKMEM.to_str().unwrap());
    words(&text, "PID", &pid.to_string(), "PROG", "./prog")
}

/// The text with two words replaced, where they stand alone.
fn words(text: &str, one: &str, by: &str, other: &str, by_other: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let parts = text.split_inclusive(|c: char| !is_part(c));
    let replaced = parts.map(|part| {
        let word = part.trim_end_matches(|c: char| !is_part(c));
        let rest = &part[word.len()..];
        match word {
            w if w == one => format!("{by}{rest}"),
            w if w == other => format!("{by_other}{rest}"),
            _ => part.to_owned(),
        }
    });
    replaced.collect()
}

/// What PROG stands for.
static PROG: LazyLock<PathBuf> =
    LazyLock::new(|| BUILT.compile("book.c", "book-prog", &["-fno-builtin", "-pthread"]));

/// A folder with the command, the library and a program.
fn scratch() -> tempfile::TempDir {
    let folder = tempfile::Builder::new()
        .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
        .unwrap();
    let put = |from: &Path, name: &str| {
        let to = folder.path().join(name);
        fs::hard_link(from, &to)
            .or_else(|_| fs::copy(from, &to).map(drop))
            .unwrap();
    };
    fs::create_dir(folder.path().join("bin")).unwrap();
    put(Path::new(env!("CARGO_BIN_EXE_hakmem")), "bin/hakmem");
    put(&HAKMEM.canonicalize().unwrap(), "bin/libhakmem.so");
    put(&PROG, "prog");
    folder
}

/// Runs a block in a folder of its own, beside a process on hakmem. What went wrong, if anything
/// did.
fn run_block(block: &str) -> Option<String> {
    let folder = scratch();
    let mut command = Command::new(&*KNOWN);
    command.env("LD_PRELOAD", &*HAKMEM).stdin(Stdio::piped());
    let process = Ready::new(command);
    let script = script(block, process.pid() as u32);
    let mut paths = vec![folder.path().join("bin")];
    let path = std::env::var_os("PATH").unwrap_or_default();
    paths.extend(std::env::split_paths(&path));
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &script])
        .current_dir(folder.path())
        .env("PATH", std::env::join_paths(paths).unwrap())
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    // The doctor may find a problem of this machine.
    let is_doctors = block
        .trim_end()
        .lines()
        .all(|line| line.starts_with("hakmem doctor"));
    let text = stderr(&output);
    let failed = match output.status.code() {
        Some(0) => false,
        Some(1) => !is_doctors,
        _ => true,
    };
    let did_not = text.contains("did NOT run on hakmem");
    (failed || did_not).then(|| format!("{script}\n{}\n{text}", output.status))
}

#[test]
fn every_command_runs() {
    let docs = repository().join("docs");
    let mut paths = Vec::new();
    pages(&docs, &mut paths);
    let (mut run, mut not_run, mut failures) = (0, 0, Vec::new());
    for (path, page) in read(paths) {
        for (block, reason) in page.blocks {
            match reason {
                Some(reason) => {
                    assert!(
                        reason.len() > 10,
                        "{}: {reason:?} is no reason",
                        path.display()
                    );
                    not_run += 1;
                }
                None => {
                    run += 1;
                    let failure = run_block(&block);
                    failures.extend(failure.map(|why| format!("{}:\n{why}", path.display())));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(run >= 15, "{run} blocks were run");
    assert_eq!(not_run, NOT_RUN, "blocks that are not run");
}

/// What a block that fails comes to, and which of its lines are commands.
#[test]
fn commands_that_fail_are_found() {
    assert_eq!(
        run_block("hakmem options DECAY_MS\nhakmem top --batch 1 PID\n./prog"),
        None
    );
    for block in [
        "false\ntrue",
        "hakmem run --no-such-option PROG",
        "false | true",
    ] {
        assert!(run_block(block).is_some(), "{block}");
    }
    let block = "$ a PROG \\\n    PID\noutput PROG\n$ b PIDS";
    assert_eq!(script(block, 7), "a ./prog \\\n    7\nb PIDS");
}
