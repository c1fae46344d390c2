//! Makes a copy of the sources with the mistakes that the models of a suite name. The suites are
//! `tests/loom` and `tests/shuttle`.

use crate::mistakes::{self, Mistakes, SWITCH};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};
use syn::visit::{self, Visit};

const CORE: &str = "crates/hakmem-core";
const SUITES: [&str; 2] = ["loom", "shuttle"];
/// The files and folders that the build of the copy needs.
const SOURCES: [&str; 5] = ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", "crates", "benches"];

/// Makes the copy for the models of `suite` in `folder`. Does not write a file that is unchanged,
/// so cargo does not build it again.
pub fn copy(suite: &str, folder: &Path) -> io::Result<()> {
    let text = fs::read_to_string(format!("{CORE}/tests/mistakes/list.toml"))?;
    let all: Mistakes = toml::from_str(&text).map_err(io::Error::other)?;
    let named = named(&all, suite)?;
    let mut files = BTreeMap::new();
    for source in SOURCES {
        read(Path::new(source), &mut files)?;
    }
    let src = Path::new(CORE).join("src");
    let places = all
        .iter()
        .flat_map(|(name, mistake)| mistake.places.iter().map(move |place| (&*place.file, name)));
    for (file, name) in places.collect::<BTreeMap<_, _>>() {
        let missing = || io::Error::other(format!("{name}: there is no {file}"));
        let bytes = files.get_mut(&src.join(file)).ok_or_else(missing)?;
        let text = str::from_utf8(bytes).map_err(io::Error::other)?;
        *bytes = mistakes::weave(file, text, &all, &named).map_err(io::Error::other)?.into_bytes();
    }
    files.get_mut(&src.join("base/sync/mod.rs")).expect("it is there").extend(SWITCH.bytes());
    write(folder, files)?;
    eprintln!("{} mistakes for tests/{suite}", named.len());
    Ok(())
}

/// The mistakes that the models of `suite` name. Fails for a name without a mistake, and a mistake
/// that no suite names.
fn named<'a>(all: &'a Mistakes, suite: &str) -> io::Result<BTreeSet<&'a str>> {
    let mut nowhere: BTreeSet<&str> = all.keys().map(String::as_str).collect();
    let mut named = BTreeSet::new();
    for each in SUITES {
        let mut names = Names::default();
        for entry in fs::read_dir(format!("{CORE}/tests/{each}"))? {
            let parsed = syn::parse_file(&fs::read_to_string(entry?.path())?);
            names.visit_file(&parsed.map_err(io::Error::other)?);
        }
        for name in names.0 {
            let error = || {
                io::Error::other(format!(
                    "tests/{each} names {name}, which mistakes/list.toml has not"
                ))
            };
            let known = all.get_key_value(&name).ok_or_else(error)?.0.as_str();
            nowhere.remove(known);
            if each == suite {
                named.insert(known);
            }
        }
    }
    match (named.is_empty(), nowhere.is_empty()) {
        (true, _) => Err(io::Error::other(format!("tests/{suite} names no mistakes"))),
        (_, false) => {
            Err(io::Error::other(format!("no model names {}", Vec::from_iter(nowhere).join(", "))))
        }
        (false, true) => Ok(named),
    }
}

/// What models name in the last argument of `check` or `check_within`.
#[derive(Default)]
struct Names(BTreeSet<String>);

impl<'ast> Visit<'ast> for Names {
    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let syn::Expr::Path(function) = &*call.func
            && (function.path.is_ident("check") || function.path.is_ident("check_within"))
            && let Some(syn::Expr::Reference(last)) = call.args.last()
            && let syn::Expr::Array(names) = &*last.expr
        {
            for name in &names.elems {
                if let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(name), .. }) = name {
                    self.0.insert(name.value());
                }
            }
        }
        visit::visit_expr_call(self, call);
    }
}

/// Reads a file, or all below a folder.
fn read(path: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) -> io::Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            read(&entry?.path(), files)?;
        }
    } else {
        files.insert(path.to_owned(), fs::read(path)?);
    }
    Ok(())
}

/// Writes `files` below `folder`, which has no others afterwards.
fn write(folder: &Path, files: BTreeMap<PathBuf, Vec<u8>>) -> io::Result<()> {
    let mut before = BTreeMap::new();
    if folder.exists() {
        read(folder, &mut before)?;
    }
    for (path, bytes) in files {
        let path = folder.join(path);
        if before.remove(&path).as_ref() != Some(&bytes) {
            fs::create_dir_all(path.parent().expect("it is below the folder"))?;
            fs::write(path, bytes)?;
        }
    }
    before.into_keys().try_for_each(fs::remove_file)
}
