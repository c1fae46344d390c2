//! Tests of the Linux functions against the kernel that runs them.

extern crate std;

use super::*;
use crate::base::sync::{AtomicU32, AtomicUsize, Ordering::*};
use crate::testing::in_child;
use core::ffi::c_void;
use std::os::fd::AsRawFd;
use std::{env, ffi::CString, fs, process, string::String, thread, vec, vec::Vec};

const LEN: usize = 64 << 10;

/// A committed range, with a 1 in the first byte of each system page.
fn written() -> usize {
    let start = reserve(LEN).unwrap();
    assert!(commit(start, LEN));
    write(start);
    start
}
fn write(start: usize) {
    for offset in (0..LEN).step_by(page_size()) {
        // SAFETY: the caller committed the range, and no other thread has its address.
        unsafe { at(start + offset).write(1) };
    }
}
fn sum(start: usize) -> usize {
    // SAFETY: the caller committed the range, and no other thread has its address.
    (0..LEN)
        .step_by(page_size())
        .map(|offset| usize::from(unsafe { at(start + offset).read() }))
        .sum()
}
fn pages() -> usize {
    LEN / page_size()
}

/// The kernel's version.
fn kernel() -> (u32, u32) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

#[test]
fn memory_given_back_is_zero() {
    let start = written();
    assert_eq!(sum(start), pages());
    assert!(purge(start, LEN));
    assert_eq!(sum(start), 0);
    assert!(unreserve(start, LEN));
    assert!(!purge(start, LEN), "nothing is there");
}

#[test]
fn memory_decommitted_is_zero_once_it_is_accessible() {
    let start = written();
    assert!(decommit(start, LEN));
    assert!(!populate(start, LEN), "it is inaccessible");
    assert!(commit(start, LEN));
    assert_eq!(sum(start), 0);
    write(start);
    assert_eq!(sum(start), pages());
    assert!(!decommit(start + 1, LEN), "not whole pages");
    assert!(unreserve(start, LEN));
}

#[test]
fn what_is_resident_is_seen() {
    let start = written();
    let map = Pagemap::open().unwrap();
    let resident_pages = || {
        let mut all = [Page::Absent; LEN / 4096];
        assert!(map.read(start, &mut all[..pages()]));
        all.iter().filter(|&&page| page == Page::Resident).count()
    };
    assert_eq!(resident_pages(), pages());
    assert!(purge(start, LEN));
    assert_eq!(resident_pages(), 0);
    // Older kernels do not know MADV_POPULATE_WRITE.
    let populated = populate(start, LEN);
    assert_eq!(populated, kernel() >= (5, 14));
    assert_eq!(resident_pages(), if populated { pages() } else { 0 });
    assert!(unreserve(start, LEN));
    assert_eq!(resident_pages(), 0, "nothing is there");
    assert!(!map.read(usize::MAX - 4096, &mut [Page::Absent; 4]), "nor could be");
}

/// The library stands in front of what makes filters: then mincore answers, and no other thread of
/// the program finds a descriptor of hakmem's.
#[test]
fn without_a_filter_no_file_says_what_is_resident() {
    in_child(|| {
        filter::forget();
        if filter::inherits_filter() == Some(true) {
            return; // As in a container.
        }
        see_filters();
        let lowest = || fs::File::open("/dev/null").unwrap().as_raw_fd();
        let (start, free) = (written(), lowest());
        let map = Pagemap::open().unwrap();
        assert_eq!(lowest(), free);
        let mut all = [Page::Swapped; LEN / 4096];
        let all = &mut all[..pages()];
        assert!(map.read(start, all) && all.iter().all(|&page| page == Page::Resident));
        assert!(purge(start, LEN));
        assert!(map.read(start, all) && all.iter().all(|&page| page == Page::Absent));
        assert!(unreserve(start, LEN) && !map.read(start, all), "nothing is there");
        each_page();
        drop(map);
        allow_all();
        filter::forget();
        let map = Pagemap::open().unwrap();
        assert_ne!(lowest(), free, "a filter may know no mincore");
        drop(map);
        assert_eq!(lowest(), free);
    });
}

/// With more system pages than one call reads.
#[test]
fn each_page_has_its_own_place() {
    each_page();
}

fn each_page() {
    const MANY: usize = 300;
    let len = MANY * page_size();
    let start = map_memory(len).unwrap();
    assert!(refuse_thp(start, len));
    let is_written = |page: usize| page.is_multiple_of(3) || page == 128;
    for page in (0..MANY).filter(|&page| is_written(page)) {
        // SAFETY: `map_memory` made these bytes writable, and no other thread has their address.
        unsafe { at(start + page * page_size()).write(1) };
    }
    let mut all = [Page::Swapped; MANY];
    assert!(Pagemap::open().unwrap().read(start, &mut all));
    for (page, what) in all.iter().enumerate() {
        assert_eq!(*what, if is_written(page) { Page::Resident } else { Page::Absent }, "{page}");
    }
    assert!(unreserve(start, len));
}

#[test]
fn no_descriptor_stays_open() {
    in_child(|| {
        let open = || fs::read_dir("/proc/self/fd").unwrap().count();
        let before = open();
        for _ in 0..10 {
            assert!(Pagemap::open().unwrap().read(LEN, &mut [Page::Absent]));
        }
        assert_eq!(open(), before);
    });
}

#[test]
fn a_process_with_a_filter_asks_for_nothing_that_it_can_do_without() {
    in_child(|| {
        let known = (physical_memory(), address_limit());
        let asks = || {
            let word = 1u64;
            let mut to = [0; 8];
            let copied = copy_readable((&raw const word).addr(), &mut to) > 0;
            [Pagemap::open().is_some(), copied, read_file(c"/proc/self/maps", &mut to) > 0]
        };
        assert_eq!(asks(), [true; 3]);
        set_filtered(true);
        assert!(is_filtered());
        assert_eq!(asks(), [false; 3]);
        assert_eq!((physical_memory(), address_limit()), (4 << 30, usize::MAX));
        set_filtered(false);
        assert_eq!(asks(), [true; 3]);
        assert_eq!((physical_memory(), address_limit()), known);
    });
}

/// Containers give their programs filters. This one allows all calls, past what hakmem sees.
#[test]
fn a_process_that_inherited_a_filter_asks_by_files() {
    in_child(|| {
        let word = 0x1234_5678_u64;
        let copy = || {
            let mut to = [0; 8];
            assert_eq!(copy_readable((&raw const word).addr(), &mut to), 8);
            u64::from_ne_bytes(to)
        };
        filter::forget();
        if filter::inherits_filter() == Some(true) {
            return; // As in a container: what follows is about a process without a filter.
        }
        assert!(filter::inherits_filter() == Some(false) && !is_careful() && copy() == word);
        let query = || count(Kind::Query as usize).1;
        allow_all();
        filter::forget();
        let before = query();
        assert!(filter::inherits_filter() == Some(true) && is_careful() && !is_filtered());
        assert_eq!(copy(), word);
        assert_eq!(query(), before + 1, "by one call of its own kind");
        assert!(Pagemap::open().is_some(), "what asks by files anyway does so");
        // Up to the end of what is there, and nothing where nothing is. The file gives pages
        // without access, too.
        let start = reserve(2 * LEN).unwrap();
        assert!(commit(start, LEN));
        let mut to = [1; 3 * 4096];
        assert_eq!(copy_readable(start + LEN - 5000, &mut to), 3 * 4096);
        assert!(unreserve(start + LEN, LEN));
        assert_eq!(copy_readable(start + LEN - 5000, &mut to), 5000);
        assert_eq!(copy_readable(start + LEN, &mut to), 0);
        assert_eq!(copy_readable(usize::MAX - 7, &mut to), 0);
        assert!(unreserve(start, LEN));
    });
}

/// Makes a filter that allows all calls, by the bare system call.
fn allow_all() {
    make_filter(&[libc::sock_filter { code: 6, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW }]);
}

/// Makes a filter by the bare system call.
fn make_filter(code: &[libc::sock_filter]) {
    let program = libc::sock_fprog { len: code.len() as u16, filter: code.as_ptr().cast_mut() };
    let call = |option: i32, a: usize, b: usize| {
        linux::raw(libc::SYS_prctl, [option as usize, a, b, 0, 0, 0])
    };
    let at = (&raw const program).expose_provenance();
    assert_eq!(call(libc::PR_SET_NO_NEW_PRIVS, 1, 0), 0);
    assert_eq!(call(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER as usize, at), 0);
}

#[test]
fn moved_pages_keep_what_is_in_them_and_leave_zeroes() {
    let (old, new) = (written(), written());
    match move_pages(old, LEN, new, LEN) {
        Moved::Yes => assert_eq!((sum(old), sum(new)), (0, pages())),
        Moved::No => assert_eq!(sum(old), pages(), "an old kernel"),
        Moved::Lost => panic!("there is room for two maps"),
    }
    assert!(unreserve(old, LEN) && unreserve(new, LEN));
}

#[test]
fn ages_wrap_and_are_never_negative() {
    for (now, then, expected) in [
        (5, 3, 2),
        (3, 5, 0),
        (1, u32::MAX, 2),
        (u32::MAX, 1, 0),
        (u32::MAX / 2, 0, u32::MAX / 2),
        (u32::MAX / 2 + 1, 0, u32::MAX / 2 + 1),
        // The first stamp of a process that starts after 49 days of the machine.
        (u32::MAX - (2 << 20), 0, u32::MAX - (2 << 20)),
        (7, 7, 0),
    ] {
        assert_eq!(age(now, then), expected, "{now} after {then}");
    }
}

#[test]
fn the_clocks_agree() {
    // The coarse clock moves once in a tick, which is 10 ms at most.
    let before = now_ns() / 1_000_000 - 100;
    let now = now_ms();
    let after = now_ns() / 1_000_000;
    let since = u64::from(now.wrapping_sub(before as u32));
    assert!(since <= after - before, "{before} ms, {now}, {after} ms");
}

#[test]
fn a_wait_takes_its_time_at_least() {
    let word = AtomicU32::new(3);
    let begin = now_ns();
    futex_wait(&word, 4, None);
    futex_wait(&word, 3, Some(20));
    assert!(now_ns() - begin >= 20_000_000);
}

#[test]
fn signals_are_blocked_until_restored() {
    let before = block_signals();
    let blocked = block_signals();
    restore_signals(before);
    let after = block_signals();
    restore_signals(after);
    // The kernel never blocks SIGKILL and SIGSTOP.
    let never = 1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1);
    assert_eq!(blocked | never, u64::MAX);
    assert_eq!(after, before);
}

#[test]
fn a_refusal_is_told_by_errno() {
    // SAFETY: libc gives the calling thread its own errno, which stays as long as the thread.
    let errno = unsafe { &mut *libc::__errno_location() };
    *errno = 0;
    set_enomem();
    assert_eq!(*errno, libc::ENOMEM);
}

/// Under a filter that kills the thread for any call but read, write and exit.
#[test]
fn the_clock_takes_no_call() {
    let before = now_ms();
    in_child(|| {
        // SAFETY: the child has one thread, which restricts itself. It ends by SYS_exit: a normal
        // end needs calls that the filter forbids.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT), 0);
            let odd = age(now_ms(), before) > 1_000_000;
            libc::syscall(libc::SYS_exit, i32::from(odd));
        }
    });
}

/// Under the same filter.
#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "no node is known")]
fn the_node_takes_no_call_and_is_one_of_the_systems() {
    let online = fs::read_to_string("/sys/devices/system/node/online");
    let last = online.as_deref().unwrap_or("0").trim().rsplit([',', '-']).next();
    let last: u32 = last.unwrap().parse().unwrap();
    in_child(|| {
        // SAFETY: the child has one thread, which restricts itself and ends by SYS_exit.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT), 0);
            let is_odd = super::vdso::node() > last;
            libc::syscall(libc::SYS_exit, i32::from(is_odd));
        }
    });
}

#[test]
fn a_file_is_read_as_far_as_there_is_room() {
    let path = env::temp_dir().join(std::format!("hakmem-os-tests-{}", process::id()));
    let text: Vec<u8> = (0..10_000).map(|i| i as u8 | 1).collect();
    fs::write(&path, &text).unwrap();
    let name = CString::new(path.to_str().unwrap()).unwrap();
    for room in [0, 1, 9_999, 10_000, 10_001, 20_000] {
        let mut to = vec![0; 30_000];
        let len = read_file(&name, &mut to[..room]);
        assert_eq!(len, room.min(text.len()));
        assert_eq!(to[..len], text[..len]);
        assert!(to[len..].iter().all(|&b| b == 0), "nothing beyond the {room} bytes of room");
    }
    fs::remove_file(&path).unwrap();
    assert_eq!(read_file(&name, &mut [0; 10]), 0, "there is none");
    // Each read of this file gives at most one system page.
    let mut to = vec![0; 1 << 20];
    let len = read_file(c"/proc/self/smaps", &mut to);
    let text = String::from_utf8_lossy(&to[..len]);
    assert!(len > 4096 && text.lines().any(|line| line.ends_with("[stack]")), "{len}");
}

#[test]
fn memory_is_copied_as_far_as_it_can_be_read() {
    let start = reserve(2 * LEN).unwrap();
    assert!(commit(start, LEN));
    write(start);
    let mut to = [7; LEN];
    assert_eq!(copy_readable(start + 8, &mut to), 3 * 4096, "that much at most");
    let offsets = [0, 4088, 8184, 3 * 4096];
    assert_eq!(offsets.map(|offset| to[offset]), [0, 1, 1, 7]);
    assert_eq!(copy_readable(start + LEN - 5000, &mut to), 5000, "up to the end of what is there");
    assert_eq!(copy_readable(start + LEN - 5000, &mut to[..100]), 100);
    for nothing in [0, start + LEN, usize::MAX - 5000, usize::MAX] {
        assert_eq!(copy_readable(nothing, &mut to), 0, "{nothing:#x}");
    }
    assert!(unreserve(start, 2 * LEN));
}

#[test]
fn a_key_that_was_dropped_is_not_asked() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "C" fn ends(_: *mut c_void) {
        CALLS.fetch_add(1, Relaxed);
    }
    let key = make_exit_key(ends).unwrap();
    let set = move || set_exit_value(key, (&raw const CALLS).cast());
    thread::spawn(set).join().unwrap();
    assert_eq!(CALLS.load(Relaxed), 1);
    let dropped = thread::spawn(move || {
        set();
        drop_exit_key(key);
    });
    dropped.join().unwrap();
    assert_eq!(CALLS.load(Relaxed), 1);
}

/// A filter that refuses the question does not say that the thread has ended.
#[test]
fn a_thread_that_nobody_may_ask_for_is_there() {
    in_child(|| {
        let (process, me) = numbers();
        let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
        // The number of the call, a jump if it is this one, and the two answers.
        let code = [
            libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 },
            libc::sock_filter { code: 0x15, jt: 0, jf: 1, k: libc::SYS_tgkill as u32 },
            libc::sock_filter { code: 6, jt: 0, jf: 0, k: refused },
            libc::sock_filter { code: 6, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW },
        ];
        make_filter(&code);
        let ask = [process as usize, me as usize, 0, 0, 0, 0];
        assert_eq!(linux::raw(libc::SYS_tgkill, ask), -(libc::EPERM as isize));
        assert!(is_thread(me) && !is_counted(me));
    });
}

#[test]
fn threads_are_known_by_their_numbers() {
    assert!(is_thread(std::process::id()));
    // Linux gives no thread a number that large.
    assert!(!is_thread(1 << 30) && !is_thread(0));
}

/// In a child that libc did not make, libc has the parent's number for the thread.
#[test]
fn a_process_that_libc_did_not_make_is_known() {
    assert!(!in_borrowed_process());
    in_child(|| {
        assert!(!in_borrowed_process());
        // SAFETY: the child has one thread. It makes one check, and ends without exit handlers.
        unsafe {
            let child = libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as i32;
            if child == 0 {
                libc::_exit(7 + i32::from(!in_borrowed_process() || in_shared_memory()));
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            assert_eq!((libc::WIFEXITED(status), libc::WEXITSTATUS(status)), (true, 7));
            assert!(!in_shared_memory());
        }
    });
}

/// Its control block is in the middle: as many bytes lie below, for variables, as above.
#[test]
fn the_bare_thread_has_its_own_storage() {
    static ALIVE: AtomicU32 = AtomicU32::new(0);
    static CONTROL: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn work() {
        CONTROL.store(processor::control_block(), Relaxed);
    }
    in_child(|| {
        let mask = block_signals();
        assert!(spawn_bare(work, &ALIVE) != 0);
        restore_signals(mask);
        while let number @ 1.. = ALIVE.load(Acquire) {
            futex_wait_for_end(&ALIVE, number, 10);
        }
        let room = bare::tls_room();
        let control = CONTROL.load(Relaxed);
        assert_eq!((control - room.start, room.end - control), (room.len() / 2, room.len() / 2));
        // SAFETY: the bare thread has ended, and `control` was checked to lie inside its storage.
        let words = unsafe {
            [at(control).cast::<usize>().read(), at(control + 16).cast::<usize>().read()]
        };
        // Only on x86-64 code reads the address of the block there.
        let own = if cfg!(target_arch = "x86_64") { control } else { 0 };
        assert_eq!(words, [own; 2]);
    });
}

/// A write that takes a part of the text is no error.
#[test]
fn a_line_is_written_once() {
    in_child(|| {
        let mut ends = [0; 2];
        // SAFETY: `ends` has room for two descriptors, and this child alone uses them.
        unsafe {
            assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK), 0);
            assert_eq!(libc::dup2(ends[1], 2), 2);
        }
        let mut seen = vec![0; 1 << 20];
        let mut read = || {
            // SAFETY: `seen` is writable for its whole length.
            usize::try_from(unsafe { libc::read(ends[0], seen.as_mut_ptr().cast(), seen.len()) })
                .unwrap_or(0)
        };
        for len in 1..200 {
            write_stderr(&vec![b'x'; len]);
            assert_eq!(read(), len);
        }
        // More bytes than a pipe takes.
        write_stderr(&vec![b'x'; 1 << 20]);
        let taken = read();
        assert!((4096..1 << 20).contains(&taken), "{taken}");
    });
}
