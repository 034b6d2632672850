//! What outlives the process: conversations, their chats, open asks, receipts.

mod chat;
mod file;
mod writer;

use serde::{Deserialize, Serialize};

pub use file::FileRecords;

use super::core::Json;
use super::wire::{AskView, HistoryRow, RowState};

/// A conversation, apart from its chat. Written whole whenever it changes, so that a damaged line
/// costs one change and not the conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PaneRecord {
    pub(crate) session_id: String,
    pub(crate) pane_id: String,
    pub(crate) workspace_id: String,
    pub(crate) tab_id: String,
    pub(crate) title: String,
    /// In ISO 8601, like the next.
    pub(crate) started_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ended_at: Option<String>,
    pub(crate) is_open: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) turn_id: Option<String>,
    /// How many items its chat has, as far as was known then.
    #[serde(default)]
    pub(crate) items: usize,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) asks: Vec<AskRecord>,
}

/// An open ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AskRecord {
    pub(crate) ask: AskView,
    /// Which raising of it this is.
    #[serde(default)]
    pub(crate) raised: String,
    /// It can be raised again under this id.
    pub(crate) again: bool,
}

/// The chat of a conversation from before this start.
#[derive(Debug, Default)]
pub(crate) struct ChatRecord {
    /// The oldest first.
    pub(crate) items: Vec<(String, Json)>,
    /// There were older ones.
    pub(crate) dropped_start: bool,
}

impl PaneRecord {
    fn row(&self) -> HistoryRow {
        HistoryRow {
            id: self.session_id.clone(),
            title: self.title.clone(),
            subtitle: None,
            workspace_id: Some(self.workspace_id.clone()),
            tab_id: Some(self.tab_id.clone()),
            started_at: self.started_at.clone(),
            ended_at: self.ended_at.clone(),
            state: if self.is_open { RowState::Open } else { RowState::Closed },
            items: self.items as u64,
        }
    }
}
