//! Nodes of memory (NUMA): where in an arena the threads of each node get their memory.
//!
//! On a machine of several nodes, each processor reaches the memory of its own node faster. The
//! kernel takes a page from the node of the thread that touches it first, and the page stays there.
//! So hakmem deals the groups of an arena out to the nodes. The threads of a node claim segments in
//! groups of that node, and free memory serves the node that it came from:
//!
//! ```text
//! groups of an arena:   0  1  2  3  4  5  …
//! nodes, if two:        0  1  0  1  0  1  …
//! ```
//!
//! A heap is of the node that its thread was on when it adopted the heap. The first heap of the
//! process asks only once there is another: so a program of one thread does not. Nothing here asks
//! how many nodes the machine has. While all threads are on node 0, there is one node, all groups
//! are its groups, and nothing differs.
//!
//! Rules
//! 1. Which node a group, a heap or a run is of decides only where a search begins. A thread whose
//!    node has no room takes memory of another one.
//! 2. The number of nodes only grows, to the next power of two. Then groups change their nodes: at
//!    worst, memory is farther than it could be.

use crate::backend::arena::GROUP;
use crate::backend::page::Meta;
use crate::base::sync::Ordering::Relaxed;
use crate::base::sync::plain::{AtomicBool, AtomicUsize};
use crate::os;

/// The most nodes that are told apart. Of others, a few count as one.
pub const MOST: usize = 8;

/// The number of nodes less one, all ones.
#[unsafe(link_section = ".data.hakmem")]
static LAST: AtomicUsize = AtomicUsize::new(0);

/// True if a thread has asked for its node.
#[unsafe(link_section = ".data.hakmem")]
static IS_ASKED: AtomicBool = AtomicBool::new(false);

/// For each logarithm of a number of nodes: the groups of node 0.
const FIRST: [u64; 4] = [u64::MAX, u64::MAX / 3, u64::MAX / 15, u64::MAX / 255];
const _: () = assert!(1 << (FIRST.len() - 1) == MOST);

/// The number of nodes: a power of two, and 1 as long as all threads are on node 0.
pub fn count() -> usize {
    LAST.load(Relaxed) + 1
}

/// True if there is more than one node.
#[inline(always)]
pub fn are_several() -> bool {
    LAST.load(Relaxed) != 0
}

/// The node of the calling thread, below [`count`].
pub fn here() -> usize {
    if !is_asked() {
        IS_ASKED.store(true, Relaxed);
    }
    let node = os::node() as usize % MOST;
    if node > LAST.load(Relaxed) {
        LAST.fetch_or((node + 1).next_power_of_two() - 1, Relaxed);
    }
    node
}

/// True if a thread has asked for its node, so that all should.
#[inline(always)]
pub fn is_asked() -> bool {
    IS_ASKED.load(Relaxed)
}

/// The node of a group.
pub fn of_group(group: usize) -> usize {
    group & LAST.load(Relaxed)
}

/// The node of a slot.
#[cold]
pub fn of(slot: &Meta) -> usize {
    of_group(slot.segment_in_arena().1 / GROUP)
}

/// Groups of an arena to search: bit i stands for each group whose number is i more than a multiple
/// of 64.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Groups(pub u64);

impl Groups {
    /// All groups.
    pub const ALL: Self = Self(u64::MAX);

    /// Those of a node.
    pub fn of(node: usize) -> Self {
        let last = LAST.load(Relaxed);
        let first = FIRST.get(last.count_ones() as usize).copied().unwrap_or(u64::MAX);
        Self(first << (node & last))
    }

    /// The node whose groups these are. None: of all nodes.
    pub fn node(self) -> Option<usize> {
        (self != Self::ALL).then(|| self.0.trailing_zeros() as usize)
    }

    /// The first of these groups from `group` on.
    pub fn next(self, group: usize) -> usize {
        group + self.0.rotate_right((group % 64) as u32).trailing_zeros() as usize
    }
}

// Models and Miri have one node.
#[cfg(all(test, not(any(loom, miri, shuttle))))]
mod tests;
