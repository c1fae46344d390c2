//! `api CRATE=FEATURES…`: is `public-api.txt` in each crate's folder what the crate makes public?
//! With `BLESS` in the environment the files are written anew. Run it by `ci/public-api`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

/// The pages of a crate as JSON, by which the list is made.
fn described(folder: &Path, features: &str) -> Result<PathBuf, rustdoc_json::BuildError> {
    rustdoc_json::Builder::default()
        .toolchain("nightly")
        .manifest_path(folder.join("Cargo.toml"))
        .features(features.split(',').filter(|name| !name.is_empty()))
        .cap_lints(Some("allow"))
        .silent(true)
        .build()
}

/// The list: an item in each line, without what every type has.
fn listed(json: &Path) -> Result<String, public_api::Error> {
    let api = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .build()?;
    Ok(api.items().map(|item| format!("{item}\n")).collect())
}

/// Prints the lines that only one of both lists has. True if there are none.
fn same(name: &str, committed: &str, made: &str) -> bool {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let (old, new) = (lines(committed), lines(made));
    for gone in old.difference(&new) {
        println!("{name}: - {gone}");
    }
    for added in new.difference(&old) {
        println!("{name}: + {added}");
    }
    committed == made
}

fn check(folder: &Path, features: &str) -> Result<bool, Box<dyn std::error::Error>> {
    let made = listed(&described(folder, features)?)?;
    let file = folder.join("public-api.txt");
    if env::var_os("BLESS").is_some() {
        fs::write(&file, &made)?;
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let is_same = same(&name, &committed, &made);
    println!("{name}: {} public items", made.lines().count());
    Ok(is_same)
}

fn main() -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for argument in env::args().skip(1) {
        let (folder, features) = argument.split_once('=').unwrap_or((&argument, ""));
        match check(Path::new(folder), features) {
            Ok(true) => continue,
            Ok(false) => eprintln!("{folder}: the public API differs from public-api.txt"),
            Err(e) => eprintln!("{folder}: {e}"),
        }
        code = ExitCode::FAILURE;
    }
    code
}
