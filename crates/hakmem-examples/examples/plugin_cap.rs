//! A plugin with a cap: its ordinary allocations come from a heap with a limit. What it keeps lives
//! on after the call.
//!
//! ```sh
//! cargo run --release -p hakmem-examples --example plugin_cap
//! ```
//!
//! The program prints:
//!
//! ```text
//! the plugin remembered 102 notes
//! the program goes on with 10 MiB
//! 0 bytes are left
//! ```

use hakmem::{Hakmem, Heap};

#[global_allocator]
static ALLOCATOR: Hakmem = Hakmem::new();

/// A plugin that knows nothing of heaps: it remembers what it is told, as long as there is memory.
#[derive(Default)]
struct Plugin {
    notes: Vec<Vec<u8>>,
}

impl Plugin {
    fn remember(&mut self, bytes: usize) -> Result<(), std::collections::TryReserveError> {
        let mut note = Vec::new();
        note.try_reserve_exact(bytes)?;
        note.resize(bytes, 1);
        self.notes.try_reserve(1)?;
        self.notes.push(note);
        Ok(())
    }
}

fn main() {
    let cap = Heap::builder().name("plugin").limit(1 << 20).build();
    let mut plugin = Plugin::default();
    let calls = (0..).take_while(|_| cap.scope(|| plugin.remember(10_000)).is_ok());
    println!("the plugin remembered {} notes", calls.count());

    let others: Vec<u8> = vec![2; 10 << 20];
    println!("the program goes on with {} MiB", others.len() >> 20);

    let figures = cap.stats();
    assert!(figures.live_bytes <= 1 << 20 && figures.refused > 0);
    drop(plugin);
    println!("{} bytes are left", cap.stats().live_bytes);
}
