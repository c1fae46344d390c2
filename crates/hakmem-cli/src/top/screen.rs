//! What the terminal shows: who is watched, what it does, its memory, and a table; or the help.
//! What does not fit is left out as a whole, so that no number is cut.

use super::batch;
use super::rates::{History, Rates};
use super::tables::{self, Order};
use super::{help, panels};
use crate::columns::first_that_fits;
use crate::lines::{length, wrap};
use crate::stat::table::untimed;
use crate::view::Reading;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph};

/// The least that the panels are drawn in.
const PANELS: (u16, u16) = (76, 22);
/// The same for a line with the names of the tables, and for the keys.
const TABS: u16 = 12;
const KEYS: u16 = 6;

/// Tables that can be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    Classes,
    Heaps,
    Programs,
    Calls,
    Decisions,
}

impl Page {
    pub const ALL: [Self; 5] = [
        Self::Classes,
        Self::Heaps,
        Self::Programs,
        Self::Calls,
        Self::Decisions,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Classes => "classes",
            Self::Heaps => "heaps",
            Self::Programs => "program's heaps",
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
    /// The first line of the help that is shown; None: the help is closed.
    pub help: Option<usize>,
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
            help: None,
            notice: None,
            seconds,
        }
    }
}

/// Draws it. `now` is the time on the decisions' clock.
pub fn draw(frame: &mut Frame, state: &mut State, history: &History, now: u32) {
    let area = frame.area();
    if let Some(first) = &mut state.help {
        draw_help(frame, area, first);
        return;
    }
    let width = usize::from(area.width);
    let Some(reading) = history.reading() else {
        let notice = state.notice.as_deref().unwrap_or("reading …");
        let lines: Vec<Line> = wrap(notice, width, 0).into_iter().map(Line::from).collect();
        frame.render_widget(Paragraph::new(lines), area);
        return;
    };
    let rates = history.rates.as_ref();
    let head = title(reading, rates, state, width);
    let panels = area.width >= PANELS.0 && area.height >= PANELS.1;
    let lines = match (panels, area.height) {
        (true, _) | (_, ..5) => Vec::new(),
        (_, height) => {
            let most = usize::from(height / 4 - 1).clamp(1, 6);
            panels::lines(reading, history, width, most)
        }
    };
    let figures = match (panels, area.height) {
        (true, 32..) => 14,
        (true, _) => 12,
        _ => lines.len() as u16,
    };
    let areas = Layout::vertical([
        Constraint::Length(head.len() as u16),
        Constraint::Length(figures),
        Constraint::Fill(1),
        Constraint::Length(u16::from(area.height >= KEYS)),
    ]);
    let [top, middle, table, foot] = areas.areas(area);
    frame.render_widget(Paragraph::new(head), top);
    if panels {
        panels::draw(frame, middle, reading, history);
    } else {
        let lines: Vec<Line> = lines.into_iter().map(Line::from).collect();
        frame.render_widget(Paragraph::new(lines), middle);
    }
    let table = within_tabs(frame, table, state.page, panels);
    draw_table(frame, table, state, reading, rates, now);
    frame.render_widget(keys(state, width), foot);
}

fn title<'a>(
    reading: &Reading,
    rates: Option<&Rates>,
    state: &State,
    width: usize,
) -> Vec<Line<'a>> {
    const BADGE: &str = " hakmem top ";
    let notice = match &state.notice {
        Some(notice) => format!("   {notice}"),
        None if state.paused => "   paused".into(),
        None => String::new(),
    };
    let (pid, name) = (reading.moment.pid, &reading.usage.name);
    let all = batch::title(reading, rates);
    let texts = [
        format!(" {all}"),
        all,
        format!("process {pid} ({name})"),
        format!("process {pid}"),
        format!("{pid}"),
    ];
    let badge = width >= length(BADGE) + length(&texts[0]) + length(&notice);
    let mut spans = Vec::new();
    if badge {
        spans.push(BADGE.bold().reversed());
    }
    let used = if badge { length(BADGE) } else { 0 };
    let alone = used + length(&texts[4]) + length(&notice) > width;
    let beside = if alone { 0 } else { length(&notice) };
    let fits = &texts[usize::from(!badge)..];
    let who = first_that_fits(fits, width.saturating_sub(used + beside));
    spans.push(Span::raw(who));
    let style = Style::new().fg(Color::Yellow).bold();
    if !alone {
        spans.push(Span::styled(notice, style));
        return vec![Line::from(spans)];
    }
    let lines = wrap(&notice, width, 0).into_iter().take(4);
    let lines = lines.map(|line| Line::styled(line, style));
    std::iter::once(Line::from(spans)).chain(lines).collect()
}

/// The keys, with longer words where there is room for them; those in front stay longest.
fn keys<'a>(state: &State, width: usize) -> Line<'a> {
    let pause = if state.paused { "go on" } else { "pause" };
    let (order, seconds) = (state.order, state.seconds);
    let all = [
        ("q", "leave".to_owned(), "leave".to_owned()),
        ("?", "help".into(), "help".into()),
        ("Tab", "next table".into(), "table".into()),
        (
            "s",
            format!("by {}", order.name()),
            format!("by {}", order.short()),
        ),
        ("p", pause.into(), pause.into()),
        ("+-", format!("every {seconds} s"), format!("{seconds} s")),
        ("↑↓", "scroll".into(), "scroll".into()),
    ];
    // Only the classes have orders.
    let is_shown = |key: &str| key != "s" || state.page == Page::Classes;
    let all: Vec<_> = all.into_iter().filter(|(key, ..)| is_shown(key)).collect();
    let room = |key: &str, what: &str| length(key) + length(what) + 5;
    let long = all
        .iter()
        .map(|(key, what, _)| room(key, what))
        .sum::<usize>()
        <= width + 2;
    let (mut spans, mut left) = (Vec::new(), width + 2);
    for (key, what, short) in all {
        let what = if long { what } else { short };
        let Some(rest) = left.checked_sub(room(key, &what)) else {
            break;
        };
        left = rest;
        spans.push(Span::styled(format!(" {key} "), Modifier::REVERSED));
        spans.push(Span::raw(format!(" {what}  ")));
    }
    Line::from(spans)
}

/// Draws the names of the tables; what is left is the table's.
fn within_tabs(frame: &mut Frame, area: Rect, shown: Page, bordered: bool) -> Rect {
    let tab = |page: Page| {
        let style = if page == shown {
            Modifier::REVERSED
        } else {
            Modifier::DIM
        };
        Span::styled(format!(" {} ", page.name()), style)
    };
    let mut tabs: Vec<_> = Page::ALL.into_iter().map(tab).collect();
    if bordered {
        tabs.insert(0, Span::raw(" "));
        tabs.push(Span::raw(" "));
        let block = Block::bordered().title(Line::from(tabs));
        let inner = block.inner(area);
        frame.render_widget(block, area);
        return inner;
    }
    if frame.area().height < TABS {
        return area;
    }
    let all: usize = tabs.iter().map(|tab| length(&tab.content)).sum();
    if all > usize::from(area.width) {
        tabs = vec![tab(shown)];
    }
    let [line, table] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    frame.render_widget(Line::from(tabs), line);
    table
}

fn draw_table(
    frame: &mut Frame,
    area: Rect,
    state: &mut State,
    reading: &Reading,
    rates: Option<&Rates>,
    now: u32,
) {
    let width = usize::from(area.width);
    let table = match state.page {
        Page::Classes => tables::classes(reading, state.order, rates),
        Page::Heaps => tables::heaps(reading, rates),
        Page::Programs => tables::programs(reading),
        Page::Calls => tables::calls(reading, rates),
        Page::Decisions => {
            draw_decisions(frame, area, state, reading, now);
            return;
        }
    };
    state.scroll = state.scroll.min(table.rows.len().saturating_sub(1));
    let mut lines = table.lines(width);
    lines.drain(1..=state.scroll);
    if state.page == Page::Calls {
        let why = untimed(&reading.moment);
        lines.extend(why.into_iter().flat_map(|why| wrap(why, width, 0)));
    }
    let bold = |(i, line): (usize, String)| if i == 0 { line.bold() } else { line.into() };
    let lines = lines.into_iter().take(area.height.into()).enumerate();
    let lines: Vec<Line> = lines.map(bold).map(Line::from).collect();
    frame.render_widget(Paragraph::new(lines), area);
}

/// The newest first; each in as many lines as it needs.
fn draw_decisions(frame: &mut Frame, area: Rect, state: &mut State, reading: &Reading, now: u32) {
    state.scroll = state.scroll.min(reading.decisions.len().saturating_sub(1));
    let shown = reading.decisions.iter().rev().skip(state.scroll);
    let lines = shown.flat_map(|d| wrap(&batch::line(d, now), area.width.into(), 4));
    let mut lines: Vec<_> = lines.take(area.height.into()).map(Line::from).collect();
    if reading.decisions.is_empty() {
        lines.push("none so far".into());
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn draw_help(frame: &mut Frame, area: Rect, first: &mut usize) {
    let lines = help::lines(area.width.into());
    let room = usize::from(area.height).saturating_sub(1).max(1);
    *first = (*first).min(lines.len().saturating_sub(room));
    let last = lines.len().min(*first + room);
    let foot = first_that_fits(
        &[
            format!(
                " ? closes   ↑↓ scroll   lines {} to {last} of {}",
                *first + 1,
                lines.len()
            ),
            " ? closes   ↑↓ scroll".into(),
            "? closes".into(),
        ],
        area.width.into(),
    );
    let shown = lines[*first..last].iter().cloned().map(Line::from);
    let [text, keys] = Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(area);
    frame.render_widget(Paragraph::new(shown.collect::<Vec<_>>()), text);
    frame.render_widget(Line::from(foot).reversed(), keys);
}
