//! The pages: what they have, and that every link leads somewhere.
//!
//! A block of commands is fenced as `sh`. A comment before it may say how it is tested:
//! [`Testing`].

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders whose pages are not the project's own.
const LEFT_OUT: [&str; 2] = ["target", ".git"];

/// How the commands of a block are tested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Testing {
    /// They run.
    Run,
    /// `<!-- run where there is: program -->`: they run if the program is on `PATH`.
    Needs(String),
    /// `<!-- looked at: why -->`: stand-ins look whether each program is there, and whether the
    /// project's own commands understand their arguments, and let them begin: programs, scripts of
    /// `ci`, and what cargo builds run for some seconds.
    LookedAt,
    /// `<!-- not run: why -->`.
    NotRun(String),
}

impl Testing {
    /// What a comment says. None: it says something else.
    fn read(comment: &str) -> Option<Self> {
        let text = comment.trim().strip_prefix("<!-- ")?.strip_suffix(" -->")?;
        let (how, why) = text.split_once(": ")?;
        match how {
            "run where there is" => Some(Self::Needs(why.to_owned())),
            "looked at" => Some(Self::LookedAt),
            "not run" => Some(Self::NotRun(why.to_owned())),
            _ => None,
        }
    }
}

pub fn repository() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.join("../..").canonicalize().unwrap()
}

/// All pages in a folder and below it.
pub fn pages(folder: &Path, all: &mut Vec<PathBuf>) {
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
pub struct Page {
    anchors: BTreeSet<String>,
    links: Vec<String>,
    /// Commands, and how they are tested.
    pub blocks: Vec<(String, Testing)>,
}

impl Page {
    fn read(text: &str) -> Self {
        let mut page = Self::default();
        let (mut heading, mut block, mut testing) = (None, None, None);
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
                    let how = testing.take().unwrap_or(Testing::Run);
                    page.blocks.extend(block.take().map(|block| (block, how)));
                }
                Event::Html(html) => testing = Testing::read(&html),
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

pub fn read(paths: Vec<PathBuf>) -> BTreeMap<PathBuf, Page> {
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
