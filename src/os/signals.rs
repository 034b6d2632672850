//! Signals that come to this process, noted by a handler and read by the relay; and ending by one.
//!
//! A handler and a pipe, rather than a blocked mask and signalfd: it holds whatever threads there are and
//! whichever was started first, it hands nothing on to programs that they start, and it works on macOS.

#![expect(
    unsafe_code,
    reason = "handlers are installed and signals raised by calls that std lacks"
)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::libc;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{
    SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, killpg, raise, sigaction,
};
use nix::unistd::{Pid, pipe, read};

use super::terminal;

/// The signals that are handed on, in one way or another. (A SIGTSTP is only where the terminal's own does
/// not reach the program.)
pub(crate) const HANDED_ON: [Signal; 8] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGCONT,
    Signal::SIGWINCH,
];

/// The signals that ask for the end.
pub(crate) const ENDING: [Signal; 4] =
    [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM];

/// The signals that end this process at once: the terminal is given back before.
const FATAL: [Signal; 6] = [
    Signal::SIGABRT,
    Signal::SIGBUS,
    Signal::SIGFPE,
    Signal::SIGILL,
    Signal::SIGSEGV,
    Signal::SIGSYS,
];

/// Who sent a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The terminal, to our whole process group: a key, a resize, or that it is gone.
    Terminal,
    /// A process.
    Process,
    /// Our own guardian, handing on what came to it.
    Guardian,
}

const ORIGINS: [Origin; 3] = [Origin::Terminal, Origin::Process, Origin::Guardian];

/// How long a stop may take to reach us before it counts as let pass.
const STOP_TIME: Duration = Duration::from_millis(50);

static WAKE: AtomicI32 = AtomicI32::new(-1);
/// One bit a signal, one word an origin: nothing is lost however many come, and equal ones are one.
static NOTED: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
static GUARDIAN: AtomicI32 = AtomicI32::new(0);

/// The signals of this process, from [`Signals::take`] to the end of it.
#[derive(Debug)]
pub(crate) struct Signals {
    wake: OwnedFd,
    ignored: u64,
}

impl Signals {
    /// Takes over those of `signals` that this process was not started to ignore (`nohup`). The last one to
    /// take them has them.
    ///
    /// `guardian` is the process whose signals count as handed on.
    pub(crate) fn take(signals: &[Signal], guardian: Option<Pid>) -> io::Result<Self> {
        let (wake, write) = pipe()?;
        for end in [&wake, &write] {
            fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
            fcntl(end, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        // Never closed: a handler can run at any time from now on.
        WAKE.store(write.into_raw_fd(), Ordering::SeqCst);
        GUARDIAN.store(guardian.map_or(0, Pid::as_raw), Ordering::SeqCst);
        let ignored = ignored();
        let mut unblocked = SigSet::empty();
        for &signal in signals.iter().filter(|&&signal| ignored & bit(signal) == 0) {
            let flags = SaFlags::SA_SIGINFO | SaFlags::SA_RESTART;
            install(signal, SigHandler::SigAction(note), flags)?;
            unblocked.add(signal);
        }
        unblocked.thread_unblock()?;
        // Reading or writing in the background would raise these two in the middle of the call, and a
        // handler would start the call again for ever. Blocked here, the call fails or goes through.
        let mut background = SigSet::empty();
        background.add(Signal::SIGTTIN);
        background.add(Signal::SIGTTOU);
        background.thread_block()?;
        Ok(Self { wake, ignored })
    }

    /// The signals, as bits, that were ignored when this process started. A program that we start ignores
    /// them too.
    pub(crate) fn ignored(&self) -> u64 {
        self.ignored
    }

    /// What came since the last call, each signal once for each origin.
    pub(crate) fn drain(&self) -> Vec<(Signal, Origin)> {
        let mut buffer = [0; 64];
        while matches!(read(&self.wake, &mut buffer), Ok(count) if count > 0) {}
        let mut noted = Vec::new();
        for (origin, word) in ORIGINS.into_iter().zip(&NOTED) {
            let bits = word.swap(0, Ordering::SeqCst);
            noted.extend(
                Signal::iterator().filter(|&signal| bits & bit(signal) != 0).map(|s| (s, origin)),
            );
        }
        noted
    }
}

impl AsFd for Signals {
    /// Readable when a signal has come.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// Gives the terminal back before this process dies of itself.
pub(crate) fn restore_terminal_on_death() -> io::Result<()> {
    for signal in FATAL {
        install(signal, SigHandler::Handler(give_back_and_die), SaFlags::SA_ONSTACK)?;
    }
    Ok(())
}

/// The bit of a signal in the words of this module.
pub(crate) fn bit(signal: Signal) -> u64 {
    1 << (signal as i32)
}

/// Stops our whole job, as the terminal's Ctrl-Z does, until somebody continues it: a script that we are
/// part of has to stop with us, or its shell would wait for it. Not when `process` goes on by now: then the
/// job was stopped and continued already. Tells whether we were stopped: without a shell that could
/// continue us (an orphaned process group) the kernel does not.
pub(crate) fn stop_job_with(process: Pid) -> bool {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // Blocked until all is sent. A stop in between would be carried out, continued, and followed by the
    // one that we are about to send. A SIGCONT takes one that waits away again.
    let mut stop = SigSet::empty();
    stop.add(Signal::SIGTSTP);
    let mask = stop.thread_swap_mask(SigmaskHow::SIG_BLOCK);
    // SAFETY: the default action runs no code of ours.
    let before = unsafe { sigaction(Signal::SIGTSTP, &default) };
    for word in &NOTED {
        word.fetch_and(!bit(Signal::SIGCONT), Ordering::SeqCst);
    }
    let continued =
        || NOTED.iter().any(|word| word.load(Ordering::SeqCst) & bit(Signal::SIGCONT) != 0);
    if is_stopped(process) {
        let _ = killpg(Pid::from_raw(0), Signal::SIGTSTP);
        let _ = stop.thread_unblock();
        // As a rule we were stopped and continued by now, but the signal may have come to another thread.
        let end = Instant::now() + STOP_TIME;
        while !continued() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    if let Ok(before) = before {
        // SAFETY: `before` was in force until the call above.
        let _ = unsafe { sigaction(Signal::SIGTSTP, &before) };
    }
    if let Ok(mask) = mask {
        let _ = mask.thread_set_mask();
    }
    continued()
}

/// Whether a process is stopped right now: the news of it can be old.
pub(crate) fn is_stopped(process: Pid) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{process}/stat")) else {
        // No such file where there is no /proc: the news has to do.
        return cfg!(not(target_os = "linux"));
    };
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

/// Ends this process by `signal`, so that whoever waits sees what it would have seen of the agent.
pub(crate) fn die_by(signal: i32) -> ! {
    // The agent has left its core where it should; ours would be in its way.
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    if let Ok(signal) = Signal::try_from(signal) {
        let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
        // SAFETY: the default action runs no code of ours. SIGKILL cannot be set and needs not be.
        let _ = unsafe { sigaction(signal, &default) };
        let mut only = SigSet::empty();
        only.add(signal);
        let _ = only.thread_unblock();
        let _ = raise(signal);
    }
    // A signal that ends nothing, or a real-time one: the shells' number for it.
    std::process::exit(128 + signal)
}

/// Which signals are ignored now, as bits.
fn ignored() -> u64 {
    Signal::iterator()
        .filter(|&signal| {
            // SAFETY: a null action changes nothing and asks for the old one, which is filled.
            let mut old = unsafe { std::mem::zeroed::<libc::sigaction>() };
            // SAFETY: as above.
            let result = unsafe { libc::sigaction(signal as i32, std::ptr::null(), &raw mut old) };
            // Rust itself ignores SIGPIPE before `main`, so that one says nothing about our parent.
            result == 0 && old.sa_sigaction == libc::SIG_IGN && signal != Signal::SIGPIPE
        })
        .fold(0, |bits, signal| bits | bit(signal))
}

fn install(signal: Signal, handler: SigHandler, flags: SaFlags) -> io::Result<()> {
    let action = SigAction::new(handler, flags, SigSet::all());
    // SAFETY: both handlers below call nothing that is not async-signal-safe.
    unsafe { sigaction(signal, &action) }?;
    Ok(())
}

extern "C" fn note(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let errno = Errno::last_raw();
    // SAFETY: SA_SIGINFO promises a filled `info`.
    let (code, sender) = unsafe { ((*info).si_code, (*info).si_pid()) };
    // The kernel's own code is above 0 on Linux; macOS says 0 and names no sender.
    // SAFETY: async-signal-safe.
    if code <= 0 && sender == unsafe { libc::getpid() } {
        // What we sent to our own job.
        return;
    }
    let origin = if code > 0 || (cfg!(not(target_os = "linux")) && sender == 0) {
        Origin::Terminal
    } else if sender != 0 && sender == GUARDIAN.load(Ordering::Relaxed) {
        Origin::Guardian
    } else {
        Origin::Process
    };
    NOTED[origin as usize].fetch_or(1 << signal, Ordering::SeqCst);
    // SAFETY: one byte of a constant; the pipe is never closed. A full pipe wakes just as well.
    unsafe { libc::write(WAKE.load(Ordering::Relaxed), b"!".as_ptr().cast(), 1) };
    Errno::set_raw(errno);
}

extern "C" fn give_back_and_die(signal: libc::c_int) {
    terminal::restore();
    // SAFETY: both are async-signal-safe. The signal is blocked until this handler returns.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    // SAFETY: as above.
    unsafe { libc::raise(signal) };
}
