//! The resume command: whether this Herdr takes it, and when it is tried again.

use crate::herdr::report::takes_resume_commands;
use crate::herdr::resume_command::ResumeCommand;
use crate::herdr::slots::Session;
use crate::herdr::transport::TransportError;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often a command that was not accepted is tried again before it waits for the heartbeat (H053):
/// the pane's detector is slower than we are.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
pub(super) struct Command {
    /// Whether this server takes commands.
    supported: Option<bool>,
    asked: bool,
    version: Option<String>,
    /// The one that Herdr took.
    in_force: Option<Arc<ResumeCommand>>,
    /// Whether Herdr may hold one, of whatever session.
    may_hold: bool,
    /// One that this Herdr called invalid.
    invalid: Option<Arc<ResumeCommand>>,
    /// One that Herdr did not accept yet.
    delayed: Option<Delayed>,
}

#[derive(Debug)]
struct Delayed {
    command: Arc<ResumeCommand>,
    tries: u32,
    /// None: with the next heartbeat.
    next: Option<Instant>,
}

impl Command {
    /// The command of `session`, if a report may carry it now. Every report does, since a hand-off or a
    /// stop may have lost the one before without a trace (H071, H072).
    pub(super) fn to_attach(&self, session: &Session, now: Instant) -> Option<Arc<ResumeCommand>> {
        let command = session.resume.as_ref()?;
        let waits = self.delayed.as_ref().is_some_and(|delayed| {
            delayed.command == *command && delayed.next.is_none_or(|next| next > now)
        });
        (!waits && !self.is_hopeless(session)).then(|| command.clone())
    }

    /// Whether the server's version is still to be asked before a command is sent.
    pub(super) fn wants_ping(&self) -> bool {
        !self.asked && self.supported != Some(true)
    }

    /// What `ping` told. A version that cannot be read is tried and learned from.
    pub(super) fn pinged(&mut self, version: Option<String>) {
        self.asked = true;
        if let Some(supported) = version.as_deref().and_then(takes_resume_commands) {
            self.supported = Some(supported);
        }
        self.version = version.or(self.version.take());
    }

    pub(super) fn taken(&mut self, command: &Arc<ResumeCommand>) {
        self.in_force = Some(command.clone());
        self.may_hold = true;
        self.delayed = None;
    }

    /// Takes in that a request with `command` failed. True: the command was the reason, so the request
    /// may go again at once without it.
    pub(super) fn failed(
        &mut self,
        command: &Arc<ResumeCommand>,
        error: &TransportError,
        now: Instant,
    ) -> bool {
        // Herdr may have taken it, or not.
        self.in_force = None;
        match error {
            TransportError::NoResumeCommands => {
                tracing::info!("this Herdr is older than 0.9.2: it gets no resume command");
                self.supported = Some(false);
                self.asked = true;
            }
            TransportError::Refused(refusal) if refusal.code == "invalid_resume_argv" => {
                tracing::warn!(reason = refusal.message, "Herdr calls the resume command invalid");
                self.invalid = Some(command.clone());
            }
            TransportError::Refused(refusal) if refusal.code == "resume_not_accepted" => {
                self.delay(command, now);
            }
            _ => {
                self.may_hold = true;
                return false;
            }
        }
        true
    }

    fn delay(&mut self, command: &Arc<ResumeCommand>, now: Instant) {
        let tries = match &self.delayed {
            Some(delayed) if delayed.command == *command => delayed.tries + 1,
            _ => {
                tracing::warn!("Herdr does not accept the resume command yet");
                0
            }
        };
        let next = (tries < TRIES).then(|| now + PAUSE);
        self.delayed = Some(Delayed { command: command.clone(), tries, next });
    }

    /// The heartbeat: a command that was tried often enough gets its next chance.
    pub(super) fn heartbeat(&mut self, now: Instant) {
        if let Some(delayed) = &mut self.delayed
            && delayed.tries >= TRIES
        {
            delayed.next.get_or_insert(now);
        }
    }

    /// When the delayed command of `session` is tried again.
    pub(super) fn next_try(&self, session: &Session) -> Option<Instant> {
        let delayed = self.delayed.as_ref()?;
        (session.resume.as_ref() == Some(&delayed.command)).then_some(delayed.next)?
    }

    /// Whether Herdr may hold the command of a session before this one, which has none. Nothing but a
    /// release would take it back (H054), and a switch of the session is never a release.
    pub(super) fn is_of_another(&self, session: &Session) -> bool {
        session.resume.is_none() && self.may_hold
    }

    /// The pane was released, and its command with it.
    pub(super) fn released(&mut self) {
        self.in_force = None;
        self.may_hold = false;
    }

    /// Herdr may have lost the command, or be another one by now.
    pub(super) fn forget(&mut self) {
        self.in_force = None;
        self.asked = false;
        self.delayed = None;
    }

    pub(super) fn is_in_force(&self, session: &Session) -> bool {
        session.resume.is_some() && self.in_force == session.resume
    }

    /// Whether there is nothing left to do for the command of `session`.
    pub(super) fn is_settled(&self, session: &Session) -> bool {
        session.resume.is_none() || self.in_force == session.resume || self.is_hopeless(session)
    }

    /// Whether this Herdr will not have the command of `session`.
    fn is_hopeless(&self, session: &Session) -> bool {
        self.invalid == session.resume || (self.supported == Some(false) && self.asked)
    }

    pub(super) fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    pub(super) fn is_supported(&self) -> Option<bool> {
        self.supported
    }
}
