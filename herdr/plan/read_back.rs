//! Reading back: the only proof that Herdr took a report (H034).

use crate::herdr::report::{PaneView, State};
use crate::herdr::status::{ReadBack, TransportKind};
use crate::herdr::transport::TransportError;
use std::time::Duration;
use tokio::time::Instant;

/// The second look after a claim: a detector that clears a report does so within a second (H071).
const SECOND_LOOK: Duration = Duration::from_secs(2);

/// The heartbeat while the pane is held.
const HEARTBEAT: Duration = Duration::from_secs(25);

/// What a read-back means for the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// Herdr shows what was reported, or cannot be asked, or nothing helps for now.
    Fine,
    /// It showed it once and does not any more: claim again.
    Lost,
    /// It never showed it: claim again with a number far above.
    Unheard,
}

/// How far the healing of a difference has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Healing {
    /// Herdr showed the last claim.
    Heard,
    /// A claim was made and has not been seen yet.
    #[default]
    Claimed,
    /// A claim with a jump was made and has not been seen yet.
    Jumped,
    /// That did not help either. The next heartbeat tries again.
    GivenUp,
}

/// One look at the pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    First,
    Second,
    Heartbeat,
}

#[derive(Debug, Default)]
pub(super) struct ReadBackPlan {
    /// The look that comes next, and when.
    next: Option<(Look, Instant)>,
    /// Whether the last claim was followed by its first look.
    started: bool,
    healing: Healing,
    warned: bool,
    last: ReadBack,
}

impl ReadBackPlan {
    /// The next claim is looked at as the first one was.
    pub(super) fn restart(&mut self) {
        self.started = false;
    }

    /// Herdr answered `ok` to a report.
    pub(super) fn claimed(&mut self, over: TransportKind, now: Instant) {
        if self.started {
            return;
        }
        self.started = true;
        // A look over the CLI costs a process, so there the first one is left out.
        self.next = Some(match over {
            TransportKind::Socket => (Look::First, now),
            TransportKind::Cli => (Look::Second, now + SECOND_LOOK),
        });
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.next.map(|(_, due)| due)
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due().is_some_and(|due| due <= now)
    }

    /// Whether the look that is due is one of the slow ones.
    pub(super) fn is_heartbeat(&self) -> bool {
        matches!(self.next, Some((Look::Heartbeat, _)))
    }

    pub(super) fn last(&self) -> &ReadBack {
        &self.last
    }

    /// Takes in what Herdr shows, when `reported` is what it last answered `ok` to.
    pub(super) fn read(
        &mut self,
        agent: &str,
        reported: Option<State>,
        view: Result<Option<PaneView>, TransportError>,
        now: Instant,
    ) -> Finding {
        self.next = Some(match self.next {
            Some((Look::First, _)) => (Look::Second, now + SECOND_LOOK),
            _ => (Look::Heartbeat, now + HEARTBEAT),
        });
        let (Ok(Some(view)), Some(reported)) = (view, reported) else {
            // A Herdr that cannot be asked now may be asked at the next heartbeat.
            self.last = ReadBack::Unavailable;
            return Finding::Fine;
        };
        let same_agent = view.agent.as_deref() == Some(agent);
        let same_state = view.agent_status.as_deref().is_some_and(|s| reported.is_read_back_as(s));
        if same_agent && same_state {
            self.healing = Healing::Heard;
            self.warned = false;
            self.last = ReadBack::Agrees;
            return Finding::Fine;
        }
        let (holder, shown) = (view.agent.clone(), view.agent_status.clone());
        self.last = ReadBack::Differs { agent: view.agent, state: view.agent_status };
        let finding;
        (self.healing, finding) = match self.healing {
            Healing::Heard => (Healing::Claimed, Finding::Lost),
            Healing::Claimed | Healing::GivenUp => (Healing::Jumped, Finding::Unheard),
            Healing::Jumped => {
                self.give_up(holder.as_deref(), shown.as_deref(), now);
                (Healing::GivenUp, Finding::Fine)
            }
        };
        finding
    }

    fn give_up(&mut self, holder: Option<&str>, shown: Option<&str>, now: Instant) {
        self.next = Some((Look::Heartbeat, now + HEARTBEAT));
        if !self.warned {
            self.warned = true;
            tracing::warn!(
                holder = holder.unwrap_or("nobody"),
                shown,
                "Herdr answers ok and shows something else: another program seems to hold the pane"
            );
        }
    }
}
