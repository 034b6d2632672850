//! History on disk: JSON lines.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::memory::Sessions;
use super::{History, HistoryPage};
use crate::collie::hooks::HookError;
use crate::collie::lines;
use crate::collie::wire::{HistoryItems, HistoryRow, HistoryRows, Item};

/// Conversations in an append-only file of JSON lines, mode 0600, in a private folder, and all of
/// them in memory. Clones are the same history.
///
/// Lines are not synced: what the phone must not lose is in the receipts. A line that a crash has
/// torn is cut off at the next start.
#[derive(Clone, Debug)]
pub struct FileHistory {
    store: Arc<Mutex<Store>>,
}

#[derive(Debug)]
struct Store {
    file: File,
    sessions: Sessions,
}

/// One line of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Row(HistoryRow),
    Item(String, Item),
}

impl FileHistory {
    /// Opens the history at `path`, or begins one. All of its conversations are closed until they
    /// are said to be open again.
    ///
    /// # Errors
    /// The file is another user's or open to others, is locked by another process, holds a line
    /// (but a torn last one) that is none, or the system refuses.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut sessions = Sessions::default();
        let file = lines::open(path, |line| match line {
            Line::Row(row) => sessions.put_row(row),
            Line::Item(session_id, item) => sessions.put_item(&session_id, item),
        })?;
        sessions.close_all();
        Ok(Self { store: Arc::new(Mutex::new(Store { file, sessions })) })
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`MemoryHistory::put_row`](super::MemoryHistory::put_row).
    ///
    /// # Errors
    /// It could not be written.
    pub fn put_row(&self, row: HistoryRow) -> io::Result<()> {
        let mut store = self.store();
        lines::append(&mut store.file, &Line::Row(row.clone()), false)?;
        store.sessions.put_row(row);
        Ok(())
    }

    /// As [`MemoryHistory::put_item`](super::MemoryHistory::put_item).
    ///
    /// # Errors
    /// It could not be written.
    pub fn put_item(&self, session_id: &str, item: Item) -> io::Result<()> {
        let mut store = self.store();
        let line = Line::Item(session_id.to_owned(), item.clone());
        lines::append(&mut store.file, &line, false)?;
        store.sessions.put_item(session_id, item);
        Ok(())
    }
}

impl History for FileHistory {
    async fn rows(&self, page: HistoryPage) -> Result<HistoryRows, HookError> {
        Ok(self.store().sessions.rows(&page))
    }

    async fn items(
        &self,
        session_id: String,
        page: HistoryPage,
    ) -> Result<Option<HistoryItems>, HookError> {
        Ok(self.store().sessions.items(&session_id, &page))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::collie::wire::RowState;

    #[tokio::test]
    async fn history_is_there_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own/history");
        let history = FileHistory::open(&path).unwrap();
        let row = HistoryRow {
            id: "s".to_owned(),
            title: "Title".to_owned(),
            subtitle: None,
            workspace_id: None,
            tab_id: None,
            started_at: "2026-11-30T14:53:46.120Z".to_owned(),
            ended_at: None,
            state: RowState::Open,
            items: 0,
        };
        history.put_row(row.clone()).unwrap();
        history.put_item("s", Item::user("u", "hi")).unwrap();
        history.put_item("s", Item::reply("r", "h").partial()).unwrap();
        history.put_item("s", Item::reply("r", "hello")).unwrap();
        drop(history);
        // A crash tore the last line.
        std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"it").unwrap();
        let history = FileHistory::open(&path).unwrap();
        let page = HistoryPage { after: None, limit: 10 };
        let rows = history.rows(page.clone()).await.unwrap();
        let expected = HistoryRow { state: RowState::Closed, items: 2, ..row };
        assert_eq!(rows, HistoryRows { rows: vec![expected], next: None });
        let items = history.items("s".to_owned(), page).await.unwrap().unwrap();
        assert_eq!(items.items, [Item::reply("r", "hello"), Item::user("u", "hi")]);
    }
}
