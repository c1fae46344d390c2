//! A small HTTP server that serves the statistics of its own allocator.
//!
//! Each request gets a thread. `PUT /notes` keeps the request's body, `GET /notes` counts what is
//! kept. `GET /stats` has the few figures that a dashboard needs; `GET /report` has all of them,
//! as JSON. Run it, and ask it from another terminal:
//!
//! ```sh
//! cargo run --release -p hakmem-examples --example server 127.0.0.1:8080
//! curl -T README.md http://127.0.0.1:8080/notes
//! curl http://127.0.0.1:8080/stats
//! ```
//!
//! The server prints `listening on 127.0.0.1:8080`. The answer to the last request is like this:
//!
//! ```text
//! allocations 1178
//! live_bytes 48984
//! resident_bytes 65536
//! ```

use hakmem::report::{self, Format};
use hakmem::{Hakmem, stats};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::thread;

#[global_allocator]
static ALLOCATOR: Hakmem = Hakmem::new();

static NOTES: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// A larger body is refused before anything is allocated for it.
const MOST_BYTES: usize = 1 << 20;

struct Request {
    line: String,
    body: Vec<u8>,
}

/// Reads the first line, the headers and the body. None: the body is too large.
fn read(from: &mut impl BufRead) -> io::Result<Option<Request>> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    let mut length = 0;
    loop {
        let mut header = String::new();
        from.read_line(&mut header)?;
        let Some((name, value)) = header.split_once(':') else {
            break;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap_or(usize::MAX);
        }
    }
    if length > MOST_BYTES {
        return Ok(None);
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    Ok(Some(Request { line, body }))
}

/// The three figures that say most of a server's memory.
fn figures() -> String {
    let now = stats::process();
    format!(
        "allocations {}\nlive_bytes {}\nresident_bytes {}\n",
        now.allocations,
        now.live_bytes,
        stats::resident_bytes()
    )
}

/// The status and the text of an answer.
fn answer(request: Request) -> (&'static str, String) {
    let mut words = request.line.split(' ');
    let text = match (words.next(), words.next()) {
        (Some("PUT"), Some("/notes")) => {
            let mut notes = NOTES.lock().expect("no thread panicked");
            notes.push(request.body);
            format!("{}\n", notes.len())
        }
        (Some("GET"), Some("/notes")) => {
            format!("{}\n", NOTES.lock().expect("no thread panicked").len())
        }
        (Some("GET"), Some("/stats")) => figures(),
        (Some("GET"), Some("/report")) => {
            let mut text = String::new();
            match report::write(&mut text, Format::Json) {
                Ok(()) => text,
                Err(why) => return ("500 Internal Server Error", format!("{why}\n")),
            }
        }
        _ => return ("404 Not Found", "no such page\n".to_owned()),
    };
    ("200 OK", text)
}

fn serve(stream: &TcpStream) -> io::Result<()> {
    let (status, text) = match read(&mut BufReader::new(stream))? {
        Some(request) => answer(request),
        None => ("413 Content Too Large", "too large\n".to_owned()),
    };
    let mut out = stream;
    write!(
        out,
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
        text.len()
    )
}

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:8080"))?;
    println!("listening on {}", listener.local_addr()?);
    for stream in listener.incoming() {
        let stream = stream?;
        thread::spawn(move || {
            if let Err(why) = serve(&stream) {
                eprintln!("a request failed: {why}");
            }
        });
    }
    Ok(())
}
