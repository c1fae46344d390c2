//! Checks that every test file of a crate is run. The files are modules of a few test programs. If
//! no program names a file, its tests do not run.

use std::path::Path;

/// Fails unless every source file in `tests` of the crate at `manifest` is a module of `programs`,
/// the text of such programs, or one of `others`, which are programs themselves.
pub fn every_file_is_run(manifest: &str, programs: &str, others: &[&str]) {
    for file in std::fs::read_dir(Path::new(manifest).join("tests")).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let Some(name) = name.strip_suffix(".rs") else {
            continue;
        };
        assert!(
            others.contains(&name) || programs.contains(&format!("\nmod {name};\n")),
            "{}: no test program has this file",
            path.display()
        );
    }
}
