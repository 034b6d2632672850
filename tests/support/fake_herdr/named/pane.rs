//! A pane with a real login shell in a real PTY.

use nix::libc;
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getsid, setsid, tcgetpgrp};
use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

/// What a login shell gets from the system, whoever starts it.
const LOGIN: [&str; 7] = ["HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "XDG_RUNTIME_DIR"];

/// The `PATH` that it begins with.
const LOGIN_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Which variables a shell gets besides Herdr's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Surroundings {
    /// The server's.
    Server,
    /// Those of any login, and no other (H055).
    Login,
}

pub(super) struct Shell {
    child: Child,
    master: File,
}

impl Shell {
    pub(super) fn start(
        folder: &Path,
        herdrs: &[(&str, OsString)],
        surroundings: Surroundings,
        mut output: impl FnMut(&[u8]) + Send + 'static,
    ) -> Self {
        let size = Winsize { ws_row: 40, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).unwrap();
        for fd in [&pty.master, &pty.slave] {
            use nix::fcntl::{FcntlArg, FdFlag, fcntl};
            fcntl(fd, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
        }
        let shell = env::var_os("SHELL").map_or_else(|| "/bin/sh".into(), PathBuf::from);
        // The name of a login shell begins with a dash.
        let name = format!("-{}", shell.file_name().unwrap().to_string_lossy());
        let mut command = Command::new(&shell);
        command.arg0(name);
        if surroundings == Surroundings::Login {
            command.env_clear().env("PATH", LOGIN_PATH);
            for name in LOGIN {
                command.envs(env::var_os(name).map(|value| (name, value)));
            }
        }
        let stream = || Stdio::from(pty.slave.try_clone().unwrap());
        command.env("TERM", "xterm-256color").envs(herdrs.iter().cloned());
        command.stdin(stream()).stdout(stream()).stderr(stream());
        // A folder that is gone: the shell starts somewhere all the same.
        let home = || env::var_os("HOME").map_or_else(|| "/".into(), PathBuf::from);
        command.current_dir(if folder.is_dir() { folder.to_owned() } else { home() });
        let terminal = pty.slave.as_raw_fd();
        #[expect(unsafe_code, reason = "std starts no sessions")]
        // SAFETY: all are async-signal-safe.
        unsafe {
            command.pre_exec(move || {
                setsid()?;
                for signal in Signal::iterator() {
                    libc::signal(signal as i32, libc::SIG_DFL);
                }
                if libc::ioctl(terminal, libc::TIOCSCTTY as _, 0) == -1 {
                    return Err(io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        let master = File::from(pty.master);
        let mut reading = master.try_clone().unwrap();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = reading.read(&mut buffer) {
                output(&buffer[..count]);
            }
        });
        Self { child, master }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn write(&mut self, bytes: &[u8]) {
        // A shell that has just ended takes nothing.
        let _ = self.master.write_all(bytes);
    }

    pub(super) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// The process group in front.
    pub(super) fn foreground(&self) -> Option<u32> {
        tcgetpgrp(&self.master).ok().map(|group| group.as_raw().cast_unsigned())
    }

    /// The folder that the shell is in. Linux only: elsewhere the one that it began in stays.
    pub(super) fn folder(&self) -> Option<PathBuf> {
        fs::read_link(format!("/proc/{}/cwd", self.pid())).ok()
    }

    /// Sends a signal, or none, to every process of the pane; false when there is none left.
    pub(super) fn signal(&mut self, signal: Option<Signal>) -> bool {
        let _ = self.child.try_wait();
        let leader = Pid::from_raw(self.pid().cast_signed());
        let processes = fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok().map(Pid::from_raw));
        let of_pane = processes.filter(|process| getsid(Some(*process)) == Ok(leader));
        of_pane.filter(|process| kill(*process, signal).is_ok()).count() > 0
    }
}
