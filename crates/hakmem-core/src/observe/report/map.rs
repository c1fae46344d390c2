//! The map: what each slot holds, as JSON that `hakmem map` draws. `docs/formats.md`
//! describes it.

use super::Event;
use super::out::{self, Lossy, stderr_line};
use super::sink::File;
use crate::observe::stats::{self, Content, HeapName, Huge, Segment};
use crate::os;
use core::fmt::{self, Write};
use core::ptr::null_mut;

/// The version of the keys. It rises when a key changes its meaning or goes, but not for new keys.
const SCHEMA: u32 = 1;
/// The most bytes that a segment takes: 32 slots at less than 170 bytes, and 32 numbers.
const PER_SEGMENT: usize = 6144;
/// Bytes for the frame, and for segments that threads claim while the map is written.
const SPARE: usize = 64 * PER_SEGMENT;

/// A text in memory that the system maps for it. It takes as much memory as is written.
struct Page {
    bytes: *mut u8,
    room: usize,
    len: usize,
}

impl Page {
    fn map(room: usize) -> Option<Self> {
        // SAFETY: without a fixed address, the system maps a range that nothing else uses.
        let bytes = unsafe {
            libc::mmap(
                null_mut(),
                room,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        (bytes != libc::MAP_FAILED).then_some(Self { bytes: bytes.cast(), room, len: 0 })
    }

    fn as_bytes(&self) -> &[u8] {
        // SAFETY: `write_str` has written the first `len` bytes of the map, which `self` owns.
        unsafe { core::slice::from_raw_parts(self.bytes, self.len) }
    }
}

impl Write for Page {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        if s.len() > self.room - self.len {
            return Err(fmt::Error);
        }
        // SAFETY: `s` fits into the room that is left: checked above. Only `self` uses the map, so
        // `s` does not overlap it.
        unsafe {
            let to = self.bytes.add(self.len);
            to.copy_from_nonoverlapping(s.as_ptr(), s.len());
        }
        self.len += s.len();
        Ok(())
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: `map` made this map with this length, and no reference into it outlives `self`.
        unsafe { libc::munmap(self.bytes.cast(), self.room) };
    }
}

/// Makes the map and calls `to` with it. None: the system has no memory for it.
pub fn with<R>(event: Event, to: impl FnOnce(&[u8]) -> R) -> Option<R> {
    let mut segments = 0;
    stats::each_segment_from_outside(&mut |_| segments += 1);
    let mut page = Page::map(segments * PER_SEGMENT + SPARE)?;
    write(&mut page, event).ok()?;
    Some(to(page.as_bytes()))
}

fn write(out: &mut Page, event: Event) -> fmt::Result {
    // SAFETY: getpid has no preconditions.
    let pid = unsafe { libc::getpid() };
    let (name, version) = (name(), env!("CARGO_PKG_VERSION"));
    let name = core::str::from_utf8(&name).unwrap_or("").trim_end_matches(['\0', '\n']);
    write!(out, r#"{{"schema":{SCHEMA},"kind":"map","event":"{}","pid":{pid},"#, event.name())?;
    write!(out, r#""program":"{}","version":"{version}","#, Quoted(name))?;
    write!(
        out,
        r#""slot_bytes":{},"segment_bytes":{},"segments":["#,
        stats::SLOT_BYTES,
        stats::SEGMENT_BYTES
    )?;
    let (mut result, mut first) = (Ok(()), true);
    let mut add = |segment: &Segment| {
        if result.is_ok() {
            result = (if first { Ok(()) } else { out.write_char(',') })
                .and_then(|()| write_segment(out, segment));
            first = false;
        }
    };
    match event {
        Event::Signal => stats::each_segment_from_outside(&mut add),
        Event::Exit | Event::Call => stats::each_segment(&mut add),
    }
    result?;
    out.write_str("]}\n")
}

fn write_segment(out: &mut Page, segment: &Segment) -> fmt::Result {
    write!(out, r#"{{"address":"{:#x}","thp":{}"#, segment.address, segment.thp)?;
    if let Some(Huge { segments, reserve, .. }) = segment.huge {
        let of = |nth| segment.resident(nth as usize);
        let pieces = (0..segments).filter_map(of).flatten();
        let resident: u64 = pieces.map(|n| u64::from(n) * 4096).sum();
        write!(out, r#","huge":{segments},"reserve":{reserve},"resident_bytes":{resident}"#)?;
        write_heap(out, segment.heap)?;
        return out.write_char('}');
    }
    if let Some(resident) = segment.resident(0) {
        out.write_str(r#","resident":"#)?;
        list(out, resident.iter(), |out, n| write!(out, "{n}"))?;
    }
    out.write_str(r#","slots":"#)?;
    list(out, segment.slots(), |out, slot| {
        let (first, span) = (slot.first, slot.span);
        let what = match slot.content {
            Content::Clean => "clean",
            Content::Dirty => "dirty",
            Content::Kept => "kept",
            Content::Large => "large",
            Content::Page(_) => "page",
        };
        write!(out, r#"{{"slot":{first},"span":{span},"use":"{what}""#)?;
        if let Content::Page(p) = slot.content {
            let (size, blocks, carved) = (p.size, p.blocks, p.carved);
            write!(
                out,
                r#","size":{size},"blocks":{blocks},"carved":{carved},"used":{},"state":"{}""#,
                p.used,
                p.state.name()
            )?;
        }
        write_heap(out, slot.heap)?;
        out.write_char('}')
    })?;
    out.write_char('}')
}

fn write_heap(out: &mut Page, heap: Option<HeapName>) -> fmt::Result {
    heap.map_or(Ok(()), |heap| write!(out, r#","heap":"{heap}""#))
}

fn list<T>(
    out: &mut Page,
    items: impl Iterator<Item = T>,
    each: impl Fn(&mut Page, T) -> fmt::Result,
) -> fmt::Result {
    out.write_char('[')?;
    for (i, item) in items.enumerate() {
        if i > 0 {
            out.write_char(',')?;
        }
        each(out, item)?;
    }
    out.write_char(']')
}

/// The name that the kernel has for the calling thread: up to 15 bytes and a NUL. Empty in a
/// process that made a filter, which may end it for asking.
fn name() -> [u8; 16] {
    let mut name = [0; 16];
    if os::is_careful() {
        os::each_line_of(c"/proc/thread-self/comm", &mut |line| {
            let len = line.len().min(name.len() - 1);
            name[..len].copy_from_slice(&line[..len]);
        });
        return name;
    }
    // SAFETY: the call writes at most 16 bytes, and `name` has 16.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

/// A text that is shown as it stands between quotes in JSON.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '"' | '\\' => write!(f, "\\{c}"),
            ' '.. => f.write_char(c),
            _ => f.write_char('?'),
        })
    }
}

/// Appends the map to the file.
pub fn append(event: Event, file: File) {
    if with(event, |text| file.append(text)).is_none() {
        out::say_lost(format_args!("map lost: no memory for it"));
    }
}

/// The file that `HAKMEM_MAP` names. Empty: no map.
pub fn file(value: Option<&[u8]>) -> Option<File> {
    let value = value.filter(|value| !value.is_empty())?;
    let file = File::keep("HAKMEM_MAP", value);
    if file.is_none() {
        let value = Lossy(value);
        stderr_line(format_args!("no map will be written to {value}"));
    }
    file
}
