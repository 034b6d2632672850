//! The steps of the test, in Herdr's own words: start, report, stop, start again, report again.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use super::line::Line;
use super::probe::Seen;
use super::screen::Screen;
use super::session::Throwaway;
use super::shown::{Shown, inspect, not_ready, pane_of, ready};
use super::timeline::{Step, Timeline};
use super::waiting::{Vain, Waiting};
use crate::herdr::{Environment, Inspection, NamedSession, ResumeCommand, saved_commands};

/// How long a command may come after the first report, with the 5 s after which Herdr saves it.
const COMMAND_LIMIT: Duration = Duration::from_secs(10);

/// A line that is typed before the first shell is there may be lost.
const TYPE_AGAIN: Duration = Duration::from_secs(2);

/// Why the test ended before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// A step failed; the timeline says which and why.
    Failed,
    /// A signal asks for the end.
    Interrupted,
}

/// What is to be done.
pub(super) struct Plan<'a> {
    /// The line that starts the agent.
    pub(super) typed: Line,
    /// The name to wait for; without it, any.
    pub(super) agent: Option<String>,
    /// In the user's own folders.
    pub(super) here: bool,
    pub(super) waiting: &'a Waiting,
    pub(super) timeline: Timeline,
}

type Done<T> = Result<T, Trouble>;

impl Plan<'_> {
    /// Does it all, and cleans up.
    pub(super) fn carry_out(mut self, mut session: Throwaway) -> (Timeline, Done<()>) {
        let outcome = self.steps(&mut session);
        drop(session);
        (self.timeline, outcome)
    }

    fn steps(&mut self, session: &mut Throwaway) -> Done<()> {
        self.check_name(session)?;
        let pane = self.start(session)?;
        let shown = self.report(session, &pane)?;
        let command = self.stop(session, &pane)?;
        self.restart(session, &pane)?;
        self.resume(session, &pane, &shown, &command)
    }

    fn fail<T>(&mut self, step: Step) -> Done<T> {
        self.timeline.add(step);
        Err(Trouble::Failed)
    }

    fn check_name(&mut self, session: &Throwaway) -> Done<()> {
        let name = &session.name;
        match session.find() {
            Ok(None) => {
                self.timeline.add(Step::ok("name", format!("`{name}` is free")));
                Ok(())
            }
            Ok(Some(found)) => {
                let state = if found.running { "runs" } else { "is stopped" };
                let found = format!("there is a session `{name}` already: it {state}");
                self.fail(Step::failed("name", found, "choose another name with --session"))
            }
            Err(error) => {
                let program = session.sessions.program().display();
                let todo = format!("see whether `{program} session list --json` works");
                self.fail(Step::failed("name", error.to_string(), todo))
            }
        }
    }

    /// A server, an attached terminal, and a pane with a shell.
    fn start(&mut self, session: &mut Throwaway) -> Done<Environment> {
        self.attach(session, "start")?;
        let file = session.surroundings.folder.path().join("pane");
        let line = match Line::of_ourselves(&["probe".as_ref(), &file]) {
            Ok(line) => line,
            Err(why) => return self.fail(Step::failed("start", why, "move this program")),
        };
        // A space first: many a shell keeps no such line in its history.
        let line = format!(" {}", line.0);
        let mut typed_at = None::<Instant>;
        let seen = self.waiting.until(|| {
            if typed_at.is_none_or(|at| at.elapsed() > TYPE_AGAIN) {
                typed_at = Some(Instant::now());
                // When it cannot be typed, nothing is seen.
                let _ = session.terminal.as_ref()?.type_line(&line);
            }
            Seen::read(&file)
        });
        let pane = match seen {
            Ok(seen) => pane_of(&seen),
            Err(Vain::Interrupted) => return Err(Trouble::Interrupted),
            Err(Vain::TimedOut) => {
                let step = Step::failed(
                    "start",
                    "no shell answers in the first pane",
                    "see what Herdr shows in its first pane, and whether it asks something",
                );
                return self.fail(step.typed(&line).seen(session.last_lines()));
            }
        };
        let pane = match pane {
            Ok(pane) if pane.session() == Some(&session.name) => pane,
            Ok(_) => {
                let found = "the first pane is of another session";
                return self.fail(Step::failed("start", found, "run it outside of Herdr"));
            }
            Err(missing) => {
                let found = format!("{missing} is missing in the first pane");
                return self.fail(Step::failed("start", found, "is this program Herdr?"));
            }
        };
        self.timeline.version = inspect(&pane).and_then(|seen| seen.version);
        let version = self.timeline.version.as_deref().unwrap_or("of unknown version");
        let found = format!("Herdr {version}, with a shell in pane {}", pane.pane_id());
        self.timeline.add(Step::ok("start", found));
        Ok(pane)
    }

    /// Starts the server, and makes sure that it is ours before anything is typed.
    fn attach(&mut self, session: &mut Throwaway, step: &'static str) -> Done<NamedSession> {
        // Once more, right before: the last look may be a while ago.
        let is_new = step == "start";
        if session.find().is_ok_and(|found| found.is_some_and(|found| is_new || found.running)) {
            session.let_go();
            let found = format!("somebody has made a session `{}` meanwhile", session.name);
            return self.fail(Step::failed(step, found, "choose another name with --session"));
        }
        if let Err(error) = session.attach() {
            let todo = "see whether it can be executed";
            return self.fail(Step::failed(step, error.to_string(), todo));
        }
        let running = self.waiting.until(|| {
            let found = session.find().ok().flatten().filter(|found| found.running)?;
            found.is_ours().map(|ours| (found, ours))
        });
        match running {
            Ok((found, true)) => Ok(found),
            Ok((_, false)) => {
                session.let_go();
                let found = format!("somebody else has started a session `{}`", session.name);
                self.fail(Step::failed(step, found, "choose another name with --session"))
            }
            Err(Vain::Interrupted) => Err(Trouble::Interrupted),
            Err(Vain::TimedOut) => {
                let words = format!("`herdr --session {}`", session.name);
                let step = Step::failed(
                    step,
                    format!("{words} has started no server"),
                    format!("run {words} yourself and see what it says"),
                );
                self.fail(step.seen(session.last_lines()))
            }
        }
    }

    /// Starts the agent, and waits until Herdr shows it.
    fn report(&mut self, session: &Throwaway, pane: &Environment) -> Done<Shown> {
        let line = self.typed.0.clone();
        let program = first_word(&line);
        if let Some(Err(error)) = session.terminal.as_ref().map(|screen| screen.type_line(&line)) {
            let todo = "try again";
            return self.fail(Step::failed("report", error.to_string(), todo).typed(&line));
        }
        let last = RefCell::new(None);
        let shown = self.waiting.until(|| {
            if let Some(not_found) = session.says_not_found(&program) {
                return Some(Err(not_found));
            }
            let seen = inspect(pane)?;
            let shown = ready(&seen, self.agent.as_deref());
            *last.borrow_mut() = Some(seen);
            shown.map(Ok)
        });
        let step = match shown {
            Ok(Ok(shown)) => {
                let found = format!("Herdr shows `{}`, {}", shown.agent, shown.state);
                let step = Step::ok("report", found).typed(&line).seen(session.last_lines());
                self.timeline.add(step);
                return Ok(shown);
            }
            Ok(Err(not_found)) => Step::failed(
                "report",
                format!("the login shell does not find it: {not_found}"),
                self.path_advice(&program),
            ),
            Err(Vain::Interrupted) => return Err(Trouble::Interrupted),
            Err(Vain::TimedOut) => Step::failed(
                "report",
                not_ready(last.into_inner().as_ref(), self.agent.as_deref()),
                "the agent has to report `idle` once it is ready; is it waiting for a login? Then try \
                 --here. An agent that does not report itself runs below `agent-presence wrap --`",
            ),
        };
        self.fail(step.typed(&line).seen(session.last_lines()))
    }

    /// Stops the server when it has saved the resume command.
    fn stop(&mut self, session: &mut Throwaway, pane: &Environment) -> Done<Vec<String>> {
        let folder = pane.session_folder().unwrap_or(pane.socket_path());
        let saved = || saved_commands(folder).ok()?.into_iter().next();
        // It is read where Herdr saves it, since no request shows it.
        let before = match self.waiting.at_most(COMMAND_LIMIT.min(self.waiting.limit), saved) {
            Ok(command) => Some(command),
            Err(Vain::Interrupted) => return Err(Trouble::Interrupted),
            Err(Vain::TimedOut) => None,
        };
        if let Err(error) = session.sessions.stop(&session.name) {
            let todo = format!("see whether `herdr session stop {}` works", session.name);
            return self.fail(Step::failed("stop", error.to_string(), todo));
        }
        let has_ended = || session.terminal.as_ref().is_none_or(Screen::has_ended);
        match self.waiting.until(|| has_ended().then_some(())) {
            Err(Vain::Interrupted) => return Err(Trouble::Interrupted),
            // A terminal that stays is closed.
            Ok(()) | Err(Vain::TimedOut) => session.terminal = None,
        }
        self.timeline.add(Step::ok("stop", "the server has ended, and the agent with it"));
        match (saved(), before) {
            (Some(command), _) => {
                let found = "the resume command is saved";
                self.timeline.add(Step::ok("command", found).typed(&typed_line(&command)));
                Ok(command)
            }
            (None, Some(command)) => {
                let step = Step::failed(
                    "command",
                    "the resume command was there before the stop, and is gone",
                    "a release deletes it: release the pane when the user quits, not on HUP or TERM",
                );
                self.fail(step.typed(&typed_line(&command)))
            }
            (None, None) => {
                let version = self.timeline.version.as_deref().unwrap_or("unknown");
                let step = Step::failed(
                    "command",
                    "the agent reported no resume command, or Herdr did not take it",
                    format!(
                        "report it behind `--`, with a state or after the first one; Herdr takes \
                         commands from 0.9.2 on, and this one is {version}"
                    ),
                );
                self.fail(step)
            }
        }
    }

    /// A new server, with a terminal attached, and the same pane.
    fn restart(&mut self, session: &mut Throwaway, pane: &Environment) -> Done<()> {
        self.attach(session, "restart")?;
        match self.waiting.until(|| inspect(pane)?.transport.ok()) {
            Ok(_) => {
                let found = format!("pane {} is there again", pane.pane_id());
                self.timeline.add(Step::ok("restart", found));
                Ok(())
            }
            Err(Vain::Interrupted) => Err(Trouble::Interrupted),
            Err(Vain::TimedOut) => {
                let found = format!("pane {} did not come back", pane.pane_id());
                let todo = "see what Herdr shows after a restart";
                self.fail(Step::failed("restart", found, todo).seen(session.last_lines()))
            }
        }
    }

    /// Herdr types the command, and the agent reports again.
    fn resume(
        &mut self,
        session: &Throwaway,
        pane: &Environment,
        before: &Shown,
        command: &[String],
    ) -> Done<()> {
        let line = typed_line(command);
        let program = command.first().cloned().unwrap_or_default();
        let last = RefCell::new(None);
        let shown = self.waiting.until(|| {
            if let Some(not_found) = session.says_not_found(&program) {
                return Some(Err(not_found));
            }
            let seen = inspect(pane)?;
            // Something that has outlived the stop may report as well: the agent is in front.
            let shown =
                ready(&seen, Some(&before.agent)).filter(|_| seen.shell_in_front != Some(true));
            *last.borrow_mut() = Some(seen);
            shown.map(Ok)
        });
        let step = match shown {
            Ok(Ok(shown)) => {
                let found = format!("Herdr shows `{}`, {}, again", shown.agent, shown.state);
                let step = Step::ok("resume", found).typed(&line).seen(session.last_lines());
                self.timeline.add(step);
                return Ok(());
            }
            Ok(Err(not_found)) => Step::failed(
                "resume",
                format!("Herdr typed it, and the login shell does not find it: {not_found}"),
                self.path_advice(&program),
            ),
            Err(Vain::Interrupted) => return Err(Trouble::Interrupted),
            Err(Vain::TimedOut) => {
                self.not_resumed(session, last.into_inner().as_ref(), before, &line)
            }
        };
        self.fail(step.typed(&line).seen(session.last_lines()))
    }

    fn not_resumed(
        &self,
        session: &Throwaway,
        seen: Option<&Inspection>,
        before: &Shown,
        line: &str,
    ) -> Step {
        let in_front = seen.and_then(|seen| seen.shell_in_front);
        let is_typed = session.terminal.as_ref().is_some_and(|screen| screen.shows(line));
        if !is_typed && in_front == Some(true) {
            return Step::failed(
                "resume",
                "Herdr did not type the resume command",
                if self.here {
                    "is `[session] resume_agents_on_restore = false` in your config.toml of Herdr?"
                } else {
                    "see whether this Herdr restores agents at all: `herdr --version`"
                },
            );
        }
        let shown = not_ready(seen, Some(&before.agent));
        if in_front == Some(true) {
            let found = format!("the resumed agent has ended; {shown}");
            return Step::failed("resume", found, "run the command in a login shell of yours");
        }
        Step::failed(
            "resume",
            format!("the resume command runs, and {shown}"),
            "the resumed agent has to report as a new one does; of the environment only HERDR_* has come \
             back, so it must not need other variables",
        )
    }

    fn path_advice(&self, program: &str) -> String {
        let advice = format!("put `{program}` on the PATH of your login shell");
        if self.here { advice } else { format!("{advice}, or try --here") }
    }
}

/// The line that Herdr types. Commands that break our own rules only are quoted all the same.
fn typed_line(command: &[String]) -> String {
    ResumeCommand::new(command)
        .map_or_else(|_| shell_words::join(command), |command| command.typed_line())
}

fn first_word(line: &str) -> String {
    shell_words::split(line).ok().and_then(|words| words.into_iter().next()).unwrap_or_default()
}
