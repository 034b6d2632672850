//! `agent-presence say`: the agent says something in the chat.

use std::io::{self, Read as _};

use super::inside::Inside;
use super::{Exit, Failure};
use crate::link::{SayKind, SayParams, method};
use crate::os::random;

/// How much of stdin is said: more than the 20,000 characters that Collie keeps (N064).
const LIMIT: usize = 100_000;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Who says it, or how.
    #[arg(long, value_name = "KIND", value_enum, default_value_t = SayKind::Reply)]
    kind: SayKind,
    /// The id of the item: a known one is replaced.
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// The text still grows. With `-`: it is shown while it comes.
    #[arg(long)]
    partial: bool,
    /// What is said; `-` for what comes on stdin.
    text: String,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let mut inside = Inside::find()?;
    let Arguments { kind, id, partial, text } = arguments;
    let session = inside.session.clone();
    let mut params = SayParams { session, kind, text, id, partial };
    if params.text != "-" {
        inside.report(method::SAY, &params)?;
        return Ok(Exit::Done);
    }
    let failed = |error: io::Error| Failure::new(Exit::Failed, error);
    if params.id.is_none() {
        params.id = Some(random::hex(8).map_err(failed)?);
    }
    let mut bytes = Vec::new();
    let mut buffer = [0; 8192];
    loop {
        let count = match io::stdin().read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(failed(error)),
        };
        let room = LIMIT.saturating_sub(bytes.len()).min(count);
        bytes.extend_from_slice(&buffer[..room]);
        // A character that is cut in two is not shown before it is whole.
        let text = bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        params.partial = count > 0;
        if count == 0 {
            params.text = String::from_utf8_lossy(&bytes).into_owned();
            break;
        }
        if partial && room > 0 {
            text.clone_into(&mut params.text);
            inside.report(method::SAY, &params)?;
        }
    }
    inside.report(method::SAY, &params)?;
    Ok(Exit::Done)
}
