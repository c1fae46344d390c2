//! The tables.

use super::columns::{CALLS, CLASSES, HEAPS, PROGRAMS, SITES};
use super::figures::{Class, Heap, Moment, ProgramHeap, Site, Syscall};
use crate::checked::total;
use crate::columns::Table;
use crate::lines::clauses;
use crate::rows::{self, named};
use crate::summary::{NOT_KNOWN, bytes, duration, faults, grouped, resident};
use crate::terminal::Terminal;
use crate::view::Reading;

/// Heaps that get a line: those that allocated most.
const MOST_HEAPS: usize = 16;

/// Classes that get a line, unless all do: those whose pages are most.
const MOST_CLASSES: usize = 12;

/// What is said of a reading that is not whole.
pub const CHANGED: &str = "lists changed, or were too many to follow";

/// All tables of one moment of a report; with `all`, a line for every class.
pub fn of(m: &Moment, all: bool, terminal: Option<Terminal>) -> String {
    let doubt = (m.running_heaps > 0).then(|| {
        let heaps = grouped(m.running_heaps);
        format!("the lists of {heaps} running threads are not known")
    });
    tables(m, all, None, doubt, terminal)
}

/// All tables of a reading, for which the lists of running threads were followed.
pub fn of_reading(look: &Reading, all: bool, terminal: Option<Terminal>) -> String {
    let doubt = (!look.whole).then(|| CHANGED.to_owned());
    let now = look.usage.resident_bytes;
    tables(&look.moment, all, Some(now), doubt, terminal)
}

/// `now` is what is resident of the process, if that is known; `doubt` is why the figures are not
/// exact.
fn tables(
    m: &Moment,
    all: bool,
    now: Option<u64>,
    doubt: Option<String>,
    terminal: Option<Terminal>,
) -> String {
    let mut text = format!("process {} at {}\n\n", m.pid, m.event);
    text += &rows::text(&totals(m, now, doubt), terminal);
    text += "\nsize classes\n\n";
    let (shown, others) = divided(&m.classes, if all { usize::MAX } else { MOST_CLASSES });
    text += &classes(&shown).text(terminal);
    text += &rest(&others, terminal);
    text += "\nthread heaps\n\n";
    text += &heaps(&m.thread_heaps).text(terminal);
    text += &program_heaps(&m.program_heaps, terminal);
    text += "\nsystem calls\n\n";
    text += &syscalls(m).text(terminal);
    text += &untimed(m).map_or(String::new(), |why| indented(why, terminal));
    if !m.decisions.is_empty() {
        text += "\ndecisions\n\n";
        for decision in &m.decisions {
            let seconds = decision.at_ms as f64 / 1000.0;
            let after = format!("after {seconds:>6.1} s  ");
            let columns = after.chars().count();
            text += &rows::row(&after, columns, &decision.to_string(), terminal);
        }
    }
    if !m.foreign_sites.is_empty() {
        text += "\nfrees of pointers that are not hakmem's\n\n";
        text += &sites(&m.foreign_sites).text(terminal);
    }
    text
}

pub fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".into(),
        _ => format!("{:.1} %", part as f64 * 100.0 / whole as f64),
    }
}

fn totals(m: &Moment, now: Option<u64>, doubt: Option<String>) -> Vec<[String; 2]> {
    let mut rows = blocks(m);
    rows.extend(memory(m, now));
    rows.extend(named([(
        "thread heaps",
        format!("{} made", grouped(m.heaps)),
    )]));
    rows.extend(hard_limit(m));
    if m.foreign_frees > 0 {
        rows.extend(named([("foreign frees", grouped(m.foreign_frees))]));
    }
    rows.extend(doubt.map(|why| ["not exact".to_owned(), why]));
    rows
}

/// What was allocated and freed.
fn blocks(m: &Moment) -> Vec<[String; 2]> {
    let small = total(m.classes.iter().map(|c| c.allocations));
    let hits = total(m.classes.iter().map(|c| c.list_hits));
    named([
        (
            "allocations",
            format!("{}, {} freed", grouped(m.allocations), grouped(m.frees)),
        ),
        (
            "served by a list",
            format!(
                "{} of {} up to 64 KiB; {} refills",
                percent(hits, small),
                grouped(small),
                grouped(m.refills)
            ),
        ),
        (
            "freed by others",
            format!(
                "{}, {} on their way",
                grouped(m.remote_frees),
                grouped(m.in_flight)
            ),
        ),
        (
            "large, huge blocks",
            format!(
                "{} ({} from a cache), {} ({} from the cache)",
                grouped(m.large_allocations),
                percent(m.large_hits, m.large_allocations),
                grouped(m.huge_allocations),
                percent(m.huge_hits, m.huge_allocations)
            ),
        ),
    ])
}

/// What is resident of hakmem's memory. Where blocks are live, something is.
pub fn in_arenas(m: &Moment) -> String {
    match m.live_bytes {
        0 => bytes(m.resident_bytes),
        _ => resident(m.resident_bytes),
    }
}

/// What is resident of hakmem's memory and of the process, `now` and at most.
fn in_memory(m: &Moment, now: Option<u64>) -> String {
    let process = match (now.unwrap_or(0), resident(m.peak_resident_kib << 10)) {
        (0, peak) if peak == NOT_KNOWN => None,
        (0, peak) => Some(format!("at most {peak}")),
        (now, peak) => Some(format!("{}, at most {peak}", bytes(now))),
    };
    match (in_arenas(m), process) {
        (arenas, None) if arenas == NOT_KNOWN => arenas,
        (arenas, process) => {
            let process = process.unwrap_or_else(|| format!("at most {NOT_KNOWN}"));
            format!("{arenas} in the arenas; of the process {process}")
        }
    }
}

/// What memory is used for.
fn memory(m: &Moment, now: Option<u64>) -> Vec<[String; 2]> {
    named([
        ("live", live(m)),
        ("resident", in_memory(m, now)),
        (
            "page faults",
            match faults(m.minor_faults, m.major_faults) {
                Some(faults) => format!("{faults}, of the process"),
                None => NOT_KNOWN.into(),
            },
        ),
        (
            "committed",
            format!(
                "{} of {} reserved, {} asked for as huge pages",
                bytes(m.committed_bytes),
                bytes(m.reserved_bytes),
                bytes(m.thp_bytes)
            ),
        ),
        (
            "free and kept",
            format!(
                "{}; given back so far {}",
                bytes(m.dirty_bytes),
                bytes(m.purged_bytes)
            ),
        ),
        (
            "segments",
            format!(
                "{} for pages and large blocks, {} of huge blocks, {} in the huge cache",
                m.slotted_segments, m.huge_segments, m.cached_segments
            ),
        ),
        ("slots of 64 KiB", slots(m)),
    ])
}

/// How far the hard limit is away, if there is one or was one that refused something.
pub fn hard_limit(m: &Moment) -> Option<[String; 2]> {
    let held = bytes(m.held_bytes?);
    let refused = grouped(m.refused);
    let said = match m.hard_limit_bytes {
        0 if m.refused == 0 => return None,
        0 => format!("none now, {held} held; requests refused: {refused}"),
        hard => format!(
            "{held} of {} held; requests refused: {refused}",
            bytes(hard)
        ),
    };
    Some(["hard limit".to_owned(), said])
}

/// Live bytes, now and at most. Blocks that were freed and are on their way count as live. They are
/// named if they are more than 1 % of the live blocks.
pub fn live(m: &Moment) -> String {
    let live = m.allocations.saturating_sub(m.frees);
    let live = live.saturating_add(m.in_flight);
    let on_their_way = match m.in_flight > live / 100 {
        true => format!(", of it {} blocks on their way", grouped(m.in_flight)),
        false => String::new(),
    };
    format!(
        "{}{on_their_way}, never more than {}",
        bytes(m.live_bytes),
        bytes(m.peak_live_bytes_upper_bound)
    )
}

/// What the slots are used for, in bytes.
pub fn slots(m: &Moment) -> String {
    let slots = |n: u64| bytes(n << 16);
    format!(
        "pages {}, large {}, kept by heaps {}, free and resident {}, without memory {}",
        slots(m.page_slots),
        slots(m.large_slots),
        slots(m.kept_slots),
        slots(m.dirty_slots),
        slots(m.clean_slots)
    )
}

/// The classes that hold most, as they come, and the others.
fn divided(all: &[Class], most: usize) -> (Vec<&Class>, Vec<&Class>) {
    let mut by_pages: Vec<_> = all.iter().enumerate().collect();
    by_pages.sort_by_key(|(_, c)| std::cmp::Reverse((c.page_bytes, c.allocations)));
    let mut is_shown = vec![false; all.len()];
    for (i, _) in by_pages.into_iter().take(most) {
        is_shown[i] = true;
    }
    let (shown, others): (Vec<_>, Vec<_>) = all.iter().zip(is_shown).partition(|&(_, shown)| shown);
    let classes = |part: Vec<(_, bool)>| part.into_iter().map(|(class, _)| class).collect();
    (classes(shown), classes(others))
}

/// What is said of the classes that have no line.
fn rest(others: &[&Class], terminal: Option<Terminal>) -> String {
    if others.is_empty() {
        return String::new();
    }
    let sum = |f: fn(&Class) -> u64| total(others.iter().map(|c| f(c)));
    let said = format!(
        "{} classes more: {} allocations, {} in pages, of which {} live; --all shows each",
        others.len(),
        grouped(sum(|c| c.allocations)),
        bytes(sum(|c| c.page_bytes)),
        bytes(sum(|c| c.live_bytes))
    );
    indented(&said, terminal)
}

fn indented(said: &str, terminal: Option<Terminal>) -> String {
    let width = terminal.map_or(usize::MAX, |terminal| terminal.width);
    let lines = clauses(said, width.saturating_sub(2));
    lines.iter().map(|line| format!("  {line}\n")).collect()
}

fn classes(all: &[&Class]) -> Table {
    let row = |c: &&Class| {
        vec![
            c.size.to_string(),
            grouped(c.allocations),
            grouped(c.frees),
            percent(c.remote_frees, c.frees),
            percent(c.list_hits, c.allocations),
            grouped(c.takes),
            grouped(c.carves),
            format!("{}/{}", c.filled, c.unfulled),
            c.pages.to_string(),
            bytes(c.live_bytes),
            percent(c.page_bytes.saturating_sub(c.live_bytes), c.page_bytes),
            bytes(c.peak_bytes),
        ]
    };
    Table::of(&CLASSES, all.iter().map(row))
}

fn heaps(all: &[Heap]) -> Table {
    let row = |h: &Heap| {
        vec![
            h.heap.to_string(),
            if h.running != 0 { "in use" } else { "idle" }.to_owned(),
            grouped(h.listed),
            grouped(h.takes),
            grouped(h.carves),
            grouped(h.next_pages),
            grouped(h.pages_unparked),
            grouped(h.cached_pages),
            grouped(h.new_pages),
            grouped(h.merges),
            grouped(h.blocks_received),
            grouped(h.blocks_sent),
            format!("{}/{}", grouped(h.batches_sent), grouped(h.chains_sent)),
        ]
    };
    let mut busiest: Vec<_> = all.iter().collect();
    busiest.sort_by_key(|h| std::cmp::Reverse(h.listed));
    Table::of(&HEAPS, busiest.into_iter().take(MOST_HEAPS).map(row))
}

/// The heaps that the program made, those with the most live bytes first, under a headline. Empty
/// if it made none.
pub fn program_heaps(all: &[ProgramHeap], terminal: Option<Terminal>) -> String {
    if all.is_empty() {
        return String::new();
    }
    let row = |h: &ProgramHeap| {
        vec![
            h.shown_name(),
            bytes(h.live_bytes),
            bytes(h.peak_live_bytes),
            limit(h),
            grouped(h.refused),
            grouped(h.allocations),
            grouped(h.frees),
            bytes(h.held_bytes),
            bytes(h.reserved_bytes),
        ]
    };
    let mut largest: Vec<_> = all.iter().collect();
    largest.sort_by_key(|h| std::cmp::Reverse(h.live_bytes));
    let table = Table {
        names: true,
        ..Table::of(&PROGRAMS, largest.into_iter().take(MOST_HEAPS).map(row))
    };
    format!("\nheaps of the program\n\n{}", table.text(terminal))
}

/// The limit for people.
pub fn limit(heap: &ProgramHeap) -> String {
    match heap.limit_bytes {
        0 => "-".into(),
        n => bytes(n),
    }
}

fn syscalls(m: &Moment) -> Table {
    let row = |c: &Syscall| {
        let timed = |text: String| if c.nanos > 0 { text } else { "-".into() };
        vec![
            c.name.clone(),
            grouped(c.calls),
            grouped(c.failures),
            timed(duration(c.nanos)),
            timed(percent(c.nanos, m.cpu_nanos)),
        ]
    };
    Table {
        names: true,
        ..Table::of(&CALLS, m.syscalls.iter().filter(|c| c.calls > 0).map(row))
    }
}

/// What is said of system calls none of which was timed.
pub fn untimed(m: &Moment) -> Option<&'static str> {
    /// Those before the library's constructor, which nothing times.
    const EARLY: u64 = 16;
    let calls = total(m.syscalls.iter().map(|c| c.calls));
    let is_untimed = calls > EARLY && m.syscalls.iter().all(|c| c.nanos == 0);
    is_untimed.then_some("not timed: set HAKMEM_TIMING=1 when the program starts")
}

fn sites(all: &[Site]) -> Table {
    let row = |s: &Site| vec![s.address.clone(), grouped(s.frees)];
    Table {
        names: true,
        ..Table::of(&SITES, all.iter().map(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_on_their_way_are_named_if_they_matter() {
        let of = |frees, in_flight| {
            live(&Moment {
                allocations: 1000,
                frees,
                in_flight,
                live_bytes: 2048,
                peak_live_bytes_upper_bound: 4096,
                ..Moment::default()
            })
        };
        let plain = "2.0 KiB, never more than 4.0 KiB";
        assert_eq!(of(0, 0), plain);
        assert_eq!(of(1000, 0), plain, "nothing is live");
        assert_eq!(of(505, 5), plain, "1 % of 500");
        let text = "2.0 KiB, of it 6 blocks on their way, never more than 4.0 KiB";
        assert_eq!(of(506, 6), text);
        assert_eq!(of(1000, 6), text, "all of it");
    }

    #[test]
    fn calls_without_times_have_a_line() {
        let call = |calls, nanos| Syscall {
            calls,
            nanos,
            ..Syscall::default()
        };
        let of = |syscalls: &[Syscall]| {
            untimed(&Moment {
                syscalls: syscalls.to_vec(),
                ..Moment::default()
            })
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[call(0, 0)]), None);
        assert_eq!(of(&[call(16, 0)]), None, "none of them can be timed");
        assert_eq!(of(&[call(40, 0), call(1, 5)]), None);
        assert!(of(&[call(0, 0), call(17, 0)]).is_some());
    }

    #[test]
    fn figures_that_the_process_did_not_know() {
        let live_bytes = 2048;
        let unknown = Moment {
            live_bytes,
            ..Moment::default()
        };
        let text = of(&unknown, false, None);
        for line in [
            "resident            not known\n",
            "page faults         not known\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        let nothing = of(&Moment::default(), false, None);
        assert!(
            nothing.contains("resident            0 B in the arenas"),
            "{nothing}"
        );
    }

    #[test]
    fn a_reading_is_inexact_if_lists_changed() {
        let moment = Moment {
            running_heaps: 2,
            ..Moment::default()
        };
        let report = "not exact           the lists of 2 running threads are not known\n";
        assert!(of(&moment, false, None).contains(report));
        let said = |whole| {
            let look = Reading {
                moment: moment.clone(),
                whole,
                usage: Default::default(),
                decisions: vec![],
            };
            of_reading(&look, false, None)
        };
        assert!(!said(true).contains("not exact"));
        let changed = "not exact           lists changed, or were too many to follow\n";
        assert!(said(false).contains(changed));
    }

    #[test]
    fn classes_that_hold_most_have_a_line_and_the_others_one() {
        let class = |i: u64| Class {
            size: 16 * i,
            allocations: 10,
            page_bytes: (i % 10) << 16,
            live_bytes: 1 << 10,
            ..Class::default()
        };
        let moment = Moment {
            classes: (1..=20).map(class).collect(),
            ..Moment::default()
        };
        let rows = |text: &str| {
            let lines = text.lines().skip_while(|l| !l.contains("full/unfull"));
            let sizes = lines
                .skip(1)
                .map_while(|l| l.split_whitespace().next()?.parse().ok());
            sizes.collect::<Vec<u64>>()
        };
        let text = of(&moment, false, None);
        let most = [4, 5, 6, 7, 8, 9, 14, 15, 16, 17, 18, 19].map(|i| 16 * i);
        assert_eq!(rows(&text)[..12], most);
        let line = "\n  8 classes more: 80 allocations, 768.0 KiB in pages, of which 8.0 KiB live;";
        assert!(text.contains(line), "{text}");
        let text = of(&moment, true, None);
        assert_eq!(rows(&text).len(), 20);
        assert!(!text.contains("classes more"));
    }
}
