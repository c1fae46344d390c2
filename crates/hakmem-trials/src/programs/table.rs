//! The programs: what each does, and how it is started.

/// One program.
#[derive(Debug)]
pub struct Program {
    /// Its name on the command line and in tables.
    pub name: &'static str,
    /// What it does, in words.
    pub what: &'static str,
    /// The executable, found by [`find`](crate::executables::find).
    pub executable: &'static str,
    /// What must be there besides.
    pub needs: &'static [&'static str],
    /// Its arguments. It runs in an empty folder of its own, beside the folder `inputs`.
    pub arguments: &'static [&'static str],
    /// Its environment, beside the one that all have.
    pub environment: &'static [(&'static str, &'static str)],
    /// How it runs.
    pub style: Style,
    /// Why its output is not compared; `None` where it is.
    pub unsteady: Option<&'static str>,
}

/// How a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// From start to end by itself; what it writes to its standard output is its product.
    Alone,
    /// As that, on a copy of the folder `inputs/<this>` which it changes; files of this ending are
    /// its product, too.
    OnCopy(&'static str, &'static str),
    /// It serves on a socket until it is told to stop; its time is the processor's, as it mostly
    /// waits.
    Server,
}

const PLAIN: Program = Program {
    name: "",
    what: "",
    executable: "",
    needs: &[],
    arguments: &[],
    environment: &[],
    style: Style::Alone,
    unsteady: None,
};

/// All of them, in the order they run in.
pub const ALL: &[Program] = &[
    Program {
        name: "python3",
        what: "dictionaries, strings and JSON",
        executable: "python3",
        arguments: &["../inputs/objects.py"],
        ..PLAIN
    },
    Program {
        name: "python3_malloc",
        what: "the same without Python's own small-object allocator",
        executable: "python3",
        arguments: &["../inputs/objects.py"],
        environment: &[("PYTHONMALLOC", "malloc")],
        ..PLAIN
    },
    Program {
        name: "g++",
        what: "-O1 of a file that uses many containers, to assembly",
        executable: "g++",
        arguments: &[
            "-std=c++17",
            "-O1",
            "-S",
            "-o",
            "-",
            "../inputs/containers.cc",
        ],
        ..PLAIN
    },
    Program {
        name: "redis",
        what: "redis-server under redis-benchmark: strings, lists, sets, hashes, sorted sets",
        executable: "redis-server",
        needs: &["redis-benchmark", "redis-cli"],
        arguments: &[
            "--port",
            "0",
            "--unixsocket",
            "redis.sock",
            "--pidfile",
            "redis.pid",
            "--save",
            "",
            "--appendonly",
            "no",
            "--daemonize",
            "no",
        ],
        style: Style::Server,
        unsteady: Some("its log has times and process ids"),
        ..PLAIN
    },
    Program {
        name: "sqlite3",
        what: "inserts, indices, joins, updates and deletes in memory",
        executable: "sqlite3",
        arguments: &["-batch", ":memory:", ".read ../inputs/tables.sql"],
        ..PLAIN
    },
    Program {
        name: "node",
        what: "JSON, maps and buffers",
        executable: "node",
        arguments: &["../inputs/objects.js"],
        ..PLAIN
    },
    Program {
        name: "perl",
        what: "hashes, arrays and regular expressions over text",
        executable: "perl",
        arguments: &["../inputs/words.pl", "../inputs/text.txt"],
        environment: &[("PERL_HASH_SEED", "0")],
        ..PLAIN
    },
    Program {
        name: "ruby",
        what: "structures, strings, hashes and sorting",
        executable: "ruby",
        arguments: &["--disable=gems", "../inputs/objects.rb"],
        ..PLAIN
    },
    Program {
        name: "lua",
        what: "tables, strings and closures",
        executable: "lua5.4",
        arguments: &["../inputs/objects.lua"],
        ..PLAIN
    },
    Program {
        name: "php_malloc",
        what: "arrays, objects and JSON, without PHP's own allocator",
        executable: "php",
        arguments: &["-n", "../inputs/objects.php"],
        environment: &[("USE_ZEND_ALLOC", "0")],
        ..PLAIN
    },
    Program {
        name: "jq",
        what: "60,000 records in JSON grouped and summed up",
        executable: "jq",
        arguments: &[
            "-c",
            "group_by(.kind) | map({kind: .[0].kind, count: length, size: (map(.at.size) | add), \
             names: (map(.name | ascii_upcase) | sort | .[0:3]), tags: (map(.tags[]) | unique | length)})",
            "../inputs/records.json",
        ],
        ..PLAIN
    },
    Program {
        name: "git_gc",
        what: "git gc of a repository of 600 commits, on one thread",
        executable: "git",
        // Threads share the work of finding deltas by chance, and the pack would differ from run to
        // run.
        arguments: &[
            "-C",
            "repository",
            "-c",
            "pack.threads=1",
            "gc",
            "--quiet",
            "--prune=now",
        ],
        environment: &[
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ],
        style: Style::OnCopy("repository", "pack"),
        ..PLAIN
    },
    Program {
        name: "ghostscript",
        what: "pages of text and curves to PNG at 150 dpi",
        executable: "gs",
        arguments: &[
            "-q",
            "-dSAFER",
            "-dBATCH",
            "-dNOPAUSE",
            "-sDEVICE=png16m",
            "-r150",
            "-sOutputFile=-",
            "../inputs/pages.ps",
        ],
        ..PLAIN
    },
    Program {
        name: "tar_xz",
        what: "tar of a short text, through xz on one thread",
        executable: "tar",
        needs: &["xz"],
        arguments: &[
            "--create",
            "--xz",
            "--file=-",
            "--mtime=@0",
            "--owner=0",
            "--group=0",
            "--numeric-owner",
            "--mode=644",
            "--directory=../inputs",
            "short.txt",
        ],
        environment: &[("XZ_DEFAULTS", "-T1 -3")],
        ..PLAIN
    },
    Program {
        name: "sort",
        what: "GNU sort of a text on two threads",
        executable: "sort",
        arguments: &["--parallel=2", "--buffer-size=256M", "../inputs/text.txt"],
        ..PLAIN
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::first_wrong;

    #[test]
    fn names_are_unique_and_programs_complete() {
        let is_complete = |p: &Program| !p.executable.is_empty() && !p.what.is_empty();
        let rows = ALL.iter().map(|p| (p.name, is_complete(p)));
        assert_eq!(first_wrong(rows), None);
    }
}
