//! The allocators that can be compared.

use crate::heap::Subject;
use std::alloc::System;

/// One allocator of the comparison.
#[derive(Debug)]
pub struct Contestant {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its version, asked of the allocator itself where it can tell.
    pub version: fn() -> String,
}

/// All of them, in the order of the default comparison.
pub const ALL: &[Contestant] = &[
    Contestant {
        name: "hakmem",
        version: hakmem_version,
    },
    #[cfg(feature = "mimalloc")]
    Contestant {
        name: "mimalloc",
        version: crate::peers::mimalloc_version,
    },
    #[cfg(feature = "snmalloc")]
    Contestant {
        name: "snmalloc",
        version: crate::peers::snmalloc_version,
    },
    #[cfg(feature = "jemalloc")]
    Contestant {
        name: "jemalloc",
        version: crate::peers::jemalloc_version,
    },
    #[cfg(feature = "rpmalloc")]
    Contestant {
        name: "rpmalloc",
        version: crate::rpmalloc::version,
    },
    #[cfg(feature = "rusty_alloc")]
    Contestant {
        name: "rusty_alloc",
        version: crate::rusty_alloc::version,
    },
    Contestant {
        name: "system",
        version: system_version,
    },
];

/// The allocator called `name`.
pub fn find(name: &str) -> Option<&'static Contestant> {
    ALL.iter().find(|c| c.name == name)
}

impl Subject for hakmem_core::Hakmem {
    #[inline(always)]
    fn subject() -> &'static Self {
        static SUBJECT: hakmem_core::Hakmem = hakmem_core::Hakmem::new();
        &SUBJECT
    }
}

impl Subject for System {
    #[inline(always)]
    fn subject() -> &'static Self {
        static SUBJECT: System = System;
        &SUBJECT
    }
}

fn hakmem_version() -> String {
    let version = env!("CORE_CRATE_VERSION");
    // No record may be taken for one of hakmem as it is.
    if cfg!(feature = "bench-fast") {
        return format!("{version} bench-fast");
    }
    version.to_owned()
}

#[cfg(target_env = "gnu")]
fn system_version() -> String {
    // SAFETY: returns a static NUL-terminated string.
    let v = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    format!("glibc {}", v.to_string_lossy())
}

#[cfg(not(target_env = "gnu"))]
fn system_version() -> String {
    "unknown".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for c in ALL {
            assert_eq!(ALL.iter().filter(|d| d.name == c.name).count(), 1);
            assert!(find(c.name).is_some());
        }
        assert!(find("nothing").is_none());
    }

    #[test]
    fn every_version_is_known() {
        for c in ALL {
            let version = (c.version)();
            assert!(
                version.contains(|digit: char| digit.is_ascii_digit()),
                "{}: {version}",
                c.name
            );
        }
    }
}
