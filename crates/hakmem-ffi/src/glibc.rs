//! The GNU extras: tuning, figures, and the `__libc_` aliases. The C contract (see `stdlib`) holds here too.

use crate::{aligned, out, report, stdlib};
use core::ffi::{c_int, c_void};
use core::fmt::Write;
use hakmem_core::{c, stats};

/// Accepts glibc's options, from M_ARENA_MAX (-8) to M_TRIM_THRESHOLD (-1) and M_MXFAST (1) to M_KEEP (4), and does
/// nothing: hakmem tunes itself. Any other option: 0.
#[unsafe(no_mangle)]
pub extern "C" fn mallopt(option: c_int, _value: c_int) -> c_int {
    c_int::from(matches!(option, -8..=-1 | 1..=4))
}

/// Gives all free memory back; 1 if there was any. The padding that glibc would keep is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_trim(_padding: usize) -> c_int {
    c_int::from(c::trim())
}

/// The figures in glibc's terms: `arena` is what is committed, `uordblks` live, `fordblks` the rest, `keepcost` what
/// malloc_trim could give back.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo2() -> libc::mallinfo2 {
    let s = stats::process();
    let rest = s.committed_bytes.saturating_sub(s.live_bytes);
    libc::mallinfo2 {
        arena: s.committed_bytes as usize,
        ordblks: 0,
        smblks: 0,
        hblks: 0,
        hblkhd: 0,
        usmblks: s.peak_live_bytes as usize,
        fsmblks: 0,
        uordblks: s.live_bytes as usize,
        fordblks: rest as usize,
        keepcost: s.dirty_bytes as usize,
    }
}

/// As mallinfo2; a figure that does not fit an int is INT_MAX.
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

/// Writes the figures as XML, with the totals under glibc's names; `options` must be 0.
///
/// # Safety
/// `stream` is an open stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_info(options: c_int, stream: *mut libc::FILE) -> c_int {
    if options != 0 || stream.is_null() {
        return libc::EINVAL;
    }
    let s = stats::process();
    let free = s.committed_bytes.saturating_sub(s.live_bytes);
    let mut xml = report::Buffer::new();
    // Writing into a Text never fails.
    let _ = write!(
        xml,
        concat!(
            "<malloc version=\"1\">\n",
            "<total type=\"rest\" count=\"0\" size=\"{free}\"/>\n",
            "<system type=\"current\" size=\"{committed}\"/>\n",
            "<system type=\"max\" size=\"{reserved}\"/>\n",
            "<aspace type=\"total\" size=\"{reserved}\"/>\n",
            "<aspace type=\"mprotect\" size=\"{committed}\"/>\n",
            "<hakmem version=\"{version}\" allocations=\"{allocations}\" frees=\"{frees}\" live=\"{live}\" ",
            "peak_live=\"{peak}\" dirty=\"{dirty}\" purged=\"{purged}\" foreign_frees=\"{foreign}\" ",
            "heaps=\"{heaps}\"/>\n",
            "</malloc>\n"
        ),
        free = free,
        committed = s.committed_bytes,
        reserved = s.reserved_bytes,
        version = env!("CARGO_PKG_VERSION"),
        allocations = s.allocations,
        frees = s.frees,
        live = s.live_bytes,
        peak = s.peak_live_bytes,
        dirty = s.dirty_bytes,
        purged = s.purged_bytes,
        foreign = s.foreign_frees,
        heaps = s.heaps,
    );
    let bytes = xml.as_bytes();
    // SAFETY: the bytes are those of a slice; the stream is the caller's.
    let written = unsafe { libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), stream) };
    if written == bytes.len() { 0 } else { -1 }
}

/// The report for people, on stderr.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_stats() {
    let lines = report::human_lines(&stats::process(), &report::Usage::now());
    out::write_once(libc::STDERR_FILENO, lines.as_bytes());
}

/// Other names of the same functions: `alias(arguments) -> result = function;`.
macro_rules! aliases {
    ($($alias:ident($($arg:ident: $type:ty),*) $(-> $result:ty)? = $function:path;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $alias($($arg: $type),*) $(-> $result)? {
            // SAFETY: the alias has the contract of the function.
            unsafe { $function($($arg),*) }
        }
    )*};
}

aliases! {
    __libc_malloc(size: usize) -> *mut c_void = stdlib::malloc;
    __libc_calloc(count: usize, size: usize) -> *mut c_void = stdlib::calloc;
    __libc_realloc(p: *mut c_void, size: usize) -> *mut c_void = stdlib::realloc;
    __libc_reallocarray(p: *mut c_void, count: usize, size: usize) -> *mut c_void = stdlib::reallocarray;
    __libc_free(p: *mut c_void) = stdlib::free;
    __libc_cfree(p: *mut c_void) = stdlib::cfree;
    __libc_memalign(align: usize, size: usize) -> *mut c_void = aligned::memalign;
    __libc_valloc(size: usize) -> *mut c_void = aligned::valloc;
    __libc_pvalloc(size: usize) -> *mut c_void = aligned::pvalloc;
    __posix_memalign(out: *mut *mut c_void, align: usize, size: usize) -> c_int = aligned::posix_memalign;
}
