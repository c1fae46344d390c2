//! The checks of a pointer that the program passes: does a live block start there, and is all that
//! surrounds it as hakmem wrote it?
//!
//! Rules
//! 1. The pointer may be wrong. So each word is checked before it is used (`hardened` rule 1).
//! 2. `checked` reports a block that does not pass, and the caller leaves it alone (`hardened` rule
//!    2). An overflow is reported once (`told`).

use super::told;
use crate::api::front;
use crate::backend::check::{self, written_before, wrong};
use crate::backend::page::{Kind, Meta};
use crate::base::size_class;
use crate::harden::tag::{self, Origin, Tag};
use crate::harden::{fence, has};
use crate::{profile, program};

/// A live block that passed its checks.
pub struct Live {
    /// Its bytes, with pad and tag.
    pub room: usize,
    /// The bytes that were asked for.
    pub size: usize,
    /// The metadata of its slot, if it is a block of a page with an owner.
    pub(super) in_page: Option<&'static Meta>,
    /// True for a sample of the profile, and for a block of a program heap.
    pub(super) is_apart: bool,
}

/// Checks the block at `p`, in the slot of `meta`. None: it did not pass, and that was reported.
///
/// # Safety
/// If a live block starts at `p`, it is the caller's (rule 1).
#[inline(always)]
pub unsafe fn checked(
    p: *mut u8,
    meta: &'static Meta,
    by: Option<(Origin, Option<usize>)>,
) -> Option<Live> {
    let head = meta.head_of_block();
    let in_page = !head.owner().is_null();
    // A page without a used block has no owner, until its heap needs it again or gives it up.
    let of_class = in_page || matches!(head.kind(), Kind::Page | Kind::Sampled | Kind::ProgramPage);
    if !in_page && fence::has(p) {
        wrong(p, format_args!("double free or use after free of {p:p}, a large block"));
        return None;
    }
    let room = if of_class {
        let offset = p.addr() - head.start().addr();
        let room = head.block_size.get() as usize;
        if !size_class::is_start(head.class.get(), offset as u32) || offset + room > head.bytes() {
            check::no_start(p, meta);
            return None;
        }
        room
    } else {
        front::size_of_whole(p, meta)
    };
    // SAFETY: a block of `room` bytes starts at `p`, in a page or slots that are in use. So its
    // words are readable, whoever has it (rule 1).
    let tag = unsafe { tag::read(p, room) };
    let Tag::Live(size, origin) = tag else {
        match (tag, by) {
            (Tag::Free, None) => {
                wrong(p, format_args!("use after free of {p:p}, a block of {room} bytes"))
            }
            _ => bad_tag(p, room, tag),
        }
        return None;
    };
    // SAFETY: the tag says that the block is live, so the caller has it.
    if unsafe { !tag::is_pad_kept(p, room, size) } {
        overflowed(p, room, size);
        return None;
    }
    if has::NEIGHBOUR && in_page && p.addr() >= head.start().addr() + room {
        let before = p.wrapping_sub(room);
        // SAFETY: a block of the page starts there, and its last word is readable.
        if unsafe { tag::read(before, room) } == Tag::Broken {
            if told::is_first(before) {
                written_before(
                    p,
                    format_args!(
                        "write in front of {p:p}, a block of {size} bytes, or beyond {before:p}"
                    ),
                );
            }
            return None;
        }
    }
    if let Some((by, wanted)) = by
        && (by != origin || wanted.is_some_and(|wanted| wanted != size))
        && !origin.may_be_freed_by(by)
    {
        mismatch(p, size, origin, by, wanted);
        return None;
    }
    Some(Live {
        room,
        size,
        in_page: in_page.then_some(meta),
        is_apart: profile::is_sample(head.kind()) || program::has(head.kind()),
    })
}

#[cold]
#[inline(never)]
pub(super) fn overflowed(p: *mut u8, room: usize, size: usize) {
    if !told::is_first(p) {
        return;
    }
    // SAFETY: the tag says that the block is live, so the caller has it.
    let over = unsafe { tag::overflow(p, room, size) };
    written_before(
        p,
        format_args!("overflow by {over} bytes or more behind {p:p}, a block of {size} bytes"),
    );
}

#[cold]
#[inline(never)]
pub(super) fn bad_tag(p: *mut u8, room: usize, tag: Tag) {
    match tag {
        Tag::Free => wrong(p, format_args!("double free of {p:p}, a block of {room} bytes")),
        _ if told::is_first(p) => written_before(
            p,
            format_args!(
                "overflow at {p:p}, a block of up to {} bytes: its end was overwritten",
                room - tag::BYTES
            ),
        ),
        _ => {}
    }
}

#[cold]
#[inline(never)]
fn mismatch(p: *mut u8, size: usize, origin: Origin, by: Origin, wanted: Option<usize>) {
    let what = by.freed_by();
    match (wanted, by.align(), origin.align()) {
        (Some(wanted), ..) if by == origin => {
            wrong(
                p,
                format_args!("wrong size {wanted} at {what} of {p:p}, a block of {size} bytes"),
            );
        }
        (_, Some(wanted), Some(align)) => {
            wrong(
                p,
                format_args!(
                    "wrong alignment {wanted} at {what} of {p:p}, \
                     a block with the alignment {align}"
                ),
            );
        }
        _ => wrong(
            p,
            format_args!("{what} of {p:p}, a block of {size} bytes from {}", origin.made_by()),
        ),
    }
}
