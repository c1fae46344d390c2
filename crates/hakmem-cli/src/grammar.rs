//! What all commands take in the same way: a program with its arguments, `--file FILE`, `--pid
//! PID`.

use crate::checked::{self, name, say};
use crate::{inherited, program};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process;
use std::time::Duration;

const WRONG_USAGE: i32 = 2;

/// A file that the user named; `-` is standard input.
pub fn open(file: &Path) -> io::Result<Box<dyn BufRead>> {
    if file == Path::new("-") {
        return match inherited::was_closed(0) {
            true => Err(io::Error::other("standard input is closed")),
            false => Ok(Box::new(io::stdin().lock())),
        };
    }
    let open = checked::open_now(File::options().read(true), file)?;
    match open.metadata()?.is_dir() {
        true => Err(io::Error::other("it is a directory")),
        false => Ok(Box::new(BufReader::new(open))),
    }
}

/// Ends this process if the word in the place of a program is a file or a process, and says how to
/// name these: `options` are those that the command has.
pub fn meant(command: &str, word: &OsStr, options: &[&str]) {
    let Some((what, option)) = mistaken(word).filter(|(_, option)| options.contains(option)) else {
        return;
    };
    let word = name(&word.to_string_lossy());
    wrong(&format!(
        "{word} is {what}, not a program: hakmem {command} {option} {word}"
    ))
}

/// What the word is if it is no program, and the option for that.
fn mistaken(word: &OsStr) -> Option<(&'static str, &'static str)> {
    if word == "-" {
        return Some(("standard input", "--file"));
    }
    if program::find(word).is_ok() {
        return None;
    }
    if number(word).is_some() {
        return Some(("a number", "--pid"));
    }
    let is_file = Path::new(word).is_file();
    is_file.then_some(("a file", "--file"))
}

fn number(word: &OsStr) -> Option<u32> {
    let word = word.to_str()?;
    let digits = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| word.parse().unwrap_or(u32::MAX))
}

/// The process that the short form `hakmem top PID` names.
pub fn pid(command: &[OsString]) -> Option<u32> {
    let (word, rest) = command.split_first()?;
    let pid = number(word)?;
    if pid == 0 || i32::try_from(pid).is_err() {
        wrong(&format!("{} is not a process", word.to_string_lossy()));
    }
    if rest.first().is_some_and(|word| number(word).is_some()) {
        wrong(&format!(
            "top watches one process at a time: hakmem top {pid}"
        ));
    }
    if !rest.is_empty() {
        wrong(&format!(
            "options stand before the process: hakmem top {} {pid}",
            rest.join(OsStr::new(" ")).to_string_lossy()
        ));
    }
    Some(pid)
}

/// Ends this process if `word`, behind an option without a number, is a number and no program:
/// `--guard=N` was meant.
pub fn guard_meant(word: &OsStr) {
    if number(word).is_some() && program::find(word).is_err() {
        let word = word.to_string_lossy();
        wrong(&format!(
            "{word} is a number, not a program: hakmem run --guard={word}"
        ));
    }
}

/// The number of a process.
pub fn process(text: &str) -> Result<u32, String> {
    whole(text, 1, i32::MAX as u32)
}

/// A whole number, both ends of the range included.
pub fn whole<N: TryFrom<i128> + Into<i128>>(text: &str, from: N, to: N) -> Result<N, String> {
    let (from, to) = (from.into(), to.into());
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err("not a whole number".to_owned());
    }
    let number = text.parse::<i128>().ok();
    let number = number.filter(|number| (from..=to).contains(number));
    let number = number.and_then(|number| N::try_from(number).ok());
    number.ok_or_else(|| format!("not from {from} to {to}"))
}

/// A time in seconds, both ends of the range included.
pub fn seconds(text: &str, from: f64, to: f64) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    match (from..=to).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(format!("not from {from} to {to}")),
    }
}

/// Ends this process because of the line.
pub fn wrong(why: &str) -> ! {
    say(why);
    process::exit(WRONG_USAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_a_range() {
        let said = |text| seconds(text, 0.01, 1e9).map(|time| time.as_millis());
        assert_eq!(said("0.01"), Ok(10));
        assert_eq!(said("1e9"), Ok(1_000_000_000_000));
        for text in ["0.009", "-1", "1e10", "nan", "inf"] {
            assert_eq!(said(text), Err("not from 0.01 to 1000000000".to_owned()));
        }
        assert_eq!(said("soon"), Err("not a number".to_owned()));
    }

    #[test]
    fn whole_numbers_in_a_range() {
        let said = |text| whole(text, 1, 5u32);
        assert_eq!((said("1"), said("5")), (Ok(1), Ok(5)));
        let long = "9".repeat(50);
        for text in ["0", "6", "-1", long.as_str()] {
            assert_eq!(said(text), Err("not from 1 to 5".to_owned()), "{text}");
        }
        for text in ["", "-", "abc", "1.5", "+1"] {
            assert_eq!(said(text), Err("not a whole number".to_owned()), "{text}");
        }
    }

    #[test]
    fn words_that_are_no_programs() {
        let of = |word: &str| mistaken(OsStr::new(word)).map(|(_, option)| option);
        assert_eq!(of("-"), Some("--file"));
        assert_eq!(of("4711"), Some("--pid"));
        assert_eq!(of("Cargo.toml"), Some("--file"));
        assert_eq!(of("sh"), None);
        assert_eq!(of("no-such-program"), None, "that is said as for any other");
    }
}
