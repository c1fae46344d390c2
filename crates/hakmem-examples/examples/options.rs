//! Options that a program sets in its own code.
//!
//! A program can set options in three places. The struct in the source holds from the start on.
//! The environment overrules it, so whoever runs the program can change what its author chose.
//! `options::set` changes an option while the program runs. Run it twice:
//!
//! ```sh
//! cargo run --release -p hakmem-examples --example options
//! HAKMEM_DECAY_MS=2s cargo run --release -p hakmem-examples --example options
//! ```
//!
//! The first run prints this. In the second run, the second line has 2000:
//!
//! ```text
//! default: free memory stays for 500 ms
//! at the start: free memory stays for 100 ms
//! now: free memory stays for 0 ms
//! HUGE_CACHE_MIB=-1: not a whole number from 0 to 1048576, in MiB
//! ```

use hakmem::options::{self, Options};
use hakmem::{Configured, Hakmem};

/// A value that is out of its range does not compile here.
#[global_allocator]
static ALLOCATOR: Configured = Hakmem::with(Options {
    // This program's memory is to be given back soon.
    decay_ms: 100,
    // It keeps no freed blocks over 1 MiB.
    huge_cache_mib: 0,
    huge_cache_percent: 0,
    ..Options::DEFAULT
});

fn say(when: &str) {
    let decay = options::get("DECAY_MS").expect("an option of that name");
    println!("{when}: free memory stays for {decay} ms");
}

fn main() -> Result<(), options::Error> {
    println!(
        "default: free memory stays for {} ms",
        Options::DEFAULT.decay_ms
    );
    say("at the start");

    // The names are those of the environment, with or without `HAKMEM_` before them.
    options::set("DECAY_MS", "0")?;
    say("now");

    // An error says what the option takes, and the old value stays.
    if let Err(why) = options::set("HUGE_CACHE_MIB", "-1") {
        println!("HUGE_CACHE_MIB=-1: {why}");
    }
    Ok(())
}
