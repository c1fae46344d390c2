//! Other allocators, as Debian has them in packages.

use std::env;
use std::path::{Path, PathBuf};

/// One of them.
#[derive(Debug, Clone, Copy)]
pub struct Packaged {
    /// What it is called beside programs.
    pub name: &'static str,
    /// Its package. Beside built-in allocators of other versions it goes by this name.
    pub package: &'static str,
    /// The file name of its library.
    pub file: &'static str,
}

/// All of them.
pub const ALL: [Packaged; 3] = [
    Packaged {
        name: "jemalloc",
        package: "libjemalloc2",
        file: "libjemalloc.so.2",
    },
    Packaged {
        name: "tcmalloc",
        package: "libtcmalloc-minimal4",
        file: "libtcmalloc_minimal.so.4",
    },
    Packaged {
        name: "mimalloc2",
        package: "libmimalloc2.0",
        file: "libmimalloc.so.2",
    },
];

impl Packaged {
    /// Its library, if it is in one of the loader's usual folders; canonical.
    pub fn library(&self) -> Option<PathBuf> {
        let multiarch = format!("/usr/lib/{}-linux-gnu", env::consts::ARCH);
        let folders = [
            "/usr/local/lib",
            multiarch.as_str(),
            "/usr/lib64",
            "/usr/lib",
            "/lib",
        ];
        folders
            .iter()
            .find_map(|folder| Path::new(folder).join(self.file).canonicalize().ok())
    }
}
