//! A program without a PTY: it has our standard streams, and only its signals and its end concern us.

use std::io;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;

use super::agent::{Agent, Target, asks_for_end};
use super::{Ending, Options, Tap, guardian};
use crate::os::leader::{Image, Report};
use crate::os::signals::{Origin, Signals};

pub(super) fn run(
    image: &Image,
    signals: &Signals,
    options: Options,
    tap: &mut dyn Tap,
) -> io::Result<Ending> {
    let mut agent = Agent::start(image, None, signals, options)?;
    tap.started(agent.leader.agent().as_raw().cast_unsigned());
    let mut guarded = guardian::alive().is_some();
    loop {
        let mut waits = [
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(agent.leader.as_fd(), PollFlags::POLLIN),
            PollFd::new(guardian::alive().unwrap_or(signals.as_fd()), PollFlags::POLLIN),
        ];
        // A guardian that is gone is always ready, and no news twice.
        let watched = if guarded { 3 } else { 2 };
        let timeout = agent.until_escalation().map_or(PollTimeout::NONE, |left| {
            PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
        });
        match poll(&mut waits[..watched], timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let reported = waits[1].any().unwrap_or(true);
        if guarded && waits[2].any().unwrap_or(true) {
            // Whoever waited for the guardian believes that all is over.
            guarded = false;
            tap.asked_to_end();
            agent.hand_on(Signal::SIGHUP, Target::Program);
        }
        if agent.is_escalation_due() {
            agent.escalate(Target::Program);
        }
        for (signal, origin) in signals.drain() {
            if asks_for_end(signal) {
                tap.asked_to_end();
            }
            match signal {
                // The terminal told its whole process group, and the program is in it.
                Signal::SIGHUP if origin == Origin::Terminal => agent.note(signal),
                _ if origin == Origin::Terminal => {}
                _ if agent.is_double(signal, origin) => {}
                Signal::SIGCONT => {
                    agent.send(Signal::SIGCONT, Target::Program);
                    tap.resumed();
                }
                _ => agent.hand_on(signal, Target::Program),
            }
        }
        if reported {
            let report = agent.leader.next();
            if let Some(ending) = agent.ending(report) {
                return Ok(ending);
            }
            // Where the terminal stopped our whole job, this is news from before we were continued.
            if let Report::Stopped(signal) = report
                && agent.is_stopped()
            {
                tap.suspended();
                agent.stop_with(signal, Target::Program);
            }
        }
    }
}
