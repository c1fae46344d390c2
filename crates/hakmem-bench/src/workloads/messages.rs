//! Threads that send messages to one another through mailboxes, and are replaced all the time: who
//! frees a message mostly did not allocate it, and the one who did may have ended.

use crate::heap::{Block, Heap, Subject};
use crate::meter::Meter;
use crate::rng::Rng;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::thread;

/// At a time.
const THREADS: u64 = 4;
/// Messages that a thread sends in its life.
const LIFE: u64 = 2000;
const MAILBOXES: usize = 16;
/// Messages in a mailbox, at most.
const ROOM: usize = 64;
/// One message in this many has a body.
const WITH_BODY: usize = 16;

/// A message as a C program has it: a structure, a string, and sometimes data.
struct Message<A: Subject> {
    head: Block<A>,
    text: Block<A>,
    body: Option<Block<A>>,
}

impl<A: Subject> Message<A> {
    fn new(rng: &mut Rng) -> Self {
        let heap = Heap::new();
        let has_body = rng.below(WITH_BODY) == 0;
        let mut text = heap.block(rng.between(8, 200));
        text.write_all(0, 3);
        Self {
            head: heap.block(64),
            text,
            body: has_body.then(|| heap.block(rng.between(1 << 10, 32 << 10))),
        }
    }

    /// Reads it; a number that depends on what was written.
    fn read(&self) -> u64 {
        let body = self.body.as_ref().map_or(0, |body| u64::from(body.read(0)));
        u64::from(self.head.read(0)) + self.text.sum() + body
    }
}

/// Mailboxes, which never grow.
struct Mailboxes<A: Subject>([Mutex<VecDeque<Message<A>>>; MAILBOXES]);

impl<A: Subject> Mailboxes<A> {
    fn new() -> Self {
        Self([(); MAILBOXES].map(|()| Mutex::new(VecDeque::with_capacity(ROOM))))
    }

    fn lock(&self, i: usize) -> MutexGuard<'_, VecDeque<Message<A>>> {
        self.0[i].lock().expect("no holder panics")
    }

    /// Puts a message into a mailbox; if that is full, the oldest one there comes out.
    fn send(&self, i: usize, message: Message<A>) -> Option<Message<A>> {
        let mut mailbox = self.lock(i);
        let oldest = (mailbox.len() == ROOM).then(|| mailbox.pop_front());
        mailbox.push_back(message);
        oldest.flatten()
    }

    fn receive(&self, i: usize) -> Option<Message<A>> {
        self.lock(i).pop_front()
    }
}

/// Sends messages, and reads and frees others; what it has read.
fn life<A: Subject>(mailboxes: &Mailboxes<A>, seed: u64, messages: u64) -> u64 {
    let mut rng = Rng::new(seed);
    let mut sum = 0;
    for _ in 0..messages {
        let message = Message::new(&mut rng);
        let pushed_out = mailboxes.send(rng.below(MAILBOXES), message);
        let received = mailboxes.receive(rng.below(MAILBOXES));
        for message in pushed_out.into_iter().chain(received) {
            sum += message.read();
        }
    }
    sum
}

/// The workload.
pub fn run<A: Subject>(ops: u64, meter: &mut Meter) {
    let mailboxes = Mailboxes::<A>::new();
    let lives = ops.div_ceil(LIFE);
    let sum = meter.measure(|| {
        let lane = |lane: u64| {
            let mailboxes = &mailboxes;
            move || -> u64 {
                let mine = (lane..lives).step_by(THREADS as usize);
                let one = |number: u64| {
                    let messages = LIFE.min(ops - number * LIFE);
                    thread::scope(|scope| {
                        let life = scope.spawn(|| life(mailboxes, number + 2000, messages));
                        life.join().expect("a life ends well")
                    })
                };
                mine.map(one).sum()
            }
        };
        let read: u64 = thread::scope(|scope| {
            let lanes: [_; THREADS as usize] = std::array::from_fn(|i| scope.spawn(lane(i as u64)));
            lanes
                .map(|l| l.join().expect("a lane ends well"))
                .iter()
                .sum()
        });
        let left = (0..MAILBOXES).flat_map(|i| std::mem::take(&mut *mailboxes.lock(i)));
        read + left.map(|message| message.read()).sum::<u64>()
    });
    // Every message has been read once: its parts say so.
    assert!(sum >= ops * (1 + 8), "{sum} of {ops} messages");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;

    #[test]
    fn a_full_mailbox_gives_its_oldest_message_back() {
        let mailboxes = Mailboxes::<System>::new();
        let mut rng = Rng::new(1);
        let mut texts = Vec::new();
        for _ in 0..ROOM {
            let message = Message::new(&mut rng);
            texts.push(message.text.size());
            assert!(mailboxes.send(3, message).is_none());
        }
        let out = mailboxes.send(3, Message::new(&mut rng));
        assert_eq!(out.map(|m| m.text.size()), Some(texts[0]));
        let next = mailboxes.receive(3);
        assert_eq!(next.map(|m| m.text.size()), Some(texts[1]));
        assert!(mailboxes.receive(4).is_none());
    }

    #[test]
    fn a_message_reads_as_it_was_written() {
        let mut rng = Rng::new(2);
        let message = Message::<System>::new(&mut rng);
        let body = u64::from(message.body.is_some());
        assert_eq!(message.read(), 1 + 3 * message.text.size() as u64 + body);
    }
}
