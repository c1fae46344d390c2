//! The report for people: lines of text.

use super::figures::Figures;
use super::out::Text;
use super::usage::Usage;
use crate::observe::stats::{self, Class, Dear, Stats};
use core::fmt::{self, Display, Write};

/// A number of bytes, shown in B, KiB, MiB, GiB or TiB with one decimal.
struct Bytes(u64);

impl Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shift, unit) = match self.0 {
            0..1024 => {
                let mut text = Text::<32>::new();
                write!(text, "{} B", self.0)?;
                return f.pad(text.as_str());
            }
            0x400..0x10_0000 => (10, "KiB"),
            0x10_0000..0x4000_0000 => (20, "MiB"),
            0x4000_0000..0x100_0000_0000 => (30, "GiB"),
            _ => (40, "TiB"),
        };
        let (whole, rest) = (self.0 >> shift, (self.0 >> (shift - 10)) & 1023);
        let mut text = Text::<32>::new();
        write!(text, "{whole}.{} {unit}", rest * 10 / 1024)?;
        f.pad(text.as_str())
    }
}

/// A count in at most 11 characters: all digits, or thousands (k), or millions (M).
struct Count(u64);

impl Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (step, unit) = match self.0 {
            0..100_000_000_000 => return self.0.fmt(f),
            100_000_000_000..10_000_000_000_000 => (1000, "k"),
            _ => (1_000_000, "M"),
        };
        let mut text = Text::<32>::new();
        write!(text, "{}{unit}", self.0 / step)?;
        f.pad(text.as_str())
    }
}

/// Writes the lines: totals, the hard limit, what fresh memory costs, decisions, then a table of
/// the classes with the most allocations.
pub fn write(out: &mut impl Write, figures: &Figures, pid: i32) -> fmt::Result {
    totals(out, &figures.stats, &figures.usage, figures.resident_bytes, pid)?;
    limit(out)?;
    first_touch(out)?;
    decisions(out)?;
    program_heaps(out, figures)?;
    classes(out, figures)
}

/// Writes how far the hard limit is away, if there is one or was one that refused something.
fn limit(out: &mut impl Write) -> fmt::Result {
    let limit = stats::limit();
    if limit.hard.is_none() && limit.refused == 0 {
        return Ok(());
    }
    write!(out, "hakmem: held {}", Bytes(limit.held))?;
    match limit.hard {
        Some(hard) => write!(out, " of the hard limit {}", Bytes(hard))?,
        None => out.write_str(", no hard limit now")?,
    }
    writeln!(out, "; requests refused: {}", limit.refused)
}

/// Writes what fresh memory costs, if that is why more or less of it asks for huge pages.
fn first_touch(out: &mut impl Write) -> fmt::Result {
    let Some((touch, dear)) = stats::dear_first_touch() else { return Ok(()) };
    let (what, result) = match dear {
        Dear::SystemPages => ("fresh memory is", "more of it tries"),
        Dear::HugePages => ("huge pages are", "little memory asks for"),
    };
    let tenths = (touch.system_page_ns + 50) / 100;
    let (whole, tenth) = (tenths / 10, tenths % 10);
    write!(out, "hakmem: {what} dear here: {whole}.{tenth} µs a system page")?;
    if touch.huge_page_ns != 0 {
        write!(out, ", {} µs a huge page", (touch.huge_page_ns + 500) / 1000)?;
    }
    writeln!(out, ". So {result} huge pages")
}

/// Writes what mode `learn` changed, and what the round would have cost with either value.
fn decisions(out: &mut impl Write) -> fmt::Result {
    for d in stats::decisions() {
        writeln!(
            out,
            "hakmem: learnt after {} ms: {} {} -> {}; {} ms cost {} µs of faults and {} for memory \
             kept, and would have cost {} and {}; rated {} and {}",
            d.at_ms,
            d.what.name(),
            d.from,
            d.to,
            d.round_ms,
            d.from_fault_us,
            d.from_hold_us,
            d.to_fault_us,
            d.to_hold_us,
            d.from_rating,
            d.to_rating
        )?;
    }
    Ok(())
}

fn totals(out: &mut impl Write, s: &Stats, usage: &Usage, resident: u64, pid: i32) -> fmt::Result {
    let version = env!("CARGO_PKG_VERSION");
    writeln!(
        out,
        "hakmem {version}, process {}: {} allocations, {} frees, {} frees of foreign pointers",
        pid, s.allocations, s.frees, s.foreign_frees
    )?;
    let (live, peak) = (Bytes(s.live_bytes), Bytes(s.peak_live_bytes_upper_bound));
    writeln!(out, "hakmem: live {live}, never more than {peak}; thread heaps made: {}", s.heaps)?;
    writeln!(
        out,
        "hakmem: committed {} of {} reserved; free but kept {}, given back so far {}",
        Bytes(s.committed_bytes),
        Bytes(s.reserved_bytes),
        Bytes(s.dirty_bytes),
        Bytes(s.purged_bytes)
    )?;
    match usage.peak_resident_kib {
        0 => writeln!(out, "hakmem: the system may not be asked what is resident")?,
        peak => writeln!(
            out,
            "hakmem: resident in its arenas {}, of the process at most {}; \
             page faults: {} minor, {} major",
            Bytes(resident),
            Bytes(peak << 10),
            usage.minor_faults,
            usage.major_faults
        )?,
    }
    writeln!(
        out,
        "hakmem: {} refills; {} frees for other threads; large {} ({} from a cache), \
         huge blocks {} ({} from the cache)",
        s.refills,
        s.remote_frees,
        s.large_allocations,
        s.large_hits,
        s.huge_allocations,
        s.huge_hits
    )?;
    out.write_str("hakmem: system calls:")?;
    let mut separator = "";
    for call in s.syscalls() {
        write!(out, "{separator} {} {}", call.name, call.calls)?;
        if call.failures != 0 {
            write!(out, " ({} failed)", call.failures)?;
        }
        if call.nanos != 0 {
            let share = call.nanos * 1000 / usage.cpu_nanos.max(1);
            let (whole, tenth) = (share / 10, share % 10);
            write!(out, " in {} µs, {whole}.{tenth} % of the time", call.nanos / 1000)?;
        }
        separator = ",";
    }
    out.write_str(if separator.is_empty() { " none\n" } else { "\n" })
}

/// The most program heaps that have a line: the newest.
const MOST_HEAPS: usize = 12;

fn program_heaps(out: &mut impl Write, figures: &Figures) -> fmt::Result {
    for heap in figures.snapshot.program_heaps().take(MOST_HEAPS) {
        let name = if heap.name().is_empty() { "(no name)" } else { heap.name() };
        write!(out, "hakmem: heap {name}: live {}, never more than", Bytes(heap.live_bytes))?;
        write!(out, " {}, memory {}", Bytes(heap.peak_live_bytes), Bytes(heap.held_bytes))?;
        if let Some(limit) = heap.limit_bytes {
            write!(out, "; limit {}, {} refused", Bytes(limit), heap.refused)?;
        }
        let dropped = if heap.dropped { "; dropped" } else { "" };
        writeln!(out, "; {} allocations, {} frees{dropped}", heap.allocations, heap.frees)?;
    }
    Ok(())
}

/// The most classes that have a line. Classes with equal allocations may add to it.
const MOST: usize = 12;

fn classes(out: &mut impl Write, figures: &Figures) -> fmt::Result {
    // The least number of allocations that gives a class a line. The search keeps no list of all
    // classes, because stacks may be small.
    let all = || figures.snapshot.classes().map(|c| c.allocations);
    let more_than = |n: u64| all().filter(|&a| a > n).count();
    let least = all().filter(|&a| a > 0 && more_than(a) < MOST).min();
    let Some(least) = least else { return Ok(()) };
    writeln!(
        out,
        "hakmem: {:>5} {:>11} {:>11} {:>6} {:>5} {:>10} {:>10} {:>6}",
        "class", "allocations", "frees", "remote", "hits", "live", "in pages", "unused"
    )?;
    for c in figures.snapshot.classes().filter(|c| c.allocations >= least) {
        class(out, &c)?;
    }
    Ok(())
}

/// Writes the line of a class, in 79 columns.
fn class(out: &mut impl Write, c: &Class) -> fmt::Result {
    let percent = |part: u64, whole: u64| part * 100 / whole.max(1);
    writeln!(
        out,
        "hakmem: {:>5} {:>11} {:>11} {:>4} % {:>3} % {:>10} {:>10} {:>4} %",
        c.size,
        Count(c.allocations),
        Count(c.frees),
        percent(c.remote_frees, c.frees),
        percent(c.list_hits(), c.allocations),
        Bytes(c.live_bytes),
        Bytes(c.page_bytes),
        percent(c.unused_bytes(), c.page_bytes)
    )
}

#[cfg(all(test, not(any(loom, miri, shuttle))))]
mod tests {
    use super::*;

    fn line(c: &Class) -> Text<128> {
        let mut text = Text::new();
        class(&mut text, c).unwrap();
        text
    }

    #[test]
    fn a_line_of_a_class_fits_80_columns() {
        let most = Class {
            size: 1 << 16,
            allocations: 99_999_999_999,
            frees: 99_999_999_998,
            remote_frees: 99_999_999_998,
            live_bytes: (1 << 40) - 1,
            page_bytes: (1 << 40) - 1,
            ..Class::default()
        };
        let longer = Class { allocations: 1 << 53, frees: 1 << 53, remote_frees: 1 << 53, ..most };
        for (class, allocations) in [(&most, " 99999999999 "), (&longer, " 9007199254M ")] {
            let line = line(class);
            assert!(line.as_str().contains(allocations), "{}", line.as_str());
            assert!(line.as_str().contains(" 1023.9 GiB 1023.9 GiB "), "{}", line.as_str());
            assert_eq!(line.as_str().chars().count(), 79 + 1, "{}", line.as_str());
        }
    }
}
