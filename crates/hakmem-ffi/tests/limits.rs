//! The system refuses from outside: small and shrinking address space, no maps left, locked memory,
//! little memory. Each program of tests/programs/limits.c also runs on the C library's own malloc,
//! to prove the test right.

use crate::common;

#[path = "limits/machine.rs"]
mod machine;

use common::{Language, Link, Reports, compile, find_program, library, preload, run, skipped};
use machine::{Cgroup, Setting};
use std::io::Read;
use std::iter;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

const MIB: u64 = 1 << 20;

fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compile(Language::C, "limits.c", Link::Plain))
}

/// `limits NAME`, which is ended if it hangs.
fn case(name: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "120"]).arg(program()).arg(name);
    command
}

fn show(name: &str, output: &Output) {
    let text = String::from_utf8_lossy(&output.stdout);
    for line in text.lines() {
        match line.strip_prefix("skip: ") {
            Some(why) => skipped(&format!("{name}: {why}")),
            None => println!("{name}: {line}"),
        }
    }
}

/// Passes on hakmem.
fn passes_here(name: &str) -> Reports {
    let mut command = case(name);
    let reports = preload(&mut command);
    show(name, &run(&mut command));
    reports.assert_served();
    reports
}

/// Passes with the C library's malloc and with hakmem.
fn passes(name: &str) {
    run(&mut case(name));
    passes_here(name);
}

/// Sets RLIMIT_AS before the program starts.
fn limit_address_space(command: &mut Command, bytes: u64) -> &mut Command {
    // SAFETY: one system call between fork and exec.
    unsafe {
        command.pre_exec(move || {
            let limit = libc::rlimit {
                rlim_cur: bytes,
                rlim_max: bytes,
            };
            match libc::setrlimit(libc::RLIMIT_AS, &limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        })
    }
}

#[test]
fn address_space_lowered_while_running() {
    passes("lowered");
}

#[test]
fn address_space_lowered_step_by_step() {
    passes("lowered_step_by_step");
}

#[test]
fn limits_that_are_not_the_programs() {
    passes_here("limits_that_are_not_ours");
}

#[test]
fn limits_at_wrong_places() {
    passes("limits_at_wrong_places");
}

#[test]
fn address_space_lowered_beside_threads() {
    passes("lowered_beside_threads");
}

/// The pointers are foreign then: a free of one is counted, and does nothing.
#[test]
fn address_space_given_back_is_mapped_by_others() {
    let reports = passes_here("others_map_what_was_given_back");
    assert!(reports.foreign_frees() >= 2, "no foreign pointer was freed");
}

#[test]
fn address_space_small_from_the_start() {
    for mib in [16, 20, 24, 32, 48, 64, 128, 256, 1024] {
        let limited = || {
            let mut command = Command::new(program());
            limit_address_space(command.arg("small_address_space"), mib * MIB);
            command
        };
        run(&mut limited());
        let mut command = limited();
        let reports = preload(&mut command);
        show(&format!("{mib} MiB"), &run(&mut command));
        reports.assert_served();
    }
}

/// Below what a program needs it fails with a message of its own, or does not start; no signal ends
/// it.
#[test]
fn address_space_too_small_to_start_in() {
    let mut least = None;
    for mib in (2..40).step_by(2) {
        let mut command = Command::new(program());
        let reports = preload(command.arg("small_address_space"));
        limit_address_space(&mut command, mib * MIB);
        // Where not even the program's own image fits, the kernel ends it, with any allocator.
        let Ok(output) = command.output() else {
            continue;
        };
        if reports.lines().is_empty() {
            continue;
        }
        let err = String::from_utf8_lossy(&output.stderr);
        let ended = output.status.code();
        assert!(matches!(ended, Some(0 | 1)), "{mib} MiB: {ended:?}: {err}");
        // What it had in KiB comes first.
        if output.status.success() && !output.stdout.starts_with(b"0 ") {
            least.get_or_insert(mib);
        }
    }
    println!("is served in {least:?} MiB");
    // The hardened build looks for the program's stacks, whose tables take room.
    let most = if cfg!(feature = "hardened") { 12 } else { 10 };
    assert!(
        least.is_some_and(|mib| mib <= most),
        "is served in {least:?} MiB"
    );
}

/// Runs a program in an address space that it lowers itself, without and with hakmem; the output
/// must be as expected.
fn lowers_its_limit(program: &str, arguments: &[&str], expected: &str) {
    if find_program(program).is_none() {
        return;
    }
    for on_hakmem in [false, true] {
        let mut command = Command::new(program);
        command.args(arguments);
        let reports = on_hakmem.then(|| preload(&mut command));
        let output = run(&mut command);
        let text = String::from_utf8_lossy(&output.stdout);
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(text.trim(), expected, "on hakmem: {on_hakmem}: {err}");
        if let Some(reports) = reports {
            reports.assert_served();
        }
    }
}

#[test]
fn python_lowers_its_limit() {
    const SCRIPT: &str = r"
import mmap, resource, threading
kept = [str(i) * 10 for i in range(100000)]
hard = resource.getrlimit(resource.RLIMIT_AS)[1]
resource.setrlimit(resource.RLIMIT_AS, (400 << 20, hard))
said = []
try:
    bytearray(500 << 20)
except MemoryError:
    said.append('refused')
said.append(len(bytearray(100 << 20)))
mmap.mmap(-1, 50 << 20).close()
threads = [threading.Thread(target=lambda: said.append(sum(range(1000)))) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
resource.prlimit(0, resource.RLIMIT_AS, (hard, hard))
said.append(len(bytearray(500 << 20)))
assert kept == [str(i) * 10 for i in range(100000)]
print(said)
";
    let expected = "['refused', 104857600, 499500, 499500, 499500, 499500, 524288000]";
    lowers_its_limit("python3", &["-c", SCRIPT], expected);
}

#[test]
fn bash_lowers_its_limit() {
    // What it reads and keeps goes on, its children start, and the limit holds.
    const SCRIPT: &str = r#"
ulimit -S -v 200000
x=$(printf '%s\n' one two three | sort | tail -1)
for i in {1..20000}; do a[i]="value $i"; done
y=$( (echo "${a[19999]}") )
too_much=$( (printf -v x '%0250000000d' 1 && echo served) 2>/dev/null || echo refused)
ulimit -S -v unlimited
read -r z < <(printf '%02000000d\n' 7)
# Bash does not wait for the child by itself, and it may still be writing its report.
wait $!
echo "$x, $y, $too_much, ${#z}"
"#;
    lowers_its_limit(
        "bash",
        &["-c", SCRIPT],
        "two, value 19999, refused, 2000000",
    );
}

#[test]
fn no_maps_left() {
    passes(if cfg!(feature = "hardened") {
        "foreign_maps_and_guards"
    } else {
        "foreign_maps"
    });
}

#[test]
fn locked_from_the_start() {
    passes("locked_from_the_start");
}

#[test]
fn locked_later() {
    passes("locked_later");
}

/// More passes through the heap than the group may have; what was freed must not be held on to.
#[test]
fn in_a_memory_cgroup() {
    let group = match Cgroup::new(80 * MIB) {
        Ok(group) => group,
        Err(why) => return skipped(&format!("no memory cgroup: {why}")),
    };
    for on_hakmem in [false, true] {
        let mut command = Command::new("sh");
        // The shell moves itself; what it becomes is limited.
        command.args(["-c", "echo $$ > \"$0\" && exec \"$1\" little_memory"]);
        command.arg(group.members()).arg(program());
        let reports = on_hakmem.then(|| preload(&mut command));
        run(&mut command);
        if let Some(reports) = reports {
            reports.assert_served();
        }
    }
    println!("peak {} KiB of 80 MiB", group.peak() >> 10);
}

/// A shell that moves itself into a memory cgroup and becomes the program of `case`.
fn member(group: &Cgroup, case: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "echo $$ > \"$0\" && exec \"$1\" \"$2\""]);
    command.arg(group.members()).arg(program()).arg(case);
    command
}

/// Passes `case` on hakmem in a memory cgroup. Returns how it ends.
fn in_group(group: &Cgroup, case: &str, options: &[(&str, &str)]) -> (ExitStatus, Reports) {
    let mut command = member(group, case);
    let reports = preload(&mut command);
    command.envs(options.iter().copied());
    (common::finish(&mut command).status, reports)
}

/// Free memory that stays for long is too much for the group, unless hakmem knows of the group's
/// limit.
#[test]
#[cfg_attr(feature = "hardened", ignore = "freed blocks wait")]
fn a_share_of_a_memory_cgroup() {
    let group = match Cgroup::new(80 * MIB) {
        Ok(group) => group,
        Err(why) => return skipped(&format!("no memory cgroup: {why}")),
    };
    let free_memory_stays = [
        ("HAKMEM_DECAY_MS", "60000"),
        ("HAKMEM_SCAVENGER", "0"),
        ("HAKMEM_HUGE_CACHE_MIB", "100"),
        ("HAKMEM_THP", "never"),
    ];
    let (ended, _) = in_group(&group, "sizes_change", &free_memory_stays);
    assert_eq!(
        ended.signal(),
        Some(libc::SIGKILL),
        "the test shows nothing"
    );
    let mut options = free_memory_stays.to_vec();
    options.push(("HAKMEM_LIMIT_PERCENT", "85"));
    let (ended, reports) = in_group(&group, "sizes_change", &options);
    assert!(ended.success(), "{ended}");
    reports.assert_served();
}

/// The other allocators that this machine has, for `LD_PRELOAD`: those of packages, and those that
/// `ci/peers/build` made.
fn peers() -> Vec<PathBuf> {
    const PACKAGED: [&str; 2] = ["libjemalloc.so.2", "libtcmalloc_minimal.so.4"];
    const MADE: [&str; 4] = ["mimalloc3", "snmalloc", "rpmalloc", "rusty_alloc"];
    let packages = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("the target folder");
    let made = MADE.map(|name| target.join("peers").join(format!("lib{name}.so")));
    let all = PACKAGED
        .map(|name| Path::new(&packages).join(name))
        .into_iter()
        .chain(made);
    all.filter(|path| path.exists()).collect()
}

/// Other allocators keep the holes between the blocks that stay, and the system ends the program.
/// With a soft limit hakmem gives them back in time.
#[test]
#[cfg_attr(feature = "hardened", ignore = "freed blocks wait")]
fn a_soft_limit_saves_a_program_that_no_peer_does() {
    let group = match Cgroup::new(80 * MIB) {
        Ok(group) => group,
        Err(why) => return skipped(&format!("no memory cgroup: {why}")),
    };
    for peer in iter::once(None).chain(peers().into_iter().map(Some)) {
        let mut command = member(&group, "holes_stay");
        command.envs(peer.iter().map(|path| ("LD_PRELOAD", path)));
        let ended = common::finish(&mut command).status;
        assert_eq!(ended.signal(), Some(libc::SIGKILL), "{peer:?}");
        println!(
            "ended by the system: {}",
            peer.map_or("glibc".into(), |path| path.display().to_string())
        );
    }
    let soft_limit = [("HAKMEM_LIMIT_PERCENT", "85")];
    let (ended, reports) = in_group(&group, "holes_stay", &soft_limit);
    assert!(ended.success(), "{ended}");
    reports.assert_served();
}

/// A program that is killed when this is dropped. Before that, its cgroup could not go.
struct Thrashing(Child);

impl Drop for Thrashing {
    fn drop(&mut self) {
        let killed = self.0.kill().and_then(|()| self.0.wait());
        if let Err(why) = killed {
            eprintln!("the program goes on: {why}");
        }
    }
}

/// A program that stays until its input ends.
struct Waiting(Child);

impl Waiting {
    /// On hakmem, with its reports. It has freed its memory.
    fn start(options: &[(&str, &str)]) -> (Self, Reports) {
        let mut command = Command::new(program());
        command.arg("frees_and_waits").envs(options.iter().copied());
        let reports = preload(&mut command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut line = [0; 6];
        let output = child.stdout.as_mut().expect("a pipe");
        output.read_exact(&mut line).expect("it has freed");
        (Self(child), reports)
    }

    fn resident(&self) -> u64 {
        let file = format!("/proc/{}/statm", self.0.id());
        let text = std::fs::read_to_string(file).expect("it runs");
        let pages = text.split(' ').nth(1).expect("pages");
        pages.parse::<u64>().expect("a number") * 4096
    }

    fn ends_well(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().expect("it ends").success());
    }
}

/// Asks about ten times a second. False: not within a minute.
fn comes_true(mut condition: impl FnMut() -> bool) -> bool {
    (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        condition()
    })
}

/// While tasks wait for memory, free memory goes back long before the decay is over.
#[test]
#[cfg_attr(feature = "hardened", ignore = "freed blocks wait")]
fn pressure_of_the_system_shortens_the_decay() {
    let waited = || {
        let text = std::fs::read_to_string("/proc/pressure/memory").ok()?;
        let (_, rest) = text.split_once("some avg10=")?;
        rest.split(' ').next()?.parse::<f64>().ok()
    };
    if waited().is_none() {
        return skipped("the kernel has no figures of pressure");
    }
    let group = match Cgroup::new(60 * MIB) {
        Ok(group) => group,
        Err(why) => return skipped(&format!("no memory cgroup: {why}")),
    };
    let mut thrashing = Thrashing(member(&group, "thrashes").spawn().expect("it starts"));
    let mut has_ended = || thrashing.0.try_wait().expect("a child").is_some();
    let is_pressed = comes_true(|| has_ended() || waited().is_some_and(|percent| percent >= 8.0));
    if !is_pressed || has_ended() {
        return skipped("a group with little memory makes no pressure here");
    }
    // The decay is longer than all that follows.
    let slowly = ("HAKMEM_DECAY_MS", "120000");
    let (other, _reports) = Waiting::start(&[slowly]);
    let (reading, reports) = Waiting::start(&[slowly, ("HAKMEM_PRESSURE_PERCENT", "5")]);
    let falls = comes_true(|| reading.resident() < 30 * MIB);
    let left = other.resident();
    drop(thrashing);
    assert!(falls, "{} bytes stay", reading.resident());
    assert!(
        left > 80 * MIB,
        "{left} bytes: they would have gone in any case"
    );
    other.ends_well();
    reading.ends_well();
    reports.assert_served();
}

#[test]
fn strict_overcommit() {
    match Setting::change("/proc/sys/vm/overcommit_memory", "2") {
        Ok(_changed) => passes("commit_limit"),
        Err(why) => skipped(&format!("overcommit_memory=2: {why}")),
    }
}

/// How many segments get huge pages before hakmem knows better depends on the order of the threads,
/// and on what a first touch costs just then. So this is the least of five runs.
#[test]
fn threads_that_touch_little_get_no_huge_pages() {
    let more = (0..5).map(|_| {
        let mut command = case("threads_touch_little");
        let reports = preload(&mut command);
        let output = run(&mut command);
        reports.assert_served();
        let text = String::from_utf8_lossy(&output.stdout);
        let number = text.strip_suffix(" MiB more\n");
        number.and_then(|n| n.parse::<u32>().ok()).expect(&text)
    });
    let more = more.min().expect("there are five");
    assert!(more < 45, "{more} MiB more");
}

#[test]
fn transparent_thp_pages_always() {
    match Setting::change("/sys/kernel/mm/transparent_hugepage/enabled", "always") {
        Ok(_changed) => passes("huge_pages"),
        Err(why) => skipped(&format!("transparent huge pages set to always: {why}")),
    }
}

/// The shim that refuses system calls for tests is not in what users get.
#[test]
fn no_injected_faults_in_the_library() {
    use object::{Object, ObjectSymbol};
    let bytes = std::fs::read(&library().shared).expect("the library can be read");
    let file = object::File::parse(&*bytes).expect("an object file");
    let names: Vec<_> = file.symbols().filter_map(|s| s.name().ok()).collect();
    let core = names.iter().filter(|name| name.contains("hakmem_core"));
    assert!(core.count() > 10, "no symbols of the core were read");
    let shim: Vec<_> = names
        .iter()
        .filter(|name| name.contains("6faults"))
        .collect();
    assert!(shim.is_empty(), "{shim:?}");
}
