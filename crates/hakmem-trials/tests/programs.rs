//! The comparison of whole programs, as its users see it.

use hakmem_bench::html;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// The value of `--lib` for a library that every dynamically linked program can load on top of its
/// own. Its name is `twice`.
pub fn harmless_library() -> Option<String> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines()
        .filter_map(|l| l.split_whitespace().nth(5))
        .find(|p| p.contains("/libc.so"))
        .map(|path| format!("twice={path}"))
}

fn programs(temporary: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hakmem-trials"))
        .arg("programs")
        .args(arguments)
        .env("TMPDIR", temporary)
        .output()
        .expect("it starts")
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_program_is_compared_and_nothing_of_it_stays() {
    let Some(library) = harmless_library() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let (temporary, json) = (folder.path().join("tmp"), folder.path().join("record.json"));
    fs::create_dir(&temporary).expect("writable");
    let json_text = json.to_str().expect("UTF-8");
    let output = programs(
        &temporary,
        &[
            "--lib", &library, "--rounds", "1", "--only", "sort", "--json", json_text,
        ],
    );
    assert!(
        output.status.success(),
        "{} {}",
        text(&output.stdout),
        text(&output.stderr)
    );
    assert_eq!(
        fs::read_dir(&temporary).expect("readable").count(),
        0,
        "the inputs are removed"
    );

    let record: Value = serde_json::from_slice(&fs::read(&json).expect("written")).expect("JSON");
    assert_eq!(
        (&record["kind"], &record["summary"]["base"]),
        (&"programs".into(), &"system".into())
    );
    let samples = record["samples"].as_array().expect("samples");
    let names: Vec<&str> = samples
        .iter()
        .filter_map(|s| s["allocator"].as_str())
        .collect();
    assert_eq!(names, ["twice", "system"]);
    for sample in samples {
        assert_eq!(
            (&sample["workload"], &sample["outcome"]["ending"]),
            (&"sort".into(), &"exit 0".into())
        );
        assert_eq!(
            sample["outcome"]["stdout_sha256"],
            samples[0]["outcome"]["stdout_sha256"]
        );
        assert!(
            sample["max_rss_kib"].as_f64().is_some_and(|k| k > 10_000.0),
            "it holds the text: {sample}"
        );
    }

    // Neither is hakmem here, nor are its peers.
    assert_eq!(
        record["targets"],
        serde_json::Value::Null,
        "no row of hakmem"
    );

    // The page of results takes such records.
    let page = folder.path().join("page.html");
    let report = html::run(&html::Options {
        inputs: vec![json],
        out: page.clone(),
        causes: folder.path().join("no-causes"),
    });
    assert!(report.expect("the record is good"));
    assert!(
        fs::read_to_string(&page)
            .expect("written")
            .contains("Whole programs")
    );
}

#[test]
fn unknown_programs_and_bad_libraries_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    for (arguments, says) in [
        (["--only", "nonesuch"], "sqlite3"),
        (["--lib", "a=/nonexistent.so"], "/nonexistent.so"),
        (["--lib", "system=/proc/self/exe"], "system"),
    ] {
        let output = programs(folder.path(), &arguments);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(says), "{errors}");
        assert!(output.stdout.is_empty(), "nothing may look like a result");
    }
}
