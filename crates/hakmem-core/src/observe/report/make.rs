//! Makes the text of a report, in one of its forms, in memory that the system maps for it.

use super::figures::{Figures, SCHEMA};
use super::forms::{CSV_HEADER, Csv, Json, Xml};
use super::out::Text;
use super::totals::Totals;
use super::{Event, Format, human};
use core::fmt::{self, Write};
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{
    AtomicPtr,
    Ordering::{AcqRel, Release},
};

/// Memory for a report in any form: 52 classes and 256 heaps at less than 512 bytes each, and
/// totals.
pub type Buffer = Text<{ 256 << 10 }>;

/// A spare buffer, for when the system refuses another one, for example at an address space limit.
static KEPT: AtomicPtr<Buffer> = AtomicPtr::new(null_mut());

/// Maps the spare buffer. It takes no memory until a report is written into it.
pub fn keep_buffer() {
    KEPT.store(Buffer::map(), Release);
}

/// A buffer that one call uses. When the call ends, by a panic of the writer too, a fresh one is
/// unmapped, and the spare one is put back.
struct Taken {
    buffer: NonNull<Buffer>,
    is_spare: bool,
}

impl Taken {
    fn new() -> Option<Self> {
        if let Some(buffer) = NonNull::new(Buffer::map()) {
            return Some(Self { buffer, is_spare: false });
        }
        // The swap leaves null behind, so no other thread gets this buffer until it is put back.
        // AcqRel, with the Release of the stores: this thread sees what the last user wrote.
        let mut buffer = NonNull::new(KEPT.swap(null_mut(), AcqRel))?;
        // SAFETY: `keep_buffer` mapped it for ever, and only this call has it now.
        unsafe { buffer.as_mut() }.clear();
        Some(Self { buffer, is_spare: true })
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if self.is_spare {
            KEPT.store(self.buffer.as_ptr(), Release);
        } else {
            // SAFETY: `map` made it, and the borrow in `with_buffer` has ended.
            unsafe { Buffer::unmap(self.buffer.as_ptr()) };
        }
    }
}

fn with_buffer<R>(f: impl FnOnce(&mut Buffer) -> R) -> Option<R> {
    let mut taken = Taken::new()?;
    // SAFETY: only this call has the buffer, until `taken` is dropped.
    Some(f(unsafe { taken.buffer.as_mut() }))
}

fn pid() -> i32 {
    // SAFETY: getpid has no preconditions.
    unsafe { libc::getpid() }
}

/// The line that the constructor writes: hakmem is in the process. If a process has no exit line
/// later, it ended without running exit handlers.
pub fn load_line(format: Format) -> Text<128> {
    let mut text = Text::new();
    // Writing into a Text never fails.
    let _ = match format {
        Format::Human => Ok(()),
        Format::Json => writeln!(text, r#"{{"schema":{SCHEMA},"event":"load","pid":{}}}"#, pid()),
        Format::Csv => writeln!(text, "{CSV_HEADER}{},load,,,schema,{SCHEMA}", pid()),
    };
    text
}

/// Makes the report and calls `to` with it. The text lies in memory of its own, because stacks may
/// be small. None: the system has no memory for it.
pub fn with<R>(format: Format, event: Event, to: impl FnOnce(&[u8]) -> R) -> Option<R> {
    let figures = match event {
        Event::Signal => Figures::take_from_outside(),
        Event::Exit | Event::Call => Figures::take(),
    };
    with_buffer(|text| {
        // Writing into a Text never fails.
        let _ = match format {
            Format::Human => human::write(text, &figures, pid()),
            Format::Json => json(text, &figures, event),
            Format::Csv => csv(text, &figures, event),
        };
        to(text.as_bytes())
    })
}

/// Makes the XML of malloc_info and calls `to` with it. None: the system has no memory for it.
pub fn with_xml<R>(to: impl FnOnce(&[u8]) -> R) -> Option<R> {
    let figures = Figures::take();
    with_buffer(|text| {
        let _ = xml(text, &figures);
        to(text.as_bytes())
    })
}

fn json(out: &mut Buffer, figures: &Figures, event: Event) -> fmt::Result {
    let event = event.name();
    write!(out, r#"{{"schema":{SCHEMA},"event":"{event}","pid":{}"#, pid())?;
    figures.write(&mut Json { out, first: false })?;
    out.write_str("}\n")
}

fn csv(out: &mut Buffer, figures: &Figures, event: Event) -> fmt::Result {
    out.write_str(CSV_HEADER)?;
    writeln!(out, "{},{},,,schema,{SCHEMA}", pid(), event.name())?;
    figures.write(&mut Csv::new(out, pid(), event.name()))
}

/// Writes glibc's totals under glibc's names, then hakmem's figures.
fn xml(out: &mut Buffer, figures: &Figures) -> fmt::Result {
    let totals = Totals::of(&figures.snapshot, &figures.stats);
    let reserved = figures.stats.reserved_bytes;
    let committed = figures.stats.committed_bytes;
    out.write_str("<malloc version=\"1\">\n")?;
    for (kind, count, size) in [
        ("fast", 0, 0),
        ("rest", totals.free_blocks, totals.free()),
        ("mmap", totals.huge_blocks, totals.huge),
    ] {
        writeln!(out, "<total type=\"{kind}\" count=\"{count}\" size=\"{size}\"/>")?;
    }
    writeln!(out, "<system type=\"current\" size=\"{}\"/>", totals.committed)?;
    writeln!(out, "<system type=\"max\" size=\"{reserved}\"/>")?;
    writeln!(out, "<aspace type=\"total\" size=\"{reserved}\"/>")?;
    writeln!(out, "<aspace type=\"mprotect\" size=\"{committed}\"/>")?;
    let version = env!("CARGO_PKG_VERSION");
    write!(out, "<hakmem schema=\"{SCHEMA}\" version=\"{version}\"")?;
    figures.write(&mut Xml { out, open: true, list: "" })?;
    out.write_str("</hakmem>\n</malloc>\n")
}
