//! What is above the table: two panels with curves, or where there is no room for these, lines with
//! the most important figures.

use super::batch::{self, Total};
use super::rates::History;
use super::short::{bytes, count, rate, time};
use super::tables::ACTIVITY;
use crate::columns::{Table, first_that_fits, flow};
use crate::stat::figures::Moment;
use crate::view::Reading;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Sparkline};

/// Points for so many columns, the newest at the right end of what there is.
fn last(points: &[u64], width: u16) -> &[u64] {
    &points[points.len().saturating_sub(usize::from(width))..]
}

fn curve(frame: &mut Frame, area: Rect, points: &[u64], colour: Color) {
    let curve = Sparkline::default()
        .data(last(points, area.width))
        .style(Style::new().fg(colour));
    frame.render_widget(curve, area);
}

/// The range of what is drawn.
fn range(points: &[u64], width: u16, text: fn(u64) -> String) -> String {
    let most = last(points, width).iter().max().copied().unwrap_or(0);
    format!("0 to {}", text(most))
}

pub fn draw(frame: &mut Frame, area: Rect, reading: &Reading, history: &History) {
    let halves = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]);
    let [left, right] = halves.areas(area);
    activity(frame, left, reading, history);
    memory(frame, right, reading, history);
}

fn activity(frame: &mut Frame, area: Rect, reading: &Reading, history: &History) {
    let width = area.width.saturating_sub(2);
    let range = range(&history.allocations, width, count);
    let span = time(history.span(width.into()));
    let label = first_that_fits(
        &[
            format!(" allocations a second: {range}, last {span} "),
            format!(" allocations/s: {range}, last {span} "),
            format!(" allocs/s: {range}, last {span} "),
            format!(" allocations/s: {range} "),
        ],
        width.into(),
    );
    let block = Block::bordered().title(" activity ").title_bottom(label);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let graph = if area.height < 14 { 1 } else { 2 };
    let [list, graph] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(graph)]).areas(inner);
    let per_second = |total: &Total| match total {
        Total::Count(n, per_second) => (count(*n), rate(*per_second)),
        Total::Bytes(n, per_second) => (bytes(*n), per_second.map_or("-".into(), bytes)),
        Total::Part(all, now) => (all.clone(), now.clone()),
    };
    let rows = batch::totals(reading, history.rates.as_ref());
    let rows = rows.iter().map(|(name, total)| {
        let (all, now) = per_second(total);
        vec![(*name).to_owned(), all, now]
    });
    let table = Table {
        columns: &ACTIVITY,
        rows: rows.collect(),
        names: true,
    };
    let lines = table.lines(list.width.into()).into_iter().enumerate();
    let dim = |(i, line): (usize, String)| if i == 0 { line.dim() } else { line.into() };
    let lines: Vec<Line> = lines.map(dim).map(Line::from).collect();
    frame.render_widget(Paragraph::new(lines), list);
    curve(frame, graph, &history.allocations, Color::Cyan);
}

/// Of a bar's name and number.
const NAME: usize = 12;
const NUMBER: usize = 9;

/// A size, or what stands for one that is not known.
fn size(bytes_of: Option<u64>) -> String {
    bytes_of.map_or("-".into(), bytes)
}

/// What is resident of hakmem's memory. Where blocks are live, something is.
fn in_arenas(m: &Moment) -> Option<u64> {
    (m.resident_bytes > 0 || m.live_bytes == 0).then_some(m.resident_bytes)
}

/// What is resident of the process. Nothing is of none that runs.
fn in_process(reading: &Reading) -> Option<u64> {
    let bytes = reading.usage.resident_bytes;
    (bytes > 0).then_some(bytes)
}

/// A part of `whole`, as a bar with its name and size; of one that is not known the bar is empty.
fn bar<'a>(name: &str, part: Option<u64>, whole: u64, width: u16, colour: Color) -> Line<'a> {
    let room = usize::from(width).saturating_sub(NAME + NUMBER + 2) as u64;
    let filled = u128::from(part.unwrap_or(0)) * u128::from(room);
    let filled = filled.checked_div(whole.into()).unwrap_or(0);
    let filled = filled.min(room.into()) as u64;
    Line::from(vec![
        Span::raw(format!("{name:<NAME$}{:>NUMBER$}  ", size(part))),
        Span::styled("█".repeat(filled as usize), Style::new().fg(colour)),
        Span::styled("·".repeat((room - filled) as usize), Modifier::DIM),
    ])
}

fn memory(frame: &mut Frame, area: Rect, reading: &Reading, history: &History) {
    let m = &reading.moment;
    let graph = if area.height < 14 { 1 } else { 2 };
    // Each curve has half of the panel.
    let half = (area.width.saturating_sub(2) / 2).saturating_sub(1);
    let span = time(history.span(half.into()));
    let block = Block::bordered()
        .title(" memory ")
        .title_bottom(format!(" curves: last {span} "));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let [bars, labels, graph] = Layout::vertical([
        Constraint::Fill(1),
        Constraint::Length(1),
        Constraint::Length(graph),
    ])
    .areas(inner);
    let whole = m.committed_bytes.max(reading.usage.resident_bytes);
    let line = |name, part, colour| bar(name, part, whole, inner.width, colour);
    let mut text = vec![
        line("live", Some(m.live_bytes), Color::Green),
        line("resident", in_arenas(m), Color::Cyan),
        line("process", in_process(reading), Color::Blue),
        line("committed", Some(m.committed_bytes), Color::DarkGray),
        line("free, kept", Some(m.dirty_bytes), Color::Yellow),
        line("huge pages", Some(m.thp_bytes), Color::Magenta),
        line(
            "peak at most",
            Some(m.peak_live_bytes_upper_bound),
            Color::DarkGray,
        ),
        Line::from(format!(
            "{:<NAME$}{:>NUMBER$}",
            "given back",
            bytes(m.purged_bytes)
        )),
    ];
    if m.hard_limit_bytes > 0 || m.refused > 0 {
        // A terminal of 24 lines has room for eight.
        let said = Line::from(format!(
            "{:<NAME$}{:>NUMBER$}, {} refused",
            "hard limit",
            size((m.hard_limit_bytes > 0).then_some(m.hard_limit_bytes)),
            count(m.refused)
        ));
        text.insert(4, said);
    }
    frame.render_widget(Paragraph::new(text), bars);
    for (name, short, points, colour, x) in [
        ("live", "live", &history.live, Color::Green, 0),
        ("resident", "res.", &history.resident, Color::Cyan, half + 2),
    ] {
        let range = match (name, in_arenas(m)) {
            ("resident", None) => size(None),
            _ => range(points, half, bytes),
        };
        let texts = [format!("{name}: {range}"), format!("{short} {range}")];
        let label = first_that_fits(&texts, half.into());
        let part = |area: Rect| Rect {
            x: area.x + x,
            width: half,
            ..area
        };
        frame.render_widget(Line::from(label).dim(), part(labels));
        curve(frame, part(graph), points, colour);
    }
}

/// The figures in lines, the most important ones first.
pub fn lines(reading: &Reading, history: &History, width: usize, most: usize) -> Vec<String> {
    let (m, rates) = (&reading.moment, history.rates.as_ref());
    let totals = batch::totals(reading, rates);
    let mut items = vec![
        format!("live {}", bytes(m.live_bytes)),
        format!("resident {}", size(in_arenas(m))),
        format!("allocs/s {}", rate(rates.map(|r| r.allocations))),
        format!("process {}", size(in_process(reading))),
        format!("free, kept {}", bytes(m.dirty_bytes)),
        format!("peak at most {}", bytes(m.peak_live_bytes_upper_bound)),
    ];
    items.extend(totals.iter().map(|(name, total)| match total {
        Total::Count(n, _) => format!("{name} {}", count(*n)),
        Total::Bytes(n, _) => format!("{name} {}", bytes(*n)),
        Total::Part(all, _) => format!("{name} {all}"),
    }));
    items.push(format!("committed {}", bytes(m.committed_bytes)));
    items.push(format!("huge pages {}", bytes(m.thp_bytes)));
    flow(&items, width, most)
}
