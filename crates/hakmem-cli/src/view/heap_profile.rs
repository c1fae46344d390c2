//! The heap profile of another process: `hakmem_core::profile::outside` has the rules of switching
//! it and of reading it.
//!
//! What is written are three words that the process keeps for this. It is on by one byte, which no
//! other code writes: so a profile that the program began itself goes on, whatever happens here.

use super::memory::{Memory, u64_at};
use super::note::Note;
use crate::checked::{Budget, refuse};
use hakmem_pprof::tool::raw::Sample;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// No profile has more stacks, or addresses in them.
const BUCKETS: u64 = 1 << 19;
const FRAMES: u64 = 1 << 22;
/// How often tables are read that grow meanwhile.
const TRIES: usize = 200;
/// The bit that tells that the byte is this command's.
const ON: u8 = 0x80;
/// No interval or size is larger, and no count.
const MOST: u64 = 1 << 56;
const MOST_SAMPLES: u64 = 1 << 40;

/// What is in the books of a process.
#[derive(Debug, Default)]
pub struct Books {
    pub samples: Vec<Sample>,
    /// Samples that there was no memory for.
    pub lost: u64,
    /// An address of the allocator's own code.
    pub code: u64,
}

/// Who has the profile on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Off,
    /// The program itself.
    Program,
    /// A command like this one.
    Command,
}

/// The state of the profile.
pub fn state(memory: Memory, note: &Note) -> io::Result<State> {
    let place = Switch::of(note)?;
    let mut run = [0; 4];
    memory.read(place.run, &mut run)?;
    let own = u32::from_le_bytes(run) & 0x00ff_ffff;
    Ok(match (run[3], own) {
        (_, 1..) => State::Program,
        (0, 0) => State::Off,
        _ => State::Command,
    })
}

/// Where the words lie that are written.
#[derive(Debug, Clone, Copy)]
pub struct Switch {
    run: u64,
    byte: u64,
    interval: u64,
    last: u64,
}

impl Switch {
    pub fn of(note: &Note) -> io::Result<Self> {
        let run = note.place("profile.run")?;
        let asked = note.place("profile.asked")?;
        let within = |base: u64, name, most| {
            let offset = note.number(name, 0..=most)? as u64;
            Ok::<_, io::Error>(base.saturating_add(offset))
        };
        Ok(Self {
            run,
            byte: within(run, "profile.switch", 3)?,
            interval: within(asked, "asked.interval", 64)?,
            last: within(asked, "asked.last", 64)?,
        })
    }
}

/// A process's memory, open for writing, and locked: no other command switches its profile
/// meanwhile. The lock goes with this process, however it ends.
pub struct Locked(File);

impl Locked {
    /// None: another command has it.
    pub fn open(pid: u32) -> io::Result<Option<Self>> {
        let path = format!("/proc/{pid}/mem");
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        // SAFETY: a system call with a live descriptor and a number.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            return Ok(Some(Self(file)));
        }
        match io::Error::last_os_error() {
            e if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            e => Err(e),
        }
    }

    /// Switches the profile on. What a command left on that was killed goes on as this one's.
    pub fn switch_on(&self, switch: &Switch, interval: u64) -> io::Result<()> {
        let mut last = [0; 4];
        self.0.read_exact_at(&mut last, switch.last)?;
        let last = u32::from_le_bytes(last).wrapping_add(1);
        self.0.write_all_at(&last.to_le_bytes(), switch.last)?;
        self.switch_off(switch)?;
        self.0
            .write_all_at(&interval.to_le_bytes(), switch.interval)?;
        self.0.write_all_at(&[ON | last as u8 & !ON], switch.byte)
    }

    pub fn switch_off(&self, switch: &Switch) -> io::Result<()> {
        self.0.write_all_at(&[0], switch.byte)
    }
}

/// Where things are in the books.
struct Layout {
    bytes: usize,
    first_frame: usize,
    frames: usize,
    size: usize,
    interval: usize,
    taken: usize,
    freed: usize,
}

impl Layout {
    fn of(note: &Note) -> io::Result<Self> {
        let bytes = note.size("bucket_bytes")?;
        let at = |name: &str| note.field(&format!("bucket.{name}"), 8, bytes);
        Ok(Self {
            bytes,
            first_frame: at("first_frame")?,
            frames: at("frames")?,
            size: at("size")?,
            interval: at("interval")?,
            taken: at("taken")?,
            freed: at("freed")?,
        })
    }

    /// None: it makes no sense. The stacks of all samples have no more than `left` addresses.
    fn sample(&self, bucket: &[u8], frames: &[u64], left: &Budget) -> Option<Sample> {
        let at = |field| u64_at(bucket, field);
        let first = usize::try_from(at(self.first_frame)).ok()?;
        let count = usize::try_from(at(self.frames)).ok()?;
        let stack = frames.get(first..first.checked_add(count)?)?;
        left.take(count as u64).ok()?;
        let (size, interval) = (at(self.size), at(self.interval));
        let is_size = |n| (1..=MOST).contains(&n);
        // A count that was read before another may be behind it.
        let (all, freed) = (at(self.taken), at(self.freed));
        let live = all.saturating_sub(freed);
        (is_size(size) && is_size(interval) && all <= MOST_SAMPLES).then(|| Sample {
            size,
            interval,
            live,
            all,
            stack: stack.to_vec(),
        })
    }
}

/// Everything in the books: tables that stood there as they are, with counts of the time of
/// reading.
pub fn read(memory: Memory, note: &Note) -> io::Result<Books> {
    let shown = note.place("profile.shown")?;
    let within = |name| {
        let offset = note.number(name, 0..=4096)? as u64;
        Ok::<_, io::Error>(shown.saturating_add(offset))
    };
    let number = within("shown.record")?;
    let words = [
        within("shown.buckets")?,
        within("shown.bucket_count")?,
        within("shown.frames")?,
        within("shown.frame_count")?,
    ];
    let layout = Layout::of(note)?;
    let lost = note.number("books.lost", 0..=1 << 16)? as u64;
    let lost = memory.word(note.place("profile.books")?.saturating_add(lost))?;
    let code = note.place("profile.code")?;
    for tries in 0..TRIES {
        if tries > 0 {
            // The thread that changes the tables may be waiting for a processor.
            std::thread::sleep(Duration::from_millis(1));
        }
        let before = memory.word(number)?;
        if before % 2 == 1 {
            continue;
        }
        let mut at = [0; 4];
        for (to, word) in at.iter_mut().zip(words) {
            *to = memory.word(word)?;
        }
        // Their memory may go while they are read.
        let samples = samples(memory, &layout, at);
        if memory.word(number)? == before {
            let samples = samples?;
            return Ok(Books {
                samples,
                lost,
                code,
            });
        }
    }
    Err(io::Error::other("its heap profile changes all the time"))
}

fn samples(memory: Memory, layout: &Layout, at: [u64; 4]) -> io::Result<Vec<Sample>> {
    let [buckets, bucket_count, frames, frame_count] = at;
    if buckets == 0 || bucket_count == 0 {
        return Ok(Vec::new());
    }
    Budget::new(BUCKETS, "stacks").take(bucket_count)?;
    Budget::new(FRAMES, "addresses in its stacks").take(frame_count)?;
    let frames = whole(memory, frames, frame_count as usize * 8)?;
    let frames: Vec<u64> = (0..frames.len() / 8)
        .map(|i| u64_at(&frames, i * 8))
        .collect();
    let buckets = whole(memory, buckets, bucket_count as usize * layout.bytes)?;
    // No two stacks share addresses.
    let left = Budget::new(frames.len() as u64, "addresses in its stacks");
    let all = buckets
        .chunks_exact(layout.bytes)
        .map(|bucket| layout.sample(bucket, &frames, &left));
    let all: Option<Vec<_>> = all.collect();
    let all = all.ok_or_else(|| refuse("its heap profile makes no sense"))?;
    // What a parent had before a fork.
    Ok(all.into_iter().filter(|sample| sample.all > 0).collect())
}

/// Bytes that may be more than what is read at once.
fn whole(memory: Memory, address: u64, len: usize) -> io::Result<Vec<u8>> {
    const PART: usize = 1 << 20;
    let mut all = Vec::new();
    while all.len() < len {
        let part = PART.min(len - all.len());
        all.extend(memory.bytes(address.saturating_add(all.len() as u64), part)?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::super::memory::{PageMap, Source};
    use super::*;
    use std::cell::Cell;

    const BUCKET: u64 = 48;
    const SHOWN: u64 = 0;
    const BOOKS: u64 = 64;
    const FRAMES_AT: u64 = 128;
    const BUCKETS_AT: u64 = 512;

    /// Memory from address 0 on.
    struct Image {
        words: Vec<u64>,
        /// Changes of the number that are still to come, one with each time that it is read.
        changes: Cell<u64>,
    }

    impl Source for Image {
        fn read(&self, address: u64, to: &mut [u8]) -> io::Result<()> {
            let bytes: Vec<u8> = self.words.iter().flat_map(|w| w.to_le_bytes()).collect();
            let of = bytes.get(address as usize..address as usize + to.len());
            to.copy_from_slice(of.ok_or(io::Error::from_raw_os_error(libc::EFAULT))?);
            if address == SHOWN && to.len() == 8 && self.changes.get() > 0 {
                self.changes.set(self.changes.get() - 1);
                to[0] = to[0].wrapping_add((self.changes.get() as u8).wrapping_mul(2));
            }
            Ok(())
        }

        fn each_file(&self, _: &mut dyn FnMut(u64)) -> io::Result<()> {
            Ok(())
        }

        fn page_map(&self) -> io::Result<PageMap> {
            Err(io::Error::other("there is none"))
        }
    }

    /// Two buckets, of a block with the stack 7 8 and of one with 9.
    fn image() -> Image {
        let mut words = vec![0; 128];
        let mut put = |at: u64, values: &[u64]| {
            words[at as usize / 8..][..values.len()].copy_from_slice(values);
        };
        put(SHOWN, &[2, BUCKETS_AT, 2, FRAMES_AT, 3]);
        put(BOOKS, &[5]);
        put(FRAMES_AT, &[7, 8, 9]);
        put(BUCKETS_AT, &[0, 2, 16, 4096, 10, 4, 2, 1, 100, 8192, 3, 3]);
        let changes = Cell::new(0);
        Image { words, changes }
    }

    fn note() -> Note {
        let mut bytes = Vec::new();
        let mut add = |name: &str, value: u64| {
            bytes.extend(name.bytes());
            bytes.push(0);
            let at = bytes.len() as u64;
            let place = if name.starts_with('@') { at } else { 0 };
            bytes.extend(value.wrapping_sub(place).to_le_bytes());
        };
        let places = [("shown", SHOWN), ("books", BOOKS), ("code", 77)];
        for (name, at) in places {
            add(&format!("@profile.{name}"), at);
        }
        let fields = ["record", "buckets", "bucket_count", "frames", "frame_count"];
        (0..)
            .zip(fields)
            .for_each(|(i, name)| add(&format!("shown.{name}"), i * 8));
        add("bucket_bytes", BUCKET);
        let fields = [
            "first_frame",
            "frames",
            "size",
            "interval",
            "taken",
            "freed",
        ];
        (0..)
            .zip(fields)
            .for_each(|(i, name)| add(&format!("bucket.{name}"), i * 8));
        add("books.lost", 0);
        Note::parse(&bytes, 0).unwrap()
    }

    fn books(image: &Image) -> io::Result<Books> {
        let budget = Budget::new(1 << 20, "bytes");
        let memory = Memory {
            source: image,
            budget: &budget,
        };
        read(memory, &note())
    }

    #[test]
    fn buckets_are_samples() {
        let found = books(&image()).unwrap();
        assert_eq!((found.lost, found.code), (5, 77));
        let of = |s: &Sample| (s.size, s.interval, s.live, s.all, s.stack.clone());
        let all: Vec<_> = found.samples.iter().map(of).collect();
        let want = [(16, 4096, 6, 10, vec![7, 8]), (100, 8192, 0, 3, vec![9])];
        assert_eq!(all, want);
    }

    #[test]
    fn what_changes_meanwhile_is_read_again() {
        let image = image();
        image.changes.set(6);
        assert_eq!(books(&image).unwrap().samples.len(), 2);
        assert_eq!(image.changes.get(), 0);
        image.changes.set(4 * TRIES as u64);
        assert!(books(&image).is_err());
    }

    #[test]
    fn forged_tables_are_refused() {
        let bucket = BUCKETS_AT as usize / 8;
        for (at, value) in [
            (1, 1 << 40),  // The buckets' place.
            (2, 1 << 40),  // Their number.
            (3, 1 << 60),  // The frames' place.
            (4, u64::MAX), // Their number.
            (bucket, 3),   // Frames that are not there.
            (bucket, u64::MAX),
            (bucket + 1, 3), // Frames that are another's, too.
            (bucket + 2, 0), // Sizes.
            (bucket + 3, u64::MAX),
            (bucket + 4, u64::MAX),
        ] {
            let mut image = image();
            image.words[at] = value;
            assert!(books(&image).is_err(), "{at}: {value:#x}");
        }
        let mut image = image();
        image.words[0] = 3;
        assert!(books(&image).is_err(), "it is just changing");
    }
}
