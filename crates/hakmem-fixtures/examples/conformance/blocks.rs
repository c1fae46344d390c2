//! What single blocks promise.

use crate::support::{Block, errno, set_errno};
use std::alloc::{Layout, alloc, alloc_zeroed};
use std::hint::black_box;

pub const ALL: &[crate::Behaviour] = crate::behaviours! {
    requests_above_ptrdiff_max_fail_with_enomem
    failed_realloc_keeps_the_block
    free_preserves_errno
    free_preserves_errno_when_the_system_refuses
    alignments_are_met
    calloc_clears_recycled_memory
    calloc_clears_locked_memory
    blocks_lie_below_47_bits
    containers_and_threads_share_blocks
};

/// No layout is larger than isize::MAX; those that come near it are refused, as are containers
/// beyond.
fn requests_above_ptrdiff_max_fail_with_enomem() {
    let most = isize::MAX as usize;
    for (size, align) in [
        (most, 1),
        (most - 15, 16),
        (most - 4095, 4096),
        ((1 << 62) + 1, 1 << 61),
    ] {
        let layout = Layout::from_size_align(size, align).expect("a layout");
        set_errno(0);
        // SAFETY: the size is not 0.
        let (plain, zeroed) =
            unsafe { (black_box(alloc(layout)), black_box(alloc_zeroed(layout))) };
        assert!(plain.is_null() && zeroed.is_null() && errno() == libc::ENOMEM);
    }
    let mut bytes = vec![7u8; 100];
    assert!(bytes.try_reserve_exact(most - 100).is_err());
    assert!(bytes.try_reserve_exact(usize::MAX).is_err());
    assert_eq!(bytes, [7; 100]);
}

fn failed_realloc_keeps_the_block() {
    let mut size = 1;
    while size < 8 << 20 {
        let mut block = Block::filled(size, 0x7E);
        assert!(!block.resize(isize::MAX as usize - 15));
        assert!(!block.resize(1 << 50));
        assert!(block.is_filled(size, 0x7E));
        size = size * 5 + 1;
    }
}

/// `std::io::Error::last_os_error` is often read after something was dropped.
fn free_preserves_errno() {
    let mut size = 1;
    while size < 100 << 20 {
        let block = Block::filled(size, 1);
        set_errno(789);
        drop(block);
        assert_eq!(errno(), 789);
        size = size * 7 + 3;
    }
}

/// Locked pages are not given back. The block is one of zeros: hakmem asks for no huge pages there,
/// and what has them goes back by a fresh map, which the system does not refuse.
fn free_preserves_errno_when_the_system_refuses() {
    let block = Block::zeroed(100 << 20).expect("memory");
    let at = block.start.wrapping_add(1 << 20).cast();
    // SAFETY: inside the block.
    assert_eq!(unsafe { libc::mlock(at, 4096) }, 0);
    let failures = || {
        let stats = hakmem_core::stats::process();
        stats.syscalls().map(|call| call.failures).sum::<u64>()
    };
    let before = failures();
    set_errno(789);
    drop(block);
    assert_eq!(errno(), 789);
    assert!(failures() > before, "the system refused nothing");
    let zeroed = Block::zeroed(100 << 20).expect("memory");
    assert!(zeroed.is_filled(100 << 20, 0));
}

fn alignments_are_met() {
    for align in (0..27).map(|shift| 1usize << shift) {
        for size in [1, 3, 8, 24, 100, 1000, 5000, 70_000, 200_000] {
            let mut block = Block::new(size, align).expect("memory");
            assert!(block.start.addr().is_multiple_of(align));
            block.fill(3);
            assert!(block.resize(size * 2) && block.start.addr().is_multiple_of(align));
            assert!(block.is_filled(size, 3));
        }
    }
}

fn calloc_clears_recycled_memory() {
    for _ in 0..3 {
        let mut size = 1;
        while size < 40 << 20 {
            drop(Block::filled(size, 0xFF));
            let mut block = Block::zeroed(size).expect("memory");
            assert!(block.is_filled(size, 0));
            block.fill(0xFF);
            drop(block);
            hakmem_core::c::trim();
            let mut block = Block::zeroed(size).expect("memory");
            assert!(block.is_filled(size, 0));
            block.fill(0xFF);
            size = size * 3 + 1;
        }
    }
}

fn calloc_clears_locked_memory() {
    for size in [5000, 60_000, 300_000, 2 << 20, 5 << 20] {
        let block = Block::filled(size, 0xFF);
        // SAFETY: the block's own memory.
        assert_eq!(unsafe { libc::mlock(block.start.cast(), size) }, 0);
        drop(block);
        hakmem_core::c::trim();
        let zeroed = Block::zeroed(size).expect("memory");
        assert!(zeroed.is_filled(size, 0));
        drop(zeroed);
        // SAFETY: no preconditions.
        unsafe { libc::munlockall() };
    }
}

fn blocks_lie_below_47_bits() {
    let mut size = 1usize;
    while size < 1 << 32 {
        let block = Block::new(size, 8).expect("memory");
        assert_eq!((block.start.addr() + size) >> 47, 0);
        size = size * 5 + 1;
    }
}

fn containers_and_threads_share_blocks() {
    let words: Vec<String> =
        std::thread::spawn(|| (0..20_000).map(|i| format!("word {i}")).collect())
            .join()
            .expect("a thread");
    assert!(
        words
            .iter()
            .enumerate()
            .all(|(i, word)| *word == format!("word {i}"))
    );
}
