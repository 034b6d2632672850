//! Starts a program below a small process of our own, its leader.
//!
//! ```text
//! us ── leader (session leader of the PTY, reaper) ── the agent (a process group of its own) ── …
//! ```
//!
//! A fork rather than `std::process::Command`, because of the process in between. It is what makes job
//! control work: the agent is no session leader and its group has a parent in the same session, so that
//! Ctrl-Z stops it, as below a shell (the kernel never stops a group without one). It adopts what the
//! agent leaves behind and reaps it, so that nothing here waits for children that are not its own, and
//! takes the terminal back when the agent is gone, so that no hang-up reaches the user's background jobs.
//! And it tells how the agent ended without a SIGCHLD, which other users of this process may need.

#![expect(
    unsafe_code,
    reason = "between fork and exec only calls that std does not offer are allowed"
)]

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl, open};
use nix::libc;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, pthread_sigmask};
use nix::sys::stat::Mode;
use nix::sys::wait::waitpid;
use nix::unistd::{
    ForkResult, Pid, dup2_stderr, dup2_stdin, dup2_stdout, fork, getpgrp, getpid, pipe, read,
    setpgid, setsid, tcsetpgrp, write,
};

/// What to start, laid out before the fork: after it nothing may be allocated.
#[derive(Debug)]
pub(crate) struct Image {
    path: CString,
    arguments: Pointers,
    /// How `execvp` starts a script without a first line: the shell, the path, the arguments.
    shell_arguments: Pointers,
    environment: Pointers,
}

impl Image {
    /// # Errors
    /// A NUL inside one of the strings.
    pub(crate) fn new(
        path: &OsStr,
        arguments: &[&OsStr],
        environment: Vec<CString>,
    ) -> io::Result<Self> {
        let path = CString::new(path.as_bytes())?;
        let texts = |arguments: &[&OsStr]| {
            arguments
                .iter()
                .map(|text| CString::new(text.as_bytes()))
                .collect::<Result<Vec<_>, _>>()
        };
        let arguments = texts(arguments)?;
        let shell = [c"/bin/sh".to_owned(), path.clone()];
        let shell_arguments = shell.into_iter().chain(arguments.iter().skip(1).cloned()).collect();
        Ok(Self {
            path,
            arguments: Pointers::new(arguments),
            shell_arguments: Pointers::new(shell_arguments),
            environment: Pointers::new(environment),
        })
    }
}

/// Strings and the null-terminated array of them that `execve` wants.
#[derive(Debug)]
struct Pointers {
    _strings: Vec<CString>,
    array: Vec<*const libc::c_char>,
}

impl Pointers {
    fn new(strings: Vec<CString>) -> Self {
        let array = strings.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect();
        Self { _strings: strings, array }
    }
}

/// The terminal of the agent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pty<'a> {
    /// The agent's end, which it opens itself so that it becomes its controlling terminal.
    pub(crate) name: &'a CStr,
    /// Whether standard error is the terminal too, and not a file that the user gave.
    pub(crate) stderr: bool,
}

/// What the leader tells about the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    Stopped(i32),
    Continued,
    Exited(i32),
    Signaled(i32),
    /// The leader itself is gone and has not said how the agent ended.
    Lost,
}

/// A started program and the process above it.
#[derive(Debug)]
pub(crate) struct Leader {
    process: Pid,
    agent: Pid,
    reports: OwnedFd,
    in_session: bool,
}

/// Starts `image`. With a PTY it gets a session of its own there, without one it stays in our process
/// group and has our standard streams. `ignored` are the signals, as bits, that it is to ignore; the rest
/// it gets with the default action, and none blocked.
///
/// Descriptors that our own parent gave us stay open in the agent (a shell's `<(…)` is one); ours are all
/// close-on-exec.
///
/// # Errors
/// As `execve` gave it, or a fork or a pipe that failed.
pub(crate) fn start(image: &Image, pty: Option<Pty<'_>>, ignored: u64) -> io::Result<Leader> {
    become_reaper();
    let (reports, reports_end) = private_pipe()?;
    let (failure, failure_end) = private_pipe()?;
    let mut before = SigSet::empty();
    // No handler of ours may run in the new processes.
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), Some(&mut before))?;
    // SAFETY: the child calls only async-signal-safe functions and does not return.
    let leader = match unsafe { fork() } {
        Ok(ForkResult::Child) => lead(image, pty, ignored, &reports_end, &failure_end),
        Ok(ForkResult::Parent { child }) => Ok(child),
        Err(errno) => Err(errno),
    };
    let _ = before.thread_set_mask();
    let leader = leader?;
    drop((reports_end, failure_end));

    let agent = read_number(&reports);
    let errno = read_number(&failure);
    match (agent, errno) {
        (Some(agent), None) => {
            let in_session = pty.is_some();
            Ok(Leader { process: leader, agent: Pid::from_raw(agent), reports, in_session })
        }
        (_, errno) => {
            end(leader);
            Err(errno.map_or_else(
                || io::Error::other("the process above the agent ended before it"),
                io::Error::from_raw_os_error,
            ))
        }
    }
}

impl Leader {
    /// The agent's process id.
    pub(crate) fn agent(&self) -> Pid {
        self.agent
    }

    /// The next report, waiting for it if need be. After [`Report::Lost`] no other comes.
    pub(crate) fn next(&self) -> Report {
        let (Some(kind), Some(value)) = (read_number(&self.reports), read_number(&self.reports))
        else {
            return Report::Lost;
        };
        match kind {
            STOPPED => Report::Stopped(value),
            CONTINUED => Report::Continued,
            EXITED => Report::Exited(value),
            _ => Report::Signaled(value),
        }
    }
}

impl AsFd for Leader {
    /// Readable when there is a report.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reports.as_fd()
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        // Without a PTY the leader has no other work than its child and ends with it.
        if self.in_session {
            end(self.process);
        } else {
            let _ = waitpid(self.process, None);
        }
    }
}

fn end(leader: Pid) {
    let _ = kill(leader, Signal::SIGKILL);
    let _ = waitpid(leader, None);
}

const STOPPED: i32 = 1;
const CONTINUED: i32 = 2;
const EXITED: i32 = 3;
const SIGNALED: i32 = 4;

/// The leader's whole life. Async-signal-safe calls only.
fn lead(
    image: &Image,
    pty: Option<Pty<'_>>,
    ignored: u64,
    reports: &OwnedFd,
    failure: &OwnedFd,
) -> ! {
    if let Some(pty) = pty
        && let Err(errno) = open_session(pty)
    {
        write_number(failure, errno as i32);
        exit(1);
    }
    become_reaper();
    // SAFETY: as the fork before.
    let agent = match unsafe { fork() } {
        Ok(ForkResult::Child) => execute(image, pty.is_some(), ignored, failure),
        Ok(ForkResult::Parent { child }) => child,
        Err(errno) => {
            write_number(failure, errno as i32);
            exit(1);
        }
    };
    if pty.is_some() {
        let _ = setpgid(agent, agent);
        take_hang_up();
    }
    write_number(reports, agent.as_raw());
    close_all_but(reports.as_raw_fd());
    watch(agent, pty.is_some(), reports)
}

/// Reaps all, and tells what became of the agent.
fn watch(agent: Pid, in_session: bool, reports: &OwnedFd) -> ! {
    loop {
        let mut status = 0;
        // SAFETY: `status` is a live integer to fill. Not nix's form, which panics on a status that it
        // does not know.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WUNTRACED | libc::WCONTINUED) };
        if pid == -1 {
            match Errno::last() {
                Errno::EINTR => continue,
                // No child is left. Our end is our parent's business, or the terminal's hang-up.
                _ => loop {
                    // SAFETY: waits for a signal, nothing more.
                    unsafe { libc::pause() };
                },
            }
        }
        if pid != agent.as_raw() {
            continue;
        }
        let (kind, value) = if libc::WIFSTOPPED(status) {
            (STOPPED, libc::WSTOPSIG(status))
        } else if libc::WIFCONTINUED(status) {
            (CONTINUED, 0)
        } else if libc::WIFSIGNALED(status) {
            (SIGNALED, libc::WTERMSIG(status))
        } else {
            (EXITED, libc::WEXITSTATUS(status))
        };
        let ended = kind == EXITED || kind == SIGNALED;
        if ended && in_session {
            // Background jobs of the agent's own group would get the hang-up that is to come.
            let _ = tcsetpgrp(STDIN, getpgrp());
        }
        write_number(reports, kind);
        write_number(reports, value);
        if ended && !in_session {
            exit(0);
        }
    }
}

/// A session with the PTY as its controlling terminal and standard streams.
fn open_session(pty: Pty<'_>) -> nix::Result<()> {
    setsid()?;
    let slave = open(pty.name, OFlag::O_RDWR, Mode::empty())?;
    // SAFETY: no pointer is passed. Opening was enough on Linux, elsewhere it takes this.
    Errno::result(unsafe { libc::ioctl(slave.as_raw_fd(), libc::TIOCSCTTY as _, 0) })?;
    dup2_stdin(&slave)?;
    dup2_stdout(&slave)?;
    if pty.stderr {
        dup2_stderr(&slave)?;
    }
    if slave.as_raw_fd() <= 2 {
        std::mem::forget(slave);
    }
    Ok(())
}

/// Becomes the agent.
fn execute(image: &Image, in_session: bool, ignored: u64, failure: &OwnedFd) -> ! {
    if in_session {
        let own = getpid();
        let _ = setpgid(own, own);
        // All signals are blocked still, SIGTTOU among them: the call goes through.
        let _ = tcsetpgrp(STDIN, own);
    }
    for signal in Signal::iterator() {
        let action =
            if ignored & (1 << signal as i32) == 0 { libc::SIG_DFL } else { libc::SIG_IGN };
        // SAFETY: neither action runs code of ours.
        unsafe { libc::signal(signal as i32, action) };
    }
    let _ = SigSet::empty().thread_set_mask();
    let path = image.path.as_ptr();
    let environment = image.environment.array.as_ptr();
    // SAFETY: the arrays are null-terminated and their strings live.
    unsafe { libc::execve(path, image.arguments.array.as_ptr(), environment) };
    if Errno::last() == Errno::ENOEXEC {
        // SAFETY: as above.
        unsafe {
            libc::execve(c"/bin/sh".as_ptr(), image.shell_arguments.array.as_ptr(), environment)
        };
    }
    write_number(failure, Errno::last_raw());
    exit(127)
}

/// The one signal that ends a leader: its terminal is gone, and with it whoever could want a report.
fn take_hang_up() {
    // SAFETY: the default action runs no code of ours.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_DFL) };
    let mut hang_up = SigSet::empty();
    hang_up.add(Signal::SIGHUP);
    let _ = hang_up.thread_unblock();
}

/// Adopts what the agent leaves behind, so that it can be reaped, and so that a process below the agent
/// stays below it however it detaches.
fn become_reaper() {
    #[cfg(target_os = "linux")]
    // SAFETY: sets a flag of this process, no pointer.
    unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    };
}

/// Closes what the fork copied: a listening socket held here would answer for ever after its owner.
fn close_all_but(kept: i32) {
    for (first, last) in [(3, kept - 1), (kept + 1, i32::MAX)] {
        if first > last {
            continue;
        }
        #[cfg(target_os = "linux")]
        // SAFETY: descriptors by number; none is used in this process after this.
        if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == 0 {
            continue;
        }
        // SAFETY: no pointer is passed.
        let open_at_most = unsafe { libc::sysconf(libc::_SC_OPEN_MAX) };
        let open_at_most = i32::try_from(open_at_most).unwrap_or(i32::MAX).min(65_536);
        for descriptor in first..=last.min(open_at_most) {
            // SAFETY: as above.
            unsafe { libc::close(descriptor) };
        }
    }
}

/// Standard input, which is the PTY in a leader's session.
const STDIN: BorrowedFd<'static> = {
    // SAFETY: descriptor 0 stays open for the life of the process.
    unsafe { BorrowedFd::borrow_raw(0) }
};

fn private_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe()?;
    let mut ends = [read, write];
    for end in &mut ends {
        // Above the standard streams, which the leader replaces, even when ours are closed.
        let high = fcntl(&*end, FcntlArg::F_DUPFD_CLOEXEC(3))?;
        // SAFETY: the number is new and ours.
        *end = unsafe { OwnedFd::from_raw_fd(high) };
        fcntl(&*end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    }
    let [read, write] = ends;
    Ok((read, write))
}

fn read_number(from: &OwnedFd) -> Option<i32> {
    let mut bytes = [0; 4];
    loop {
        match read(from, &mut bytes) {
            // A pipe takes and gives so few bytes whole.
            Ok(4) => return Some(i32::from_ne_bytes(bytes)),
            Err(Errno::EINTR) => {}
            _ => return None,
        }
    }
}

fn write_number(to: &OwnedFd, number: i32) {
    while write(to, &number.to_ne_bytes()) == Err(Errno::EINTR) {}
}

fn exit(code: i32) -> ! {
    // SAFETY: ends the process without running the handlers that belong to our parent.
    unsafe { libc::_exit(code) }
}
