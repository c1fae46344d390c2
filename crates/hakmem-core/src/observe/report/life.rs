//! Start and end of the process: a constructor calls `start`, which reads what is asked for, once; `end` writes the report, and
//! so does each signal that asks for it. Blocks are handed out before and after: neither call is a condition for anything.

use super::out::stderr_line;
use super::sink::{File, Stderr};
use super::stack::on_own_stack;
use super::{Event, Format, errno, make, map, out, profile, settings, usage};
use crate::api::c;
use crate::os;
use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use libc::{siginfo_t, ucontext_t};

/// What `start` found and `end` and `on_signal` need.
#[derive(Clone, Copy)]
struct Plan {
    report: Option<Report>,
    map: Option<File>,
}

#[derive(Clone, Copy)]
struct Report {
    format: Format,
    to: To,
}

#[derive(Clone, Copy)]
enum To {
    Stderr(Stderr),
    File(File),
}

impl Plan {
    /// See [`keep_files`].
    fn keep_files(self) {
        match self.report.map(|report| report.to) {
            Some(To::Stderr(stderr)) => stderr.keep_for_later(),
            Some(To::File(file)) => file.keep_open(),
            None => {}
        }
        if let Some(file) = self.map {
            file.keep_open();
        }
    }

    /// See [`drop_files`].
    fn drop_files(self) {
        match self.report.map(|report| report.to) {
            Some(To::Stderr(_)) => Stderr::drop_what_was_kept(),
            Some(To::File(file)) => file.drop_what_was_kept(),
            None => {}
        }
        if let Some(file) = self.map {
            file.drop_what_was_kept();
        }
    }

    fn carry_out(self, event: Event) {
        if let Some(report) = self.report {
            report.write(event);
        }
        if let Some(file) = self.map {
            map::append(event, file);
        }
    }
}

impl Report {
    fn write(self, event: Event) {
        let written = make::with(self.format, event, |text| match self.to {
            To::Stderr(stderr) => stderr.write(text),
            To::File(file) => file.append(text),
        });
        if written.is_none() {
            out::say_lost(format_args!("report lost: no memory for it"));
        }
    }
}

struct Shared(UnsafeCell<Option<Plan>>);

// SAFETY: written by `start`, before the program has threads that could run `end`; only read after that.
unsafe impl Sync for Shared {}

#[unsafe(link_section = ".data.hakmem")]
static PLAN: Shared = Shared(UnsafeCell::new(None));

/// The environment was looked at.
#[unsafe(link_section = ".data.hakmem")]
static BEGUN: AtomicBool = AtomicBool::new(false);

/// Reads what the environment asks for, once. Without `HAKMEM_…` variables this makes no system call.
///
/// # Safety
/// `envp` is NULL or a NULL-terminated array of C strings, which do not change meanwhile. It is that of a program which has
/// no rights that its user does not have. A constructor calls this.
#[unsafe(link_section = ".text.hot.hakmem")]
pub unsafe fn start(envp: *const *const c_char) {
    if !BEGUN.swap(true, Relaxed) {
        // SAFETY: the caller promises what `begin` asks of `envp`; it was called by a constructor,
        // before any other thread.
        unsafe { begin(envp, false) };
    }
}

/// [`start`] in a copy of the allocator that is linked into the program. In any other this does nothing (`report` rules 1, 2).
///
/// # Safety
/// As there.
#[cold]
pub unsafe fn start_in_program(envp: *const *const c_char) {
    if os::is_in_program() && !BEGUN.swap(true, Relaxed) {
        // SAFETY: as for `start`, which has the same contract and the same caller.
        unsafe { begin(envp, take_over()) };
    }
}

/// Has a `libhakmem.so` in this process leave the reports to this copy (`report` rule 3). True if it had left its line at the
/// start of one. The loader has run its constructor before the program's, and would run its end after the program's.
fn take_over() -> bool {
    if cfg!(target_feature = "crt-static") {
        return false; // No library can be preloaded.
    }
    // SAFETY: a C string. The first call of dlsym in a process may allocate, as any constructor may.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__hakmem_leave_reports".as_ptr()) };
    // The program's own is that of a libhakmem.a, which is this copy.
    if found.is_null() || os::in_program(found as usize) {
        return false;
    }
    // SAFETY: the name is this project's, and has this type.
    let leave: extern "C" fn() -> c_int = unsafe { core::mem::transmute(found) };
    leave() != 0
}

/// Leaves the reports to another copy of the allocator. True if the line at the start of one was written. To be called while
/// there is one thread.
pub fn leave() -> bool {
    profile::leave();
    // SAFETY: there is one thread, so nothing else uses it: see Shared.
    let plan = unsafe { (*PLAN.0.get()).take() };
    plan.is_some_and(|plan| plan.report.is_some())
}

/// # Safety
/// As [`start`].
#[unsafe(link_section = ".text.hot.hakmem")]
unsafe fn begin(envp: *const *const c_char, announced: bool) {
    // SAFETY: `envp` is NULL or such an array, and there is one thread: this is called by
    // constructors.
    let profiled = unsafe { profile::start(envp) };
    // SAFETY: `envp` is NULL or such an array, and nobody changes its strings while `wish` refers
    // to them.
    let (wish, signal) = unsafe { (settings::read(envp), settings::read_signal(envp, b"HAKMEM_STATS_SIGNAL=")) };
    let plan = Plan {
        report: wish.and_then(|wish| prepare(wish, announced)),
        // SAFETY: `envp` is NULL or such an array; `map::file` copies the name.
        map: map::file(unsafe { settings::read_map(envp) }),
    };
    if plan.report.is_none() && plan.map.is_none() {
        if signal.is_some() && wish.is_none() {
            stderr_line(format_args!(
                "HAKMEM_STATS_SIGNAL ignored: HAKMEM_STATS asks for no report, and HAKMEM_MAP for no map"
            ));
        }
    } else {
        // SAFETY: nothing else runs that could use it: see Shared.
        unsafe { *PLAN.0.get() = Some(plan) };
        if let Some(signal) = signal {
            catch(signal, on_signal);
        }
    }
    // One that came with the program. The loader has opened and read files under it, so this may too.
    if (profiled || plan.report.is_some() || plan.map.is_some()) && usage::may_be_filtered() {
        keep_files();
        c::set_filtered(true);
    }
}

/// Before the process makes a filter for its system calls: what is written to later is opened now.
pub fn keep_files() {
    // SAFETY: only `start` writes it, and that is over or calls this.
    if let Some(plan) = unsafe { *PLAN.0.get() } {
        plan.keep_files();
    }
    profile::keep_files();
}

/// It has made none.
pub fn drop_files() {
    // SAFETY: only `start` writes it, and that is over.
    if let Some(plan) = unsafe { *PLAN.0.get() } {
        plan.drop_files();
    }
    profile::drop_files();
}

/// Finds out where reports go, and leaves a line there if no other copy has. None: nowhere.
fn prepare(wish: settings::Report<'_>, announced: bool) -> Option<Report> {
    let to = match wish.file {
        None => To::Stderr(Stderr::keep()),
        Some(file) => To::File(File::keep("HAKMEM_STATS", file)?),
    };
    if !announced && let To::File(file) = to {
        file.append(make::load_line(wish.format).as_bytes());
    }
    make::keep_buffer();
    let format = wish.format;
    Some(Report { format, to })
}

/// What the system calls, with the state that the thread will return to.
pub type Handler = extern "C" fn(c_int, *mut siginfo_t, *mut ucontext_t);

/// A program that handles the signal itself takes it over, whenever it says so.
pub fn catch(signal: c_int, handler: Handler) {
    let mut action = core::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all zeroes is a valid action; the handler only does what is async-signal-safe.
    unsafe {
        let action = action.assume_init_mut();
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigfillset(&mut action.sa_mask);
        libc::sigaction(signal, action, core::ptr::null_mut());
    }
}

/// Whatever it has interrupted: reads counters, formats them into memory of its own, and writes.
extern "C" fn on_signal(_: c_int, _: *mut siginfo_t, context: *mut ucontext_t) {
    errno::preserved(|| {
        // SAFETY: only `start` writes it, and that is over.
        if let Some(plan) = unsafe { *PLAN.0.get() } {
            on_own_stack(|| plan.carry_out(Event::Signal));
        }
        // SAFETY: `context` is what the system gave this handler, and valid until it returns.
        unsafe { out::leave_blocked(context) };
    });
}

/// Runs in a forked child's exit too: it reports under its own pid, with counters that began in its parent.
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn end() {
    profile::end();
    // SAFETY: only `start` writes it, and that is over.
    if let Some(plan) = unsafe { *PLAN.0.get() } {
        plan.carry_out(Event::Exit);
    }
}
