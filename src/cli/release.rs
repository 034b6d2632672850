//! `agent-presence release`: the user has quit the agent.

use super::inside::Inside;
use super::{Exit, Failure};
use crate::link::{SessionParams, method};

pub(super) fn run() -> Result<Exit, Failure> {
    let mut inside = Inside::find()?;
    let params = SessionParams { session: inside.session.clone() };
    inside.done(method::RELEASE, &params)?;
    Ok(Exit::Done)
}
