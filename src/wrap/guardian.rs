//! The guardian: a small process above this one that only waits, and does what a killed process cannot.
//!
//! It is the parent and not a child, because the user's shell waits for it: the shell gets the terminal
//! back only after it has been restored. A child would have to restore it in a race with the shell, which
//! sets its own modes for the next line.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::OnceLock;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getppid, pipe};

use super::ending::{Ending, Status};
use super::modes::Modes;
use super::relay::write_all;
use crate::os::private::remove_abandoned;
use crate::os::signals::{HANDED_ON, Origin, Signals, stop_job_with};
use crate::os::terminal::{self, Terminal};

/// The guardian of this process, if it has one.
static GUARDIAN: OnceLock<Guardian> = OnceLock::new();

struct Guardian {
    process: Pid,
    /// Its other end is the guardian's: readable when the guardian is gone.
    alive: OwnedFd,
}

/// Leaves a guardian in this process's place and goes on in a new process below it.
///
/// The guardian passes on the signals that it gets, stops when this process stops, and ends as it ends.
/// When this process is killed, the guardian gives the terminal back, undoes the modes that the program
/// armed in it, and removes those of `sockets` that nobody answers on any more. Then, if a program ran of
/// whose end [`Ending::leave`] has not been told, it calls `last_word`: whoever saw the program can be told
/// that it is gone. The user's shell waits for that. The program's own terminal hangs up, as that of a
/// closed window does. When the guardian is killed, this process ends likewise.
///
/// Call it first: only one thread goes on. From here on, signals that ask for the end wait for
/// [`run`](super::run).
///
/// # Errors
/// The process has other threads already, or the system gives no further process. This process then goes
/// on without a guardian.
pub fn guard(sockets: &[PathBuf], last_word: impl FnOnce()) -> io::Result<()> {
    if has_other_threads() {
        return Err(io::Error::other("a guardian has to be there before the first other thread"));
    }
    terminal::share();
    let (alive, guardian_end) = pipe()?;
    for end in [&alive, &guardian_end] {
        fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    }
    // Each of the two takes signals in its own way; what comes before it does so waits.
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    #[expect(unsafe_code, reason = "std cannot go on in a new process")]
    // SAFETY: there is one thread, so the new process has all that this one has.
    let forked = unsafe { fork() };
    if let Ok(ForkResult::Parent { child }) = forked {
        drop(alive);
        let signals = Signals::take(&[&HANDED_ON[..], &[Signal::SIGCHLD]].concat(), None);
        // Whatever our parent had blocked: a guardian that hears nothing hands nothing on.
        let _ = SigSet::empty().thread_set_mask();
        let ending = signals.and_then(|signals| watch(child, &signals));
        clean_up(sockets);
        if terminal::agent_runs() {
            last_word();
        }
        // The wait failed, which leaves nothing to pass on.
        ending.map_or_else(|_| std::process::exit(1), Ending::leave);
    }
    if let Err(error) = forked {
        let _ = before.thread_set_mask();
        return Err(error.into());
    }
    // What is to be handed on waits for `run`, which takes it: until then it would end this process, and
    // what the caller sets up meanwhile would never be taken down.
    let mut mask = before;
    mask.extend(HANDED_ON);
    let _ = mask.thread_set_mask();
    let _ = GUARDIAN.set(Guardian { process: getppid(), alive });
    Ok(())
}

/// Stays with the process below until its end.
fn watch(process: Pid, signals: &Signals) -> io::Result<Ending> {
    let ended = |status| Ok(Ending { status, ended_by: None });
    loop {
        for (signal, origin) in signals.drain() {
            // What the terminal sends reaches the whole process group.
            if origin != Origin::Terminal && signal != Signal::SIGCHLD {
                let _ = kill(process, signal);
            }
        }
        // After a SIGCONT was handed on, or a stop that is over would stop us.
        match waitpid(process, Some(WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED)) {
            Ok(WaitStatus::Exited(_, code)) => return ended(Status::Exited(code)),
            Ok(WaitStatus::Signaled(_, signal, _)) => {
                return ended(Status::Signaled(signal as i32));
            }
            // Whoever waits for us sees the stop.
            Ok(WaitStatus::Stopped(..)) => {
                stop_job_with(process);
                continue;
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut polled = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        match poll(&mut polled, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// What a killed process leaves behind. After one that ended in order there is nothing to do.
fn clean_up(sockets: &[PathBuf]) {
    if let Some(terminal) = Terminal::of_this_process() {
        let undo = Modes::from_bits(terminal::agent_modes()).undo();
        if terminal::restore_through(terminal.as_fd()) {
            write_all(terminal.as_fd(), &undo);
        }
    }
    for socket in sockets {
        remove_abandoned(socket);
    }
}

/// Whether a fork would leave threads behind. Unknown where the system does not say.
fn has_other_threads() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() > 1)
}

/// The process id of our guardian.
pub(super) fn process() -> Option<Pid> {
    GUARDIAN.get().map(|guardian| guardian.process)
}

/// Readable when our guardian is gone.
pub(super) fn alive() -> Option<BorrowedFd<'static>> {
    GUARDIAN.get().map(|guardian| guardian.alive.as_fd())
}
