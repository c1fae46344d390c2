//! What cargo builds for tests: the library, the fixtures and the examples.
//!
//! One call builds all that is wanted in release, and one all that tests have built anyway: each
//! call of cargo costs a second, and each set of features another core.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The files that cargo names, by the target that they are of.
pub struct Artifacts(Vec<(String, PathBuf)>);

impl Artifacts {
    /// The file of a target that ends in `end`.
    pub fn of(&self, target: &str, end: &str) -> PathBuf {
        let fits = |(name, file): &&(String, PathBuf)| {
            name == target
                && file
                    .as_os_str()
                    .as_encoded_bytes()
                    .ends_with(end.as_bytes())
        };
        let found = self.0.iter().find(fits);
        let found = found.unwrap_or_else(|| panic!("cargo made no {end} of {target}"));
        found.1.clone()
    }

    /// An example that is a program.
    pub fn example(&self, name: &str) -> PathBuf {
        self.of(name, name)
    }
}

/// What `cargo build` makes of these arguments.
pub fn build(args: &[&str]) -> Artifacts {
    build_in("", args)
}

/// [`build`] in a folder of its own, for features that would change what other tests have built.
/// Once per name and program.
#[allow(dead_code, reason = "other crates' tests share this file")]
pub fn apart(name: &str, args: &[&str]) -> &'static Artifacts {
    static BUILT: OnceLock<Artifacts> = OnceLock::new();
    BUILT.get_or_init(|| build_in(name, args))
}

fn build_in(folder: &str, args: &[&str]) -> Artifacts {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent();
    let target = target.map(|target| target.join(folder));
    let output = Command::new(env!("CARGO"))
        .args([
            "build",
            "--quiet",
            "--message-format=json-render-diagnostics",
        ])
        .args(args)
        .args(of_other_machine())
        .arg("--target-dir")
        .arg(target.expect("a target directory"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("LD_PRELOAD")
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo build {args:?}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let mut files = Vec::new();
    for line in text.lines() {
        let message: serde_json::Value = serde_json::from_str(line).expect("a line of JSON");
        let name = message["target"]["name"].as_str().unwrap_or_default();
        let all = message["filenames"].as_array();
        let all = all.into_iter().flatten().filter_map(|file| file.as_str());
        files.extend(all.map(|file| (name.to_owned(), PathBuf::from(file))));
    }
    Artifacts(files)
}

/// Where the tests are for another machine (`target`), cargo is told so.
fn of_other_machine() -> Vec<String> {
    let target = std::env::var("TEST_HAKMEM_TARGET").ok();
    let named = target.as_deref().and_then(|target| target.split_once('-'));
    let option = |(processor, system)| format!("--target={processor}-unknown-{system}");
    named.map(option).into_iter().collect()
}

/// As users get them: the library, and those fixtures of which a test needs that, or runs for long.
/// Each takes 5 s to link.
pub fn released(features: &[&str]) -> &'static Artifacts {
    static BUILT: OnceLock<Artifacts> = OnceLock::new();
    BUILT.get_or_init(|| {
        let mut args = vec![
            "--release",
            "--lib",
            "-p",
            "hakmem-ffi",
            "-p",
            "hakmem-fixtures",
        ];
        for fixture in ["conformance", "errors", "plugin", "profiled", "watched"] {
            args.extend(["--example", fixture]);
        }
        args.extend(features);
        build(&args)
    })
}

/// With debug assertions: all examples, and the fixtures that need no feature. `cargo test
/// --workspace` has built them already.
pub fn debugged() -> &'static Artifacts {
    static BUILT: OnceLock<Artifacts> = OnceLock::new();
    BUILT.get_or_init(|| build(&["--profile", "test", "--workspace", "--examples"]))
}
