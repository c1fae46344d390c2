//! Uses all that a program sees of hakmem, on every target: with a port, figures count; without
//! one, the program is served all the same. `ci/targets` runs it on other systems.

use hakmem::heaps::AllocError;
use hakmem::options::{self, Error, Options, TABLE};
use hakmem::profile::{self, Busy, Event};
use hakmem::report::{self, Format};
use hakmem::stats::{self, Snapshot};
use hakmem::{Configured, Hakmem, Heap};
use std::alloc::Layout;
use std::collections::HashMap;

#[global_allocator]
static ALLOCATOR: Configured = Hakmem::with(Options {
    decay_ms: 1000,
    ..Options::DEFAULT
});

#[repr(align(4096))]
struct Aligned([u8; 100]);

/// Grows, shrinks, copies and frees.
fn work() {
    let mut numbers = Vec::new();
    for i in 0..100_000u64 {
        numbers.push(i);
    }
    assert_eq!(numbers.iter().sum::<u64>(), 4_999_950_000);
    numbers.truncate(10);
    numbers.shrink_to_fit();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);

    let map: HashMap<String, Vec<usize>> = (0..2000)
        .map(|i| (i.to_string(), vec![i; i % 50]))
        .collect();
    for (key, values) in &map {
        assert!(values.iter().all(|value| value.to_string() == *key));
    }

    let aligned: Vec<Box<Aligned>> = (0..50).map(|i| Box::new(Aligned([i; 100]))).collect();
    for (i, block) in aligned.iter().enumerate() {
        assert_eq!(std::ptr::from_ref(&**block).addr() % 4096, 0);
        assert!(block.0.iter().all(|&byte| usize::from(byte) == i));
    }
    // Grows in place or moves, and stays aligned.
    let mut list: Vec<Aligned> = Vec::new();
    for i in 0..50 {
        list.push(Aligned([i; 100]));
        assert_eq!(list.as_ptr().addr() % 4096, 0);
    }
    assert!(
        list.iter()
            .enumerate()
            .all(|(i, block)| block.0[99] == i as u8)
    );

    assert!(vec![0u8; 5 << 20].iter().all(|&byte| byte == 0));
}

/// The unwinder takes the block of a panic as aligned to 16, also where Rust asks for 8.
fn panics_are_caught() {
    if cfg!(panic = "abort") {
        return;
    }
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    // Blocks of the same size stay, so that each panic has another one.
    let mut others = Vec::new();
    for i in 0..20 {
        others.push(Box::new([i; 7]));
        let caught = std::panic::catch_unwind(|| std::panic::panic_any(i)).unwrap_err();
        assert_eq!(caught.downcast_ref(), Some(&i));
    }
    std::panic::set_hook(hook);
    assert!((0u64..).zip(&others).all(|(i, block)| **block == [i; 7]));
}

fn options_are_read_and_set() {
    let now = |name| options::get(name).unwrap().to_string();
    assert_eq!(now("DECAY_MS"), "1000");
    options::set("DECAY_MS", "2s").unwrap();
    assert_eq!(now("HAKMEM_DECAY_MS"), "2000");
    options::suggest("SURPLUS_MIB", 64).unwrap();
    options::set("CARVE_BYTES", "4096,64:8192").unwrap();
    assert_eq!(now("CARVE_BYTES"), "4096,64:8192");
    options::set("TIMING", "1").unwrap();
    assert_eq!(now("TIMING"), "1");
    assert!(matches!(
        options::set("DECAY_MS", "soon"),
        Err(Error::Value(_))
    ));
    assert!(matches!(options::set("NOTHING", "1"), Err(Error::Unknown)));
    assert!(matches!(options::set("STATS", "1"), Err(Error::AtStart)));
    assert!(TABLE.iter().all(|entry| !entry.meaning().is_empty()));
}

fn figures_count_where_hakmem_serves() {
    let active = hakmem::is_active();
    let blocks: Vec<Box<[u8; 1000]>> = (0..1000).map(|_| Box::new([1; 1000])).collect();
    let snapshot = Snapshot::take();
    let process = snapshot.process();
    assert_eq!(process.live_bytes >= 1_000_000, active);
    assert_eq!(process.allocations > 0, active);
    let class = snapshot.classes().find(|class| class.size >= 1000).unwrap();
    assert_eq!(class.allocations >= 1000, active);
    assert_eq!(class.list_hits() > 0, active);
    assert_eq!(snapshot.classes().count(), stats::CLASSES);
    assert_eq!(snapshot.heaps().count() > 0, active);
    assert_eq!(snapshot.heap_walk().page_slots > 0, active);
    assert_eq!(snapshot.foreign_sites().count(), 0);
    assert_eq!(
        (
            stats::decisions().count(),
            stats::decided(),
            stats::is_learning()
        ),
        (0, 0, false)
    );
    let mut slots = 0;
    stats::each_segment(&mut |segment| slots += segment.slots().map(|slot| slot.span).sum::<u32>());
    assert_eq!(slots > 0, active);
    assert!(stats::resident_bytes() == 0 || active);
    let gauges = stats::gauges();
    assert_eq!(gauges.allocated > 0, active);
    assert!(gauges.allocated <= gauges.active && gauges.active <= gauges.mapped);
    drop(blocks);
    hakmem::thread_idle();
    assert!(hakmem::purge_all() == 0 || active);
    extern "C" fn give_up(_: usize) -> bool {
        false
    }
    // SAFETY: the function touches nothing.
    unsafe {
        hakmem::set_limit_callback(Some(give_up as hakmem::LimitCallback));
        hakmem::set_limit_callback(None);
    }
}

fn profiles_and_reports_are_made() {
    let active = hakmem::is_active();
    assert_eq!(profile::start(profile::DEFAULT_INTERVAL), active);
    assert_eq!(profile::is_on(), active);
    assert_eq!(profile::interval() > 0, active);
    // No more: node 20 crashes at the end of some programs for WASI with a larger memory.
    drop(vec![1u8; 4 << 20]);
    fn write() -> Result<(), Busy> {
        profile::dump_at_once(Event::Signal, |_| ())?;
        Ok(())
    }
    // SAFETY: the function touches nothing of the program.
    unsafe { profile::dump_soon(write) };
    assert_eq!(
        profile::dump(Event::Call, |text| text.len()).is_some(),
        active
    );
    profile::stop();

    let text = |format| {
        let mut text = String::new();
        report::write(&mut text, format).unwrap();
        assert!(text.ends_with('\n'));
        text
    };
    assert!(text(Format::Human).starts_with("hakmem"));
    assert!(text(Format::Json).starts_with(r#"{"schema":2,"event":"call""#));
    assert!(text(Format::Csv).starts_with("pid,event,list,item,name,value\n"));
    assert_eq!(text(Format::Csv).lines().count() > 1, active);
    let mut map = String::new();
    report::write_map(&mut map).unwrap();
    assert!(map.starts_with(r#"{"schema":1,"kind":"map""#));
    // A browser has no files.
    if cfg!(not(all(target_family = "wasm", target_os = "unknown"))) {
        report::write_to(2, Format::Human).unwrap();
    }
    assert_eq!(
        report::write_to(-1, Format::Json),
        Err(report::Error::NotWritten)
    );
}

fn heaps_are_made() {
    let active = hakmem::is_active();
    let mut heap = Heap::builder().name("some").limit(1 << 20).build();
    let layout = Layout::new::<[u8; 1000]>();
    let block = heap.allocate_zeroed(layout).unwrap();
    // SAFETY: the heap has just returned the block for this layout.
    unsafe {
        let block = heap.reallocate(block.cast(), layout, Layout::new::<[u8; 2000]>());
        heap.deallocate(block.unwrap().cast(), Layout::new::<[u8; 2000]>());
    }
    assert_eq!(
        heap.allocate(Layout::new::<[u8; 2 << 20]>()),
        Err(AllocError)
    );
    assert_eq!((heap.stats().blocks(), heap.stats().refused), (0, 1));
    heap.set_limit(None);
    heap.reserve(1 << 20).unwrap();
    let words: Vec<String> = heap.scope(|| (0..10).map(|i| i.to_string()).collect());
    assert_eq!(heap.stats().blocks() > 0, active);
    let named = Snapshot::take()
        .program_heaps()
        .any(|heap| heap.name() == "some");
    assert_eq!(named, active);
    drop(words);
    heap.reset();
    drop((Heap::new(), Heap::named("other"), heap));
}

fn main() {
    work();
    if cfg!(not(target_family = "wasm")) {
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(work)).collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    }
    panics_are_caught();
    options_are_read_and_set();
    figures_count_where_hakmem_serves();
    profiles_and_reports_are_made();
    heaps_are_made();
    println!(
        "anywhere: {} serves",
        if hakmem::is_active() {
            "hakmem"
        } else {
            "the system's allocator"
        }
    );
}
