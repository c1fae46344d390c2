//! One row of the picture: the slots of a segment, or a huge block.

use super::model::{Content, Map, Page, PageState, Segment, Slot};
use super::totals;
use crate::checked;
use crate::stat::table::percent;
use crate::summary::{bytes, grouped};
use std::fmt::Write;

/// Where rows go and how large their parts are, in pixels.
#[derive(Debug, Clone, Copy)]
pub struct Grid {
    pub left: f64,
    /// From one row to the next, and from one slot to the next.
    pub row: f64,
    pub slot: f64,
    /// Of a slot, without the gap.
    pub height: f64,
    /// Room for the address, in front.
    pub label: f64,
}

/// Room for the line that says what is resident, below the slots.
const LINE: f64 = 2.0;
/// Pieces of 4 KiB in a slot.
const PIECES: f64 = 16.0;

/// A number with no more digits than can be seen.
pub fn px(n: f64) -> String {
    let text = format!("{n:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

pub fn rect(class: &str, x: f64, y: f64, width: f64, height: f64) -> String {
    format!(
        r#"<path class="{class}" d="M{} {}h{}v{}h-{}z"/>"#,
        px(x),
        px(y),
        px(width),
        px(height),
        px(width)
    )
}

/// The row of `segment`, at `y`.
pub fn row(map: &Map, segment: &Segment, classes: &[u32], grid: Grid, y: f64) -> String {
    let mut svg = String::new();
    let (used, resident) = totals::of_segment(map, segment);
    let address = segment.address.trim_start_matches("0x");
    let short = &address[address.len().saturating_sub(8)..];
    let base = y + grid.height - 1.0;
    let x = grid.left + grid.label;
    if grid.row >= 10.0 {
        let class = if segment.thp { "l h" } else { "l" };
        let _ = write!(
            svg,
            r#"<text class="{class}" x="{}" y="{}">{}</text>"#,
            px(x - 6.0),
            px(base - 1.0),
            super::draw::escape(short)
        );
        let end = x + grid.slot * slots(map) as f64 + 4.0;
        let share = resident.map_or(String::new(), |r| percent(used.min(r), r));
        let _ = write!(
            svg,
            r#"<text class="r" x="{}" y="{}">{share}</text>"#,
            px(end),
            px(base - 1.0)
        );
    }
    if segment.thp {
        svg += &rect("hb", x - 4.0, y, 2.0, grid.height + LINE);
    }
    match segment.huge {
        Some(span) => svg += &huge(map, segment, span.into(), grid, x, y),
        None => {
            let mut slots = segment.slots.iter().peekable();
            while let Some(slot) = slots.next() {
                let mut slot = slot.clone();
                // Neighbours without blocks are drawn as one.
                while let Some(next) = slots.next_if(|n| is_plain(n) && n.content == slot.content) {
                    slot.span = next.slot + next.span - slot.slot;
                }
                svg += &run(map, segment, &slot, classes, grid, x, y);
            }
            svg += &resident_line(segment, grid, x, y);
        }
    }
    svg.push('\n');
    svg
}

fn slots(map: &Map) -> u64 {
    map.segment_bytes / map.slot_bytes
}

fn is_plain(slot: &Slot) -> bool {
    matches!(
        slot.content,
        Content::Clean | Content::Dirty | Content::Kept
    )
}

/// How much of each slot is resident, as one path.
fn resident_line(segment: &Segment, grid: Grid, x: f64, y: f64) -> String {
    let Some(resident) = &segment.resident else {
        return String::new();
    };
    let mut path = String::new();
    let mut i = 0;
    while i < resident.len() {
        let from = i;
        // Whole slots run into each other.
        while i < resident.len() && f64::from(resident[i]) >= PIECES {
            i += 1;
        }
        let mut width = (i - from) as f64 * grid.slot;
        if i < resident.len() {
            width += f64::from(resident[i]) / PIECES * (grid.slot - 2.0);
            i += 1;
        }
        if width > 0.0 {
            let _ = write!(
                path,
                "M{} {}h{}",
                px(x + from as f64 * grid.slot),
                px(y + grid.height + LINE / 2.0),
                px(width)
            );
        }
    }
    format!(r#"<path class="res" d="{path}"/>"#)
}

fn huge(map: &Map, segment: &Segment, span: u64, grid: Grid, x: f64, y: f64) -> String {
    let width = slots(map) as f64 * grid.slot - 2.0;
    let (all, resident) = (
        span * map.segment_bytes,
        segment.resident_bytes.unwrap_or(0),
    );
    let share = resident as f64 / all.max(1) as f64;
    let reserve = match segment.reserve.unwrap_or(0) {
        0 => String::new(),
        n => format!(
            "; {} kept to grow into",
            bytes(u64::from(n) * map.segment_bytes)
        ),
    };
    let title = format!(
        "huge: {} segments, {}, of which {} are resident{reserve}{}",
        span,
        bytes(all),
        bytes(resident),
        of_heap(segment.heap.as_deref())
    );
    let mut svg = format!("<g><title>{title}</title>");
    svg += &rect("w", x, y, width, grid.height);
    svg += &rect("wr", x, y, width * share.min(1.0), grid.height);
    if grid.row >= 10.0 {
        let _ = write!(
            svg,
            r#"<text class="wt" x="{}" y="{}">{} × {}</text>"#,
            px(x + 6.0),
            px(y + grid.height - 3.0),
            span,
            bytes(map.segment_bytes)
        );
    }
    svg + "</g>"
}

fn run(
    map: &Map,
    segment: &Segment,
    slot: &Slot,
    classes: &[u32],
    grid: Grid,
    x: f64,
    y: f64,
) -> String {
    let x = x + f64::from(slot.slot) * grid.slot;
    let (width, height) = (f64::from(slot.span) * grid.slot - 2.0, grid.height);
    let size = bytes(u64::from(slot.span) * map.slot_bytes);
    let plain = |class: &str, title: String| {
        format!(
            "<g><title>{title}</title>{}</g>",
            rect(class, x, y, width, height)
        )
    };
    let heap = of_heap(slot.heap.as_deref());
    match &slot.content {
        Content::Clean => plain("u", format!("clean: {size} without memory")),
        Content::Dirty => plain("e", format!("free, not given back: {size}")),
        Content::Kept => plain("k", format!("kept for what comes next: {size}")),
        Content::Large => plain("lg", format!("large block: {size}{heap}")),
        Content::Page(page) => {
            let number = classes.binary_search(&page.size).unwrap_or(0);
            let resident = segment.resident.as_ref().map(|r| {
                let here = r.iter().skip(slot.slot.into()).take(slot.span.into());
                here.map(|&n| u64::from(n) * 4096).sum()
            });
            let title = of_page(page, u64::from(slot.span) * map.slot_bytes, resident) + &heap;
            let mut svg = format!(r#"<g class="c{number}"><title>{title}</title>"#);
            svg += &rect("p", x + 0.5, y + 0.5, width - 1.0, height - 1.0);
            let share = |n: u32| {
                f64::from(n) * f64::from(page.size) / (u64::from(slot.span) * map.slot_bytes) as f64
            };
            let (carved, out) = (share(page.carved) * height, share(page.used) * height);
            if page.carved > page.used {
                svg += &rect("f", x, y + height - carved, width, carved - out);
            }
            if page.used > 0 {
                // What is there at all can be seen.
                let out = out.max(0.8);
                svg += &rect("o", x, y + height - out, width, out);
            }
            if page.state == PageState::Parked {
                let _ = write!(
                    svg,
                    r#"<path class="s" d="M{} {}l5 0l-5 5z"/>"#,
                    px(x),
                    px(y)
                );
            }
            svg + "</g>"
        }
    }
}

fn of_page(page: &Page, all: u64, resident: Option<u64>) -> String {
    let mut title = format!(
        "{}: {} of {} blocks out, {} touched",
        bytes(page.size.into()),
        grouped(page.used.into()),
        grouped(page.blocks.into()),
        grouped(page.carved.into())
    );
    if let Some(resident) = resident.filter(|&r| r < all) {
        let _ = write!(title, "; {} of {} resident", bytes(resident), bytes(all));
    }
    title += match page.state {
        PageState::Full => "; full",
        PageState::Retired => "; empty, the only one of its size",
        PageState::Candidate => "; few used, about to be parked",
        PageState::Parked => "; few used, parked",
        PageState::Queue | PageState::Program | PageState::Other => "",
    };
    title
}

/// Which heap of the program has it, for a title. Empty: none.
fn of_heap(heap: Option<&str>) -> String {
    let Some(name) = heap else {
        return String::new();
    };
    let name = if name.is_empty() {
        "without a name"
    } else {
        name
    };
    let name = super::draw::escape(&checked::name(name));
    format!("; of the program's heap {name}")
}
