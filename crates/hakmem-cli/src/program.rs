//! Finding the program as execvp would, and reading from its file whether a preloaded library can
//! reach it.

use crate::checked;
use crate::own::{self, Own};
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadRef, elf};
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{env, fmt, fs};

/// What an ELF file is built for: a library only loads into programs built for the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    number: u16,
    bits: u8,
    endian: Endianness,
}

impl Machine {
    /// The machine of a shared library; an error for any other kind of file.
    pub fn of_library(path: &Path) -> Result<Self, io::Error> {
        match Image::read(path)? {
            Some(image) if image.kind == elf::ET_DYN => Ok(image.machine),
            _ => Err(io::Error::other("not a shared library")),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match elf::Machine(self.number) {
            elf::EM_386 => "i386",
            elf::EM_X86_64 => "x86-64",
            elf::EM_AARCH64 => "AArch64",
            elf::EM_ARM => "Arm",
            elf::EM_RISCV => "RISC-V",
            elf::EM_PPC64 => "PowerPC64",
            elf::EM_S390 => "S/390",
            _ => return write!(f, "{}-bit machine {}", self.bits, self.number),
        };
        write!(f, "{}-bit {name}", self.bits)
    }
}

/// A loader's path may be no longer.
const MOST_PATH: u64 = 4096;

struct Image {
    kind: elf::FileType,
    machine: Machine,
    /// The dynamic loader that the kernel starts in its place.
    loader: Option<PathBuf>,
}

impl Image {
    /// The ELF header's facts; `None` when the file is not ELF.
    fn read(path: &Path) -> io::Result<Option<Self>> {
        let cache = ReadCache::new(checked::open(path)?);
        Ok(parse::<elf::FileHeader64<Endianness>, _>(&cache, 64)
            .or_else(|| parse::<elf::FileHeader32<Endianness>, _>(&cache, 32)))
    }
}

fn parse<'a, H: FileHeader<Endian = Endianness>, R: ReadRef<'a>>(
    data: R,
    bits: u8,
) -> Option<Image> {
    let header = H::parse(data).ok()?;
    let endian = header.endian().ok()?;
    // More segments than fit in the header are counted elsewhere, by a number that may be any.
    if header.e_phnum(endian) == elf::PN_XNUM {
        return None;
    }
    let segments = header.program_headers(endian, data).ok()?;
    Some(Image {
        kind: header.e_type(endian),
        machine: Machine {
            number: header.e_machine(endian).0,
            bits,
            endian,
        },
        loader: segments
            .iter()
            .find(|s| s.p_type(endian) == elf::PT_INTERP)
            .map(|segment| {
                let small = segment.p_filesz(endian).into() <= MOST_PATH;
                let path = small.then(|| segment.interpreter(endian, data).ok()?);
                OsStr::from_bytes(path.flatten().unwrap_or_default()).into()
            }),
    })
}

/// A program that cannot be started, in the words and with the exit status of a shell.
#[derive(Debug, PartialEq, Eq)]
pub struct NotStarted {
    pub why: String,
    pub status: i32,
}

impl NotStarted {
    pub const NOT_FOUND: i32 = 127;
    pub const NOT_EXECUTABLE: i32 = 126;

    fn not_found(why: &str) -> Self {
        Self {
            why: why.into(),
            status: Self::NOT_FOUND,
        }
    }

    /// For an error of execve on a file that was there a moment ago.
    pub fn from_exec(path: &Path, error: &io::Error) -> Self {
        let why = match error.kind() {
            io::ErrorKind::NotFound => missing(path),
            _ => error.to_string(),
        };
        Self {
            why,
            status: Self::NOT_EXECUTABLE,
        }
    }
}

/// What a program lacks that is there itself.
fn missing(path: &Path) -> String {
    let executed = executed(path);
    if !executed.exists() {
        return format!("its interpreter {} does not exist", executed.display());
    }
    match loader(&executed) {
        Some(loader) => format!("its dynamic loader {} does not exist", loader.display()),
        None => "its dynamic loader does not exist".into(),
    }
}

fn loader(path: &Path) -> Option<PathBuf> {
    Image::read(path).ok()??.loader
}

/// The program's dynamic loader, if it is musl's. The library is for glibc, whose functions that
/// loader does not find: it would end the program before its beginning.
pub fn musl(path: &Path) -> Option<PathBuf> {
    let loader = loader(&executed(path))?;
    let name = loader.file_name()?.as_bytes();
    name.starts_with(b"ld-musl").then_some(loader)
}

/// A program's name in a message: an empty one has quotes.
pub fn shown(name: &str) -> &str {
    if name.is_empty() { "\"\"" } else { name }
}

/// Looks the program up as execvp does: a name without a slash along PATH, anything else as it is.
pub fn find(name: &OsStr) -> Result<PathBuf, NotStarted> {
    let path = env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    find_along(name, &path)
}

fn find_along(name: &OsStr, path: &OsStr) -> Result<PathBuf, NotStarted> {
    if name.is_empty() {
        return Err(NotStarted::not_found("the program's name is empty"));
    }
    if name.as_bytes().contains(&b'/') {
        return executable(Path::new(name)).map(|()| name.into());
    }
    let mut failure = NotStarted::not_found("not found on PATH");
    // An empty element is the working directory; joined to "." the result has a slash, so that exec
    // will not look again.
    for folder in env::split_paths(path) {
        let folder = if folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            &folder
        };
        let candidate = folder.join(name);
        match executable(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(e) if e.status == NotStarted::NOT_EXECUTABLE && candidate.exists() => failure = e,
            Err(_) => {}
        }
    }
    Err(failure)
}

fn executable(path: &Path) -> Result<(), NotStarted> {
    let not_executable = |why: String| NotStarted {
        why,
        status: NotStarted::NOT_EXECUTABLE,
    };
    match fs::metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Err(NotStarted::not_found(&e.to_string())),
        Err(e) => Err(not_executable(e.to_string())),
        Ok(meta) if meta.is_dir() => Err(not_executable("it is a directory".into())),
        Ok(_) => {
            let file = c_path(path)
                .ok_or_else(|| NotStarted::not_found("its name contains a NUL byte"))?;
            // SAFETY: a NUL-terminated string.
            match unsafe {
                libc::faccessat(libc::AT_FDCWD, file.as_ptr(), libc::X_OK, libc::AT_EACCESS)
            } {
                0 => Ok(()),
                _ => Err(not_executable(io::Error::last_os_error().to_string())),
            }
        }
    }
}

fn c_path(path: &Path) -> Option<CString> {
    CString::new(path.as_os_str().as_bytes()).ok()
}

/// The words of a script's first line: its interpreter, and what that is told.
fn first_line(path: &Path) -> Option<Vec<OsString>> {
    let head = checked::start(path, 256).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|&b| b == b'\n').next()?;
    let words = line.split(|b| b" \t".contains(b));
    let words = words.filter(|word| !word.is_empty());
    Some(words.map(|word| OsStr::from_bytes(word).into()).collect())
}

/// The interpreter that a script names in its first line.
fn shebang(path: &Path) -> Option<PathBuf> {
    Some(first_line(path)?.first()?.into())
}

/// What the kernel executes for a script, if that is `env`: the name that it looks for.
pub fn looked_for(path: &Path) -> Option<String> {
    let words = first_line(&last_script(path))?;
    let is_name = |word: &&str| !word.starts_with('-') && !word.contains('=');
    let mut words = words.iter().skip(1).filter_map(|word| word.to_str());
    words.find(is_name).map(str::to_owned)
}

/// What the kernel executes: the program itself, or the interpreter of a script.
pub fn executed(path: &Path) -> PathBuf {
    chain(path).pop().expect("the program itself")
}

/// The script whose interpreter the kernel executes.
fn last_script(path: &Path) -> PathBuf {
    chain(path).into_iter().rev().nth(1).unwrap_or(path.into())
}

/// The program, its interpreter if it is a script, that one's, …
fn chain(path: &Path) -> Vec<PathBuf> {
    // The kernel follows a chain of scripts four deep.
    let next = |path: &PathBuf| shebang(path);
    std::iter::successors(Some(path.to_path_buf()), next)
        .take(5)
        .collect()
}

/// The allocator that the program brings along.
pub fn own(path: &Path) -> Option<Own> {
    let path = executed(path);
    // The dynamic loader has a malloc for itself.
    if is_loader(&path) {
        return None;
    }
    own::of(&path)
}

/// Why the library will not be loaded into this program, if its file shows that; `None` also when
/// it cannot be read.
pub fn obstacle(path: &Path, library: Machine) -> Option<String> {
    let path = executed(path);
    let name = path.display();
    let image = Image::read(&path).ok()??;
    if image.loader.is_none() && !is_loader(&path) {
        return Some(format!(
            "{name} is statically linked, so there is no dynamic loader to load the library"
        ));
    }
    if image.machine != library {
        return Some(format!(
            "{name} is {}, the library {library}",
            image.machine
        ));
    }
    if let Some(loader) = musl(&path) {
        return Some(format!(
            "the dynamic loader of {name}, {}, is musl's, and the library is for glibc",
            loader.display()
        ));
    }
    let privilege = privilege(&path)?;
    Some(format!(
        "{name} has {privilege}, so the dynamic loader ignores LD_PRELOAD"
    ))
}

/// The dynamic loader itself, when started as a program, has none, but preloads all the same.
fn is_loader(path: &Path) -> bool {
    let real = path.canonicalize();
    let name = real
        .as_deref()
        .unwrap_or(path)
        .file_name()
        .unwrap_or_default()
        .as_bytes();
    name.starts_with(b"ld-") || name.starts_with(b"ld.so")
}

/// The privilege gained by executing the file, which turns on the loader's secure mode.
fn privilege(path: &Path) -> Option<&'static str> {
    let meta = fs::metadata(path).ok()?;
    let file = c_path(path)?;
    // SAFETY: all zeroes is a valid statvfs, the string ends in NUL, prctl with this option only
    // reads.
    let not_granted = unsafe {
        let mut system: libc::statvfs = std::mem::zeroed();
        libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1
            || libc::statvfs(file.as_ptr(), &mut system) == 0
                && system.f_flag & libc::ST_NOSUID != 0
    };
    // SAFETY: these calls always succeed.
    let (user, group) = unsafe { (libc::getuid(), libc::getgid()) };
    // SAFETY: both strings end in NUL; a size of 0 asks for the length alone.
    let capable = || unsafe {
        libc::getxattr(
            file.as_ptr(),
            c"security.capability".as_ptr(),
            std::ptr::null_mut(),
            0,
        ) > 0
    };
    let group_bits = libc::S_ISGID | libc::S_IXGRP;
    match meta.mode() {
        _ if not_granted => None,
        mode if mode & libc::S_ISUID != 0 && meta.uid() != user => Some("the setuid bit"),
        mode if mode & group_bits == group_bits && meta.gid() != group => Some("the setgid bit"),
        _ if user != 0 && capable() => Some("capabilities"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn file(folder: &Path, name: &str, mode: u32, content: &[u8]) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn own_machine() -> Machine {
        Image::read(&env::current_exe().unwrap())
            .unwrap()
            .unwrap()
            .machine
    }

    #[test]
    fn the_search_goes_on_past_files_that_are_not_executable_and_remembers_them() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        file(a.path(), "tool", 0o644, b"");
        let path = env::join_paths([Path::new("/nowhere"), a.path(), b.path()]).unwrap();
        let find = |name: &str| find_along(OsStr::new(name), &path);
        assert_eq!(find("tool").unwrap_err().status, 126);
        assert_eq!(find("other").unwrap_err().status, 127);
        let good = file(b.path(), "tool", 0o755, b"");
        assert_eq!(find("tool").unwrap(), good);
        assert_eq!(find("").unwrap_err().status, 127);
        assert_eq!(find("/nowhere/x").unwrap_err().status, 127);
        assert_eq!(find(a.path().to_str().unwrap()).unwrap_err().status, 126);
    }

    #[test]
    fn an_empty_element_of_path_is_the_working_directory() {
        // The package's folder, where cargo runs tests.
        assert_eq!(
            find_along(OsStr::new("Cargo.toml"), OsStr::new(""))
                .unwrap_err()
                .status,
            126
        );
    }

    #[test]
    fn scripts_are_judged_by_their_interpreter() {
        let folder = tempfile::tempdir().unwrap();
        let first = file(folder.path(), "a", 0o755, b"#! /bin/sh -e\necho\n");
        let second = file(
            folder.path(),
            "b",
            0o755,
            format!("#!{}\n", first.display()).as_bytes(),
        );
        assert_eq!(shebang(&first).unwrap(), Path::new("/bin/sh"));
        assert_eq!(obstacle(&second, own_machine()), None);
        let foreign = Machine {
            number: elf::EM_S390.0,
            ..own_machine()
        };
        let why = obstacle(&second, foreign).unwrap();
        assert!(
            why.starts_with("/bin/sh is 64-bit") && why.ends_with("the library 64-bit S/390"),
            "{why}"
        );
    }

    #[test]
    fn a_loop_of_scripts_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("loop");
        file(
            folder.path(),
            "loop",
            0o755,
            format!("#!{}\n", path.display()).as_bytes(),
        );
        assert_eq!(obstacle(&path, own_machine()), None);
    }

    #[test]
    fn a_program_that_nobody_writes_to_and_one_of_endless_segments() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let name = c_path(&pipe).unwrap();
        // SAFETY: a string that ends in NUL.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o755) }, 0);
        assert_eq!(
            (obstacle(&pipe, own_machine()), shebang(&pipe)),
            (None, None)
        );
        let mut head = fs::read(env::current_exe().unwrap()).unwrap();
        head.truncate(4096);
        // e_phnum is PN_XNUM, and the first section, behind the header, has the number.
        head[56..58].copy_from_slice(&[0xff; 2]);
        head[40..48].copy_from_slice(&64u64.to_le_bytes());
        head[64 + 44..64 + 48].copy_from_slice(&[0xff; 4]);
        let endless = file(folder.path(), "endless", 0o755, &head);
        fs::File::options()
            .write(true)
            .open(&endless)
            .unwrap()
            .set_len(1 << 40)
            .unwrap();
        assert_eq!(obstacle(&endless, own_machine()), None);
    }

    #[test]
    fn a_truncated_elf_file_is_no_library() {
        let folder = tempfile::tempdir().unwrap();
        let path = file(folder.path(), "x.so", 0o644, b"\x7fELF\x02\x01\x01");
        assert_eq!(
            Machine::of_library(&path).unwrap_err().to_string(),
            "not a shared library"
        );
    }
}
