//! Who brings sessions back in a way of its own.

use std::fmt::Debug;

use super::Session;
use crate::herdr::ResumeCommand;

/// Keeps what brings a session back, so that Herdr gets the keeper's command and not the agent's. Nothing
/// here waits: what takes time is done later, and then told by
/// [`Session::resume_by`](super::Session::resume_by).
pub(crate) trait Keeper: Debug + Send + Sync {
    /// Whether it keeps this session.
    fn keeps(&self, session: &Session) -> bool;

    /// The title that the user gave to a session whose id the agent has not said yet: it is about to.
    fn first_title(&self) -> Option<String>;

    /// The command for Herdr, as far as it is there already, if the session has this id and the agent itself
    /// gives this command.
    fn command(&self, id: &str, own: Option<&[String]>) -> Option<ResumeCommand>;

    /// The agent has said that its session has this id; and what it is about, and with which command it comes
    /// back, if it said so.
    fn told(&self, id: &str, title: Option<&str>, own: Option<Vec<String>>);

    /// The session has this title from now on.
    fn titled(&self, session: &Session, title: &str);
}
