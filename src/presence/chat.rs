//! What a session shows in the chat, and the buttons beside it.

use std::sync::Arc;

use super::inner::SessionInner;
use super::session::Session;
use crate::collie::{ActionView, Item, PaneError};
use crate::os::random;

/// Why something said is not in the chat.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the item is not in the chat: {0}")]
pub struct SayError(String);

/// A reply that grows: see [`Session::reply`].
#[derive(Clone, Debug)]
pub struct Reply {
    session: Session,
    id: String,
}

impl Reply {
    /// The id of the item in the chat.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Shows what the agent has said so far: the whole text each time, as often as it likes. The
    /// phone gets it at most every 250 ms (N062).
    ///
    /// # Errors
    /// As [`Session::item`].
    pub fn partial(&self, text_so_far: &str) -> Result<(), SayError> {
        self.session.item(Item::reply(&self.id, text_so_far).partial())
    }

    /// Shows the whole text. Without this, the last partial text is final when the turn ends (N063).
    ///
    /// # Errors
    /// As [`Session::item`].
    pub fn done(self, text: &str) -> Result<(), SayError> {
        self.session.item(Item::reply(&self.id, text))
    }
}

impl Session {
    /// Says something in the chat: a `reply` item. Gives the item's id.
    ///
    /// # Errors
    /// Collie would throw the item away. Without Collie, or when the user has closed the session on
    /// the phone, nothing is said, and nothing fails.
    pub fn say(&self, text: &str) -> Result<String, SayError> {
        self.new_item(|id| Item::reply(id, text))
    }

    /// The same in Markdown.
    ///
    /// # Errors
    /// As [`Session::say`].
    pub fn say_markdown(&self, text: &str) -> Result<String, SayError> {
        self.new_item(|id| Item::markdown(id, text))
    }

    /// Shows what the agent thinks: a `thinking` item.
    ///
    /// # Errors
    /// As [`Session::say`].
    pub fn think(&self, text: &str) -> Result<String, SayError> {
        self.new_item(|id| Item::thinking(id, text))
    }

    /// Shows what the user said to the agent: a `user` item. What came from the phone is shown by
    /// itself when the agent accepts it.
    ///
    /// # Errors
    /// As [`Session::say`].
    pub fn heard(&self, text: &str) -> Result<String, SayError> {
        self.new_item(|id| Item::user(id, text))
    }

    /// Shows a line about the conversation: a `notice` item.
    ///
    /// # Errors
    /// As [`Session::say`].
    pub fn notice(&self, text: &str) -> Result<String, SayError> {
        self.new_item(|id| Item::notice(id, text))
    }

    /// Shows any item (tool calls, code, links, badges, progress), or replaces the one of its id.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use agent_presence::collie::{Item, ToolStatus};
    /// # let presence = agent_presence::Presence::builder("my-agent").without_collie().start()?;
    /// # let session = presence.session("sess-42").open()?;
    /// session.item(Item::tool("call-1", "bash", ToolStatus::Running).input("cargo test"))?;
    /// session.item(Item::tool("call-1", "bash", ToolStatus::Ok).output("42 passed"))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Session::say`].
    pub fn item(&self, item: Item) -> Result<(), SayError> {
        let inner = self.inner();
        let is_users_line = item.is_users();
        inner.item_with(item, || inner.count(is_users_line))
    }

    /// Shows an item that somebody else made of what the agent did: it has not said it itself.
    pub(crate) fn transcribe(&self, item: Item) -> Result<(), SayError> {
        self.inner().item(item)
    }

    /// Begins a reply that grows while the agent writes it. The id is new in this session: the same
    /// id goes on with the same reply.
    pub fn reply(&self, id: &str) -> Reply {
        Reply { session: self.clone(), id: id.to_owned() }
    }

    /// Sets the buttons of the session; a tap is a wish of the [`Inbox`](super::Inbox).
    ///
    /// # Errors
    /// An id breaks its rule (N049).
    pub fn actions(&self, actions: impl Into<Vec<ActionView>>) -> Result<(), SayError> {
        match &self.inner().pane {
            Some(pane) => pane.actions(actions).map_err(|error| SayError(error.to_string())),
            None => Ok(()),
        }
    }

    fn new_item(&self, item: impl FnOnce(&str) -> Item) -> Result<String, SayError> {
        let id = random::hex(8).map_err(|error| SayError(error.to_string()))?;
        self.item(item(&id))?;
        Ok(id)
    }
}

impl SessionInner {
    pub(super) fn item(self: &Arc<Self>, item: Item) -> Result<(), SayError> {
        self.item_with(item, || {})
    }

    fn item_with(self: &Arc<Self>, item: Item, count: impl FnOnce()) -> Result<(), SayError> {
        // What was said before comes first: a text that grows needs the turn that it belongs to.
        let (shown, _) = self.publish_with(|edit| {
            count();
            edit.map(|edit| edit.item(item))
        });
        match shown {
            // A pane that the user closed is no reason to fail: nobody reads there any more.
            None | Some(Ok(()) | Err(PaneError::Closed)) => Ok(()),
            Some(Err(error)) => Err(SayError(error.to_string())),
        }
    }

    /// Shows an item of our own making, if there is a phone.
    pub(super) fn show(self: &Arc<Self>, item: Item) {
        if let Err(error) = self.item(item) {
            tracing::warn!(%error, session = self.id(), "an item is not shown");
        }
    }

    /// The agent takes up what the phone sent: with this item it is effective (N068).
    pub(super) fn heard_from_phone(self: &Arc<Self>, request_id: &str, text: &str) {
        let id = format!("user-{}", crate::collie::ask_id_for(self.id(), request_id));
        self.show(Item::user(id, text).request_id(request_id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presence::Presence;

    #[test]
    fn what_is_said_counts_for_its_turn() {
        let builder = Presence::builder("my-agent").without_collie().without_herdr();
        let session = builder.start().unwrap().session("s").open().unwrap();
        let said = || {
            session.publish();
            session.glance().said
        };
        // The user's line comes before the word that a turn runs, and is of that turn.
        session.heard("fix it").unwrap();
        session.working();
        assert_eq!(said(), 1);
        session.say("fixed").unwrap();
        session.idle();
        assert_eq!(said(), 2);
        // So is what comes late.
        session.say("and tested").unwrap();
        assert_eq!(said(), 3);
        session.working();
        assert_eq!(said(), 0);
        // What was seen on the screen was not said by the agent.
        session.transcribe(Item::reply("r", "shown")).unwrap();
        session.idle();
        session.transcribe(Item::user("u", "typed")).unwrap();
        session.working();
        assert_eq!(said(), 0);
    }
}
