//! The peers that come from crates of their own as they are: one instance of each, and its version.

#[cfg(feature = "mimalloc")]
impl crate::heap::Subject for mimalloc::MiMalloc {
    #[inline(always)]
    fn subject() -> &'static Self {
        static SUBJECT: mimalloc::MiMalloc = mimalloc::MiMalloc;
        &SUBJECT
    }
}

#[cfg(feature = "snmalloc")]
impl crate::heap::Subject for snmalloc_rs::SnMalloc {
    #[inline(always)]
    fn subject() -> &'static Self {
        static SUBJECT: snmalloc_rs::SnMalloc = snmalloc_rs::SnMalloc::new();
        &SUBJECT
    }
}

#[cfg(feature = "jemalloc")]
impl crate::heap::Subject for tikv_jemallocator::Jemalloc {
    #[inline(always)]
    fn subject() -> &'static Self {
        static SUBJECT: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
        &SUBJECT
    }
}

/// What the linked C library says of itself, so that a crate that builds another major version
/// cannot go unnoticed.
#[cfg(feature = "mimalloc")]
pub fn mimalloc_version() -> String {
    // SAFETY: takes nothing and returns a constant.
    let v = unsafe { libmimalloc_sys::mi_version() };
    format!(
        "{}.{}.{} (crate {})",
        v / 10_000,
        v / 100 % 100,
        v % 100,
        env!("MIMALLOC_CRATE_VERSION")
    )
}

/// That of the crate: the library cannot tell.
#[cfg(feature = "snmalloc")]
pub fn snmalloc_version() -> String {
    format!("crate {}", env!("SNMALLOC_CRATE_VERSION"))
}

/// What the linked library says, without the hash of its commit.
#[cfg(feature = "jemalloc")]
pub fn jemalloc_version() -> String {
    let mut version: *const libc::c_char = std::ptr::null();
    let mut size = size_of_val(&version);
    // SAFETY: "version" is read as a pointer to a static string; `version` has room for it, and
    // `size` says so.
    let failed = unsafe {
        tikv_jemalloc_sys::mallctl(
            c"version".as_ptr(),
            (&raw mut version).cast(),
            &raw mut size,
            std::ptr::null_mut(),
            0,
        )
    };
    let crate_version = env!("JEMALLOC_CRATE_VERSION");
    if failed != 0 || version.is_null() {
        return format!("crate {crate_version}");
    }
    // SAFETY: jemalloc gave a static NUL-terminated string.
    let text = unsafe { std::ffi::CStr::from_ptr(version) }.to_string_lossy();
    let number = text.split('-').next().unwrap_or_default();
    format!("{number} (crate {crate_version})")
}
