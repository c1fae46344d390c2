//! The tracer against programs whose system calls are known.

use hakmem_bench::tracer::{self, TraceError, Traced, Window};
use std::path::Path;
use std::process::{Command, Stdio};

/// `None` where tracing is forbidden.
fn trace(command: &mut Command, window: Window, library: Option<&Path>) -> Option<Traced> {
    match tracer::trace(command.stdout(Stdio::null()), window, library) {
        Ok(traced) => Some(traced),
        Err(TraceError::Refused) => None,
        Err(TraceError::Failed(error)) => panic!("{error}"),
    }
}

fn workload(name: &str, scale: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hakmem-bench"));
    command.args(["run-one", name, "system", "--scale", scale]);
    command
}

#[test]
fn a_process_does_more_than_its_measured_part() {
    let Some(whole) = trace(&mut workload("tiny_hot", "smoke"), Window::Whole, None) else {
        return;
    };
    let marked =
        trace(&mut workload("tiny_hot", "smoke"), Window::Marked, None).expect("it worked before");
    assert!(whole.status.success() && marked.status.success());
    assert!(
        whole.calls.mmap > 0 && whole.calls.total > whole.calls.memory(),
        "{:?}",
        whole.calls
    );
    // The system's allocator may have to get its first memory, and that is all.
    assert!(marked.calls.total <= 3, "{:?}", marked.calls);
}

/// 64 MiB is beyond what the system's allocator keeps: every block is a pair of calls.
#[test]
fn a_mapping_per_block_is_counted() {
    let Some(traced) = trace(&mut workload("calloc_large", "quick"), Window::Marked, None) else {
        return;
    };
    let workload = hakmem_bench::workloads::table::<std::alloc::System>();
    let workload = hakmem_bench::workloads::find(workload, "calloc_large").expect("it exists");
    let blocks = workload.ops_at(hakmem_bench::workloads::Scale::Quick);
    if cfg!(target_env = "gnu") {
        assert_eq!(
            (traced.calls.mmap, traced.calls.munmap),
            (blocks, blocks),
            "{:?}",
            traced.calls
        );
    }
}

#[test]
fn threads_and_child_processes_count() {
    let Some(one) = trace(Command::new("sh").args(["-c", "true"]), Window::Whole, None) else {
        return;
    };
    let three = trace(
        Command::new("sh").args(["-c", "(true); (true); true"]),
        Window::Whole,
        None,
    )
    .expect("a trace");
    assert!(
        three.calls.total > one.calls.total,
        "{:?} {:?}",
        one.calls,
        three.calls
    );
    let churn =
        trace(&mut workload("thread_churn", "quick"), Window::Marked, None).expect("a trace");
    assert!(churn.status.success());
    // Each thread makes several calls of its own: none of them is seen unless threads are followed.
    assert!(churn.calls.total > 1000, "{:?}", churn.calls);
}

#[test]
fn endings_pass_through_the_tracer() {
    use std::os::unix::process::ExitStatusExt;
    let Some(traced) = trace(
        Command::new("sh").args(["-c", "exit 7"]),
        Window::Whole,
        None,
    ) else {
        return;
    };
    assert_eq!(traced.status.code(), Some(7));
    let traced = trace(
        Command::new("sh").args(["-c", "kill -TERM $$"]),
        Window::Whole,
        None,
    )
    .expect("a trace");
    assert_eq!(traced.status.signal(), Some(libc::SIGTERM));
}

#[test]
fn a_library_that_is_not_mapped_is_not_seen() {
    let Some(traced) = trace(
        &mut Command::new("true"),
        Window::Whole,
        Some(Path::new("/nonexistent")),
    ) else {
        return;
    };
    assert!(!traced.library_seen);
}

#[test]
fn a_program_that_cannot_start_is_told_from_a_refusal() {
    let error = tracer::trace(&mut Command::new("no-such-program"), Window::Whole, None)
        .expect_err("cannot start");
    assert!(matches!(error, TraceError::Failed(_) | TraceError::Refused));
}
