//! A service that serves its own heap profile, for `go tool pprof` and for a browser.
//!
//! `PUT /notes` keeps the request's body. `/debug/pprof/heap` is the profile: what is live, and all
//! that was allocated, by the code that allocated it. Run it, load it, and look at it:
//!
//! ```sh
//! cargo run --release -p hakmem-examples --example pprof_server 127.0.0.1:8080
//! curl -T README.md http://127.0.0.1:8080/notes
//! go tool pprof -top http://127.0.0.1:8080/debug/pprof/heap
//! curl http://127.0.0.1:8080/debug/heap.svg > heap.svg      # a flame graph
//! curl http://127.0.0.1:8080/debug/heap.folded              # the same as text
//! curl -X PUT http://127.0.0.1:8080/debug/interval/65536    # on, with one sample in 64 KiB
//! curl -X DELETE http://127.0.0.1:8080/debug/interval       # off
//! ```
//!
//! The server prints `listening on 127.0.0.1:8080`. The profile is on from the start, at the
//! default interval. A real service serves these pages to its operators alone.

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path};
use axum::http::{StatusCode, header::CONTENT_TYPE};
use axum::routing::{delete, get, put};
use hakmem::Hakmem;
use hakmem_pprof::{DEFAULT_INTERVAL, Error, dump_pprof, flame_graph, folded};
use std::io;
use std::sync::Mutex;
use tokio::task::spawn_blocking;

#[global_allocator]
static ALLOCATOR: Hakmem = Hakmem::new();

static NOTES: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

type Failure = (StatusCode, String);

fn failed(why: impl ToString) -> Failure {
    (
        StatusCode::SERVICE_UNAVAILABLE,
        format!("{}\n", why.to_string()),
    )
}

/// Makes a page on a thread that may block: names are read from debug information.
async fn page<T: Send + 'static>(make: fn() -> Result<T, Error>) -> Result<T, Failure> {
    spawn_blocking(make).await.map_err(failed)?.map_err(failed)
}

fn debug() -> Router {
    let svg =
        async || Ok::<_, Failure>(([(CONTENT_TYPE, "image/svg+xml")], page(flame_graph).await?));
    let start = async |Path(interval)| hakmem_pprof::start(interval).map_err(failed);
    Router::new()
        .route("/debug/pprof/heap", get(|| page(dump_pprof)))
        .route("/debug/heap.folded", get(|| page(folded)))
        .route("/debug/heap.svg", get(svg))
        .route("/debug/interval/{bytes}", put(start))
        .route("/debug/interval", delete(async || hakmem_pprof::stop()))
}

#[inline(never)]
fn keep(body: &[u8]) -> usize {
    let mut notes = NOTES.lock().expect("no thread panicked");
    notes.push(body.to_vec());
    notes.len()
}

async fn put_note(body: Bytes) -> String {
    format!("{}\n", keep(&body))
}

async fn serve(address: String) -> io::Result<()> {
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    let notes = Router::new().route("/notes", put(put_note));
    let service = notes.merge(debug()).layer(DefaultBodyLimit::max(1 << 20));
    axum::serve(listener, service).await
}

fn main() -> io::Result<()> {
    hakmem_pprof::start(DEFAULT_INTERVAL).map_err(io::Error::other)?;
    let address = std::env::args().nth(1);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_io().build()?;
    runtime.block_on(serve(address.unwrap_or_else(|| "127.0.0.1:8080".into())))
}
