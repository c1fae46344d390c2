//! What the process of a probe of memory says at the end of each stage of its work: a line of
//! numbers. Neither end allocates for it.

use std::io::{self, Read, Write};

/// One stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stage {
    /// Bytes of the blocks that are live; 0 if nobody counted.
    pub live: u64,
    /// Bytes of the system's pages of 4 KiB that hold any of them; 0 if nobody counted.
    pub pages: u64,
    /// Bytes of the probe's own tables: resident, but not the allocator's.
    pub tables: u64,
}

/// No line is longer.
const LONGEST: usize = 80;

impl Stage {
    /// Says that the work is done, and waits until the parent has seen enough, without a call to
    /// the allocator.
    pub fn rest(self) {
        let mut buffer = [0_u8; LONGEST];
        let mut room = &mut buffer[..];
        // Three numbers fit in any case.
        let _ = writeln!(room, "{} {} {}", self.live, self.pages, self.tables);
        let length = LONGEST - room.len();
        let mut byte = 0_u8;
        // SAFETY: both buffers are alive. A parent that is gone shows as an error of the one call
        // or an end of the other, and the process goes on to its end in either case.
        unsafe {
            libc::write(libc::STDOUT_FILENO, buffer.as_ptr().cast(), length);
            libc::read(libc::STDIN_FILENO, (&raw mut byte).cast(), 1);
        }
    }

    /// Reads such a line; `None` if there will be no more.
    pub fn read(mut from: impl Read) -> io::Result<Option<Self>> {
        let mut buffer = [0_u8; LONGEST];
        // A line comes as a whole, and the next one only after an answer.
        let length = from.read(&mut buffer)?;
        if length == 0 {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&buffer[..length]);
        let mut numbers = text.split_whitespace().map(str::parse::<u64>);
        let mut next = || numbers.next().and_then(Result::ok);
        match (next(), next(), next()) {
            (Some(live), Some(pages), Some(tables)) => Ok(Some(Self {
                live,
                pages,
                tables,
            })),
            _ => Err(io::Error::other(format!("it said {text:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_other_words_are_errors() {
        let stage = Stage::read(&b"5 4096 0\n"[..]).expect("a line");
        let expected = Stage {
            live: 5,
            pages: 4096,
            tables: 0,
        };
        assert_eq!(stage, Some(expected));
        assert_eq!(Stage::read(&b""[..]).expect("the end"), None);
        assert!(Stage::read(&b"5 4096\n"[..]).is_err());
        assert!(Stage::read(&b"panicked at\n"[..]).is_err());
    }
}
