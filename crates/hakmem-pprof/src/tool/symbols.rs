//! What addresses are called: by the debug information and symbol tables of the files that they
//! were mapped from.

use super::checked::total;
use super::hidden::{self, Kind};
use super::module::{Look, Named};
use super::raw::{Map, Raw};
use cpp_demangle::DemangleOptions;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

/// Different places of a profile; files that are looked into; bytes of all names.
const PLACES: usize = 1 << 18;
const FILES: usize = 4096;
const NAMES: u64 = 64 << 20;

/// A function at a place in a stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

/// How the names of C++ functions begin, with the forms of blocks and of constructors of a file.
const MANGLED: [&str; 5] = ["_Z", "__Z", "___Z", "____Z", "_GLOBAL_"];

/// As a person says it: without a hash, and of C++ without the types of parameters and result.
pub fn readable(name: &str) -> String {
    // Versions of dynamic symbols.
    let plain = name.split('@').next().unwrap_or(name);
    if let Ok(rust) = rustc_demangle::try_demangle(plain) {
        return format!("{rust:#}");
    }
    // The demangler takes any other name for a type: `f` for float.
    if !MANGLED.iter().any(|prefix| plain.starts_with(prefix)) {
        return plain.to_owned();
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
    /// By path: what is known of the file's places, which are in the order of their offsets.
    files: HashMap<&'a str, (Vec<u64>, Named)>,
    known: HashMap<u64, Rc<Place>>,
    /// By address and by what is shown of it.
    parts: HashMap<(u64, Vec<bool>), Rc<Place>>,
}

/// Addresses are those that calls return to: the call is before them. The first is no such address.
fn calls(stack: &[u64]) -> impl Iterator<Item = u64> {
    let stack = stack.iter().enumerate();
    stack.map(|(i, &at)| at.saturating_sub(u64::from(i > 0)))
}

impl<'a> Symbols<'a> {
    /// Looks for all names of a profile. The error is for the user to read.
    pub fn new(raw: &'a Raw, look: Look) -> Result<Self, String> {
        let mut all = BTreeSet::new();
        for sample in &raw.samples {
            all.extend(calls(&sample.stack));
            if all.len() > PLACES {
                return Err("the profile has more places than are looked at".into());
            }
        }
        Ok(Self::of(raw, &all, look))
    }

    fn of(raw: &'a Raw, addresses: &BTreeSet<u64>, look: Look) -> Self {
        let mut symbols = Self {
            raw,
            files: HashMap::new(),
            known: HashMap::new(),
            parts: HashMap::new(),
        };
        let mut offsets: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
        for map in raw.maps.iter().filter(|map| map.path.starts_with('/')) {
            offsets.entry(&map.path).or_default();
        }
        for &address in addresses {
            let Some((_, map)) = symbols.map_of(address) else {
                continue;
            };
            if let Some(of_file) = offsets.get_mut(map.path.as_str()) {
                of_file.insert(address - map.start + map.offset);
            }
        }
        let mut bytes = 0;
        for (path, offsets) in offsets.into_iter().take(FILES) {
            let offsets: Vec<_> = offsets.into_iter().collect();
            let named = look(path, &offsets);
            let frames = named.frames.iter().flatten();
            let length = |f: &Frame| f.function.len() + f.linked.len() + 64;
            bytes = total([bytes, frames.map(|f| length(f) as u64).sum()]);
            if bytes > NAMES {
                break;
            }
            symbols.files.insert(path, (offsets, named));
        }
        symbols
    }

    /// Maps are in order, and none lies over another.
    fn map_of(&self, address: u64) -> Option<(usize, &'a Map)> {
        let i = self.raw.maps.partition_point(|m| m.end <= address);
        let map = self.raw.maps.get(i).filter(|m| m.start <= address)?;
        Some((i, map))
    }

    pub fn build_id(&self, path: &str) -> &str {
        self.files
            .get(path)
            .map_or("", |(_, named)| &named.build_id)
    }

    /// What is at an address.
    pub fn place(&mut self, address: u64) -> Rc<Place> {
        if let Some(known) = self.known.get(&address) {
            return known.clone();
        }
        let map = self.map_of(address);
        let mut frames = vec![];
        if let Some((_, map)) = map
            && let Some((offsets, named)) = self.files.get(map.path.as_str())
            && let Ok(n) = offsets.binary_search(&(address - map.start + map.offset))
        {
            frames = named.frames.get(n).cloned().unwrap_or_default();
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

    /// The places of a stack, nearest first; without the functions that `hidden` leaves out, unless
    /// all are asked for.
    pub fn stack(&mut self, stack: &[u64], all: bool) -> Vec<Rc<Place>> {
        let places: Vec<_> = calls(stack).map(|at| self.place(at)).collect();
        if all {
            return places;
        }
        let mut kinds: Vec<_> = places.iter().flat_map(|place| self.kinds(place)).collect();
        let frames: Vec<_> = places.iter().flat_map(|place| &place.frames).collect();
        for (i, pair) in frames.windows(2).enumerate() {
            if hidden::is_made(pair[1], pair[0]) {
                kinds[i + 1] = Kind::Start;
            }
        }
        let shown = hidden::shown(&kinds);
        let mut shown = shown.as_slice();
        let mut left = vec![];
        for place in places {
            let (of_place, rest) = shown.split_at(place.frames.len());
            shown = rest;
            if of_place.contains(&true) {
                left.push(self.part(place, of_place));
            }
        }
        left
    }

    /// What the functions at a place are, innermost first.
    fn kinds(&self, place: &Place) -> Vec<Kind> {
        let path = |map: usize| self.raw.maps[map].path.as_str();
        let map = place.map.map_or("", path);
        let own = self.map_of(self.raw.own).map(|(_, map)| map.path.as_str());
        let is_own = own == Some(map) && is_library(map);
        let kind = |frame| match is_own {
            true => Kind::Allocator,
            false => hidden::kind(frame, map),
        };
        place.frames.iter().map(kind).collect()
    }

    /// The same one for the same functions of a place.
    fn part(&mut self, place: Rc<Place>, shown: &[bool]) -> Rc<Place> {
        if !shown.contains(&false) {
            return place;
        }
        let make = || {
            let frames = place.frames.iter().zip(shown).filter(|&(_, &is)| is);
            Rc::new(Place {
                frames: frames.map(|(frame, _)| frame.clone()).collect(),
                ..*place
            })
        };
        let key = (place.address, shown.to_vec());
        self.parts.entry(key).or_insert_with(make).clone()
    }
}

/// In a program with hakmem inside, the file tells nothing.
fn is_library(path: &str) -> bool {
    path.rsplit('/')
        .next()
        .is_some_and(|name| name.starts_with("libhakmem") && name.contains(".so"))
}

#[cfg(test)]
mod tests {
    use super::super::module::of_own;
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
        assert_eq!(readable("_ZN3FooC2Ev"), "Foo::Foo");
        assert_eq!(readable("__ZN3FooC2Ev"), "Foo::Foo");
        assert!(readable("_GLOBAL__I_main").contains("main"));
    }

    /// The demangler would take them for types: `f` for float.
    #[test]
    fn names_of_c_are_left_as_they_are() {
        for name in ["f", "h", "i", "Pc", "_", "Z", "_start", "St6vectorIiE"] {
            assert_eq!(readable(name), name);
        }
    }

    #[test]
    fn the_library_is_told_by_its_name() {
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
        let raw = super::super::raw::last(text.as_bytes(), None);
        let raw = raw.unwrap().unwrap();
        let place = Symbols::of(&raw, &BTreeSet::from([here]), &of_own).place(here);
        let frame = place.frames.last().unwrap();
        assert!(
            frame.function.ends_with("a_function_has_its_name_and_line"),
            "{frame:?}"
        );
        assert!(
            frame.file.as_ref().unwrap().ends_with("symbols.rs") && frame.line > 100,
            "{frame:?}"
        );
        assert!(place.map.is_some());
        let mut none = Symbols::new(&raw, &of_own).unwrap();
        assert_eq!(none.place(5).frames[0].function, "0x5");
    }
}
