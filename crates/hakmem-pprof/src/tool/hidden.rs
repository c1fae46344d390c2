//! Which functions of a stack are left out, as they are not the program's: the allocator's, the
//! standard library's on the way to it, those that only call a closure, and those that start a
//! thread.
//!
//! The source file decides where it is known, and the name where it is not. So a function of the
//! program is shown whatever it is called: the standard libraries of Rust and C++ lie in folders
//! that no program has.

use super::symbols::Frame;

/// What a function is to somebody who reads a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The program's, or a library's: it is shown.
    Shown,
    /// The allocator's, or it hands an allocation to it: never shown.
    Allocator,
    /// The standard library's: it is not shown between the allocator and the first function that
    /// is.
    Library,
    /// It calls what it was given, now or in a thread: never shown.
    Shim,
    /// It starts a program or a thread: it is not shown at a stack's outer end.
    Start,
}

use Kind::*;

/// Paths in Rust's standard library, as its modules and its files begin; the first that fits.
const RUST: &[(&str, Kind)] = &[
    ("core/alloc", Allocator),
    ("alloc/alloc", Allocator),
    ("alloc/raw_vec", Allocator),
    ("std/alloc", Allocator),
    ("std/sys/alloc", Allocator),
    ("core/iter/", Shim),
    ("core/ops/", Shim),
    ("core/option", Shim),
    ("core/ptr/", Shim),
    ("core/panic/", Shim),
    ("core/future/", Shim),
    ("core/result", Shim),
    ("std/panic", Shim),
    ("std/rt", Shim),
    ("std/sys/backtrace", Shim),
    ("std/sys_common/backtrace", Shim),
    ("std/thread/local", Shim),
    ("std/sys/thread/", Shim),
    ("std/sys/pal/unix/thread", Shim),
    ("core/", Library),
    ("alloc/", Library),
    ("std/collections/", Library),
    ("std/hash/", Library),
];

/// What C programs call.
const C: &[&str] = &[
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "hakmem_heap_malloc",
    "hakmem_heap_calloc",
    "hakmem_heap_realloc",
    "hakmem_heap_aligned_alloc",
];

/// What a thread or a program of C begins with.
const STARTS: &[&str] = &[
    "_start",
    "clone",
    "clone3",
    "__clone",
    "__clone3",
    "start_thread",
    "execute_native_thread_routine",
];

/// C++ functions that call what they were given, or start it as a thread, as their names begin.
const CPP_SHIMS: &[&str] = &[
    "std::__invoke",
    "std::invoke",
    "std::function<",
    "std::_Function_handler<",
    "std::thread::_Invoker<",
    "std::thread::_State_impl<",
    "std::call_once",
    "std::thread::thread<",
    "std::thread::_M_start_thread",
];

/// What begins the linker's names of functions in the namespaces `std` and `__gnu_cxx`.
const CPP: &[&str] = &[
    "_ZSt",
    "_ZNSt",
    "_ZNKSt",
    "_ZNSa",
    "_ZNKSa",
    "_ZNSs",
    "_ZNKSs",
    "_ZNSb",
    "_ZNKSb",
    "_ZN9__gnu_cxx",
    "_ZNK9__gnu_cxx",
];

/// What a function is; `map` is the file that its code was mapped from.
pub fn kind(frame: &Frame, map: &str) -> Kind {
    let (name, linked) = (frame.function.as_str(), frame.linked.as_str());
    // Whoever implements these is an allocator, the program's own one, too.
    let is_new = linked.starts_with("_Znw") || linked.starts_with("_Zna");
    let is_global = trait_of(name).is_some_and(|of| of.ends_with("::GlobalAlloc"));
    // The compiler's own, which has the place of what it calls. Debug information may name it
    // without its module.
    let is_compilers = type_of(name).starts_with("__rustc::") || is_hook(name);
    if is_new || is_global || is_compilers {
        return Allocator;
    }
    match frame.file.as_deref() {
        _ if is_c_library(map) => of_c(name),
        None => by_name(name, linked),
        Some(source) if is_own(source) => Allocator,
        Some(source) if source.contains("/hashbrown-") => Library,
        Some(source) if source.contains("/include/") && source.contains("/c++/") => of_cpp(name),
        Some(source) => rust_source(source).map_or(Shown, |path| of_rust(&path, name)),
    }
}

fn by_name(name: &str, linked: &str) -> Kind {
    if CPP.iter().any(|start| linked.starts_with(start)) {
        return of_cpp(name);
    }
    if linked.starts_with("_Z") && !is_rust(linked) || !name.contains("::") {
        return of_c(name);
    }
    let path = match trait_of(name) {
        // Nobody else can implement it, but it has the closure's name.
        Some(of) if of.starts_with("core::ops::function::") => of,
        Some(of) if is_standard(type_of(name)) => of,
        Some(_) => return Shown,
        None => type_of(name),
    };
    match path.split("::").next() {
        Some("hakmem_core" | "hakmem") => Allocator,
        Some("hashbrown") => Library,
        _ => of_rust(&path.replace("::", "/"), name),
    }
}

/// Hands an allocation to the `#[global_allocator]`.
fn is_hook(name: &str) -> bool {
    ["__rust_alloc", "__rust_realloc"]
        .iter()
        .any(|start| name.starts_with(start))
}

fn of_c(name: &str) -> Kind {
    let begins = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
    if C.contains(&name) || is_hook(name) || begins(&["__rdl_", "__rg_"]) {
        Allocator
    } else if STARTS.contains(&name)
        || begins(&["__libc_start_", "libc.so", "libpthread.so", "libstdc++.so"])
    {
        // Those with a library's name have none of their own.
        Start
    } else {
        Shown
    }
}

fn of_cpp(name: &str) -> Kind {
    match CPP_SHIMS.iter().any(|start| name.starts_with(start)) {
        true => Shim,
        false => Library,
    }
}

/// `path` is a module's or a source file's, from the crate on.
fn of_rust(path: &str, name: &str) -> Kind {
    // A closure that is in a box, and what a thread begins with.
    let is_call = ["::call_once", "::call_mut", "::call", "::poll"];
    let calls = path.starts_with("alloc/boxed") && is_call.iter().any(|end| name.ends_with(end));
    let begins = path.starts_with("std/thread") && name.contains("{closure");
    if calls || begins {
        return Shim;
    }
    let found = RUST.iter().find(|(start, _)| path.starts_with(start));
    found.map_or(Shown, |&(_, kind)| kind)
}

/// Of a file of Rust's standard library the path from the crate on, as modules have it.
fn rust_source(source: &str) -> Option<String> {
    let (before, path) = source.split_once("/library/")?;
    // As the compiler has it, as rustup and as distributions install it.
    let is_rust = before.starts_with("/rustc/")
        || before.ends_with("/rustlib/src/rust")
        || before.starts_with("/usr/src/rustc");
    is_rust.then(|| path.replacen("/src/", "/", 1))
}

fn is_own(source: &str) -> bool {
    ["/hakmem-core", "/hakmem-ffi"].iter().any(|own| {
        let rest = source.split_once(own).map(|(_, rest)| rest);
        let version = |c: char| c.is_ascii_digit() || "-.".contains(c);
        rest.is_some_and(|rest| rest.trim_start_matches(version).starts_with("/src/"))
    })
}

fn is_c_library(map: &str) -> bool {
    let name = map.rsplit('/').next().unwrap_or(map);
    [
        "libc.so",
        "libc-2.",
        "libpthread",
        "ld-linux",
        "ld-musl",
        "libc.musl",
    ]
    .iter()
    .any(|start| name.starts_with(start))
}

/// The linker's name is one of Rust's: the newer manglings begin in another way than those of C++,
/// the older ones end so.
fn is_rust(linked: &str) -> bool {
    rustc_demangle::try_demangle(linked).is_ok()
}

/// `a::T` of `<a::T<b::U> as c::V>::f`, and `a::f` of `a::f`.
pub fn type_of(name: &str) -> &str {
    head(name.strip_prefix('<').unwrap_or(name))
}

/// `c::V` of `<a::T as c::V<b::U>>::f`.
pub fn trait_of(name: &str) -> Option<&str> {
    let inside = name.strip_prefix('<')?;
    let mut depth = 0;
    for (i, byte) in inside.bytes().enumerate() {
        match byte {
            b'<' | b'(' | b'[' => depth += 1,
            b'>' if i > 0 && inside.as_bytes()[i - 1] == b'-' => {}
            b'>' if depth == 0 => return None,
            b'>' | b')' | b']' => depth -= 1,
            b' ' if depth == 0 && inside[i..].starts_with(" as ") => {
                return Some(head(&inside[i + 4..]));
            }
            _ => {}
        }
    }
    None
}

/// A path without its parameters; of a reference, a slice or a tuple that of the first type in it.
fn head(path: &str) -> &str {
    let start = |path: &mut &str| {
        let starts = ["&", "mut ", "dyn ", "[", "(", "*const ", "*mut "];
        let rest = starts.iter().find_map(|start| path.strip_prefix(start));
        rest.map(|rest| *path = rest)
    };
    let mut path = path;
    while start(&mut path).is_some() {}
    let end = path
        .find(['<', '>', ' ', ']', ')', ','])
        .unwrap_or(path.len());
    path[..end].trim_end_matches("::")
}

/// A type of Rust's standard library, or a parameter.
fn is_standard(path: &str) -> bool {
    match path.split_once("::") {
        Some((krate, _)) => matches!(
            krate,
            "core" | "alloc" | "std" | "hashbrown" | "hakmem_core"
        ),
        None => true,
    }
}

/// Whether a function is the `main` of C that the compiler makes for a program in Rust: it calls
/// `inner`.
pub fn is_made(frame: &Frame, inner: &Frame) -> bool {
    frame.function == "main"
        && frame.file.is_none()
        && ["std::rt::lang_start", "std::sys::backtrace::__rust_begin"]
            .iter()
            .any(|start| inner.function.starts_with(start))
}

/// Which of a stack's functions are shown, nearest first. One is, in any stack.
pub fn shown(kinds: &[Kind]) -> Vec<bool> {
    let near = kinds.iter().position(|kind| matches!(kind, Shown | Start));
    let near = near.unwrap_or(kinds.len());
    let inner = kinds.iter().rposition(|kind| !matches!(kind, Start | Shim));
    let inner = inner.map_or(0, |last| last + 1);
    let is_shown = |(i, kind): (usize, &Kind)| match kind {
        Shown => true,
        Library => i >= near,
        Start => i < inner,
        Allocator | Shim => false,
    };
    let mut shown: Vec<bool> = kinds.iter().enumerate().map(is_shown).collect();
    if !shown.contains(&true) && !shown.is_empty() {
        let mut passed = kinds[..near].iter();
        let outermost = passed.rposition(|kind| matches!(kind, Allocator | Library));
        shown[outermost.unwrap_or(0)] = true;
    }
    shown
}

/// For pprof, where it looks for names itself: the functions that it leaves out with all that they
/// call, as a regular expression for whole names. It knows no source files. So a function of the
/// program that is called malloc is left out, too.
pub const DROPPED: &str = concat!(
    r"malloc|calloc|realloc|reallocarray|memalign|aligned_alloc|posix_memalign|valloc|pvalloc",
    r"|hakmem_heap_(m|c|re|aligned_)alloc|operator new(\[\])?|__rust_(re)?alloc.*|__rdl_.*|__rustc::.*",
    r"|hakmem_core::.*|<hakmem_core::[^ ]*>::.*",
    r"|<hakmem_core::[^ ]* as (core|allocator_api2|hakmem_core)::.*",
    r"|alloc::alloc::.*|<?alloc::raw_vec::.*"
);

/// For pprof likewise: what it does not leave out in spite of [`DROPPED`], as these functions call
/// the program's.
pub const KEPT: &str = concat!(
    r"<?hakmem_core::([^ ]*::)?Heap>?::scope(::.*)?",
    r"|hakmem_core::([^ ]*::)?(dump|dump_at_once|each_segment|each_segment_from_outside)(::.*)?"
);

#[cfg(test)]
mod tests {
    use super::*;

    /// The linker's name, the source, the file that it was mapped from.
    #[rustfmt::skip]
    const CASES: &[(&str, &str, &str, Kind)] = &[
        ("malloc", "", "/a/prog", Allocator),
        ("malloc", "/home/me/pool.c", "/a/prog", Shown),
        ("zmalloc", "", "/a/prog", Shown),
        ("hakmem_heap_malloc", "", "/a/libhakmem.so", Allocator),
        ("hakmem_core::api::heaps::Heap::scope", "", "/a/prog", Allocator),
        ("malloc_it", "", "/a/prog", Shown),
        ("start_thread", "./nptl/pthread_create.c", "/usr/lib/libc.so.6", Start),
        ("start_thread", "/home/me/pool.c", "/a/prog", Shown),
        ("libc.so.6+0x29ca8", "", "/usr/lib/libc.so.6", Start),
        ("strdup", "", "/usr/lib/libc.so.6", Shown),
        ("_Znwm", "", "/usr/lib/libstdc++.so.6", Allocator),
        ("_ZN4PoolnwEm", "/home/me/pool.cpp", "/a/prog", Shown),
        ("_ZNSt6vectorIiSaIiEE9push_backERKi", "", "/a/prog", Library),
        ("_ZNSt6threadC1IRFvvEJEvEEOT_DpOT0_", "", "/a/prog", Shim),
        ("_ZNSt6vectorIiSaIiEE9push_backERKi", "/usr/include/c++/12/bits/stl_vector.h", "/a/prog", Library),
        ("_ZNKSt4hashI4UserEclERKS0_", "/home/me/user.hpp", "/a/prog", Shown),
        ("_ZN4core3ptr4makeEv", "", "/a/prog", Shown),
        ("__rustc::__rust_alloc", "/home/me/src/main.rs", "/a/prog", Allocator),
        ("__rust_alloc_zeroed", "/home/me/src/main.rs", "/a/prog", Allocator),
        ("<hakmem_core::Hakmem as core::alloc::global::GlobalAlloc>::alloc", "", "/a/prog", Allocator),
        ("<me::Counting as core::alloc::global::GlobalAlloc>::alloc", "/home/me/src/main.rs", "/a/prog", Allocator),
        ("<core::option::Option<usize>>::unwrap_or_else::<hakmem_core::a::{closure#0}>", "STD/core/src/option.rs", "", Shim),
        ("hakmem_core::heap::take", "/home/me/hakmem/crates/hakmem-core/src/heap.rs", "/a/prog", Allocator),
        ("hakmem_core::heap::take", "/home/me/.cargo/x/hakmem-core-0.1.0/src/heap.rs", "/a/prog", Allocator),
        ("alloc::raw_vec::finish_grow", "STD/alloc/src/raw_vec/mod.rs", "", Allocator),
        ("<alloc::vec::Vec<me::T> as me::Make>::make", "/home/me/src/lib.rs", "", Shown),
        ("<alloc::vec::Vec<me::T> as me::Make>::make", "", "", Shown),
        ("<me::T as core::clone::Clone>::clone", "", "", Shown),
        ("<&mut [me::T] as core::clone::Clone>::clone", "", "", Shown),
        ("<alloc::vec::Vec<me::T> as core::clone::Clone>::clone", "", "", Library),
        ("<T as alloc::slice::hack::ConvertVec>::to_vec", "", "", Library),
        ("alloc::make", "/home/me/alloc/src/lib.rs", "", Shown),
        ("core::ptr::make", "/home/me/library/core/src/ptr/mod.rs", "", Shown),
        ("<me::main::{closure#0} as core::ops::function::FnOnce<()>>::call_once", "", "", Shim),
        ("std::rt::lang_start::<()>::{closure#0}", "STD/std/src/rt.rs", "", Shim),
        ("std::fs::read", "STD/std/src/fs.rs", "", Shown),
        ("std::thread::Builder::spawn_unchecked_::{closure#1}", "STD/std/src/thread/mod.rs", "", Shim),
        ("<hashbrown::raw::RawTable<me::T>>::reserve_rehash", "/c/hashbrown-0.15.2/src/raw/mod.rs", "", Library),
    ];

    const STD: &str = "/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/";

    fn of(linked: &str, source: &str, map: &str) -> Kind {
        let source = source.replace("STD/", STD);
        let file = (!source.is_empty()).then_some(source);
        let function = super::super::symbols::readable(linked);
        kind(
            &Frame {
                function,
                linked: linked.into(),
                file,
                line: 1,
            },
            map,
        )
    }

    #[test]
    fn the_source_decides_then_the_name() {
        for &(linked, source, map, want) in CASES {
            assert_eq!(of(linked, source, map), want, "{linked} of {source}");
        }
    }

    #[rustfmt::skip]
    /// As pprof has them of the older and the newer mangling, and whether it leaves them out.
    const NAMES: &[(&str, bool)] = &[
        ("malloc", true),
        ("operator new[]", true),
        ("hakmem_heap_aligned_alloc", true),
        ("hakmem_heap_pool_alloc", false),
        ("zmalloc", false),
        ("alloc::alloc::alloc", true),
        ("<alloc::raw_vec::RawVec<u8>>::grow_one", true),
        ("hakmem_core::api::heaps::Heap::allocate", true),
        ("<hakmem_core::api::heaps::Heap>::allocate", true),
        ("<hakmem_core::api::global::Hakmem as core::alloc::global::GlobalAlloc>::alloc", true),
        ("<hakmem_core::api::heaps::Heap as allocator_api2::stable::alloc::Allocator>::grow", true),
        ("<hakmem_core::api::heaps::Heap as me::Pool>::grab", false),
        ("hakmem_core::api::heaps::Heap::scope", false),
        ("<hakmem_core::api::heaps::Heap>::scope", false),
        ("<hakmem_core::api::heaps::Heap>::scope::<me::main::{closure#0}, ", false),
        ("hakmem_core::api::heaps::Heap::scope::{{closure}}", false),
        ("hakmem_core::program::scope::Scope::alloc", true),
        ("hakmem_core::observe::report::profile::dump", false),
        ("me::run::<hakmem_core::api::heaps::Heap>", false),
        ("hakmem_core_of_mine::run", false),
    ];

    #[test]
    fn pprof_leaves_out_what_allocates_and_nothing_of_the_program() {
        let whole = |pattern| regex::Regex::new(&format!("^(?:{pattern})$")).unwrap();
        let (dropped, kept) = (whole(DROPPED), whole(KEPT));
        for &(name, want) in NAMES {
            let is = dropped.is_match(name) && !kept.is_match(name);
            assert_eq!(is, want, "{name}");
        }
    }

    #[test]
    fn what_is_shown_goes_by_its_place() {
        let look = |kinds: &[Kind]| {
            let shown = shown(kinds).into_iter().enumerate();
            shown
                .filter(|&(_, is)| is)
                .map(|(i, _)| i)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            look(&[Library, Allocator, Library, Shown, Shim, Shown, Start]),
            [3, 5]
        );
        assert_eq!(
            look(&[Allocator, Shown, Library, Allocator, Shown]),
            [1, 2, 4]
        );
        assert_eq!(
            look(&[Allocator, Start, Shown, Start, Shim, Start]),
            [1, 2],
            "only the outer end"
        );
        assert_eq!(
            look(&[Library, Allocator, Shim, Start]),
            [1],
            "something is left"
        );
        assert_eq!(look(&[Start, Start]), [0]);
        assert!(look(&[]).is_empty());
    }
}
