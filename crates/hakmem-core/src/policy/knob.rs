//! Knobs: the values of options, which may change while the program runs.
//!
//! Rules
//! 1. Any thread may read or change a knob at any time. A reader gets an old value or a new one.
//! 2. Programs outside read knobs by their places, so their layout is fixed.

use crate::base::size_class::CLASSES;
use crate::base::sync::Ordering::Relaxed;
use crate::base::sync::plain::AtomicU32;

/// The value of an option, which may change while the program runs. Programs outside read it as a
/// number of four bytes.
#[derive(Debug)]
#[repr(transparent)]
pub struct Knob(AtomicU32);

impl Knob {
    pub(super) const fn new(value: u32) -> Self {
        Self(AtomicU32::new(value))
    }
    /// The present value.
    #[inline]
    pub fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }
    /// Changes the value.
    pub fn set(&self, value: u32) {
        self.0.store(value, Relaxed);
    }
    /// True for a switch that is on.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.get() != 0
    }
}

/// A value for each size class. Programs outside read numbers in this order.
#[derive(Debug)]
#[repr(C)]
pub struct ByClass {
    all: Knob,
    of: [Knob; CLASSES],
}

impl ByClass {
    pub(super) const fn new(value: u32) -> Self {
        let mut of = [const { Knob::new(0) }; CLASSES];
        let mut class = 0;
        while class < CLASSES {
            of[class] = Knob::new(value);
            class += 1;
        }
        Self { all: Knob::new(value), of }
    }
    /// The present value for a class.
    #[inline]
    pub fn of(&self, class: usize) -> u32 {
        self.of[class].get()
    }
    /// Changes the value for one class.
    pub fn set(&self, class: usize, value: u32) {
        self.of[class].set(value);
    }
    /// The last value that was set for all classes.
    pub fn all(&self) -> u32 {
        self.all.get()
    }
    /// Changes the values for all classes.
    pub fn set_all(&self, value: u32) {
        self.all.set(value);
        self.of.iter().for_each(|knob| knob.set(value));
    }
}
