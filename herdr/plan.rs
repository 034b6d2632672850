//! What to send next, and what an answer means. No I/O and no clock of its own: the driver asks for the
//! next step, does it, and tells the outcome.

mod command;
mod read_back;
mod retry;

use self::command::Command;
use self::read_back::{Finding, ReadBackPlan};
use self::retry::Retry;
use super::metadata::Metadata;
use super::report::{PaneView, Request, State};
use super::sequence::{Seq, Sequence};
use super::slots::{Claim, Session, Wanted};
use super::status::{Ownership, Status, TransportKind};
use super::transport::{Reply, TransportError};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// What two answers may take: Herdr gives one each 100 ms at the worst.
const CLEARING: Duration = Duration::from_millis(220);

/// What the driver does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Send this, and tell the outcome.
    Send(Request),
    /// Nothing to do until something changes, or until then.
    Wait(Option<Instant>),
    /// The end: all that was wanted is in force, or not.
    End { settled: bool },
}

/// The session of a process by its id, or our own.
pub(super) type SessionOf = fn(Option<u32>) -> Option<u32>;

/// What Herdr took so far, and what stands in the way of the rest.
#[derive(Debug)]
pub(super) struct Plan {
    agent: String,
    sequence: Sequence,
    /// None: whose pane it is does not matter.
    session_of: Option<SessionOf>,
    in_force: InForce,
    command: Command,
    retry: Retry,
    read_back: ReadBackPlan,
    ownership: Ownership,
    /// The next report uses a number far above: the one before seems to have been too low.
    jump: bool,
    /// The label for blocked, from the last message of a blocked state.
    blocked_label: Option<Arc<str>>,
    /// How often the process had been continued when we last looked.
    resumed: u32,
    stage: Stage,
    status: Status,
}

/// How far the session has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Reporting,
    /// The end is wanted, and the pane stays as it is.
    Ending,
    /// The user quit.
    Releasing,
    /// The release was answered with `ok`, and looked at once.
    Checking,
    /// It had not been heard.
    ReleasingAgain,
    Released,
}

/// What Herdr took. A failed request leaves its field unknown, since Herdr may have taken it.
#[derive(Debug, Default)]
struct InForce {
    claim: Option<Claim>,
    /// The session that the claim was reported with.
    session: Option<Arc<str>>,
    metadata: Arc<Metadata>,
    /// A call for metadata failed: what Herdr shows may be that one.
    metadata_unknown: bool,
}

impl InForce {
    fn shows(&self, metadata: &Metadata) -> bool {
        *self.metadata == *metadata && !self.metadata_unknown
    }

    /// Whether the claim was reported, and with this session: another one is a new report, also where
    /// the state is the same.
    fn is(&self, claim: &Claim, session: Option<&Session>) -> bool {
        let session = session.map(|session| &session.id);
        self.claim.as_ref() == Some(claim) && self.session.as_ref() == session
    }
}

impl Plan {
    pub(super) fn new(
        agent: &super::identity::AgentName,
        sequence: Sequence,
        session_of: Option<SessionOf>,
    ) -> Self {
        let status = Status { seq_mark: sequence.path().map(Into::into), ..Status::default() };
        Self {
            agent: agent.as_str().to_owned(),
            sequence,
            session_of,
            in_force: InForce::default(),
            command: Command::default(),
            retry: Retry::default(),
            read_back: ReadBackPlan::default(),
            ownership: Ownership::Unchecked,
            jump: false,
            blocked_label: None,
            resumed: 0,
            stage: Stage::Reporting,
            status,
        }
    }

    /// The next step towards `wanted`.
    pub(super) fn next(&mut self, wanted: &Wanted, now: Instant) -> Step {
        if self.stage == Stage::Released {
            return Step::End { settled: true };
        }
        if wanted.finish_by.is_some_and(|deadline| deadline <= now) {
            return Step::End { settled: false };
        }
        self.notice(wanted);
        if let Some(step) = self.while_foreign(wanted) {
            return step;
        }
        if let Some(until) = self.retry.waits_until(wanted.generation, now) {
            return Step::Wait(Some(until));
        }
        // At the end there is no time to ask once more.
        let is_checked = self.stage > Stage::Reporting && self.in_force.claim.is_some();
        if self.session_of.is_some() && self.ownership == Ownership::Unchecked && !is_checked {
            return Step::Send(Request::ReadProcess);
        }
        if wanted.released {
            return Step::Send(self.leave(wanted, now));
        }
        if let Some(request) = self.towards(wanted, now) {
            return Step::Send(request);
        }
        if wanted.finish_by.is_some() {
            return Step::End { settled: self.is_settled(wanted) };
        }
        if self.read_back.is_due(now) {
            return Step::Send(Request::ReadPane);
        }
        let next_try = wanted.session.as_ref().and_then(|session| self.command.next_try(session));
        let wakes = [self.read_back.due(), next_try];
        Step::Wait(wakes.into_iter().flatten().min())
    }

    /// Takes in what happened beside the values: a continued process, the beginning of the end.
    fn notice(&mut self, wanted: &Wanted) {
        if self.resumed != wanted.resumed {
            self.resumed = wanted.resumed;
            self.retry.at_once();
            self.report_again();
            if matches!(self.ownership, Ownership::Foreign { .. }) {
                self.ownership = Ownership::Unchecked;
            }
        }
        let stage = match wanted {
            Wanted { released: true, .. } => Stage::Releasing,
            Wanted { finish_by: Some(_), .. } => Stage::Ending,
            _ => Stage::Reporting,
        };
        if stage > self.stage {
            self.stage = stage;
            // Whatever waited for its next try has it now, for there may be no later.
            self.retry.at_once();
        }
    }

    fn while_foreign(&self, wanted: &Wanted) -> Option<Step> {
        if !matches!(self.ownership, Ownership::Foreign { .. }) {
            return None;
        }
        // Nothing was ever reported, so there is nothing to take back either.
        let ends = wanted.released || wanted.finish_by.is_some();
        Some(if ends { Step::End { settled: true } } else { Step::Wait(None) })
    }

    /// Metadata outlives a release, so it is cleared first (H042), if there is time for both. Then the
    /// release, alone.
    fn leave(&mut self, wanted: &Wanted, now: Instant) -> Request {
        if self.stage == Stage::Checking {
            return Request::ReadPane;
        }
        let has_time = wanted.finish_by.is_none_or(|deadline| deadline >= now + CLEARING);
        let is_clear = self.in_force.metadata.is_empty() && !self.in_force.metadata_unknown;
        if has_time && !is_clear {
            return Request::Metadata { metadata: Metadata::default(), seq: self.sequence.next() };
        }
        Request::Release { seq: self.next_seq() }
    }

    fn next_seq(&mut self) -> Seq {
        if std::mem::take(&mut self.jump) { self.sequence.jump() } else { self.sequence.next() }
    }

    /// The next request that brings Herdr nearer to `wanted`. The state goes first: before it, Herdr
    /// takes no session (H052).
    fn towards(&mut self, wanted: &Wanted, now: Instant) -> Option<Request> {
        let claim = wanted.claim.as_ref()?;
        let session = wanted.session.as_ref();
        let resume = session.and_then(|session| self.command.to_attach(session, now));
        // Without a deadline near, it is better to know whether this Herdr takes commands.
        if resume.is_some() && wanted.finish_by.is_none() && self.command.wants_ping() {
            return Some(Request::Ping);
        }
        let resume = resume.filter(|_| self.command.is_supported() != Some(false));
        if self.in_force.is(claim, session) {
            let unsettled = session.filter(|session| !self.command.is_settled(session));
            if let Some((session, resume)) = unsettled.zip(resume) {
                let seq = self.sequence.next();
                return Some(Request::Session { session_id: session.id.clone(), resume, seq });
            }
            return self.towards_metadata(wanted, claim);
        }
        let seq = self.next_seq();
        Some(Request::Report {
            state: claim.state,
            message: claim.message.clone(),
            session_id: session.map(|session| session.id.clone()),
            resume,
            seq,
        })
    }

    fn towards_metadata(&mut self, wanted: &Wanted, claim: &Claim) -> Option<Request> {
        if claim.state == State::Blocked {
            self.blocked_label.clone_from(&claim.message);
        }
        let metadata = self.metadata(wanted);
        let stands = self.in_force.shows(&metadata);
        (!stands).then(|| Request::Metadata { metadata, seq: self.sequence.next() })
    }

    /// The metadata that is wanted, with the label for blocked. The label is of use while the state is
    /// blocked, and harmless afterwards: it stays until the next one, which saves a call.
    fn metadata(&self, wanted: &Wanted) -> Metadata {
        let label = match &wanted.claim {
            Some(Claim { state: State::Blocked, message }) => message.as_deref(),
            _ => self.blocked_label.as_deref(),
        };
        let metadata = Metadata::clone(&wanted.metadata);
        match label {
            Some(label) => metadata.state_label(State::Blocked, label),
            None => metadata,
        }
    }

    fn is_settled(&self, wanted: &Wanted) -> bool {
        wanted.claim.as_ref().is_none_or(|claim| self.in_force.is(claim, wanted.session.as_ref()))
            && !self.retry.is_pending()
            && wanted.session.as_ref().is_none_or(|session| self.command.is_settled(session))
            && (wanted.claim.is_none() || self.in_force.shows(&self.metadata(wanted)))
    }

    /// Says everything again: Herdr may have lost it.
    fn report_again(&mut self) {
        self.in_force.claim = None;
        self.in_force.metadata_unknown = !self.in_force.metadata.is_empty();
        self.command.forget();
        self.read_back.restart();
    }

    /// Takes in the outcome of `request`, which was sent when `wanted` was wanted.
    pub(super) fn sent(
        &mut self,
        request: &Request,
        outcome: Result<Reply, TransportError>,
        generation: u64,
        now: Instant,
    ) {
        match request {
            Request::Ping => {
                self.command.pinged(outcome.ok().and_then(|reply| reply.answer.version));
            }
            Request::ReadProcess => self.process_read(outcome),
            Request::ReadPane => self.pane_read(outcome, now),
            _ => match outcome {
                Ok(reply) => self.taken(request, &reply, now),
                Err(error) => self.failed(request, &error, generation, now),
            },
        }
    }

    fn taken(&mut self, request: &Request, reply: &Reply, now: Instant) {
        self.retry.succeeded();
        self.status.transport = Some(reply.over);
        self.status.last_error = None;
        if let Some(resume) = request.resume() {
            self.command.taken(resume);
        }
        match request {
            Request::Report { state, message, session_id, .. } => {
                let claim = Claim { state: *state, message: message.clone() };
                self.in_force.claim = Some(claim);
                self.in_force.session.clone_from(session_id);
                self.status.reported = Some(*state);
                self.read_back.claimed(reply.over, now);
            }
            Request::Metadata { metadata, .. } => {
                self.in_force.metadata = Arc::new(metadata.clone());
                self.in_force.metadata_unknown = false;
            }
            Request::Release { .. } => self.gone(reply.over),
            Request::Session { .. } | Request::Ping | Request::ReadPane | Request::ReadProcess => {}
        }
    }

    /// A release was answered with `ok`.
    fn gone(&mut self, over: TransportKind) {
        self.status.reported = None;
        self.in_force.claim = None;
        self.command.released();
        self.stage = match (self.stage, over) {
            // A look over the CLI costs a process, and the agent waits to exit.
            (Stage::Releasing, TransportKind::Socket) => Stage::Checking,
            (Stage::Releasing | Stage::ReleasingAgain, _) => Stage::Released,
            (stage, _) => stage,
        };
    }

    /// Whether the release was heard: its `ok` may be a lie too, and nobody comes back later to see.
    fn release_looked_at(&mut self, view: Option<&PaneView>) {
        let still_there = view.is_some_and(|view| view.agent.as_deref() == Some(&self.agent));
        self.jump = still_there;
        self.stage = if still_there { Stage::ReleasingAgain } else { Stage::Released };
    }

    fn failed(&mut self, request: &Request, error: &TransportError, generation: u64, now: Instant) {
        tracing::debug!(%error, method = request.method(), "Herdr did not take a report");
        self.status.last_error = Some(error.to_string());
        match request {
            Request::Report { .. } => self.in_force.claim = None,
            Request::Metadata { metadata, .. } => {
                if matches!(error, TransportError::Refused(_) | TransportError::Usage(_)) {
                    // This Herdr will not have it: asking again would only be in the way of the state.
                    self.in_force.metadata = Arc::new(metadata.clone());
                    self.in_force.metadata_unknown = false;
                    return;
                }
                if self.stage >= Stage::Releasing {
                    // Clearing it failed. The release matters more, and there may be no time for both.
                    self.in_force.metadata = Arc::default();
                    self.in_force.metadata_unknown = false;
                    return;
                }
                self.in_force.metadata_unknown = true;
            }
            Request::Release { .. } => {
                // The pane went away by itself, and everything in it.
                if matches!(error, TransportError::Refused(refusal) if refusal.code == "pane_not_found")
                {
                    self.stage = Stage::Released;
                    return;
                }
            }
            Request::Session { .. } | Request::Ping | Request::ReadPane | Request::ReadProcess => {}
        }
        if let Some(resume) = request.resume()
            && self.command.failed(resume, error, now)
        {
            // The state goes out again at once, without the command.
            return;
        }
        if self.ownership == Ownership::Unknown {
            self.ownership = Ownership::Unchecked;
        }
        self.retry.failed(generation, now);
    }

    fn process_read(&mut self, outcome: Result<Reply, TransportError>) {
        let Some(session_of) = self.session_of else {
            return;
        };
        let shell_pid = outcome.ok().and_then(|reply| reply.answer.process?.shell_pid);
        self.ownership = Ownership::of(shell_pid, session_of);
        if let Ownership::Foreign { shell_pid } = self.ownership {
            tracing::info!(shell_pid, "not in the pane that Herdr's variables name: silent");
        }
    }

    fn pane_read(&mut self, outcome: Result<Reply, TransportError>, now: Instant) {
        let state = self.in_force.claim.as_ref().map(|claim| claim.state);
        let view = outcome.map(|reply| reply.answer.pane);
        if self.stage == Stage::Checking {
            return self.release_looked_at(view.ok().flatten().as_ref());
        }
        if self.read_back.is_heartbeat() {
            self.command.heartbeat(now);
        }
        match self.read_back.read(&self.agent, state, view, now) {
            Finding::Fine => {}
            Finding::Lost => self.report_again(),
            Finding::Unheard => {
                self.jump = true;
                self.report_again();
            }
        }
    }

    /// What there is to tell.
    pub(super) fn status(&self, wanted: &Wanted) -> Status {
        Status {
            version: self.command.version().map(str::to_owned),
            takes_resume_commands: self.command.is_supported(),
            resume_in_force: wanted.session.as_ref().is_some_and(|s| self.command.is_in_force(s)),
            resumes_another_session: wanted
                .session
                .as_ref()
                .is_some_and(|session| self.command.is_of_another(session)),
            settled: self.stage == Stage::Released || self.is_settled(wanted),
            read_back: self.read_back.last().clone(),
            ownership: self.ownership,
            seq: self.sequence.last(),
            ..self.status.clone()
        }
    }
}

#[cfg(test)]
mod tests;
