//! The kernel's own clock, from the library that the kernel maps into every process (vDSO).
//!
//! The C library's `clock_gettime` will not do. Another library may take that name: it may make the
//! time stand still or jump (libfaketime), it may allocate, and it may need thread-local storage,
//! which the scavenger does not have.

use super::linux::{at, raw};
use crate::base::sync::Ordering::Relaxed;
use crate::base::sync::plain::AtomicUsize;
use core::ffi::{CStr, c_int};

type ClockGettime = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> c_int;

const NAMES: [&CStr; 2] = [c"__vdso_clock_gettime", c"__kernel_clock_gettime"];

/// The address of the function, or `UNKNOWN` or `NONE`.
#[unsafe(link_section = ".data.hakmem")]
static FUNCTION: AtomicUsize = AtomicUsize::new(UNKNOWN);
const UNKNOWN: usize = 0;
/// The process has no such function, as under valgrind.
const NONE: usize = 1;

/// The time of a clock that cannot fail: one of the monotonic ones.
pub(super) fn clock(id: libc::clockid_t) -> libc::timespec {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let function = match FUNCTION.load(Relaxed) {
        UNKNOWN => look_up(),
        known => known,
    };
    if function != NONE {
        // SAFETY: `find` took the address from the kernel's image, which stays mapped. The function
        // of that name has this type on every architecture. It writes one timespec.
        let failed = unsafe {
            let function = core::mem::transmute::<*const u8, ClockGettime>(at(function));
            function(id, &raw mut time)
        };
        if failed == 0 {
            return time;
        }
    }
    raw(libc::SYS_clock_gettime, [id as usize, (&raw mut time).expose_provenance(), 0, 0, 0, 0]);
    time
}

#[cold]
fn look_up() -> usize {
    // SAFETY: any key may be asked for. The answer comes from the auxiliary vector, which stays.
    // errno is a variable of the thread. Without a vDSO libc sets it.
    let image = unsafe {
        let errno = *libc::__errno_location();
        let image = libc::getauxval(libc::AT_SYSINFO_EHDR) as usize;
        *libc::__errno_location() = errno;
        image
    };
    // SAFETY: the kernel says that its image lies there. It is a whole ELF file, and stays mapped.
    let function = if image == 0 { None } else { unsafe { find(image) } };
    let function = function.unwrap_or(NONE);
    FUNCTION.store(function, Relaxed);
    function
}

/// An entry of the dynamic section.
#[repr(C)]
struct Dynamic {
    tag: u64,
    value: u64,
}

const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;

/// Finds the function among the image's dynamic symbols. Only its hash table has their number, and
/// there are two kinds of hash tables. But in every such image the names follow the symbols. So the
/// symbols end where the names begin.
///
/// # Safety
/// `image` is the address of an ELF image that the kernel made for this machine. It is mapped
/// whole, and stays mapped.
unsafe fn find(image: usize) -> Option<usize> {
    // SAFETY: the caller says that the image is the kernel's own and mapped whole. So all offsets
    // and counts in it stay within it, its dynamic section ends with a 0, and its names with a NUL.
    unsafe {
        let header = &*at(image).cast::<libc::Elf64_Ehdr>();
        let programs = at(image + header.e_phoff as usize).cast::<libc::Elf64_Phdr>();
        let programs = core::slice::from_raw_parts(programs, header.e_phnum.into());
        let load = programs.iter().find(|p| p.p_type == libc::PT_LOAD)?;
        let dynamic = programs.iter().find(|p| p.p_type == libc::PT_DYNAMIC)?;
        // The distance from the addresses in the image to those in the process.
        let shift = image.wrapping_add(load.p_offset as usize).wrapping_sub(load.p_vaddr as usize);
        let (mut symbols, mut names) = (0, 0);
        let mut entry = at(image + dynamic.p_offset as usize).cast::<Dynamic>();
        while (*entry).tag != 0 {
            let address = shift.wrapping_add((*entry).value as usize);
            match (*entry).tag {
                DT_STRTAB => names = address,
                DT_SYMTAB => symbols = address,
                _ => {}
            }
            entry = entry.add(1);
        }
        if symbols == 0 || names <= symbols {
            return None;
        }
        let count = (names - symbols) / size_of::<libc::Elf64_Sym>();
        let symbols = core::slice::from_raw_parts(at(symbols).cast::<libc::Elf64_Sym>(), count);
        let named = |s: &&libc::Elf64_Sym| {
            let name = CStr::from_ptr(at(names + s.st_name as usize).cast());
            s.st_shndx != 0 && NAMES.contains(&name)
        };
        let symbol = symbols.iter().find(named)?;
        Some(shift.wrapping_add(symbol.st_value as usize))
    }
}
