//! What lies at places of a file: by its debug information and its symbol tables.

use super::symbols::{Frame, readable};
use addr2line::Loader;
use object::read::{ReadCache, ReadRef};
use object::{Object, ObjectSegment, ObjectSymbol};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

/// A file has no build id that is longer, in bytes.
pub const BUILD_ID: usize = 64;

/// What is known of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// In hexadecimal.
    pub build_id: String,
    /// For each place, innermost first: more than one where functions were inlined, none where
    /// nothing is known.
    pub frames: Vec<Vec<Frame>>,
}

/// Finds what lies at offsets of a file: the path of a map, and the offsets in their order.
pub type Look<'a> = &'a dyn Fn(&str, &[u64]) -> Named;

/// Looks into a file that this process has mapped.
pub fn of_own(path: &str, offsets: &[u64]) -> Named {
    let module = Module::own(path);
    let frames = offsets.iter().map(|&offset| module.frames(offset));
    Named {
        frames: frames.collect(),
        build_id: module.build_id,
    }
}

/// Finds the build id alone of a file that this process has mapped.
pub fn build_id_of_own(path: &str, _: &[u64]) -> Named {
    let build_id = own_file(path)
        .and_then(|(_, file)| Parts::of(file))
        .map_or_else(|_| String::new(), |parts| hex(&parts.build_id));
    let frames = Vec::new();
    Named { build_id, frames }
}

/// The file that lies at the path of a map. The program's own may have been replaced meanwhile.
fn own_file(path: &str) -> io::Result<(PathBuf, File)> {
    const PROGRAM: &str = "/proc/self/exe";
    let is_program = std::fs::read_link(PROGRAM).is_ok_and(|program| program == Path::new(path));
    let path = PathBuf::from(if is_program { PROGRAM } else { path });
    // A pipe would keep this thread waiting.
    match std::fs::metadata(&path)?.is_file() {
        true => Ok((path.clone(), File::open(path)?)),
        false => Err(io::Error::other("not a regular file")),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// What is read of a file at once.
#[derive(Default)]
struct Parts {
    /// In the file: offset, length, and address that it is linked for.
    segments: Vec<[u64; 3]>,
    /// How long what a symbol stands for is, by its address, if that is known.
    sizes: HashMap<u64, u64>,
    build_id: Vec<u8>,
}

impl Parts {
    /// Only the parts that are used are read.
    fn of(file: File) -> io::Result<Self> {
        let cache = ReadCache::new(BufReader::new(file));
        Self::parse(&cache).map_err(io::Error::other)
    }

    fn parse<'a>(data: impl ReadRef<'a>) -> object::Result<Self> {
        let file = object::File::parse(data)?;
        let segments = file.segments().map(|s| {
            let (offset, length) = s.file_range();
            [offset, length, s.address()]
        });
        let symbols = file.symbols().chain(file.dynamic_symbols());
        let sizes = symbols
            .filter(|s| s.size() > 0)
            .map(|s| (s.address(), s.size()));
        let build_id = file.build_id().ok().flatten().unwrap_or_default();
        Ok(Self {
            segments: segments.collect(),
            sizes: sizes.collect(),
            build_id: build_id[..build_id.len().min(BUILD_ID)].to_vec(),
        })
    }
}

/// A file, as far as it could be opened.
#[derive(Default)]
pub struct Module {
    loader: Option<Loader>,
    parts: Parts,
    /// In hexadecimal.
    pub build_id: String,
}

impl Module {
    fn own(path: &str) -> Self {
        let opened = own_file(path);
        opened.map_or_else(|_| Self::default(), |(path, file)| Self::new(file, &path))
    }

    /// Of an open file and its path.
    pub fn new(file: File, path: &Path) -> Self {
        let Ok(parts) = Parts::of(file) else {
            return Self::default();
        };
        Self {
            loader: separate(&parts.build_id)
                .and_then(|debug| Loader::new(debug).ok())
                .or_else(|| Loader::new(path).ok()),
            build_id: hex(&parts.build_id),
            parts,
        }
    }

    /// The address that the file is linked for, of what lies at `offset` in it.
    fn linked(&self, offset: u64) -> Option<u64> {
        let segment = self
            .parts
            .segments
            .iter()
            .find(|s| offset.checked_sub(s[0]).is_some_and(|at| at < s[1]));
        segment.and_then(|s| (offset - s[0]).checked_add(s[2]))
    }

    /// What lies at `offset` of the file, innermost first.
    pub fn frames(&self, offset: u64) -> Vec<Frame> {
        self.linked(offset)
            .map_or_else(Vec::new, |at| self.frames_at(at))
    }

    /// What lies at the address `at` that the file is linked for, innermost first.
    pub fn frames_at(&self, at: u64) -> Vec<Frame> {
        let Some(loader) = &self.loader else {
            return vec![];
        };
        let mut frames = vec![];
        if let Ok(mut found) = loader.find_frames(at) {
            while let Ok(Some(frame)) = found.next() {
                let Some(name) = frame.function.as_ref().and_then(|f| f.raw_name().ok()) else {
                    continue;
                };
                let location = frame.location.as_ref();
                frames.push(Frame {
                    function: readable(&name),
                    linked: name.into_owned(),
                    file: location.and_then(|l| l.file).map(str::to_owned),
                    line: location.and_then(|l| l.line).unwrap_or(0),
                });
            }
        }
        if frames.is_empty()
            && let Some(symbol) = loader.find_symbol_info(at)
            // Else it is of a function before that has no symbol any more.
            && self.parts.sizes.get(&symbol.address()).is_none_or(|&size| at.wrapping_sub(symbol.address()) < size)
        {
            let name = symbol.name();
            frames.push(Frame {
                function: readable(name),
                linked: name.into(),
                file: None,
                line: 0,
            });
        }
        frames
    }
}

/// Where the distribution keeps the debug information of a file that has none, if it is installed.
fn separate(build_id: &[u8]) -> Option<String> {
    let hex = hex(build_id);
    let (first, rest) = hex.split_at_checked(2)?;
    let debug = format!("/usr/lib/debug/.build-id/{first}/{rest}.debug");
    (!rest.is_empty() && Path::new(&debug).exists()).then_some(debug)
}
