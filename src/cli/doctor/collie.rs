//! The Collie side: its socket.

use std::env;
use std::path::PathBuf;

use super::Check;
use crate::collie::{Client, ClientError};
use crate::link::StatusResult;
use crate::os::folders;

const NAME: &str = "collie";

pub(super) fn check(presence: Option<&StatusResult>) -> Check {
    let status = presence.and_then(|status| status.collie.as_ref());
    if let Some(why) = status.and_then(|status| status.off.as_deref()) {
        return Check::fix(NAME, format!("off: {why}"), "then start the agent again");
    }
    let served = status.and_then(|status| status.socket.as_ref()).map(PathBuf::from);
    let named = || env::var_os("COLLIE_DURABLE_SOCKET").filter(|path| !path.is_empty());
    if let Some(socket) = served.or_else(|| named().map(PathBuf::from)) {
        return ask(&socket);
    }
    let folder = match folders::runtime(|name| env::var_os(name)) {
        Ok(folder) => folder,
        Err(error) => return Check::fix(NAME, error.to_string(), "set it to a folder of your own"),
    };
    let sockets = folders::collie_sockets(&folder);
    match sockets.as_slice() {
        [] => Check::note(NAME, "no agent serves a socket here", "a wrapped agent does"),
        [socket] => ask(socket),
        several => Check::ok(NAME, format!("{} sockets in {}", several.len(), folder.display())),
    }
}

fn ask(socket: &std::path::Path) -> Check {
    let place = socket.display();
    match Client::new(socket).hello() {
        Ok(hello) => Check::ok(NAME, format!("`{}` is served at {place}", hello.host_name)),
        Err(ClientError::Io { source, .. }) => Check::fix(
            NAME,
            format!("nobody answers at {place}: {source}"),
            "start the agent; a file that a dead one left is replaced",
        ),
        Err(error) => Check::fix(NAME, format!("{place}: {error}"), "is this an agent's socket?"),
    }
}
