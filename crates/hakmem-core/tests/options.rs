//! Options: what each takes, where from, and what becomes of mistakes. Settings are the process's,
//! so each test that changes some runs in a process of its own.
#![cfg(not(any(loom, shuttle, miri)))]

use crate::oracle;

use hakmem_core::options::{self, Entry, Error, TABLE, Values};
use hakmem_core::{Configured, Hakmem, options::Options};
use oracle::{apart, share};
use std::alloc::{GlobalAlloc, Layout};
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;
use std::{env, thread};

fn now(name: &str) -> String {
    options::get(name).unwrap().to_string()
}

fn settable() -> impl Iterator<Item = &'static Entry> {
    TABLE
        .iter()
        .filter(|entry| !matches!(entry.values(), Values::Text(_)))
        // In the hardened build this one is read at the start alone.
        .filter(|entry| !(cfg!(feature = "hardened") && entry.name() == "HARDENED"))
}

/// Values that an option takes, those at the ends of its range among them, and values that it does
/// not.
fn samples(entry: &Entry) -> (Vec<String>, Vec<String>) {
    let (mut good, mut bad) = match entry.values() {
        Values::Number(from, to) => {
            let middle = from + (to - from) / 2;
            let good = [from, middle, to].map(|n| n.to_string()).to_vec();
            let bad = [i64::from(from) - 1, i64::from(to) + 1]
                .map(|n| n.to_string())
                .to_vec();
            (good, bad)
        }
        Values::Switch => (vec!["0".into(), "1".into()], vec!["2".into(), "on".into()]),
        Values::Word(words) => (
            words.iter().map(|w| w.to_string()).collect(),
            vec![words[0].to_uppercase(), "0".into()],
        ),
        Values::Text(_) => unreachable!(),
    };
    bad.extend(
        [
            "",
            " ",
            "x",
            "1 ",
            "1.5",
            "0x10",
            "99999999999999999999",
            "1,",
            ",",
            ":",
        ]
        .map(String::from),
    );
    if entry.is_by_class() {
        let Values::Number(from, to) = entry.values() else {
            unreachable!()
        };
        good.push(format!("{from},64:{to}"));
        bad.extend([
            format!("64:{}", u64::from(to) + 1),
            format!("{to},64:"),
            format!("0:{to}"),
            format!("65537:{to}"),
        ]);
        bad.extend([
            format!("x:{to}"),
            format!("64:64:{to}"),
            format!("64:{to},"),
        ]);
    } else {
        bad.push("1,64:1".into());
    }
    (good, bad)
}

#[test]
fn every_option_takes_what_its_table_says_and_nothing_else() {
    if apart(
        "every_option_takes_what_its_table_says_and_nothing_else",
        &[],
    )
    .is_some()
    {
        return;
    }
    for entry in settable() {
        let (good, bad) = samples(entry);
        for value in good {
            options::set(entry.name(), &value)
                .unwrap_or_else(|e| panic!("{}={value}: {e}", entry.name()));
            assert_eq!(now(entry.name()), value, "{}", entry.name());
            // The C library asks for this one.
            let interval = hakmem_core::c::profile_interval().to_string();
            assert_eq!(interval, now("PROFILE_INTERVAL"));
            for mistake in &bad {
                let why = options::set(entry.name(), mistake)
                    .expect_err(&format!("{}={mistake}", entry.name()));
                assert!(
                    matches!(why, Error::Value(e) if std::ptr::eq(e, entry)),
                    "{why:?}"
                );
                assert!(why.to_string().starts_with("n"), "{why}");
                assert_eq!(now(entry.name()), value, "a mistake changes nothing");
            }
        }
    }
}

#[test]
fn numbers_with_units() {
    if apart("numbers_with_units", &[]).is_some() {
        return;
    }
    for (name, value, taken) in [
        ("DECAY_MS", "2s", Some("2000")),
        ("DECAY_MS", "250ms", Some("250")),
        ("DECAY_MS", "1h", Some("3600000")),
        ("HUGE_CACHE_MIB", "1GiB", Some("1024")),
        ("BATCH_BYTES", "64KiB", Some("65536")),
        ("CARVE_BYTES", "4KiB,64:8KiB", Some("4096,64:8192")),
        ("DECAY_MS", "1KiB", None),
        ("DECAY_MS", "1 s", None),
        ("DECAY_MS", "s", None),
        ("DECAY_MS", "é", None),
        ("DECAY_MS", "99999999999h", None),
        ("HUGE_CACHE_MIB", "1KiB", None),
        ("UNFULL_FRACTION", "2s", None),
        ("BATCH_BYTES", "5000MiB", None),
    ] {
        let before = now(name);
        let set = options::set(name, value);
        assert_eq!(set.is_ok(), taken.is_some(), "{name}={value}");
        assert_eq!(now(name), taken.unwrap_or(&before), "{name}={value}");
    }
}

#[test]
fn a_word_beyond_the_last_is_none() {
    let words = Values::Word(&["a", "b"]);
    assert!(words.allow(1) && !words.allow(2));
}

#[test]
fn names() {
    assert!(matches!(options::set("NOTHING", "1"), Err(Error::Unknown)));
    assert!(matches!(options::set("decay_ms", "1"), Err(Error::Unknown)));
    assert!(matches!(options::set("", "1"), Err(Error::Unknown)));
    assert!(matches!(options::set("STATS", "1"), Err(Error::AtStart)));
    assert!(options::get("NOTHING").is_none() && options::get("STATS").is_none());
    assert_eq!(now("FOREIGN"), now("HAKMEM_FOREIGN"));
    let unit = |name: &str| TABLE.iter().find(|e| e.name() == name).unwrap().unit();
    assert_eq!(
        ["DECAY_MS", "SCAVENGER", "MODE"].map(unit),
        ["ms", "MiB", ""]
    );
    for what in hakmem_core::stats::What::ALL {
        let entry = TABLE.iter().find(|e| e.name() == what.name()).unwrap();
        let value = entry.default_value().unwrap().to_string().parse().unwrap();
        assert!(what.values().contains(&value), "{what:?}");
    }
    for entry in TABLE.iter() {
        assert_eq!(TABLE.iter().filter(|e| e.name() == entry.name()).count(), 1);
        assert!(
            entry.meaning().ends_with('.') && entry.meaning().len() > 20,
            "{}",
            entry.name()
        );
    }
}

#[test]
fn without_variables_every_option_has_its_default() {
    if apart("without_variables_every_option_has_its_default", &[]).is_some() {
        return;
    }
    for entry in settable() {
        assert_eq!(
            now(entry.name()),
            entry.default_value().unwrap().to_string(),
            "{}",
            entry.name()
        );
    }
}

/// By the environment, in a Rust program: the good ones are taken, the others named, once each.
#[test]
fn from_the_environment() {
    let name = "from_the_environment";
    let variables = [
        ("HAKMEM_DECAY_MS", "1234"),
        ("HAKMEM_MODE", "learn"),
        ("HAKMEM_CARVE_BYTES", "8192,64:512"),
        ("HAKMEM_STATS", "nonsense"),
        ("HAKMEM_BATCH_BYTES", "-1"),
        ("HAKMEM_FOREIGN", "FORWARD"),
        ("HAKMEM_UNFULL_FRACTION", "8,64:0"),
        ("HAKMEM_WHATEVER", "1"),
        ("HAKMEM_HAKMEM_SCAVENGER", "0"),
        ("HAKMEM_TIMING", "2"),
        ("HAKMEM_THP", ""),
        ("HAKMEM_CACHED_PAGES", ""),
    ];
    let Some(output) = apart(name, &variables) else {
        assert_eq!(
            (now("DECAY_MS"), now("MODE")),
            ("1234".into(), "learn".into())
        );
        assert_eq!(now("CARVE_BYTES"), "8192,64:512");
        assert_eq!(
            (now("FOREIGN"), now("TIMING")),
            ("forward".into(), "0".into())
        );
        return;
    };
    let text = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<_> = text
        .lines()
        .filter(|line| line.contains("hakmem:"))
        .collect();
    for expected in [
        "HAKMEM_BATCH_BYTES=-1 ignored: not a whole number from 0 to 1048576, in bytes",
        "HAKMEM_FOREIGN=FORWARD ignored: not one of forward, leak, abort",
        "HAKMEM_UNFULL_FRACTION=8,64:0 ignored: not numbers from 1 to 1024 as in 4096,64:8192",
        "unknown option HAKMEM_WHATEVER, ignored",
        "unknown option HAKMEM_HAKMEM_SCAVENGER, ignored",
        "HAKMEM_TIMING=2 ignored: neither 0 nor 1",
        "HAKMEM_STATS=nonsense ignored: it is 1, json or csv, and :FILE behind it for a file",
    ] {
        assert_eq!(
            lines.iter().filter(|line| line.contains(expected)).count(),
            1,
            "{expected}\n{text}"
        );
    }
    assert_eq!(lines.len(), 7, "{text}");
}

/// Whoever starts a program with rights that he does not have does not choose for it. Only root can
/// make one for the test.
#[test]
fn not_from_the_environment_of_others() {
    const INSIDE: &str = "TEST_HAKMEM_OPTIONS_OF_OTHERS";
    let name = "options::not_from_the_environment_of_others";
    // SAFETY: no preconditions.
    let (is_root, is_secure) = unsafe { (libc::getuid() == 0, libc::getauxval(libc::AT_SECURE)) };
    if env::var_os(INSIDE).is_some() {
        assert_eq!(is_secure == 0, now("DECAY_MS") == "1234");
        return;
    }
    let copy = env::temp_dir().join(format!("hakmem-options-{}", std::process::id()));
    std::fs::copy(env::current_exe().unwrap(), &copy).unwrap();
    if is_root {
        chown(&copy, Some(65534), None).unwrap();
        std::fs::set_permissions(&copy, Permissions::from_mode(0o4755)).unwrap();
    }
    let mut command = Command::new(&copy);
    command
        .args([name, "--exact", "--test-threads=1"])
        .envs([(INSIDE, "1"), ("HAKMEM_DECAY_MS", "1234")])
        .env("HAKMEM_STATS", "json");
    let output = command.output().unwrap();
    std::fs::remove_file(&copy).unwrap();
    assert!(output.status.success(), "{output:?}");
    let reports = String::from_utf8_lossy(&output.stderr).contains(r#""event":"exit""#);
    assert_eq!(reports, !is_root, "{output:?}");
}

/// A Rust program's own choice yields to the environment and to what was set by a call.
#[test]
fn from_a_struct() {
    static ALLOCATOR: Configured = Hakmem::with(Options {
        decay_ms: 77,
        carve_bytes: 64,
        cached_pages: 9,
        scavenger: 3,
        ..Options::DEFAULT
    });
    if apart("from_a_struct", &[("HAKMEM_CACHED_PAGES", "2")]).is_some() {
        return;
    }
    options::set("SCAVENGER", "5").unwrap();
    let layout = Layout::from_size_align(64, 8).unwrap();
    // SAFETY: the layout is not empty; the block is freed once, with its layout.
    unsafe {
        let p = ALLOCATOR.alloc(layout);
        let q = ALLOCATOR.realloc(p, layout, 100_000);
        ALLOCATOR.dealloc(q, Layout::from_size_align(100_000, 8).unwrap());
        let p = ALLOCATOR.alloc_zeroed(layout);
        assert_eq!(p.read(), 0);
        ALLOCATOR.dealloc(p, layout);
    }
    let is = |name, value: &str| assert_eq!(now(name), value, "{name}");
    is("DECAY_MS", "77");
    is("CARVE_BYTES", "64");
    is("CACHED_PAGES", "2");
    is("SCAVENGER", "5");
    is("SURPLUS_MIB", "16");
    options::set("DECAY_MS", "78").unwrap();
    // SAFETY: the layout has more than 0 bytes, and the block is freed with it.
    unsafe { ALLOCATOR.dealloc(ALLOCATOR.alloc(layout), layout) };
    is("DECAY_MS", "78");
}

/// Another allocator's options in hakmem's terms: they yield to the environment, and are somebody's
/// choice like others.
#[test]
fn suggestions() {
    static ALLOCATOR: Configured = Hakmem::with(Options {
        surplus_mib: 9,
        huge_cache_mib: 9,
        ..Options::DEFAULT
    });
    let variables = [("HAKMEM_SCAVENGER", "3"), ("HAKMEM_DECAY_MS", "4")];
    if apart("suggestions", &variables).is_some() {
        return;
    }
    let is = |name, value: &str| assert_eq!(now(name), value, "{name}");
    options::suggest("SCAVENGER", 5).unwrap();
    options::suggest("SURPLUS_MIB", 6).unwrap();
    options::suggest("CARVE_BYTES", 8192).unwrap();
    is("SCAVENGER", "3");
    is("SURPLUS_MIB", "6");
    is("CARVE_BYTES", "8192");
    options::suggest("SURPLUS_MIB", 7).unwrap();
    is("SURPLUS_MIB", "7");
    let mistake = options::suggest("SURPLUS_MIB", u32::MAX);
    assert!(matches!(mistake, Err(Error::Value(e)) if e.name() == "SURPLUS_MIB"));
    assert!(matches!(options::suggest("STATS", 1), Err(Error::Value(_))));
    assert!(matches!(options::suggest("x", 1), Err(Error::Unknown)));
    is("SURPLUS_MIB", "7");
    let layout = Layout::from_size_align(64, 8).unwrap();
    // SAFETY: the layout is not empty; the block is freed once, with its layout.
    unsafe { ALLOCATOR.dealloc(ALLOCATOR.alloc(layout), layout) };
    is("SURPLUS_MIB", "7");
    is("HUGE_CACHE_MIB", "9");
}

/// Blocks for another thread's heap go in batches of a page, or each by itself.
#[test]
fn batches_are_of_pages_if_they_shall() {
    if apart("batches_are_of_pages_if_they_shall", &[]).is_some() {
        return;
    }
    // Each call takes blocks of one page, and has them sent by a thread that ends.
    let sent = || {
        // SAFETY: any size may be asked for.
        let blocks = (0..50).map(|_| unsafe { hakmem_core::c::malloc(320) });
        let blocks: Vec<_> = blocks.map(|p| p.expose_provenance()).collect();
        let before = sums();
        let freeing = move || {
            for address in blocks {
                // SAFETY: each is freed once.
                unsafe { hakmem_core::c::free(std::ptr::with_exposed_provenance_mut(address)) }
            }
        };
        thread::spawn(freeing).join().unwrap();
        let now = sums();
        (now.0 - before.0, now.1 - before.1)
    };
    let (blocks, batches) = sent();
    assert!(blocks == 50 && batches <= 2, "{batches}");
    options::set("BATCH_BY_PAGE", "0").unwrap();
    assert_eq!(sent(), (50, 50));
}

/// Blocks and batches that were sent.
fn sums() -> (u64, u64) {
    let snapshot = hakmem_core::stats::Snapshot::take();
    let sum =
        |of: fn(&hakmem_core::stats::ThreadHeap) -> u64| snapshot.heaps().map(|h| of(&h)).sum();
    (sum(|h| h.blocks_sent), sum(|h| h.batches_sent))
}

/// Every switch off, and then any value at any time, while threads allocate and free for each
/// other.
#[test]
fn options_change_under_threads() {
    if apart("options_change_under_threads", &[]).is_some() {
        return;
    }
    let done = std::sync::atomic::AtomicBool::new(false);
    let (to, from) = std::sync::mpsc::channel::<(usize, Layout)>();
    thread::scope(|scope| {
        scope.spawn(|| {
            for (address, layout) in from {
                let p = std::ptr::with_exposed_provenance_mut::<u8>(address);
                // SAFETY: sent here by who allocated it, with its layout; written by that thread.
                unsafe {
                    assert_eq!(
                        (p.read(), p.add(layout.size() - 1).read()),
                        (layout.size() as u8, !layout.size() as u8)
                    );
                    Hakmem.dealloc(p, layout);
                }
            }
        });
        let worker = scope.spawn(|| {
            let to = to;
            let mut kept = std::collections::VecDeque::new();
            for i in 0..share(60_000) {
                let size = [24, 100, 700, 3000, 20_000, 200_000, 2 << 20][i % 97 % 7] - i % 11;
                let layout = Layout::from_size_align(size, 8).unwrap();
                // SAFETY: the layout is not empty, and the block holds what is written.
                let p = unsafe { Hakmem.alloc(layout) };
                assert!(!p.is_null());
                // SAFETY: the block is live and has `size` bytes, one or more.
                unsafe {
                    p.write(size as u8);
                    p.add(size - 1).write(!size as u8);
                }
                kept.push_back((p.expose_provenance(), layout));
                if kept.len() > 500 {
                    to.send(kept.pop_front().unwrap()).unwrap();
                }
            }
            kept.into_iter().for_each(|block| to.send(block).unwrap());
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        let mut turn = 0;
        while !done.load(std::sync::atomic::Ordering::Relaxed) && !worker.is_finished() {
            for entry in settable() {
                let (good, _) = samples(entry);
                options::set(entry.name(), &good[turn % good.len()]).unwrap();
                thread::yield_now();
            }
            turn += 1;
        }
        assert!(turn > 0);
    });
}
