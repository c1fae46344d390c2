//! A service that takes its own heap profile: `service FILE`. It serves requests of its own, on
//! threads of a runtime, keeps what they bring, and ends.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::Request;
use axum::routing::{get, put};
use axum::{Json, Router};
use hakmem::{Hakmem, profile};
use serde_json::Value;
use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, Mutex};
use tower::ServiceExt;

#[global_allocator]
static ALLOCATOR: Hakmem = Hakmem::new();

#[derive(Clone, Default)]
#[allow(clippy::vec_box, reason = "the boxes are the subject")]
struct Shelf {
    texts: Arc<Mutex<HashMap<u32, String>>>,
    numbers: Arc<Mutex<Vec<Box<[u64; 8]>>>>,
}

#[inline(never)]
async fn put_text(
    State(shelf): State<Shelf>,
    Path(key): Path<u32>,
    Json(value): Json<Value>,
) -> Json<usize> {
    let text = value["text"].as_str().unwrap_or_default().repeat(40);
    let numbers = (0..64).map(|n| Box::new([n; 8]));
    shelf.numbers.lock().expect("numbers").extend(numbers);
    let mut texts = shelf.texts.lock().expect("texts");
    texts.insert(key, text);
    Json(texts.len())
}

#[inline(never)]
async fn get_text(State(shelf): State<Shelf>, Path(key): Path<u32>) -> String {
    shelf
        .texts
        .lock()
        .expect("texts")
        .get(&key)
        .cloned()
        .unwrap_or_default()
}

async fn ask(service: Router, key: u32) {
    let request = |method: &str, body| {
        let request = Request::builder()
            .method(method)
            .uri(format!("/text/{key}"));
        let request = request
            .header("content-type", "application/json")
            .body(body);
        request.expect("a request")
    };
    let body = Body::from(r#"{"text": "something to keep for a while"}"#);
    for request in [request("PUT", body), request("GET", Body::empty())] {
        let answer = service.clone().oneshot(request).await.expect("an answer");
        assert!(answer.status().is_success(), "{}", answer.status());
    }
}

fn main() {
    let file = std::env::args_os().nth(1).expect("usage: service FILE");
    assert!(profile::start(4096));
    let shelf = Shelf::default();
    let service = Router::new()
        .route("/text/{key}", put(put_text))
        .route("/text/{key}", get(get_text))
        .with_state(shelf.clone());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(async {
        let asked: Vec<_> = (0..4000)
            .map(|key| tokio::spawn(ask(service.clone(), key)))
            .collect();
        for one in asked {
            one.await.expect("it was asked");
        }
    });
    let mut out = std::fs::File::create(file).expect("FILE can be made");
    let written = profile::dump(profile::Event::Call, |text| out.write_all(text));
    written.expect("a profile").expect("FILE can be written");
    println!("{}", shelf.texts.lock().expect("texts").len());
}
