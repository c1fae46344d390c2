//! Reports of errors once more, with functions and lines. The process has written the first line of
//! each on its standard error itself. So `hakmem run` prints them without `hakmem: ` in front:
//! whoever counts the lines of errors counts each once.

use std::fmt::Write;

/// The reports, below a line that says what they are.
pub fn of(text: &str) -> String {
    let mut all = String::from("hakmem: the program's errors, with functions and lines:\n");
    for line in text.lines() {
        let _ = writeln!(all, "  {}", line.strip_prefix("hakmem: ").unwrap_or(line));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_begins_as_that_of_an_error() {
        let text = "\
hakmem: double free of 0x10, a block of 48 bytes
hakmem: thread 8 of process 7 (a):
hakmem:     #0 f (a.c:1)
            main (a.c:2)
";
        let expected = "\
hakmem: the program's errors, with functions and lines:
  double free of 0x10, a block of 48 bytes
  thread 8 of process 7 (a):
      #0 f (a.c:1)
              main (a.c:2)
";
        assert_eq!(of(text), expected);
    }
}
