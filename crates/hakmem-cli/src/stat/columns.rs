//! The columns of the tables. Where there is not room for all of a table, the one with the highest
//! number is the first that is left out.

use crate::columns::{Column, column};

pub const CLASSES: [Column; 12] = [
    column("size", "size", 0),
    column("allocations", "allocs", 3),
    column("frees", "frees", 7),
    column("by others", "remote", 8),
    column("list hits", "hits", 2),
    column("taken", "taken", 9),
    column("carved", "carved", 10),
    column("full/unfull", "full/unfull", 11),
    column("pages", "pages", 5),
    column("live", "live", 1),
    column("unused", "unused", 4),
    column("at peak", "peak", 6),
];

pub const HEAPS: [Column; 13] = [
    column("heap", "heap", 0),
    column("now", "now", 2),
    column("listed", "listed", 1),
    column("taken", "taken", 5),
    column("carved", "carved", 6),
    column("next page", "next", 9),
    column("unparked", "unparked", 11),
    column("cached", "cached", 10),
    column("new pages", "new", 7),
    column("merges", "merges", 8),
    column("received", "in", 3),
    column("sent", "out", 4),
    column("in batches/chains", "batches/chains", 12),
];

/// Of the heaps that the program made.
pub const PROGRAMS: [Column; 9] = [
    column("name", "name", 0),
    column("live", "live", 1),
    column("at peak", "peak", 3),
    column("limit", "limit", 2),
    column("refused", "refused", 4),
    column("allocations", "allocs", 5),
    column("frees", "frees", 6),
    column("memory", "memory", 7),
    column("reserved", "reserved", 8),
];

pub const CALLS: [Column; 5] = [
    column("call", "call", 0),
    column("calls", "calls", 1),
    column("failed", "failed", 3),
    column("time", "time", 2),
    column("of the processor time", "share", 4),
];

/// Of the code that frees pointers that are not hakmem's.
pub const SITES: [Column; 2] = [column("code at", "code at", 0), column("frees", "frees", 1)];
