//! What the programs read, the same on every run.

use hakmem_bench::rng::Rng;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// Sources that programs run or compile.
const FILES: [(&str, &str); 9] = [
    ("objects.py", include_str!("inputs/objects.py")),
    ("containers.cc", include_str!("inputs/containers.cc")),
    ("tables.sql", include_str!("inputs/tables.sql")),
    ("objects.js", include_str!("inputs/objects.js")),
    ("objects.rb", include_str!("inputs/objects.rb")),
    ("objects.lua", include_str!("inputs/objects.lua")),
    ("objects.php", include_str!("inputs/objects.php")),
    ("words.pl", include_str!("inputs/words.pl")),
    ("pages.ps", include_str!("inputs/pages.ps")),
];
/// Lines of the text.
const LINES: usize = 600_000;
/// Lines of the short text, for programs that take long over each.
const SHORT: usize = 50_000;
/// Records in the JSON.
const RECORDS: usize = 60_000;
/// Commits of the repository, and files in it.
const COMMITS: usize = 600;
const TREE: usize = 200;

/// Writes all inputs into `folder`; the repository only where `git` is given.
pub fn write(folder: &Path, git: Option<&Path>) -> io::Result<()> {
    for (name, content) in FILES {
        fs::write(folder.join(name), content)?;
    }
    for (name, lines) in [("text.txt", LINES), ("short.txt", SHORT)] {
        text(BufWriter::new(File::create(folder.join(name))?), lines)?;
    }
    records(BufWriter::new(File::create(folder.join("records.json"))?))?;
    git.map_or(Ok(()), |git| repository(git, &folder.join("repository")))
}

/// Lines of made-up words and numbers.
fn text(mut out: impl Write, lines: usize) -> io::Result<()> {
    let mut rng = Rng::new(1);
    let words: Vec<String> = (0..3000).map(|_| word(&mut rng)).collect();
    for _ in 0..lines {
        for _ in 0..rng.between(3, 12) {
            // The product of two leans towards the first words, as language does.
            let at = rng.below(words.len()) * rng.below(words.len()) / words.len();
            write!(out, "{}", words[at])?;
            if rng.below(4) == 0 {
                write!(out, "{}", rng.below(10_000))?;
            }
            write!(out, " ")?;
        }
        writeln!(out)?;
    }
    out.flush()
}

fn word(rng: &mut Rng) -> String {
    let syllables = [
        "ka", "ne", "lo", "ri", "tu", "sa", "mem", "or", "is", "ent", "al", "qua",
    ];
    (0..rng.between(1, 4))
        .map(|_| syllables[rng.below(syllables.len())])
        .collect()
}

/// An array of objects in JSON.
fn records(mut out: impl Write) -> io::Result<()> {
    let mut rng = Rng::new(3);
    writeln!(out, "[")?;
    for id in 0..RECORDS {
        let (kind, name) = (word(&mut rng), word(&mut rng));
        let (size, part) = (rng.below(100_000), rng.below(50));
        let end = if id + 1 == RECORDS { "" } else { "," };
        writeln!(
            out,
            r#"{{"id":{id},"kind":"{kind}","name":"{name} {id}","at":{{"part":{part},"size":{size}}},"tags":["{name}","{kind}{part}"]}}{end}"#
        )?;
    }
    writeln!(out, "]")?;
    out.flush()
}

/// A repository of loose history, made by `git fast-import`: nothing in it depends on the time or
/// the user.
fn repository(git: &Path, folder: &Path) -> io::Result<()> {
    let run = |command: &mut Command| -> io::Result<()> {
        let output = command.output()?;
        if output.status.success() {
            return Ok(());
        }
        let errors = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(io::Error::other(format!(
            "git cannot make a repository: {errors}"
        )))
    };
    let plain = || {
        let mut command = Command::new(git);
        command
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env_remove("LD_PRELOAD");
        for variable in [
            "GIT_DIR",
            "GIT_WORK_TREE",
            "GIT_INDEX_FILE",
            "GIT_OBJECT_DIRECTORY",
        ] {
            command.env_remove(variable);
        }
        command
    };
    // Without templates: sample hooks are of no use here.
    run(plain()
        .args(["init", "--quiet", "--bare", "--template="])
        .arg(folder))?;
    let stream = folder.with_extension("stream");
    history(BufWriter::new(File::create(&stream)?))?;
    // No limit below which objects stay loose, and no pack: what gc then has to do is what it does
    // after long work.
    run(plain()
        .args([
            "-c",
            "fastimport.unpackLimit=1000000000",
            "fast-import",
            "--quiet",
        ])
        .current_dir(folder)
        .stdin(Stdio::from(File::open(&stream)?)))?;
    fs::remove_file(&stream)
}

/// Commits that each change some lines of a few files.
fn history(mut out: impl Write) -> io::Result<()> {
    let mut rng = Rng::new(2);
    let line = |rng: &mut Rng| (0..8).map(|_| word(rng)).collect::<Vec<_>>().join(" ");
    let mut files: Vec<Vec<String>> = vec![Vec::new(); TREE];
    for commit in 0..COMMITS {
        writeln!(out, "commit refs/heads/main")?;
        writeln!(
            out,
            "committer Somebody <somebody@localhost> {} +0000",
            1_000_000_000 + commit * 3600
        )?;
        let message = format!("change {commit}");
        writeln!(out, "data {}\n{message}", message.len())?;
        for _ in 0..rng.between(1, 6) {
            let file = rng.below(TREE);
            if files[file].is_empty() {
                files[file] = (0..rng.between(20, 400)).map(|_| line(&mut rng)).collect();
            }
            for _ in 0..rng.between(1, 10) {
                let at = rng.below(files[file].len());
                files[file][at] = line(&mut rng);
            }
            let content = files[file].join("\n") + "\n";
            writeln!(out, "M 100644 inline part{}/file{file}.txt", file % 12)?;
            writeln!(out, "data {}\n{content}", content.len())?;
        }
    }
    writeln!(out, "done")?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_the_same_every_time() {
        let of = |make: fn(&mut Vec<u8>) -> io::Result<()>| {
            let (mut first, mut second) = (Vec::new(), Vec::new());
            make(&mut first).expect("memory takes all");
            make(&mut second).expect("memory takes all");
            assert!(
                first == second && first.len() > 1 << 20,
                "{} bytes",
                first.len()
            );
        };
        of(|out| text(out, SHORT));
        of(|out| history(out));
        of(|out| records(out));
        let mut json = Vec::new();
        records(&mut json).expect("memory takes all");
        let json: serde_json::Value = serde_json::from_slice(&json).expect("it is JSON");
        assert_eq!(json.as_array().map(Vec::len), Some(RECORDS));
    }
}
