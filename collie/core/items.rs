//! What the core keeps of one pane's chat: the newest items, and the tail of its events.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::collie::newest::Newest;
use crate::collie::records::ChatRecord;
use crate::collie::time::iso;
use crate::collie::wire::{Change, Event, Item, to_raw};

/// The newest items that a view holds, and that are kept (N135).
pub(crate) const VIEW_LIMIT: usize = 2000;

/// A value as its JSON: written once, then shared by the view and the events, and copied as it is.
#[derive(Clone, Debug)]
pub(crate) struct Json(Arc<RawValue>);

impl Json {
    pub(crate) fn of<T: Serialize>(value: &T) -> Self {
        Self(to_raw(value).into())
    }

    pub(crate) fn raw(&self) -> &RawValue {
        &self.0
    }
}

impl From<Box<RawValue>> for Json {
    fn from(value: Box<RawValue>) -> Self {
        Self(value.into())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// The newest items of a pane, in the order of their first appearance.
#[derive(Debug)]
pub(crate) struct Items {
    newest: Newest<Json>,
    /// Older ones were left behind before this start.
    dropped_before: bool,
}

impl Default for Items {
    fn default() -> Self {
        Self { newest: Newest::new(VIEW_LIMIT), dropped_before: false }
    }
}

impl Items {
    /// Adds `item`, or replaces the one of its id in place (N060). Gives its JSON.
    pub(super) fn put(&mut self, item: &Item) -> Json {
        let json = Json::of(item);
        self.newest.put(&item.id, json.clone());
        json
    }

    /// Puts what was said before this start before it.
    pub(super) fn put_before(&mut self, before: ChatRecord) {
        let mut newest = Newest::new(VIEW_LIMIT);
        for (id, item) in before.items {
            newest.put(&id, item);
        }
        for (id, item) in self.newest.iter() {
            newest.put(id, item.clone());
        }
        self.dropped_before |= before.dropped_start || self.newest.has_dropped();
        self.newest = newest;
    }

    pub(super) fn newest(&self) -> Vec<&Json> {
        self.newest.iter().map(|(_, json)| json).collect()
    }

    /// There were older items, which are no longer kept.
    pub(super) fn dropped_start(&self) -> bool {
        self.dropped_before || self.newest.has_dropped()
    }
}

/// The newest events of a pane.
#[derive(Debug)]
pub(crate) struct Tail {
    events: VecDeque<KeptEvent>,
    /// A reader at this revision or after it has missed nothing.
    complete_since: u64,
    limit: usize,
}

/// An event, small: a hub holds many.
#[derive(Debug)]
struct KeptEvent {
    rev: u64,
    at: SystemTime,
    change: KeptChange,
}

#[derive(Debug)]
enum KeptChange {
    /// Nearly every event. Its text is the one of the items.
    Item(Json),
    Other(Box<Change<Json, Json>>),
}

impl KeptEvent {
    fn to_event(&self) -> Event<Json, Json> {
        let change = match &self.change {
            KeptChange::Item(item) => Change::Item { item: item.clone() },
            KeptChange::Other(change) => Change::clone(change),
        };
        Event { rev: self.rev, ts: iso(self.at), change }
    }
}

impl Tail {
    pub(super) fn new(limit: usize, rev: u64) -> Self {
        Self { events: VecDeque::new(), complete_since: rev, limit }
    }

    pub(super) fn push(&mut self, rev: u64, at: SystemTime, change: Change<Json, Json>) {
        let change = match change {
            Change::Item { item } => KeptChange::Item(item),
            other => KeptChange::Other(Box::new(other)),
        };
        self.events.push_back(KeptEvent { rev, at, change });
        while self.events.len() > self.limit {
            if let Some(oldest) = self.events.pop_front() {
                self.complete_since = oldest.rev;
            }
        }
    }

    pub(super) fn rev(&self) -> u64 {
        self.events.back().map_or(self.complete_since, |event| event.rev)
    }

    /// At most `limit` events after `rev`, and whether there are more; `None` for a reader that
    /// has missed some, or claims to have seen what never was.
    pub(super) fn after(&self, rev: u64, limit: usize) -> Option<(Vec<Event<Json, Json>>, bool)> {
        if rev < self.complete_since || rev > self.rev() {
            return None;
        }
        let first = self.events.partition_point(|event| event.rev <= rev);
        let events = self.events.range(first..).take(limit).map(KeptEvent::to_event).collect();
        Some((events, self.events.len() - first > limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n135_the_newest_items_are_kept() {
        let mut items = Items::default();
        for number in 0..VIEW_LIMIT {
            items.put(&Item::reply(format!("r{number}"), "x"));
        }
        assert!(!items.dropped_start());
        items.put(&Item::reply("one-more", "x"));
        assert!(items.dropped_start());
        assert_eq!(items.newest().len(), VIEW_LIMIT);
        // The dropped one is new again, and a kept one is still replaced in place.
        items.put(&Item::reply("r1", "replaced"));
        assert!(items.newest()[0].0.get().contains("replaced"));
    }

    #[test]
    fn n060_a_known_id_is_replaced_in_place() {
        let mut items = Items::default();
        for (id, text) in [("a", "1"), ("b", "2"), ("a", "3")] {
            items.put(&Item::reply(id, text));
        }
        let texts: Vec<_> = items.newest().iter().map(|json| json.0.get().to_owned()).collect();
        assert_eq!(texts.len(), 2);
        assert!(texts[0].contains("\"3\"") && texts[1].contains("\"2\""));
    }

    #[test]
    fn n134_a_reader_behind_the_tail_has_missed_events() {
        let mut tail = Tail::new(2, 10);
        for rev in [11, 15, 16] {
            tail.push(rev, SystemTime::UNIX_EPOCH, Change::Closed);
        }
        assert!(tail.after(10, 9).is_none(), "the event 11 is gone");
        assert_eq!(tail.after(11, 9).unwrap().0.len(), 2);
        assert!(tail.after(11, 1).unwrap().1);
        assert_eq!(tail.after(16, 9).unwrap().0.len(), 0);
        assert!(tail.after(17, 9).is_none(), "never was");
    }
}
