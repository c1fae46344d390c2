//! The unwind tables of a program that is linked statically. Such a program has no loader to ask.
//!
//! If the linker made an index of the tables, the program's headers lead to it (`PT_GNU_EH_FRAME`).
//! The kernel maps these headers. gcc asks for no index with `-static`. Then the headers of the
//! sections lead to the tables. They are not mapped, so they are read from the program's file.

use super::linux::syscall;
use super::start::headers;
use core::ffi::CStr;
use libc::{Elf64_Ehdr, Elf64_Phdr, Elf64_Shdr, PT_GNU_EH_FRAME, PT_LOAD, PT_PHDR};

/// The addresses of the program and of its tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// The address of its first byte.
    pub start: usize,
    /// The address after its last byte.
    pub end: usize,
    /// The address of its `.eh_frame_hdr`; 0: it has none.
    pub index: usize,
    /// The address of its `.eh_frame`, if it has no index.
    pub frames: usize,
    /// Bytes of `.eh_frame`.
    pub len: usize,
}

impl Program {
    /// Reads the program's headers, and its file if they name no index. None: it has no tables, or
    /// its file cannot be read.
    pub fn find() -> Option<Self> {
        let headers = headers()?;
        let at = headers.as_ptr().expose_provenance();
        let program = Self::of(headers, at)?;
        if program.index != 0 {
            return Some(program);
        }
        if super::is_filtered() {
            return None;
        }
        let [offset, len] = File::open(c"/proc/self/exe")?.section(c".eh_frame")?;
        let frames = offset.wrapping_add(moved_by(headers, at)?);
        let is_inside =
            frames >= program.start && frames <= program.end && len <= program.end - frames;
        is_inside.then_some(Self { frames, len, ..program })
    }

    /// What the headers alone say.
    fn of(headers: &[Elf64_Phdr], at: usize) -> Option<Self> {
        let moved_by = moved_by(headers, at)?;
        let mapped = headers.iter().filter(|header| header.p_type == PT_LOAD);
        let start = mapped.clone().map(|header| header.p_vaddr).min()?;
        let end = mapped.map(|header| header.p_vaddr.saturating_add(header.p_memsz)).max()?;
        let index = headers.iter().find(|header| header.p_type == PT_GNU_EH_FRAME);
        let [start, end] = [start, end].map(|address| moved_by.wrapping_add(address as usize));
        let index = index.map_or(0, |header| moved_by.wrapping_add(header.p_vaddr as usize));
        Some(Self { start, end, index, frames: 0, len: 0 })
    }
}

/// The distance from the address that a program is linked for to its own. Its headers lie at `at`.
pub(super) fn moved_by(headers: &[Elf64_Phdr], at: usize) -> Option<usize> {
    if let Some(own) = headers.iter().find(|header| header.p_type == PT_PHDR) {
        return Some(at.wrapping_sub(own.p_vaddr as usize));
    }
    // Linkers put the program's headers behind the file's header, which is at the file's beginning.
    let first = headers.iter().find(|header| header.p_type == PT_LOAD && header.p_offset == 0)?;
    let offset = size_of::<Elf64_Ehdr>() as u64;
    (first.p_filesz > offset).then(|| at.wrapping_sub((first.p_vaddr + offset) as usize))
}

/// `SHF_ALLOC` of `elf.h`.
const MAPPED: u64 = 2;

struct File(usize);

impl File {
    fn open(name: &CStr) -> Option<Self> {
        let name = name.as_ptr().expose_provenance();
        let flags = libc::O_CLOEXEC as usize;
        let file = syscall(libc::SYS_openat, [libc::AT_FDCWD as usize, name, flags, 0, 0, 0]);
        usize::try_from(file).ok().map(Self)
    }

    fn read<const N: usize>(&self, offset: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        let to = bytes.as_mut_ptr().expose_provenance();
        let read = syscall(libc::SYS_pread64, [self.0, to, N, offset as usize, 0, 0]);
        (read == N as isize).then_some(bytes)
    }

    /// The address that a section is linked for, and its length. None: no mapped section has the
    /// name.
    fn section(&self, name: &CStr) -> Option<[usize; 2]> {
        let header = self.read::<{ size_of::<Elf64_Ehdr>() }>(0)?;
        // SAFETY: the array has the header's size, and all fields are integers: any bytes are
        // valid.
        let header: Elf64_Ehdr = unsafe { core::mem::transmute(header) };
        let section = |number: u16| {
            let at =
                header.e_shoff.checked_add(u64::from(number) * size_of::<Elf64_Shdr>() as u64)?;
            // SAFETY: the array has the header's size, and all fields are integers: any bytes are
            // valid.
            let section: Elf64_Shdr =
                unsafe { core::mem::transmute(self.read::<{ size_of::<Elf64_Shdr>() }>(at)?) };
            Some(section)
        };
        let names = section(header.e_shstrndx)?.sh_offset;
        let is_it = |section: &Elf64_Shdr| {
            let found =
                names.checked_add(section.sh_name.into()).and_then(|at| self.read::<16>(at));
            let name = name.to_bytes_with_nul();
            section.sh_flags & MAPPED != 0 && found.is_some_and(|found| found.starts_with(name))
        };
        let found = (0..header.e_shnum).map_while(section).find(is_it)?;
        Some([found.sh_addr as usize, found.sh_size as usize])
    }
}

impl Drop for File {
    fn drop(&mut self) {
        syscall(libc::SYS_close, [self.0, 0, 0, 0, 0, 0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(p_type: u32, p_offset: u64, p_vaddr: u64, p_memsz: u64) -> Elf64_Phdr {
        Elf64_Phdr {
            p_type,
            p_flags: 0,
            p_offset,
            p_vaddr,
            p_paddr: 0,
            p_filesz: p_memsz,
            p_memsz,
            p_align: 8,
        }
    }

    #[test]
    fn headers_lead_to_the_tables() {
        let (text, data) =
            (header(PT_LOAD, 0, 0x40_0000, 0x2000), header(PT_LOAD, 0x2000, 0x40_3000, 0x500));
        let index = header(PT_GNU_EH_FRAME, 0x1000, 0x40_1000, 0x100);
        let found =
            Program { start: 0x40_0000, end: 0x40_3500, index: 0x40_1000, frames: 0, len: 0 };
        assert_eq!(Program::of(&[text, data, index], 0x40_0040), Some(found));
        assert_eq!(Program::of(&[text, data], 0x40_0040), Some(Program { index: 0, ..found }));
        // A program that the kernel may map anywhere.
        let moved = Program { start: 0x50_0000, end: 0x50_3500, index: 0x50_1000, ..found };
        assert_eq!(Program::of(&[text, data, index], 0x50_0040), Some(moved));
        let own = header(PT_PHDR, 0x48, 0x40_0048, 0x100);
        assert_eq!(Program::of(&[own, text, data, index], 0x50_0048), Some(moved));
        assert_eq!(Program::of(&[data, index], 0x40_0040), None, "that cannot be told");
        assert_eq!(Program::of(&[], 0x40_0040), None);
    }

    /// For the test's own program, whose linker makes the index.
    #[test]
    fn the_file_has_what_the_headers_have() {
        let program = Program::find().unwrap();
        let here = the_file_has_what_the_headers_have as fn() as usize;
        assert!(
            (program.start..program.end).contains(&here)
                && (program.start..program.end).contains(&program.index)
        );
        let headers = headers().unwrap();
        let moved_by = moved_by(headers, headers.as_ptr().addr()).unwrap();
        let file = File::open(c"/proc/self/exe").unwrap();
        assert_eq!(
            file.section(c".eh_frame_hdr").map(|[at, _]| at + moved_by),
            Some(program.index)
        );
        assert!(file.section(c".eh_frame").is_some_and(|[_, len]| len > 0));
        assert_eq!(file.section(c".debug_line"), None, "it is not mapped");
        assert_eq!(file.section(c".none"), None);
        assert!(File::open(c"/nowhere").is_none());
    }
}
