//! What the behaviours share: blocks, errno, children, limits.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};

/// A block with its layout; freed when dropped.
pub struct Block {
    pub start: *mut u8,
    pub layout: Layout,
}

impl Block {
    fn of(start: *mut u8, layout: Layout) -> Option<Self> {
        (!start.is_null()).then_some(Self { start, layout })
    }

    pub fn new(size: usize, align: usize) -> Option<Self> {
        assert!(size > 0);
        let layout = Layout::from_size_align(size, align).expect("a layout");
        // SAFETY: the size is not 0.
        Self::of(unsafe { alloc(layout) }, layout)
    }

    pub fn zeroed(size: usize) -> Option<Self> {
        assert!(size > 0);
        let layout = Layout::from_size_align(size, 16).expect("a layout");
        // SAFETY: the size is not 0.
        Self::of(unsafe { alloc_zeroed(layout) }, layout)
    }

    pub fn filled(size: usize, value: u8) -> Self {
        let mut block = Self::new(size, 16).expect("memory");
        block.fill(value);
        block
    }

    fn bytes(&mut self) -> &mut [core::mem::MaybeUninit<u8>] {
        // SAFETY: the block is ours, and MaybeUninit asks for no contents.
        unsafe { core::slice::from_raw_parts_mut(self.start.cast(), self.layout.size()) }
    }

    pub fn fill(&mut self, value: u8) {
        self.bytes().fill(core::mem::MaybeUninit::new(value));
    }

    /// Whether its first `n` bytes, which were written, have this value.
    pub fn is_filled(&self, n: usize, value: u8) -> bool {
        assert!(n <= self.layout.size());
        // SAFETY: inside the block; the caller wrote them, or the allocator did.
        (0..n).all(|i| unsafe { self.start.add(i).read() } == value)
    }

    /// Resized; false: it stays as it was.
    pub fn resize(&mut self, size: usize) -> bool {
        let new = Layout::from_size_align(size, self.layout.align()).expect("a layout");
        // SAFETY: the block is live, of this layout, and the new size is not 0 and makes a layout.
        let start = unsafe { realloc(self.start, self.layout, size) };
        if start.is_null() {
            return false;
        }
        (self.start, self.layout) = (start, new);
        true
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: live, and allocated with this layout.
        unsafe { dealloc(self.start, self.layout) }
    }
}

/// Sizes of every kind of block, and pairs of them grown, cleared and freed.
pub fn use_every_size() {
    let mut size = 1;
    while size < 5 << 20 {
        let mut block = Block::filled(size, 1);
        let zeroed = Block::zeroed(size).expect("memory");
        let wide = Block::new(size, 256).expect("memory");
        assert!(block.resize(2 * size) && block.is_filled(size, 1));
        assert!(zeroed.is_filled(size, 0) && wide.start.addr().is_multiple_of(256));
        size = size * 5 + 1;
    }
}

pub fn set_errno(value: i32) {
    // SAFETY: the thread's own errno.
    unsafe { *libc::__errno_location() = value }
}

pub fn errno() -> i32 {
    // SAFETY: glibc gives the address of a word of the calling thread.
    unsafe { *libc::__errno_location() }
}

/// Runs `work` in a forked child, which has to end well.
pub fn in_child(work: impl FnOnce()) {
    // SAFETY: the child runs `work` and ends at once; what it may call is the subject of these
    // tests.
    let child = unsafe { libc::fork() };
    if child == 0 {
        work();
        // SAFETY: no preconditions. A panic ended the child by SIGABRT before.
        unsafe { libc::_exit(0) };
    }
    wait_for(child);
}

pub fn wait_for(child: libc::pid_t) {
    let mut status = -1;
    // SAFETY: the status is valid for the write.
    let waited = unsafe { libc::waitpid(child, &mut status, 0) };
    assert!(
        child > 0 && waited == child && status == 0,
        "the child ended with {status:#x}"
    );
}

/// Sets a soft limit.
pub fn limit(resource: libc::__rlimit_resource_t, bytes: u64) {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the struct is valid for both calls.
    unsafe {
        assert_eq!(libc::getrlimit(resource, &mut limit), 0);
        limit.rlim_cur = bytes;
        assert_eq!(libc::setrlimit(resource, &limit), 0);
    }
}

/// Installs a handler, for the thread's own stack or the alternate one.
pub fn on_signal(signal: i32, handler: extern "C" fn(i32), flags: i32) {
    // SAFETY: zeroes are a valid struct; the handler is a function of the right type.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(signal, &action, core::ptr::null_mut()), 0);
    }
}
