//! The chat of one pane, as its events tell it.

use crate::collie::Item;
use crate::collie::wire::{Change, EventsView};

/// How many items are kept: more than any screen shows.
const KEPT: usize = 500;

/// The newest items of one pane, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Chat {
    cursor: Option<String>,
    items: Vec<Item>,
}

impl Chat {
    /// Where its events end, as far as they are known here.
    pub(super) fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    pub(super) fn items(&self) -> &[Item] {
        &self.items
    }

    /// Takes in new events, or the full view that came instead.
    pub(super) fn take_in(&mut self, events: EventsView) {
        if events.reset {
            self.items = events.items.unwrap_or_default();
        }
        for event in events.events.unwrap_or_default() {
            if let Change::Item { item } = event.change {
                self.put(item);
            }
        }
        self.cursor = Some(events.cursor);
        let surplus = self.items.len().saturating_sub(KEPT);
        self.items.drain(..surplus);
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
}
