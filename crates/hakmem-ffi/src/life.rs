//! Start and end of the process: the options are read once, by the loader's call of `start`; a report that was asked
//! for is written by `end`. Blocks are handed out before and after: neither call is a condition for anything.

use crate::settings::{self, Report};
use crate::sink::{File, Stderr};
use crate::{next, report};
use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int};
use hakmem_core::{c, stats};

/// What `start` found and `end` needs.
#[derive(Clone, Copy)]
enum Plan {
    Nothing,
    Human(Stderr),
    Json(Stderr),
    JsonFile(File),
}

struct Shared(UnsafeCell<Plan>);

// SAFETY: written by `start`, before the program has threads that could run `end`; only read after that.
unsafe impl Sync for Shared {}

static PLAN: Shared = Shared(UnsafeCell::new(Plan::Nothing));

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = start;

#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

/// Without `HAKMEM_…` variables this makes no system call.
extern "C" fn start(_argc: c_int, _argv: *const *const c_char, envp: *const *const c_char) {
    c::on_foreign(next::find);
    // SAFETY: glibc passes the environment to every constructor; it is not changed before they have all run.
    unsafe { c::configure(envp) };
    // SAFETY: as above.
    let plan = match unsafe { settings::read(envp) } {
        None => return,
        Some(Report::Human) => Plan::Human(Stderr::keep()),
        Some(Report::Json) => Plan::Json(Stderr::keep()),
        Some(Report::JsonFile(file)) => match File::keep(file) {
            Some(file) => Plan::JsonFile(file),
            None => return,
        },
    };
    if let Plan::JsonFile(file) = plan {
        file.append(report::load_line().as_bytes());
    }
    // SAFETY: nothing else runs that could use it: see Shared.
    unsafe { *PLAN.0.get() = plan };
}

/// Runs in a forked child's exit too: it reports under its own pid, with counters that began in its parent.
extern "C" fn end() {
    // SAFETY: only `start` writes it, and that is over.
    let plan = unsafe { *PLAN.0.get() };
    if matches!(plan, Plan::Nothing) {
        return;
    }
    let (stats, usage) = (stats::process(), report::Usage::now());
    match plan {
        Plan::Nothing => {}
        Plan::Human(stderr) => stderr.write(report::human_lines(&stats, &usage).as_bytes()),
        Plan::Json(stderr) => stderr.write(report::exit_line(&stats, &usage).as_bytes()),
        Plan::JsonFile(file) => file.append(report::exit_line(&stats, &usage).as_bytes()),
    }
}
