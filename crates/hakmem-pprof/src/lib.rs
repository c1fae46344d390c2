//! The heap profile of a program on the [hakmem](https://github.com/hakmem/hakmem) allocator, made
//! in the program itself: which code allocated what is live, and what was allocated in all.
//!
//! ```
//! # extern crate hakmem_core as hakmem;
//! use hakmem::Hakmem;
//!
//! #[global_allocator]
//! static ALLOCATOR: Hakmem = Hakmem::new();
//!
//! #[inline(never)]
//! fn load() -> Vec<u8> {
//!     vec![1; 64 << 20]
//! }
//!
//! # fn main() -> Result<(), hakmem_pprof::Error> {
//! # if !hakmem_core::is_active() { return Ok(()); }
//! hakmem_pprof::start(hakmem_pprof::DEFAULT_INTERVAL)?;
//! let data = load();
//! let file = hakmem_pprof::dump_pprof()?; // Serve it, or write it to a file for `go tool pprof`.
//! assert!(file.starts_with(&[0x1f, 0x8b]), "gzip");
//! assert!(hakmem_pprof::folded()?.contains("load"));
//! hakmem_pprof::stop();
//! # drop(data); Ok(()) }
//! ```
//!
//! # In a service
//!
//! A handler returns what [`dump_pprof`] gives, and `go tool pprof http://…/debug/pprof/heap` reads
//! it. [The
//! example](https://github.com/hakmem/hakmem/blob/main/crates/hakmem-examples/examples/pprof_server.rs)
//! does that with axum. Looking for names reads the debug information of the program and of its
//! libraries: it takes from some milliseconds to seconds, by their size. So call it where a thread
//! may block. [`Dump::symbols`] leaves the names to the reader, who then needs the program's file.
//!
//! # What is in it
//!
//! The profile is made of samples: one in 512 KiB of allocations on average, at the default
//! interval. Its figures are estimates. The sum of some code has a relative error of about one
//! divided by the root of its number of samples. The file for pprof has the sample types
//! `alloc_objects`, `alloc_space`, `inuse_objects` and `inuse_space`, the mappings with their build
//! ids, and inlined functions. The functions of the allocator and those of the standard libraries
//! on the way to it are left out ([`Dump::all_frames`]).
//!
//! The calls of this crate allocate, too. What they allocate is in later profiles as theirs.
//!
//! # Where there is no port
//!
//! On a target that hakmem does not serve, every call returns [`Error::NoPort`], and the program
//! compiles.

mod error;
/// What the command `hakmem` is made of. It may change with any version.
#[doc(hidden)]
pub mod tool;

pub use error::Error;
pub use hakmem_core::profile::{DEFAULT_INTERVAL, MAX_INTERVAL};
pub use tool::flame::Bytes;

use hakmem_core::profile::{Event, dump};
use tool::{Profile, encode, flame, module, raw};

/// Switches the profile on: one sample in `interval` bytes of allocations on average, from 1 to
/// [`MAX_INTERVAL`]. With 1 almost all allocations are samples, which is slow.
///
/// If the profile is on already, it goes on with the new interval. Each sample counts by the
/// interval that it was drawn with, so the figures stay right. What was allocated before the first
/// start is not in the profile. O(threads).
///
/// # Errors
/// - [`Error::NoPort`]: hakmem does not serve this target.
/// - [`Error::NotServed`]: the program has another allocator.
/// - [`Error::Interval`]: there is no such interval.
/// - [`Error::Lost`]: a fork has cut the profile short in this process.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::Hakmem;
///
/// #[global_allocator]
/// static ALLOCATOR: Hakmem = Hakmem::new();
///
/// # fn main() -> Result<(), hakmem_pprof::Error> {
/// # if !hakmem_core::is_active() { return Ok(()); }
/// hakmem_pprof::start(512 << 10)?;
/// hakmem_pprof::start(64 << 10)?; // More samples from now on.
/// assert!(hakmem_pprof::is_on());
/// assert!(hakmem_pprof::start(0).is_err());
/// # Ok(()) }
/// ```
pub fn start(interval: u64) -> Result<(), Error> {
    if !hakmem_core::is_active() {
        return Err(Error::NoPort);
    }
    if !(1..=MAX_INTERVAL).contains(&interval) {
        return Err(Error::Interval(interval));
    }
    let block = std::hint::black_box(Box::new(0u64));
    if hakmem_core::stats::process().allocations == 0 {
        return Err(Error::NotServed);
    }
    drop(block);
    match hakmem_core::profile::start(interval) {
        true => Ok(()),
        false => Err(Error::Lost),
    }
}

/// Switches the profile off. It keeps what it has: the calls that read it go on to work, and see
/// what is freed. O(1).
///
/// ```
/// hakmem_pprof::stop();
/// assert!(!hakmem_pprof::is_on());
/// ```
pub fn stop() {
    hakmem_core::profile::stop();
}

/// True while allocations are sampled. O(1).
///
/// ```
/// assert!(!hakmem_pprof::is_on());
/// ```
pub fn is_on() -> bool {
    hakmem_core::profile::is_on()
}

/// The average bytes from one sample to the next. None: the profile was never on. O(1).
///
/// ```
/// assert_eq!(hakmem_pprof::interval(), None);
/// ```
pub fn interval() -> Option<u64> {
    Some(hakmem_core::profile::interval()).filter(|&bytes| bytes > 0)
}

/// The live heap, and all allocations since the start, as pprof reads them: gzipped, with names.
/// See [`Dump::pprof`].
///
/// # Errors
/// Those of [`Dump::pprof`].
///
/// ```
/// assert_eq!(hakmem_pprof::dump_pprof(), Err(hakmem_pprof::Error::Off));
/// ```
pub fn dump_pprof() -> Result<Vec<u8>, Error> {
    Dump::new().pprof()
}

/// The live bytes as folded stacks. See [`Dump::folded`].
///
/// # Errors
/// Those of [`Dump::pprof`].
///
/// ```
/// assert_eq!(hakmem_pprof::folded(), Err(hakmem_pprof::Error::Off));
/// ```
pub fn folded() -> Result<String, Error> {
    Dump::new().folded()
}

/// The live bytes as a flame graph, an SVG. See [`Dump::flame_graph`].
///
/// # Errors
/// Those of [`Dump::pprof`].
///
/// ```
/// assert_eq!(hakmem_pprof::flame_graph(), Err(hakmem_pprof::Error::Off));
/// ```
pub fn flame_graph() -> Result<String, Error> {
    Dump::new().flame_graph()
}

/// How the profile is written.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::Hakmem;
/// use hakmem_pprof::{Bytes, Dump};
///
/// #[global_allocator]
/// static ALLOCATOR: Hakmem = Hakmem::new();
///
/// # fn main() -> Result<(), hakmem_pprof::Error> {
/// # if !hakmem_core::is_active() { return Ok(()); }
/// hakmem_pprof::start(4096)?;
/// drop(vec![1u8; 1 << 20]);
/// let small = Dump::new().symbols(false).pprof()?;
/// let all = Dump::new().bytes(Bytes::Allocated).folded()?;
/// # assert!(!small.is_empty() && !all.is_empty());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dump {
    symbols: bool,
    all_frames: bool,
    bytes: Bytes,
}

impl Default for Dump {
    fn default() -> Self {
        Self::new()
    }
}

impl Dump {
    /// With names, without the allocator's functions, of live bytes.
    ///
    /// ```
    /// assert_eq!(hakmem_pprof::Dump::new(), hakmem_pprof::Dump::default());
    /// ```
    pub const fn new() -> Self {
        Self {
            symbols: true,
            all_frames: false,
            bytes: Bytes::Live,
        }
    }

    /// Whether the file for pprof has names. Without them it has addresses, mappings and build ids
    /// alone, and is made faster: no debug information is read. pprof then looks for the names in
    /// the files of the mappings. Folded stacks and flame graphs always have names.
    ///
    /// ```
    /// assert_ne!(hakmem_pprof::Dump::new().symbols(false), hakmem_pprof::Dump::new());
    /// ```
    pub const fn symbols(mut self, are_in: bool) -> Self {
        self.symbols = are_in;
        self
    }

    /// Whether the functions of the allocator are shown, and those of the standard libraries around
    /// them.
    ///
    /// ```
    /// assert_ne!(hakmem_pprof::Dump::new().all_frames(true), hakmem_pprof::Dump::new());
    /// ```
    pub const fn all_frames(mut self, are_shown: bool) -> Self {
        self.all_frames = are_shown;
        self
    }

    /// Which bytes folded stacks and a flame graph are of. The file for pprof has both.
    ///
    /// ```
    /// use hakmem_pprof::{Bytes, Dump};
    ///
    /// assert_ne!(Dump::new().bytes(Bytes::Allocated), Dump::new());
    /// ```
    pub const fn bytes(mut self, which: Bytes) -> Self {
        self.bytes = which;
        self
    }

    /// The profile as pprof's `profile.proto`, gzipped. O(stacks), and the time to read debug
    /// information.
    ///
    /// # Errors
    /// - [`Error::NoPort`]: hakmem does not serve this target.
    /// - [`Error::Off`]: the profile was never on.
    /// - [`Error::NoMemory`]: there is no memory for the text that it is made of, or a fork has cut
    ///   it short. What is made of the text lies in Rust's collections: where there is no memory
    ///   for those, as at a hard limit of hakmem, the program ends.
    /// - [`Error::TooLarge`]: it has more stacks or names than are looked at.
    ///
    /// ```
    /// use hakmem_pprof::{Dump, Error};
    ///
    /// assert_eq!(Dump::new().symbols(false).pprof(), Err(Error::Off));
    /// ```
    pub fn pprof(&self) -> Result<Vec<u8>, Error> {
        Ok(encode::encode(&self.profile(self.symbols)?, self.symbols))
    }

    /// A line for each stack: its functions from the outermost on, between semicolons, a space, and
    /// the bytes. Tools that draw flame graphs read this. O(stacks), and the time to read debug
    /// information.
    ///
    /// # Errors
    /// Those of [`Dump::pprof`].
    ///
    /// ```
    /// assert_eq!(hakmem_pprof::Dump::new().folded(), Err(hakmem_pprof::Error::Off));
    /// ```
    pub fn folded(&self) -> Result<String, Error> {
        let mut text = self.lines(&self.profile(true)?)?.join("\n");
        text.push('\n');
        Ok(text)
    }

    /// A flame graph, an SVG that needs no other file. Without a stack to draw it says so.
    /// O(stacks), and the time to read debug information.
    ///
    /// # Errors
    /// Those of [`Dump::pprof`].
    ///
    /// ```
    /// assert_eq!(hakmem_pprof::Dump::new().flame_graph(), Err(hakmem_pprof::Error::Off));
    /// ```
    pub fn flame_graph(&self) -> Result<String, Error> {
        let profile = self.profile(true)?;
        let mut lines = self.lines(&profile)?;
        if lines.is_empty() {
            lines.push("no samples 1".into());
        }
        let drawn = flame::graph(&lines, &profile, self.bytes, None);
        drawn.map_err(Error::TooLarge)
    }

    fn lines(&self, profile: &Profile) -> Result<Vec<String>, Error> {
        flame::folded(profile, self.bytes).map_err(Error::TooLarge)
    }

    fn profile(&self, symbols: bool) -> Result<Profile, Error> {
        if !hakmem_core::is_active() {
            return Err(Error::NoPort);
        }
        if interval().is_none() {
            return Err(Error::Off);
        }
        let read = dump(Event::Call, |text| raw::last(text, None));
        let raw = read.ok_or(Error::NoMemory)?.map_err(Error::TooLarge)?;
        let raw = raw.ok_or(Error::Off)?;
        let look: module::Look = match symbols {
            true => &module::of_own,
            false => &module::build_id_of_own,
        };
        // Without names nothing can be told to be the allocator's: pprof leaves that out itself.
        let mut profile =
            Profile::of(&raw, self.all_frames || !symbols, look).map_err(Error::TooLarge)?;
        profile.hides_none = self.all_frames;
        Ok(profile)
    }
}
