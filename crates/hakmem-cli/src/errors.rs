//! `hakmem errors`: the reports of errors that a file has, with functions and lines.

use crate::checked::say;
use crate::{grammar, output, symbols};
use clap::Args;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process;

/// Bytes of the file that are read.
const MOST: usize = 16 << 20;

pub const AFTER_HELP: &str = "\
FILE is what HAKMEM_ERRORS named for a program: there the frames of a stack are files and addresses. \
hakmem prints them as functions with file and line. The files have to be those that ran: look \
before you replace the program. One that the report names by a relative path is looked for from \
here.
Exit status: 0, or
  1    FILE cannot be read, or has no report
  2    wrong usage

Examples:
  hakmem errors /var/tmp/errors
  journalctl -u server | hakmem errors -";

#[derive(Args)]
pub struct Options {
    /// The file; - is standard input
    file: PathBuf,
}

pub fn errors(options: &Options) -> ! {
    match try_errors(&options.file) {
        Ok(()) => process::exit(0),
        Err(why) => {
            say(&why);
            process::exit(1)
        }
    }
}

fn try_errors(file: &Path) -> Result<(), String> {
    let name = file.display();
    let read = grammar::open(file).and_then(read);
    let (text, is_whole) = read.map_err(|e| format!("cannot read {name}: {e}"))?;
    if !text.lines().any(|line| line.contains("hakmem: ")) {
        return Err(format!("{name} has no report"));
    }
    output::show(symbols::named(&text).as_bytes())?;
    if !is_whole {
        say(&format!(
            "{name} is long: only its first {} MiB were read",
            MOST >> 20
        ));
    }
    Ok(())
}

/// The text of the file, up to the last whole line within `MOST` bytes, and whether that is all.
fn read(from: impl Read) -> io::Result<(String, bool)> {
    let mut text = Vec::new();
    from.take(MOST as u64 + 1).read_to_end(&mut text)?;
    let is_whole = text.len() <= MOST;
    if !is_whole {
        let end = text.iter().rposition(|&byte| byte == b'\n');
        text.truncate(end.map_or(0, |end| end + 1));
    }
    Ok((String::from_utf8_lossy(&text).into_owned(), is_whole))
}
