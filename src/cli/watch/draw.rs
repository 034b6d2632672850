//! How the screen is drawn.

use std::path::Path;

use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Wrap};

use super::past::Past;
use super::view::{PAGE, Row, View, options, takes_several};
use crate::cli::sessions::age;
use crate::collie::wire::ItemBody;
use crate::collie::{AskKind, AskView, Item, PaneState, ToolStatus};

/// Draws everything; how many lines of the chat are above and below those that are shown.
pub(super) fn draw(frame: &mut Frame<'_>, view: &View, place: &Path) -> (usize, usize) {
    if view.rows.is_empty() && view.past.is_none() {
        draw_nobody(frame, view, place);
        return (0, 0);
    }
    let card = view.ask().map(|ask| card_lines(ask, &view.picked)).unwrap_or_default();
    let height = cell;
    let card_height = if card.is_empty() { 0 } else { height(card.len()).saturating_add(2) };
    let (title, lines, selected) = match &view.past {
        Some(past) => (past_title(view), past_lines(past), past.selected()),
        None => (" Sessions ".to_owned(), session_lines(view), view.selected()),
    };
    let list_height = height(lines.len().max(1)).saturating_add(2).min(frame.area().height / 2);
    let [list, chat, ask, notes, keys] = Layout::vertical([
        Constraint::Max(list_height),
        Constraint::Min(5),
        Constraint::Length(card_height),
        Constraint::Length(height(view.notes.len())),
        Constraint::Length(1),
    ])
    .areas(frame.area());

    let below = (selected + 3).saturating_sub(usize::from(list.height));
    let lines = Paragraph::new(lines).scroll((cell(below), 0));
    frame.render_widget(lines.block(Block::bordered().title(title)), list);
    let hidden = draw_chat(frame, view, chat);
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
    hidden
}

fn cell(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

/// What keys can do now.
fn key_words(view: &View) -> String {
    let mut words = Vec::new();
    if let Some(past) = &view.past {
        words.push("↑↓ conversation · Enter read");
        if past.row().is_some_and(|row| row.can_reopen) {
            words.push("r reopen");
        }
        words.extend(["PgUp older", "Esc back", "q quit"]);
        return words.join(" · ");
    }
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
    words.extend(["↑↓ session", "PgUp older"]);
    if view.has_history() {
        words.push("h past");
    }
    words.push("q quit");
    words.join(" · ")
}

fn draw_nobody(frame: &mut Frame<'_>, view: &View, place: &Path) {
    let mut lines = vec![Line::from(format!("No agent yet in {}", place.display()))];
    lines.extend(view.notes.iter().map(|note| Line::from(note.as_str()).dim()));
    lines.push(Line::default());
    lines.push(Line::from("Start one: agent-presence wrap -- my-agent").dim());
    let keys = if view.has_history() { "h past · q quit" } else { "q quit" };
    lines.push(Line::from(keys).dim());
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

/// The title of the past conversations, which hide the cards.
fn past_title(view: &View) -> String {
    let waiting = view.rows.iter().filter(|row| row.pane.state == PaneState::Waiting).count();
    match waiting {
        0 => " Past conversations ".to_owned(),
        _ => format!(" Past conversations · {waiting} waiting: Esc "),
    }
}

fn past_lines(past: &Past) -> Vec<Line<'_>> {
    let selected = past.selected();
    let now = Timestamp::now();
    if past.rows.is_empty() {
        return vec![Line::from("  none").dim()];
    }
    let lines = past.rows.iter().enumerate().map(|(place, past)| {
        let end = past.end().parse().unwrap_or(now);
        let age = age(now.duration_since(end).try_into().unwrap_or_default());
        let row = &past.row;
        let line = Line::from(vec![
            Span::raw(if place == selected { "▸ " } else { "  " }),
            Span::raw(format!("{age:>4}  ")),
            Span::styled(row.title.as_str(), Modifier::BOLD),
            Span::raw(format!("  {}  {} items", row.id, row.items)).dim(),
        ]);
        if place == selected { line } else { line.style(Style::new().dim()) }
    });
    lines.collect()
}

fn state_words(state: PaneState) -> (char, &'static str, Color) {
    match state {
        PaneState::Idle => ('○', "idle", Color::Gray),
        PaneState::Working => ('●', "working", Color::Green),
        PaneState::Waiting => ('!', "waiting", Color::Yellow),
    }
}

/// The newest items that fit, the last one at the bottom, or those before that were scrolled to. How many lines
/// are above and below: a chat may be long, so above no more are counted than tell that the top is far.
fn draw_chat(frame: &mut Frame<'_>, view: &View, area: Rect) -> (usize, usize) {
    let (title, chat, is_cut) = match (&view.past, view.row()) {
        (Some(past), _) => {
            let title = past.reading().map(|past| format!(" {} · past ", past.row.title));
            (title, Some(&past.chat), false)
        }
        (None, Some(row)) => {
            let is_cut = row.chat.is_cut() && !row.may_have_older();
            (Some(format!(" {} ", row.pane.title)), Some(&row.chat), is_cut)
        }
        (None, None) => (None, None, false),
    };
    let block = Block::bordered().title(title.unwrap_or_default());
    let inner = block.inner(area);
    let height = usize::from(inner.height);
    let items = chat.map(|chat| chat.items()).unwrap_or_default();
    let cut = is_cut.then(|| vec![Line::from("· what was before is not kept").dim()]);
    let wrapped = |lines| Paragraph::new(lines).wrap(Wrap { trim: false });
    let enough = view.scrolled.saturating_add(height + 2 * PAGE);
    let (mut parts, mut count) = (Vec::new(), 0);
    for part in items.iter().rev().map(item_lines).chain(cut) {
        if count > enough {
            break;
        }
        count += wrapped(part.clone()).line_count(inner.width);
        parts.push(part);
    }
    let lines: Vec<Line<'_>> = parts.into_iter().rev().flatten().collect();
    let hidden = count.saturating_sub(height);
    let below = view.scrolled.min(hidden);
    let above = hidden - below;
    frame.render_widget(wrapped(lines).scroll((cell(above), 0)).block(block), area);
    (above, below)
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
