//! hakmem's own C functions. cbindgen makes `hakmem.h` from this file.

use crate::errno;
use core::ffi::{CStr, c_char, c_int};
use core::fmt::Write;
use hakmem_core::c;
use hakmem_core::options;
use hakmem_core::profile;
use hakmem_core::report::out::{self, Text};
use hakmem_core::report::{self, Format};
use hakmem_core::stats::{self, CLASSES, Snapshot};

/// Figures of the process.
#[repr(C)]
#[allow(non_camel_case_types, reason = "the name is C's")]
pub struct hakmem_stats {
    /// Blocks allocated so far. Exact if `running_heaps` is 0.
    pub allocations: u64,
    /// Blocks freed so far. Exact if `running_heaps` is 0.
    pub frees: u64,
    /// Bytes of live blocks, and of blocks that a thread freed for another heap and that are on
    /// their way. hakmem_trim delivers those for ended threads and for the calling one. Exact but
    /// for them if `running_heaps` is 0.
    pub live_bytes: u64,
    /// At least the highest value that `live_bytes` ever had.
    pub peak_live_bytes_upper_bound: u64,
    /// Bytes of reserved address space.
    pub reserved_bytes: u64,
    /// Bytes of it that are accessible.
    pub committed_bytes: u64,
    /// Free bytes that hakmem has not given back to the system yet.
    pub dirty_bytes: u64,
    /// Bytes given back to the system so far.
    pub purged_bytes: u64,
    /// Calls of free with a foreign pointer: one that is not from hakmem.
    pub foreign_frees: u64,
    /// Thread heaps made so far.
    pub heaps: u64,
    /// Frees by a thread that does not hold the heap of the block's page. A block that stays with
    /// such a thread is none until the thread sends it.
    pub remote_frees: u64,
    /// Allocations up to 64 KiB that found the free list empty.
    pub refills: u64,
    /// Heaps of other running threads: their lists are not known.
    pub running_heaps: u64,
    /// Blocks of `remote_frees` that have not reached the owner of their page. They count in
    /// `live_bytes`.
    pub in_flight: u64,
}

/// The hard limit of the process, HARD_LIMIT_MIB, and what it has refused.
#[repr(C)]
#[allow(non_camel_case_types, reason = "the name is C's")]
pub struct hakmem_limit {
    /// Bytes that count: memory for blocks that may be resident, in use or free.
    pub held: u64,
    /// The limit in bytes. 0: there is none.
    pub hard: u64,
    /// Requests that failed because of it.
    pub refused: u64,
}

/// Figures of a size class: blocks of one size, in all heaps.
#[repr(C)]
#[allow(non_camel_case_types, reason = "the name is C's")]
pub struct hakmem_class_stats {
    /// Bytes of a block.
    pub size: u64,
    /// Blocks allocated.
    pub allocations: u64,
    /// Blocks freed that have reached the owner of their page.
    pub frees: u64,
    /// Of these, blocks that another thread freed.
    pub remote_frees: u64,
    /// Allocations that found the free list empty.
    pub refills: u64,
    /// Pages now.
    pub pages: u64,
    /// Bytes of these pages.
    pub page_bytes: u64,
    /// Bytes of live blocks.
    pub live_bytes: u64,
}

/// The version, such as "0.1.0". The string is static.
#[unsafe(no_mangle)]
pub extern "C" fn hakmem_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Takes the figures of the process. Allocates nothing.
///
/// # Safety
/// `out` is aligned and valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hakmem_stats(out: *mut hakmem_stats) {
    let snapshot = Snapshot::take();
    let s = snapshot.process();
    let figures = hakmem_stats {
        allocations: s.allocations,
        frees: s.frees,
        live_bytes: s.live_bytes,
        peak_live_bytes_upper_bound: s.peak_live_bytes_upper_bound,
        reserved_bytes: s.reserved_bytes,
        committed_bytes: s.committed_bytes,
        dirty_bytes: s.dirty_bytes,
        purged_bytes: s.purged_bytes,
        foreign_frees: s.foreign_frees,
        heaps: s.heaps,
        remote_frees: s.remote_frees,
        refills: s.refills,
        running_heaps: snapshot.running_heaps(),
        in_flight: s.in_flight,
    };
    // SAFETY: the caller says that `out` is aligned and valid for writing.
    unsafe { *out = figures };
}

/// Takes the figures of up to `room` size classes, smallest blocks first. Allocates nothing.
/// Returns the number of all size classes.
///
/// # Safety
/// `out` is aligned and valid for writing `room` of them, or NULL with a `room` of 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hakmem_class_stats(out: *mut hakmem_class_stats, room: usize) -> usize {
    if room == 0 {
        return CLASSES;
    }
    for (i, c) in Snapshot::take().classes().take(room).enumerate() {
        let figures = hakmem_class_stats {
            size: c.size,
            allocations: c.allocations,
            frees: c.frees,
            remote_frees: c.remote_frees,
            refills: c.refills(),
            pages: c.pages,
            page_bytes: c.page_bytes,
            live_bytes: c.live_bytes,
        };
        // SAFETY: `take(room)` keeps i below `room`, and the caller says that `out` is aligned and
        // valid for writing `room` of them.
        unsafe { out.add(i).write(figures) };
    }
    CLASSES
}

/// Writes a report to a file descriptor, as HAKMEM_STATS does at exit. `form` is "text", "json" or
/// "csv". Returns 0, or -1 if there is no such form, if there is no memory for the report, or if
/// not all of it could be written.
///
/// # Safety
/// `form` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hakmem_report(fd: c_int, form: *const c_char) -> c_int {
    // SAFETY: the caller says that `form` is a C string.
    let format = match unsafe { CStr::from_ptr(form) }.to_bytes() {
        b"text" => Format::Human,
        b"json" => Format::Json,
        b"csv" => Format::Csv,
        _ => return -1,
    };
    match report::write_to(fd, format) {
        Ok(()) => 0,
        Err(_) => -1,
    }
}

/// Sets an option while the program runs. Name and value are as in the environment, without
/// HAKMEM_: hakmem_set_option("DECAY_MS", "1000"). `hakmem options` lists the options. Returns 0.
/// Returns -1, sets errno to EINVAL and changes nothing if there is no such option, if the value is
/// not one of its values, or if hakmem reads the option only at the start. These are STATS,
/// STATS_SIGNAL, MAP, PROFILE, PROFILE_SIGNAL and ERRORS, and HARDENED in the hardened build.
///
/// # Safety
/// `name` and `value` are C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hakmem_set_option(name: *const c_char, value: *const c_char) -> c_int {
    // SAFETY: the caller says that both are C strings.
    let texts = unsafe {
        (
            CStr::from_ptr(name).to_str(),
            CStr::from_ptr(value).to_str(),
        )
    };
    if let (Ok(name), Ok(value)) = texts
        && options::set(name, value).is_ok()
    {
        return 0;
    }
    errno::set(libc::EINVAL);
    -1
}

/// Writes an option's value to `value`, at most `room` bytes with the NUL, in the form that
/// hakmem_set_option takes. Returns the length of the whole value without the NUL, as snprintf
/// does. Returns -1 and sets errno to EINVAL if there is no such option, or if it is STATS,
/// STATS_SIGNAL, MAP, PROFILE, PROFILE_SIGNAL or ERRORS, which hakmem reads only at the start.
///
/// # Safety
/// `name` is a C string. `value` is valid for writing `room` bytes, or NULL with a `room` of 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hakmem_get_option(
    name: *const c_char,
    value: *mut c_char,
    room: usize,
) -> c_int {
    // SAFETY: the caller says that `name` is a C string.
    let name = unsafe { CStr::from_ptr(name) }.to_str();
    let Some(now) = name.ok().and_then(options::get) else {
        errno::set(libc::EINVAL);
        return -1;
    };
    let mut text = Text::<1024>::new();
    let _ = write!(text, "{now}");
    let text = text.as_str().as_bytes();
    if let Some(most) = room.checked_sub(1) {
        let n = text.len().min(most);
        // SAFETY: the caller says that `value` is valid for writing `room` bytes. `n` is at most
        // room - 1, so the text and the NUL fit. The text is a local variable, apart from `value`.
        unsafe {
            value.copy_from_nonoverlapping(text.as_ptr().cast(), n);
            value.add(n).write(0);
        }
    }
    text.len() as c_int
}

/// Writes a map to a file descriptor: what each slot of the heap holds, as JSON, for `hakmem map`
/// to draw. Returns 0, or -1 if there is no memory for the map, or if not all of it could be
/// written.
#[unsafe(no_mangle)]
pub extern "C" fn hakmem_map(fd: c_int) -> c_int {
    match report::write_map_to(fd) {
        Ok(()) => 0,
        Err(_) => -1,
    }
}

/// Begins to sample allocations for the heap profile, one in `interval` bytes on average. An
/// `interval` of 0 stands for the option PROFILE_INTERVAL, which is 524288 bytes if nobody set it.
/// If the profile is on, it goes on with the new interval. Returns 0, or -1 if there is no such
/// interval, or if a fork has cut the profile short in this process. See HAKMEM_PROFILE.
#[unsafe(no_mangle)]
pub extern "C" fn hakmem_profile_start(interval: usize) -> c_int {
    let interval = match interval {
        0 => c::profile_interval(),
        n => n as u64,
    };
    if profile::start(interval) { 0 } else { -1 }
}

/// Takes no more samples. The profile still notices frees of the existing samples.
#[unsafe(no_mangle)]
pub extern "C" fn hakmem_profile_stop() {
    profile::stop();
}

/// Writes the heap profile to a file descriptor, in the form that `hakmem profile --file FILE` and
/// pprof read. Returns 0, or -1 if no profile was started, if there is no memory for it, if another
/// thread is in a fork that takes a tenth of a second, or if not all of it could be written.
#[unsafe(no_mangle)]
pub extern "C" fn hakmem_profile_dump(fd: c_int) -> c_int {
    match profile::dump(profile::Event::Call, |text| out::write_all(fd, text)) {
        Some(true) => 0,
        _ => -1,
    }
}

/// The memory of the process that hakmem manages, in bytes. allocated <= active <= resident <=
/// mapped.
#[repr(C)]
#[allow(non_camel_case_types, reason = "the name is C's")]
pub struct hakmem_gauges {
    /// Live blocks.
    pub allocated: u64,
    /// Slots and segments that pages, large blocks and huge blocks have.
    pub active: u64,
    /// What hakmem knows of the memory.
    pub metadata: u64,
    /// What may be in memory now, an upper bound: active, metadata, and free memory that was not
    /// given back yet.
    pub resident: u64,
    /// What is accessible.
    pub mapped: u64,
    /// Address space that is reserved and not accessible. It costs no memory.
    pub retained: u64,
}

/// Reads the gauges. Costs about as much as hakmem_stats, for the sake of `allocated`. Allocates
/// nothing.
///
/// # Safety
/// `out` is aligned and valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hakmem_gauges(out: *mut hakmem_gauges) {
    let now = stats::gauges();
    let gauges = hakmem_gauges {
        allocated: now.allocated,
        active: now.active,
        metadata: now.metadata,
        resident: now.resident,
        mapped: now.mapped,
        retained: now.retained,
    };
    // SAFETY: the caller says that `out` is aligned and valid for writing.
    unsafe { *out = gauges };
}

/// Reads the hard limit, what is held of it, and what it has refused. O(1), allocates nothing.
///
/// # Safety
/// `out` is aligned and valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hakmem_limit(out: *mut hakmem_limit) {
    let stats::Limit {
        held,
        hard,
        refused,
        ..
    } = stats::limit();
    // SAFETY: the caller says that `out` is aligned and valid for writing.
    unsafe {
        *out = hakmem_limit {
            held,
            hard: hard.unwrap_or(0),
            refused,
        }
    };
}

/// Sets what hakmem calls before an allocation fails with ENOMEM, because it would exceed
/// HARD_LIMIT_MIB or the system has no more memory; NULL for nothing. hakmem calls it on the
/// allocating thread, holds no lock then, and passes the bytes of the request, up to 65,536 those
/// of the block that it would get. The callback may free and allocate, but must use nothing that
/// the program may be changing at that moment; it must not leave by longjmp or an exception. If it
/// returns true, the allocation is tried once more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hakmem_set_limit_callback(
    callback: Option<extern "C" fn(size: usize) -> bool>,
) {
    // SAFETY: by this function's contract the callback uses nothing that the program may be
    // changing.
    unsafe { hakmem_core::set_limit_callback(callback) };
}

/// Gives free memory of the whole process back to the system now: what hakmem_trim gives, and what
/// is unused in the heaps of other threads, which it pauses for a moment. Under a filter for system
/// calls it pauses none. Returns the bytes.
#[unsafe(no_mangle)]
pub extern "C" fn hakmem_purge_all() -> usize {
    hakmem_core::purge_all()
}

/// Gives free memory back to the system now: what is free in the calling thread's heap, in the
/// heaps of ended threads, and in no heap. Returns 1 if there was any, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn hakmem_trim() -> c_int {
    c_int::from(c::trim())
}

/// Gives up what is free in the calling thread's heap: its free lists, its empty pages, and blocks
/// of other threads that it freed. For a thread that is about to sleep. The memory serves other
/// threads at once, and goes back to the system after the decay. Keeps errno.
#[unsafe(no_mangle)]
pub extern "C" fn hakmem_thread_idle() {
    c::thread_idle();
}
