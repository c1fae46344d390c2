//! Other allocators as shared libraries: as Debian has them in packages, and the newest ones, as
//! `ci/peers/build` makes them of the sources in crates.

use crate::executables;
use std::env;
use std::path::{Path, PathBuf};

/// One of them.
#[derive(Debug, Clone, Copy)]
pub struct Packaged {
    /// What it is called beside programs.
    pub name: &'static str,
    /// Its package, or what it is like one. Beside built-in allocators of other versions it goes by
    /// this name.
    pub package: &'static str,
    /// The file name of its library.
    pub file: &'static str,
    /// `ci/peers/build` makes it; Debian has no package of it.
    pub built_here: bool,
}

/// All of them.
pub const ALL: [Packaged; 7] = [
    Packaged {
        name: "mimalloc3",
        package: "libmimalloc3",
        file: "libmimalloc3.so",
        built_here: true,
    },
    Packaged {
        name: "snmalloc",
        package: "libsnmalloc",
        file: "libsnmalloc.so",
        built_here: true,
    },
    Packaged {
        name: "rpmalloc",
        package: "librpmalloc",
        file: "librpmalloc.so",
        built_here: true,
    },
    Packaged {
        name: "rusty_alloc",
        package: "librusty_alloc",
        file: "librusty_alloc.so",
        built_here: true,
    },
    Packaged {
        name: "jemalloc",
        package: "libjemalloc2",
        file: "libjemalloc.so.2",
        built_here: false,
    },
    Packaged {
        name: "tcmalloc",
        package: "libtcmalloc-minimal4",
        file: "libtcmalloc_minimal.so.4",
        built_here: false,
    },
    Packaged {
        name: "mimalloc2",
        package: "libmimalloc2.0",
        file: "libmimalloc.so.2",
        built_here: false,
    },
];

impl Packaged {
    /// Its library, if it is in `target/peers` or in one of the loader's usual folders; canonical.
    pub fn library(&self) -> Option<PathBuf> {
        let multiarch = format!("/usr/lib/{}-linux-gnu", env::consts::ARCH);
        let built = executables::folder().map(|here| here.join("../peers"));
        let built = built.unwrap_or_default();
        let folders = [
            built.to_str().unwrap_or_default(),
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
