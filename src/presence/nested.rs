//! A session of an agent that runs inside another one's, in the same pane of Herdr.
//!
//! Herdr has one row for a pane, and it stays the outer agent's: its state, its resume command. What
//! the inner one does is its own business there, with one exception: while it needs the user, the outer
//! session is blocked, too. Whoever looks at the desk sees that somebody waits, and the phone's text for
//! the outer agent, which would land in the inner one's dialog, is refused.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use super::inner::{SessionInner, lock};
use super::sync::Mutex;
use crate::session::{ReasonKey, Shown, State};

/// Where a nested session belongs.
#[derive(Debug)]
pub(super) struct Within {
    outer: Weak<SessionInner>,
    /// The inner agent's name.
    pub(super) agent: String,
    /// The outer agent's terminal is the inner one's for as long as it runs.
    has_terminal: bool,
    /// What blocks the outer session, and why.
    block: Mutex<Option<(Weak<SessionInner>, ReasonKey, String)>>,
}

/// How many nested sessions have a session's terminal.
#[derive(Debug, Default)]
pub(super) struct Lent(AtomicUsize);

impl Lent {
    pub(super) fn is_lent(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }
}

impl Within {
    pub(super) fn new(outer: &Arc<SessionInner>, agent: &str, has_terminal: bool) -> Self {
        if has_terminal {
            outer.lent.0.fetch_add(1, Ordering::AcqRel);
        }
        let (outer, agent) = (Arc::downgrade(outer), agent.to_owned());
        Self { outer, agent, has_terminal, block: Mutex::default() }
    }

    /// The same place, for the session that takes this one's.
    pub(super) fn again(&self) -> Option<Self> {
        Some(Self::new(&self.outer.upgrade()?, &self.agent, self.has_terminal))
    }

    /// Blocks the outer session, or lets it go on. It is told by the pump: we are inside an edit.
    pub(super) fn tell(&self, shown: &Shown) {
        let why = (shown.state == State::Blocked).then(|| {
            let message = shown.message.as_deref().filter(|message| !message.is_empty());
            format!("{}: {}", self.agent, message.unwrap_or("needs you"))
        });
        let mut block = lock(&self.block);
        if block.as_ref().map(|(.., why)| why) == why.as_ref() {
            return;
        }
        if let Some((outer, key, _)) = block.take()
            && let Some(outer) = outer.upgrade()
        {
            lock(&outer.model).unblock(key);
        }
        if let (Some(why), Some(outer)) = (why, self.outer.upgrade()) {
            let outer = outer.successor().unwrap_or(&outer);
            let key = lock(&outer.model).blocked_by(&why);
            *block = Some((Arc::downgrade(outer), key, why));
        }
    }

    /// The inner agent has ended.
    pub(super) fn ended(&self) {
        if self.has_terminal
            && let Some(outer) = self.outer.upgrade()
        {
            outer.lent.0.fetch_sub(1, Ordering::AcqRel);
        }
    }
}
