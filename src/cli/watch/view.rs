//! What the screen shows, apart from how it is drawn.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::chat::Chat;
use super::feed::{Act, Feed};
use super::input::{Input, Typed};
use super::past::Past;
use crate::collie::wire::PaneView;
use crate::collie::{AnswerValue, AskKind, AskOption, AskView, Caps};

/// For how long a new card takes no key, after the last one: one that was on its way when the card came up was not
/// meant for it, and an approval is given by a person who saw what it is for.
pub(super) const SETTLE: Duration = Duration::from_millis(500);

/// How far one key moves in the chat.
pub(super) const PAGE: usize = 10;

/// One session of one agent.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) socket: PathBuf,
    pub(super) pane: PaneView,
    pub(super) chat: Arc<Chat>,
    /// What its agent takes.
    pub(super) caps: Caps,
}

/// Everything that is drawn.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) rows: Vec<Row>,
    /// What is wrong, and what came of the last act.
    pub(super) notes: Vec<String>,
    selected: Option<(PathBuf, String)>,
    /// The card that is shown, and since when.
    card: Option<(String, Instant)>,
    /// What was picked of a card that takes several options.
    pub(super) picked: Vec<String>,
    /// What is being typed.
    pub(super) input: Option<Input>,
    /// How many lines of the chat are below the ones that are shown, and above. Drawing keeps them right.
    pub(super) scrolled: usize,
    pub(super) above: usize,
    /// The past conversations, while they are looked at instead of the sessions.
    pub(super) past: Option<Past>,
    /// The agents that have a history.
    with_history: Vec<PathBuf>,
}

impl View {
    /// Takes over what the feeds know.
    pub(super) fn refresh(&mut self, feeds: &[Feed], now: Instant) {
        self.rows.clear();
        self.notes.clear();
        self.with_history.clear();
        for feed in feeds {
            let newest = feed.newest();
            let caps = newest.hello.as_ref().map_or(Caps::NONE, |hello| hello.caps);
            if caps.history {
                self.with_history.push(feed.socket().to_owned());
            }
            for pane in &newest.panes {
                self.rows.push(Row {
                    socket: feed.socket().to_owned(),
                    pane: pane.clone(),
                    chat: newest.chats.get(&pane.id).cloned().unwrap_or_default(),
                    caps,
                });
            }
            self.notes.extend(newest.trouble.iter().chain(&newest.outcome).cloned());
        }
        if let Some(past) = &mut self.past {
            past.refresh(feeds);
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
        // Who looks at the past does not see the card.
        self.row().filter(|_| self.past.is_none())?.pane.asks.first()
    }

    pub(super) fn select_next(&mut self, step: isize) {
        if self.rows.is_empty() {
            return;
        }
        let next = self.selected().checked_add_signed(step).unwrap_or(self.rows.len() - 1);
        let row = &self.rows[next % self.rows.len()];
        self.selected = Some((row.socket.clone(), row.pane.id.clone()));
        self.scrolled = 0;
        self.note_card(Instant::now());
    }

    /// The session and its card, if the card has been there for long enough to be answered.
    fn settled_card(&self, now: Instant) -> Option<(&Row, &AskView)> {
        let (row, ask) = (self.row()?, self.ask()?);
        let (hash, since) = self.card.as_ref()?;
        let is_settled = *hash == ask.hash && now.saturating_duration_since(*since) >= SETTLE;
        is_settled.then_some((row, ask))
    }

    /// A key came. For a card that is too new it counts as one that was on its way, as may those behind
    /// it: the card's time begins again.
    pub(super) fn note_key(&mut self, now: Instant) {
        if let Some((_, since)) = &mut self.card
            && now.saturating_duration_since(*since) < SETTLE
        {
            *since = now;
        }
    }

    /// What a digit does to the card: it answers, or it picks one of several.
    pub(super) fn pick(&mut self, option: usize, now: Instant) -> Option<(PathBuf, Act)> {
        let (row, ask) = self.settled_card(now)?;
        let option = options(ask).get(option)?.id.clone();
        if !takes_several(ask) {
            return Some((row.socket.clone(), answer(row, ask, vec![option])));
        }
        match self.picked.iter().position(|picked| *picked == option) {
            Some(place) => drop(self.picked.remove(place)),
            None => self.picked.push(option),
        }
        None
    }

    /// What the Enter key does while nothing is typed: it gives what was picked, or begins to type.
    pub(super) fn enter(&mut self, now: Instant) -> Option<(PathBuf, Act)> {
        if self.ask().is_none() {
            self.begin_to_send(false);
            return None;
        }
        let (row, ask) = self.settled_card(now)?;
        if takes_several(ask) {
            return Some((row.socket.clone(), answer(row, ask, self.picked.clone())));
        }
        self.input = Input::answer(&row.pane.id, ask);
        None
    }

    pub(super) fn begin_to_send(&mut self, steer: bool) {
        let takes = |row: &&Row| if steer { row.caps.steer } else { row.caps.send };
        self.input = self.row().filter(takes).map(|row| Input::send(&row.pane.id, steer));
    }

    pub(super) fn stop(&self) -> Option<(PathBuf, Act)> {
        let row = self.row().filter(|row| row.caps.abort)?;
        Some((row.socket.clone(), Act::Stop { pane: row.pane.id.clone() }))
    }

    pub(super) fn scroll_up(&mut self) -> Option<(PathBuf, Act)> {
        self.scrolled = self.scrolled.saturating_add(PAGE);
        // Older items are on their way before the top is reached.
        if self.above > 2 * PAGE {
            return None;
        }
        match &self.past {
            Some(past) => past.older(),
            None => self.row().and_then(Row::older),
        }
    }

    pub(super) fn has_history(&self) -> bool {
        !self.with_history.is_empty()
    }

    /// Shows the past conversations, which have to be listed.
    pub(super) fn look_back(&mut self) -> Vec<(PathBuf, Act)> {
        if self.has_history() {
            self.past = Some(Past::default());
            self.scrolled = 0;
        }
        self.with_history.iter().map(|socket| (socket.clone(), Act::List)).collect()
    }

    /// Shows the sessions again.
    pub(super) fn look_forward(&mut self) {
        self.past = None;
        self.scrolled = 0;
        self.note_card(Instant::now());
    }

    /// Has the selected conversation go on, and shows it.
    pub(super) fn reopen(&mut self) -> Option<(PathBuf, Act)> {
        let (socket, act) = self.past.as_ref()?.reopen()?;
        if let Act::Reopen { session } = &act {
            self.selected = Some((socket.clone(), session.clone()));
        }
        self.look_forward();
        Some((socket, act))
    }

    /// Takes the line that was typed.
    pub(super) fn typed(&mut self) -> Option<(PathBuf, Act)> {
        let typed = self.input.as_mut()?.enter()?;
        self.input = None;
        let socket = self.row()?.socket.clone();
        let act = match typed {
            Typed::Send { pane, text, steer } => Act::Send { pane, text, steer },
            Typed::Answer { pane, ask, hash, value } => Act::Answer { pane, ask, hash, value },
        };
        Some((socket, act))
    }

    fn note_card(&mut self, now: Instant) {
        let shown = self.ask().map(|ask| ask.hash.clone());
        if self.card.as_ref().map(|(hash, _)| hash) == shown.as_ref() {
            return;
        }
        self.card = shown.map(|hash| (hash, now));
        self.picked.clear();
        // What was typed for a card that is gone answers no other.
        let card = self.card.as_ref().map(|(hash, _)| hash);
        let is_for_another = |ask: &AskView| Some(&ask.hash) != card;
        if self.input.as_ref().and_then(Input::card).is_some_and(is_for_another) {
            self.input = None;
        }
    }
}

fn answer(row: &Row, ask: &AskView, options: Vec<String>) -> Act {
    Act::Answer {
        pane: row.pane.id.clone(),
        ask: ask.id.clone(),
        hash: ask.hash.clone(),
        value: AnswerValue::Options(options),
    }
}

impl Row {
    fn is(&self, socket: &Path, pane: &str) -> bool {
        self.socket == socket && self.pane.id == pane
    }

    /// Whether the history may have items that are older than those here.
    pub(super) fn may_have_older(&self) -> bool {
        self.caps.history && self.pane.session_id.is_some() && !self.chat.is_all_read()
    }

    fn older(&self) -> Option<(PathBuf, Act)> {
        let session = self.pane.session_id.clone().filter(|_| self.may_have_older())?;
        let pane = Some(self.pane.id.clone());
        Some((self.socket.clone(), Act::Older { pane, session }))
    }
}

/// The options that keys can pick.
pub(super) fn options(ask: &AskView) -> &[AskOption] {
    match &ask.kind {
        AskKind::Approval { options } | AskKind::Choice { options, .. } => options,
        AskKind::Text { .. } | AskKind::Form { .. } => &[],
    }
}

/// Keys pick options, and Enter gives them.
pub(super) fn takes_several(ask: &AskView) -> bool {
    matches!(ask.kind, AskKind::Choice { multiple: true, .. })
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
            chat: Arc::default(),
            caps: Caps::ALL,
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
        let mut view = view(vec![row("p", "a")], start);
        let (socket, act) = view.pick(1, start + SETTLE).unwrap();
        assert_eq!(socket, Path::new("/run/a"));
        let Act::Answer { ask, value, .. } = act else { panic!("{act:?}") };
        assert_eq!((ask.as_str(), value), ("a", AnswerValue::Options(vec!["no".to_owned()])));
        assert_eq!(view.pick(2, start + SETTLE), None, "there are two options");
    }

    #[test]
    fn a_key_that_was_on_its_way_answers_no_new_card() {
        let start = Instant::now();
        let mut view = view(vec![row("p", "a")], start);
        let later = start + SETTLE * 2;
        view.rows = vec![row("p", "b")];
        view.note_card(later);
        view.note_key(later + SETTLE / 2);
        assert_eq!(view.pick(0, later + SETTLE / 2), None);
        assert_eq!(view.pick(0, later + SETTLE), None, "there may be more where that came from");
        let later = later + SETTLE / 2;
        assert!(view.pick(0, later + SETTLE).is_some());
    }

    fn with_kind(mut row: Row, kind: serde_json::Value) -> Row {
        row.pane.asks[0].kind = serde_json::from_value(kind).unwrap();
        row
    }

    #[test]
    fn several_are_picked_and_given_with_enter() {
        let start = Instant::now();
        let options = json!([{"id": "yes", "label": "Yes"}, {"id": "no", "label": "No"}]);
        let kind = json!({"kind": "choice", "multiple": true, "options": options});
        let mut view = view(vec![with_kind(row("p", "a"), kind)], start);
        let now = start + SETTLE;
        for option in [0, 1, 0] {
            assert_eq!(view.pick(option, now), None);
        }
        let (_, act) = view.enter(now).unwrap();
        let Act::Answer { value, .. } = act else { panic!("{act:?}") };
        assert_eq!(value, AnswerValue::Options(vec!["no".to_owned()]));
    }

    #[test]
    fn what_is_typed_for_a_card_answers_no_other() {
        let start = Instant::now();
        let mut view = view(vec![with_kind(row("p", "a"), json!({"kind": "text"}))], start);
        assert_eq!((view.enter(start), &view.input), (None, &None), "not settled");
        assert_eq!(view.enter(start + SETTLE), None);
        view.input.as_mut().unwrap().push('x');
        view.rows = vec![with_kind(row("p", "b"), json!({"kind": "text"}))];
        view.note_card(start + SETTLE);
        assert_eq!(view.input, None);
        assert_eq!(view.typed(), None);
    }

    #[test]
    fn a_text_is_sent_to_who_takes_it() {
        let now = Instant::now();
        let mut calm = row("p", "a");
        calm.pane.asks.clear();
        let mut view = view(vec![calm], now);
        assert_eq!(view.enter(now), None);
        view.input.as_mut().unwrap().push('x');
        let (_, act) = view.typed().unwrap();
        assert_eq!(act, Act::Send { pane: "p".to_owned(), text: "x".to_owned(), steer: false });
        assert_eq!(view.stop().unwrap().1, Act::Stop { pane: "p".to_owned() });
        view.rows[0].caps = Caps::NONE;
        view.begin_to_send(true);
        assert_eq!((&view.input, view.stop()), (&None, None));
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

    #[test]
    fn near_the_top_of_a_chat_older_items_are_asked_for() {
        let mut view = view(vec![row("p", "a")], Instant::now());
        view.above = 3 * PAGE;
        assert_eq!((view.scroll_up(), view.scrolled), (None, PAGE));
        view.above = PAGE;
        let older = Act::Older { pane: Some("p".to_owned()), session: "p".to_owned() };
        assert_eq!(view.scroll_up(), Some(("/run/a".into(), older)));
        view.rows[0].caps = Caps::NONE;
        assert_eq!(view.scroll_up(), None);
    }

    #[test]
    fn a_card_takes_no_key_from_who_looks_at_the_past() {
        let start = Instant::now();
        let mut view = view(vec![row("p", "a")], start);
        view.with_history = vec!["/run/a".into()];
        assert_eq!(view.look_back(), [("/run/a".into(), Act::List)]);
        view.note_card(start + SETTLE);
        assert_eq!(view.pick(0, start + SETTLE * 3), None);
        view.look_forward();
        let back = Instant::now();
        assert_eq!(view.pick(0, back), None, "it is seen only now");
        assert!(view.pick(0, back + SETTLE).is_some());
    }
}
