//! `hakmem profile --pid`: the heap profile of a running process, which was not prepared for it.
//!
//! The profile is switched on in the process's memory and read from there: `view::heap_profile`. It
//! is switched off again however this command ends, unless it is killed by SIGKILL: the next one
//! for this process then finds it on, and goes on. Each second the profile is read, so that there
//! is one if the process ends.

use super::confined;
use crate::checked::{self, Lines, say, total};
use crate::child;
use crate::view::heap_profile::{Books, Locked, State, Switch};
use crate::view::{Target, Trouble};
use hakmem_pprof::tool::module::Named;
use hakmem_pprof::tool::raw::{Map, Raw};
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Signals by which the user ends the profile.
const ENDS: [libc::c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];
/// Between two readings, and at most between two looks whether the process is there.
const EACH: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(50);
/// Maps of a process, and bytes of a line of them.
const MAPS: usize = 1 << 16;
const LINE: usize = 1 << 16;

/// A process whose profile is taken.
pub struct Live {
    target: Target,
    /// What the system gave the program whose profile is taken: see [`Target::image`].
    image: Vec<u8>,
    name: String,
    interval: u64,
    /// None: the program has its profile on itself.
    on: Option<(Locked, Switch)>,
    /// Samples that were there before it was switched on.
    earlier: u64,
    last: Option<Raw>,
}

impl Live {
    /// Switches the profile on. The error is for the user to read.
    pub fn start(pid: u32, interval: u64) -> Result<Self, String> {
        let said = |trouble: Trouble| trouble.say(pid);
        let mut target = Target::open(pid).map_err(said)?;
        // What cannot be done at all is said in words of its own.
        target.profile_state().map_err(said)?;
        let cannot = |e| format!("cannot switch the profile of process {pid}: {e}");
        let locked = Locked::open(pid).map_err(cannot)?;
        let locked = locked
            .ok_or_else(|| format!("another hakmem takes the profile of process {pid} just now"))?;
        // Of the memory that is locked, or else writing fails: the process may have executed
        // another program meanwhile.
        let (state, switch) = target.profile_state().map_err(said)?;
        let mut live = Self {
            name: target.usage().name,
            image: target.image().to_vec(),
            target,
            interval,
            on: None,
            earlier: 0,
            last: None,
        };
        if state == State::Program {
            return live.read().map_err(said).map(|()| live);
        }
        if live.target.may_be_ended_by_filter().map_err(said)? {
            return Err(format!(
                "process {pid} has a filter for system calls (seccomp), which may end it for a \
                 call that a sample makes; set HAKMEM_PROFILE and HAKMEM_PROFILE_SIGNAL, and start \
                 the program again (samples after a filter of its own have no stacks)"
            ));
        }
        if let Ok(books) = live.target.books() {
            live.earlier = total(books.samples.iter().map(|sample| sample.all));
        }
        // So that no signal ends this process between on and off.
        child::block_all();
        locked.switch_on(&switch, interval).map_err(cannot)?;
        live.on = Some((locked, switch));
        // What cannot be read is not left on.
        match live.read() {
            Ok(()) => Ok(live),
            Err(trouble) => {
                let _ = live.switch_off();
                Err(trouble.say(pid))
            }
        }
    }

    pub fn is_on_by_program(&self) -> bool {
        self.on.is_none()
    }

    /// Samples that were taken before this command switched the profile on.
    pub fn earlier(&self) -> u64 {
        self.earlier
    }

    /// Waits until the time is over, a signal comes, or the process ends.
    pub fn wait(&mut self, time: Option<Duration>) {
        let end = time.map(|time| Instant::now() + time);
        let mut due = Instant::now() + EACH;
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return;
            }
            match child::take_signal(LOOK.min(left.unwrap_or(LOOK))) {
                Some(signal) if ENDS.contains(&signal) => return,
                Some(libc::SIGTSTP) => child::stop_by(libc::SIGTSTP),
                _ => {}
            }
            if self.target.has_ended() {
                return;
            }
            if Instant::now() >= due {
                due = Instant::now() + EACH;
                if self.read().is_err() {
                    return;
                }
            }
        }
    }

    /// Switches the profile off, and reads it. The error is for the user to read.
    pub fn end(mut self) -> Result<(Raw, String), String> {
        let (pid, name) = (self.target.pid(), self.name.clone());
        let trouble = match (self.switch_off(), self.read()) {
            (Ok(()), Ok(())) => None,
            (Err(_), Ok(()) | Err(Trouble::Changed)) => Some(Trouble::Changed),
            // Its memory is gone.
            (Err(_), Err(_)) => Some(Trouble::Ended),
            (Ok(()), Err(trouble)) => Some(trouble),
        };
        if self.on.is_some() {
            child::unblock_all(); // The search for names may take long.
        }
        let why = trouble.map(|trouble| trouble.say(pid));
        let Some(raw) = self.last else {
            return Err(why.unwrap_or_default());
        };
        if let Some(why) = why {
            say(&format!(
                "{why}: the profile is the one that was read last, up to a second before"
            ));
        }
        Ok((raw, name))
    }

    fn switch_off(&self) -> io::Result<()> {
        match &self.on {
            Some((locked, switch)) => locked.switch_off(switch),
            None => Ok(()),
        }
    }

    /// Reads the profile. What was read last stays if that fails, or if the process runs another
    /// program by now.
    fn read(&mut self) -> Result<(), Trouble> {
        let books = self.target.books();
        // The books may be those of the other program.
        if self.target.image() != self.image {
            return Err(Trouble::Changed);
        }
        let Books {
            samples,
            lost,
            code,
        } = books?;
        let pid = self.target.pid();
        let maps = maps(pid).map_err(Trouble::Other)?;
        if self.target.has_changed() {
            return Err(Trouble::Changed);
        }
        let shortest = samples.iter().map(|sample| sample.interval).min();
        self.last = Some(Raw {
            pid,
            event: "call".into(),
            interval: shortest.map_or(self.interval, |n| n.min(self.interval)),
            lost,
            own: code,
            samples,
            maps,
        });
        Ok(())
    }
}

/// The maps that hold code.
fn maps(pid: u32) -> io::Result<Vec<Map>> {
    let file = File::open(format!("/proc/{pid}/maps"))?;
    let mut lines = Lines::new(BufReader::new(file), LINE);
    let mut all: Vec<Map> = Vec::new();
    while let Some(line) = lines.next()? {
        let rights = line.split(' ').nth(1).unwrap_or_default();
        let behind = all.last().map_or(0, |map| map.end);
        let map = Map::read(line).filter(|map| rights.contains('x') && map.start >= behind);
        all.extend(map);
        if all.len() > MAPS {
            return Err(checked::refuse("it has more maps than are looked at"));
        }
    }
    Ok(all)
}

/// Looks into a file that the process has mapped: it may see other files than this process does,
/// and run a program whose file was replaced.
pub fn look(pid: u32, path: &str, offsets: &[u64]) -> Named {
    let program = format!("/proc/{pid}/exe");
    let is_program = fs::read_link(&program).is_ok_and(|file| file == Path::new(path));
    let places = [
        PathBuf::from(program),
        format!("/proc/{pid}/root{path}").into(),
        path.into(),
    ];
    let first = usize::from(!is_program);
    let place = places[first..].iter().find(|place| place.is_file());
    confined::of_file(place.unwrap_or(&places[2]), offsets)
}
