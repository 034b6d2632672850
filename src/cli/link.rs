//! `agent-presence link`: the presence of the program that runs it, in any language.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use clap::ValueEnum;

use super::{Exit, Failure, inside, output};
use crate::link::{Opened, Served, serve};
use crate::os::peer;
use crate::presence::{FaceStatus, Presence, StartError, Takes};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The agent's name in Herdr and in Collie.
    #[arg(long, value_name = "NAME")]
    agent: String,
    /// Which wishes of the phone the program takes, such as `send,stop`. Default: none.
    #[arg(long, value_name = "WISHES", value_enum, value_delimiter = ',')]
    takes: Vec<Wish>,
    /// How long a wish waits to be accepted before it is refused.
    #[arg(long, value_name = "TIME", value_parser = inside::duration, default_value = "10s")]
    patience: Duration,
    /// The source that Herdr files the reports under.
    #[arg(long, value_name = "SOURCE")]
    source: Option<String>,
    /// Where Collie finds the sessions. Default: `COLLIE_DURABLE_SOCKET`, else
    /// `$XDG_RUNTIME_DIR/agent-presence/<agent>/collie.sock`.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

/// A kind of wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Wish {
    /// Text for the next turn.
    Send,
    /// Text into the running turn.
    Steer,
    /// The running turn is to stop.
    Stop,
    /// A button was tapped.
    Action,
    /// Another title.
    Rename,
    /// A session is to be closed.
    Close,
    /// A closed session is to come back.
    Reopen,
    /// A new session is to begin.
    Start,
    /// All of them.
    All,
}

fn takes(wishes: &[Wish]) -> Takes {
    let takes = |wish| wishes.contains(&wish) || wishes.contains(&Wish::All);
    Takes {
        send: takes(Wish::Send),
        steer: takes(Wish::Steer),
        stop: takes(Wish::Stop),
        action: takes(Wish::Action),
        rename: takes(Wish::Rename),
        close: takes(Wish::Close),
        reopen: takes(Wish::Reopen),
        start: takes(Wish::Start),
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    // The agent is the program that runs us: neither it nor what it starts may answer.
    peer::speak_for_the_parent();
    let mut builder = Presence::builder(&arguments.agent)
        .takes(takes(&arguments.takes))
        .durable()
        .patience(arguments.patience);
    if let Some(source) = &arguments.source {
        builder = builder.source(source);
    }
    if let Some(socket) = &arguments.socket {
        builder = builder.collie_socket(socket);
    }
    let presence = builder.start().map_err(|error| {
        let is_name = matches!(error, StartError::Identity(_));
        Failure::new(if is_name { Exit::Usage } else { Exit::Failed }, error)
    })?;
    if let FaceStatus::Off(why) = presence.status().collie {
        output::complain(&format!("Collie is off: {why}"));
    }
    if let FaceStatus::Off(why) = presence.status().records {
        output::complain(&format!("sessions are kept in memory only: {why}"));
    }
    let failed = |error: io::Error| Failure::new(Exit::Failed, error);
    let (ours, theirs) = UnixStream::pair().map_err(failed)?;
    // Kept until the sessions were told of the end.
    let opened = Opened::default();
    serve_on(&presence, theirs, opened.clone()).map_err(failed)?;
    let requests = ours.try_clone().map_err(failed)?;
    thread::Builder::new()
        .name("stdin".to_owned())
        .spawn(move || {
            copy(&mut io::stdin(), &mut &requests);
            // The parent is gone, or has said all: the link ends with it.
            let _ = requests.shutdown(Shutdown::Write);
        })
        .map_err(failed)?;
    copy(&mut &ours, &mut io::stdout());
    // An end is no quit: what was not released is idle, and can be resumed.
    presence.ended();
    drop(opened);
    presence.close();
    Ok(Exit::Done)
}

/// Serves the link on the presence's own thread.
fn serve_on(presence: &Presence, stream: UnixStream, opened: Opened) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    let serving = presence.clone();
    presence.spawn(async move {
        match tokio::net::UnixStream::from_std(stream) {
            Ok(stream) => {
                if let Err(dropped) = serve(stream, serving, opened, Served::Agent).await {
                    output::complain(&format!("the link is dropped: {dropped}"));
                }
            }
            Err(error) => tracing::error!(%error, "the link cannot be served"),
        }
    });
    Ok(())
}

/// Copies each piece as soon as it comes, until either end is gone.
fn copy(from: &mut impl io::Read, to: &mut impl io::Write) {
    let mut buffer = [0; 16 * 1024];
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        if to.write_all(&buffer[..count]).and_then(|()| to.flush()).is_err() {
            return;
        }
    }
}
