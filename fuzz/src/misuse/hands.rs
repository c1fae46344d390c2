//! The calls themselves, on the thread that is to make them. Nothing is kept here.

use crate::ops::THREADS;
use hakmem_core::{Hakmem, c};
use std::alloc::{GlobalAlloc, Layout};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

/// Which front end a call goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Through {
    C,
    Rust,
}

/// A call. Addresses are numbers, as threads hand them to each other.
#[derive(Debug, Clone, Copy)]
pub enum Call {
    Alloc(Through, Layout),
    AllocZeroed(Through, Layout),
    Free(usize),
    Dealloc(usize, Layout),
    Realloc(usize, usize),
    UsableSize(usize),
    Trim,
}

fn at(address: usize) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(address)
}

/// Makes the call; what it returns, as a number.
///
/// # Safety
/// None is kept: the process is one that may end by it.
unsafe fn make(call: Call) -> usize {
    let layout_of = |l: Layout| (l.size(), l.align());
    // SAFETY: none, on purpose: this process is a child that may end by the call.
    let block = unsafe {
        match call {
            Call::Alloc(Through::Rust, layout) => Hakmem.alloc(layout),
            Call::AllocZeroed(Through::Rust, layout) => Hakmem.alloc_zeroed(layout),
            Call::Alloc(Through::C, layout) => {
                let (size, align) = layout_of(layout);
                c::memalign(align, size)
            }
            // C has no aligned calloc.
            Call::AllocZeroed(Through::C, layout) => c::zeroed(layout.size()),
            Call::Free(p) => {
                c::free(at(p));
                return 0;
            }
            Call::Dealloc(p, layout) => {
                Hakmem.dealloc(at(p), layout);
                return 0;
            }
            Call::Realloc(p, size) => c::realloc(at(p), size),
            Call::UsableSize(p) => return c::usable_size(at(p)),
            Call::Trim => return c::trim().into(),
        }
    };
    block.expose_provenance()
}

struct Worker {
    calls: SyncSender<Call>,
    results: Receiver<usize>,
    thread: JoinHandle<()>,
}

/// The threads of one process.
#[derive(Default)]
pub struct Hands([Option<Worker>; THREADS]);

impl Hands {
    /// Has thread `who` make the call; 0 is the calling one.
    pub fn have(&mut self, who: usize, call: Call) -> usize {
        if who == 0 {
            // SAFETY: this process is a child that may end by the call.
            return unsafe { make(call) };
        }
        let worker = self.0[who - 1].get_or_insert_with(|| {
            let (calls, received) = sync_channel(0);
            let (sender, results) = sync_channel(0);
            let thread = thread::spawn(move || {
                for call in received {
                    // SAFETY: this process is a child that may end by the call.
                    sender.send(unsafe { make(call) }).unwrap();
                }
            });
            Worker {
                calls,
                results,
                thread,
            }
        });
        worker.calls.send(call).unwrap();
        worker.results.recv().unwrap()
    }

    /// Ends thread `who`; 0: all but the calling one.
    pub fn end(&mut self, who: usize) {
        for (i, worker) in self.0.iter_mut().enumerate() {
            if (who == 0 || who == i + 1)
                && let Some(Worker { calls, thread, .. }) = worker.take()
            {
                drop(calls);
                thread.join().unwrap();
            }
        }
    }
}
