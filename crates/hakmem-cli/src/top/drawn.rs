//! What is drawn, at each size of a terminal and for numbers of each length: every number on the
//! screen, read back, is one of the reading's to the digits that are shown, and in the table that
//! of its row and column.

use super::rates::History;
use super::screen::{Page, State, draw};
use crate::checked::total;
use crate::stat::figures::{Class, Heap, Moment, ProgramHeap, Syscall};
use crate::view::{Reading, Usage};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::time::{Duration, Instant};

const SIZES: [(u16, u16); 9] = [
    (80, 24),
    (60, 15),
    (200, 50),
    (40, 10),
    (30, 8),
    (120, 40),
    (76, 22),
    (16, 5),
    (9, 3),
];
const UNITS: [(&str, f64); 21] = [
    (" KiB", 1024.0),
    (" MiB", 1048576.0),
    (" GiB", 1073741824.0),
    (" TiB", 1099511627776.0),
    (" PiB", 1125899906842624.0),
    (" EiB", 1152921504606846976.0),
    (" B", 1.0),
    (" %", 1.0),
    (" s", 1.0),
    (" ms", 1.0),
    (" µs", 1.0),
    (" ns", 1.0),
    (" min", 1.0),
    (" h", 1.0),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
    ("E", 1e18),
    ("", 1.0),
];

/// A number as it is printed: its value, half of its last digit, its unit.
struct Printed<'a> {
    text: &'a str,
    value: f64,
    half: f64,
    unit: &'static str,
}

/// Reads the number at the beginning of a text.
fn printed(text: &str) -> Option<Printed<'_>> {
    let is_digit = |c: char| c.is_ascii_digit() || c == ',' || c == '.';
    let digits = text.find(|c| !is_digit(c)).unwrap_or(text.len());
    let number = text[..digits].trim_end_matches([',', '.']);
    let value: f64 = number.replace(',', "").parse().ok()?;
    let behind = &text[number.len()..];
    let ends = |rest: &str| !rest.starts_with(char::is_alphanumeric);
    let (unit, scale) = UNITS
        .into_iter()
        .find(|(unit, _)| behind.strip_prefix(unit).is_some_and(ends))?;
    let decimals = number.split_once('.').map_or(0, |(_, d)| d.len());
    let exact = decimals == 0 && scale == 1.0 && unit != " %";
    let half = if exact {
        0.0
    } else {
        0.5001 * scale / 10f64.powi(decimals as i32)
    };
    Some(Printed {
        text: &text[..number.len() + unit.len()],
        value: value * scale,
        half,
        unit,
    })
}

impl Printed<'_> {
    fn is(&self, truth: f64) -> bool {
        (self.value - truth).abs() <= self.half + truth * 1e-12
    }

    fn is_time(&self) -> bool {
        [" s", " ms", " µs", " ns", " min", " h"].contains(&self.unit)
    }
}

fn moment(scale: u64, later: u64) -> Moment {
    let n = |of: u64| of.saturating_mul(scale) / 1000;
    let class = |i: u64| Class {
        size: 16 << i,
        allocations: n(2_023_256 + 7919 * i) + later * n(15_822 + i),
        frees: n(1_000_477 + 104_729 * i),
        remote_frees: n(400_123 + 5 * i),
        list_hits: n(1_900_321 + 3 * i),
        pages: n(409_871 + i),
        page_bytes: n(80_000_123 * (i + 1)),
        live_bytes: n(40_960_000 + 1_234_567 * i),
        ..Class::default()
    };
    let heap = |i: u64| Heap {
        running: i % 2,
        listed: n(5_432_100 + 13 * i) + later * n(3210),
        takes: n(65_432 * (i + 1)),
        carves: n(76_543 * (i + 1)),
        new_pages: n(8_765 * (i + 1)),
        blocks_received: n(98_765 * (i + 1)),
        blocks_sent: n(123_123 * (i + 1)),
        chains_sent: n(4_321 * (i + 1)),
        ..Heap::default()
    };
    let program_heap = |i: u64| ProgramHeap {
        name: format!("component-{}", (b'a' + i as u8) as char),
        live_bytes: n(12_345_678 * (i + 1)),
        peak_live_bytes: n(23_456_789 * (i + 1)),
        limit_bytes: n(34_567_891) * i,
        allocations: n(456_789 * (i + 1)),
        frees: n(345_678 * (i + 1)),
        refused: n(234 * i),
        held_bytes: n(45_678_912 * (i + 1)),
        ..ProgramHeap::default()
    };
    let call = |i: u64| Syscall {
        name: format!("call-{}", (b'a' + i as u8) as char),
        calls: n(33_333 * (i + 1)) + later * n(1_111),
        failures: n(222 * (i + 1)),
        nanos: 0,
    };
    let classes: Vec<_> = (0..14).map(class).collect();
    Moment {
        pid: 4_242_424,
        heaps: 3,
        allocations: total(classes.iter().map(|c| c.allocations)),
        frees: n(7_654_321),
        remote_frees: n(6_543_217),
        refills: n(543_219),
        large_allocations: n(43_217),
        huge_allocations: n(3_217),
        live_bytes: n(409_600_123),
        peak_live_bytes_upper_bound: n(1_258_291_456),
        resident_bytes: n(750_123_789),
        committed_bytes: n(2_099_999_999),
        dirty_bytes: n(98_765_432),
        thp_bytes: n(67_108_864),
        purged_bytes: n(3_210_987_654) + later * n(12_345_678),
        classes,
        thread_heaps: (0..3).map(heap).collect(),
        program_heaps: (0..2).map(program_heap).collect(),
        syscalls: (0..8).map(call).collect(),
        ..Moment::default()
    }
}

fn reading(scale: u64, later: u64) -> Reading {
    let moment = moment(scale, later);
    let usage = Usage {
        name: "fifteen-letters".into(),
        threads: 17,
        resident_bytes: 1_900_000_777u64.saturating_mul(scale) / 1000,
        ..Usage::default()
    };
    Reading {
        moment,
        usage,
        decisions: Vec::new(),
        whole: true,
    }
}

/// Two readings, a second apart.
fn history(scale: u64) -> History {
    let (mut history, now) = (History::default(), Instant::now());
    history.add(reading(scale, 0), now);
    history.add(reading(scale, 1), now + Duration::from_secs(1));
    history
}

/// All true numbers.
fn truths(history: &History) -> Vec<f64> {
    let reading = history.reading().unwrap();
    let (m, r) = (&reading.moment, history.rates.as_ref().unwrap());
    let part = |part: u64, whole: u64| part as f64 * 100.0 / whole.max(1) as f64;
    let small = total(m.classes.iter().map(|c| c.allocations));
    let hits = total(m.classes.iter().map(|c| c.list_hits));
    let calls = total(m.syscalls.iter().map(|c| c.calls));
    let mut all: Vec<u64> = vec![
        m.pid.into(),
        reading.usage.threads,
        m.allocations,
        m.frees,
        m.refills,
        m.remote_frees,
        m.large_allocations,
        m.huge_allocations,
        calls,
        m.purged_bytes,
        m.live_bytes,
        m.peak_live_bytes_upper_bound,
        m.resident_bytes,
        m.committed_bytes,
        m.dirty_bytes,
        m.thp_bytes,
        reading.usage.resident_bytes,
        r.allocations as u64,
        r.purged_bytes as u64,
    ];
    // The curves' ranges begin at 0; their points have an end.
    all.extend([
        0,
        1,
        m.live_bytes.min(1 << 48),
        m.resident_bytes.min(1 << 48),
    ]);
    all.extend((0..3).chain(m.syscalls.iter().flat_map(|c| [c.calls, c.failures])));
    for h in &m.thread_heaps {
        all.extend([h.listed, h.takes, h.carves, h.new_pages]);
        all.extend([h.blocks_received, h.blocks_sent, h.chains_sent]);
    }
    for h in &m.program_heaps {
        all.extend([h.live_bytes, h.peak_live_bytes, h.limit_bytes, h.refused]);
        all.extend([h.allocations, h.frees, h.held_bytes]);
    }
    let mut all: Vec<f64> = all.into_iter().map(|n| n as f64).collect();
    for class in &m.classes {
        all.extend(COLUMNS.iter().flat_map(|head| truth(head, class, history)));
    }
    all.extend([
        r.allocations,
        r.frees,
        r.refills,
        r.remote_frees,
        r.large,
        r.huge,
    ]);
    all.extend([r.syscalls, r.cpu * 100.0, part(hits, small), 100.0]);
    all.extend(r.heaps.iter().chain(r.calls.values()));
    all
}

const COLUMNS: [&str; 9] = [
    "size", "live", "pages", "unused", "allocs", "per s", "frees", "remote", "hits",
];

/// What a column of the table of classes has to show.
fn truth(head: &str, c: &Class, history: &History) -> Option<f64> {
    let part = |part: u64, whole: u64| part as f64 * 100.0 / whole.max(1) as f64;
    Some(match head {
        "size" => c.size as f64,
        "live" => c.live_bytes as f64,
        "pages" => c.pages as f64,
        "unused" => part(c.page_bytes.saturating_sub(c.live_bytes), c.page_bytes),
        "allocations" | "allocs" => c.allocations as f64,
        "a second" | "per s" => history.rates.as_ref()?.classes[&c.size].round(),
        "frees" => c.frees as f64,
        "by others" | "remote" => part(c.remote_frees, c.frees),
        "list hits" | "hits" => part(c.list_hits, c.allocations),
        _ => return None,
    })
}

fn screen(history: &History, state: &mut State, (width, height): (u16, u16)) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| draw(frame, state, history, 0))
        .unwrap();
    let cells = terminal.backend().buffer().content();
    let lines = cells.chunks(width.into());
    lines
        .map(|line| line.iter().map(|cell| cell.symbol()).collect())
        .collect()
}

/// Each number of a line that no letter precedes.
fn numbers(line: &str) -> Vec<Printed<'_>> {
    let (mut found, mut at, mut before) = (Vec::new(), 0, ' ');
    while let Some(c) = line[at..].chars().next() {
        let here = c.is_ascii_digit() && !before.is_alphanumeric() && before != '-';
        let number = if here { printed(&line[at..]) } else { None };
        assert!(!here || number.is_some(), "what follows {at} in {line:?}");
        at += number.as_ref().map_or(c.len_utf8(), |n| n.text.len());
        before = line[..at].chars().next_back().unwrap_or(' ');
        found.extend(number);
    }
    found
}

fn cells(line: &str) -> Vec<&str> {
    let cells = line.trim_matches(['│', ' ']).split("  ").map(str::trim);
    cells.filter(|cell| !cell.is_empty()).collect()
}

/// Compares the table of classes; the rows that it has, and the columns.
fn check_classes(screen: &[String], history: &History) -> (usize, usize) {
    let is_head = |line: &&String| cells(line).first() == Some(&"size");
    let Some(head) = screen.iter().find(is_head) else {
        return (0, 0);
    };
    let heads = cells(head);
    let below = screen.iter().skip_while(|line| *line != head).skip(1);
    let mut rows = 0;
    for line in below.take_while(|line| {
        cells(line)
            .first()
            .is_some_and(|c| c.parse::<u64>().is_ok())
    }) {
        let cells = cells(line);
        assert_eq!(cells.len(), heads.len(), "{line}");
        let size: u64 = cells[0].parse().unwrap();
        let all = &history.reading().unwrap().moment.classes;
        let class = all.iter().find(|c| c.size == size).unwrap();
        for (head, cell) in heads.iter().zip(cells) {
            let truth = truth(head, class, history).unwrap_or_else(|| panic!("the head {head:?}"));
            let read = printed(cell).filter(|read| read.text == cell);
            let read = read.unwrap_or_else(|| panic!("{cell:?} of {head}"));
            assert!(
                read.is(truth),
                "{cell} of {head}, which is {truth}, in {line}"
            );
        }
        rows += 1;
    }
    (rows, heads.len())
}

#[test]
fn every_number_is_whole_at_every_size() {
    for scale in [1, 20, 1000, 250_000, 900_000_000] {
        let history = history(scale);
        let truths = truths(&history);
        for size in SIZES {
            for page in Page::ALL {
                let mut state = State::new(1.0);
                state.page = page;
                let screen = screen(&history, &mut state, size);
                let all = screen.join("\n");
                for line in &screen {
                    for number in numbers(line) {
                        let known = number.is_time() || truths.iter().any(|&t| number.is(t));
                        assert!(known, "{:?} in {size:?} × {scale}:\n{all}", number.text);
                    }
                }
                check_classes(&screen, &history);
            }
        }
    }
}

#[test]
fn rows_and_columns_by_the_size() {
    let history = history(1000);
    for (size, rows, columns) in [
        ((200, 50), 14, 9),
        ((80, 24), 7, 9),
        ((60, 15), 8, 6),
        ((40, 10), 6, 4),
        ((30, 8), 4, 3),
        ((9, 3), 1, 1),
    ] {
        let screen = screen(&history, &mut State::new(1.0), size);
        let seen = check_classes(&screen, &history);
        let least = seen.0 >= rows && seen.1 >= columns;
        assert!(least, "{seen:?} in {size:?}:\n{}", screen.join("\n"));
    }
}

#[test]
fn curves_say_what_they_show_and_keys_are_explained() {
    let history = history(1000);
    for size in [(80, 24), (200, 50)] {
        let all = screen(&history, &mut State::new(1.0), size).join("\n");
        for what in [
            ": 0 to 222k, last 1.0 s",
            "live: 0 to 391 MiB",
            " 0 to 715 MiB",
            "? ",
        ] {
            assert!(all.contains(what), "{what} in\n{all}");
        }
    }
    for size in SIZES {
        let mut state = State::new(1.0);
        state.help = Some(0);
        let first = screen(&history, &mut state, size).join("\n");
        assert!(first.contains("KEYS"), "{first}");
        state.help = Some(usize::MAX);
        let last = screen(&history, &mut state, size).join(" ");
        let words: Vec<_> = last.split_whitespace().collect();
        assert!(words.contains(&"processor") || size.0 < 30, "{last}");
    }
}

/// What the system does not say is no number: not the memory, nor the limit.
#[test]
fn what_is_not_known_is_a_dash() {
    let mut unknown = reading(1000, 0);
    (unknown.moment.resident_bytes, unknown.usage.resident_bytes) = (0, 0);
    unknown.moment.refused = 3;
    let mut history = History::default();
    history.add(unknown, Instant::now());
    let panels = screen(&history, &mut State::new(1.0), (120, 40)).join("\n");
    for part in [
        "resident            -  ",
        "process             -  ",
        "hard limit          -, 3 refused",
        "resident: - ",
    ] {
        assert!(panels.contains(part), "{part} in\n{panels}");
    }
    assert!(!panels.contains(" 0 B"), "{panels}");
    let short = screen(&history, &mut State::new(1.0), (60, 15)).join("\n");
    for part in ["resident -  ", "process -  "] {
        assert!(short.contains(part), "{part} in\n{short}");
    }
}
