//! `hakmem map` with the library of this workspace.

use crate::{common, pictures};

use common::*;
use roxmltree::Document;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

fn known() -> Ready {
    let mut command = Command::new(&*KNOWN);
    command.env("LD_PRELOAD", &*HAKMEM).stdin(Stdio::piped());
    Ready::new(command)
}

/// Pages with blocks of this size: their blocks, those carved, and those out.
fn of_size(map: &Value, size: u64) -> (u64, u64, u64) {
    let segments = map["segments"].as_array().unwrap();
    let slots = segments
        .iter()
        .filter_map(|s| s["slots"].as_array())
        .flatten();
    let pages = slots.filter(|slot| slot["use"] == "page" && slot["size"] == size);
    pages.fold((0, 0, 0), |(blocks, carved, out), page| {
        let of = |key: &str| page[key].as_u64().unwrap();
        (
            blocks + of("blocks"),
            carved + of("carved"),
            out + of("used"),
        )
    })
}

/// The picture's text and, of each part that has one, its title.
fn titles(svg: &str) -> Vec<String> {
    let document = Document::parse(svg).expect("well-formed XML");
    let root = document.root_element();
    assert_eq!(root.tag_name().name(), "svg");
    assert_eq!(
        root.tag_name().namespace(),
        Some("http://www.w3.org/2000/svg")
    );
    for node in document.descendants() {
        for attribute in node.attributes() {
            let value = attribute.value();
            assert!(!value.contains("NaN") && !value.contains("inf"), "{value}");
            let is_link = ["href", "src"].contains(&attribute.name());
            assert!(!is_link, "self-contained: no {value}");
        }
    }
    let titles = document
        .descendants()
        .filter(|n| n.has_tag_name(("http://www.w3.org/2000/svg", "title")));
    titles.map(|n| n.text().unwrap_or("").to_owned()).collect()
}

fn map_of(pid: i32, options: &[&str]) -> String {
    let mut command = hakmem();
    command.args(["map", "-o", "-"]).args(options);
    let output = command.args(["--pid", &pid.to_string()]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
}

#[test]
fn a_running_program_is_drawn_as_it_is() {
    let known = known();
    let map: Value = serde_json::from_str(&map_of(known.pid(), &["--json"])).unwrap();
    assert_eq!((&map["schema"], &map["kind"]), (&1.into(), &"map".into()));
    let (blocks, carved, out) = of_size(&map, 3072);
    // 21 of them in a page, and no page of the 200 that were freed but one. The 100 that another
    // thread freed are on their way.
    assert_eq!(out, 500);
    assert!(
        blocks % 21 == 0 && (500..=550).contains(&blocks),
        "{blocks}"
    );
    assert!((500..=blocks).contains(&carved), "{carved}");
    let segments = map["segments"].as_array().unwrap();
    let huge: Vec<_> = segments.iter().filter(|s| s["huge"].is_u64()).collect();
    assert_eq!((huge.len(), &huge[0]["huge"]), (1, &3.into()));
    // It tries huge pages, where the system has them.
    let has_thp = Path::new("/sys/kernel/mm/transparent_hugepage/enabled").exists();
    assert_eq!(huge[0]["thp"], has_thp, "{}", huge[0]);
    for segment in segments
        .iter()
        .filter(|s| s["slots"] != Value::Array(vec![]))
    {
        let slots = segment["slots"].as_array().unwrap();
        let spans = slots.iter().map(|s| s["span"].as_u64().unwrap());
        assert_eq!(spans.sum::<u64>(), 32, "every slot is there once");
        assert_eq!(segment["resident"].as_array().unwrap().len(), 32);
    }

    let titles = titles(&map_of(known.pid(), &[]));
    assert!(titles[0].starts_with("The heap of known, process "));
    let full = titles
        .iter()
        .filter(|t| t.starts_with("3.0 KiB: 21 of 21 blocks out"));
    assert!(full.count() >= 15, "{titles:?}");
    assert!(
        titles
            .iter()
            .any(|t| t.starts_with("large block: 256.0 KiB"))
    );
    assert!(
        titles
            .iter()
            .any(|t| t.starts_with("huge: 3 segments, 6.0 MiB"))
    );
}

#[test]
fn the_picture_can_be_read_in_librsvg() {
    let known = known();
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("picture.svg");
    std::fs::write(&picture, map_of(known.pid(), &[])).unwrap();
    pictures::map_can_be_read(&picture);
}

/// What the library writes at the program's end.
#[test]
fn a_program_is_drawn_as_it_was_at_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("picture.svg");
    let draw = |options: &[&str]| {
        let mut command = hakmem();
        command
            .args(["map", "--lib"])
            .arg(&*HAKMEM)
            .arg("-o")
            .arg(&picture);
        command.args(options).args(["--", "perl", "-e"]);
        command.arg("our @a = map { \"x$_\" x 20 } 1..50000; print 7; exit 3");
        let output = command.output().unwrap();
        assert_eq!(
            (output.status.code(), stdout(&output).as_str()),
            (Some(3), "7")
        );
        let said = stderr(&output);
        assert!(said.starts_with("hakmem: heap of perl, process "), "{said}");
        assert!(
            said.ends_with(&format!(", at its end\n  wrote {}\n", picture.display())),
            "{said}"
        );
        std::fs::read_to_string(&picture).unwrap()
    };
    let titles = titles(&draw(&[]));
    assert!(titles[0].contains("The heap of perl, process") && titles[0].ends_with("at its end"));
    assert!(titles.iter().filter(|t| t.contains("blocks out")).count() > 50);
    let map: Value = serde_json::from_str(&draw(&["--json"])).unwrap();
    assert_eq!(map["event"], "exit");
}

/// Without `-o`, the JSON does not go where the picture goes.
#[test]
fn pictures_and_json_have_files_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let known = known();
    let pid = known.pid().to_string();
    for (options, name, other) in [
        (&["--json"][..], "hakmem-map.json", "hakmem-map.svg"),
        (&[], "hakmem-map.svg", "hakmem-map.json"),
    ] {
        let place = tempfile::tempdir_in(&folder).unwrap();
        let mut command = hakmem();
        command.args(["map", "--pid", &pid]).args(options);
        let output = command.current_dir(&place).output().unwrap();
        assert_ended(&output, 0, "");
        let said = format!("hakmem: heap of known, process {pid}, while it ran\n  wrote {name}\n");
        assert_eq!(stderr(&output), said);
        let text = std::fs::read_to_string(place.path().join(name)).unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(&text).is_ok(),
            !options.is_empty()
        );
        assert!(!place.path().join(other).exists());
    }
    for (options, what) in [(&["--json"][..], "the map"), (&[], "the picture")] {
        let mut command = hakmem();
        command
            .args(["map", "-o", "-", "--pid", &pid])
            .args(options);
        let full = std::fs::File::create("/dev/full").unwrap();
        let output = command.stdout(full).output().unwrap();
        assert_says(&output, &format!("cannot write {what}: No space left"));
    }
}

/// The program may have executed another one, which does not run on hakmem.
#[test]
fn a_program_without_hakmem_after_a_while() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = hakmem();
    command.args(["map", "--after", "0.5", "-o", "y.svg", "--lib"]);
    command.arg(&*HAKMEM).current_dir(&folder);
    let script = "exec env -u LD_PRELOAD sleep 2";
    let output = command.args(["--", "bash", "-c", script]).output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    assert_says(&output, "hakmem was not in the program after 0.5 s");
    assert_says(&output, "larger --after");
    assert!(
        !stderr(&output).contains("hakmem run"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_program_is_drawn_after_a_while() {
    let mut command = hakmem();
    command
        .args(["map", "--after", "0.5", "-o", "-", "--lib"])
        .arg(&*HAKMEM);
    let output = command
        .args(["--", "bash", "-c", "sleep 2; exit 3"])
        .output()
        .unwrap();
    assert_eq!(
        (output.status.code(), stderr(&output).as_str()),
        (Some(3), "")
    );
    assert!(titles(&stdout(&output))[0].contains("while it ran"));
}

/// At signals and at the end, of several processes, into one file.
#[test]
fn a_file_of_maps() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("maps");
    let mut command = Command::new("bash");
    command
        .args(["-c", "perl -e 1; kill -USR2 $$; exit 0"])
        .env("LD_PRELOAD", &*HAKMEM)
        .env("HAKMEM_MAP", &file)
        .env("HAKMEM_STATS_SIGNAL", "USR2");
    assert!(command.status().unwrap().success());
    let text = std::fs::read_to_string(&file).unwrap();
    let maps: Vec<Value> = text
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let events: Vec<_> = maps
        .iter()
        .map(|m| (m["program"].as_str().unwrap(), m["event"].as_str().unwrap()))
        .collect();
    assert_eq!(
        events,
        [("perl", "exit"), ("bash", "signal"), ("bash", "exit")]
    );
    let output = hakmem()
        .args(["map", "-o", "-", "--file"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(titles(&stdout(&output))[0].starts_with("The heap of bash"));

    let mut child = hakmem()
        .args(["map", "-o", "-", "--file", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
    assert_eq!(stdout(&child.wait_with_output().unwrap()), stdout(&output));
}

#[test]
fn what_cannot_be_drawn_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let nonsense = folder.path().join("nonsense");
    let failed = |arguments: &[&str], what: &str| {
        let output = hakmem().arg("map").args(arguments).output().unwrap();
        let text = stderr(&output);
        assert_eq!(
            (output.status.code(), stdout(&output).as_str()),
            (Some(1), "")
        );
        assert!(text.contains(what), "{text}");
    };
    let name = nonsense.to_str().unwrap();
    failed(&["--file", name], "cannot read");
    std::fs::write(&nonsense, "{}\nx\n").unwrap();
    failed(&["--file", name], "2 of the lines cannot be read as maps");
    failed(&["--file", name], "has no map");
    failed(&["--pid", "2147483647"], "there is no process");
    for wrong in [
        &["map"][..],
        &["map", "--pid", "1", "--file", name],
        &["map", "--after", "1", "--file", name],
    ] {
        assert_eq!(
            hakmem().args(wrong).output().unwrap().status.code(),
            Some(2)
        );
    }
}

/// A program whose picture could not be written is not begun; one that is lost later leaves its
/// status to the program.
#[test]
fn a_full_disk_and_an_unwritable_file() {
    for (place, begun, status) in [
        ("/dev/full", "5\n", 3),
        ("/nowhere/picture.svg", "", 125),
        ("/", "", 125),
    ] {
        let mut command = hakmem();
        command.args(["map", "-o", place, "--lib"]).arg(&*HAKMEM);
        let output = command
            .args(["bash", "-c", "echo 5; exit 3"])
            .output()
            .unwrap();
        assert_eq!(
            (output.status.code(), stdout(&output).as_str()),
            (Some(status), begun)
        );
        assert!(
            stderr(&output).contains(&format!("cannot write {place}")),
            "{}",
            stderr(&output)
        );
        let mut command = Command::new("bash");
        command
            .args(["-c", "echo 5; exit 3"])
            .env("LD_PRELOAD", &*HAKMEM)
            .env("HAKMEM_MAP", place);
        let output = command.output().unwrap();
        assert_eq!(
            (output.status.code(), stdout(&output).as_str()),
            (Some(3), "5\n")
        );
        assert!(
            stderr(&output).contains(&format!("report lost: cannot write {place}")),
            "{}",
            stderr(&output)
        );
    }
    let known = known();
    let mut command = hakmem();
    command.args(["map", "-o", "-", "--pid", &known.pid().to_string()]);
    let mut drawn = command.stdout(Stdio::piped()).spawn().unwrap();
    drop(drawn.stdout.take());
    assert_eq!(
        drawn.wait().unwrap().code(),
        Some(0),
        "a reader has seen enough"
    );
    assert!(!Path::new("hakmem-map.svg").exists());
}

/// Whatever a file has in it, the one who draws it is not harmed.
#[test]
fn a_forged_file_is_refused_or_drawn_without_harm() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("forged");
    let slot = r#"{"slot":0,"span":1,"use":"page","size":SIZE,"blocks":4294967295,"carved":4294967295,"used":4294967295,"state":"x"}"#;
    let segment = |slots: &str| {
        format!(r#"{{"address":"0x7f0000000000","thp":true,"resident":[255],"slots":[{slots}]}}"#)
    };
    let map = |segments: &str| {
        format!(
            r#"{{"schema":1,"kind":"map","event":"\u001b[2J","pid":7,"program":"\u001b]0;\u009bx\u0007","slot_bytes":65536,"segment_bytes":2097152,"segments":[{segments}]}}"#
        )
    };
    let of_size = |size: u64| segment(&slot.replace("SIZE", &size.to_string()));
    let sizes: Vec<_> = (1..=100_000).map(of_size).collect();
    let huge = r#"{"address":"0x0","thp":false,"huge":4294967295,"reserve":4294967295,"resident_bytes":18446744073709551615}"#;
    let drawn = [
        of_size(64),
        of_size(4_294_967_295),
        format!("{},{huge}", of_size(16)),
    ];
    for segments in drawn {
        std::fs::write(&file, map(&segments)).unwrap();
        let mut command = hakmem();
        let output = bounded(command.args(["map", "-o", "-", "--file"]).arg(&file));
        assert!(!refused_or_done(&output, &segments));
        assert!(titles(&stdout(&output))[0].starts_with("The heap of ?]0;?x?, process 7, ?[2J"));
    }
    let refused = [
        sizes.join(","),
        of_size(0),
        segment(r#"{"slot":65535,"span":65535,"use":"large"}"#),
        [huge; 9].join(","),
        r#"{"address":"<a>","thp":false}"#.into(),
        r#"{"address":"0x1","thp":false},"#.repeat(300_000) + &of_size(1),
        r#"{"address":"0x1","thp":false},"#.repeat(2_000_000),
        "[".repeat(1 << 20),
    ];
    for segments in refused {
        std::fs::write(&file, map(&segments)).unwrap();
        let mut command = hakmem();
        let output = bounded(command.args(["map", "-o", "-", "--file"]).arg(&file));
        assert_eq!(
            (output.status.code(), stdout(&output).as_str()),
            (Some(1), "")
        );
    }
    let output = bounded(hakmem().args(["map", "-o", "-", "--file", "/dev/zero"]));
    assert!(refused_or_done(&output, "/dev/zero"));
}
