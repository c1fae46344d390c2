//! The view on a terminal: keys, signals and readings, until one of them ends it. The terminal is
//! put back as it was, however that comes about.

use super::Outcome;
use super::rates::History;
use super::screen::{self, State};
use super::watched::{Turn, Watched};
use crate::child;
use crate::view::{self, Target, Trouble};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::io;
use std::time::{Duration, Instant};

/// How long a signal or a key may have to wait for the other.
const TURN: Duration = Duration::from_millis(40);

pub fn run(mut target: Target, watched: &Watched, interval: Duration) -> Outcome {
    let found = matches!(watched, Watched::Found);
    let mut history = History::default();
    if found {
        // What cannot be seen at all is said on the terminal as it is.
        match target.reading() {
            Ok(reading) => history.add(reading, Instant::now()),
            Err(trouble) => return Outcome::Failed(trouble.say(target.pid())),
        }
        child::block_all();
    }
    let mut terminal = match ratatui::try_init() {
        Ok(terminal) => terminal,
        Err(e) => return Outcome::Failed(format!("cannot use the terminal: {e}")),
    };
    let outcome = show(&mut terminal, &mut target, watched, interval, history);
    let _ = ratatui::try_restore();
    let gone = is_gone();
    if gone {
        // Its end would say on standard error that it has no cursor, and end the process, for that
        // is gone too.
        std::mem::forget(terminal);
    }
    match outcome {
        Ok(outcome) => outcome,
        // With it whoever watched has gone.
        Err(_) if gone => Outcome::Left,
        Err(e) => Outcome::Failed(format!("cannot use the terminal: {e}")),
    }
}

fn show(
    terminal: &mut DefaultTerminal,
    target: &mut Target,
    watched: &Watched,
    mut interval: Duration,
    mut history: History,
) -> io::Result<Outcome> {
    let found = matches!(watched, Watched::Found);
    let mut state = State::new(interval.as_secs_f64());
    let mut due = Instant::now()
        + if found {
            interval
        } else {
            Duration::from_millis(100)
        };
    let mut changed = true;
    loop {
        if changed {
            state.seconds = interval.as_secs_f64();
            terminal.draw(|frame| screen::draw(frame, &mut state, &history, view::now()))?;
            changed = false;
        }
        let keys = input() == Input::Keys;
        while keys && event::poll(Duration::ZERO)? {
            changed = true;
            if let Event::Key(key) = event::read()? {
                match on_key(key, &mut state, &mut interval) {
                    Wish::Leave => return Ok(Outcome::Left),
                    Wish::Interrupt => {
                        let Watched::Started(started) = watched else {
                            return Ok(Outcome::Left);
                        };
                        started.interrupt();
                    }
                    Wish::Stay => {}
                }
            }
            // The reader may have more keys already, of which there is nothing on the terminal.
            if is_gone() {
                break;
            }
        }
        if is_gone() {
            return Ok(Outcome::Left);
        }
        let wait = due.saturating_duration_since(Instant::now()).min(TURN);
        match watched.turn(wait) {
            Turn::Ended(end) => return Ok(Outcome::Program(end)),
            Turn::Signal(signal) => return Ok(Outcome::Signal(signal)),
            Turn::Resized => changed = true,
            Turn::Nothing => {}
        }
        if Instant::now() < due {
            continue;
        }
        due = Instant::now() + interval;
        if found && target.has_ended() {
            // What was seen last stays until it has been read.
            changed |= state.notice.is_none();
            state.notice = Some(format!("{}; q leaves", Trouble::Ended.say(target.pid())));
            continue;
        }
        if state.paused {
            continue;
        }
        changed = true;
        match target.reading() {
            Ok(reading) => {
                history.add(reading, Instant::now());
                state.notice = None;
            }
            Err(Trouble::Ended) => {}
            Err(trouble) => state.notice = Some(trouble.say(target.pid())),
        }
    }
}

/// What there is on standard input.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Input {
    Nothing,
    Keys,
    /// The terminal is gone. The reader of keys would wait for one for ever: it is called only
    /// where there are some.
    Gone,
}

fn input() -> Input {
    let mut input = libc::pollfd {
        fd: libc::STDIN_FILENO,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one entry, which is ours.
    let ready = unsafe { libc::poll(&raw mut input, 1, 0) } > 0;
    match input.revents {
        _ if !ready => Input::Nothing,
        r if r & libc::POLLHUP != 0 => Input::Gone,
        _ => Input::Keys,
    }
}

fn is_gone() -> bool {
    input() == Input::Gone
}

enum Wish {
    Stay,
    Leave,
    /// Leave, or end the program.
    Interrupt,
}

fn on_key(key: KeyEvent, state: &mut State, interval: &mut Duration) -> Wish {
    if key.kind == KeyEventKind::Release {
        return Wish::Stay;
    }
    let helps = state.help.is_some();
    let at = match &mut state.help {
        Some(at) => at,
        None => &mut state.scroll,
    };
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
            return Wish::Interrupt;
        }
        KeyCode::Esc | KeyCode::Char('?') if helps => state.help = None,
        KeyCode::Char('?') => state.help = Some(0),
        KeyCode::Char('q') | KeyCode::Esc => return Wish::Leave,
        KeyCode::Up => *at = at.saturating_sub(1),
        KeyCode::Down => *at = at.saturating_add(1),
        KeyCode::PageUp => *at = at.saturating_sub(10),
        KeyCode::PageDown => *at = at.saturating_add(10),
        KeyCode::Home => *at = 0,
        KeyCode::End => *at = usize::MAX,
        KeyCode::Tab => (state.page, state.scroll) = (state.page.next(), 0),
        KeyCode::Char('s') => (state.order, state.scroll) = (state.order.next(), 0),
        KeyCode::Char('p') => state.paused = !state.paused,
        KeyCode::Char('+') => *interval = (*interval * 2).min(Duration::from_secs(60)),
        KeyCode::Char('-') => *interval = (*interval / 2).max(Duration::from_millis(100)),
        _ => {}
    }
    Wish::Stay
}
