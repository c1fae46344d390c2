//! Paths as records have them: of the repository, or names alone. A record is read on other
//! machines, where the folders of this one mean nothing.

use std::path::{Component, Path, PathBuf};

/// What may stand before a path in a word.
const BEFORE: [char; 7] = ['=', '\'', '"', '(', '[', ',', ';'];
/// What may stand behind it.
const BEHIND: [char; 8] = ['\'', '"', ')', ']', ',', ';', ':', '.'];

/// Where paths are seen from.
#[derive(Debug)]
pub struct Paths {
    repository: PathBuf,
    here: PathBuf,
}

impl Paths {
    /// From the current directory; the repository is that of the sources.
    pub fn here() -> Self {
        let repository = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        Self {
            repository: flat(repository),
            here: std::env::current_dir().unwrap_or_default(),
        }
    }

    /// `path` relative to the repository, or its last component if it is elsewhere.
    pub fn portable(&self, path: &Path) -> String {
        let path = flat(&self.here.join(path));
        let shown = match (path.strip_prefix(&self.repository), path.file_name()) {
            (Ok(inside), _) if inside != Path::new("") => inside.as_os_str(),
            (Ok(_), _) => ".".as_ref(),
            (Err(_), Some(name)) => name,
            (Err(_), None) => path.as_os_str(),
        };
        shown.to_string_lossy().into_owned()
    }

    /// `text` with each absolute path in it, and each that leads upwards, made
    /// [portable](Self::portable).
    pub fn in_text(&self, text: &str) -> String {
        let words = text.split_inclusive(char::is_whitespace);
        words.map(|word| self.in_word(word)).collect()
    }

    fn in_word(&self, word: &str) -> String {
        let starts = word.char_indices().map(|(at, _)| at);
        let start = starts.into_iter().find(|&at| {
            let begins = word[..at]
                .chars()
                .next_back()
                .is_none_or(|c| BEFORE.contains(&c));
            let rest = &word[at..];
            begins && (rest.starts_with('/') || rest.starts_with("../"))
        });
        let Some(start) = start else {
            return word.to_owned();
        };
        let (before, rest) = word.split_at(start);
        let path = rest.trim_end().trim_end_matches(BEHIND);
        let behind = &rest[path.len()..];
        format!("{before}{}{behind}", self.portable(Path::new(path)))
    }
}

/// The path without `.` and `..`, as text: nothing needs to exist.
fn flat(path: &Path) -> PathBuf {
    let mut flat = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                flat.pop();
            }
            other => flat.push(other),
        }
    }
    flat
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths() -> Paths {
        Paths {
            repository: PathBuf::from("/home/someone/hakmem"),
            here: PathBuf::from("/home/someone/hakmem/docs"),
        }
    }

    #[test]
    fn paths_are_of_the_repository_or_names() {
        let portable = |path: &str| paths().portable(Path::new(path));
        assert_eq!(
            portable("/home/someone/hakmem/target/release/libhakmem.so"),
            "target/release/libhakmem.so"
        );
        assert_eq!(portable("../out.json"), "out.json");
        assert_eq!(portable("figures/out.json"), "docs/figures/out.json");
        assert_eq!(portable("../../elsewhere/out.json"), "out.json");
        assert_eq!(portable("/usr/lib/libx.so.2"), "libx.so.2");
        assert_eq!(portable("/home/someone/hakmem-2/x"), "x");
        assert_eq!(
            (portable("/"), portable("..")),
            ("/".to_owned(), ".".to_owned())
        );
    }

    #[test]
    fn words_keep_what_is_no_path_of_this_machine() {
        let text = |text: &str| paths().in_text(text);
        for same in [
            "compare",
            "--rounds",
            "json,mir",
            "a/b",
            "https://x/y",
            "2 / 3",
            "",
            "64 KiB",
        ] {
            assert_eq!(text(same), same);
        }
        assert_eq!(
            text("/home/someone/hakmem/target/release/hakmem-bench"),
            "target/release/hakmem-bench"
        );
        assert_eq!(
            text("--lib=mine=/opt/x/libmine.so"),
            "--lib=mine=libmine.so"
        );
        assert_eq!(text("mine=../../x/libmine.so"), "mine=libmine.so");
        assert_eq!(
            text("exit 2: /home/someone/hakmem/target/libx.so: not loaded, see '/tmp/log'."),
            "exit 2: target/libx.so: not loaded, see 'log'."
        );
        assert_eq!(text("/usr/bin/env -i /bin/sh"), "env -i sh");
    }
}
