//! Reads, which the caller check never refuses (N027).

use std::sync::Arc;

use super::items::Json;
use super::state::{cursor, rev_of};
use super::{Core, Request, Response, json_response};
use crate::collie::wire::{
    Body, Event, EventsView, Phase, Read, Refusal, WIRE, WireRange, read_hello,
};

impl Core {
    pub(super) fn read(
        &self,
        read: Read,
        if_none_match: Option<&str>,
    ) -> Result<Response, Refusal> {
        match read {
            Read::Hello => Ok(json_response(&self.hello())),
            Read::State => Ok(self.state(if_none_match)),
            Read::Events { pane, page } => {
                let limit = page.limit.unwrap_or(500) as usize;
                self.events(&pane, page.after.as_deref(), limit)
            }
            Read::History { .. } | Read::HistoryItems { .. } => {
                Err(Refusal::not_supported("reads of its history"))
            }
        }
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
