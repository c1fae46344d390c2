//! Several allocators in one binary: each serves its own blocks, and the C library's names stay the
//! C library's.

use hakmem_bench::allocators;
use hakmem_bench::heap::Subject;
use std::alloc::{Layout, System};
use std::ffi::CStr;

/// `usable` is the allocator's own answer to how many bytes a block has; only it knows its blocks.
fn serves<A: Subject>(name: &str, usable: unsafe fn(*mut u8) -> usize) {
    assert!(allocators::find(name).is_some());
    for size in [8_usize, 100, 1000, 5000, 40_000, 300_000, 3_000_000] {
        let layout = Layout::from_size_align(size, 8).expect("a valid layout");
        let twice = Layout::from_size_align(size * 2, 8).expect("a valid layout");
        // SAFETY: blocks go back with their layouts, and are written and read within their sizes.
        unsafe {
            let a = A::subject();
            let p = a.alloc(layout);
            assert!(!p.is_null(), "{name}: no {size} bytes");
            p.add(size - 1).write(7);
            let answer = usable(p);
            assert!(
                (size..=size * 2 + 4096).contains(&answer),
                "{name} says {answer} of {size}"
            );
            let p = a.realloc(p, layout, size * 2);
            assert!(!p.is_null() && p.add(size - 1).read() == 7, "{name}");
            assert!(usable(p) >= size * 2, "{name}: a grown block is too small");
            a.dealloc(p, twice);

            let aligned = Layout::from_size_align(size, 256).expect("a valid layout");
            let p = a.alloc_zeroed(aligned);
            assert!(
                !p.is_null() && p.addr().is_multiple_of(256),
                "{name}: {size} bytes at a multiple of 256"
            );
            assert!(p.read() == 0 && p.add(size - 1).read() == 0, "{name}");
            a.dealloc(p, aligned);
        }
    }
}

/// Blocks of threads that have ended are freed by others, which then allocate again.
fn threads_come_and_go<A: Subject>() {
    for _ in 0..20 {
        let blocks = std::thread::spawn(|| {
            [(); 100].map(|()| hakmem_bench::heap::Heap::<A>::new().block(100))
        });
        let blocks = blocks.join().expect("the thread allocates");
        std::thread::spawn(move || drop(blocks))
            .join()
            .expect("the thread frees");
    }
}

#[cfg(feature = "mimalloc")]
#[test]
fn mimalloc_serves_and_is_version_3() {
    // SAFETY: callers pass blocks of mimalloc.
    serves::<mimalloc::MiMalloc>("mimalloc", |p| unsafe {
        assert!(libmimalloc_sys::mi_is_in_heap_region(p.cast()));
        libmimalloc_sys::mi_usable_size(p.cast())
    });
    threads_come_and_go::<mimalloc::MiMalloc>();
    let version = hakmem_bench::peers::mimalloc_version();
    assert!(version.starts_with("3."), "{version}");
}

#[cfg(feature = "snmalloc")]
#[test]
fn snmalloc_serves() {
    serves::<snmalloc_rs::SnMalloc>("snmalloc", |p| {
        snmalloc_rs::SnMalloc::new()
            .usable_size(p)
            .expect("not null")
    });
    assert!(snmalloc_rs::SnMalloc::memory_stats().peak_memory_usage > 0);
    threads_come_and_go::<snmalloc_rs::SnMalloc>();
}

#[cfg(feature = "jemalloc")]
#[test]
fn jemalloc_serves() {
    // SAFETY: callers pass blocks of jemalloc; looking an address up reads nothing through it.
    serves::<tikv_jemallocator::Jemalloc>("jemalloc", |p| unsafe {
        let (mut arena, mut address) = (0_u32, p);
        let mut size = size_of_val(&arena);
        let failed = tikv_jemalloc_sys::mallctl(
            c"arenas.lookup".as_ptr(),
            (&raw mut arena).cast(),
            &raw mut size,
            (&raw mut address).cast(),
            size_of_val(&address),
        );
        assert_eq!(failed, 0, "jemalloc does not know its block");
        tikv_jemalloc_sys::malloc_usable_size(p.cast_const().cast())
    });
    threads_come_and_go::<tikv_jemallocator::Jemalloc>();
    let version = hakmem_bench::peers::jemalloc_version();
    assert!(version.starts_with("5."), "{version}");
}

#[cfg(feature = "rpmalloc")]
#[test]
fn rpmalloc_serves() {
    // SAFETY: callers pass blocks of rpmalloc.
    serves::<hakmem_bench::rpmalloc::RpMalloc>("rpmalloc", |p| unsafe {
        rpmalloc_sys::rpmalloc_usable_size(p.cast())
    });
    threads_come_and_go::<hakmem_bench::rpmalloc::RpMalloc>();
}

#[cfg(feature = "rusty_alloc")]
#[test]
fn rusty_alloc_serves() {
    // SAFETY: callers pass blocks of rusty_alloc.
    serves::<hakmem_bench::rusty_alloc::RustyAlloc>("rusty_alloc", |p| unsafe {
        assert!(rusty_alloc::alloc::is_in_heap_region(p));
        rusty_alloc::alloc::usable_size(p)
    });
    threads_come_and_go::<hakmem_bench::rusty_alloc::RustyAlloc>();
}

#[test]
fn the_system_serves_itself() {
    // SAFETY: callers pass blocks of the C library.
    serves::<System>("system", |p| unsafe { libc::malloc_usable_size(p.cast()) });
    threads_come_and_go::<System>();
}

/// An allocator that exported `malloc` would be measured under the system's name, too.
#[cfg(target_env = "gnu")]
#[test]
fn the_names_of_the_c_library_are_not_taken() {
    let functions = [
        ("malloc", libc::malloc as *const ()),
        ("calloc", libc::calloc as *const ()),
        ("realloc", libc::realloc as *const ()),
        ("free", libc::free as *const ()),
        ("posix_memalign", libc::posix_memalign as *const ()),
        ("malloc_usable_size", libc::malloc_usable_size as *const ()),
    ];
    for (name, function) in functions {
        // SAFETY: Dl_info is plain data, for which zeroes are a value; dladdr fills it for an
        // address of code.
        let file = unsafe {
            let mut info: libc::Dl_info = std::mem::zeroed();
            assert_ne!(
                libc::dladdr(function.cast(), &raw mut info),
                0,
                "{name} is nowhere"
            );
            CStr::from_ptr(info.dli_fname)
                .to_string_lossy()
                .into_owned()
        };
        assert!(file.contains("libc.so"), "{name} is in {file}");
    }
}
