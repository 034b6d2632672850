//! Reads, which the caller check never refuses (N027).

use std::sync::Arc;

use super::call::refusal;
use super::items::Json;
use super::state::{cursor, rev_of};
use super::{Core, Request, Response, json_response};
use crate::collie::history::{DynHistory, HistoryPage};
use crate::collie::hooks::HookError;
use crate::collie::wire::{
    Body, Event, EventsView, Page, Phase, Read, Refusal, WIRE, WireRange, is_cursor, read_hello,
};

impl Core {
    pub(super) async fn read(
        &self,
        read: Read,
        if_none_match: Option<&str>,
    ) -> Result<Response, Refusal> {
        match read {
            Read::Hello => Ok(json_response(&self.hello())),
            Read::State => Ok(self.state(if_none_match)),
            Read::Events { pane, page } => {
                self.restore_chat(&pane).await;
                let limit = page.limit.unwrap_or(500) as usize;
                self.events(&pane, page.after.as_deref(), limit)
            }
            Read::History { page } => self.history_rows(page).await,
            Read::HistoryItems { session, page } => self.history_items(session, page).await,
        }
    }

    fn history_provider(&self) -> Result<Arc<dyn DynHistory>, Refusal> {
        let provider = self.edit(|edit| edit.state.history.clone());
        let provider = provider.filter(|_| self.caps().history);
        provider.ok_or_else(|| Refusal::not_supported("reads of its history"))
    }

    async fn history_rows(&self, page: Page) -> Result<Response, Refusal> {
        let rows = self.history_provider()?.rows(history_page(page)).await.map_err(no_history)?;
        check_next(rows.next.as_deref())?;
        Ok(json_response(&rows))
    }

    async fn history_items(&self, session: String, page: Page) -> Result<Response, Refusal> {
        let provider = self.history_provider()?;
        let items = provider.items(session, history_page(page)).await.map_err(no_history)?;
        let items = items.ok_or_else(Refusal::unknown_session)?;
        check_next(items.next.as_deref())?;
        Ok(json_response(&items))
    }

    fn state(&self, if_none_match: Option<&str>) -> Response {
        let view = self.edit(|edit| edit.state.view());
        let unchanged = if_none_match.is_some_and(|tags| {
            tags.split(',').any(|tag| {
                let tag = tag.trim();
                tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == view.etag
            })
        });
        let mut response = if unchanged {
            let mut response = Response::json(304, []);
            response.headers.retain(|(name, _)| *name != "content-type");
            response
        } else {
            Response::json(200, Arc::clone(&view.body))
        };
        response.headers.push(("etag", view.etag.clone()));
        response
    }

    fn events(&self, pane: &str, after: Option<&str>, limit: usize) -> Result<Response, Refusal> {
        self.edit(|edit| {
            let instance = &edit.state.instance;
            let pane = edit.state.any_pane(pane).ok_or_else(Refusal::unknown_pane)?;
            let new = after
                .and_then(|after| rev_of(instance, after))
                .and_then(|rev| Some((rev, pane.tail.after(rev, limit)?)));
            if let Some((rev, (events, more))) = new {
                let last = events.last().map_or(rev, |event| event.rev);
                return Ok(json_response(&EventsView::<_, Json, Json> {
                    cursor: cursor(instance, last),
                    reset: false,
                    more: Some(more),
                    events: Some(events),
                    dropped_start: false,
                    items: None,
                    state: None,
                    turn_id: None,
                    asks: None,
                }));
            }
            Ok(json_response(&EventsView::<Event<Json, Json>, _, _> {
                cursor: cursor(instance, pane.tail.rev()),
                reset: true,
                more: None,
                events: None,
                dropped_start: pane.items.dropped_start(),
                items: Some(pane.items.newest()),
                state: Some(pane.state),
                turn_id: pane.turn_id.clone(),
                asks: Some(pane.asks.iter().map(|ask| &ask.json).collect()),
            }))
        })
    }

    /// Collie says which versions it speaks, once for each start of the agent (N240).
    pub(super) fn hello_from_collie(&self, request: &Request) -> Result<Response, Refusal> {
        super::write::check_json(request)?;
        let theirs = read_hello(&Body::read(&request.body)?)?;
        if theirs.min <= WIRE.max && theirs.max >= WIRE.min {
            return Ok(json_response(&self.hello()));
        }
        for line in mismatch_lines(theirs) {
            self.warn(&line);
        }
        Err(Refusal::wire_mismatch(&self.hello()))
    }

    pub(super) fn is_ready(&self) -> bool {
        self.phase() == Phase::Ready
    }
}

fn history_page(page: Page) -> HistoryPage {
    HistoryPage { after: page.after, limit: page.limit.unwrap_or(50) as usize }
}

fn no_history(error: HookError) -> Refusal {
    refusal(error, "reads of its history")
}

/// The provider's own cursor must be one that the phone can give back (N129).
fn check_next(next: Option<&str>) -> Result<(), Refusal> {
    if next.is_none_or(is_cursor) {
        return Ok(());
    }
    tracing::error!("the history gave a cursor that is not 1 to 512 of printable ASCII");
    Err(Refusal::failed())
}

/// One line for each version that the other side speaks (N241). A range without end is cut.
fn mismatch_lines(theirs: WireRange) -> impl Iterator<Item = String> {
    let update = if theirs.min > WIRE.max { "the agent's SDK, or Collie" } else { "Collie" };
    (theirs.min..=theirs.max).take(10).map(move |version| {
        let ours = WIRE.max;
        format!(
            "collie: Collie speaks wire v{version}, this durable agent speaks v{ours}. \
             Update {update}."
        )
    })
}
