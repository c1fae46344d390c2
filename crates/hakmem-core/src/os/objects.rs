//! Which loaded object (program or library) an address belongs to. The search takes no lock and
//! does not allocate.
//!
//! glibc's `_dl_find_object` answers. Where glibc is older, or the program is linked statically,
//! the program is the only object that this module knows (`tables`).

use crate::base::sync::Ordering::{Acquire, Relaxed};
use crate::base::sync::plain::AtomicUsize;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::with_exposed_provenance;

/// A loaded object.
#[derive(Debug, Clone, Copy)]
pub struct Object {
    /// The address of its first byte.
    pub start: usize,
    /// The address after its last byte.
    pub end: usize,
    /// Its unwind tables.
    pub tables: Tables,
}

/// The unwind tables of an object. If the parts of an object do not lie side by side, the loader
/// takes each for an object, and the tables are in another one than the code.
#[derive(Debug, Clone, Copy)]
pub enum Tables {
    /// They have an index, `.eh_frame_hdr`, at the address `at`. Both lie in this range.
    Index { at: usize, start: usize, end: usize },
    /// They have no index and must be searched: their address and their bytes.
    Frames(usize, usize),
}

/// `struct dl_find_object` of glibc 2.35, on machines whose tables have no base, such as x86-64.
#[repr(C)]
#[derive(Default)]
struct Found {
    flags: u64,
    start: usize,
    end: usize,
    link_map: usize,
    table: usize,
    reserved: [u64; 7],
}

type Find = unsafe extern "C" fn(*const c_void, *mut Found) -> c_int;

/// The address of `_dl_find_object`; 0: the C library has none, or was not asked.
#[unsafe(link_section = ".data.hakmem")]
static FIND: AtomicUsize = AtomicUsize::new(0);

/// Looks up `_dl_find_object`. To be called before the first [`object_of`]. May allocate.
pub fn find_objects() {
    if cfg!(miri) {
        return; // Miri has no loaded objects.
    }
    // SAFETY: the name is a C string, and the handle is the default one.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()) };
    FIND.store(found.expose_provenance(), Relaxed);
}

/// [`find_objects`] for a caller in the middle of an allocation: it neither allocates nor waits for
/// a lock of the loader. It finds nothing if the program was started by a call of the loader.
#[cold]
pub fn find_objects_at_once() {
    #[cfg(not(miri))]
    if FIND.load(Relaxed) == 0 {
        // SAFETY: any key may be asked for, and errno is a variable of the thread. The kernel says
        // where it mapped the loader, which stays mapped.
        let found = unsafe {
            let errno = *libc::__errno_location();
            let loader = libc::getauxval(libc::AT_BASE) as usize;
            *libc::__errno_location() = errno;
            if loader == 0 { None } else { in_c_library(loader) }
        };
        FIND.store(found.unwrap_or(0), Relaxed);
    }
}

/// Finds the function in the C library, through the list of objects that the loader keeps for
/// debuggers.
///
/// # Safety
/// `loader` is the address of the loader's image.
#[cfg(not(miri))]
unsafe fn in_c_library(loader: usize) -> Option<usize> {
    /// Objects that are looked at: the C library is among the first.
    const OBJECTS: usize = 256;
    // SAFETY: by the caller's promise. `_r_debug` has the type that the C library's header gives
    // it. The loader puts objects at the end of the list. The C library and those before it are
    // loaded when the program starts, and stay. So the walk meets no object that goes.
    unsafe {
        let debug = super::image::find(loader, &[c"_r_debug"])?;
        let mut next = (*with_exposed_provenance::<Debug>(debug)).first;
        for _ in 0..OBJECTS {
            let map = next.as_ref()?;
            let name = if map.name.is_null() { c"" } else { CStr::from_ptr(map.name) };
            if name.to_bytes().ends_with(b"/libc.so.6") {
                return super::image::find(map.moved_by, &[c"_dl_find_object"]);
            }
            next = map.next;
        }
    }
    None
}

/// Of a program without a loader: its start and end, its index, its tables and their length. The
/// start is written last, with Release. So a thread that reads it with Acquire sees the others.
static PROGRAM: [AtomicUsize; 5] = [const { AtomicUsize::new(0) }; 5];

/// Finds the program's own tables if the loader cannot be asked. To be called after
/// [`find_objects`].
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn find_program() {
    if FIND.load(Relaxed) != 0 || PROGRAM[0].load(Relaxed) != 0 {
        return;
    }
    #[cfg(not(miri))]
    if let Some(it) = super::tables::Program::find() {
        use crate::base::sync::Ordering::Release;
        for (place, value) in
            PROGRAM.iter().zip([it.start, it.end, it.index, it.frames, it.len]).rev()
        {
            place.store(value, Release);
        }
    }
}

fn program_of(pc: usize) -> Option<Object> {
    let start = PROGRAM[0].load(Acquire);
    let [end, index, frames, len] = [1, 2, 3, 4].map(|i: usize| PROGRAM[i].load(Relaxed));
    let tables = if index != 0 {
        Tables::Index { at: index, start, end }
    } else {
        Tables::Frames(frames, len)
    };
    (start != 0 && (start..end).contains(&pc)).then_some(Object { start, end, tables })
}

/// An address in the loader: that of `_dl_find_object`. None: unknown.
pub fn loader() -> Option<usize> {
    let find = FIND.load(Relaxed);
    (find != 0).then_some(find)
}

/// The beginning of glibc's `struct link_map`, which its header makes public.
#[repr(C)]
struct LinkMap {
    moved_by: usize,
    name: *const c_char,
    dynamic: usize,
    next: *const LinkMap,
}

/// The beginning of glibc's `struct r_debug`, which its header makes public.
#[repr(C)]
struct Debug {
    version: c_int,
    first: *const LinkMap,
}

/// The name of the file whose code or data lies at `pc`, and the address in that file as tools
/// count it. For reports: a library that another thread unloads meanwhile may give nonsense. None:
/// unknown.
pub fn place_of(pc: usize) -> Option<(&'static [u8], usize)> {
    let found = find(pc)?;
    // SAFETY: the loader keeps the map and its name as long as the object is loaded. The kernel
    // keeps the name of the program behind its stack.
    unsafe {
        let map = with_exposed_provenance::<LinkMap>(found.link_map).as_ref()?;
        let mut name = CStr::from_ptr(map.name).to_bytes();
        if name.is_empty() {
            name = program();
        }
        Some((name, pc - map.moved_by))
    }
}

/// The name by which the system was told to execute the program: a path, or a part of one. It
/// needs no system call.
pub fn program() -> &'static [u8] {
    // SAFETY: any key may be asked for. The answer comes from the auxiliary vector, which stays: 0,
    // or the address of a C string, which the kernel keeps behind the program's stack.
    unsafe {
        let name = with_exposed_provenance::<c_char>(libc::getauxval(libc::AT_EXECFN) as usize);
        if name.is_null() { b"" } else { CStr::from_ptr(name).to_bytes() }
    }
}

/// Asks the C library. None: it cannot be asked, or no object is there.
fn find(pc: usize) -> Option<Found> {
    let find = FIND.load(Relaxed);
    if find == 0 {
        return None;
    }
    // SAFETY: only `find_objects` stores there. It stores the address of glibc's function of that
    // name, which has this type.
    let find: Find = unsafe { core::mem::transmute(with_exposed_provenance::<c_void>(find)) };
    let mut found = Found::default();
    // SAFETY: the function takes any address. `found` is writable, and laid out as glibc declares
    // it.
    let failed = unsafe { find(core::ptr::without_provenance(pc), &mut found) };
    (failed == 0).then_some(found)
}

/// The object that the code or data at `pc` belongs to. None: no known object with tables has it.
pub fn object_of(pc: usize) -> Option<Object> {
    if FIND.load(Relaxed) == 0 {
        return program_of(pc);
    }
    let Found { start, end, table: at, .. } = find(pc).filter(|found| found.table != 0)?;
    let tables = if (start..end).contains(&at) {
        (start, end)
    } else {
        find(at).map(|other| (other.start, other.end))?
    };
    Some(Object { start, end, tables: Tables::Index { at, start: tables.0, end: tables.1 } })
}

// Other C libraries have no such function.
#[cfg(all(test, target_env = "gnu", not(any(loom, miri, shuttle))))]
mod tests {
    use super::*;
    use crate::testing::in_child;

    /// For the test's own program, which the loader loads.
    #[test]
    fn both_ways_find_the_same() {
        in_child(|| {
            find_objects();
            let found = FIND.swap(0, Relaxed);
            assert_ne!(found, 0);
            find_objects_at_once();
            assert_eq!(FIND.load(Relaxed), found);
        });
    }
}
