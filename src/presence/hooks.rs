//! What the phone sends, as wishes for the agent.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use super::Inner;
use super::inner::SessionInner;
use super::wish::{Takes, Wanted};
use crate::collie::{
    ActionRequest, Caps, CloseRequest, HookError, Hooks, RenameRequest, ReopenRequest, SendRequest,
    StartRequest, StopRequest, Target,
};

/// Puts what the phone sends into the inbox.
#[derive(Debug)]
pub(super) struct PhoneHooks {
    /// Known once the presence is there; before that it has no session either.
    pub(super) presence: Arc<OnceLock<Weak<Inner>>>,
    pub(super) patience: Duration,
}

impl PhoneHooks {
    async fn wish(
        &self,
        pane: Option<&str>,
        request_id: String,
        wanted: Wanted,
    ) -> Result<Option<String>, HookError> {
        self.wish_again(pane, request_id, wanted, false).await
    }

    /// A wish; `again`: one that was accepted before a restart.
    async fn wish_again(
        &self,
        pane: Option<&str>,
        request_id: String,
        wanted: Wanted,
        again: bool,
    ) -> Result<Option<String>, HookError> {
        let gone = || HookError::refused("The agent is not there any more.");
        let presence = self.presence.get().and_then(Weak::upgrade).ok_or_else(gone)?;
        let session: Option<Arc<SessionInner>> = match pane {
            Some(pane) => Some(presence.find(pane).ok_or_else(gone)?),
            None => None,
        };
        let queue = Arc::clone(&presence.inbox);
        // A wish that waits keeps no presence alive.
        drop(presence);
        queue.wish(session.as_ref(), request_id, wanted, self.patience, again).await
    }
}

impl PhoneHooks {
    fn is_blocked_in_a_turn(&self, pane: &str) -> bool {
        let presence = self.presence.get().and_then(Weak::upgrade);
        let session = presence.and_then(|presence| presence.find(pane));
        session.is_some_and(|session| session.is_blocked_in_a_turn())
    }
}

/// The pane that a target names.
fn pane_of(target: &Target) -> Option<String> {
    match target {
        Target::Pane(pane) => Some(pane.clone()),
        Target::Tab(_) | Target::Workspace(_) => None,
    }
}

impl Hooks for PhoneHooks {
    async fn send(&self, request: SendRequest) -> Result<(), HookError> {
        // To keep it for the end of the turn would be a promise that nobody can make: the turn may end
        // with what blocks it. An open ask is refused before this, by the wire's own rule.
        if !request.again && self.is_blocked_in_a_turn(request.pane.id()) {
            return Err(HookError::refused("A question is open at the agent's terminal."));
        }
        // Accepted is not taken yet, if a turn runs.
        request.defer();
        let (pane, wanted) = (request.pane.id(), Wanted::Send { text: request.text });
        self.wish_again(Some(pane), request.request_id, wanted, request.again).await.map(drop)
    }

    async fn steer(&self, request: SendRequest) -> Result<(), HookError> {
        let wanted = Wanted::Steer { text: request.text };
        self.wish(Some(request.pane.id()), request.request_id, wanted).await.map(drop)
    }

    async fn stop(&self, request: StopRequest) -> Result<(), HookError> {
        self.wish(Some(request.pane.id()), request.request_id, Wanted::Stop).await.map(drop)
    }

    async fn action(&self, request: ActionRequest) -> Result<(), HookError> {
        let wanted = Wanted::Action { action: request.action, item: request.item_id };
        self.wish(Some(request.pane.id()), request.request_id, wanted).await.map(drop)
    }

    async fn rename(&self, request: RenameRequest) -> Result<(), HookError> {
        let pane = pane_of(&request.target);
        let wanted = Wanted::Rename { target: request.target, title: request.title };
        self.wish(pane.as_deref(), request.request_id, wanted).await.map(drop)
    }

    async fn close(&self, request: CloseRequest) -> Result<(), HookError> {
        let pane = pane_of(&request.target);
        let wanted = Wanted::Close { target: request.target };
        self.wish(pane.as_deref(), request.request_id, wanted).await.map(drop)
    }

    async fn reopen(&self, request: ReopenRequest) -> Result<String, HookError> {
        let session = request.session_id;
        let wanted = Wanted::Reopen { session: session.clone() };
        let began = self.wish(None, request.request_id, wanted).await?;
        Ok(began.unwrap_or(session))
    }

    async fn start(&self, request: StartRequest) -> Result<Option<String>, HookError> {
        let wanted = Wanted::Start { starter: request.starter, text: request.text };
        self.wish(None, request.request_id, wanted).await
    }
}

/// What the phone is to offer.
pub(super) fn caps(takes: Takes) -> Caps {
    Caps {
        asks: true,
        send: takes.send,
        steer: takes.steer,
        abort: takes.stop,
        actions: takes.action,
        rename: takes.rename,
        close: takes.close,
        reopen: takes.reopen,
        starters: takes.start,
        // Where there are records.
        history: true,
        ..Caps::NONE
    }
}
