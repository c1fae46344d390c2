//! The figures of a report, for a person to read.

use crate::checked::total;
use crate::lines::{cut, length, wrap};
use crate::report::{Figures, Report, State};
use crate::rows;
use crate::terminal::Terminal;
pub use hakmem_pprof::tool::numbers::{bytes, duration, grouped};

/// What is said of a figure that the process could not ask the system for, as its filter forbade
/// that, and of one that cannot be read from outside. Its report has 0 there.
pub const NOT_KNOWN: &str = "not known";

/// What is resident of a process. Nothing is of none that runs.
pub fn resident(n: u64) -> String {
    if n == 0 { NOT_KNOWN.into() } else { bytes(n) }
}

/// The page faults of processes. None is without.
pub fn faults(minor: u64, major: u64) -> Option<String> {
    let known = (minor, major) != (0, 0);
    known.then(|| format!("{} minor, {} major", grouped(minor), grouped(major)))
}

/// Kinds of system calls that are listed.
const KINDS: usize = 64;
/// Columns of a row's name.
const NAMES: usize = 20;

/// The summary of a program that ended through its exit handlers, and of the processes it started.
pub fn of(program: &str, pid: u32, report: &Report, terminal: Option<Terminal>) -> String {
    let mut page = Page {
        text: String::new(),
        terminal,
    };
    if let Some(image) = report.last_of(pid)
        && let State::Ended(figures) = &image.state
    {
        let title = page.title(program, &format!(" (process {pid})"));
        page.section(&title, &Totals::of([figures]), image.forked);
    }
    let images = report.images.len();
    if images > 1 {
        let totals = Totals::of(report.figures());
        let processes = counted(report.processes() as u64, "process", "processes");
        let programs = match images - report.processes() {
            0 => String::new(),
            execs => format!(
                ", {} by exec",
                counted(execs as u64, "program more", "programs more")
            ),
        };
        let forked = report.images.iter().filter(|i| i.forked).count() as u64;
        let title = format!("all together ({processes}{programs})");
        page.section(&title, &totals, forked > 0);
        if forked > 0 {
            let forked = counted(forked, "forked process", "forked processes");
            page.row(
                "counted again",
                format!("what came before the fork, in {forked}"),
            );
        }
        let silent = images - totals.images;
        if silent > 0 {
            let silent = counted(silent as u64, "program", "programs");
            page.row(
                "not included",
                format!("{silent} without a report at the end (exec, _exit, signal, running)"),
            );
        }
    }
    if report.unreadable > 0 {
        let lines = counted(report.unreadable as u64, "line", "lines");
        page.row(
            "not included",
            format!("{lines} of the report that cannot be read"),
        );
    }
    page.text
}

/// Sums, and for the peaks, which fall at different times, the largest as well.
#[derive(Default)]
struct Totals {
    images: usize,
    allocations: u64,
    frees: u64,
    program_allocations: u64,
    foreign_frees: u64,
    refused: u64,
    live: Peak,
    resident: Peak,
    minor_faults: u64,
    major_faults: u64,
    /// Of so many it is not known what was resident, …
    without_resident: usize,
    /// … and of so many how they faulted.
    without_faults: usize,
    syscalls: Vec<Calls>,
}

#[derive(Default)]
struct Peak {
    largest: u64,
    sum: u64,
}

impl Peak {
    fn add(&mut self, bytes: u64) {
        self.largest = self.largest.max(bytes);
        self.sum = total([self.sum, bytes]);
    }

    fn text(&self, images: usize) -> String {
        match images {
            1 => bytes(self.sum),
            _ => format!(
                "{} in the largest, {} as a sum",
                bytes(self.largest),
                bytes(self.sum)
            ),
        }
    }
}

#[derive(Default)]
struct Calls {
    name: String,
    calls: u64,
    failures: u64,
    /// Calls of processes that time them, …
    timed: u64,
    /// … and how long these took.
    nanos: u64,
}

impl Calls {
    fn text(&self) -> String {
        let (calls, time) = (grouped(self.calls), duration(self.nanos));
        match self.timed {
            0 => calls,
            timed if timed == self.calls => format!("{calls} in {time}"),
            timed => format!("{calls}, {} of them in {time}", grouped(timed)),
        }
    }
}

impl Totals {
    fn of<'a>(all: impl IntoIterator<Item = &'a Figures>) -> Self {
        let mut totals = Self::default();
        for figures in all {
            totals.images += 1;
            let add = |sum: &mut u64, n| *sum = total([*sum, n]);
            add(&mut totals.allocations, figures.allocations);
            add(&mut totals.frees, figures.frees);
            add(&mut totals.program_allocations, figures.program_allocations);
            add(&mut totals.foreign_frees, figures.foreign_frees);
            add(&mut totals.refused, figures.refused);
            totals.live.add(figures.peak_live_bytes_upper_bound);
            let resident = figures.peak_resident_kib.saturating_mul(1024);
            totals.resident.add(resident);
            totals.without_resident += usize::from(resident == 0);
            let faults = (figures.minor_faults, figures.major_faults);
            totals.without_faults += usize::from(faults == (0, 0));
            add(&mut totals.minor_faults, figures.minor_faults);
            add(&mut totals.major_faults, figures.major_faults);
            for call in figures.syscalls.iter().filter(|c| c.calls > 0) {
                let known = totals.syscalls.iter().position(|c| c.name == call.name);
                let at = match known {
                    Some(at) => at,
                    // More kinds than there are.
                    None if totals.syscalls.len() == KINDS => continue,
                    None => {
                        totals.syscalls.push(Calls {
                            name: call.name.clone(),
                            ..Calls::default()
                        });
                        totals.syscalls.len() - 1
                    }
                };
                let sum = &mut totals.syscalls[at];
                add(&mut sum.calls, call.calls);
                add(&mut sum.failures, call.failures);
                let timed = if call.nanos > 0 { call.calls } else { 0 };
                add(&mut sum.timed, timed);
                add(&mut sum.nanos, call.nanos);
            }
        }
        totals
    }
}

impl Totals {
    /// A figure that so many of the processes did not know of themselves.
    fn with_unknown(&self, figure: String, without: usize) -> String {
        match without {
            0 => figure,
            n if n == self.images => NOT_KNOWN.into(),
            n => format!("{figure}, of {} {NOT_KNOWN}", grouped(n as u64)),
        }
    }
}

/// What is printed.
struct Page {
    text: String,
    terminal: Option<Terminal>,
}

impl Page {
    /// `forked`: some of the processes were made by fork.
    fn section(&mut self, title: &str, totals: &Totals, forked: bool) {
        let images = totals.images;
        let title = format!("hakmem: {title}");
        let lines = match self.terminal {
            Some(terminal) => wrap(&title, terminal.width, 2),
            None => vec![title],
        };
        self.text += &(lines.join("\n") + "\n");
        let (served, freed) = (totals.allocations, totals.frees);
        // It frees what its parent allocated.
        let since = match forked && freed > served {
            true => " since the fork",
            false => "",
        };
        let (served, freed) = (grouped(served), grouped(freed));
        self.row(
            "allocations served",
            format!("{served}, {freed} freed{since}"),
        );
        if totals.program_allocations > 0 {
            let from_heaps = grouped(totals.program_allocations);
            self.row("from its own heaps", from_heaps);
        }
        self.row("peak live, at most", totals.live.text(images));
        let resident = totals.resident.text(images);
        let resident = totals.with_unknown(resident, totals.without_resident);
        self.row("peak resident", resident);
        let faults = faults(totals.minor_faults, totals.major_faults).unwrap_or_default();
        let faults = totals.with_unknown(faults, totals.without_faults);
        self.row("page faults", faults);
        let sum = |of: fn(&Calls) -> u64| total(totals.syscalls.iter().map(of));
        let all = Calls {
            calls: sum(|c| c.calls),
            timed: sum(|c| c.timed),
            nanos: sum(|c| c.nanos),
            ..Calls::default()
        };
        self.row("its system calls", all.text());
        for call in &totals.syscalls {
            let failed = match call.failures {
                0 => String::new(),
                n => format!(", {} failed", grouped(n)),
            };
            self.row(
                &format!("  {}", call.name),
                format!("{}{failed}", call.text()),
            );
        }
        if totals.foreign_frees > 0 {
            self.row("foreign frees", grouped(totals.foreign_frees));
        }
        if totals.refused > 0 {
            let refused = counted(totals.refused, "request", "requests");
            self.row("hard limit", format!("{refused} refused"));
        }
    }

    fn row(&mut self, name: &str, value: String) {
        self.text += &rows::row(name, NAMES, &value, self.terminal);
    }

    /// The program's name and what comes behind it, with a name that a terminal has room for.
    fn title(&self, program: &str, rest: &str) -> String {
        let taken = length("hakmem: ") + length(rest);
        let room = self
            .terminal
            .map_or(usize::MAX, |t| t.width.saturating_sub(taken));
        cut(program, room) + rest
    }
}

/// A number of things.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!(
        "{} {}",
        grouped(number),
        if number == 1 { one } else { many }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{exit, load, read};

    #[test]
    fn one_process() {
        let text = of("prog", 7, &read(load(7) + &exit(7, 12345)), None);
        let expected = "\
hakmem: prog (process 7)
  allocations served  12,345, 1 freed
  peak live, at most  2.0 KiB
  peak resident       3.0 MiB
  page faults         1,234 minor, 0 major
  its system calls    2 in 1.5 µs
    mmap              2 in 1.5 µs, 1 failed
";
        assert_eq!(text, expected);
    }

    /// Its own filter for system calls forbade it to ask.
    #[test]
    fn figures_that_a_process_did_not_know() {
        let unknown = |pid| {
            let line =
                exit(pid, 1).replace("\"peak_resident_kib\":3072", "\"peak_resident_kib\":0");
            line.replace("\"minor_faults\":1234", "\"minor_faults\":0")
        };
        let text = of("prog", 7, &read(load(7) + &unknown(7)), None);
        let lines = "  peak resident       not known\n  page faults         not known\n";
        assert!(text.contains(lines), "{text}");
        let text = of("prog", 7, &read(load(7) + &unknown(8) + &exit(7, 1)), None);
        let (_, total) = text.split_once("hakmem: all").unwrap();
        let lines = "  peak resident       3.0 MiB in the largest, 3.0 MiB as a sum, of 1 not known
  page faults         1,234 minor, 0 major, of 1 not known\n";
        assert!(total.contains(lines), "{text}");
    }

    /// Of a process that does not time its calls, and of some that do.
    #[test]
    fn calls_that_were_not_timed_have_no_time() {
        let untimed = |pid| exit(pid, 1).replace("\"nanos\":1500", "\"nanos\":0");
        let text = of("prog", 7, &read(load(7) + &untimed(7)), None);
        assert!(text.contains("  its system calls    2\n"), "{text}");
        assert!(
            text.contains("    mmap              2, 1 failed\n"),
            "{text}"
        );
        let text = of("prog", 7, &read(load(7) + &untimed(8) + &exit(7, 1)), None);
        let (_, total) = text.split_once("hakmem: all").unwrap();
        assert!(
            total.contains("  its system calls    4, 2 of them in 1.5 µs\n"),
            "{text}"
        );
        assert!(
            total.contains("    mmap              4, 2 of them in 1.5 µs, 2 failed\n"),
            "{text}"
        );
    }

    /// It frees what it has from its parent, whose report is missing.
    #[test]
    fn a_forked_process_may_free_more_than_it_allocates() {
        let freed = |pid| exit(pid, 3).replace("\"frees\":1", "\"frees\":9");
        let text = of("prog", 7, &read(load(7) + &freed(8)), None);
        let line = "  allocations served  3, 9 freed since the fork\n";
        assert!(text.contains(line), "{text}");
        // No fork is known of.
        let text = of("prog", 7, &read(load(7) + &freed(7)), None);
        assert!(
            text.contains("  allocations served  3, 9 freed\n"),
            "{text}"
        );
    }

    #[test]
    fn several_processes_get_a_total_with_their_number() {
        let lines = load(7)
            + &load(7)
            + &load(9)
            + &exit(9, 10)
            + &exit(8, 20)
            + &exit(7, 30)
            + "nonsense\n";
        let text = of("prog", 7, &read(lines), None);
        let total = &text[text.find("hakmem: all").unwrap()..];
        let expected = "\
hakmem: all together (3 processes, 1 program more by exec)
  allocations served  60, 3 freed
  peak live, at most  2.0 KiB in the largest, 6.0 KiB as a sum
  peak resident       3.0 MiB in the largest, 9.0 MiB as a sum
  page faults         3,702 minor, 0 major
  its system calls    6 in 4.5 µs
    mmap              6 in 4.5 µs, 3 failed
  counted again       what came before the fork, in 1 forked process
  not included        1 program without a report at the end (exec, _exit, signal, running)
  not included        1 line of the report that cannot be read
";
        assert_eq!(total, expected);
    }

    #[test]
    fn no_line_is_wider_than_a_terminal() {
        let lines = load(7) + &load(7) + &load(9) + &exit(9, 10) + &exit(7, 30);
        let (width, without) = (45, "");
        let terminal = Some(Terminal { width, without });
        let text = of(&"prog".repeat(20), 7, &read(lines), terminal);
        assert!(text.lines().all(|line| length(line) <= width), "{text}");
        assert!(text.starts_with("hakmem: progprog"), "{text}");
        assert!(text.contains("… (process 7)\n"), "{text}");
        let last = "
  not included        1 program without a
                      report at the end
                      (exec, _exit, signal,
                      running)
";
        assert!(text.ends_with(last), "{text}");
    }
}
