//! What the threads do.

use hakmem_bench::rng::Rng;
use hakmem_core::Hakmem;
use hakmem_core::ledger;
use std::alloc::{GlobalAlloc, Layout};
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

static HAKMEM: Hakmem = Hakmem::new();

/// Where blocks lie.
#[derive(Default)]
pub struct Places {
    /// For each 4 KiB: the node of the thread that had the first block there.
    nodes: HashMap<usize, usize>,
    /// Blocks since `start`.
    pub blocks: u64,
    /// Those whose memory is another node's than their thread's.
    pub far: u64,
}

/// Threads run in turn.
pub static PLACES: LazyLock<Mutex<Places>> = LazyLock::new(Mutex::default);

impl Places {
    /// Counts from here on.
    pub fn start(&mut self) {
        (self.blocks, self.far) = (0, 0);
    }

    fn note(&mut self, block: usize, node: usize) {
        self.blocks += 1;
        self.far += u64::from(*self.nodes.entry(block / 4096).or_insert(node) != node);
    }
}

/// What each thread does in an operation.
pub struct Pattern {
    pub name: &'static str,
    pub step: fn(&mut Worker),
}

/// All patterns.
pub const ALL: [Pattern; 9] = [
    // Replace a random one of 1,000 blocks of 16–1024 B.
    Pattern {
        name: "small",
        step: small,
    },
    // Allocate 2,000 blocks of 16–1024 B, then free all.
    Pattern {
        name: "swings",
        step: swings,
    },
    // Replace a random one of 8 blocks of 64–512 KiB.
    Pattern {
        name: "large",
        step: large,
    },
    // Replace a random one of 4 blocks of 1–4 MiB.
    Pattern {
        name: "huge",
        step: huge,
    },
    // Free what the neighbour of the pair sent, and send it a block of 16–512 B.
    Pattern {
        name: "pairs",
        step: pairs,
    },
    // Free what the one before sent, and send the next one a block.
    Pattern {
        name: "ring",
        step: ring,
    },
    // Free what came, and send a block to a random thread.
    Pattern {
        name: "all",
        step: all,
    },
    // Send a block to the first thread, which frees it.
    Pattern {
        name: "fan_in",
        step: fan_in,
    },
    // The first thread sends each thread a block, which frees it.
    Pattern {
        name: "fan_out",
        step: fan_out,
    },
];

/// A thread of a pattern. Its own data is not in hakmem's memory.
pub struct Worker<'a> {
    me: usize,
    rng: Rng,
    blocks: Vec<(usize, usize)>,
    frees: bool,
    inboxes: &'a [Mutex<Vec<usize>>],
}

/// What other threads free. They know its size.
const SENT: usize = 512;

impl<'a> Worker<'a> {
    pub fn new(me: usize, inboxes: &'a [Mutex<Vec<usize>>]) -> Self {
        Self {
            me,
            rng: Rng::new(me as u64),
            blocks: Vec::with_capacity(2048),
            frees: false,
            inboxes,
        }
    }

    /// Allocates and frees a small block, as each thread of a program does sooner or later.
    pub fn begin(&mut self) {
        free(self.allocate(SENT), SENT);
    }

    fn allocate(&self, size: usize) -> usize {
        // SAFETY: the size is not 0.
        let p = unsafe { HAKMEM.alloc(layout(size)) };
        assert!(!p.is_null(), "out of memory");
        let p = p.expose_provenance();
        let mut places = PLACES.lock().expect("threads run in turn");
        places.note(p, self.me / ledger::NEAR);
        p
    }

    /// Frees all that is left.
    pub fn end(&mut self) {
        for (p, size) in std::mem::take(&mut self.blocks) {
            free(p, size);
        }
        self.receive();
    }

    /// Replaces a random one of `count` blocks by one of `least` to `most` bytes.
    fn replace(&mut self, count: usize, least: usize, most: usize) {
        let size = self.rng.between(least, most);
        if self.blocks.len() < count {
            self.blocks.push((self.allocate(size), size));
            return;
        }
        let i = self.rng.below(count);
        let (p, old) = self.blocks[i];
        free(p, old);
        self.blocks[i] = (self.allocate(size), size);
    }

    fn receive(&mut self) {
        let came = std::mem::take(&mut *self.inboxes[self.me].lock().expect("threads run in turn"));
        for p in came {
            free(p, SENT);
        }
    }

    fn send(&mut self, to: usize) {
        let size = SENT / (1 << self.rng.below(6));
        let p = self.allocate(size);
        self.inboxes[to]
            .lock()
            .expect("threads run in turn")
            .push(p);
    }
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).expect("a size of a pattern")
}

fn free(p: usize, size: usize) {
    // SAFETY: `p` is from `allocate`. hakmem takes the size from its own metadata, so that of a
    // Block that was sent need not be known.
    unsafe { HAKMEM.dealloc(std::ptr::with_exposed_provenance_mut(p), layout(size)) };
}

fn small(w: &mut Worker) {
    w.replace(1000, 16, 1024);
}

fn swings(w: &mut Worker) {
    if w.blocks.is_empty() || w.blocks.len() == 2000 {
        w.frees = !w.blocks.is_empty();
    }
    if w.frees {
        let (p, size) = w.blocks.pop().expect("a block");
        free(p, size);
    } else {
        let size = w.rng.between(16, 1024);
        let p = w.allocate(size);
        w.blocks.push((p, size));
    }
}

fn large(w: &mut Worker) {
    w.replace(8, 64 << 10, 512 << 10);
}

fn huge(w: &mut Worker) {
    w.replace(4, (1 << 20) + 1, 4 << 20);
}

fn pairs(w: &mut Worker) {
    w.receive();
    w.send((w.me ^ 1).min(w.inboxes.len() - 1));
}

fn ring(w: &mut Worker) {
    w.receive();
    w.send((w.me + 1) % w.inboxes.len());
}

fn all(w: &mut Worker) {
    w.receive();
    let to = w.rng.below(w.inboxes.len());
    w.send(to);
}

fn fan_in(w: &mut Worker) {
    w.receive();
    w.send(0);
}

fn fan_out(w: &mut Worker) {
    w.receive();
    if w.me == 0 {
        for to in 0..w.inboxes.len() {
            w.send(to);
        }
    }
}
