//! What addresses are called: by the debug information and symbol tables of the files that they were mapped from.

use super::raw::{Map, Raw};
use addr2line::Loader;
use cpp_demangle::DemangleOptions;
use object::{Object, ObjectSegment, ObjectSymbol};
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

/// A function at a place in a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub function: String,
    /// As the linker knows it.
    pub linked: String,
    pub file: Option<String>,
    pub line: u32,
}

/// An address in a stack.
#[derive(Debug)]
pub struct Place {
    pub address: u64,
    /// The number of its map.
    pub map: Option<usize>,
    /// What is there, innermost first: more than one where functions were inlined.
    pub frames: Vec<Frame>,
}

/// A file, as far as it could be opened.
#[derive(Default)]
pub struct Module {
    loader: Option<Loader>,
    /// In the file: offset, length, and address that it is linked for.
    segments: Vec<[u64; 3]>,
    /// How long what a symbol stands for is, by its address, if that is known.
    sizes: HashMap<u64, u64>,
    /// In hexadecimal.
    pub build_id: String,
}

impl Module {
    fn open(path: &str) -> Self {
        let Ok(bytes) = std::fs::read(path) else {
            return Self::default();
        };
        let Ok(file) = object::File::parse(&*bytes) else {
            return Self::default();
        };
        let segments = file.segments().map(|s| {
            let (offset, length) = s.file_range();
            [offset, length, s.address()]
        });
        let symbols = file.symbols().chain(file.dynamic_symbols());
        let sizes = symbols
            .filter(|s| s.size() > 0)
            .map(|s| (s.address(), s.size()));
        let build_id = file.build_id().ok().flatten().unwrap_or_default();
        Self {
            segments: segments.collect(),
            sizes: sizes.collect(),
            build_id: build_id.iter().map(|b| format!("{b:02x}")).collect(),
            loader: Loader::new(separate(path, build_id))
                .or_else(|_| Loader::new(path))
                .ok(),
        }
    }

    /// The address that the file is linked for, of what lies at `offset` in it.
    fn linked(&self, offset: u64) -> Option<u64> {
        let segment = self
            .segments
            .iter()
            .find(|s| offset.checked_sub(s[0]).is_some_and(|at| at < s[1]));
        segment.map(|s| offset - s[0] + s[2])
    }

    fn frames(&self, offset: u64) -> Vec<Frame> {
        let (Some(loader), Some(at)) = (&self.loader, self.linked(offset)) else {
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
            && self.sizes.get(&symbol.address()).is_none_or(|size| at < symbol.address() + size)
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

/// Where the distribution keeps the debug information of a file that has none, if it is installed; else the file itself.
fn separate(path: &str, build_id: &[u8]) -> String {
    let hex: String = build_id.iter().map(|b| format!("{b:02x}")).collect();
    match hex.split_at_checked(2) {
        Some((first, rest)) if !rest.is_empty() => {
            let debug = format!("/usr/lib/debug/.build-id/{first}/{rest}.debug");
            if Path::new(&debug).exists() {
                debug
            } else {
                path.into()
            }
        }
        _ => path.into(),
    }
}

/// As a person says it: without a hash, and of C++ without the types of parameters and result.
fn readable(name: &str) -> String {
    // Versions of dynamic symbols.
    let plain = name.split('@').next().unwrap_or(name);
    if let Ok(rust) = rustc_demangle::try_demangle(plain) {
        return format!("{rust:#}");
    }
    let options = DemangleOptions::new().no_params().no_return_type();
    let cpp = cpp_demangle::Symbol::new(plain)
        .ok()
        .and_then(|s| s.demangle_with_options(&options).ok());
    cpp.unwrap_or_else(|| plain.to_owned())
}

/// Names addresses of one profile.
pub struct Symbols<'a> {
    raw: &'a Raw,
    modules: HashMap<&'a str, Module>,
    known: HashMap<u64, Rc<Place>>,
}

impl<'a> Symbols<'a> {
    pub fn new(raw: &'a Raw) -> Self {
        Self {
            raw,
            modules: HashMap::new(),
            known: HashMap::new(),
        }
    }

    fn map_of(&self, address: u64) -> Option<(usize, &'a Map)> {
        self.raw
            .maps
            .iter()
            .enumerate()
            .find(|(_, m)| (m.start..m.end).contains(&address))
    }

    pub fn module(&mut self, path: &'a str) -> &Module {
        self.modules
            .entry(path)
            .or_insert_with(|| Module::open(path))
    }

    /// What is at an address.
    pub fn place(&mut self, address: u64) -> Rc<Place> {
        if let Some(known) = self.known.get(&address) {
            return known.clone();
        }
        let map = self.map_of(address);
        let mut frames = vec![];
        if let Some((_, map)) = map.filter(|(_, map)| map.path.starts_with('/')) {
            frames = self
                .module(&map.path)
                .frames(address - map.start + map.offset);
        }
        if frames.is_empty() {
            let name = match map {
                Some((_, map)) if !map.path.is_empty() => {
                    let file = map.path.rsplit('/').next().unwrap_or(&map.path);
                    format!("{file}+{:#x}", address - map.start + map.offset)
                }
                _ => format!("{address:#x}"),
            };
            frames.push(Frame {
                function: name.clone(),
                linked: name,
                file: None,
                line: 0,
            });
        }
        let place = Rc::new(Place {
            address,
            map: map.map(|(i, _)| i),
            frames,
        });
        self.known.insert(address, place.clone());
        place
    }

    /// The places of a stack, nearest first, without those of the allocator itself.
    pub fn stack(&mut self, stack: &[u64]) -> Vec<Rc<Place>> {
        let own = self.map_of(self.raw.own).map(|(_, map)| map.path.clone());
        // Addresses are those that calls return to: the call is before them. The first is no such address.
        let calls = stack
            .iter()
            .enumerate()
            .map(|(i, &at)| at.saturating_sub(u64::from(i > 0)));
        let places: Vec<_> = calls.map(|at| self.place(at)).collect();
        let is_own = |place: &Place| {
            let file = place.map.map(|i| &self.raw.maps[i].path);
            let in_library = file.is_some_and(|f| Some(f) == own.as_ref() && is_library(f));
            in_library || place.frames.iter().all(|f| is_glue(&f.function))
        };
        let first = places.iter().position(|place| !is_own(place)).unwrap_or(0);
        let mut rest = places[first..].to_vec();
        // What the compiler has put of the allocator into the function that calls it.
        if let Some(nearest) = rest.first_mut() {
            let glue = nearest.frames.iter().take_while(|f| is_glue(&f.function));
            let skipped = glue.count().min(nearest.frames.len().saturating_sub(1));
            if skipped > 0 {
                *nearest = Rc::new(Place {
                    frames: nearest.frames[skipped..].to_vec(),
                    ..**nearest
                });
            }
        }
        rest
    }
}

/// In a program with hakmem inside, the file tells nothing.
fn is_library(path: &str) -> bool {
    path.rsplit('/')
        .next()
        .is_some_and(|name| name.starts_with("libhakmem") && name.contains(".so"))
}

/// What lies between a program and the allocator.
fn is_glue(function: &str) -> bool {
    const C: [&str; 9] = [
        "malloc",
        "calloc",
        "realloc",
        "reallocarray",
        "memalign",
        "aligned_alloc",
        "posix_memalign",
        "valloc",
        "pvalloc",
    ];
    const RUST: [&str; 6] = [
        "hakmem_core::",
        "hakmem::",
        "__rust_",
        "__rustc::",
        "__rdl_",
        "alloc::alloc::",
    ];
    let plain = function.trim_start_matches('<');
    C.contains(&plain)
        || RUST.iter().any(|r| plain.starts_with(r))
        || plain.starts_with("operator new")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_for_people() {
        assert_eq!(
            readable("_ZN4core3fmt5write17h0123456789abcdefE"),
            "core::fmt::write"
        );
        assert_eq!(
            readable("_ZNSt6vectorIiSaIiEE9push_backERKi"),
            "std::vector<int, std::allocator<int> >::push_back"
        );
        assert_eq!(readable("zmalloc@@REDIS_7"), "zmalloc");
    }

    #[test]
    fn the_allocator_is_told_from_the_program() {
        for glue in [
            "malloc",
            "operator new",
            "<hakmem_core::global::Hakmem as X>::alloc",
            "__rustc::__rust_alloc",
        ] {
            assert!(is_glue(glue), "{glue}");
        }
        for own in [
            "zmalloc",
            "malloc_it",
            "main",
            "alloc::raw_vec::RawVec<T>::grow_one",
            "operators",
        ] {
            assert!(!is_glue(own), "{own}");
        }
        assert!(is_library("/a/libhakmem.so") && !is_library("/usr/bin/hakmem"));
    }

    /// An address of this very program.
    #[test]
    fn a_function_has_its_name_and_line() {
        let here = a_function_has_its_name_and_line as fn() as usize as u64;
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let code: String = maps
            .lines()
            .filter(|l| l.contains("r-xp"))
            .map(|l| format!("{l}\n"))
            .collect();
        let text = format!("heap profile: 0: 0 [0: 0] @ heap_v2/1\nMAPPED_LIBRARIES:\n{code}");
        let raw = super::super::raw::parse(&text).unwrap().remove(0);
        let place = Symbols::new(&raw).place(here);
        let frame = place.frames.last().unwrap();
        assert!(
            frame
                .function
                .ends_with("symbols::tests::a_function_has_its_name_and_line"),
            "{frame:?}"
        );
        assert!(
            frame.file.as_ref().unwrap().ends_with("symbols.rs") && frame.line > 100,
            "{frame:?}"
        );
        assert!(place.map.is_some());
        assert_eq!(Symbols::new(&raw).place(5).frames[0].function, "0x5");
    }
}
