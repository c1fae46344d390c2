//! A running process: whether it is on hakmem, and what keeps hakmem or `hakmem top` from their
//! work.

use super::finding::{Finding, Verdict};
use super::root::Root;
use super::{cgroup, limits, preload, settings};
use crate::build::Build;
use crate::proc;
use crate::view::Trouble;

/// A process that has this part of all maps that it may have is near the limit.
const NEAR_MAPS: (u64, u64) = (3, 4);

/// None: there is no such process.
pub fn findings(root: &Root, pid: u32) -> Option<Vec<Finding>> {
    let process = pid.to_string();
    let status = format!("/proc/{process}/status");
    let name = root.field(&status, "Name")?;
    let exe = root.link(&format!("/proc/{process}/exe"));
    let exe = exe.map_or("its file may not be read".into(), |path| {
        path.display().to_string()
    });
    let found = format!("{pid} ({name}), {exe}");
    let mut all = vec![Finding::ok("process", &found, "What follows is about it.")];
    let look = root.look(pid);
    let build = look.as_ref().ok().copied().flatten();
    all.push(served(look, pid, root.refuses_profile(pid)));
    all.extend(tracer(root, &status));
    all.push(filter(root, &status));
    all.extend(maps(root, &process));
    // Only who may trace the process may read its environment.
    if let Some(text) = root.read(&format!("/proc/{process}/environ")) {
        let variables = proc::variables(&text);
        let limited = cgroup::may_be_limited(root, &process);
        all.push(settings::finding(&variables, build, limited));
        all.push(preload::of_environment(root, &process, &variables));
    }
    all.push(preload::of_file(root, &process));
    all.extend(limits::findings(root, &process));
    all.extend(cgroup::findings(root, &process));
    Some(all)
}

/// `refused`: `hakmem profile --pid` refuses the process, because of its filter.
fn served(look: Result<Option<Build>, Trouble>, pid: u32, refused: bool) -> Finding {
    const SUBJECT: &str = "hakmem in the process";
    let trouble = match look {
        Ok(build) => {
            let build = build.map(|build| format!(", the {}", build.name()));
            let yes = format!("yes{}", build.unwrap_or_default());
            return match refused {
                false => Finding::ok(
                    SUBJECT,
                    &yes,
                    "hakmem serves it. hakmem top, stat, map, profile and options can read it.",
                ),
                true => Finding::new(
                    Verdict::Note,
                    SUBJECT,
                    &yes,
                    "hakmem serves it. hakmem top, stat, map and options can read it. hakmem \
                     profile --pid refuses it, because of its filter of system calls.",
                    "For a profile, set HAKMEM_PROFILE and HAKMEM_PROFILE_SIGNAL, and start the \
                     program again.",
                ),
            };
        }
        Err(trouble) => trouble,
    };
    match &trouble {
        Trouble::Forbidden => Finding::new(
            Verdict::Problem,
            SUBJECT,
            "not known",
            "The process may not be read: it is another user's, or the system keeps processes \
             apart.",
            "Use sudo; root, too, needs the capability CAP_SYS_PTRACE. What is said above of \
             kernel.yama.ptrace_scope counts for it as well.",
        ),
        Trouble::Others { owner, own } => Finding::new(
            Verdict::Problem,
            SUBJECT,
            "not known",
            format!("The process may not be read: it is {owner}'s, and you are {own}."),
            format!(
                "Use sudo, or run hakmem as {owner}. What is said above of \
                 kernel.yama.ptrace_scope counts for {owner}, too."
            ),
        ),
        Trouble::Kernel => Finding::new(
            Verdict::Note,
            SUBJECT,
            "no",
            "It is a thread of the kernel, which has no allocator.",
            "Nothing need be done.",
        ),
        Trouble::Without { .. } => Finding::new(
            Verdict::Problem,
            SUBJECT,
            "no",
            "The process does not run on hakmem.",
            "Start it by hakmem run PROG. hakmem doctor PROG says what may keep the library out.",
        ),
        _ => Finding::new(
            Verdict::Problem,
            SUBJECT,
            "not known",
            format!("{}.", trouble.say(pid)),
            "Try again, with the command of the version that is in the process.",
        ),
    }
}

/// Another process that traces it.
fn tracer(root: &Root, status: &str) -> Option<Finding> {
    let tracer = root.field(status, "TracerPid")?;
    (tracer != "0").then(|| {
        Finding::new(
            Verdict::Note,
            "tracer",
            &format!("process {tracer}"),
            "Another process traces it, such as a debugger or strace. hakmem top still reads it, \
             but nothing else can attach to it.",
            "End the tracer if hakmem is to change something in the process.",
        )
    })
}

const FILTER: &str = "filter of system calls";
const FILTER_ADVICE: &str = "docs/c-abi.md lists hakmem's system calls. If the filter refuses \
                             clone, set HAKMEM_SCAVENGER=0.";

/// The word for the filter in a status; None: it cannot be read. A kernel without filters has no
/// word for them.
fn mode(root: &Root, status: &str) -> Option<String> {
    root.read(status)?;
    Some(root.field(status, "Seccomp").unwrap_or_else(|| "0".into()))
}

fn no_mode() -> Finding {
    Finding::unknown(
        FILTER,
        "The status in /proc cannot be read. There may be a filter.",
        FILTER_ADVICE,
    )
}

/// The filter of this command, which a program gets that is started like it.
pub fn inherited_filter(root: &Root) -> Finding {
    match mode(root, "/proc/self/status").as_deref() {
        None => no_mode(),
        Some("0") => Finding::ok(
            FILTER,
            "none",
            "A program that is started here may make all of hakmem's system calls.",
        ),
        Some(_) => Finding::new(
            Verdict::Note,
            FILTER,
            "seccomp",
            "This command runs under a filter. A program that is started here inherits it. The \
             filter decides which of hakmem's calls the system answers.",
            FILTER_ADVICE,
        ),
    }
}

fn filter(root: &Root, status: &str) -> Finding {
    match mode(root, status).as_deref() {
        None => no_mode(),
        Some("0") => Finding::ok(FILTER, "none", "hakmem may make all its system calls."),
        Some("1") => Finding::new(
            Verdict::Problem,
            FILTER,
            "strict",
            "Only read, write and exit are allowed. The next block that needs memory from the \
             system ends the process.",
            "Use a filter with the calls that docs/c-abi.md lists.",
        ),
        _ => Finding::new(
            Verdict::Note,
            FILTER,
            "seccomp",
            "The filter decides which of hakmem's calls the system answers. A process that made \
             the filter itself gets no thread that gives memory back, and its profile no stacks.",
            FILTER_ADVICE,
        ),
    }
}

fn maps(root: &Root, process: &str) -> Option<Finding> {
    const SUBJECT: &str = "maps";
    let n = root.lines(&format!("/proc/{process}/maps"))?;
    let most = root.number("/proc/sys/vm/max_map_count")?;
    let found = format!("{n} of {most}");
    let (part, whole) = NEAR_MAPS;
    Some(match n.saturating_mul(whole) > most.saturating_mul(part) {
        false => Finding::ok(SUBJECT, &found, "There is room for more."),
        true => Finding::new(
            Verdict::Problem,
            SUBJECT,
            &found,
            "Without further maps, hakmem can neither take nor give back memory.",
            "Raise vm.max_map_count, and set HAKMEM_GUARD_SAMPLE=0.",
        ),
    })
}
