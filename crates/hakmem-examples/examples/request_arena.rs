//! A request arena: an HTTP server whose requests each have a heap for what they need, and give all
//! of it back at once when they are answered. It needs the feature `allocator-api2`.
//!
//! `POST /words` counts the words of the request's body that occur once. A request that needs more
//! than 4 MiB for that is refused, and the server goes on. `GET /arenas` has a line for each arena.
//! Run it, and ask it from another terminal:
//!
//! ```sh
//! cargo run --release -p hakmem-examples --features allocator-api2 --example request_arena \
//!     127.0.0.1:8080
//! curl --data-binary @README.md http://127.0.0.1:8080/words
//! curl http://127.0.0.1:8080/arenas
//! ```
//!
//! The server prints `listening on 127.0.0.1:8080`. The last answer is like this:
//!
//! ```text
//! request: 11 blocks came back, 0 bytes are live, at most 98304 were
//! ```

use allocator_api2::vec::Vec;
use axum::Router;
use axum::http::StatusCode;
use axum::routing::{get, post};
use hakmem::{Hakmem, Heap};
use std::fmt::Write;
use std::io;
use std::sync::Mutex;

#[global_allocator]
static ALLOCATOR: Hakmem = Hakmem::new();

/// Bytes that a request may have at a time, besides its body.
const MOST_BYTES: usize = 4 << 20;

/// The arenas that no request has.
static ARENAS: Mutex<std::vec::Vec<Heap>> = Mutex::new(std::vec::Vec::new());

/// Runs `answer` with an arena. What it allocates there ends with it.
fn with_arena<T>(answer: impl FnOnce(&Heap) -> T) -> T {
    let spare = ARENAS.lock().expect("no thread panicked").pop();
    let new = || Heap::builder().name("request").limit(MOST_BYTES).build();
    let mut arena = spare.unwrap_or_else(new);
    let answer = answer(&arena);
    arena.reset();
    ARENAS.lock().expect("no thread panicked").push(arena);
    answer
}

/// Counts the words of a text that occur once. None: the arena has no room for them.
fn count(arena: &Heap, text: &str) -> Option<usize> {
    let mut words = Vec::new_in(arena);
    for word in text.split_ascii_whitespace() {
        words.try_reserve(1).ok()?;
        words.push(word);
    }
    words.sort_unstable();
    let groups = words.chunk_by(|a, b| a == b);
    Some(groups.filter(|group| group.len() == 1).count())
}

async fn words(text: String) -> Result<String, StatusCode> {
    let once = with_arena(|arena| count(arena, &text));
    once.map(|once| format!("{once}\n"))
        .ok_or(StatusCode::PAYLOAD_TOO_LARGE)
}

async fn arenas() -> String {
    let mut text = String::new();
    for arena in ARENAS.lock().expect("no thread panicked").iter() {
        let figures = arena.stats();
        writeln!(
            text,
            "{}: {} blocks came back, {} bytes are live, at most {} were",
            figures.name(),
            figures.frees,
            figures.live_bytes,
            figures.peak_live_bytes
        )
        .expect("memory");
    }
    text
}

async fn serve(address: String) -> io::Result<()> {
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    let pages = Router::new().route("/words", post(words));
    axum::serve(listener, pages.route("/arenas", get(arenas))).await
}

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_io().build()?;
    runtime.block_on(serve(address.unwrap_or_else(|| "127.0.0.1:8080".into())))
}
