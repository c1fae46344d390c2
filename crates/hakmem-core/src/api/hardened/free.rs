//! Free: a block that passed its checks is wiped, and waits in the quarantine or behind a fence.
//!
//! Rules
//! 1. A block goes back to the front end once: at its free, or when it leaves the quarantine or its
//!    fence.
//! 2. Samples of the profile and blocks of program heaps do not wait. Others would count them as
//!    live.

use super::checked::{Live, checked};
use super::fast;
use crate::api::front;
use crate::backend::check::overwritten;
use crate::backend::page::{self, Meta};
use crate::base::size_class::MEDIUM_MAX;
use crate::harden::tag::{self, Origin};
use crate::harden::{fence, has, is_low, wipe};
use crate::thread;

/// Frees the block at `p`. `size` is what the caller says of its size, if it does. Pointers that
/// are not ours go the way of every build.
///
/// # Safety
/// If `p` is ours, it is live and the caller's to free (`hardened` rule 1).
#[inline(always)]
pub unsafe fn free(p: *mut u8, by: Origin, size: Option<usize>) {
    // SAFETY: the caller says that `p`, if it is ours, is live and given up. The fast way gives the
    // block up only if it answers true, so one of the two does.
    unsafe {
        if !fast::free(p, by, size) {
            free_any_from_caller(p, by, size.is_some(), size.unwrap_or(0));
        }
    }
}

/// [`free_any`] that knows the caller, for the report on foreign pointers: as the default build's
/// `free_slow_from_caller`.
///
/// # Safety
/// As [`free`].
#[cfg(not(miri))]
#[cold]
#[unsafe(naked)]
unsafe extern "C" fn free_any_from_caller(p: *mut u8, by: Origin, is_sized: bool, size: usize) {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!("mov r8, qword ptr [rsp]", "jmp {inner}", inner = sym free_any);
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!("mov x4, x30", "b {inner}", inner = sym free_any);
}

/// The same without the caller's address, for Miri.
///
/// # Safety
/// As [`free`].
#[cfg(miri)]
unsafe extern "C" fn free_any_from_caller(p: *mut u8, by: Origin, is_sized: bool, size: usize) {
    // SAFETY: the caller says of `p` what `free_any` asks for.
    unsafe { free_any(p, by, is_sized, size, 0) }
}

/// [`free`] without the fast way, for the caller at `site`. `size` counts if `is_sized`.
///
/// # Safety
/// As [`free`].
#[inline(never)]
unsafe extern "C" fn free_any(p: *mut u8, by: Origin, is_sized: bool, size: usize, site: usize) {
    let Some(meta) = page::lookup(p) else {
        // SAFETY: `p` is null or not ours.
        return unsafe { front::free_slow(p, site) };
    };
    let size = is_sized.then_some(size);
    // SAFETY: the caller gives up a live block. If it is wrong, the checks find that. The fast way
    // gives the block up only if it answers true.
    unsafe {
        if !fast::free_elsewhere(p, meta, by, size) && !fast::free_large(p, meta, by, size) {
            free_slow(p, meta, by, size);
        }
    }
}

/// [`free`] of a block of no page with an owner, or of one that did not pass its checks.
///
/// # Safety
/// As [`free`]; `p` is in the slot of `meta`.
#[cold]
#[inline(never)]
unsafe fn free_slow(p: *mut u8, meta: &'static Meta, by: Origin, size: Option<usize>) {
    // SAFETY: the caller gives up a live block. If it is wrong, the checks find that.
    unsafe {
        let Some(live) = checked(p, meta, Some((by, size))) else { return };
        give_up(p, &live);
    }
}

/// Wipes a block and lets it wait, or frees it.
///
/// # Safety
/// The block is live, passed its checks, and the caller gives it up.
pub(super) unsafe fn give_up(p: *mut u8, live: &Live) {
    // A sample that waited would be live for the profile, and a block of a program heap for its
    // limit.
    if live.room > MEDIUM_MAX && !live.is_apart && !is_low() {
        // SAFETY: the block is this call's, or was an earlier one's that has just left its fence.
        return fence::put(p, live.room, pace(), |leaves| unsafe { front::free16(leaves) });
    }
    // SAFETY: the block is this call's.
    unsafe {
        // The quarantine is for blocks of pages with owners: a sample is not one.
        if let Some(meta) = live.in_page {
            return fast::give_up_elsewhere(p, live.room, meta);
        }
        tag::clear(p, live.room);
        front::free16(p);
    }
}

/// The calling thread's pace of fences, if it has a heap.
#[inline(always)]
pub(super) fn pace() -> Option<&'static fence::Pace> {
    thread::heap().map(|heap| &heap.pace)
}

/// Frees a block that has waited.
///
/// # Safety
/// It has just left the quarantine of the calling thread.
#[inline(always)]
pub(super) unsafe fn leave(p: *mut u8) {
    // SAFETY: the block was some call's that gave it up, and is nobody's now.
    unsafe {
        if p.cast::<usize>().read() != 0 {
            return leave_written(p);
        }
        front::free16(p);
    }
}

/// [`leave`] of a block that somebody wrote to.
///
/// # Safety
/// As [`leave`].
#[cold]
#[inline(never)]
unsafe fn leave_written(p: *mut u8) {
    // SAFETY: the block is nobody's.
    unsafe {
        check_waited(p, 8);
        front::free16(p);
    }
}

/// Checks that nobody wrote to the first `bytes` of a block while it waited. The first word is a
/// link next. The others are checked when the block is handed out.
///
/// # Safety
/// The block waited in the quarantine of this thread.
pub(super) unsafe fn check_waited(p: *mut u8, bytes: usize) {
    if !has::CHECK {
        return;
    }
    let Some(meta) = page::lookup(p) else { return };
    let room = meta.head_of_block().block_size.get() as usize;
    // SAFETY: the block is this thread's, and has `room` bytes.
    unsafe {
        if wipe::written(p, 0, bytes.min(room)).is_some() {
            overwritten(p, room, 0);
        }
    }
}
