//! How the screen is drawn.

use std::path::Path;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Wrap};

use super::view::{Row, View, options, takes_several};
use crate::collie::wire::ItemBody;
use crate::collie::{AskKind, AskView, Item, PaneState, ToolStatus};

pub(super) fn draw(frame: &mut Frame<'_>, view: &View, place: &Path) {
    if view.rows.is_empty() {
        return draw_nobody(frame, view, place);
    }
    let card = view.ask().map(|ask| card_lines(ask, &view.picked)).unwrap_or_default();
    let height = cell;
    let card_height = if card.is_empty() { 0 } else { height(card.len()).saturating_add(2) };
    let [sessions, chat, ask, notes, keys] = Layout::vertical([
        Constraint::Max(height(view.rows.len()).saturating_add(2)),
        Constraint::Min(5),
        Constraint::Length(card_height),
        Constraint::Length(height(view.notes.len())),
        Constraint::Length(1),
    ])
    .areas(frame.area());

    frame.render_widget(
        Paragraph::new(session_lines(view)).block(Block::bordered().title(" Sessions ")),
        sessions,
    );
    draw_chat(frame, view, chat);
    if !card.is_empty() {
        let block = Block::bordered().title(" Waiting for you ").border_style(Color::Yellow);
        frame.render_widget(Paragraph::new(card).block(block).wrap(Wrap { trim: false }), ask);
    }
    let lines: Vec<Line<'_>> = view.notes.iter().map(|note| Line::from(note.as_str())).collect();
    frame.render_widget(Paragraph::new(lines).dim(), notes);
    match &view.input {
        Some(input) => {
            let label = Span::styled(format!("{}: ", input.label()), Style::new().bold());
            let line = Line::from(vec![label, Span::raw(input.text()), Span::raw("▏")]);
            // The end of a long line is what is being typed.
            let hidden = line.width().saturating_sub(usize::from(keys.width));
            frame.render_widget(Paragraph::new(line).scroll((0, cell(hidden))), keys);
        }
        None => frame.render_widget(Paragraph::new(key_words(view)).dim(), keys),
    }
}

fn cell(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

/// What keys can do now.
fn key_words(view: &View) -> String {
    let mut words = Vec::new();
    match view.ask() {
        Some(ask) if takes_several(ask) => words.push("1-9 pick · Enter answer"),
        Some(ask) if options(ask).is_empty() => words.push("Enter answer"),
        Some(_) => words.push("1-9 answer"),
        None => {}
    }
    let takes = |which: fn(&Row) -> bool| view.row().is_some_and(which);
    if view.ask().is_none() && takes(|row| row.caps.send) {
        words.push("s send");
    }
    if takes(|row| row.caps.steer) {
        words.push("S steer");
    }
    if takes(|row| row.caps.abort) {
        words.push("x stop");
    }
    words.extend(["↑↓ session", "PgUp history", "q quit"]);
    words.join(" · ")
}

fn draw_nobody(frame: &mut Frame<'_>, view: &View, place: &Path) {
    let mut lines = vec![Line::from(format!("No agent yet in {}", place.display()))];
    lines.extend(view.notes.iter().map(|note| Line::from(note.as_str()).dim()));
    lines.push(Line::default());
    lines.push(Line::from("Start one: agent-presence wrap -- my-agent").dim());
    lines.push(Line::from("q quit").dim());
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), frame.area());
}

fn session_lines(view: &View) -> Vec<Line<'_>> {
    let selected = view.selected();
    view.rows
        .iter()
        .enumerate()
        .map(|(place, row)| {
            let (sign, word, color) = state_words(row.pane.state);
            let line = Line::from(vec![
                Span::raw(if place == selected { "▸ " } else { "  " }),
                Span::styled(format!("{sign} {word:<8}"), color),
                Span::styled(row.pane.title.as_str(), Modifier::BOLD),
                Span::raw(format!("  {}  {}", row.pane.harness, row.pane.id)).dim(),
            ]);
            if place == selected { line } else { line.style(Style::new().dim()) }
        })
        .collect()
}

fn state_words(state: PaneState) -> (char, &'static str, Color) {
    match state {
        PaneState::Idle => ('○', "idle", Color::Gray),
        PaneState::Working => ('●', "working", Color::Green),
        PaneState::Waiting => ('!', "waiting", Color::Yellow),
    }
}

/// The newest items that fit, the last one at the bottom.
fn draw_chat(frame: &mut Frame<'_>, view: &View, area: Rect) {
    let title = view.row().map_or(String::new(), |row| format!(" {} ", row.pane.title));
    let block = Block::bordered().title(title);
    let inner = block.inner(area);
    let lines: Vec<Line<'_>> =
        view.row().into_iter().flat_map(|row| &row.items).flat_map(item_lines).collect();
    let chat = Paragraph::new(lines).wrap(Wrap { trim: false });
    let hidden = chat.line_count(inner.width).saturating_sub(usize::from(inner.height));
    let above = hidden.saturating_sub(view.scrolled);
    frame.render_widget(chat.scroll((cell(above), 0)).block(block), area);
}

fn item_lines(item: &Item) -> Vec<Line<'_>> {
    let (sign, text, style) = match &item.body {
        ItemBody::User { text, .. } => ("> ", text.clone(), Style::new().bold()),
        ItemBody::Reply { text, .. } | ItemBody::Markdown { text, .. } => {
            ("", text.clone(), Style::new())
        }
        ItemBody::Thinking { text, .. } => ("", text.clone(), Style::new().italic().dim()),
        ItemBody::Notice { text, .. } => ("· ", text.clone(), Style::new().dim()),
        ItemBody::Code { text, .. } => ("  ", text.clone(), Style::new().cyan()),
        ItemBody::Tool { name, summary, status, .. } => {
            let summary = summary.as_deref().unwrap_or(name);
            ("⚙ ", format!("{summary} ({})", tool_word(*status)), Style::new().dim())
        }
        ItemBody::Link { text, href } => ("", format!("{text} <{href}>"), Style::new().blue()),
        ItemBody::Badge { label, .. } => ("", format!("[{label}]"), Style::new().bold()),
        ItemBody::Progress { label, value } => {
            let label = label.as_deref().unwrap_or("progress");
            ("", format!("{label}: {:.0} %", value * 100.0), Style::new())
        }
    };
    text.lines().map(|line| Line::styled(format!("{sign}{line}"), style)).collect()
}

fn tool_word(status: ToolStatus) -> &'static str {
    match status {
        ToolStatus::Running => "running",
        ToolStatus::Ok => "done",
        ToolStatus::Error => "failed",
        ToolStatus::Denied => "denied",
    }
}

fn card_lines<'a>(ask: &'a AskView, picked: &[String]) -> Vec<Line<'a>> {
    let mut lines = vec![Line::from(ask.title.as_str()).bold()];
    lines.extend(ask.tool.iter().map(|tool| Line::from(tool.as_str()).cyan()));
    lines.extend(ask.reason.iter().flat_map(|reason| reason.lines()).map(Line::from));
    let keys = options(ask);
    if keys.is_empty() {
        let kind = match ask.kind {
            AskKind::Form { .. } => "Enter: fill in the form",
            _ => "Enter: type the answer",
        };
        lines.push(Line::from(kind).dim());
    } else {
        let options: Vec<Span<'_>> = keys
            .iter()
            .take(9)
            .enumerate()
            .flat_map(|(place, option)| {
                let key = Span::styled(format!("[{}] ", place + 1), Style::new().yellow().bold());
                let sign = if picked.contains(&option.id) { "✓ " } else { "" };
                [key, Span::raw(format!("{sign}{}   ", option.label))]
            })
            .collect();
        lines.push(Line::from(options));
    }
    lines
}
