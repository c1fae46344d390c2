//! The unwind tables of a program that is linked statically, which has no loader that could be asked.
//!
//! Its headers, which the kernel maps, lead to them (`PT_GNU_EH_FRAME`), if the linker made the index that they name. gcc does not
//! ask for one with `-static`. Then the sections' headers lead to the tables themselves; they are not mapped, but stand in the
//! file.

use super::linux::syscall;
use super::start::headers;
use core::ffi::CStr;
use libc::{Elf64_Ehdr, Elf64_Phdr, Elf64_Shdr, PT_GNU_EH_FRAME, PT_LOAD, PT_PHDR};

/// Where the program lies, and its tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// Where it begins and ends in memory.
    pub start: usize,
    /// See `start`.
    pub end: usize,
    /// Its `.eh_frame_hdr`; else 0.
    pub index: usize,
    /// Its `.eh_frame`, if there is no index, …
    pub frames: usize,
    /// … and the bytes of it.
    pub len: usize,
}

impl Program {
    /// What the program's headers say, and its file. None: it has no tables.
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
        let is_inside = frames >= program.start && frames <= program.end && len <= program.end - frames;
        is_inside.then_some(Self { frames, len, ..program })
    }

    /// Without what is only in the file.
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

/// How far from where it was linked for a program lies whose headers lie at `at`.
fn moved_by(headers: &[Elf64_Phdr], at: usize) -> Option<usize> {
    if let Some(own) = headers.iter().find(|header| header.p_type == PT_PHDR) {
        return Some(at.wrapping_sub(own.p_vaddr as usize));
    }
    // Linkers put them behind the file's header, and that at the file's beginning.
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

    /// The address that a section is linked for, and its length, if it is mapped.
    fn section(&self, name: &CStr) -> Option<[usize; 2]> {
        let header = self.read::<{ size_of::<Elf64_Ehdr>() }>(0)?;
        // SAFETY: so many bytes, each value of which is valid.
        let header: Elf64_Ehdr = unsafe { core::mem::transmute(header) };
        let section = |number: u16| {
            let at = header.e_shoff.checked_add(u64::from(number) * size_of::<Elf64_Shdr>() as u64)?;
            // SAFETY: a section header is numbers: so many bytes of any value are one.
            let section: Elf64_Shdr = unsafe { core::mem::transmute(self.read::<{ size_of::<Elf64_Shdr>() }>(at)?) };
            Some(section)
        };
        let names = section(header.e_shstrndx)?.sh_offset;
        let is_it = |section: &Elf64_Shdr| {
            let found = names.checked_add(section.sh_name.into()).and_then(|at| self.read::<16>(at));
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
        Elf64_Phdr { p_type, p_flags: 0, p_offset, p_vaddr, p_paddr: 0, p_filesz: p_memsz, p_memsz, p_align: 8 }
    }

    #[test]
    fn headers_lead_to_the_tables() {
        let (text, data) = (header(PT_LOAD, 0, 0x40_0000, 0x2000), header(PT_LOAD, 0x2000, 0x40_3000, 0x500));
        let index = header(PT_GNU_EH_FRAME, 0x1000, 0x40_1000, 0x100);
        let found = Program { start: 0x40_0000, end: 0x40_3500, index: 0x40_1000, frames: 0, len: 0 };
        assert_eq!(Program::of(&[text, data, index], 0x40_0040), Some(found));
        assert_eq!(Program::of(&[text, data], 0x40_0040), Some(Program { index: 0, ..found }));
        // As a program that may lie anywhere.
        let moved = Program { start: 0x50_0000, end: 0x50_3500, index: 0x50_1000, ..found };
        assert_eq!(Program::of(&[text, data, index], 0x50_0040), Some(moved));
        let own = header(PT_PHDR, 0x48, 0x40_0048, 0x100);
        assert_eq!(Program::of(&[own, text, data, index], 0x50_0048), Some(moved));
        assert_eq!(Program::of(&[data, index], 0x40_0040), None, "that cannot be told");
        assert_eq!(Program::of(&[], 0x40_0040), None);
    }

    /// Of this very program, whose linker makes the index.
    #[test]
    fn the_file_has_what_the_headers_have() {
        let program = Program::find().unwrap();
        let here = the_file_has_what_the_headers_have as fn() as usize;
        assert!((program.start..program.end).contains(&here) && (program.start..program.end).contains(&program.index));
        let headers = headers().unwrap();
        let moved_by = moved_by(headers, headers.as_ptr().addr()).unwrap();
        let file = File::open(c"/proc/self/exe").unwrap();
        assert_eq!(file.section(c".eh_frame_hdr").map(|[at, _]| at + moved_by), Some(program.index));
        assert!(file.section(c".eh_frame").is_some_and(|[_, len]| len > 0));
        assert_eq!(file.section(c".debug_line"), None, "it is not mapped");
        assert_eq!(file.section(c".none"), None);
        assert!(File::open(c"/nowhere").is_none());
    }
}
