//! The throwaway session, and how nothing of it is left behind.

use std::io;
use std::time::Duration;

use super::complain_left;
use super::screen::Screen;
use super::surroundings::Surroundings;
use crate::herdr::{NamedSession, Sessions, SessionsError};
use crate::os::console::Program;
use crate::os::process::kill_all_below;

/// How long what is left of the session may take to die.
const KILLING: Duration = Duration::from_secs(3);

/// A named session that is ours. Dropping it stops the session, deletes it, and ends what is left.
pub(super) struct Throwaway {
    pub(super) sessions: Sessions,
    pub(super) name: String,
    /// The attached terminal.
    pub(super) terminal: Option<Screen>,
    /// The name was free right before we started a session of it.
    begun: bool,
    pub(super) surroundings: Surroundings,
}

impl Throwaway {
    pub(super) fn new(sessions: Sessions, name: String, surroundings: Surroundings) -> Self {
        Self { sessions, name, terminal: None, begun: false, surroundings }
    }

    /// The session of this name, if there is one.
    pub(super) fn find(&self) -> Result<Option<NamedSession>, SessionsError> {
        self.sessions.find(&self.name)
    }

    /// Attaches a terminal, which starts the server where none runs. The name must be free, or ours.
    pub(super) fn attach(&mut self) -> io::Result<()> {
        let program = self.sessions.program();
        let words = Sessions::attach_words(&self.name);
        let arguments: Vec<_> = [program.into()].into_iter().chain(words.map(Into::into)).collect();
        self.begun = true;
        self.terminal = Some(Screen::start(&Program {
            path: program,
            arguments: &arguments,
            environment: self.sessions.environment(),
        })?);
        Ok(())
    }

    /// The last lines of the attached terminal.
    pub(super) fn last_lines(&self) -> Vec<String> {
        self.terminal.as_ref().map(Screen::last_lines).unwrap_or_default()
    }

    /// The line there in which a shell says that it does not know the program.
    pub(super) fn says_not_found(&self, program: &str) -> Option<String> {
        self.terminal.as_ref()?.says_not_found(program)
    }

    /// The session is somebody else's: it is left alone.
    pub(super) fn let_go(&mut self) {
        self.begun = false;
    }
}

impl Drop for Throwaway {
    fn drop(&mut self) {
        let mut trouble = None;
        if self.begun
            && let Ok(Some(session)) = self.find()
            && session.running
        {
            if session.is_ours() == Some(false) {
                self.begun = false;
            } else {
                // It may be on its way out already.
                trouble = self.sessions.stop(&self.name).err();
            }
        }
        // Its terminal hangs up.
        self.terminal = None;
        kill_all_below(KILLING);
        if !self.begun {
            return;
        }
        match self.find() {
            Ok(None) => {}
            Ok(Some(_)) => {
                if let Err(error) = self.sessions.delete(&self.name) {
                    let why = trouble.unwrap_or(error);
                    complain_left(&format!("the session `{}`", self.name), &why);
                }
            }
            Err(error) => complain_left(&format!("the session `{}`", self.name), &error),
        }
    }
}
