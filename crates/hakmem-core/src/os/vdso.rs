//! The kernel's own clock, from the library that it maps into every process (vDSO).
//!
//! Not by the C library's name for it: that may be another library's, which makes the time stand still or jump (libfaketime),
//! allocates, or needs thread-local storage, which the scavenger does not have.

use super::linux::{at, raw};
use crate::base::sync::Ordering::Relaxed;
use crate::base::sync::plain::AtomicUsize;
use core::ffi::{CStr, c_int};

type ClockGettime = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> c_int;

const NAMES: [&CStr; 2] = [c"__vdso_clock_gettime", c"__kernel_clock_gettime"];

/// The address of the function, or one of these.
#[unsafe(link_section = ".data.hakmem")]
static FUNCTION: AtomicUsize = AtomicUsize::new(UNKNOWN);
const UNKNOWN: usize = 0;
/// There is none, as under valgrind.
const NONE: usize = 1;

/// What a clock says that cannot fail: one of the monotonic ones.
pub(super) fn clock(id: libc::clockid_t) -> libc::timespec {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let function = match FUNCTION.load(Relaxed) {
        UNKNOWN => look_up(),
        known => known,
    };
    if function != NONE {
        // SAFETY: the kernel's function of that name, of that type on every architecture; it writes one timespec.
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
    // SAFETY: reads the auxiliary vector that the kernel left in the process.
    let image = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } as usize;
    // SAFETY: the kernel's image, which stays.
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

/// Finds the function among the image's dynamic symbols. Their number stands nowhere but in hash tables, of either kind; the
/// names follow the symbols in every such image, so the symbols end where the names begin.
///
/// # Safety
/// `image` is the address of an ELF image of this machine's kind that is mapped whole, and stays.
unsafe fn find(image: usize) -> Option<usize> {
    // SAFETY: the image is mapped whole and is the kernel's own, so all offsets and counts in it
    // lie within it.
    unsafe {
        let header = &*at(image).cast::<libc::Elf64_Ehdr>();
        let programs = at(image + header.e_phoff as usize).cast::<libc::Elf64_Phdr>();
        let programs = core::slice::from_raw_parts(programs, header.e_phnum.into());
        let load = programs.iter().find(|p| p.p_type == libc::PT_LOAD)?;
        let dynamic = programs.iter().find(|p| p.p_type == libc::PT_DYNAMIC)?;
        // From the addresses in the image to those in the process.
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
