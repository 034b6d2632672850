//! What the system tells about processes, and how to end a group of them.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getsid};

/// The session of process `pid`, named by its leader's id; `None` asks for our own. No answer: there is
/// no such process, or the system does not tell.
pub(crate) fn session_of(pid: Option<u32>) -> Option<u32> {
    let pid = match pid {
        Some(pid) => Some(Pid::from_raw(i32::try_from(pid).ok().filter(|pid| *pid > 0)?)),
        None => None,
    };
    getsid(pid).ok().and_then(|leader| u32::try_from(leader.as_raw()).ok())
}

/// Ends every process of the group that `leader` leads. It must be a child that has not been reaped
/// yet: only then is the number surely still its own.
pub(crate) fn kill_group(leader: u32) {
    if let Some(leader) = i32::try_from(leader).ok().filter(|leader| *leader > 1) {
        // The group may be gone already, which is what was wanted.
        let _ = killpg(Pid::from_raw(leader), Signal::SIGKILL);
    }
}

/// Ends every process below this one, and reaps those that are its children, for at most `limit`. Only for
/// a process that waits for none of them otherwise.
///
/// A process that left its parents on purpose (a double fork) is found only where this process is a child
/// subreaper. Linux only: elsewhere nobody is found.
pub(crate) fn kill_all_below(limit: Duration) {
    let own = std::process::id().cast_signed();
    let end = Instant::now() + limit;
    loop {
        while matches!(waitpid(None, Some(WaitPidFlag::WNOHANG)), Ok(status) if status != WaitStatus::StillAlive)
        {
        }
        let below: Vec<i32> = std::fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter(|pid| super::peer::is_below(*pid, own) == Some(true))
            .collect();
        if below.is_empty() || Instant::now() > end {
            return;
        }
        for pid in below {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_session_is_the_same_by_both_ways() {
        let own = session_of(None).unwrap();
        assert_eq!(session_of(Some(std::process::id())), Some(own));
    }

    #[test]
    fn a_process_that_is_not_there_has_no_session() {
        assert_eq!(session_of(Some(0)), None);
        assert_eq!(session_of(Some(u32::MAX)), None);
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert_eq!(session_of(Some(child.id())), None);
    }
}
