//! Reports of errors without what the process wrote on its standard error itself: the first line of
//! each. `hakmem run` prints what is left, so that each error is there once.

use std::fmt::Write;

const PREFIX: &str = "hakmem: ";

/// How the further lines of a report begin.
const FURTHER: [&str; 7] = [
    " ",
    "0x",
    "thread ",
    "a thread of ",
    "process ",
    "the write was earlier",
    "the free may have been earlier",
];

/// True for the first line of a report.
fn is_first(line: &str) -> bool {
    let Some(rest) = line.strip_prefix(PREFIX) else {
        return false;
    };
    !FURTHER.iter().any(|start| rest.starts_with(start))
}

/// The process that a further line names.
fn process(line: &str) -> Option<&str> {
    let rest = line.strip_prefix(PREFIX)?;
    let rest = match rest.strip_prefix("process ") {
        Some(rest) => rest,
        None => rest.split_once("thread ")?.1.split_once("of process ")?.1,
    };
    let (number, _) = rest.split_once(" (")?;
    number.bytes().all(|b| b.is_ascii_digit()).then_some(number)
}

/// The further lines of each report, below a line that says whose they are.
pub fn of(text: &str) -> String {
    let mut all = String::new();
    let mut further = Vec::new();
    for line in text.lines() {
        if is_first(line) {
            show(&mut all, &further);
            further.clear();
        } else {
            further.push(line);
        }
    }
    show(&mut all, &further);
    all
}

fn show(all: &mut String, further: &[&str]) {
    if further.is_empty() {
        return;
    }
    let process = further.iter().find_map(|line| process(line));
    let of = process.map_or(String::new(), |process| format!(" of process {process}"));
    let head = format!("{PREFIX}the rest of the report{of}, with functions and lines:");
    for line in [head.as_str()].iter().chain(further) {
        let _ = writeln!(all, "{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_report_is_without_its_first_line() {
        let text = "\
hakmem: unknown option HAKMEM_WHAT, ignored
hakmem: double free of 0x10, a block of 48 bytes
hakmem: 0x10 is byte 0 of the page at 0x10
hakmem: thread 8 of process 7 (a):
hakmem:     #0 f (a.c:1)
            main (a.c:2)
hakmem: Use After Free at 0x20 (0 bytes into a 40-byte allocation at 0x20) here:
hakmem:     no stack is known
hakmem: 0x20 was allocated here:
hakmem:     #0 main (a.c:3)
hakmem: process 9 (b (c))
hakmem: invalid pointer 0x30
hakmem: the write was earlier: the stack is that of the call that found it
";
        let expected = "\
hakmem: the rest of the report of process 7, with functions and lines:
hakmem: 0x10 is byte 0 of the page at 0x10
hakmem: thread 8 of process 7 (a):
hakmem:     #0 f (a.c:1)
            main (a.c:2)
hakmem: the rest of the report of process 9, with functions and lines:
hakmem:     no stack is known
hakmem: 0x20 was allocated here:
hakmem:     #0 main (a.c:3)
hakmem: process 9 (b (c))
hakmem: the rest of the report, with functions and lines:
hakmem: the write was earlier: the stack is that of the call that found it
";
        assert_eq!(of(text), expected);
    }
}
