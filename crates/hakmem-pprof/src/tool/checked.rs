//! Text and numbers from outside: what is taken of them, and up to what length.

use std::cell::Cell;
use std::io::{self, BufRead, Read};

/// The characters of a name that are kept.
pub const NAME: usize = 256;

/// Why what was read is not used.
pub fn refuse(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

/// What may be spent on one thing.
pub struct Budget {
    left: Cell<u64>,
    what: &'static str,
}

impl Budget {
    pub fn new(all: u64, what: &'static str) -> Self {
        let left = all.into();
        Self { left, what }
    }

    /// Whether there was so much left; if so, it is spent.
    pub fn has(&self, n: u64) -> bool {
        let left = self.left.get().checked_sub(n);
        self.left.set(left.unwrap_or(0));
        left.is_some()
    }

    /// Refuses when there is not so much left.
    pub fn take(&self, n: u64) -> io::Result<()> {
        match self.has(n) {
            true => Ok(()),
            false => Err(refuse(format!(
                "it has more {} than are looked at",
                self.what
            ))),
        }
    }
}

/// A sum that saturates.
pub fn total(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers.into_iter().fold(0, u64::saturating_add)
}

/// Whether a character may be shown: it is none that a terminal obeys, turns the direction of text,
/// or ends a line, and XML has it.
fn is_shown(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !(turns || c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}'))
}

/// A text in one line, with a `?` for what is not shown, and no more than `most` characters.
pub fn text(text: &str, most: usize) -> String {
    let shown = |c| if is_shown(c) { c } else { '?' };
    let mut all: String = text.chars().take(most).map(shown).collect();
    if text.chars().nth(most).is_some() {
        all.push('…');
    }
    all
}

/// [`text`], for names.
pub fn name(name: &str) -> String {
    text(name, NAME)
}

/// The lines of a text, each up to a length; bytes that are no UTF-8 are question marks.
pub struct Lines<R> {
    from: R,
    most: usize,
    line: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    pub fn new(from: R, most: usize) -> Self {
        let line = Vec::new();
        Self { from, most, line }
    }

    /// The next one, without its end; None after the last.
    #[allow(
        clippy::should_implement_trait,
        reason = "a line lies in what the next call overwrites"
    )]
    pub fn next(&mut self) -> io::Result<Option<&str>> {
        self.line.clear();
        let n = (&mut self.from)
            .take(self.most as u64 + 1)
            .read_until(b'\n', &mut self.line)?;
        if n == 0 {
            return Ok(None);
        }
        if self.line.pop_if(|&mut b| b == b'\n').is_none() && n > self.most {
            let most = self.most;
            return Err(refuse(format!("a line is longer than {most} bytes")));
        }
        let mut from = 0;
        while let Err(e) = std::str::from_utf8(&self.line[from..]) {
            let bad = from + e.valid_up_to();
            let end = e.error_len().map_or(self.line.len(), |n| bad + n);
            self.line[bad..end].fill(b'?');
            from = end;
        }
        Ok(std::str::from_utf8(&self.line).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_not_shown() {
        let evil = "a\x1b[2J\u{9b}\r\n\u{202e}é\u{7f}\u{2028}b";
        assert_eq!(name(evil), "a?[2J????é??b");
        assert_eq!(text("abcd", 4), "abcd");
        assert_eq!(text("abcde", 4), "abcd…");
    }

    #[test]
    fn sums_beyond_their_words_and_budgets() {
        assert_eq!(total([u64::MAX, 7]), u64::MAX);
        let budget = Budget::new(3, "things");
        assert!(budget.has(2) && !budget.has(2) && budget.take(1).is_err());
    }

    #[test]
    fn lines_have_an_end_and_are_text() {
        let mut lines = Lines::new(&b"ab\xffc\xe2\x82\n\nabcdef\nabcdefg\n"[..], 6);
        assert_eq!(lines.next().unwrap(), Some("ab?c??"));
        assert_eq!(lines.next().unwrap(), Some(""));
        assert_eq!(lines.next().unwrap(), Some("abcdef"));
        assert!(lines.next().is_err());
        let mut cut = Lines::new(&b"abcdef"[..], 6);
        assert_eq!(cut.next().unwrap(), Some("abcdef"));
        assert_eq!(cut.next().unwrap(), None);
    }
}
