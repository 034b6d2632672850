//! Where our files live: the XDG folders.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The name of an agent's socket, in the folder of its name.
pub(crate) const COLLIE_SOCKET: &str = "collie.sock";

/// Why there is no folder to put sockets in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoRuntimeFolder {
    #[error("XDG_RUNTIME_DIR is not set")]
    NotSet,
    #[error("XDG_RUNTIME_DIR is not an absolute path: `{}`", .0.display())]
    NotAbsolute(PathBuf),
    #[error("XDG_RUNTIME_DIR names no folder: `{}`", .0.display())]
    NoFolder(PathBuf),
}

/// `$XDG_RUNTIME_DIR/agent-presence`: sockets and locks.
///
/// There is no fallback: Collie's service has a `/tmp` of its own, and would not see a socket there.
pub(crate) fn runtime(
    lookup: impl Fn(&str) -> Option<OsString>,
) -> Result<PathBuf, NoRuntimeFolder> {
    let folder = lookup("XDG_RUNTIME_DIR")
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from)
        .ok_or(NoRuntimeFolder::NotSet)?;
    if !folder.is_absolute() {
        return Err(NoRuntimeFolder::NotAbsolute(folder));
    }
    if !folder.is_dir() {
        return Err(NoRuntimeFolder::NoFolder(folder));
    }
    Ok(folder.join("agent-presence"))
}

/// The sockets of the agents in the runtime folder, each in a folder of its agent's name.
pub(crate) fn collie_sockets(runtime: &Path) -> Vec<PathBuf> {
    let agents = runtime.read_dir().into_iter().flatten().flatten();
    let mut sockets: Vec<_> = agents
        .map(|agent| agent.path().join(COLLIE_SOCKET))
        .filter(|socket| socket.exists())
        .collect();
    sockets.sort();
    sockets
}

/// `$XDG_STATE_HOME/agent-presence`, else `~/.local/state/agent-presence`: records. `None` when
/// neither variable holds an absolute path.
pub(crate) fn state(lookup: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name| lookup(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))?;
    Some(home.join("agent-presence"))
}

/// `$XDG_CONFIG_HOME/agent-presence`, else `~/.config/agent-presence`: what the user sets. `None` when
/// neither variable holds an absolute path.
pub(crate) fn config(lookup: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name| lookup(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = absolute("XDG_CONFIG_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".config")))?;
    Some(home.join("agent-presence"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given<'a>(variables: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        move |name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
        }
    }

    #[test]
    fn the_runtime_folder_is_there_or_the_reason_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        assert_eq!(
            runtime(given(&[("XDG_RUNTIME_DIR", path)])),
            Ok(folder.path().join("agent-presence"))
        );
        assert_eq!(runtime(given(&[])), Err(NoRuntimeFolder::NotSet));
        assert_eq!(runtime(given(&[("XDG_RUNTIME_DIR", "")])), Err(NoRuntimeFolder::NotSet));
        assert_eq!(
            runtime(given(&[("XDG_RUNTIME_DIR", "run")])),
            Err(NoRuntimeFolder::NotAbsolute("run".into()))
        );
        assert_eq!(
            runtime(given(&[("XDG_RUNTIME_DIR", "/nowhere/at/all")])),
            Err(NoRuntimeFolder::NoFolder("/nowhere/at/all".into()))
        );
    }

    #[test]
    fn the_state_folder_falls_back_to_the_home() {
        assert_eq!(
            state(given(&[("XDG_STATE_HOME", "/s"), ("HOME", "/h")])),
            Some("/s/agent-presence".into())
        );
        assert_eq!(
            state(given(&[("XDG_STATE_HOME", "relative"), ("HOME", "/h")])),
            Some("/h/.local/state/agent-presence".into())
        );
        assert_eq!(state(given(&[])), None);
        let configured = given(&[("XDG_CONFIG_HOME", "/c"), ("HOME", "/h")]);
        assert_eq!(config(configured), Some("/c/agent-presence".into()));
        assert_eq!(config(given(&[("HOME", "/h")])), Some("/h/.config/agent-presence".into()));
    }
}
