//! The profile as text, in the form that gperftools made known and pprof reads: addresses, and the maps they lie in.
//!
//! ```text
//! heap profile: LIVE: BYTES [ALL: BYTES] @ heap_v2/INTERVAL
//! # hakmem 2 pid=… event=exit …
//! LIVE: BYTES [ALL: BYTES] @ ADDRESS ADDRESS …          counts of samples; nearest caller first
//! # at INTERVAL: LIVE [ALL]
//! LIVE: BYTES [ALL: BYTES] @ ADDRESS ADDRESS …          samples that were drawn with this INTERVAL, as below
//! MAPPED_LIBRARIES:
//! (the executable maps of /proc/self/maps)
//! ```
//!
//! pprof knows of one interval, the header's. So counts of samples that were drawn with a longer one (`pace`) are brought to
//! that: multiplied by what each of them stands for there, and rounded. Before them stands a line, a comment for pprof, with the
//! interval and the counts as they are.

use super::table::{Books, Bucket, with_books};
use super::{estimate, interval, is_on};
use crate::os;
use core::fmt::{self, Write};

/// The version of the line that begins with `# hakmem`.
const SCHEMA: u32 = 2;
/// Room for maps.
const MAPS: usize = 1 << 20;

/// Why a profile is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The program ends.
    Exit,
    /// A signal asked.
    Signal,
    /// The program asked.
    Call,
}

impl Event {
    fn name(self) -> &'static str {
        match self {
            Self::Exit => "exit",
            Self::Signal => "signal",
            Self::Call => "call",
        }
    }
}

/// Text in memory of its own; what does not fit is cut off.
struct Buffer {
    at: usize,
    len: usize,
    room: usize,
}

impl Buffer {
    fn new(room: usize) -> Option<Self> {
        Some(Self { at: os::map_memory(room)?, len: 0, room })
    }

    fn text(&self) -> &[u8] {
        // SAFETY: the map is ours, and so much of it was written.
        unsafe { core::slice::from_raw_parts(os::at(self.at), self.len) }
    }

    fn rest(&mut self) -> &mut [u8] {
        // SAFETY: the map is ours, and reads as zero where nothing was written.
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

/// Makes the profile of what was sampled until now and passes its text to `to`, which may allocate. None: there never was a
/// profile, there is no memory for the text, or this is a signal handler that has interrupted the profile itself.
///
/// The text lies in memory from the system. `hakmem profile FILE` and pprof read it. O(stacks).
///
/// ```
/// use hakmem_core::profile::{self, Event};
///
/// #[global_allocator]
/// static ALLOCATOR: hakmem_core::Hakmem = hakmem_core::Hakmem::new();
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
    let mut buffer = with_books(|books| {
        // Twenty bytes an address, and the figures: six of at most twenty digits.
        let room = books.frames() * 20 + books.buckets().count() * 200 + 4096;
        let mut buffer = Buffer::new(room + MAPS)?;
        // It has room for everything.
        samples(&mut buffer, books, event).ok()?;
        Some(buffer)
    })??;
    // What does not fit is cut off.
    let _ = buffer.write_str("\nMAPPED_LIBRARIES:\n");
    add_maps(&mut buffer);
    Some(to(buffer.text()))
}

/// Live samples, their bytes, all samples, and their bytes, as if they had been drawn with the header's interval.
fn counts(bucket: &Bucket) -> (u64, u64, u64, u64) {
    let shift = (bucket.interval / interval()).trailing_zeros();
    let each = estimate::samples_of_one(bucket.size, interval(), shift);
    let scaled = |samples: u64| (samples as f64 * each + 0.5) as u64;
    let (live, all) = (scaled(bucket.taken - bucket.freed), scaled(bucket.taken));
    (live, live * bucket.size, all, all * bucket.size)
}

fn samples(out: &mut Buffer, books: &Books, event: Event) -> fmt::Result {
    let total = books.buckets().fold((0, 0, 0, 0), |sum, (b, _)| {
        let of = counts(b);
        (sum.0 + of.0, sum.1 + of.1, sum.2 + of.2, sum.3 + of.3)
    });
    let (live, live_bytes, all, all_bytes) = total;
    writeln!(out, "heap profile: {live}: {live_bytes} [{all}: {all_bytes}] @ heap_v2/{}", interval())?;
    // SAFETY: no preconditions.
    let pid = unsafe { libc::getpid() };
    let (event, on, lost) = (event.name(), u8::from(is_on()), books.lost);
    // Code of the allocator's own tells which object it is in.
    let own = super::stop as fn() as *const ();
    writeln!(out, "# hakmem {SCHEMA} pid={pid} event={event} on={on} lost={lost} own={own:p}")?;
    for (b, stack) in books.buckets() {
        if b.taken == 0 {
            continue; // The parent's, before a fork.
        }
        if b.interval != interval() {
            writeln!(out, "# at {}: {} [{}]", b.interval, b.taken - b.freed, b.taken)?;
        }
        let (live, live_bytes, all, all_bytes) = counts(b);
        write!(out, "{live}: {live_bytes} [{all}: {all_bytes}] @")?;
        for pc in stack {
            write!(out, " {pc:#x}")?;
        }
        out.write_char('\n')?;
    }
    Ok(())
}

/// Appends those of the process's maps that hold code.
fn add_maps(out: &mut Buffer) {
    let rest = out.rest();
    let len = os::read_file(c"/proc/self/maps", rest);
    // In place: what is kept never overtakes what is read.
    let (mut from, mut to) = (0, 0);
    while let Some(n) = rest[from..len].iter().position(|&b| b == b'\n') {
        let end = from + n + 1;
        let permissions = rest[from..end].splitn(3, |&b| b == b' ').nth(1);
        if permissions.and_then(|p| p.get(2)) == Some(&b'x') {
            rest.copy_within(from..end, to);
            to += end - from;
        }
        from = end;
    }
    out.len += to;
}
