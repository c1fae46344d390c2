//! The GNU extras: tuning, figures, and the `__libc_` aliases.

use crate::{aligned, cancel, stdlib};
use core::ffi::{c_int, c_void};
use hakmem_core::report::{Event, Format, make, out};
use hakmem_core::{c, options};
#[cfg(target_env = "gnu")]
use hakmem_core::{report::Totals, stats::Snapshot};

/// Accepts glibc's options: M_ARENA_MAX (-8) to M_TRIM_THRESHOLD (-1), and M_MXFAST (1) to M_KEEP
/// (4). Returns 0 for any other. M_TRIM_THRESHOLD, the free bytes that may stay, sets
/// `HUGE_CACHE_MIB` and `SURPLUS_MIB`, unless the environment did. The others have no effect.
#[unsafe(no_mangle)]
pub extern "C" fn mallopt(option: c_int, value: c_int) -> c_int {
    const M_TRIM_THRESHOLD: c_int = -1;
    if option == M_TRIM_THRESHOLD {
        // A negative value means no limit.
        let mib = u32::try_from(value).map_or(1 << 20, |bytes| bytes.div_ceil(1 << 20));
        for name in ["HUGE_CACHE_MIB", "SURPLUS_MIB"] {
            // Their range has every number of MiB, so this cannot fail.
            let _ = options::suggest(name, mib);
        }
    }
    c_int::from(matches!(option, -8..=-1 | 1..=4))
}

/// Gives free memory back, as `hakmem_trim`. Returns 1 if there was any. Ignores the padding that
/// glibc would keep.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_trim(_padding: usize) -> c_int {
    c_int::from(c::trim())
}

/// The figures in glibc's terms. Other C libraries do not declare it.
#[cfg(target_env = "gnu")]
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo2() -> libc::mallinfo2 {
    let snapshot = Snapshot::take();
    let totals = Totals::of(&snapshot, &snapshot.process());
    let size = |bytes: u64| bytes as usize;
    libc::mallinfo2 {
        arena: size(totals.committed),
        ordblks: size(totals.free_blocks),
        smblks: 0,
        hblks: size(totals.huge_blocks),
        hblkhd: size(totals.huge),
        usmblks: size(totals.peak),
        fsmblks: 0,
        uordblks: size(totals.live),
        fordblks: size(totals.free()),
        keepcost: size(totals.dirty),
    }
}

/// The figures of mallinfo2. A figure that does not fit an int is INT_MAX.
#[cfg(target_env = "gnu")]
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo() -> libc::mallinfo {
    let info = mallinfo2();
    let int = |value: usize| c_int::try_from(value).unwrap_or(c_int::MAX);
    libc::mallinfo {
        arena: int(info.arena),
        ordblks: int(info.ordblks),
        smblks: int(info.smblks),
        hblks: int(info.hblks),
        hblkhd: int(info.hblkhd),
        usmblks: int(info.usmblks),
        fsmblks: int(info.fsmblks),
        uordblks: int(info.uordblks),
        fordblks: int(info.fordblks),
        keepcost: int(info.keepcost),
    }
}

/// Writes the figures as XML, with the totals under glibc's names. `options` must be 0.
///
/// # Safety
/// `stream` is NULL or an open stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_info(options: c_int, stream: *mut libc::FILE) -> c_int {
    if options != 0 || stream.is_null() {
        return libc::EINVAL;
    }
    let written = cancel::held_off(|| {
        make::with_xml(|bytes| {
            // SAFETY: pointer and length are those of a slice. The stream is not NULL, so the
            // caller says that it is open.
            let written = unsafe { libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), stream) };
            written == bytes.len()
        })
    });
    match written {
        Some(true) => 0,
        Some(false) => -1,
        None => libc::ENOMEM,
    }
}

/// Writes the report as lines of text to stderr.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_stats() {
    make::with(Format::Human, Event::Call, |lines| {
        out::write_all(libc::STDERR_FILENO, lines)
    });
}

/// Other names of the same functions: `alias(arguments) -> result = function;`.
macro_rules! aliases {
    ($($alias:ident($($arg:ident: $type:ty),*) $(-> $result:ty)? = $function:path;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $alias($($arg: $type),*) $(-> $result)? {
            // SAFETY: the alias has the same parameters and contract as the function, and its
            // caller keeps that contract.
            unsafe { $function($($arg),*) }
        }
    )*};
}

aliases! {
    __libc_malloc(size: usize) -> *mut c_void = stdlib::malloc;
    __libc_calloc(count: usize, size: usize) -> *mut c_void = stdlib::calloc;
    __libc_realloc(p: *mut c_void, size: usize) -> *mut c_void = stdlib::own_realloc;
    __libc_reallocarray(p: *mut c_void, count: usize, size: usize) -> *mut c_void = stdlib::own_reallocarray;
    __libc_free(p: *mut c_void) = stdlib::cfree;
    __libc_cfree(p: *mut c_void) = stdlib::cfree;
    __libc_memalign(align: usize, size: usize) -> *mut c_void = aligned::memalign;
    __libc_valloc(size: usize) -> *mut c_void = aligned::valloc;
    __libc_pvalloc(size: usize) -> *mut c_void = aligned::pvalloc;
    __posix_memalign(out: *mut *mut c_void, align: usize, size: usize) -> c_int = aligned::posix_memalign;
}
