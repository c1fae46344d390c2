//! The report, in one of its forms, made in memory of its own.

use super::figures::{Figures, SCHEMA};
use super::forms::{CSV_HEADER, Csv, Json, Xml};
use super::out::Text;
use super::totals::Totals;
use super::{Event, Format, human};
use core::fmt::{self, Write};
use core::ptr::null_mut;
use core::sync::atomic::{
    AtomicPtr,
    Ordering::{AcqRel, Release},
};

/// Room for any form: 51 classes, 256 heaps, at under 512 bytes each, and the totals.
pub type Buffer = Text<{ 256 << 10 }>;

/// A buffer kept for a time when the system has no memory for another: a limit on the address space, say.
static KEPT: AtomicPtr<Buffer> = AtomicPtr::new(null_mut());

/// Keeps a buffer for reports to come. It takes memory only once it is written.
pub fn keep_buffer() {
    KEPT.store(Buffer::map(), Release);
}

fn with_buffer<R>(f: impl FnOnce(&mut Buffer) -> R) -> Option<R> {
    let fresh = Buffer::map();
    if !fresh.is_null() {
        // SAFETY: just mapped, ours alone, and an empty text.
        let result = f(unsafe { &mut *fresh });
        // SAFETY: mapped above.
        unsafe { Buffer::unmap(fresh) };
        return Some(result);
    }
    // SAFETY: whoever took it out has it alone.
    let kept = unsafe { KEPT.swap(null_mut(), AcqRel).as_mut() }?;
    kept.clear();
    let result = f(kept);
    KEPT.store(kept, Release);
    Some(result)
}

fn pid() -> i32 {
    // SAFETY: no preconditions.
    unsafe { libc::getpid() }
}

/// The line of the constructor: hakmem is in the process. One without an exit line ended without running exit handlers.
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

/// Makes the report and passes it to `to`; it lies in memory of its own, as stacks may be small. Without memory for it
/// there is none.
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

/// The XML of malloc_info.
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

/// glibc's totals under glibc's names, then ours.
fn xml(out: &mut Buffer, figures: &Figures) -> fmt::Result {
    let totals = Totals::of(&figures.snapshot, &figures.stats);
    let reserved = figures.stats.reserved_bytes;
    let committed = figures.stats.committed_bytes;
    out.write_str("<malloc version=\"1\">\n")?;
    for (kind, count, size) in
        [("fast", 0, 0), ("rest", totals.free_blocks, totals.free()), ("mmap", totals.huge_blocks, totals.huge)]
    {
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
