//! What the commands for use inside an agent share: the way to its presence.

use std::env;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Exit, Failure};
use crate::link::{CallError, Client, SESSION_VARIABLE, SOCKET_VARIABLE, code};

/// How long a report waits to hear that it was taken. The presence has it by then in any case: a
/// presence that is stopped or busy must not hold up its agent.
pub(super) const CONFIRMATION: Duration = Duration::from_millis(2);

/// How long something may take that is asked for, and not only reported.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// What a question may have, of whichever kind it is.
#[derive(Debug, clap::Args)]
pub(super) struct About {
    /// Why it is asked.
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: Option<String>,
    /// The id of the tool call that it is about: an answer that came when nobody waited any more is
    /// given when the same call asks again.
    #[arg(long, value_name = "ID")]
    pub(super) call: Option<String>,
    /// The item of the chat that it belongs to.
    #[arg(long, value_name = "ID")]
    pub(super) item: Option<String>,
    /// Give up after this time, such as `10m`. Giving up is no answer, and never approves.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) timeout: Option<Duration>,
}

/// The presence that this process runs inside.
pub(super) struct Inside {
    client: Client,
    pub(super) session: String,
}

impl Inside {
    /// Finds it by the variables that `wrap` sets.
    pub(super) fn find() -> Result<Self, Failure> {
        let variable = |name: &str| {
            env::var(name).ok().filter(|value| !value.is_empty()).ok_or_else(|| {
                let message = format!("no presence here: {name} is not set; run the agent with `agent-presence wrap -- …`");
                Failure::new(Exit::NoPresence, message)
            })
        };
        let socket = variable(SOCKET_VARIABLE)?;
        let session = variable(SESSION_VARIABLE)?;
        let client = Client::connect(Path::new(&socket)).map_err(|error| failure(&error))?;
        Ok(Self { client, session })
    }

    /// Reports something, and does not wait long to hear that it was taken.
    pub(super) fn report(&mut self, method: &str, params: &impl Serialize) -> Result<(), Failure> {
        match self.client.call::<serde_json::Value>(method, params, Some(CONFIRMATION)) {
            Ok(_) | Err(CallError::NotYet) => Ok(()),
            Err(error) => Err(failure(&error)),
        }
    }

    /// Has something done that can be refused, and waits to hear of it.
    pub(super) fn done(&mut self, method: &str, params: &impl Serialize) -> Result<(), Failure> {
        self.query::<serde_json::Value>(method, params, PATIENCE).map(drop)
    }

    /// Asks how something is, and waits for `limit` at most.
    pub(super) fn query<R: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &impl Serialize,
        limit: Duration,
    ) -> Result<R, Failure> {
        self.client.call(method, params, Some(limit)).map_err(|error| failure(&error))
    }

    /// Asks something, and waits for as long as it takes.
    pub(super) fn ask<R: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<R, Failure> {
        self.client.call(method, params, None).map_err(|error| failure(&error))
    }
}

fn failure(error: &CallError) -> Failure {
    let exit = match error {
        CallError::NoPresence { .. } | CallError::WentAway => Exit::NoPresence,
        CallError::Refused(refused) => match refused.code {
            code::NOBODY_TO_ASK | code::UNKNOWN_SESSION => Exit::NoPresence,
            code::INVALID_PARAMS => Exit::Usage,
            _ => Exit::Failed,
        },
        CallError::NotYet | CallError::BadAnswer(_) => Exit::Failed,
    };
    Failure::new(exit, error)
}

/// A time in human units, such as `90s`, `10m` or `1h30m`, at most a year.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);
    let units = "give it with its unit, such as `90s`, `10m` or `1h30m`";
    let duration: jiff::SignedDuration = text.parse().map_err(|_| units.to_owned())?;
    match Duration::try_from(duration) {
        Ok(duration) if duration.is_zero() => Err("it has to be longer than nothing".to_owned()),
        Ok(duration) if duration > LONGEST => Err("it is longer than a year".to_owned()),
        Ok(duration) => Ok(duration),
        Err(_) => Err("it is negative".to_owned()),
    }
}

/// A time as the link writes it.
pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, seconds) in [("90s", 90), ("10m", 600), ("1h30m", 5400), ("1h 30m", 5400)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "10", "ten minutes", "-5s", "0s", "99999999h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
