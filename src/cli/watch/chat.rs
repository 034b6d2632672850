//! The chat of one conversation: as its pane's events tell it, and what the history has from before.

use crate::collie::Item;
use crate::collie::wire::{Change, EventsView, HistoryItems};

/// How many items are kept, unless older ones were asked for: as many as a pane shows.
const KEPT: usize = 2000;

/// How many parts of a history are read at most to find where the items here begin.
const PARTS: usize = 100;

/// The newest items of one conversation, in order.
#[derive(Clone, Debug)]
pub(super) struct Chat {
    cursor: Option<String>,
    items: Vec<Item>,
    kept: usize,
    older: Older,
    /// There were older items, and they are not here.
    is_cut: bool,
}

/// Where the items that are older than the ones here are in the history.
#[derive(Clone, Debug, PartialEq)]
enum Older {
    Unread,
    After(String),
    AllRead,
}

impl Default for Chat {
    fn default() -> Self {
        let (cursor, items) = (None, Vec::new());
        Self { cursor, items, kept: KEPT, older: Older::Unread, is_cut: false }
    }
}

impl Chat {
    /// Where its events end, as far as they are known here.
    pub(super) fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    pub(super) fn items(&self) -> &[Item] {
        &self.items
    }

    /// Whether the history has been read to its end.
    pub(super) fn is_all_read(&self) -> bool {
        self.older == Older::AllRead
    }

    /// Whether there were older items that are not here.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Takes in new events, or the full view that came instead.
    pub(super) fn take_in(&mut self, events: EventsView) {
        if events.reset {
            let items = events.items.unwrap_or_default();
            *self = Self { items, is_cut: events.dropped_start, ..Self::default() };
        }
        for event in events.events.unwrap_or_default() {
            if let Change::Item { item } = event.change {
                self.put(item);
            }
        }
        self.cursor = Some(events.cursor);
        let surplus = self.items.len().saturating_sub(self.kept);
        if surplus > 0 {
            self.items.drain(..surplus);
            // The history has them, if it has been read or not.
            (self.older, self.is_cut) = (Older::Unread, true);
        }
    }

    /// Reads some of what is older than the items here. `part` gives a part of the history, newest first.
    pub(super) fn read_older<E>(
        &mut self,
        mut part: impl FnMut(Option<&str>) -> Result<HistoryItems, E>,
    ) -> Result<(), E> {
        let mut after = match &self.older {
            Older::Unread => None,
            Older::After(next) => Some(next.clone()),
            Older::AllRead => return Ok(()),
        };
        // A history begins with what is here already.
        let oldest = self.items.first().filter(|_| after.is_none()).map(|item| item.id.clone());
        let (mut read, mut known) = (Vec::new(), 0);
        for _ in 0..PARTS {
            let HistoryItems { items, next } = part(after.as_deref())?;
            (after, known) = (next, if oldest.is_some() { read.len() + items.len() } else { 0 });
            read.extend(items);
            if let Some(place) = read.iter().position(|item| Some(&item.id) == oldest.as_ref()) {
                known = place + 1;
            }
            if read.len() > known || after.is_none() {
                break;
            }
        }
        let older = read.split_off(known);
        self.older = match after {
            Some(next) if !older.is_empty() => Older::After(next),
            _ => Older::AllRead,
        };
        self.is_cut &= older.is_empty();
        self.kept += older.len();
        self.items.splice(..0, older.into_iter().rev());
        Ok(())
    }

    /// An item with a known id replaces the earlier one in place (N060).
    fn put(&mut self, item: Item) {
        match self.items.iter_mut().find(|known| known.id == item.id) {
            Some(known) => *known = item,
            None => self.items.push(item),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn texts(chat: &Chat) -> Vec<String> {
        let text = |item| json!(item)["text"].as_str().unwrap().to_owned();
        chat.items().iter().map(text).collect()
    }

    fn item(id: &str, text: &str) -> Value {
        json!({"id": id, "kind": "reply", "text": text})
    }

    fn events(view: Value) -> EventsView {
        serde_json::from_value(view).unwrap()
    }

    #[test]
    fn an_item_with_a_known_id_is_replaced_in_place() {
        let mut chat = Chat::default();
        chat.take_in(events(json!({"cursor": "i:1", "reset": true,
            "items": [item("a", "one"), item("b", "two")], "state": "idle", "asks": []})));
        let event = json!({"rev": 2, "ts": "2026-11-30T14:53:50.001Z", "type": "item",
            "item": item("a", "three")});
        chat.take_in(events(
            json!({"cursor": "i:2", "reset": false, "more": false, "events": [event]}),
        ));
        assert_eq!(texts(&chat), ["three", "two"]);
        assert_eq!(chat.cursor(), Some("i:2"));
    }

    #[test]
    fn a_full_view_replaces_everything() {
        let mut chat = Chat::default();
        for text in ["old", "new"] {
            chat.take_in(events(json!({"cursor": "i:1", "reset": true,
                "items": [item(text, text)], "state": "idle", "asks": []})));
        }
        assert_eq!(texts(&chat), ["new"]);
    }

    /// A chat of `range`, and a history of the items 0 to 9 in parts of 3.
    fn chat_of(range: std::ops::Range<usize>) -> Chat {
        let items: Vec<Value> = range.map(|n| item(&n.to_string(), &n.to_string())).collect();
        let mut chat = Chat::default();
        chat.take_in(events(json!({"cursor": "i:1", "reset": true, "droppedStart": true,
            "items": items, "state": "idle", "asks": []})));
        chat
    }

    fn part(after: Option<&str>) -> HistoryItems {
        let end = after.map_or(10, |after| after.parse().unwrap());
        let begin = usize::saturating_sub(end, 3);
        let items: Vec<Value> =
            (begin..end).rev().map(|n| item(&n.to_string(), &n.to_string())).collect();
        let mut part = json!({ "items": items });
        if begin > 0 {
            part["next"] = begin.to_string().into();
        }
        serde_json::from_value(part).unwrap()
    }

    fn read_older(chat: &mut Chat) {
        chat.read_older(|after| Ok::<_, ()>(part(after))).unwrap();
    }

    #[test]
    fn older_items_come_before_those_that_are_here() {
        let mut chat = chat_of(5..10);
        assert!(chat.is_cut() && !chat.is_all_read());
        read_older(&mut chat);
        assert_eq!(texts(&chat).join(" "), "4 5 6 7 8 9");
        assert!(!chat.is_cut() && !chat.is_all_read());
        read_older(&mut chat);
        read_older(&mut chat);
        assert_eq!(texts(&chat).join(" "), "0 1 2 3 4 5 6 7 8 9");
        assert!(chat.is_all_read());
        chat.read_older(|_| Err("asked again")).unwrap();
    }

    #[test]
    fn a_history_without_the_items_that_are_here_gives_nothing() {
        let mut chat = chat_of(20..22);
        read_older(&mut chat);
        assert_eq!(texts(&chat).join(" "), "20 21");
        assert!(chat.is_cut() && chat.is_all_read());
        let mut parts = 0;
        let mut chat = chat_of(20..22);
        let endless = |_: Option<&str>| {
            parts += 1;
            Ok::<_, ()>(HistoryItems { next: Some("3".to_owned()), ..part(Some("3")) })
        };
        chat.read_older(endless).unwrap();
        assert_eq!((texts(&chat).len(), parts, chat.is_all_read()), (2, PARTS, true));
    }

    #[test]
    fn a_conversation_of_which_nothing_is_here_is_read_from_its_end() {
        let mut chat = Chat::default();
        read_older(&mut chat);
        assert_eq!(texts(&chat).join(" "), "7 8 9");
    }

    #[test]
    fn what_does_not_fit_any_more_can_be_read_again() {
        let mut chat = chat_of(5..10);
        chat.kept = 5;
        read_older(&mut chat);
        assert_eq!(chat.kept, 6);
        let event = json!({"rev": 2, "ts": "2026-11-30T14:53:50.001Z", "type": "item",
            "item": item("10", "10")});
        chat.take_in(events(
            json!({"cursor": "i:2", "reset": false, "more": false, "events": [event]}),
        ));
        assert_eq!(texts(&chat).join(" "), "5 6 7 8 9 10");
        assert!(chat.is_cut() && chat.older == Older::Unread);
    }
}
