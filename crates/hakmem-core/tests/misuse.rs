//! Errors of a program that are seen: each ends it by SIGABRT, with one line that names the pointer
//! and the cause.
//!
//! A misuse runs in a process of its own: this program again, with the misuse's name in the
//! environment.

use crate::oracle;
use hakmem_core::{Hakmem, c};
use std::alloc::{GlobalAlloc, Layout};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

const NAME: &str = "TEST_HAKMEM_MISUSE";
const SLOT: usize = 64 << 10;
const HARDENED: bool = cfg!(feature = "hardened");
/// Bytes of each block for its tag.
const BEHIND: usize = if HARDENED { 8 } else { 0 };

fn take(n: usize) -> *mut u8 {
    // SAFETY: any size may be asked for.
    unsafe { c::malloc(n) }
}

fn free(p: *mut u8) {
    // SAFETY: none: that is what is tried.
    unsafe { c::free(p) }
}

fn free_elsewhere(blocks: &[*mut u8]) {
    let addresses: Vec<usize> = blocks.iter().map(|p| p.expose_provenance()).collect();
    let freer = move || {
        addresses
            .into_iter()
            .for_each(|a| free(std::ptr::with_exposed_provenance_mut(a)))
    };
    std::thread::spawn(freer).join().unwrap();
}

/// Makes the pages of `size` change hands: what is wrong with a list shows when it does.
fn go_on(size: usize) {
    for _ in 0..200 {
        let blocks: Vec<_> = (0..SLOT / size).map(|_| take(size)).collect();
        blocks.into_iter().for_each(free);
    }
}

/// Pages of blocks of 64 bytes become empty, each with a wrong link in one of them: as many as it
/// takes for one to be walked to its end. `link` makes it of the blocks that were freed before the
/// last.
fn overwritten_after_free(link: fn(&[*mut u8]) -> usize) {
    let mut pages = std::collections::BTreeMap::<usize, Vec<*mut u8>>::new();
    for p in (0..260 * SLOT / 64).map(|_| take(64 - BEHIND)) {
        pages.entry(p.addr() / SLOT).or_default().push(p);
    }
    for blocks in pages.values().filter(|blocks| blocks.len() == SLOT / 64) {
        let (last, others) = blocks.split_last().unwrap();
        others.iter().for_each(|&p| free(p));
        // SAFETY: none: that is what is tried.
        unsafe { others[others.len() / 2].cast::<usize>().write(link(others)) };
        free(*last);
    }
}

/// Two blocks of 256 bytes in each of eight pages stay, so that the pages are looked through to
/// give the rest back; then one of the free ones has a wrong link. It gets the pages' first free
/// blocks and where they end.
fn overwritten_in_a_parked_page(link: fn(*mut u8, usize) -> usize) {
    let mut pages = std::collections::BTreeMap::<usize, Vec<*mut u8>>::new();
    for p in (0..9 * SLOT / 256).map(|_| take(256)) {
        pages.entry(p.addr() / SLOT).or_default().push(p);
    }
    for (page, blocks) in pages.into_iter().take(8) {
        blocks[2..].iter().for_each(|&p| free(p));
        let first = *blocks.last().unwrap();
        let wrong = link(first, (page + 1) * SLOT);
        // SAFETY: none: that is what is tried.
        unsafe { blocks[blocks.len() - 20].cast::<usize>().write(wrong) };
    }
    c::trim();
}

/// Of a size that only the front end for Rust has.
fn take_odd(words: usize) -> *mut u8 {
    // SAFETY: the size is not 0.
    unsafe { Hakmem.alloc(Layout::array::<u64>(words).unwrap()) }
}

fn free_odd(p: *mut u8, words: usize) {
    // SAFETY: none: that is what is tried.
    unsafe { Hakmem.dealloc(p, Layout::array::<u64>(words).unwrap()) }
}

/// Another thread frees them.
fn free_odd_elsewhere(blocks: &[*mut u8], words: usize) {
    let addresses: Vec<usize> = blocks.iter().map(|p| p.expose_provenance()).collect();
    let freer = move || {
        for address in addresses {
            free_odd(std::ptr::with_exposed_provenance_mut(address), words);
        }
    };
    std::thread::spawn(freer).join().unwrap();
}

/// What is on the lists is handed out, and what others freed is merged.
fn go_on_odd(words: usize) {
    for _ in 0..4 {
        let blocks: Vec<_> = (0..SLOT / words / 8).map(|_| take_odd(words)).collect();
        blocks.into_iter().for_each(|p| free_odd(p, words));
    }
}

fn eight_bytes_by_two_others(between: bool) {
    let [p, q] = [(); 2].map(|()| take_odd(1));
    let freed: &[_] = if between { &[p, q, p] } else { &[p, p] };
    free_odd_elsewhere(freed, 1);
    go_on_odd(1);
}

/// Of three that are on their way to their owner, the one in the middle leads elsewhere.
fn eight_bytes_overwritten_on_their_way(link: fn(*mut u8) -> usize) {
    let blocks = [(); 3].map(|()| take_odd(1));
    free_odd_elsewhere(&blocks, 1);
    // SAFETY: none: that is what is tried.
    unsafe { blocks[1].cast::<usize>().write(link(blocks[1])) };
    go_on_odd(1);
}

/// What the other thread writes into the block, for it to travel, is taken for a link when the
/// block is handed out.
fn eight_bytes_by_its_owner_and_another() {
    let blocks = [(); 9].map(|()| take_odd(1));
    blocks.iter().for_each(|&p| free_odd(p, 1));
    let taken = std::iter::repeat_with(|| take_odd(1)).find(|p| blocks.contains(p));
    // The others are in the list that it came from, blocks[0] as the last.
    assert_eq!(taken, Some(blocks[8]));
    free_odd_elsewhere(&[blocks[3]], 1);
    go_on_odd(1);
}

/// The block behind lies in its owner's list, and a batch's second word would lie in its first.
fn inner_pointer_of_24_bytes_by_another() {
    let blocks = [(); 9].map(|()| take_odd(3));
    let inner = |p: &*mut u8| p.addr().is_multiple_of(16);
    let at = blocks[1..7].iter().position(inner).expect("every other") + 1;
    free_odd(blocks[at + 1], 3);
    free_odd_elsewhere(&[blocks[at].wrapping_add(16)], 3);
    go_on_odd(3);
}

/// A block that another thread freed is on its way to its owner, and says what comes behind it.
fn overwritten_on_its_way(link: fn(*mut u8) -> usize) {
    let p = take(64);
    free_elsewhere(&[p]);
    // SAFETY: none: that is what is tried. One block, and the link.
    unsafe { p.cast::<usize>().add(1).write(1 << 48 | link(p)) };
    go_on(64);
}

const NOTHING: &str = "invalid pointer {p}: nothing is allocated there (double free?)";
const INSIDE_WHOLE: &str = "invalid pointer {p}: inside the allocation that starts at {p}";
const INSIDE_PAGE: &str =
    "invalid pointer {p}: inside a page of 64-byte blocks, not at the start of a live one";
const INSIDE_MEDIUM: &str =
    "invalid pointer {p}: inside a page of 12288-byte blocks, not at the start of a live one";
const TWICE: &str = "double free of {p}, a block of 64 bytes";
const CORRUPT: &str =
    "corrupt free list at {p}: a block was freed twice or written to after it was freed";

fn usable(p: *mut u8) {
    // SAFETY: none: that is what is tried.
    unsafe { c::usable_size(p) };
}

fn twice(n: usize) {
    let p = take(n);
    free(p);
    free(p);
}

/// The block is neither its page's only one nor, as it is freed, the only one at hand.
fn medium_twice() {
    let p = take(12_000);
    while take(12_000).addr() / (8 * SLOT) == p.addr() / (8 * SLOT) {}
    c::trim();
    free(p);
    free(p);
}

/// A list of blocks of 12,000 bytes keeps one at first. The others go to their page. The second
/// free of such a block puts it onto the list, which has room again, and cuts the list of the page.
fn medium_twice_past_a_full_list() {
    let blocks = [(); 4].map(|()| take(12_000));
    c::trim();
    blocks.iter().for_each(|&p| free(p));
    assert_eq!(take(12_000), blocks[0]);
    free(blocks[3]);
    (0..50).for_each(|_| _ = take(12_000));
}

/// The second free finds the list of 21 blocks full. Of it a run of one page goes to that page, and
/// the block would be there twice.
fn medium_twice_as_the_list_fills() {
    for _ in 0..8 {
        let blocks = [(); 100].map(|()| take(12_000));
        c::trim();
        blocks.iter().for_each(|&p| free(p));
    }
    let blocks = [(); 100].map(|()| take(12_000));
    c::trim();
    let [p, q] = [blocks[0], blocks[1]];
    blocks[2..21]
        .iter()
        .chain([&p, &q, &p])
        .for_each(|&p| free(p));
}

/// The block is of a page of another thread. This thread keeps one block of such a size.
fn larger_of_another_twice(is_full: bool) {
    free(take(64));
    if is_full {
        free(take(12_000));
    }
    let p = oracle::elsewhere(|| take(12_000).expose_provenance());
    let p = std::ptr::with_exposed_provenance_mut(p);
    free(p);
    free(p);
}

fn small_twice(between: usize) {
    let [_, p, others @ ..] = [(); 6].map(|()| take(64));
    free(p);
    others[..between].iter().for_each(|&q| free(q));
    free(p);
    // Without another in between it is seen by now.
    if between > 0 {
        go_on(64);
    }
}

/// Has a thread that shares do something with a block of 64 bytes of a shared page.
fn shared(misuse: fn(*mut u8)) {
    hakmem_core::options::set("SHARED_FROM_HEAPS", "1").unwrap();
    // So that the page does not become empty.
    let _other = take(64);
    let thread = std::thread::spawn(move || {
        let _first = take(64);
        misuse(take(64));
    });
    thread.join().unwrap();
}

/// By another thread, which frees others before and in between.
fn of_another_twice_at_the_end() {
    let [p, q, r] = [(); 3].map(|()| take(64));
    free_elsewhere(&[p, q, r, r]);
}

/// The last block of a page of which few were handed out.
fn never_handed_out() -> *mut u8 {
    take(64).map_addr(|a| a & !(SLOT - 1) | (SLOT - 64))
}

fn of_another_twice(at_once: bool) {
    // As many as not to be seen where a list begins.
    let blocks = [(); 5].map(|()| take(64));
    if at_once {
        return free_elsewhere(&[blocks[0]; 2]);
    }
    c::trim();
    // Not the one that was freed first again, which is on top of what travels.
    free_elsewhere(&[&blocks[..], &blocks[1..]].concat());
    go_on(64);
}

/// Of pages that few blocks are out of, and that are nobody's until they are wanted again.
fn of_a_parked_page_twice() {
    let mut pages = std::collections::BTreeMap::<usize, Vec<*mut u8>>::new();
    for p in (0..9 * SLOT / 64).map(|_| take(64)) {
        pages.entry(p.addr() / SLOT).or_default().push(p);
    }
    pages.pop_last(); // The current one.
    for blocks in pages.values() {
        blocks[5..].iter().for_each(|&p| free(p));
    }
    c::trim();
    let first = pages.pop_first().unwrap().1;
    free_elsewhere(&[&first[..5], &first[1..5]].concat());
    c::trim();
}

/// What is done wrong, and what is said of it, with `{p}` for every pointer.
const MISUSES: [(&str, fn(), &str); 45] = [
    (
        "a medium block twice, first past a full list",
        medium_twice_past_a_full_list,
        CORRUPT,
    ),
    (
        "16 bytes into a block of another thread's",
        || free_elsewhere(&[take(64).wrapping_add(16)]),
        INSIDE_PAGE,
    ),
    (
        "16 bytes into one that is not the first to travel",
        || free_elsewhere(&[take(64), take(64).wrapping_add(16)]),
        INSIDE_PAGE,
    ),
    (
        "16 bytes into a medium block",
        || free(take(12_000).wrapping_add(16)),
        INSIDE_MEDIUM,
    ),
    (
        "a medium block in its second slot",
        || free([(); 6].map(|()| take(12_000))[5].map_addr(|a| a & !(SLOT - 1) | 16)),
        INSIDE_MEDIUM,
    ),
    (
        "of another thread's, never handed out",
        || {
            free_elsewhere(&[never_handed_out()]);
            go_on(64);
        },
        "invalid pointer {p}: that block was never handed out",
    ),
    (
        "another's block twice, after others",
        of_another_twice_at_the_end,
        TWICE,
    ),
    (
        "a medium block twice in a row, after others",
        || {
            let blocks = [(); 4].map(|()| take(12_000));
            blocks.iter().for_each(|&p| free(p));
            free(blocks[3]);
        },
        "double free of {p}, a block of 12288 bytes",
    ),
    (
        "inside a block",
        || free(take(64).wrapping_add(8)),
        INSIDE_PAGE,
    ),
    (
        "inside a medium block",
        || free(take(12_000).wrapping_add(8)),
        INSIDE_MEDIUM,
    ),
    (
        "inside a large block",
        || free(take(3 * SLOT).wrapping_add(16)),
        INSIDE_WHOLE,
    ),
    (
        "a later slot of a large block",
        || free(take(3 * SLOT).wrapping_add(SLOT)),
        NOTHING,
    ),
    (
        "inside a huge block",
        || free(take(40 * SLOT).wrapping_add(4096)),
        INSIDE_WHOLE,
    ),
    (
        "a later segment of a huge block",
        || free(take(70 * SLOT).wrapping_add(32 * SLOT)),
        NOTHING,
    ),
    (
        "the size inside a large block",
        || usable(take(3 * SLOT).wrapping_add(16)),
        INSIDE_WHOLE,
    ),
    (
        "the size inside a huge block",
        || usable(take(40 * SLOT).wrapping_add(16)),
        INSIDE_WHOLE,
    ),
    (
        "the size of a huge block's later slot",
        || usable(take(40 * SLOT).wrapping_add(SLOT)),
        NOTHING,
    ),
    (
        "never handed out",
        || free(take(64).wrapping_add(1 << 30)),
        NOTHING,
    ),
    ("a large block twice", || twice(3 * SLOT), NOTHING),
    ("a huge block twice", || twice(40 * SLOT), NOTHING),
    (
        "the only block twice",
        || {
            let p = take(64);
            c::trim();
            free(p);
            free(p);
        },
        INSIDE_PAGE,
    ),
    ("twice at once", || small_twice(0), TWICE),
    (
        "a shared block twice",
        || shared(|p| [(); 2].map(|()| free(p)).into_iter().collect()),
        TWICE,
    ),
    (
        "inside a shared block",
        || shared(|p| free(p.wrapping_add(16))),
        INSIDE_PAGE,
    ),
    ("twice with one between", || small_twice(1), TWICE),
    (
        "a medium block twice",
        medium_twice,
        "double free of {p}, a block of 12288 bytes",
    ),
    (
        "a medium block twice, as the list fills",
        medium_twice_as_the_list_fills,
        "double free of {p}, a block of 12288 bytes",
    ),
    (
        "another's medium block twice",
        || larger_of_another_twice(false),
        "double free of {p}, a block of 12288 bytes",
    ),
    (
        "another's medium block twice, on a full list",
        || larger_of_another_twice(true),
        "double free of {p}, a block of 12288 bytes",
    ),
    ("another's block twice", || of_another_twice(true), TWICE),
    (
        "more frees by another than blocks",
        || of_another_twice(false),
        TWICE,
    ),
    (
        "more frees by another than blocks of a parked page",
        of_a_parked_page_twice,
        TWICE,
    ),
    (
        "eight bytes twice by another",
        || eight_bytes_by_two_others(false),
        "double free of {p}, a block of 8 bytes",
    ),
    (
        "eight bytes twice by another with one between",
        || eight_bytes_by_two_others(true),
        CORRUPT,
    ),
    (
        "eight bytes on their way lead out of the page",
        || eight_bytes_overwritten_on_their_way(|p| p.expose_provenance() + 16 * SLOT),
        CORRUPT,
    ),
    (
        "eight bytes on their way lead into a block",
        || eight_bytes_overwritten_on_their_way(|p| p.expose_provenance() + 4),
        CORRUPT,
    ),
    (
        "inside 24 bytes by another",
        inner_pointer_of_24_bytes_by_another,
        "invalid pointer {p}: inside a page of 24-byte blocks, not at the start of a live one",
    ),
    (
        "written after it was freed",
        || overwritten_after_free(|_| 64),
        CORRUPT,
    ),
    (
        "a free block of a parked page leads to the first",
        || overwritten_in_a_parked_page(|first, _| first.expose_provenance()),
        CORRUPT,
    ),
    (
        "a free block of a parked page leads out of it",
        || overwritten_in_a_parked_page(|_, end| end),
        CORRUPT,
    ),
    (
        "cut off after it was freed",
        || overwritten_after_free(|_| 0),
        CORRUPT,
    ),
    (
        "led back after it was freed",
        || overwritten_after_free(|freed| freed.last().unwrap().expose_provenance()),
        CORRUPT,
    ),
    (
        "on its way, before what is no page",
        || overwritten_on_its_way(|_| 0x4141_4141_4141),
        CORRUPT,
    ),
    (
        "on its way, before what lies at an odd address",
        || overwritten_on_its_way(|p| p.expose_provenance() + 1),
        CORRUPT,
    ),
    (
        "on its way, before what lies outside",
        || overwritten_on_its_way(|_| 0x4141_4141_4140),
        CORRUPT,
    ),
];

/// What is done wrong and seen as the program goes on with blocks of that size, here or there: so
/// long that a list with the wrong block has been walked for certain, whatever was drawn (some
/// thirty of those that have it are).
const LATER: [(&str, fn()); 4] = [
    ("twice with two between", || small_twice(2)),
    ("twice with four between", || small_twice(4)),
    ("16 bytes into a block", || {
        free(take(64).wrapping_add(16));
        (0..15).for_each(|_| go_on(64));
    }),
    ("never handed out, by its own thread", || {
        free(never_handed_out());
        (0..15).for_each(|_| go_on(64));
    }),
];

/// What is done wrong and not always seen: the process ends by SIGABRT with one line, or goes on.
const CONFINED: [(&str, fn()); 1] = [(
    "eight bytes by its owner and another",
    eight_bytes_by_its_owner_and_another,
)];

/// The line with `{p}` for every pointer.
fn without_pointers(line: &str) -> String {
    line.split(' ')
        .map(|word| {
            let bare = word.trim_end_matches([':', ',']);
            if bare.starts_with("0x") {
                word.replace(bare, "{p}")
            } else {
                word.to_owned()
            }
        })
        .collect::<Vec<_>>()
        .join(" ")
}

/// Makes the misuse in a process of its own: how that ended, and what it said.
fn ending(test: &str, misuse: &str) -> (ExitStatus, Vec<String>) {
    let mut command = oracle::this_program();
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(NAME, misuse);
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    // An emulator says of a signal that it ended the program.
    let lines = stderr.lines().filter(|line| !line.starts_with("qemu: "));
    (output.status, lines.map(without_pointers).collect())
}

/// True if `lines` report an error: what was seen, then its place, the thread and its stack.
fn is_report(lines: &[String]) -> bool {
    let is_detail = |line: &String| {
        [
            "{p} ",
            "the write was earlier",
            "the free may have been earlier",
            "thread ",
            "    ",
        ]
        .iter()
        .any(|start| line["hakmem: ".len()..].starts_with(start))
    };
    !lines.is_empty()
        && lines.iter().all(|line| line.starts_with("hakmem: "))
        && lines.iter().skip(1).all(is_detail)
}

/// In such a process: makes it.
fn is_made(mut misuses: impl Iterator<Item = (&'static str, fn())>) -> bool {
    let Ok(name) = std::env::var(NAME) else {
        return false;
    };
    misuses.find(|m| m.0 == name).expect("one of that name").1();
    true
}

#[test]
#[cfg_attr(feature = "bench-fast", ignore = "nothing is looked for")]
fn misuses_are_named() {
    if is_made(MISUSES.iter().map(|m| (m.0, m.1))) {
        return;
    }
    let mut wrong = Vec::new();
    for (name, _, expected) in MISUSES {
        let (status, lines) = ending("misuse::misuses_are_named", name);
        // The hardened build finds the most of them sooner, and in other words.
        let is_named = is_report(&lines) && (HARDENED || lines[0] == format!("hakmem: {expected}"));
        if status.signal() != Some(libc::SIGABRT) || !is_named {
            wrong.push(format!("{name}: {status} {lines:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
#[cfg_attr(feature = "bench-fast", ignore = "nothing is looked for")]
fn misuses_are_seen_later() {
    if is_made(LATER.into_iter()) {
        return;
    }
    for (name, _) in LATER {
        for _ in 0..5 {
            let (status, lines) = ending("misuse::misuses_are_seen_later", name);
            assert!(
                status.signal() == Some(libc::SIGABRT) && is_report(&lines),
                "{name}: {status} {lines:?}"
            );
        }
    }
}

#[test]
#[cfg_attr(feature = "hardened", ignore = "no block has 8 bytes")]
#[cfg_attr(feature = "bench-fast", ignore = "nothing is looked for")]
fn misuses_are_confined() {
    if is_made(CONFINED.into_iter()) {
        return;
    }
    for (name, _) in CONFINED {
        let (status, lines) = ending("misuse::misuses_are_confined", name);
        let refused = status.signal() == Some(libc::SIGABRT) && is_report(&lines);
        assert!(
            status.success() && lines.is_empty() || refused,
            "{name}: {status} {lines:?}"
        );
    }
}
