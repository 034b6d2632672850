//! What the screen shows, apart from how it is drawn.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::feed::{Answer, Feed};
use crate::collie::wire::PaneView;
use crate::collie::{AskKind, AskOption, AskView, Item};

/// For how long a new card takes no key: one that was on its way when the card came up was not
/// meant for it, and an approval is given by a person who saw what it is for.
pub(super) const SETTLE: Duration = Duration::from_millis(500);

/// One session of one agent.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) socket: PathBuf,
    pub(super) pane: PaneView,
    pub(super) items: Vec<Item>,
}

/// Everything that is drawn.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) rows: Vec<Row>,
    /// What is wrong, and what came of the last answer.
    pub(super) notes: Vec<String>,
    selected: Option<(PathBuf, String)>,
    /// The card that is shown, and since when.
    card: Option<(String, Instant)>,
}

impl View {
    /// Takes over what the feeds know.
    pub(super) fn refresh(&mut self, feeds: &[Feed], now: Instant) {
        self.rows.clear();
        self.notes.clear();
        for feed in feeds {
            let newest = feed.newest();
            for pane in &newest.panes {
                let items = newest.chats.get(&pane.id).map(|chat| chat.items().to_vec());
                self.rows.push(Row {
                    socket: feed.socket().to_owned(),
                    pane: pane.clone(),
                    items: items.unwrap_or_default(),
                });
            }
            self.notes.extend(newest.trouble.iter().chain(&newest.outcome).cloned());
        }
        self.note_card(now);
    }

    /// The place of the session that is shown whole.
    pub(super) fn selected(&self) -> usize {
        let selected = self.selected.as_ref();
        self.rows
            .iter()
            .position(|row| selected.is_some_and(|(socket, pane)| row.is(socket, pane)))
            .unwrap_or_default()
    }

    pub(super) fn row(&self) -> Option<&Row> {
        self.rows.get(self.selected())
    }

    /// The open card: the oldest ask of the session that is shown whole.
    pub(super) fn ask(&self) -> Option<&AskView> {
        self.row()?.pane.asks.first()
    }

    pub(super) fn select_next(&mut self, step: isize) {
        if self.rows.is_empty() {
            return;
        }
        let next = self.selected().checked_add_signed(step).unwrap_or(self.rows.len() - 1);
        let row = &self.rows[next % self.rows.len()];
        self.selected = Some((row.socket.clone(), row.pane.id.clone()));
        self.note_card(Instant::now());
    }

    /// The answer that a key gives to the card, if the card has been there for long enough.
    pub(super) fn answer(&self, option: usize, now: Instant) -> Option<(&Path, Answer)> {
        let row = self.row()?;
        let ask = self.ask()?;
        let option = options(ask).get(option)?;
        let (hash, since) = self.card.as_ref()?;
        if *hash != ask.hash || now.saturating_duration_since(*since) < SETTLE {
            return None;
        }
        let answer = Answer {
            pane: row.pane.id.clone(),
            ask: ask.id.clone(),
            hash: ask.hash.clone(),
            option: option.id.clone(),
        };
        Some((&row.socket, answer))
    }

    fn note_card(&mut self, now: Instant) {
        let shown = self.ask().map(|ask| ask.hash.clone());
        if self.card.as_ref().map(|(hash, _)| hash) != shown.as_ref() {
            self.card = shown.map(|hash| (hash, now));
        }
    }
}

impl Row {
    fn is(&self, socket: &Path, pane: &str) -> bool {
        self.socket == socket && self.pane.id == pane
    }
}

/// The options that one key can pick.
pub(super) fn options(ask: &AskView) -> &[AskOption] {
    match &ask.kind {
        AskKind::Approval { options } | AskKind::Choice { options, multiple: false, .. } => options,
        AskKind::Choice { .. } | AskKind::Text { .. } | AskKind::Form { .. } => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(pane: &str, ask: &str) -> Row {
        let ask = json!({"id": ask, "kind": "choice", "title": "Deploy?", "hash": ask,
            "openedAt": "2026-11-30T14:53:46.120Z",
            "options": [{"id": "yes", "label": "Yes"}, {"id": "no", "label": "No"}]});
        let pane = json!({"id": pane, "workspaceId": "w", "tabId": "w:main", "title": "Deploy",
            "harness": "toy", "sessionId": pane, "state": "waiting", "cursor": "i:1",
            "openedAt": "2026-11-30T14:53:46.120Z", "asks": [ask], "actions": []});
        Row {
            socket: "/run/a".into(),
            pane: serde_json::from_value(pane).unwrap(),
            items: Vec::new(),
        }
    }

    fn view(rows: Vec<Row>, now: Instant) -> View {
        let mut view = View { rows, ..View::default() };
        view.note_card(now);
        view
    }

    #[test]
    fn a_key_answers_the_card_that_was_seen() {
        let start = Instant::now();
        let view = view(vec![row("p", "a")], start);
        let (socket, answer) = view.answer(1, start + SETTLE).unwrap();
        assert_eq!(socket, Path::new("/run/a"));
        assert_eq!((answer.ask.as_str(), answer.option.as_str()), ("a", "no"));
        assert_eq!(view.answer(2, start + SETTLE), None, "there are two options");
    }

    #[test]
    fn a_key_that_was_on_its_way_answers_no_new_card() {
        let start = Instant::now();
        let mut view = view(vec![row("p", "a")], start);
        let later = start + SETTLE * 2;
        view.rows = vec![row("p", "b")];
        view.note_card(later);
        assert_eq!(view.answer(0, later + SETTLE / 2), None);
        assert!(view.answer(0, later + SETTLE).is_some());
    }

    #[test]
    fn the_selection_goes_round_and_stays_with_its_session() {
        let now = Instant::now();
        let mut view = view(vec![row("a", "1"), row("b", "2"), row("c", "3")], now);
        view.select_next(-1);
        assert_eq!(view.row().unwrap().pane.id, "c");
        view.rows.remove(0);
        assert_eq!(view.row().unwrap().pane.id, "c");
        view.select_next(1);
        assert_eq!(view.row().unwrap().pane.id, "b");
    }
}
