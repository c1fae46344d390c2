//! What the terminal shows: who is watched, what it does, its memory, and a table.

use super::batch;
use super::rates::{History, Rates};
use super::tables::{self, Order};
use crate::summary::bytes;
use crate::view::Look;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Row, Sparkline, Table};

/// Tables that can be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    Classes,
    Heaps,
    Calls,
    Decisions,
}

impl Page {
    pub const ALL: [Self; 4] = [Self::Classes, Self::Heaps, Self::Calls, Self::Decisions];

    fn name(self) -> &'static str {
        match self {
            Self::Classes => "classes",
            Self::Heaps => "heaps",
            Self::Calls => "system calls",
            Self::Decisions => "decisions",
        }
    }

    pub fn next(self) -> Self {
        let at = Self::ALL.iter().position(|&p| p == self).unwrap_or(0);
        Self::ALL[(at + 1) % Self::ALL.len()]
    }
}

/// What the one who watches has chosen, and what there is to say.
pub struct State {
    pub page: Page,
    pub order: Order,
    pub scroll: usize,
    pub paused: bool,
    /// In place of figures that there are none of at the moment, or beside the last ones.
    pub notice: Option<String>,
    pub seconds: f64,
}

impl State {
    pub fn new(seconds: f64) -> Self {
        Self {
            page: Page::Classes,
            order: Order::Live,
            scroll: 0,
            paused: false,
            notice: None,
            seconds,
        }
    }
}

/// Draws it. `now` is the time on the decisions' clock.
pub fn draw(frame: &mut Frame, state: &mut State, history: &History, now: u32) {
    let areas = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(12),
        Constraint::Min(3),
        Constraint::Length(1),
    ]);
    let [head, figures, table, foot] = areas.areas(frame.area());
    let Some(look) = history.look() else {
        let notice = state.notice.as_deref().unwrap_or("looking …");
        frame.render_widget(Paragraph::new(notice), frame.area());
        return;
    };
    let rates = history.rates.as_ref();
    frame.render_widget(title(look, rates, state), head);
    let halves = Layout::horizontal([Constraint::Percentage(46), Constraint::Percentage(54)]);
    let [left, right] = halves.areas(figures);
    activity(frame, left, look, history);
    memory(frame, right, look, history);
    draw_table(frame, table, state, look, rates, now);
    frame.render_widget(keys(state), foot);
}

fn title<'a>(look: &Look, rates: Option<&Rates>, state: &State) -> Line<'a> {
    let mut spans = vec![
        " hakmem top ".bold().reversed(),
        Span::raw(format!(" {}", batch::title(look, rates))),
    ];
    if let Some(notice) = &state.notice {
        spans.push(Span::styled(
            format!("   {notice}"),
            Style::new().fg(Color::Yellow).bold(),
        ));
    } else if state.paused {
        spans.push("   paused".yellow().bold());
    }
    Line::from(spans)
}

fn keys<'a>(state: &State) -> Line<'a> {
    let mut spans = Vec::new();
    for (key, what) in [
        ("q", "leave".to_owned()),
        ("Tab", "next table".to_owned()),
        ("s", format!("by {}", state.order.name())),
        ("↑↓", "scroll".to_owned()),
        ("p", if state.paused { "go on" } else { "pause" }.to_owned()),
        ("+-", format!("every {} s", state.seconds)),
    ] {
        spans.push(Span::styled(format!(" {key} "), Modifier::REVERSED));
        spans.push(Span::raw(format!(" {what}  ")));
    }
    Line::from(spans)
}

/// The last points, as many as there are columns for.
fn curve<'a>(points: &'a [u64], width: u16, colour: Color) -> Sparkline<'a> {
    let from = points.len().saturating_sub(usize::from(width));
    Sparkline::default()
        .data(&points[from..])
        .style(Style::new().fg(colour))
}

fn activity(frame: &mut Frame, area: Rect, look: &Look, history: &History) {
    let block = Block::bordered().title(" activity ");
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let [list, graph] = Layout::vertical([Constraint::Min(1), Constraint::Length(2)]).areas(inner);
    let rows = batch::activity(look, history.rates.as_ref());
    let rows = rows
        .into_iter()
        .enumerate()
        .map(|(i, [name, total, rate])| {
            let cells = [
                Line::from(name),
                Line::from(total).right_aligned(),
                Line::from(rate).right_aligned(),
            ];
            Row::new(cells).style(if i == 0 {
                Style::new().dim()
            } else {
                Style::new()
            })
        });
    let widths = [
        Constraint::Length(16),
        Constraint::Fill(1),
        Constraint::Length(11),
    ];
    let room = usize::from(list.height);
    frame.render_widget(Table::new(rows.take(room.max(1)), widths), list);
    frame.render_widget(curve(&history.allocations, graph.width, Color::Cyan), graph);
}

/// A part of `whole`, as a bar with its name and size.
fn bar<'a>(name: &str, part: u64, whole: u64, width: u16, colour: Color) -> Line<'a> {
    let room = usize::from(width).saturating_sub(26).max(1) as u64;
    let filled = u128::from(part) * u128::from(room);
    let filled = filled.checked_div(whole.into()).unwrap_or(0);
    let filled = filled.min(room.into()) as u64;
    Line::from(vec![
        Span::raw(format!("{name:<13}{:>10}  ", bytes(part))),
        Span::styled("█".repeat(filled as usize), Style::new().fg(colour)),
        Span::styled("·".repeat((room - filled) as usize), Style::new().dim()),
    ])
}

fn memory(frame: &mut Frame, area: Rect, look: &Look, history: &History) {
    let block = Block::bordered().title(" memory ");
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let [bars, graph] = Layout::vertical([Constraint::Min(1), Constraint::Length(2)]).areas(inner);
    let m = &look.moment;
    let whole = m.committed_bytes.max(look.usage.resident_bytes);
    let line = |name, part, colour| bar(name, part, whole, inner.width, colour);
    let text = vec![
        line("live", m.live_bytes, Color::Green),
        line("at most", m.peak_live_bytes, Color::DarkGray),
        line("resident", m.resident_bytes, Color::Cyan),
        line("process", look.usage.resident_bytes, Color::Blue),
        line("committed", m.committed_bytes, Color::DarkGray),
        line("free, kept", m.dirty_bytes, Color::Yellow),
        line("huge pages", m.huge_bytes, Color::Magenta),
        Line::from(format!("{:<13}{:>10}", "given back", bytes(m.purged_bytes))),
    ];
    frame.render_widget(Paragraph::new(text), bars);
    let [one, other] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)])
        .spacing(1)
        .areas(graph);
    frame.render_widget(curve(&history.live, one.width, Color::Green), one);
    frame.render_widget(curve(&history.resident, other.width, Color::Cyan), other);
}

fn draw_table(
    frame: &mut Frame,
    area: Rect,
    state: &mut State,
    look: &Look,
    rates: Option<&Rates>,
    now: u32,
) {
    let (heads, mut rows): (Vec<&str>, Vec<Vec<String>>) = match state.page {
        Page::Classes => (
            batch::CLASS_HEADS.to_vec(),
            tables::classes(look, state.order, rates),
        ),
        Page::Heaps => (tables::HEAP_HEADS.to_vec(), tables::heaps(look, rates)),
        Page::Calls => (tables::CALL_HEADS.to_vec(), tables::calls(look, rates)),
        Page::Decisions => (Vec::new(), Vec::new()),
    };
    let mut tabs = vec![Span::raw(" ")];
    for page in Page::ALL {
        let style = if page == state.page {
            Modifier::REVERSED
        } else {
            Modifier::DIM
        };
        tabs.push(Span::styled(format!(" {} ", page.name()), style));
    }
    tabs.push(Span::raw(" "));
    let block = Block::bordered().title(Line::from(tabs));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    if state.page == Page::Decisions {
        let lines: Vec<_> = look
            .decisions
            .iter()
            .rev()
            .map(|d| batch::line(d, now))
            .collect();
        state.scroll = state.scroll.min(lines.len().saturating_sub(1));
        let text = match lines.is_empty() {
            true => "none so far".to_owned(),
            false => lines[state.scroll..].join("\n"),
        };
        frame.render_widget(Paragraph::new(text), inner);
        return;
    }
    state.scroll = state.scroll.min(rows.len().saturating_sub(1));
    rows.drain(..state.scroll);
    let cells =
        |row: Vec<String>| Row::new(row.into_iter().map(|cell| Line::from(cell).right_aligned()));
    let narrow = usize::from(inner.width) < heads.len() * 11;
    let name = |h: &&str| if narrow { tables::short(h) } else { h }.to_owned();
    let head = cells(heads.iter().map(name).collect()).style(Modifier::BOLD);
    let widths = vec![Constraint::Fill(1); heads.len()];
    let table = Table::new(rows.into_iter().map(cells), widths).header(head);
    frame.render_widget(table, inner);
}
