//! What an access or a free of a guarded block means. The words are those of GWP-ASan.

use super::stack::{Process, Stack};
use super::{PLACES, POOL, Place, ROOM, State, find, system_pages};
use crate::os::{self, Fault, detail, report};
use crate::policy::{self, OnError};
use core::fmt::{Arguments, Display, Formatter, Result};

/// The place of an address relative to a block.
struct Relative(usize, &'static Place);

impl Display for Relative {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let (at, start, size) = (self.0, self.1.address(), self.1.size());
        let (bytes, where_) = match at {
            at if at < start => (start - at, "to the left of"),
            at if at >= start + size => (at - (start + size) + 1, "to the right of"),
            at => (at - start, "into"),
        };
        let s = if bytes == 1 { "" } else { "s" };
        write!(f, "{bytes} byte{s} {where_} a {size}-byte allocation at {start:#x}")
    }
}

/// Reports an error. `stack` is where it happened.
fn tell(what: Arguments<'_>, at: usize, place: &'static Place, stack: &Stack) {
    report(format_args!("{what} at {at:#x} ({}){} here:", Relative(at, place), stack.by()));
    stack.show();
    if place.state() == State::Freed {
        detail(format_args!("{:#x} was deallocated{} here:", place.address(), place.freed.by()));
        place.freed.show();
    }
    detail(format_args!("{:#x} was allocated{} here:", place.address(), place.allocated.by()));
    place.allocated.show();
    detail(format_args!("{Process}"));
}

fn is_silent() -> bool {
    policy::ON_ERROR.get() == OnError::Ignore as u32
}

/// Reports an error of a free, and ends the process if the option says so.
fn wrong(what: Arguments<'_>, at: usize, place: &'static Place) {
    if !is_silent() {
        let stack = Stack::new();
        stack.record();
        tell(what, at, place, &stack);
    }
    if policy::ON_ERROR.get() == OnError::Abort as u32 {
        os::abort();
    }
}

/// A pointer that was freed is none of a block.
pub fn invalid_free(at: usize, place: &'static Place) {
    wrong(format_args!("Invalid (Wild) Free"), at, place);
}

/// A block that was freed before was freed again.
pub fn double_free(at: usize, place: &'static Place) {
    wrong(format_args!("Double Free"), at, place);
}

/// The free of a block found the byte at `at`, outside of it, changed.
pub fn written_beyond(at: usize, place: &'static Place) {
    let what = if at < place.address() { "Buffer Underflow" } else { "Buffer Overflow" };
    wrong(format_args!("{what}, found by the free,"), at, place);
}

/// The place whose block an access at `address` was meant for. None: the access lies in the range
/// of the places, but near no block.
fn meant(address: usize) -> Option<&'static Place> {
    let (i, offset) = find(address)?;
    let was_used = |i: usize| POOL.get(i).filter(|place| place.state() != State::Unused);
    if offset >= 0 {
        return was_used(i);
    }
    // Between two rooms: the nearer block.
    let before = i.checked_sub(1).and_then(was_used);
    let after = if i < PLACES { was_used(i) } else { None };
    let (Some(left), Some(right)) = (before, after) else { return before.or(after) };
    let is_left = address - left.address() < right.address() - address;
    Some(if is_left { left } else { right })
}

/// Judges a fault. True: the access can be repeated now. False: it is not one of a place, or the
/// fault is to take its course.
pub fn judge(fault: &Fault) -> bool {
    if find(fault.address).is_none() {
        return false;
    }
    if !is_silent() {
        // The handler's stack may have little room. No signal comes meanwhile: the system would
        // take the alternate stack for unused, and start the signal's handler at its top.
        let signals = os::block_signals();
        os::on_own_stack(|| report_fault(fault));
        os::restore_signals(signals);
    }
    policy::ON_ERROR.get() != OnError::Abort as u32 && make_accessible(fault.address)
}

/// Reports an access, with its stack.
fn report_fault(fault: &Fault) {
    let stack = Stack::new();
    stack.record_from(&fault.registers);
    match meant(fault.address) {
        Some(place) => {
            let what = match place.state() {
                State::Freed => "Use After Free",
                _ if fault.address < place.address() => "Buffer Underflow",
                _ => "Buffer Overflow",
            };
            tell(format_args!("{what}"), fault.address, place, &stack);
        }
        None => {
            report(format_args!("Wild access at {:#x}{} here:", fault.address, stack.by()));
            stack.show();
            detail(format_args!("{Process}"));
        }
    }
}

/// Lets the program go on: the system page is accessible from now on, and the place is not used
/// again.
fn make_accessible(address: usize) -> bool {
    if let Some(place) = meant(address) {
        if place.seize(State::Freed) {
            place.set(State::Reported);
        } else if place.seize(State::Live) {
            place.set(State::Faulted);
        }
    }
    let (start, bytes) = system_pages(address, 1);
    debug_assert!(bytes <= ROOM);
    os::commit(start, bytes)
}
