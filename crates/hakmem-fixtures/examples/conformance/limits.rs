//! The limits of the system: memory ends with a null pointer, what lives stays, and it comes back.

use crate::support::{Block, errno, limit, set_errno, wait_for};
use std::ffi::CString;

pub const ALL: &[crate::Behaviour] = crate::behaviours! {
    address_space_limit_ends_with_enomem_and_recovers
    address_space_limit_is_lowered_while_running
    reserved_address_space_is_not_charged
    many_small_blocks_end_with_enomem_and_recover
    map_count_limit_keeps_memory_usable
    mlockall_future_locks_what_is_used_alone
    small_programs_stay_small_with_huge_pages
};

const SIZE: usize = 1 << 20;
const COUNT: usize = 4096;

/// Takes blocks until there is no memory, or `most`. Their list has its room beforehand.
fn take(most: usize) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::with_capacity(COUNT);
    set_errno(libc::ENOMEM);
    while blocks.len() < most {
        let Some(mut block) = Block::new(SIZE, 16) else {
            assert_eq!(errno(), libc::ENOMEM);
            break;
        };
        block.fill(blocks.len() as u8);
        blocks.push(block);
    }
    blocks
}

fn check(blocks: &[Block]) {
    assert!(
        blocks
            .iter()
            .enumerate()
            .all(|(i, block)| block.is_filled(SIZE, i as u8))
    );
}

fn ends_and_recovers() {
    let mut blocks = take(COUNT);
    let n = blocks.len();
    assert!((100..COUNT).contains(&n), "{n} blocks");
    assert!(!blocks[0].resize(1 << 40));
    assert!(Vec::<u8>::new().try_reserve(1 << 40).is_err());
    check(&blocks);
    drop(blocks);
    assert_eq!(take(n * 3 / 4).len(), n * 3 / 4);
}

/// Runs this program anew: a limit is to be there from its start. True the second time.
fn restarted_with(name: &str, resource: libc::__rlimit_resource_t, bytes: u64) -> bool {
    if std::env::var_os("RESTARTED").is_some() {
        return true;
    }
    let path = CString::new("/proc/self/exe").expect("a path");
    let arguments =
        ["conformance", name, "hakmem"].map(|text| CString::new(text).expect("an argument"));
    let [program, name, door] = &arguments;
    // SAFETY: all pointers are to C strings, and the list ends with a null pointer.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            std::env::set_var("RESTARTED", "1");
            limit(resource, bytes);
            let end = core::ptr::null::<libc::c_char>();
            libc::execl(
                path.as_ptr(),
                program.as_ptr(),
                name.as_ptr(),
                door.as_ptr(),
                end,
            );
            libc::_exit(127);
        }
        wait_for(child);
    }
    false
}

fn address_space_limit_ends_with_enomem_and_recovers() {
    let name = "address_space_limit_ends_with_enomem_and_recovers";
    if restarted_with(name, libc::RLIMIT_AS, 400 << 20) {
        ends_and_recovers();
    }
}

/// RLIMIT_DATA counts what overcommit_memory=2 does: memory that can be written.
fn reserved_address_space_is_not_charged() {
    let name = "reserved_address_space_is_not_charged";
    if restarted_with(name, libc::RLIMIT_DATA, 200 << 20) {
        ends_and_recovers();
    }
}

fn address_space_limit_is_lowered_while_running() {
    let mut kept = Block::filled(SIZE, 0xAB);
    limit(libc::RLIMIT_AS, 64 << 20);
    // What was reserved before may well serve them all.
    let blocks = take(200);
    assert!(Block::new(1 << 44, 16).is_none());
    assert!(kept.resize(SIZE / 2) && kept.is_filled(SIZE / 2, 0xAB));
    check(&blocks);
    drop(blocks);
    limit(libc::RLIMIT_AS, libc::RLIM_INFINITY);
    assert!(Block::new(200 << 20, 16).is_some());
}

fn many_small_blocks_end_with_enomem_and_recover() {
    limit(libc::RLIMIT_DATA, 100 << 20);
    /// As many blocks of 200 bytes as there are, in a chain through their first words.
    fn count() -> usize {
        let (mut head, mut n) = (None::<Block>, 0);
        while let Some(block) = Block::new(200, 16) {
            let older = head.replace(block).map_or(core::ptr::null_mut(), |older| {
                let start = older.start;
                core::mem::forget(older);
                start
            });
            // SAFETY: the newest block's first word.
            unsafe {
                head.as_ref()
                    .expect("just made")
                    .start
                    .cast::<*mut u8>()
                    .write(older)
            };
            n += 1;
        }
        while let Some(block) = head {
            // SAFETY: its first word is the next block, of the same layout, or null.
            let next = unsafe { block.start.cast::<*mut u8>().read() };
            let layout = block.layout;
            drop(block);
            head = (!next.is_null()).then_some(Block {
                start: next,
                layout,
            });
        }
        n
    }
    let (first, second) = (count(), count());
    assert!(
        first > 50 << 20 >> 8 && second >= first * 9 / 10,
        "{first}, then {second}"
    );
}

fn map_count_limit_keeps_memory_usable() {
    const MAPS: usize = 200_000;
    const PAGE: usize = 4096;
    const LARGE: usize = 3 << 20;
    let mut kept: Vec<Option<Block>> = (0..64).map(|i| Some(Block::filled(LARGE, i))).collect();
    let protect = |at: *mut libc::c_void, rights| {
        // SAFETY: a page of the map below, which nobody uses.
        unsafe { libc::mprotect(at, PAGE, rights) }
    };
    // SAFETY: a new map.
    let foreign = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        libc::mmap(
            core::ptr::null_mut(),
            MAPS * PAGE,
            libc::PROT_NONE,
            flags,
            -1,
            0,
        )
    };
    assert_ne!(foreign, libc::MAP_FAILED);
    // Every other page readable: neighbours with different rights do not join.
    let full = (0..MAPS / 2)
        .any(|i| protect(foreign.wrapping_byte_add(2 * i * PAGE), libc::PROT_READ) != 0);
    assert!(full, "there is no limit on maps here");
    for block in kept.iter_mut().step_by(2) {
        set_errno(789);
        drop(block.take());
        assert_eq!(errno(), 789);
    }
    let mut size = 1;
    while size < 64 << 20 {
        // It may fail, but not harm.
        if let Some(mut block) = Block::new(size, 16) {
            block.fill(1);
        }
        size = size * 3 + 1;
    }
    hakmem_core::c::trim();
    for (i, block) in kept.iter().enumerate() {
        assert!(
            block
                .as_ref()
                .is_none_or(|block| block.is_filled(LARGE, i as u8))
        );
    }
    // SAFETY: the map from above.
    assert_eq!(unsafe { libc::munmap(foreign, MAPS * PAGE) }, 0);
    assert!(Block::zeroed(LARGE).expect("memory").is_filled(LARGE, 0));
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the process's status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let value = line.and_then(|line| line.split_whitespace().next());
    value.and_then(|value| value.parse().ok()).expect("VmRSS")
}

fn mlockall_future_locks_what_is_used_alone() {
    // SAFETY: no preconditions.
    assert_eq!(unsafe { libc::mlockall(libc::MCL_FUTURE) }, 0);
    for _ in 0..3 {
        let mut size = 1;
        while size < 3 << 20 {
            let block = Block::filled(size, 0xFF);
            let mut zeroed = Block::zeroed(size).expect("memory");
            assert!(zeroed.is_filled(size, 0) && block.is_filled(size, 0xFF));
            zeroed.fill(0xFF);
            size = size * 3 + 1;
        }
    }
    assert!(resident_kib() < 100 << 10);
}

fn small_programs_stay_small_with_huge_pages() {
    let blocks: Vec<Block> = (0..3000).map(|i| Block::filled(i % 500 + 1, 1)).collect();
    assert!(resident_kib() < 16 << 10);
    drop(blocks);
}
