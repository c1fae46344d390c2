//! Executables of this system.

use std::env;
use std::path::{Path, PathBuf};

/// Finds an executable. Where the system keeps its own comes first: what stands before it in `PATH`
/// may be a wrapper, a script whose shell would be measured, too.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/bin", "/usr/local/bin", "/bin"].map(PathBuf::from);
    system
        .into_iter()
        .chain(env::split_paths(&path))
        .map(|folder| folder.join(name))
        .find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executables_are_found_and_folders_are_none() {
        assert!(find("sh").is_some_and(|path| path.is_absolute()));
        assert!(find("no-such-program").is_none() && find(".").is_none());
    }
}
