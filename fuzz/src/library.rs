//! The shared library, loaded beside the fuzzer, which keeps the C library's malloc for itself.

use crate::oracle::FrontEnd;
use crate::sequence::Fuzzed;
use libc::{c_char, c_int, c_void};
use std::alloc::Layout;
use std::ffi::{CStr, CString};
use std::sync::OnceLock;

/// Its functions.
#[derive(Debug, Clone, Copy)]
pub struct Library(&'static Functions);

macro_rules! functions {
    ($($name:ident($($arg:ty),*) $(-> $result:ty)?;)*) => {
        #[derive(Debug)]
        struct Functions {
            $($name: unsafe extern "C" fn($($arg),*) $(-> $result)?,)*
        }

        impl Functions {
            fn find(library: *mut c_void) -> Self {
                // SAFETY: functions of these names and types are what the library's header
                // declares.
                unsafe {
                    Self {
                        $($name: std::mem::transmute::<
                            *mut c_void,
                            unsafe extern "C" fn($($arg),*) $(-> $result)?,
                        >(find(library, concat!(stringify!($name), "\0"))),)*
                    }
                }
            }
        }
    };
}

functions! {
    malloc(usize) -> *mut u8;
    calloc(usize, usize) -> *mut u8;
    realloc(*mut u8, usize) -> *mut u8;
    reallocarray(*mut u8, usize, usize) -> *mut u8;
    free(*mut u8);
    cfree(*mut u8);
    free_sized(*mut u8, usize);
    free_aligned_sized(*mut u8, usize, usize);
    aligned_alloc(usize, usize) -> *mut u8;
    memalign(usize, usize) -> *mut u8;
    posix_memalign(*mut *mut u8, usize, usize) -> c_int;
    valloc(usize) -> *mut u8;
    malloc_usable_size(*mut u8) -> usize;
    malloc_trim(usize) -> c_int;
}

fn find(library: *mut c_void, name: &str) -> *mut c_void {
    let name: *const c_char = name.as_ptr().cast();
    // SAFETY: a C string, and a library that is loaded.
    let address = unsafe { libc::dlsym(library, name) };
    // SAFETY: `name` is a string of C, by the caller's promise.
    assert!(!address.is_null(), "the library has no {:?}", unsafe {
        CStr::from_ptr(name)
    });
    address
}

impl Library {
    /// Loads it at the first call. Panics if it is not there.
    pub fn get(path: &str) -> Self {
        static FUNCTIONS: OnceLock<Functions> = OnceLock::new();
        Self(FUNCTIONS.get_or_init(|| {
            let path = CString::new(path).unwrap();
            // SAFETY: a C string. Its constructors only register.
            let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
            // SAFETY: dlerror has a text, as dlopen has just failed.
            assert!(!library.is_null(), "{:?}", unsafe {
                CStr::from_ptr(libc::dlerror())
            });
            let functions = Functions::find(library);
            let (ours, systems) = (
                functions.malloc as usize,
                libc::malloc as *const () as usize,
            );
            assert_ne!(ours, systems, "the fuzzer runs on the heap under test");
            functions
        }))
    }
}

/// Which of several ways to do it: always the same for the same request.
fn way(layout: Layout) -> usize {
    layout.size() / 8 % 4
}

// What is SAFETY below: any size and any power of two as alignment may be asked for; blocks are
// live ones from the oracle.
impl FrontEnd for Library {
    const EMPTY: bool = true;
    const TELLS_USABLE: bool = true;

    fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: the functions are the library's, with the types that they have in C. The
        // alignment is a power of two.
        let block = unsafe {
            match (align, way(layout)) {
                (..=16, _) => (self.0.malloc)(size),
                (4096, 0) => (self.0.valloc)(size),
                (_, 1) => (self.0.memalign)(align, size),
                (_, 2) => (self.0.aligned_alloc)(align, size),
                _ => {
                    let mut block = std::ptr::null_mut();
                    let result = (self.0.posix_memalign)(&mut block, align, size);
                    assert_eq!(result == 0, !block.is_null());
                    block
                }
            }
        };
        assert!(block.addr().is_multiple_of(16), "{block:p}");
        block
    }

    fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() > 16 {
            // C has no aligned calloc: cleared by the caller.
            let block = self.alloc(layout);
            if !block.is_null() {
                // SAFETY: the block has the layout's size.
                unsafe { block.write_bytes(0, layout.size()) };
            }
            return block;
        }
        let (count, size) = match layout.size() {
            size if size % 8 == 0 => (8, size / 8),
            size => (1, size),
        };
        // SAFETY: the function is the library's calloc, which asks nothing of its caller.
        unsafe { (self.0.calloc)(count, size) }
    }

    fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: `block` is a live block of this library, and the caller gives it up for the one
        // that it becomes.
        unsafe {
            match way(layout) {
                0 => (self.0.reallocarray)(block, 1, size),
                _ => (self.0.realloc)(block, size),
            }
        }
    }

    fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: `block` is a live block of this library, made with `layout`, and the caller gives
        // it up.
        unsafe {
            match way(layout) {
                0 => (self.0.cfree)(block),
                1 if layout.align() <= 16 => (self.0.free_sized)(block, layout.size()),
                1 => (self.0.free_aligned_sized)(block, layout.align(), layout.size()),
                2 => {
                    let none = (self.0.realloc)(block, 0);
                    assert!(none.is_null(), "realloc to nothing returned {none:p}");
                }
                _ => (self.0.free)(block),
            }
        }
    }

    fn usable(&self, block: *mut u8) -> Option<usize> {
        // SAFETY: `block` is a live block of this library.
        Some(unsafe { (self.0.malloc_usable_size)(block) })
    }

    fn realloc_align(&self, align: usize) -> usize {
        align.min(16)
    }
}

impl Fuzzed for Library {
    fn trim(&self) {
        // SAFETY: may be called at any time.
        unsafe { (self.0.malloc_trim)(0) };
    }
}
