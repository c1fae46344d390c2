//! The programs: what each does, what it needs, and what is compared.

/// One program, or a few that belong together.
#[derive(Debug)]
pub struct Program {
    /// Its name on the command line and in tables.
    pub name: &'static str,
    /// What is run, in words.
    pub what: &'static str,
    /// What is compared, and what is left out of that because it varies by itself.
    pub compared: &'static str,
    /// Debian packages; the first is the one whose version is told.
    pub packages: &'static [&'static str],
    /// The script, without the prelude.
    pub script: &'static str,
    /// Seconds after which a run counts as a hang.
    pub deadline: u64,
    /// Why it fails on some allocators, where that is known and not theirs to mend. Shown beside
    /// such failures only.
    pub known: Option<&'static str>,
}

/// What every script begins with.
pub const PRELUDE: &str = include_str!("scripts/prelude.sh");

/// Files that scripts read, by name.
pub const FILES: &[(&str, &str)] = &[
    ("workers.js", include_str!("scripts/workers.js")),
    ("objects.php", include_str!("scripts/objects.php")),
    ("tables.pg.sql", include_str!("scripts/tables.pg.sql")),
    ("tables.maria.sql", include_str!("scripts/tables.maria.sql")),
    ("threads.rb", include_str!("scripts/threads.rb")),
    ("page.html", include_str!("scripts/page.html")),
    ("speed.sql", include_str!("scripts/speed.sql")),
];

const PLAIN: Program = Program {
    name: "",
    what: "",
    compared: "",
    packages: &[],
    script: "",
    deadline: 180,
    known: None,
};

/// All of them, in the order they run in.
pub const ALL: &[Program] = &[
    Program {
        name: "coreutils",
        what: "Forty tools of coreutils, and grep with fixed, extended, Perl and empty patterns, over a text of 600,000 lines.",
        compared: "All output.",
        packages: &["coreutils", "grep"],
        script: include_str!("scripts/coreutils.sh"),
        ..PLAIN
    },
    Program {
        name: "man-db",
        what: "mandb, man (which filters its own system calls), apropos, whatis and lexgrog over forty made-up pages with tables.",
        compared: "All output, without the path of the folder.",
        packages: &["man-db", "groff-base"],
        script: include_str!("scripts/man-db.sh"),
        ..PLAIN
    },
    Program {
        name: "python3",
        what: "Its own test modules json, threading, thread, threading_local, ctypes and multiprocessing (pools, queues, shared \
               memory, a manager's restart), and a script, with Python's own small-object allocator and without.",
        compared: "The number of tests of each module, the names of those that failed; the script's output.",
        packages: &["python3", "libpython3.11-testsuite"],
        script: include_str!("scripts/python3.sh"),
        deadline: 400,
        ..PLAIN
    },
    Program {
        name: "nodejs",
        what: "300 workers, one after the other; JSON, maps and buffers.",
        compared: "All output.",
        packages: &["nodejs"],
        script: include_str!("scripts/nodejs.sh"),
        ..PLAIN
    },
    Program {
        name: "openjdk",
        what: "javac of 121 classes, and java running them on four threads.",
        compared: "The class files and all output.",
        packages: &["openjdk-17-jdk-headless"],
        script: include_str!("scripts/openjdk.sh"),
        ..PLAIN
    },
    Program {
        name: "php-cli",
        what: "Arrays, JSON, sorting, regular expressions, serialisation, with PHP's own allocator and without.",
        compared: "All output.",
        packages: &["php-cli"],
        script: include_str!("scripts/php.sh"),
        known: Some(
            "php loads its extensions with RTLD_DEEPBIND: they free with the C library's `free` what php has from the preloaded \
             `malloc`. hakmem's `dlopen` takes that flag out.",
        ),
        ..PLAIN
    },
    Program {
        name: "php-cli-n",
        what: "The same without extensions.",
        compared: "All output.",
        packages: &["php-cli"],
        script: include_str!("scripts/php-plain.sh"),
        ..PLAIN
    },
    Program {
        name: "postgresql",
        what: "initdb, the server under pgbench that makes a new connection (a process) for each transaction and under pgbench \
               that does not, queries over JSON, sorts, joins and regular expressions, VACUUM FULL.",
        compared: "Numbers of transactions, results of queries, the dumped schema (without its random token), the exit status, and lines of the log about \
                   errors and crashes. Not rates.",
        packages: &["postgresql", "postgresql-contrib"],
        script: include_str!("scripts/postgresql.sh"),
        ..PLAIN
    },
    Program {
        name: "redis",
        what: "redis-server: 200,000 commands, three BGSAVE and an AOF rewrite (forks) under the load of redis-benchmark, a restart.",
        compared: "Digests of all data, outcomes of the saves, the exit statuses, reports of crashes. Not rates.",
        packages: &["redis-server", "redis-tools"],
        script: include_str!("scripts/redis.sh"),
        ..PLAIN
    },
    Program {
        name: "mariadb",
        what: "mariadbd under sysbench (read and write on four threads; point selects; a hundred short connections), joins, sorts, JSON.",
        compared: "Numbers of transactions, results of queries, CHECK TABLE and CHECKSUM TABLE, the exit status, errors in the \
                   log. Not rates.",
        packages: &["mariadb-server", "sysbench"],
        script: include_str!("scripts/mariadb.sh"),
        ..PLAIN
    },
    Program {
        name: "nginx",
        what: "A master and two workers under ab: kept and new connections, a proxy, gzip, a reload under load.",
        compared: "Numbers of complete and failed requests, the content served, the exit status, alerts in the log. Not rates.",
        packages: &["nginx-light", "apache2-utils", "python3"],
        script: include_str!("scripts/nginx.sh"),
        ..PLAIN
    },
    Program {
        name: "git",
        what: "clone, gc --aggressive, fsck, log, blame, grep, archive, repack on two threads, diff of a made-up history of 600 commits.",
        compared: "All output, and the list of all objects. Not packs: two threads share the work by chance.",
        packages: &["git"],
        script: include_str!("scripts/git.sh"),
        ..PLAIN
    },
    Program {
        name: "compilers",
        what: "make -j2 of two programs with g++ and with clang++, and what they built.",
        compared: "Object files, and the output of the programs.",
        packages: &["g++", "clang", "make"],
        script: include_str!("scripts/compilers.sh"),
        deadline: 300,
        ..PLAIN
    },
    Program {
        name: "rust",
        what: "cargo build and cargo test of two crates, rustc of one, with Debian's compiler (which brings no allocator along).",
        compared: "The output of the programs, the metadata of the crate. Not times.",
        packages: &["rustc", "cargo"],
        script: include_str!("scripts/rust.sh"),
        deadline: 300,
        ..PLAIN
    },
    Program {
        name: "ruby",
        what: "Eight threads that make and drop objects, four under GC.stress, a compaction, a fork.",
        compared: "All output.",
        packages: &["ruby"],
        script: include_str!("scripts/ruby.sh"),
        ..PLAIN
    },
    Program {
        name: "chromium",
        what: "A page without a window: 24,000 elements, a canvas, messages, many buffers. Chromium's executable exports a malloc \
               of its own, which comes before any preloaded one: that serves the shell that starts it, and little \
               else.",
        compared: "The page's content at its end.",
        packages: &["chromium"],
        script: include_str!("scripts/chromium.sh"),
        ..PLAIN
    },
    Program {
        name: "sqlite3",
        what: "Statements of the kinds in SQLite's own speed test, in memory and in a file.",
        compared: "All output, and the dumped database.",
        packages: &["sqlite3"],
        script: include_str!("scripts/sqlite3.sh"),
        ..PLAIN
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::first_wrong;

    #[test]
    fn names_are_unique_and_programs_complete() {
        let is_script = |text: &str| text.contains("run() {") && text.contains("under");
        let is_complete =
            |p: &Program| !p.packages.is_empty() && !p.compared.is_empty() && is_script(p.script);
        let rows = ALL.iter().map(|p| (p.name, is_complete(p)));
        assert_eq!(first_wrong(rows), None);
    }
}
