//! History that dies with the process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{History, HistoryPage, part};
use crate::collie::hooks::HookError;
use crate::collie::wire::{HistoryItems, HistoryRow, HistoryRows, Item};

/// Conversations in memory. Clones are the same history.
#[derive(Clone, Debug, Default)]
pub struct MemoryHistory {
    sessions: Arc<Mutex<Sessions>>,
}

/// What both forms hold.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    /// In the order of their beginning.
    rows: Vec<HistoryRow>,
    /// By session; in the order of their first appearance.
    items: HashMap<String, Vec<Item>>,
}

impl MemoryHistory {
    /// An empty history.
    pub fn new() -> Self {
        Self::default()
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a conversation, or says something new of one that is there: a title, its end. The count
    /// of its items is kept by the history itself.
    pub fn put_row(&self, row: HistoryRow) {
        self.sessions().put_row(row);
    }

    /// Adds an item to a conversation that is there, or replaces the one of its id in place.
    pub fn put_item(&self, session_id: &str, item: Item) {
        self.sessions().put_item(session_id, item);
    }
}

impl History for MemoryHistory {
    async fn rows(&self, page: HistoryPage) -> Result<HistoryRows, HookError> {
        Ok(self.sessions().rows(&page))
    }

    async fn items(
        &self,
        session_id: String,
        page: HistoryPage,
    ) -> Result<Option<HistoryItems>, HookError> {
        Ok(self.sessions().items(&session_id, &page))
    }
}

impl Sessions {
    pub(super) fn put_row(&mut self, row: HistoryRow) {
        if let Some(known) = self.rows.iter_mut().find(|known| known.id == row.id) {
            *known = HistoryRow { items: known.items, ..row };
        } else {
            self.items.entry(row.id.clone()).or_default();
            self.rows.push(HistoryRow { items: 0, ..row });
        }
    }

    pub(super) fn put_item(&mut self, session_id: &str, item: Item) {
        let Some(items) = self.items.get_mut(session_id) else {
            return;
        };
        // A growing text is replaced many times, and is near the end.
        if let Some(known) = items.iter_mut().rev().find(|known| known.id == item.id) {
            *known = item;
            return;
        }
        items.push(item);
        if let Some(row) = self.rows.iter_mut().find(|row| row.id == session_id) {
            row.items += 1;
        }
    }

    pub(super) fn rows(&self, page: &HistoryPage) -> HistoryRows {
        let (rows, next) = part(&self.rows, page);
        HistoryRows { rows, next }
    }

    pub(super) fn items(&self, session_id: &str, page: &HistoryPage) -> Option<HistoryItems> {
        let (items, next) = part(self.items.get(session_id)?, page);
        Some(HistoryItems { items, next })
    }
}
