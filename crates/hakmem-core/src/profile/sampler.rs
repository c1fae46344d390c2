//! When the next sample of a heap is due. `estimate` draws the distances.
//!
//! A sample's place is a number: what the heap's count of allocated blocks of the class will be. So
//! the code that allocates notes nothing here. The caller passes that count of a class, modulo
//! [`WRAP`], as `handed`.

use super::pace::Pace;
use super::{DEFAULT_INTERVAL, estimate, interval_of, outside, run};
use crate::base::random;
use crate::base::size_class::{CLASSES, SIZES};
use crate::guard::points::Points;
use crate::os;
use crate::unwind::stack::Scratch;
use core::cell::{Cell, UnsafeCell};

/// Counts of blocks are modulo this.
pub const WRAP: u32 = 1 << 31;
/// The largest distance of a point, in blocks.
const FAR: u64 = 1 << 30;
/// Stands in place of a shift: there is no point yet, and the next one is to be drawn at that
/// count.
const NONE_YET: u8 = u8::MAX;

/// The next samples of a heap. Its memory lives for ever, as the heap's does. The fields that each
/// refill reads come first.
#[repr(C)]
pub struct Sampler {
    /// The run of the profile for which the points and the thread are right. Any other number:
    /// `begin` must run.
    run: Cell<u32>,
    /// The next point of each class: the count at which the next block is the sample.
    due_at: [Cell<u32>; CLASSES],
    /// The shift of the interval when the point was drawn, a power of two; or `NONE_YET`.
    shift: [Cell<u8>; CLASSES],
    /// The run in which the points were drawn, and its interval.
    drawn_in: Cell<u32>,
    interval: Cell<u64>,
    /// Bytes of large and huge blocks, and of blocks of program heaps, before the next such sample.
    /// None: it is to be drawn.
    large_left: Cell<Option<u64>>,
    large_shift: Cell<u32>,
    /// The samples that get a guarded place.
    pub guards: Points,
    pace: Pace,
    random: Cell<u64>,
    scratch_in_use: Cell<bool>,
    scratch: UnsafeCell<Scratch>,
}

impl Sampler {
    /// Makes a sampler, in memory from the system. None: out of memory.
    #[cold]
    pub fn make() -> Option<&'static Self> {
        let at = os::map_memory(size_of::<Self>())?;
        // SAFETY: fresh memory of that size, aligned to a system page, and nobody else has it. It
        // is zero, which is valid for all fields but `large_left`, and that is written first. This
        // does not touch most of the scratch.
        let this = unsafe {
            let this = os::at(at).cast::<Self>();
            (&raw mut (*this).large_left).write(Cell::new(None));
            &*this
        };
        this.random.set(at as u64 ^ os::now_ns().rotate_left(32));
        Some(this)
    }

    fn next_random(&self) -> u64 {
        self.random.set(self.random.get().wrapping_add(random::STEP));
        random::mixed(self.random.get())
    }

    /// The heap gets another thread, which has another stack, and maybe another speed.
    pub fn change_thread(&self) {
        self.run.set(0);
        self.with_scratch(Scratch::forget);
    }

    /// Blocks of `class` that the heap may allocate before `is_due` must run again. 0: at the next
    /// block, or because the points are not of this run.
    #[inline(always)]
    pub fn left(&self, class: usize, handed: u32) -> u32 {
        if self.run.get() == run() { self.distance(class, handed) } else { 0 }
    }

    /// The distance to the next point, if there is one.
    #[inline(always)]
    pub fn distance(&self, class: usize, handed: u32) -> u32 {
        self.due_at[class].get().wrapping_sub(handed) % WRAP
    }

    /// True if the next block of `class` is a sample.
    pub fn is_due(&self, class: usize, handed: impl Fn(usize) -> u32) -> bool {
        if self.run.get() != run() {
            self.begin(&handed);
        }
        while self.distance(class, handed(class)) == 0 {
            if self.shift[class].get() != NONE_YET {
                return true;
            }
            self.draw(class, handed(class));
        }
        false
    }

    /// Makes the sampler fit for the present run. Forgets points of another run, as counts went on
    /// meanwhile or began anew. It may forget points at any time: distances have no memory.
    #[cold]
    fn begin(&self, handed: impl Fn(usize) -> u32) {
        outside::prepare();
        let run = run();
        if self.drawn_in.replace(run) != run {
            self.interval.set(interval_of(run));
            self.large_left.set(None);
            for class in 0..CLASSES {
                self.due_at[class].set(handed(class));
                self.shift[class].set(NONE_YET);
            }
        }
        self.run.set(run);
        if self.pace.shift() > 0 && self.pace.look(os::now_ns()) {
            self.draw_nearer(handed);
        }
    }

    /// The next block of `class`, which is due, becomes a sample or is left out. Draws the point
    /// after it. Returns the interval that this point was drawn with. `now` reads the clock.
    pub fn take(
        &self,
        class: usize,
        handed: impl Fn(usize) -> u32,
        now: impl FnOnce() -> u64,
    ) -> u64 {
        let interval = self.interval.get() << self.shift[class].get();
        self.keep_pace(&handed, now);
        self.draw(class, handed(class).wrapping_add(1));
        interval
    }

    /// Draws the next point of `class`, from the block that comes at the count `from`.
    fn draw(&self, class: usize, from: u32) {
        let shift = self.pace.shift();
        let blocks = estimate::distance(self.next_random(), self.interval.get() << shift)
            / u64::from(SIZES[class]);
        self.shift[class].set(if blocks < FAR { shift as u8 } else { NONE_YET });
        self.due_at[class].set(from.wrapping_add(blocks.min(FAR) as u32));
    }

    /// The interval of the sample that an allocation of `size` bytes is, a large or huge block.
    /// None: it is no sample.
    pub fn take_large(
        &self,
        size: u64,
        handed: impl Fn(usize) -> u32,
        now: impl FnOnce() -> u64,
    ) -> Option<u64> {
        self.take_first(size, 1, handed, now).map(|(_, interval)| interval)
    }

    /// The first sample of the next `count` blocks of `size` bytes: how many come before it, and
    /// its interval. The blocks behind it are to be looked at anew. None: there is none.
    pub fn take_first(
        &self,
        size: u64,
        count: u64,
        handed: impl Fn(usize) -> u32,
        now: impl FnOnce() -> u64,
    ) -> Option<(u64, u64)> {
        if self.run.get() != run() {
            self.begin(&handed);
        }
        let left = self.large_left.get().unwrap_or_else(|| {
            self.large_shift.set(self.pace.shift());
            estimate::distance(self.next_random(), self.interval.get() << self.pace.shift())
        });
        let all = size * count;
        self.large_left.set(left.checked_sub(all));
        if left >= all {
            return None;
        }
        let interval = self.interval.get() << self.large_shift.get();
        self.keep_pace(handed, now);
        Some((left.checked_div(size)?, interval))
    }

    /// Counts a sample for the pace. A program that sets a smaller interval than the default gets
    /// it, whatever it costs.
    fn keep_pace(&self, handed: impl Fn(usize) -> u32, now: impl FnOnce() -> u64) {
        if self.interval.get() >= DEFAULT_INTERVAL && self.pace.took(now) {
            self.draw_nearer(handed);
        }
    }

    /// The interval is shorter than before: draws long distances anew. Otherwise a program that
    /// once allocated fast would wait long for its samples. A point at the next block stays. For
    /// any other class the next block is known to be no sample, that stays so, and what comes after
    /// it has no memory.
    #[cold]
    fn draw_nearer(&self, handed: impl Fn(usize) -> u32) {
        let shift = self.pace.shift();
        for class in 0..CLASSES {
            if u32::from(self.shift[class].get()) > shift && self.distance(class, handed(class)) > 0
            {
                self.draw(class, handed(class).wrapping_add(1));
            }
        }
        if self.large_shift.get() > shift {
            self.large_left.set(None);
        }
    }

    /// Runs `f` with the scratch. None: a frame of this thread that a signal interrupted is using
    /// it.
    pub fn with_scratch<R>(&self, f: impl FnOnce(&mut Scratch) -> R) -> Option<R> {
        if self.scratch_in_use.replace(true) {
            return None;
        }
        // SAFETY: only the heap's holder calls this, which is the calling thread, and the flag was
        // not set: no other frame of the thread has a reference to the scratch (rule 3 of
        // `profile`).
        let result = f(unsafe { &mut *self.scratch.get() });
        self.scratch_in_use.set(false);
        Some(result)
    }
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests;
