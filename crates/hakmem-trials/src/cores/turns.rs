//! Runs threads in turn.

use super::patterns::{PLACES, Pattern, Worker};
use hakmem_core::ledger;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, OnceLock};
use std::thread::{self, Thread};

/// Operations of a turn that do not count. Those that count have turns of their own: with several
/// in a turn, lines that each operation touches would seem cheaper than they are.
const FILLS: usize = 100;

/// Whose turn it is.
struct Baton {
    turn: AtomicUsize,
    threads: Vec<OnceLock<Thread>>,
}

impl Baton {
    /// Waits for the turn of `me`.
    fn wait(&self, me: usize) {
        while self.turn.load(SeqCst) != me {
            thread::park();
        }
        ledger::begin_turn(me);
    }

    /// Gives the turn to the next thread.
    fn pass(&self, me: usize) {
        let next = (me + 1) % self.threads.len();
        self.turn.store(next, SeqCst);
        if let Some(thread) = self.threads[next].get() {
            thread.unpark();
        }
    }
}

/// Runs `pattern` in `threads` threads. Each makes `fills` operations first, and then `counted`
/// ones that count.
pub fn run(pattern: &'static Pattern, threads: usize, fills: usize, counted: usize) {
    let baton = Baton {
        turn: AtomicUsize::new(0),
        threads: (0..threads).map(|_| OnceLock::new()).collect(),
    };
    let mail: Vec<Mutex<Vec<usize>>> = (0..threads).map(|_| Mutex::default()).collect();
    thread::scope(|scope| {
        for me in 0..threads {
            let (baton, mail) = (&baton, &mail);
            scope.spawn(move || {
                let own = &baton.threads[me];
                own.set(thread::current())
                    .expect("each thread has its place");
                let mut worker = Worker::new(me, mail);
                baton.wait(me);
                worker.begin();
                baton.pass(me);
                for _ in 0..fills / FILLS {
                    baton.wait(me);
                    (0..FILLS).for_each(|_| (pattern.step)(&mut worker));
                    baton.pass(me);
                }
                baton.wait(me);
                PLACES.lock().expect("threads run in turn").start();
                baton.pass(me);
                for _ in 0..counted {
                    baton.wait(me);
                    ledger::set_open(true);
                    (pattern.step)(&mut worker);
                    ledger::set_open(false);
                    baton.pass(me);
                }
                baton.wait(me);
                worker.end();
                baton.pass(me);
            });
        }
    });
}
