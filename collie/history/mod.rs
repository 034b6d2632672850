//! Every conversation, open or closed, from the agent's own store (N125).

mod memory;

use std::pin::Pin;

pub use memory::MemoryHistory;

use super::hooks::HookError;
use super::wire::{HistoryItems, HistoryRows};

/// Which part of a list is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistoryPage {
    /// Where the part before ended: a `next` of the provider's own. None begins.
    pub after: Option<String>,
    /// At most so many, 1 to 200.
    pub limit: usize,
}

/// A provider of history. Its cursors are its own: 1 to 512 characters of printable ASCII without
/// spaces (N129); no `next` ends a list (N130).
pub trait History: Send + Sync + 'static {
    /// Conversations, newest first.
    fn rows(
        &self,
        page: HistoryPage,
    ) -> impl Future<Output = Result<HistoryRows, HookError>> + Send;

    /// Items of one conversation, newest first; `None` for a conversation that is not known.
    fn items(
        &self,
        session_id: String,
        page: HistoryPage,
    ) -> impl Future<Output = Result<Option<HistoryItems>, HookError>> + Send;
}

type HistoryFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, HookError>> + Send + 'a>>;

/// [`History`] behind a pointer.
pub(crate) trait DynHistory: Send + Sync {
    fn rows(&self, page: HistoryPage) -> HistoryFuture<'_, HistoryRows>;
    fn items(
        &self,
        session_id: String,
        page: HistoryPage,
    ) -> HistoryFuture<'_, Option<HistoryItems>>;
}

impl<H: History> DynHistory for H {
    fn rows(&self, page: HistoryPage) -> HistoryFuture<'_, HistoryRows> {
        Box::pin(History::rows(self, page))
    }

    fn items(
        &self,
        session_id: String,
        page: HistoryPage,
    ) -> HistoryFuture<'_, Option<HistoryItems>> {
        Box::pin(History::items(self, session_id, page))
    }
}

/// The part of `list` that a page is, newest first, and where the next one begins. The cursors count
/// from the oldest, so that what is added meanwhile moves nothing.
pub(crate) fn part<T: Clone>(oldest_first: &[T], page: &HistoryPage) -> (Vec<T>, Option<String>) {
    let end = match &page.after {
        None => oldest_first.len(),
        // A cursor that is none of ours is at the end.
        Some(after) => after.parse().unwrap_or(0).min(oldest_first.len()),
    };
    let begin = end.saturating_sub(page.limit);
    let part = oldest_first[begin..end].iter().rev().cloned().collect();
    (part, (begin > 0).then(|| begin.to_string()))
}
