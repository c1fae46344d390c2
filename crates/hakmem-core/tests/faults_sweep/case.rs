//! One case: a workload under a plan, in a child of its own.

use crate::heap::Heap;
use crate::workloads::Workload;
use hakmem_core::coarse;
use hakmem_core::faults::{self, CALLS, Plan};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Seconds after which a child hangs.
const PATIENCE: u32 = 120;

/// What a case did, for its parent to read.
#[derive(Debug, Default, Clone)]
#[repr(C)]
pub struct Outcome {
    pub reached: [u64; CALLS.len()],
    pub refused: [u64; CALLS.len()],
    /// Allocations that got NULL.
    pub nulls: u64,
    pub failed: Option<String>,
}

/// Runs a case in this process.
pub fn here(workload: &Workload, plan: Plan) -> Outcome {
    // A scavenger at 1 MiB, no decay, and faults and huge pages by the piece: so that little memory
    // reaches every call.
    let options = [
        c"HAKMEM_SCAVENGER=1",
        c"HAKMEM_DECAY_MS=0",
        c"HAKMEM_THP_FROM_SEGMENTS=1",
        c"HAKMEM_POPULATE_FROM_PAGES=0",
    ];
    let mut environment = options.map(|o| o.as_ptr()).to_vec();
    environment.push(std::ptr::null());
    // SAFETY: C strings, ended by NULL.
    unsafe { hakmem_core::c::configure(environment.as_ptr()) };
    let heap = Heap::default();
    faults::arm(plan);
    let blocks = (workload.run)(&heap);
    faults::disarm();
    let (reached, refused) = faults::counts();
    heap.recovers(blocks);
    let nulls = heap.nulls();
    // One refusal is never felt: everything that is free is given back, and the call made again.
    let alone = refused.iter().sum::<u64>() == 1;
    assert!(
        !alone || nulls == 0,
        "{nulls} allocations failed for one refused call"
    );
    Outcome {
        reached,
        refused,
        nulls,
        failed: None,
    }
}

/// The numbers of an outcome, in memory that parent and child share.
type Shared = [u64; 2 * CALLS.len() + 2];

/// A case that runs in a child.
pub struct Child {
    pub plan: Plan,
    id: libc::pid_t,
    shared: *mut Shared,
}

impl Child {
    pub fn start(workload: &Workload, plan: Plan) -> Self {
        Self::start_on(workload, plan, None)
    }

    /// On a kernel with pages of that size; none: the machine's.
    pub fn start_on(workload: &Workload, plan: Plan, page: Option<usize>) -> Self {
        let shared = share();
        // SAFETY: this process has one thread.
        match unsafe { libc::fork() } {
            -1 => panic!("fork failed"),
            0 => {
                // SAFETY: the child ends here, and never returns to what its parent was doing.
                unsafe {
                    libc::alarm(PATIENCE);
                    page.into_iter().for_each(coarse::set_page_size);
                    let done = catch_unwind(AssertUnwindSafe(|| here(workload, plan)));
                    if let Ok(outcome) = &done {
                        let numbers = outcome.reached.iter().chain(&outcome.refused);
                        let numbers = numbers.chain([&outcome.nulls, &1]);
                        for (to, &from) in (*shared).iter_mut().zip(numbers) {
                            *to = from;
                        }
                    }
                    libc::_exit(if done.is_ok() { 0 } else { 101 })
                }
            }
            id => Self { plan, id, shared },
        }
    }

    /// Waits for its end.
    pub fn finish(self) -> Outcome {
        let mut status = 0;
        // SAFETY: waits for the child, into a variable.
        let waited = unsafe { libc::waitpid(self.id, &mut status, 0) };
        assert_eq!(waited, self.id, "the child was lost");
        // SAFETY: the child is gone; the memory is zero where it wrote nothing.
        let n = unsafe { *self.shared };
        // SAFETY: mapped by `share`, and not used any more.
        unsafe { libc::munmap(self.shared.cast(), size_of::<Shared>()) };
        let part = |from: usize| std::array::from_fn(|i| n[from + i]);
        let ended = status == 0 && n[n.len() - 1] == 1;
        Outcome {
            reached: part(0),
            refused: part(CALLS.len()),
            nulls: n[n.len() - 2],
            failed: (!ended).then(|| format!("the child ended with {status:#x}")),
        }
    }
}

fn share() -> *mut Shared {
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new map.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size_of::<Shared>(),
            protection,
            flags,
            -1,
            0,
        )
    };
    assert_ne!(at, libc::MAP_FAILED, "no shared memory");
    at.cast()
}
