//! Reports at the start and the end of the process, and on signals.
//!
//! A constructor calls [`start`], which reads what the environment asks for, once. [`end`] writes
//! the report, and so does the handler of the signal that the environment names. The allocator
//! depends on neither call: it allocates before `start` and after `end`.

use super::handler::{self, Reports};
use super::out::stderr_line;
use super::sink::{File, Stderr};
use super::{Event, Format, errno, make, map, out, profile, settings};
use crate::os;
use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What the environment asks for. `start` finds it, `end` and `OnSignal` carry it out.
#[derive(Clone, Copy)]
struct Plan {
    report: Option<Report>,
    map: Option<File>,
    errors: Option<File>,
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
        for file in [self.map, self.errors].into_iter().flatten() {
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
        for file in [self.map, self.errors].into_iter().flatten() {
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

// SAFETY: only `start` and `leave` write it. Constructors call them, before the program has threads
// that could run `end`. After that it is only read.
unsafe impl Sync for Shared {}

#[unsafe(link_section = ".data.hakmem")]
static PLAN: Shared = Shared(UnsafeCell::new(None));

/// True once the environment was read.
#[unsafe(link_section = ".data.hakmem")]
static BEGUN: AtomicBool = AtomicBool::new(false);

/// Reads what the environment asks for, once. Makes no system call if the environment has no
/// `HAKMEM_…` variables.
///
/// # Safety
/// - `envp` is NULL or a NULL-terminated array of C strings, which do not change during the call.
/// - `envp` is NULL if the program has rights that its user does not have.
/// - No other thread calls functions of this module: a constructor calls this.
#[unsafe(link_section = ".text.hot.hakmem")]
pub unsafe fn start(envp: *const *const c_char) {
    if !BEGUN.swap(true, Relaxed) {
        // SAFETY: the caller says so of `envp`, and that no other thread calls functions of this
        // module.
        unsafe { begin(envp, false) };
    }
}

/// [`start`] for a copy of the allocator that is linked into the program. In a library's copy this
/// does nothing (`report` rules 1, 2).
///
/// # Safety
/// - `envp` is NULL or a NULL-terminated array of C strings, which do not change during the call.
/// - `envp` is NULL if the program has rights that its user does not have.
/// - No other thread calls functions of this module: a constructor calls this.
#[cold]
pub unsafe fn start_in_program(envp: *const *const c_char) {
    if os::is_in_program() && !BEGUN.swap(true, Relaxed) {
        // SAFETY: the caller says so of `envp`, and that no other thread calls functions of this
        // module.
        unsafe { begin(envp, take_over()) };
    }
}

/// Makes a `libhakmem.so` in this process leave the reports to this copy (`report` rule 3). True if
/// it has written the line at the start of a report. The loader runs its constructor before the
/// program's, and would run its end after the program's.
fn take_over() -> bool {
    if cfg!(target_feature = "crt-static") {
        return false; // A static program loads no library.
    }
    // dlsym may allocate, and a constructor may call what allocates.
    // SAFETY: the name is a C string, and the handle is the default one.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__hakmem_leave_reports".as_ptr()) };
    // If the function lies in the program, it comes from a libhakmem.a, which is this copy.
    if found.is_null() || os::in_program(found as usize) {
        return false;
    }
    // SAFETY: dlsym found a function under a name that only hakmem uses, for a function of this
    // type.
    let leave: extern "C" fn() -> c_int = unsafe { core::mem::transmute(found) };
    leave() != 0
}

/// Leaves the reports to another copy of the allocator. True if this copy has written the line at
/// the start of a report.
///
/// # Safety
/// No other thread calls functions of this module: a constructor calls this.
pub unsafe fn leave() -> bool {
    // The handlers of this copy read what is taken here.
    let mask = os::block_signals();
    // SAFETY: the caller says that no other thread uses what the environment asked for. No handler
    // of this thread does, as all signals are blocked.
    let plan = unsafe {
        profile::leave();
        (*PLAN.0.get()).take()
    };
    os::restore_signals(mask);
    plan.is_some_and(|plan| plan.report.is_some())
}

/// Reads what the environment asks for. If `announced`, another copy has written the line at the
/// start of the report.
///
/// # Safety
/// - `envp` is NULL or a NULL-terminated array of C strings, which do not change during the call.
/// - `envp` is NULL if the program has rights that its user does not have.
/// - No other thread calls functions of this module.
#[unsafe(link_section = ".text.hot.hakmem")]
unsafe fn begin(envp: *const *const c_char, announced: bool) {
    // SAFETY: the caller says that `envp` is NULL or such an array, and that no other thread calls
    // functions of this module, the only one that calls `profile`.
    let profiled = unsafe { profile::start(envp) };
    // SAFETY: the caller says that `envp` is NULL or such an array, and that its strings do not
    // change during this call. `wish` does not outlive it, and the option's name has no NUL.
    let (wish, signal) =
        unsafe { (settings::read(envp), settings::read_signal(envp, b"HAKMEM_STATS_SIGNAL=")) };
    let plan = Plan {
        report: wish.and_then(|wish| prepare(wish, announced)),
        // SAFETY: the caller says that `envp` is NULL or such an array. `map::file` copies the
        // name.
        map: map::file(unsafe { settings::read_map(envp) }),
        // SAFETY: the caller says that `envp` is NULL or such an array. `keep` copies the name.
        errors: unsafe { settings::read_errors(envp) }
            .and_then(|file| File::keep("HAKMEM_ERRORS", file)),
    };
    let has_none = plan.report.is_none() && plan.map.is_none();
    if has_none && signal.is_some() && wish.is_none() {
        stderr_line(format_args!(
            "HAKMEM_STATS_SIGNAL ignored: HAKMEM_STATS asks for no report, \
             and HAKMEM_MAP for no map"
        ));
    }
    if !has_none || plan.errors.is_some() {
        // SAFETY: the caller says that no other thread uses it. `catch` installs the handler only
        // below.
        unsafe { *PLAN.0.get() = Some(plan) };
        if plan.errors.is_some() {
            os::on_line(copy_line);
        }
        if let Some(signal) = signal.filter(|_| !has_none) {
            handler::catch::<OnSignal>(signal);
        }
    }
    // Finds out now whether the process inherited a filter: a report may come when files can no
    // longer be opened.
    if profiled || !has_none || plan.errors.is_some() {
        os::is_careful();
    }
}

/// Appends a line of the allocator's to the file that `HAKMEM_ERRORS` names. False: it names none,
/// or another copy of the allocator reports.
fn copy_line(line: &[u8]) -> bool {
    // SAFETY: only `start` and `leave` write it, in constructors: `start` before it calls
    // `on_line`, `leave` with all signals blocked. Other threads come later.
    let file = unsafe { *PLAN.0.get() }.and_then(|plan| plan.errors);
    file.is_some_and(|file| {
        // The scavenger has no errno.
        if os::is_bare() {
            return file.append_on_bare_thread(line);
        }
        errno::preserved(|| file.append(line));
        true
    })
}

/// Opens the files that reports will be written to. To be called before the process makes a filter
/// for its system calls.
pub fn keep_files() {
    // SAFETY: only `start` and `leave` write it, in constructors. They have returned, or `start`
    // calls this after its write.
    if let Some(plan) = unsafe { *PLAN.0.get() } {
        plan.keep_files();
    }
    profile::keep_files();
}

/// Closes them: the process made no filter.
pub fn drop_files() {
    // SAFETY: only `start` and `leave` write it, in constructors: `start` before it installs the
    // handler, `leave` with all signals blocked. Other threads come later.
    if let Some(plan) = unsafe { *PLAN.0.get() } {
        plan.drop_files();
    }
    profile::drop_files();
}

/// Finds out where reports go. Writes the line at the start of a file, unless another copy has.
/// None: the file's name cannot be kept.
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

/// What the handler of the report's signal writes.
struct OnSignal;

// SAFETY: it reads counters without a lock, formats them in memory of its own, and writes.
unsafe impl Reports for OnSignal {
    fn write() {
        // SAFETY: only `start` and `leave` write it, in constructors: `start` before it installs
        // this handler, `leave` with all signals blocked.
        if let Some(plan) = unsafe { *PLAN.0.get() } {
            plan.carry_out(Event::Signal);
        }
    }
}

/// Writes the report at the end of the process. A forked child runs it too, and reports under its
/// own process number.
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn end() {
    profile::end();
    // SAFETY: only `start` and `leave` write it, in constructors: `start` before it installs the
    // handler, `leave` with all signals blocked. Other threads come later.
    if let Some(plan) = unsafe { *PLAN.0.get() } {
        plan.carry_out(Event::Exit);
    }
}
