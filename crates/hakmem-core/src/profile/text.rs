//! The profile as text, in the format of gperftools that pprof reads: addresses, and the maps that
//! they lie in.
//!
//! ```text
//! heap profile: LIVE: BYTES [ALL: BYTES] @ heap_v2/INTERVAL
//! # hakmem 2 pid=… event=exit …
//! LIVE: BYTES [ALL: BYTES] @ ADDRESS ADDRESS …          counts of samples; nearest caller first
//! # at INTERVAL: LIVE [ALL]
//! LIVE: BYTES [ALL: BYTES] @ ADDRESS ADDRESS …          samples that were drawn with this INTERVAL
//! MAPPED_LIBRARIES:
//! (the executable maps of /proc/self/maps)
//! ```
//!
//! pprof knows one interval, that of the header: the shortest of all. Samples that were drawn with
//! a longer one (`pace`, or another start) are converted: their counts are multiplied by the number
//! of samples that each one stands for at the header's interval, and rounded. The line before them,
//! a comment for pprof, has their interval and their counts as they are.

#[cfg(feature = "reports")]
use super::table::with_books_within;
use super::table::{Books, Bucket, with_books, with_books_at_once};
use super::{Busy, Event, estimate, interval, is_on};
use crate::os;
use core::fmt::{self, Write};

/// The version of the line that begins with `# hakmem`.
const SCHEMA: u32 = 2;
/// Bytes for the maps.
const MAPS: usize = 1 << 20;

/// Text in memory from the system. What does not fit is cut off.
struct Buffer {
    at: usize,
    len: usize,
    room: usize,
}

impl Buffer {
    fn new(room: usize) -> Option<Self> {
        Some(Self { at: os::map_memory(room)?, len: 0, room })
    }

    /// The text for the samples of the books. None: out of memory.
    fn of(books: &Books, event: Event) -> Option<Self> {
        // Twenty bytes for an address, and for a bucket six numbers of at most twenty digits.
        let room = books.frames() * 20 + books.buckets().count() * 200 + 4096;
        let mut buffer = Self::new(room + MAPS)?;
        // There is room for everything, so this does not fail.
        samples(&mut buffer, books, event).ok()?;
        Some(buffer)
    }

    /// Adds the maps. What does not fit is cut off.
    fn with_maps(mut self) -> Self {
        let _ = self.write_str("\nMAPPED_LIBRARIES:\n");
        add_maps(&mut self);
        self
    }

    fn text(&self) -> &[u8] {
        // SAFETY: the map belongs to this buffer, and its first `len` bytes were written.
        unsafe { core::slice::from_raw_parts(os::at(self.at), self.len) }
    }

    fn rest(&mut self) -> &mut [u8] {
        // SAFETY: the map belongs to this buffer, which is borrowed mutably. It has `room` bytes,
        // and reads as zero where nothing was written.
        unsafe { core::slice::from_raw_parts_mut(os::at(self.at + self.len), self.room - self.len) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        os::unreserve(self.at, self.room);
    }
}

impl Write for Buffer {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let n = s.len().min(self.room - self.len);
        self.rest()[..n].copy_from_slice(&s.as_bytes()[..n]);
        self.len += n;
        if n == s.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// Makes the profile of all samples until now, and passes its text to `to`, which may allocate.
/// None: there never was a profile, there is no memory for the text, or this is a signal handler
/// that interrupted the profile itself.
///
/// The text lies in memory from the system. `hakmem profile --file FILE` and pprof read it.
/// O(stacks).
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::profile::{self, Event};
///
/// #[global_allocator]
/// static ALLOCATOR: hakmem::Hakmem = hakmem::Hakmem::new();
///
/// assert!(profile::start(profile::DEFAULT_INTERVAL));
/// let data = vec![0u8; 100 << 20];
/// let mut file = Vec::new(); // A std::fs::File, mostly.
/// profile::dump(Event::Call, |text| file.extend_from_slice(text)).expect("a profile");
/// assert!(file.starts_with(b"heap profile: 1: "));
/// drop(data);
/// ```
pub fn dump<R>(event: Event, to: impl FnOnce(&[u8]) -> R) -> Option<R> {
    if interval() == 0 {
        return None;
    }
    let buffer = with_books(|books| Buffer::of(books, event))??;
    Some(to(buffer.with_maps().text()))
}

/// [`dump`] at the end of the process, after a wait of two seconds at most for a fork of another
/// thread.
///
/// # Errors
/// [`Busy`]: the fork takes longer, or this is a signal handler that interrupted the profile.
#[cfg(feature = "reports")]
pub(crate) fn dump_at_end<R>(to: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Busy> {
    if interval() == 0 {
        return Ok(None);
    }
    let made = with_books_within(2_000, |books| Buffer::of(books, Event::Exit));
    let buffer = made.ok_or(Busy)?;
    Ok(buffer.map(|buffer| to(buffer.with_maps().text())))
}

/// [`dump`] for a caller that must not wait, a signal handler. Err: a thread is just changing the
/// profile.
///
/// # Errors
/// [`Busy`], at any time.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::profile::{self, Busy, Event};
///
/// assert!(profile::start(profile::DEFAULT_INTERVAL));
/// match profile::dump_at_once(Event::Signal, |text| text.len()) {
///     Ok(Some(bytes)) => assert!(bytes > 0),
///     Ok(None) => panic!("there is a profile"),
///     Err(Busy) => {} // Another time, then.
/// }
/// ```
pub fn dump_at_once<R>(event: Event, to: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Busy> {
    if interval() == 0 {
        return Ok(None);
    }
    let buffer = with_books_at_once(|books| Buffer::of(books, event))?.flatten();
    Ok(buffer.map(|buffer| to(buffer.with_maps().text())))
}

/// Live samples, their bytes, all samples, and their bytes, as if they had been drawn with the
/// header's interval.
fn counts(bucket: &Bucket, interval: u64) -> (u64, u64, u64, u64) {
    let each = match bucket.interval == interval {
        true => 1.0,
        false => estimate::samples_of_one(bucket.size, interval, bucket.interval),
    };
    let scaled = |samples: u64| (samples as f64 * each + 0.5) as u64;
    let (live, all) = (scaled(bucket.taken - bucket.freed), scaled(bucket.taken));
    (live, live.saturating_mul(bucket.size), all, all.saturating_mul(bucket.size))
}

fn samples(out: &mut Buffer, books: &Books, event: Event) -> fmt::Result {
    let interval = books.buckets().fold(interval(), |least, (b, _)| least.min(b.interval));
    let total = books.buckets().fold((0, 0_u64, 0, 0_u64), |sum, (b, _)| {
        let of = counts(b, interval);
        let [bytes, all_bytes] = [sum.1.saturating_add(of.1), sum.3.saturating_add(of.3)];
        (sum.0 + of.0, bytes, sum.2 + of.2, all_bytes)
    });
    let (live, live_bytes, all, all_bytes) = total;
    writeln!(out, "heap profile: {live}: {live_bytes} [{all}: {all_bytes}] @ heap_v2/{interval}")?;
    // SAFETY: `getpid` has no conditions.
    let pid = unsafe { libc::getpid() };
    let (event, on, lost) = (event.name(), u8::from(is_on()), books.lost);
    // An address in the allocator's code tells which object it is in.
    let own = super::stop as fn() as *const ();
    writeln!(out, "# hakmem {SCHEMA} pid={pid} event={event} on={on} lost={lost} own={own:p}")?;
    for (b, stack) in books.buckets() {
        if b.taken == 0 {
            // The parent had them before a fork.
            continue;
        }
        if b.interval != interval {
            writeln!(out, "# at {}: {} [{}]", b.interval, b.taken - b.freed, b.taken)?;
        }
        let (live, live_bytes, all, all_bytes) = counts(b, interval);
        write!(out, "{live}: {live_bytes} [{all}: {all_bytes}] @")?;
        for pc in stack {
            write!(out, " {pc:#x}")?;
        }
        out.write_char('\n')?;
    }
    Ok(())
}

/// Appends the maps of the process that hold code.
fn add_maps(out: &mut Buffer) {
    let rest = out.rest();
    let mut kept = 0;
    os::with_file(c"/proc/self/maps", |read| {
        // Behind the lines that stay lies what was read and is not a whole line yet.
        let mut end = 0;
        loop {
            let len = read(&mut rest[end..]);
            end += len;
            let mut from = kept;
            while let Some(n) = rest[from..end].iter().position(|&b| b == b'\n') {
                let line = from..from + n + 1;
                from = line.end;
                let permissions = rest[line.clone()].splitn(3, |&b| b == b' ').nth(1);
                if permissions.and_then(|p| p.get(2)) == Some(&b'x') {
                    rest.copy_within(line, kept);
                    kept += n + 1;
                }
            }
            rest.copy_within(from..end, kept);
            end = kept + end - from;
            if len == 0 {
                return;
            }
        }
    });
    out.len += kept;
}

#[cfg(all(test, not(any(loom, miri, shuttle))))]
mod tests {
    extern crate std;
    use super::super::{DEFAULT_INTERVAL, INTERVAL};
    use super::*;
    use crate::base::sync::Ordering::Relaxed;
    use crate::testing::in_child;
    use std::string::{String, ToString};
    use std::vec::Vec;
    use std::{format, fs};

    /// Runs `f` in a child that has a profile, whose books only the test uses.
    fn with_profile(f: impl FnOnce()) {
        in_child(|| {
            INTERVAL.store(DEFAULT_INTERVAL, Relaxed);
            super::super::stop();
            f();
        });
    }

    fn text(event: Event) -> String {
        dump(event, |text| String::from_utf8(text.into()).unwrap()).unwrap()
    }

    /// Live samples, their bytes, all samples, and their bytes.
    fn figures(line: &str) -> [u64; 4] {
        let numbers: Vec<_> =
            line.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
        numbers[..4].try_into().unwrap()
    }

    fn fill(count: usize, frames: usize, size: u64, interval: u64) {
        let made = with_books(|books| {
            for i in 0..count {
                let stack: Vec<_> = (0..frames).map(|frame| usize::MAX - 200 * i - frame).collect();
                let bucket = books.bucket(size, interval, &stack).unwrap();
                books.set_counts(bucket, 1 << 24, 1 << 22);
            }
        });
        made.unwrap();
    }

    /// All numbers and addresses have their greatest length, and together they take more than the
    /// room for maps.
    #[test]
    fn there_is_room_for_every_stack() {
        with_profile(|| {
            let lines = || {
                let text = text(Event::Call);
                let (samples, _) = text.split_once("\n\n").unwrap();
                let lines: Vec<_> = samples.lines().map(str::to_string).collect();
                let with_stack: Vec<_> =
                    lines[1..].iter().filter(|line| !line.starts_with('#')).cloned().collect();
                let mut sum = [0; 4];
                for line in &with_stack {
                    sum = core::array::from_fn(|i| sum[i] + figures(line)[i]);
                }
                assert_eq!(figures(&lines[0]), sum, "the first line has the sums");
                with_stack
            };
            let before = lines().len();
            fill(600, 128, 16, DEFAULT_INTERVAL);
            let now = lines();
            assert_eq!(now.len(), before + 600);
            assert_eq!(now.iter().filter(|line| line.matches(" 0x").count() == 128).count(), 600);
            fill(16_000, 1, 1 << 20, DEFAULT_INTERVAL << 3);
            assert_eq!(lines().len(), before + 16_600);
        });
    }

    #[test]
    fn counts_are_those_of_the_interval_in_the_first_line() {
        with_profile(|| {
            let (size, shift) = (300_000, 4);
            fill(1, 3, size, DEFAULT_INTERVAL << shift);
            let text = text(Event::Call);
            let at = format!("# at {}: {} [{}]\n", DEFAULT_INTERVAL << shift, 3 << 22, 1 << 24);
            let (_, line) = text.split_once(&at).expect(&text);
            let p = |interval: u64| -(-(size as f64) / interval as f64).exp_m1();
            let each = p(DEFAULT_INTERVAL) / p(DEFAULT_INTERVAL << shift);
            let [live, live_bytes, all, all_bytes] = figures(line.lines().next().unwrap());
            for (figure, samples) in [(live, 3 << 22), (all, 1 << 24)] {
                assert!((figure as f64 - samples as f64 * each).abs() <= 1.0, "{figure}");
            }
            assert_eq!((live_bytes, all_bytes), (live * size, all * size));
        });
    }

    #[test]
    fn the_text_says_why_it_was_written_and_what_is_mapped() {
        use std::os::fd::AsRawFd;
        let program = fs::File::open("/proc/self/exe").unwrap();
        with_profile(|| {
            // As many maps as a program of many libraries has.
            for _ in 0..200 {
                let code = libc::PROT_READ | libc::PROT_EXEC;
                // SAFETY: a new map of a file that nobody writes to.
                let at = unsafe {
                    libc::mmap(
                        core::ptr::null_mut(),
                        1,
                        code,
                        libc::MAP_PRIVATE,
                        program.as_raw_fd(),
                        0,
                    )
                };
                assert_ne!(at, libc::MAP_FAILED);
            }
            let code = || {
                let maps = fs::read_to_string("/proc/self/maps").unwrap();
                let code =
                    maps.lines().filter(|line| line.split(' ').nth(1).unwrap().contains('x'));
                code.map(str::to_string).collect::<Vec<_>>()
            };
            for (event, name) in
                [(Event::Exit, "exit"), (Event::Signal, "signal"), (Event::Call, "call")]
            {
                let text = text(event);
                assert!(
                    text.lines().nth(1).unwrap().contains(&format!(" event={name} on=0 lost=")),
                    "{text}"
                );
                let (_, maps) = text.split_once("\n\nMAPPED_LIBRARIES:\n").unwrap();
                assert_eq!(maps.lines().collect::<Vec<_>>(), code());
            }
        });
    }

    #[test]
    fn what_a_buffer_has_no_room_for_is_cut_off() {
        in_child(|| {
            let mut buffer = Buffer::new(4096).unwrap();
            let text = "0123456789".repeat(300);
            assert!(buffer.write_str(&text).is_ok());
            assert_eq!(buffer.rest().len(), 1096);
            assert!(buffer.write_str(&text).is_err());
            assert_eq!(buffer.text(), &(text.clone() + &text).as_bytes()[..4096]);
            assert!(
                buffer.rest().is_empty()
                    && buffer.write_str("").is_ok()
                    && buffer.write_str("x").is_err()
            );
            let at = buffer.at;
            // `mincore` fails where nothing is mapped.
            // SAFETY: it only asks about one system page, and writes one byte.
            let is_mapped =
                || unsafe { libc::mincore(os::at(at).cast(), 1, [0].as_mut_ptr()) } == 0;
            assert!(is_mapped());
            drop(buffer);
            assert!(!is_mapped(), "its memory is given up");
        });
    }
}
