//! The running program as the outside treats it: signals handed on, and an end that comes.

use std::io;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::{Ending, Options, OuterSignal, Status};
use crate::os::leader::{Image, Leader, Pty, Report, start};
use crate::os::signals::{Origin, Signals, is_stopped, stop_job_with};
use crate::os::terminal;

/// A signal that comes to a whole process group comes from the guardian too: the second is the same one.
const SAME_SIGNAL: Duration = Duration::from_millis(100);

/// The running program.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) leader: Leader,
    options: Options,
    ended_by: Option<OuterSignal>,
    /// What it gets next if it has not ended by then.
    escalation: Option<(Instant, Signal)>,
    last: Option<(Signal, Origin, Instant)>,
}

/// Whom a signal reaches.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    /// The program alone: it is in our own process group.
    Program,
    /// Its own process group, and the one that has its terminal.
    Groups(Option<Pid>),
}

/// Whether a signal brings the end for certain, be it by the next, harder one.
pub(super) fn asks_for_end(signal: Signal) -> bool {
    matches!(signal, Signal::SIGHUP | Signal::SIGTERM)
}

impl Agent {
    pub(super) fn start(
        image: &Image,
        pty: Option<Pty<'_>>,
        signals: &Signals,
        options: Options,
    ) -> io::Result<Self> {
        let leader = start(image, pty, signals.ignored())?;
        terminal::keep_agent_runs(true);
        Ok(Self { leader, options, ended_by: None, escalation: None, last: None })
    }

    /// Whether this is the second of two that were sent as one.
    pub(super) fn is_double(&mut self, signal: Signal, origin: Origin) -> bool {
        let now = Instant::now();
        let double = self.last.is_some_and(|(last, from, when)| {
            last == signal
                && (from == Origin::Guardian) != (origin == Origin::Guardian)
                && now - when < SAME_SIGNAL
        });
        self.last = (!double).then_some((signal, origin, now));
        double
    }

    /// Hands a signal on, and sees to it that one that asks for the end brings it.
    pub(super) fn hand_on(&mut self, signal: Signal, target: Target) {
        self.note(signal);
        self.send(signal, target);
    }

    /// Sees to it that a signal that asks for the end, and that the program has, brings it.
    pub(super) fn note(&mut self, signal: Signal) {
        let Options { hang_up_grace, terminate_grace, .. } = self.options;
        let (asks, next) = match signal {
            Signal::SIGHUP => (OuterSignal::HangUp, Some((hang_up_grace, Signal::SIGTERM))),
            Signal::SIGTERM => (OuterSignal::Terminate, Some((terminate_grace, Signal::SIGKILL))),
            Signal::SIGINT => (OuterSignal::Interrupt, None),
            Signal::SIGQUIT => (OuterSignal::Quit, None),
            _ => return,
        };
        self.ended_by = self.ended_by.or(Some(asks));
        let next = next.map(|(grace, signal)| (Instant::now() + grace, signal));
        // A terminal that goes while the program is asked to end leaves it the shorter time.
        self.escalation = match (self.escalation, next) {
            (Some(old), Some(new)) => Some(if old.0 <= new.0 { old } else { new }),
            (old, new) => old.or(new),
        };
    }

    /// Whether a signal from outside asked for the end.
    pub(super) fn is_asked_to_end(&self) -> bool {
        self.ended_by.is_some()
    }

    /// How long until [`Agent::escalate`] has something to do.
    pub(super) fn until_escalation(&self) -> Option<Duration> {
        self.escalation.map(|(when, _)| when.saturating_duration_since(Instant::now()))
    }

    /// Whether the program had its time.
    pub(super) fn is_escalation_due(&self) -> bool {
        self.escalation.is_some_and(|(when, _)| when <= Instant::now())
    }

    /// Sends the next, harder signal.
    pub(super) fn escalate(&mut self, target: Target) {
        let Some((_, signal)) = self.escalation else {
            return;
        };
        self.escalation = (signal != Signal::SIGKILL)
            .then(|| (Instant::now() + self.options.hang_up_grace, Signal::SIGKILL));
        self.send(signal, target);
    }

    /// Sends a signal. `SIGINT` and the like reach who has the terminal; one that asks for the end, or to
    /// go on, reaches the program too, when it has given its terminal to another.
    pub(super) fn send(&self, signal: Signal, target: Target) {
        let agent = self.leader.agent();
        // A target that has just ended is no failure of ours.
        match target {
            Target::Program => {
                let _ = kill(agent, signal);
            }
            Target::Groups(foreground) => {
                if let Some(foreground) = foreground {
                    let _ = killpg(foreground, signal);
                }
                let reaches_agent = matches!(
                    signal,
                    Signal::SIGHUP | Signal::SIGTERM | Signal::SIGKILL | Signal::SIGCONT
                );
                if foreground != Some(agent) && (reaches_agent || foreground.is_none()) {
                    let _ = killpg(agent, signal);
                }
            }
        }
    }

    /// Stops our job because `signal` stopped the program, until we are continued; the noted SIGCONT
    /// tells. Gives whether it was stopped.
    pub(super) fn stop_with(&self, signal: i32, target: Target) -> bool {
        let stopped = stop_job_with(self.leader.agent());
        // Without us in between, the kernel would have let the program go on. A SIGSTOP holds in any
        // case, and whoever sent it can continue the program.
        if !stopped && signal != Signal::SIGSTOP as i32 {
            self.send(Signal::SIGCONT, target);
        }
        stopped
    }

    /// Whether the program is stopped right now.
    pub(super) fn is_stopped(&self) -> bool {
        is_stopped(self.leader.agent())
    }

    /// What a report of the leader means for the run, if it is the end.
    pub(super) fn ending(&self, report: Report) -> Option<Ending> {
        let status = match report {
            Report::Exited(code) => Status::Exited(code),
            Report::Signaled(signal) => Status::Signaled(signal),
            // Somebody killed the process between us: its terminal's hang-up has reached the program.
            Report::Lost => {
                let _ = killpg(self.leader.agent(), Signal::SIGKILL);
                Status::Signaled(Signal::SIGKILL as i32)
            }
            Report::Stopped(_) | Report::Continued => return None,
        };
        Some(Ending { status, ended_by: self.ended_by })
    }
}
