//! A program that makes its own profile, against what it knows to be live. A profile is of a whole
//! process, so the parts come one after the other, in an order that they need.

mod decoded;

use decoded::Pprof;
use hakmem_core::Hakmem;
use hakmem_pprof::{Bytes, Dump, Error};
use std::collections::BTreeSet;
use std::hint::black_box;
use std::thread;

#[global_allocator]
static ALLOCATOR: Hakmem = Hakmem::new();

const INTERVAL: u64 = 4096;
const BLOCKS: usize = 40_000;
/// Blocks of a class, without a rest.
const BYTES: usize = 1024;
/// What [`keeps`] keeps, the table of its blocks with it: 480,000 bytes in slots of 64 KiB.
const KEPT: f64 = (BLOCKS * BYTES + 8 * (64 << 10)) as f64;

#[inline(never)]
#[allow(clippy::vec_box, reason = "the boxes are the subject")]
fn keeps() -> Vec<Box<[u8; BYTES]>> {
    let mut all = Vec::with_capacity(BLOCKS * 3 / 2);
    all.extend((0..BLOCKS).map(|_| black_box(Box::new([1; BYTES]))));
    black_box(all)
}

#[inline(never)]
fn drops() {
    for _ in 0..BLOCKS {
        black_box(vec![1u8; BYTES]);
    }
}

/// The sums of the four values, of the stacks with a function of this name.
fn sums(p: &Pprof, function: &str) -> [f64; 4] {
    let mut sums = [0.0; 4];
    for (stack, values) in &p.samples {
        let functions = stack.iter().flat_map(|id| &p.locations[id]);
        let mut names = functions.map(|(id, _)| p.strings[p.functions[id]].as_str());
        if function.is_empty() || names.any(|name| name.ends_with(function)) {
            (0..4).for_each(|i| sums[i] += values[i] as f64);
        }
    }
    sums
}

/// Within five standard errors of samples of such blocks, each of which is at most an interval.
#[track_caller]
fn about(got: f64, want: f64) {
    let error = 5.0 * (want * INTERVAL as f64).sqrt();
    assert!((got - want).abs() < error, "{got} for {want} ± {error}");
}

fn before_it_is_on() {
    assert_eq!(hakmem_pprof::dump_pprof(), Err(Error::Off));
    assert_eq!(hakmem_pprof::folded(), Err(Error::Off));
    assert_eq!(hakmem_pprof::flame_graph(), Err(Error::Off));
    assert_eq!(hakmem_pprof::start(0), Err(Error::Interval(0)));
    assert!(!hakmem_pprof::is_on() && hakmem_pprof::interval().is_none());
}

fn with_names(p: &Pprof) {
    let name = |i: usize| p.strings[i].as_str();
    let types: Vec<_> = p.types.iter().map(|t| (name(t.0), name(t.1))).collect();
    let bytes_and_blocks = [
        ("alloc_objects", "count"),
        ("alloc_space", "bytes"),
        ("inuse_objects", "count"),
        ("inuse_space", "bytes"),
    ];
    assert_eq!(types, bytes_and_blocks);
    assert_eq!(name(p.default_type), "inuse_space");
    let [_, all_bytes, _, live_bytes] = sums(p, "own::keeps");
    about(live_bytes, KEPT);
    about(all_bytes, KEPT);
    let [blocks, all_bytes, live, live_bytes] = sums(p, "own::drops");
    about(all_bytes, (BLOCKS * BYTES) as f64);
    about(blocks * BYTES as f64, (BLOCKS * BYTES) as f64);
    assert_eq!((live, live_bytes), (0.0, 0.0));
    let program = std::env::current_exe().unwrap();
    let own = p
        .mappings
        .iter()
        .find(|map| name(map.0) == program.to_str().unwrap())
        .expect("the program is mapped");
    assert!(name(own.1).len() >= 16 && own.2, "a build id, and names");
    let names: BTreeSet<_> = p.functions.values().map(|&i| name(i)).collect();
    assert!(
        !names.iter().any(|name| name.contains("hakmem_core")),
        "{names:?}"
    );
}

fn without_names(full: &Pprof) {
    let p = decoded::decode(&Dump::new().symbols(false).pprof().unwrap());
    assert!(p.functions.is_empty() && p.mappings.iter().all(|map| !map.2));
    let build_ids = |p: &Pprof| {
        let ids = p.mappings.iter().map(|map| p.strings[map.1].clone());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(build_ids(&p), build_ids(full));
    assert!(p.locations.values().all(Vec::is_empty));
    assert!(p.strings[p.drop_frames].contains("malloc"));
    assert!(p.strings[p.keep_frames].contains("scope"));
    about(sums(&p, "")[3], sums(full, "")[3]);
    let all = decoded::decode(&Dump::new().all_frames(true).pprof().unwrap());
    let mut names = all.functions.values().map(|&i| &all.strings[i]);
    assert!(names.any(|name| name.contains("hakmem_core")));
    // Those of the program are not inlined without optimisation.
    let mut locations = all.locations.values();
    assert!(locations.any(|lines| lines.len() > 1), "inlined functions");
}

fn drawn() {
    let live = hakmem_pprof::folded().unwrap();
    let line = |text: &str, function: &str| text.lines().any(|line| line.contains(function));
    assert!(line(&live, "own::keeps") && !line(&live, "own::drops"));
    let all = Dump::new().bytes(Bytes::Allocated).folded().unwrap();
    assert!(line(&all, "own::keeps") && line(&all, "own::drops"));
    let svg = hakmem_pprof::flame_graph().unwrap();
    let options = roxmltree::ParsingOptions {
        allow_dtd: true,
        ..Default::default()
    };
    let picture = roxmltree::Document::parse_with_options(&svg, options).unwrap();
    assert_eq!(picture.root_element().tag_name().name(), "svg");
    let mut titles = picture.descendants().filter(|n| n.has_tag_name("title"));
    assert!(titles.any(|title| title.text().is_some_and(|t| t.contains("own::keeps"))));
}

/// What is sampled at one interval, then at another, then not at all, adds up.
fn another_interval() {
    let all = || {
        sums(
            &decoded::decode(&hakmem_pprof::dump_pprof().unwrap()),
            "own::drops",
        )[1]
    };
    let before = all();
    hakmem_pprof::start(INTERVAL / 4).unwrap();
    assert_eq!(hakmem_pprof::interval(), Some(INTERVAL / 4));
    drops();
    let finer = all();
    about(finer - before, (BLOCKS * BYTES) as f64);
    hakmem_pprof::stop();
    assert!(!hakmem_pprof::is_on());
    drops();
    assert_eq!(all(), finer, "nothing is sampled");
    hakmem_pprof::start(INTERVAL).unwrap();
    drops();
    about(all() - finer, (BLOCKS * BYTES) as f64);
}

/// Several threads read it while others allocate.
fn while_threads_allocate() {
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(drops);
        }
        for _ in 0..2 {
            scope.spawn(|| assert!(!hakmem_pprof::dump_pprof().unwrap().is_empty()));
        }
    });
}

fn main() {
    before_it_is_on();
    hakmem_pprof::start(INTERVAL).unwrap();
    assert!(hakmem_pprof::is_on() && hakmem_pprof::interval() == Some(INTERVAL));
    let kept = keeps();
    drops();
    let full = decoded::decode(&hakmem_pprof::dump_pprof().unwrap());
    with_names(&full);
    without_names(&full);
    drawn();
    another_interval();
    while_threads_allocate();
    drop(kept);
    let [.., live_bytes] = sums(
        &decoded::decode(&hakmem_pprof::dump_pprof().unwrap()),
        "own::keeps",
    );
    assert_eq!(live_bytes, 0.0, "each free of a sample is seen");
}
