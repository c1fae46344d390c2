//! The allocator of a Rust program, and the same with options.

use crate::policy::options::Options;

/// The allocator, for use as the `#[global_allocator]`.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::Hakmem;
///
/// #[global_allocator]
/// static ALLOCATOR: Hakmem = Hakmem::new();
///
/// # fn main() { assert_eq!(vec![1, 2, 3].len(), 3); }
/// ```
///
/// All state belongs to the process: every value of this type is the same allocator.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hakmem;

impl Hakmem {
    /// The allocator. O(1), touches no memory.
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::Hakmem;
    ///
    /// #[global_allocator]
    /// static ALLOCATOR: Hakmem = Hakmem::new();
    /// # fn main() { drop(vec![0; 100]); }
    /// ```
    pub const fn new() -> Self {
        Self
    }

    /// The allocator with options of the program. The environment overrules them. A value out of
    /// its range does not compile in a `static`.
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::{Configured, Hakmem, options::Options};
    ///
    /// #[global_allocator]
    /// static ALLOCATOR: Configured =
    ///     Hakmem::with(Options { decay_ms: 1000, ..Options::DEFAULT });
    ///
    /// # fn main() {
    /// # assert_eq!(hakmem::options::get("DECAY_MS").unwrap().to_string(), "1000");
    /// # }
    /// ```
    pub const fn with(options: Options) -> Configured {
        options.check();
        Configured(options)
    }
}

/// [`Hakmem`] with options. The first slow path sets them. The fast paths are the same as those of
/// `Hakmem`.
///
/// Options belong to the process. If a program uses two such values with different options, the
/// first one used decides.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::{Configured, Hakmem, options::Options};
///
/// #[global_allocator]
/// static ALLOCATOR: Configured = Hakmem::with(Options { huge_cache_mib: 8, ..Options::DEFAULT });
///
/// # fn main() {
/// assert_eq!(hakmem::options::get("HUGE_CACHE_MIB").unwrap().to_string(), "8");
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Configured(pub(crate) Options);
