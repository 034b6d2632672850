//! A pseudoterminal: the master end for us, the name of the other end for the agent to open itself.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl, open};
use nix::pty::{PtyMaster, grantpt, posix_openpt, unlockpt};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, tcgetpgrp};

use super::terminal::{Modes, Size, set_size};

/// Our end of a pseudoterminal. Reads and writes never block.
#[derive(Debug)]
pub(crate) struct Master {
    master: PtyMaster,
    name: CString,
}

impl Master {
    /// A new pseudoterminal of the given size and modes; without modes, those of a terminal that was
    /// just opened.
    pub(crate) fn open(size: Size, modes: Option<&Modes>) -> io::Result<Self> {
        let master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY)?;
        fcntl(&master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
        fcntl(&master, FcntlArg::F_SETFL(OFlag::O_RDWR | OFlag::O_NONBLOCK))?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = CString::new(slave_name(&master)?)?;
        set_size(master.as_fd(), size)?;
        if let Some(modes) = modes {
            let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
            let slave = open(name.as_c_str(), flags, Mode::empty())?;
            modes.set(slave.as_fd())?;
        }
        Ok(Self { master, name })
    }

    /// The path of the agent's end.
    pub(crate) fn name(&self) -> &CString {
        &self.name
    }

    /// The descriptor alone.
    pub(crate) fn into_fd(self) -> OwnedFd {
        self.master.into()
    }

    /// The process group that has the agent's end now: what Ctrl-C would reach.
    pub(crate) fn foreground(&self) -> Option<Pid> {
        tcgetpgrp(self.master.as_fd()).ok().filter(|group| group.as_raw() > 1)
    }
}

impl AsFd for Master {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.master.as_fd()
    }
}

#[cfg(target_os = "linux")]
fn slave_name(master: &PtyMaster) -> io::Result<String> {
    Ok(nix::pty::ptsname_r(master)?)
}

#[cfg(not(target_os = "linux"))]
#[expect(unsafe_code, reason = "only Linux has the reentrant form")]
fn slave_name(master: &PtyMaster) -> io::Result<String> {
    // SAFETY: the name is copied before anybody else can ask; only the relay opens a PTY.
    Ok(unsafe { nix::pty::ptsname(master) }?)
}
