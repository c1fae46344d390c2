//! The node of memory (NUMA) that the calling thread is on.
//!
//! | build | answer |
//! |---|---|
//! | usual | the system's |
//! | unit tests | what the thread pretends, else 0 |
//! | feature `ledger` | the node of the thread whose turn it is, if the measurement has nodes |
//! | checkers | 0 |

#[cfg(test)]
pub use pretended::on_node;

/// The node of the processor that the calling thread is on. 0 if the system does not say.
pub fn node() -> u32 {
    #[cfg(test)]
    return pretended::NODE.get();
    #[cfg(all(not(test), feature = "ledger", not(any(loom, shuttle))))]
    return crate::base::sync::ledger::node();
    #[cfg(all(
        not(test),
        target_os = "linux",
        not(any(miri, shuttle)),
        not(all(feature = "ledger", not(loom)))
    ))]
    return super::vdso::node();
    #[cfg(all(not(test), any(not(target_os = "linux"), miri, shuttle)))]
    return 0;
}

#[cfg(test)]
mod pretended {
    extern crate std;

    use core::cell::Cell;

    std::thread_local! {
        pub static NODE: Cell<u32> = const { Cell::new(0) };
    }

    /// Until it is dropped, the calling thread pretends to be on a node.
    pub struct OnNode(u32);

    impl Drop for OnNode {
        fn drop(&mut self) {
            NODE.set(self.0);
        }
    }

    /// The calling thread pretends to be on `node`.
    pub fn on_node(node: u32) -> OnNode {
        OnNode(NODE.replace(node))
    }
}
