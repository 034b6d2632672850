//! The past conversations: which there are, and the one that is read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::chat::Chat;
use super::feed::{Act, Feed};
use crate::collie::wire::{HistoryRow, RowState};

/// A conversation that is over.
#[derive(Clone, Debug)]
pub(super) struct PastRow {
    pub(super) socket: PathBuf,
    pub(super) row: HistoryRow,
    /// Its agent can go on with it.
    pub(super) can_reopen: bool,
}

/// What is shown in place of the sessions while the past is looked at.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// The newest first.
    pub(super) rows: Vec<PastRow>,
    selected: Option<(PathBuf, String)>,
    read: Option<(PathBuf, String)>,
    /// What was said in the one that is read.
    pub(super) chat: Arc<Chat>,
}

impl Past {
    /// Takes over what the feeds know.
    pub(super) fn refresh(&mut self, feeds: &[Feed]) {
        self.rows.clear();
        self.chat = Arc::default();
        for feed in feeds {
            let newest = feed.newest();
            let can_reopen = newest.hello.as_ref().is_some_and(|hello| hello.caps.reopen);
            let closed = newest.conversations.iter().filter(|row| row.state == RowState::Closed);
            self.rows.extend(closed.map(|row| PastRow {
                socket: feed.socket().to_owned(),
                row: row.clone(),
                can_reopen,
            }));
            if let (Some((socket, session)), Some((read, chat))) = (&self.read, &newest.read)
                && (socket.as_path(), session) == (feed.socket(), read)
            {
                self.chat = Arc::clone(chat);
            }
        }
        // Each agent lists its own from the newest on.
        self.rows.sort_by(|one, other| other.end().cmp(one.end()));
    }

    pub(super) fn selected(&self) -> usize {
        let is_selected = |row: &PastRow| self.selected.as_ref().is_some_and(|key| row.is(key));
        self.rows.iter().position(is_selected).unwrap_or_default()
    }

    pub(super) fn row(&self) -> Option<&PastRow> {
        self.rows.get(self.selected())
    }

    /// The one that is read.
    pub(super) fn reading(&self) -> Option<&PastRow> {
        let read = self.read.as_ref()?;
        self.rows.iter().find(|row| row.is(read))
    }

    pub(super) fn select_next(&mut self, step: isize) {
        let last = self.rows.len().saturating_sub(1);
        let next = self.selected().saturating_add_signed(step).min(last);
        self.selected = self.rows.get(next).map(PastRow::key);
    }

    /// The selected one is to be read.
    pub(super) fn read(&mut self) -> Option<(PathBuf, Act)> {
        let (socket, session) = self.row()?.key();
        self.read = Some((socket.clone(), session.clone()));
        self.chat = Arc::default();
        Some((socket, Act::Read { session }))
    }

    /// More of the one that is read.
    pub(super) fn older(&self) -> Option<(PathBuf, Act)> {
        let (socket, session) = self.read.clone()?;
        Some((socket, Act::Older { pane: None, session }))
    }

    /// The selected one is to go on.
    pub(super) fn reopen(&self) -> Option<(PathBuf, Act)> {
        let (socket, session) = self.row().filter(|row| row.can_reopen)?.key();
        Some((socket, Act::Reopen { session }))
    }
}

impl PastRow {
    fn key(&self) -> (PathBuf, String) {
        (self.socket.clone(), self.row.id.clone())
    }

    fn is(&self, (socket, session): &(PathBuf, String)) -> bool {
        (self.socket.as_path(), &self.row.id) == (Path::new(socket), session)
    }

    /// When it ended, as far as that is known, in ISO 8601.
    pub(super) fn end(&self) -> &str {
        self.row.ended_at.as_deref().unwrap_or(&self.row.started_at)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn past(sessions: &[&str]) -> Past {
        let row = |session: &&str| PastRow {
            socket: "/run/a".into(),
            row: serde_json::from_value(json!({"id": session, "title": "Deploy",
                "startedAt": "2026-11-30T14:53:46.120Z", "state": "closed", "items": 3}))
            .unwrap(),
            can_reopen: true,
        };
        Past { rows: sessions.iter().map(row).collect(), ..Past::default() }
    }

    #[test]
    fn the_selected_one_is_read_or_goes_on() {
        let mut past = past(&["a", "b"]);
        assert!(past.older().is_none(), "none is read");
        past.select_next(1);
        past.select_next(1);
        let session = || "b".to_owned();
        assert_eq!(past.read(), Some(("/run/a".into(), Act::Read { session: session() })));
        past.select_next(-1);
        assert_eq!(past.reading().unwrap().row.id, "b");
        let older = Act::Older { pane: None, session: session() };
        assert_eq!(past.older(), Some(("/run/a".into(), older)));
        let reopen = Act::Reopen { session: "a".to_owned() };
        assert_eq!(past.reopen(), Some(("/run/a".into(), reopen)));
        past.rows[0].can_reopen = false;
        assert_eq!(past.reopen(), None);
    }

    #[test]
    fn where_there_is_none_keys_do_nothing() {
        let mut past = past(&[]);
        past.select_next(1);
        assert_eq!((past.read(), past.reopen(), past.older()), (None, None, None));
    }
}
