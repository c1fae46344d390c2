//! Which loaded object an address belongs to, found without locks and without allocating.

use crate::base::sync::Ordering::{Acquire, Relaxed};
use crate::base::sync::plain::AtomicUsize;
use core::ffi::{c_int, c_void};

/// What is known of an object.
#[derive(Debug, Clone, Copy)]
pub struct Object {
    /// Where it begins and ends in memory.
    pub start: usize,
    /// See `start`.
    pub end: usize,
    /// Where its unwind tables are.
    pub tables: Tables,
}

/// The unwind tables of an object.
#[derive(Debug, Clone, Copy)]
pub enum Tables {
    /// There is an index of them, `.eh_frame_hdr`.
    Index(usize),
    /// They must be searched: where they begin, and how many bytes they are.
    Frames(usize, usize),
}

/// `struct dl_find_object` of glibc 2.35, on x86-64 and others without a base for their tables.
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

/// `_dl_find_object`, if the C library has it: by its address, as older ones do not.
static FIND: AtomicUsize = AtomicUsize::new(0);

/// To be called before the first [`object_of`]; may allocate.
pub fn find_objects() {
    if cfg!(miri) {
        return; // It has no objects.
    }
    // SAFETY: a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()) };
    FIND.store(found.expose_provenance(), Relaxed);
}

/// A program's start and end, its index, its tables and their length, where no loader knows of them; the start is written last.
static PROGRAM: [AtomicUsize; 5] = [const { AtomicUsize::new(0) }; 5];

/// Where no loader can be asked, and the program is all there is, this looks for its tables. After [`find_objects`].
pub fn find_program() {
    if FIND.load(Relaxed) != 0 || PROGRAM[0].load(Relaxed) != 0 {
        return;
    }
    #[cfg(not(miri))]
    if let Some(it) = super::tables::Program::find() {
        use crate::base::sync::Ordering::Release;
        for (place, value) in PROGRAM.iter().zip([it.start, it.end, it.index, it.frames, it.len]).rev() {
            place.store(value, Release);
        }
    }
}

fn program_of(pc: usize) -> Option<Object> {
    let start = PROGRAM[0].load(Acquire);
    let [end, index, frames, len] = [1, 2, 3, 4].map(|i: usize| PROGRAM[i].load(Relaxed));
    let tables = if index != 0 { Tables::Index(index) } else { Tables::Frames(frames, len) };
    (start != 0 && (start..end).contains(&pc)).then_some(Object { start, end, tables })
}

/// An address in the loader, which has the function that finds objects. None: it is not known.
pub fn loader() -> Option<usize> {
    let find = FIND.load(Relaxed);
    (find != 0).then_some(find)
}

/// The object that the code or the data at `pc` belongs to. None: to none that has tables, or they cannot be found here.
pub fn object_of(pc: usize) -> Option<Object> {
    let find = FIND.load(Relaxed);
    if find == 0 {
        return program_of(pc);
    }
    // SAFETY: only `find_objects` stores there, and it stores such a function.
    let find: Find = unsafe { core::mem::transmute(core::ptr::with_exposed_provenance::<c_void>(find)) };
    let mut found = Found::default();
    // SAFETY: any address may be asked about; the result is filled in as glibc declares it.
    let failed = unsafe { find(core::ptr::without_provenance(pc), &mut found) };
    let tables = Tables::Index(found.table);
    (failed == 0 && found.table != 0).then_some(Object { start: found.start, end: found.end, tables })
}
