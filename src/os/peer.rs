//! Who is at the other end of a Unix socket, and whether it is this process or one below it.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicI32, Ordering};

/// The process that this one speaks for, where that is not itself; 0 for none.
static AGENT: AtomicI32 = AtomicI32::new(0);

/// This process speaks for the one that started it, as a link does: what that one starts counts as
/// below this process.
pub(crate) fn speak_for_the_parent() {
    let parent = nix::unistd::getppid().as_raw();
    // 1 has everybody below it: who started us is gone already.
    if parent > 1 {
        AGENT.store(parent, Ordering::Relaxed);
    }
}

/// The process that connected.
#[derive(Debug)]
pub(crate) struct Peer {
    uid: u32,
    /// As it was when it connected; 0 for a process outside this pid namespace.
    pid: i32,
    #[cfg(target_os = "linux")]
    handle: Option<std::os::fd::OwnedFd>,
}

impl Peer {
    /// Whether this system can say who connects.
    pub(crate) const fn can_be_known() -> bool {
        cfg!(any(target_os = "linux", target_os = "macos"))
    }

    /// The user.
    pub(crate) fn uid(&self) -> u32 {
        self.uid
    }

    /// Whether it runs as the user that this process runs as.
    pub(crate) fn is_same_user(&self) -> bool {
        self.uid == nix::unistd::geteuid().as_raw()
    }

    /// Whether it is this process, or one below it. Also true where that cannot be ruled out: for a
    /// process that is gone, since what it started may hold the connection now.
    ///
    /// A process that left its parents on purpose (a double fork) is found only where this process
    /// is a child subreaper.
    ///
    /// It costs a few reads of `/proc`: ask once for each connection.
    pub(crate) fn is_self_or_descendant(&self) -> bool {
        let own = std::process::id().cast_signed();
        let agent = AGENT.load(Ordering::Relaxed);
        if self.pid == own || self.pid == agent {
            return true;
        }
        if self.pid == 0 {
            // Another pid namespace than this and than those below this: no descendant.
            return false;
        }
        // A parent can go between two looks, and its number to another process: look again.
        let is_below = |ancestor| (0..3).find_map(|_| is_below(self.pid, ancestor)).unwrap_or(true);
        is_below(own) || (agent != 0 && is_below(agent)) || !self.lives()
    }

    /// Whether the process is still there: if not, its number may name another one by now.
    #[cfg(target_os = "linux")]
    fn lives(&self) -> bool {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        // Before Linux 6.5 there is no handle. Then only the number tells.
        let Some(handle) = &self.handle else {
            return process(self.pid).is_some();
        };
        let mut fds = [PollFd::new(handle.as_fd(), PollFlags::POLLIN)];
        // A process handle is readable once its process has ended.
        poll(&mut fds, PollTimeout::ZERO) == Ok(0)
    }

    #[cfg(not(target_os = "linux"))]
    fn lives(&self) -> bool {
        process(self.pid).is_some()
    }
}

#[cfg(target_os = "linux")]
impl Peer {
    /// Who connected to `socket`, an accepted connection.
    ///
    /// # Errors
    /// The system does not say.
    pub(crate) fn of(socket: &impl AsFd) -> io::Result<Self> {
        use nix::sys::socket::{getsockopt, sockopt};
        let credentials = getsockopt(socket, sockopt::PeerCredentials)?;
        let handle = getsockopt(socket, sockopt::PeerPidfd).ok();
        Ok(Self { uid: credentials.uid(), pid: credentials.pid(), handle })
    }
}

#[cfg(target_os = "macos")]
impl Peer {
    /// Who connected to `socket`, an accepted connection. Not run here yet.
    ///
    /// # Errors
    /// The system does not say.
    pub(crate) fn of(socket: &impl AsFd) -> io::Result<Self> {
        use nix::sys::socket::{getsockopt, sockopt};
        let credentials = getsockopt(socket, sockopt::LocalPeerCred)?;
        let pid = getsockopt(socket, sockopt::LocalPeerPid)?;
        Ok(Self { uid: credentials.uid(), pid })
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
impl Peer {
    /// Who connected to `socket`.
    ///
    /// # Errors
    /// Always: this system does not say.
    pub(crate) fn of(_socket: &impl AsFd) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// What the way up the tree needs of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    parent: i32,
    /// In a unit of the system's own; only compared.
    started: u64,
}

/// Whether `pid` is below `ancestor`; `None` if the tree changed during the look.
pub(super) fn is_below(pid: i32, ancestor: i32) -> Option<bool> {
    let mut child = process(pid)?;
    loop {
        if child.parent == ancestor {
            return Some(true);
        }
        // 0 is the parent of the first process, and of one whose parent is outside the namespace.
        if child.parent <= 1 {
            return Some(false);
        }
        let parent = process(child.parent)?;
        if parent.started > child.started {
            // Not the parent, but a later process with its number.
            return None;
        }
        child = parent;
    }
}

#[cfg(target_os = "linux")]
fn process(pid: i32) -> Option<Process> {
    parse_stat(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Reads `/proc/PID/stat`. The name in brackets may hold brackets and spaces, so the fields are
/// counted from the last bracket: state, parent, and 18 fields on the start time.
#[cfg(target_os = "linux")]
fn parse_stat(stat: &[u8]) -> Option<Process> {
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    let mut fields = std::str::from_utf8(&stat[end + 1..]).ok()?.split_ascii_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    let started = fields.nth(17)?.parse().ok()?;
    Some(Process { parent, started })
}

/// Not run here yet.
#[cfg(target_os = "macos")]
#[expect(unsafe_code, reason = "there is no safe wrapper of proc_pidinfo")]
fn process(pid: i32) -> Option<Process> {
    use nix::libc;
    let size = std::mem::size_of::<libc::proc_bsdinfo>();
    let mut info = std::mem::MaybeUninit::<libc::proc_bsdinfo>::zeroed();
    let length = libc::c_int::try_from(size).ok()?;
    let buffer = info.as_mut_ptr().cast();
    // SAFETY: the buffer lives through the call, and is of the size that is given.
    let written = unsafe { libc::proc_pidinfo(pid, libc::PROC_PIDTBSDINFO, 0, buffer, length) };
    // SAFETY: it was zeroed, and zeros are a value of each of its numbers and bytes.
    let info = unsafe { info.assume_init() };
    if written != length {
        return None;
    }
    let started = info.pbi_start_tvsec * 1_000_000 + info.pbi_start_tvusec;
    Some(Process { parent: i32::try_from(info.pbi_ppid).ok()?, started })
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn process(_pid: i32) -> Option<Process> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_connection_from_here_is_our_own() {
        let (one, _other) = UnixStream::pair().unwrap();
        let peer = Peer::of(&one).unwrap();
        assert!(peer.is_same_user());
        assert_eq!(peer.pid, std::process::id().cast_signed());
        assert!(peer.is_self_or_descendant());
    }

    #[test]
    fn a_child_is_below_and_the_parent_is_not() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let child_pid = child.id().cast_signed();
        let own = std::process::id().cast_signed();
        assert_eq!(is_below(child_pid, own), Some(true));
        assert_eq!(is_below(own, child_pid), Some(false));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(is_below(child_pid, own), None, "gone");
    }

    #[test]
    fn a_process_that_is_gone_is_not_trusted() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = child.id().cast_signed();
        child.wait().unwrap();
        let uid = nix::unistd::geteuid().as_raw();
        assert!(Peer { uid, pid, handle: None }.is_self_or_descendant());
    }

    #[test]
    fn a_name_may_hold_anything() {
        let stat = b"42 (a) b) (c) S 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 99 1 2\n";
        assert_eq!(parse_stat(stat), Some(Process { parent: 7, started: 99 }));
        assert_eq!(parse_stat(b"42 (a) S"), None);
        assert_eq!(parse_stat(b""), None);
    }
}
