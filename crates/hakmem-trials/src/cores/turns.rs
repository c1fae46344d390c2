//! Runs threads in turn. A turn is an operation, or a single step on a word that threads share.

use super::patterns::{PLACES, Pattern, Worker};
use hakmem_core::ledger;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Barrier, Mutex, OnceLock};
use std::thread::{self, Thread};

/// Operations of a turn that do not count. Those that count have turns of their own: with several
/// in a turn, lines that each operation touches would seem cheaper than they are.
const FILLS: usize = 100;

/// Whose turn it is.
struct Baton {
    turn: AtomicUsize,
    threads: Vec<OnceLock<Thread>>,
    /// Threads that want no further turn.
    has_ended: Vec<AtomicBool>,
}

impl Baton {
    fn new(threads: usize) -> Self {
        Self {
            turn: AtomicUsize::new(0),
            threads: (0..threads).map(|_| OnceLock::new()).collect(),
            has_ended: (0..threads).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// Waits for the turn of `me`.
    fn wait(&self, me: usize) {
        while self.turn.load(SeqCst) != me {
            thread::park();
        }
        ledger::begin_turn(me);
    }

    /// Gives the turn to the next thread that wants one. False: there is none but `me`.
    fn pass(&self, me: usize) -> bool {
        let count = self.threads.len();
        let mut others = (1..count).map(|i| (me + i) % count);
        let wants = |&thread: &usize| !self.has_ended[thread].load(SeqCst);
        let Some(next) = others.find(wants) else {
            return false;
        };
        self.turn.store(next, SeqCst);
        if let Some(thread) = self.threads[next].get() {
            thread.unpark();
        }
        true
    }

    /// Gives the turn away for good. False: no thread wants one any more.
    fn end(&self, me: usize) -> bool {
        self.has_ended[me].store(true, SeqCst);
        self.pass(me)
    }
}

/// Whose turn the next step is.
static STEPS: OnceLock<Baton> = OnceLock::new();

thread_local! {
    /// The calling thread.
    static ME: Cell<usize> = const { Cell::new(0) };
}

/// Lets each other thread make a step.
fn between_steps() {
    let (baton, me) = (STEPS.get().expect("threads take turns"), ME.get());
    if baton.pass(me) {
        baton.wait(me);
    }
}

/// Makes the operations that count. They begin in the first thread, and each goes on in the next
/// one after each step.
fn interleave(me: usize, operations: impl FnOnce()) {
    let baton = STEPS.get().expect("threads take turns");
    ME.set(me);
    let own = &baton.threads[me];
    own.set(thread::current()).expect("once");
    baton.wait(me);
    ledger::set_open(true);
    operations();
    if !baton.end(me) {
        ledger::set_open(false);
    }
}

/// Runs `pattern` in `threads` threads. Each makes `fills` operations first, and then `counted`
/// ones that count. With `is_interleaved` a turn of these is a step. Once in a process.
pub fn run(
    pattern: &'static Pattern,
    threads: usize,
    fills: usize,
    counted: usize,
    is_interleaved: bool,
) {
    let baton = Baton::new(threads);
    let all_counted = Barrier::new(threads);
    if is_interleaved {
        STEPS.get_or_init(|| Baton::new(threads));
        // SAFETY: no thread has opened the ledger yet.
        unsafe { ledger::set_between(between_steps) };
    }
    let mail: Vec<Mutex<Vec<usize>>> = (0..threads).map(|_| Mutex::default()).collect();
    thread::scope(|scope| {
        for me in 0..threads {
            let (baton, mail, all_counted) = (&baton, &mail, &all_counted);
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
                if is_interleaved {
                    all_counted.wait();
                    interleave(me, || {
                        (0..counted).for_each(|_| (pattern.step)(&mut worker))
                    });
                    all_counted.wait();
                } else {
                    for _ in 0..counted {
                        baton.wait(me);
                        ledger::set_open(true);
                        (pattern.step)(&mut worker);
                        ledger::set_open(false);
                        baton.pass(me);
                    }
                }
                baton.wait(me);
                worker.end();
                baton.pass(me);
            });
        }
    });
}
