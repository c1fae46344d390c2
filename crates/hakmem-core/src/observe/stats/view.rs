//! The note: where the figures lie in memory, for a reader in another process. `hakmem top` and
//! `hakmem map` read them by `process_vm_readv`.
//!
//! `hakmem profile --pid` also writes three words, by the rules of `profile::outside`.
//! The process that is read does nothing for it: it keeps no copy up to date, and needs no thread
//! and no signal. It may be idle or stopped. A reader need not know how this version of the
//! allocator is built, but only the names in the note. The note is an ELF note of the executable or
//! the shared library, `.note.hakmem`. The linker fills it in, and the program never touches it. So
//! it costs address space in the file's map, and no memory.
//!
//! ```text
//! owner "hakmem", type 1; then for each entry:  name, NUL, eight bytes
//!     @name   an address, wherever the file is mapped: the eight bytes hold its distance from them
//!     name    a number: a size, an offset in a struct, a constant
//! ```
//!
//! Rules
//! 1. If the note lacks a name that a reader needs, the reader is for another version.
//! 2. The numbers of `Kind`, `PageState` and `heap_state` belong to the note's type. The type rises
//!    when one of these numbers changes.
//! 3. One thread writes each counter, and any process may read it. A read gives a value that the
//!    counter had. All values fit together only if the program stands still.

#[cfg(not(any(miri, shuttle)))]
mod note {
    use crate::backend::arena::{self, Arena, Group};
    use crate::backend::list::List;
    use crate::backend::page::Meta;
    use crate::backend::{foreign, held, owner, segment};
    use crate::base::size_class::{CLASSES, FIRST_LONG, SIZES};
    use crate::base::usage;
    use crate::harden::key;
    use crate::heap::counts::{self, Before, EVENTS, HeapEvent};
    use crate::heap::peak;
    use crate::heap::reclaim::parked;
    use crate::heap::{self, Heap};
    use crate::large::huge;
    use crate::policy::learner::What;
    use crate::policy::learner::decisions::{self, Field};
    use crate::profile::outside::{self, Asked};
    use crate::profile::table::{Books, Bucket};
    use crate::program::{ProgramHeap, registry};
    use crate::{large, os, policy, profile, purge};
    use core::mem::offset_of;

    /// So much of a program heap has the figures.
    const PROGRAM_HEAP_BYTES: usize = 512;
    const _: () = assert!(offset_of!(ProgramHeap, limit) + 8 <= PROGRAM_HEAP_BYTES);

    macro_rules! note {
        ($($place:literal: $static:path,)* ; $($name:literal: $number:expr,)*) => {
            core::arch::global_asm!(
                ".pushsection .note.hakmem,\"a\",%note",
                ".globl __hakmem_note_v0",
                ".hidden __hakmem_note_v0",
                ".p2align 2",
                "__hakmem_note_v0:",
                ".4byte 7, 3f - 2f, 1",
                ".asciz \"hakmem\"",
                ".p2align 2",
                "2:",
                $(concat!(".asciz \"@", $place, "\"\n.8byte {} - ."),)*
                $(concat!(".asciz \"", $name, "\"\n.8byte {}"),)*
                "3:",
                ".p2align 2",
                ".popsection",
                $(sym $static,)*
                $(const $number,)*
            );
        };
    }

    note! {
        "heaps": heap::all::ALL,
        "heaps_made": owner::HEAPS,
        "moved": counts::MOVED,
        "before": counts::BEFORE,
        "sizes": SIZES,
        "live": usage::LIVE,
        "peak_live": usage::PEAK,
        "peak_of_class": peak::BYTES,
        "heapless_frees": heap::HEAPLESS,
        "stray_large_frees": large::HEAPLESS,
        "parked_returned": parked::RETURNED,
        "parked_given": parked::GIVEN,
        "parked_whole": parked::WHOLE,
        "parked_received": parked::RECEIVED,
        "parked_fresh_slots": parked::FRESH_SLOTS,
        "dirty": segment::TOTALS,
        "purged": purge::PURGED,
        "held": held::HELD,
        "refused": held::REFUSED,
        "huge_cached": huge::CACHED,
        "huge_live": usage::HUGE,
        "huge_allocated": huge::HANDED,
        "huge_returned": huge::RETURNED,
        "huge_hits": huge::HITS,
        "foreign_frees": foreign::COUNT,
        "syscalls": os::COUNTERS,
        "program_heaps": registry::ALL,
        "arenas": arena::ARENAS,
        "arena_count": arena::COUNT,
        "reserved": arena::RESERVED,
        "committed": arena::COMMITTED,
        "decisions": decisions::JOURNAL,
        "links.key": key::KEY,
        "filter.made": os::FILTERED,
        "filter.seen": os::SEES_FILTERS,
        "filter.inherited": os::INHERITED,
        "profile.run": profile::RUN,
        "profile.asked": outside::ASKED,
        "profile.shown": outside::SHOWN,
        "profile.books": profile::table::BOOKS,
        "profile.code": profile::stop,
        "option.MODE": policy::MODE,
        "option.CARVE_BYTES": policy::CARVE_BYTES,
        "option.UNFULL_FRACTION": policy::UNFULL_FRACTION,
        "option.CACHED_PAGES": policy::CACHED_PAGES,
        "option.PARK_BLOCKS": policy::PARK_BLOCKS,
        "option.SHARED_FROM_HEAPS": policy::SHARED_FROM_HEAPS,
        "option.BATCH_BYTES": policy::BATCH_BYTES,
        "option.BATCH_BY_PAGE": policy::BATCH_BY_PAGE,
        "option.POPULATE_FROM_PAGES": policy::POPULATE_FROM_PAGES,
        "option.THP": policy::THP,
        "option.THP_FROM_SEGMENTS": policy::THP_FROM_SEGMENTS,
        "option.DECAY_MS": policy::DECAY_MS,
        "option.SCAVENGER": policy::SCAVENGE_MIB,
        "option.SURPLUS_MIB": policy::SURPLUS_MIB,
        "option.HUGE_CACHE_MIB": policy::HUGE_CACHE_MIB,
        "option.HUGE_CACHE_PERCENT": policy::HUGE_CACHE_PERCENT,
        "option.SOFT_LIMIT_MIB": policy::SOFT_LIMIT_MIB,
        "option.HARD_LIMIT_MIB": policy::HARD_LIMIT_MIB,
        "option.LIMIT_PERCENT": policy::LIMIT_PERCENT,
        "option.PRESSURE_PERCENT": policy::PRESSURE_PERCENT,
        "option.FOREIGN": policy::FOREIGN,
        "option.HARDENED": policy::HARDENED,
        "option.ON_ERROR": policy::ON_ERROR,
        "option.GUARD_SAMPLE": policy::GUARD_SAMPLE,
        "option.FOREIGN_REPORT": policy::FOREIGN_REPORT,
        "option.PROFILE_INTERVAL": policy::PROFILE_INTERVAL,
        ;
        "filter.none_inherited": os::NO_FILTER_INHERITED as usize,
        "hardened": cfg!(feature = "hardened") as usize,
        "classes": CLASSES,
        "events": EVENTS,
        "half": counts::HALF,
        "slot_bytes": arena::SLOT,
        "segment_bytes": arena::SEGMENT,
        "meta_bytes": size_of::<Meta>(),
        "heap_bytes": size_of::<Heap>(),
        "arena_bytes": size_of::<Arena>(),
        "group_bytes": size_of::<Group>(),
        "before_bytes": size_of::<Before>(),
        "syscall_kinds": os::KINDS,
        "syscall_bytes": size_of::<os::Counter>(),
        "syscall.mmap": os::Kind::Mmap as usize,
        "syscall.mprotect": os::Kind::Mprotect as usize,
        "syscall.madvise": os::Kind::Madvise as usize,
        "syscall.mremap": os::Kind::Mremap as usize,
        "syscall.pagemap": os::Kind::Pagemap as usize,
        "syscall.futex": os::Kind::Futex as usize,
        "syscall.clone": os::Kind::Clone as usize,
        "syscall.query": os::Kind::Query as usize,
        "decisions_kept": decisions::KEPT,
        "decisions.made": decisions::MADE,
        "decisions.records": decisions::RECORDS,
        "decision_bytes": decisions::BYTES,
        "decision.number": decisions::NUMBER,
        "decision.time": Field::Time.offset(),
        "decision.option": Field::Option.offset(),
        "decision.at_ms": Field::AtMs.offset(),
        "decision.from": Field::From.offset(),
        "decision.to": Field::To.offset(),
        "decision.round_ms": Field::RoundMs.offset(),
        "decision.from_fault_us": Field::FromFaultUs.offset(),
        "decision.from_hold_us": Field::FromHoldUs.offset(),
        "decision.to_fault_us": Field::ToFaultUs.offset(),
        "decision.to_hold_us": Field::ToHoldUs.offset(),
        "decision.from_rating": Field::FromRating.offset(),
        "decision.to_rating": Field::ToRating.offset(),
        "learnt.DECAY_MS": What::Decay as usize,
        "learnt.HUGE_CACHE_MIB": What::HugeCache as usize,
        "profile.switch": outside::SWITCH,
        "asked.interval": offset_of!(Asked, interval),
        "asked.last": offset_of!(Asked, last),
        "shown.record": outside::RECORD,
        "shown.buckets": outside::BUCKETS,
        "shown.bucket_count": outside::BUCKETS + 8,
        "shown.frames": outside::FRAMES,
        "shown.frame_count": outside::FRAMES + 8,
        "books.lost": offset_of!(Books, lost),
        "bucket_bytes": size_of::<Bucket>(),
        "bucket.first_frame": offset_of!(Bucket, first_frame),
        "bucket.frames": offset_of!(Bucket, frames),
        "bucket.size": offset_of!(Bucket, size),
        "bucket.interval": offset_of!(Bucket, interval),
        "bucket.taken": offset_of!(Bucket, taken),
        "bucket.freed": offset_of!(Bucket, freed),
        "event.listed": HeapEvent::Listed as usize,
        "event.takes": HeapEvent::Takes as usize,
        "event.carves": HeapEvent::Carves as usize,
        "event.filled": HeapEvent::Filled as usize,
        "event.unfulled": HeapEvent::Unfulled as usize,
        "event.claims": HeapEvent::Claims as usize,
        "event.reuses": HeapEvent::Reuses as usize,
        "event.empties": HeapEvent::Empties as usize,
        "event.received": HeapEvent::Received as usize,
        "before.blocks": offset_of!(Before, blocks),
        "before.pages": offset_of!(Before, pages),
        "before.full": offset_of!(Before, full),
        "first_long": FIRST_LONG,
        "list_bytes": size_of::<List>(),
        "list.until_slow": offset_of!(List, until_slow),
        "list.most": offset_of!(List, most),
        "heap.lists": offset_of!(Heap, owner.front.lists),
        "heap.reused": offset_of!(Heap, counts.reused),
        "heap.next": offset_of!(Heap, next_heap),
        "heap.state": offset_of!(Heap, state),
        "heap.existing": offset_of!(Heap, counts.existing),
        "heap.events": offset_of!(Heap, counts.events),
        "heap.moved": offset_of!(Heap, counts.moved),
        "heap.next_pages": offset_of!(Heap, counts.next_pages),
        "heap.unparked": offset_of!(Heap, counts.unparked),
        "heap.merges": offset_of!(Heap, counts.merges),
        "heap.live": offset_of!(Heap, live),
        "heap.large_fresh": offset_of!(Heap, counts.large_fresh),
        "heap.large_hits": offset_of!(Heap, counts.large_hits),
        "heap.large_freed": offset_of!(Heap, counts.large_freed),
        "heap.huge_hits": offset_of!(Heap, huge.hits),
        "heap.huge_puts": offset_of!(Heap, huge.puts),
        "heap.huge_kept": offset_of!(Heap, huge.kept),
        "heap.huge_allowed": offset_of!(Heap, huge.allowed),
        "heap.sent": offset_of!(Heap, outgoing.sent),
        "heap.batches_sent": offset_of!(Heap, outgoing.batches_sent),
        "heap.chains_sent": offset_of!(Heap, outgoing.chains_sent),
        "program_heap_bytes": PROGRAM_HEAP_BYTES,
        "program.next": offset_of!(ProgramHeap, next),
        "program.state": offset_of!(ProgramHeap, state),
        "program.limit": offset_of!(ProgramHeap, limit),
        "program.name": offset_of!(ProgramHeap, figures.name),
        "program.live": offset_of!(ProgramHeap, figures.live),
        "program.peak": offset_of!(ProgramHeap, figures.peak),
        "program.allocations": offset_of!(ProgramHeap, figures.allocations),
        "program.frees": offset_of!(ProgramHeap, figures.frees),
        "program.refused": offset_of!(ProgramHeap, figures.refused),
        "program.held": offset_of!(ProgramHeap, figures.held),
        "program.reserved": offset_of!(ProgramHeap, figures.reserved),
        "program.in_pages": offset_of!(ProgramHeap, figures.in_pages),
        "meta.heap": offset_of!(Meta, remote_link),
        "meta.owner": offset_of!(Meta, owner_word),
        "meta.list.until_slow": offset_of!(Meta, list.until_slow),
        "meta.carved": offset_of!(Meta, carved),
        "meta.cap": offset_of!(Meta, cap),
        "meta.block_size": offset_of!(Meta, block_size),
        "meta.class": offset_of!(Meta, class),
        "meta.state": offset_of!(Meta, state),
        "meta.park_at": offset_of!(Meta, park_at),
        "meta.unfull_at": offset_of!(Meta, unfull_at),
        "meta.kind": offset_of!(Meta, kind),
        "meta.span": offset_of!(Meta, span),
        "meta.reserve": offset_of!(Meta, reserve),
        "meta.slots": offset_of!(Meta, segment.slots),
        "meta.thp": offset_of!(Meta, segment.thp),
        "arena.data": offset_of!(Arena, data),
        "arena.groups": offset_of!(Arena, groups),
        "arena.metas": offset_of!(Arena, metas),
        "arena.top": offset_of!(Arena, top),
        "arena.reserved": offset_of!(Arena, reserved),
        "arena.summary": offset_of!(Arena, summary),
        "summary.full": arena::FULL_ROW,
        "group.used": offset_of!(Group, used),
        "segments_of_group": arena::GROUP,
    }
}
