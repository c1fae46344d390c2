//! When a heap's next sample is due: see `estimate` for the distances.

use super::pace::Pace;
use super::{DEFAULT_INTERVAL, estimate, interval, stack::Scratch};
use crate::os;
use crate::size_class::{CLASSES, SIZES};
use core::cell::{Cell, UnsafeCell};

/// To be drawn.
const UNKNOWN: u32 = 0;

/// What a heap knows of its samples to come. Its memory is for ever, as the heap's.
pub struct Sampler {
    /// 1 + the blocks of each class that are no samples, before the next one that is; or `UNKNOWN`.
    due_in: [Cell<u32>; CLASSES],
    /// What the interval was stretched by when that was drawn, as a power of two.
    shift: [Cell<u8>; CLASSES],
    /// Bytes of large blocks and whales before the next such sample; none: to be drawn.
    large_left: Cell<Option<u64>>,
    large_shift: Cell<u32>,
    pace: Pace,
    random: Cell<u64>,
    scratch_in_use: Cell<bool>,
    scratch: UnsafeCell<Scratch>,
}

impl Sampler {
    /// Makes one, in memory from the system. None: there is none.
    #[cold]
    pub fn make() -> Option<&'static Self> {
        let at = os::map_memory(size_of::<Self>())?;
        // SAFETY: fresh memory of that size, aligned to a page, and nobody else's. All zero is a valid scratch and valid
        // cells; what is not zero is set below. Most of the scratch is not touched.
        let this = unsafe { &*os::at(at).cast::<Self>() };
        this.random.set(at as u64 ^ os::now_ns().rotate_left(32));
        this.large_left.set(None);
        this.forget();
        Some(this)
    }

    /// splitmix64.
    fn next_random(&self) -> u64 {
        self.random.set(self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        let mut z = self.random.get();
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Forgets what was drawn for classes: the blocks that it was drawn for went back unused. That may be done at any time, as
    /// distances have no memory.
    pub fn forget(&self) {
        self.due_in.iter().for_each(|due_in| due_in.set(UNKNOWN));
        self.with_scratch(Scratch::forget);
    }

    /// Blocks of `class` that may be handed out before the next sample; 0: it is due now.
    pub fn left(&self, class: usize) -> u32 {
        if self.due_in[class].get() == UNKNOWN {
            // Maybe another thread's by now, and slower.
            if self.pace.shift() > 0 && self.pace.look(os::now_ns()) {
                self.draw_nearer();
            }
            self.draw(class);
        }
        self.known_left(class)
    }

    /// As `left`, or 0 if that is not known.
    #[inline(always)]
    pub fn known_left(&self, class: usize) -> u32 {
        self.due_in[class].get().saturating_sub(1)
    }

    /// So many have been handed out since.
    #[inline(always)]
    pub fn spend(&self, class: usize, blocks: u32) {
        let due_in = self.due_in[class].get();
        self.due_in[class].set(if due_in > blocks { due_in - blocks } else { due_in.min(1) });
    }

    /// The sample of `class` is due: draws the next one. Returns the interval that this one was drawn with.
    pub fn take(&self, class: usize) -> u64 {
        let interval = interval() << self.shift[class].get();
        self.keep_pace(os::now_ns);
        self.draw(class);
        interval
    }

    fn draw(&self, class: usize) {
        let shift = self.pace.shift();
        let distance = estimate::distance(self.next_random(), interval() << shift);
        self.shift[class].set(shift as u8);
        self.due_in[class].set((1 + distance / u64::from(SIZES[class])).min(u64::from(u32::MAX)) as u32);
    }

    /// Whether an allocation of `size` bytes, large, is a sample: the interval that it was drawn with.
    pub fn take_large(&self, size: u64) -> Option<u64> {
        let left = self.large_left.get().unwrap_or_else(|| {
            self.large_shift.set(self.pace.shift());
            estimate::distance(self.next_random(), interval() << self.pace.shift())
        });
        self.large_left.set(left.checked_sub(size));
        if left >= size {
            return None;
        }
        let interval = interval() << self.large_shift.get();
        self.keep_pace(os::now_ns);
        Some(interval)
    }

    /// A sample is taken. Who asks for a smaller interval than usual gets it, whatever it costs.
    fn keep_pace(&self, now: impl FnOnce() -> u64) {
        if interval() >= DEFAULT_INTERVAL && self.pace.took(now) {
            self.draw_nearer();
        }
    }

    /// The interval is shorter than it was: long distances are drawn anew, or a program that was fast once would wait long for
    /// its samples. No point that was found is given up: where the next block is no sample, that stands, and what comes
    /// after it has no memory.
    #[cold]
    fn draw_nearer(&self) {
        let shift = self.pace.shift();
        for class in 0..CLASSES {
            if u32::from(self.shift[class].get()) > shift && self.known_left(class) > 0 {
                self.draw(class);
                self.due_in[class].set(self.due_in[class].get().saturating_add(1));
            }
        }
        if self.large_shift.get() > shift {
            self.large_left.set(None);
        }
    }

    /// Runs `f` with the scratch. None: an interrupted frame of this thread is using it.
    pub fn with_scratch<R>(&self, f: impl FnOnce(&mut Scratch) -> R) -> Option<R> {
        if self.scratch_in_use.replace(true) {
            return None;
        }
        // SAFETY: rule 3: the heap is the calling thread's, and no frame of it has the scratch.
        let result = f(unsafe { &mut *self.scratch.get() });
        self.scratch_in_use.set(false);
        Some(result)
    }
}
