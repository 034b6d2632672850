//! The user's terminal: its size, its modes, and giving it back as it was on every way out.

#![expect(
    unsafe_code,
    reason = "libc's termios is used as it is, because a wrapper type that does not model every flag \
              would not restore every flag"
)]

use std::cell::UnsafeCell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use nix::fcntl::{OFlag, open};
use nix::libc;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::stat::{Mode, fstat};
use nix::unistd::{getpgrp, tcgetpgrp, ttyname};

/// The size of a terminal, in cells and in pixels. Pixels are 0 where the terminal does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) rows: u16,
    pub(crate) columns: u16,
    pub(crate) width: u16,
    pub(crate) height: u16,
}

/// The size of the terminal behind `fd`.
pub(crate) fn size(fd: BorrowedFd<'_>) -> io::Result<Size> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: `size` is a live winsize, which is what this request fills.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    check(result)?;
    Ok(Size {
        rows: size.ws_row,
        columns: size.ws_col,
        width: size.ws_xpixel,
        height: size.ws_ypixel,
    })
}

/// Gives the terminal behind `fd` a size. On the master of a PTY, the kernel tells the foreground group.
pub(crate) fn set_size(fd: BorrowedFd<'_>, size: Size) -> io::Result<()> {
    let size = libc::winsize {
        ws_row: size.rows,
        ws_col: size.columns,
        ws_xpixel: size.width,
        ws_ypixel: size.height,
    };
    // SAFETY: `size` is a live winsize, which is what this request reads.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    check(result)
}

/// The modes of a terminal, whole.
#[derive(Clone, Copy)]
pub(crate) struct Modes(libc::termios);

impl Modes {
    /// The modes that the terminal behind `fd` has now.
    pub(crate) fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        // SAFETY: a termios is plain integers, for which all zeroes is a value.
        let mut modes = unsafe { std::mem::zeroed::<libc::termios>() };
        // SAFETY: `modes` is a live termios to fill.
        let result = unsafe { libc::tcgetattr(fd.as_raw_fd(), &raw mut modes) };
        check(result)?;
        Ok(Self(modes))
    }

    /// Sets these modes on the terminal behind `fd` at once. Nothing typed ahead is thrown away.
    pub(crate) fn set(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        set_termios(fd.as_raw_fd(), &raw const self.0)
    }

    /// The same modes, but those that a shell changes while it edits its own line are as a program finds
    /// them.
    pub(crate) fn for_programs(mut self) -> Self {
        self.0.c_iflag |= libc::ICRNL;
        self.0.c_oflag |= libc::OPOST;
        self.0.c_lflag |= libc::ICANON | libc::ECHO | libc::ISIG | libc::IEXTEN;
        self
    }

    /// The same modes, but every byte passes in both directions as it is.
    fn raw(mut self) -> Self {
        // SAFETY: `self.0` is a live termios.
        unsafe { libc::cfmakeraw(&raw mut self.0) };
        self
    }
}

/// What has to be put back when this process ends, however it ends: in memory that is shared with the
/// guardian, so that it can do it when we cannot.
#[repr(C)]
struct Held {
    /// 1 while the terminal has our modes and `termios` holds the user's.
    armed: AtomicU32,
    fd: AtomicI32,
    /// What the agent armed in the terminal, as `wrap::modes` writes it.
    agent_modes: AtomicU64,
    /// 1 while an agent runs of whose end nobody has been told.
    agent_runs: AtomicU32,
    termios: UnsafeCell<libc::termios>,
}

/// One terminal for each process: a second one could not be the user's. `None`: no memory for it.
static HELD: OnceLock<Option<Page>> = OnceLock::new();

struct Page(ptr::NonNull<Held>);

// SAFETY: the page is never unmapped, and `termios` is written only while `armed` is 0, by the one
// thread that relays.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    fn map() -> Option<Self> {
        // SAFETY: a new anonymous mapping overlaps nothing. It is all zeroes, a valid `Held`.
        let address = unsafe {
            libc::mmap(
                ptr::null_mut(),
                size_of::<Held>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        (address != libc::MAP_FAILED).then(|| ptr::NonNull::new(address.cast()).map(Self))?
    }

    fn held(&self) -> &Held {
        // SAFETY: the page is mapped, aligned, and holds a `Held` from its first byte.
        unsafe { self.0.as_ref() }
    }
}

fn held() -> Option<&'static Held> {
    HELD.get_or_init(Page::map).as_ref().map(Page::held)
}

/// The user's terminal, opened anew: the flags of fd 0 and 1 are shared with the user's shell, these
/// are ours, so that nothing here ever blocks.
#[derive(Debug)]
pub(crate) struct Terminal {
    fd: OwnedFd,
    /// Whether `fd` is ours alone and does not block.
    reopened: bool,
}

impl Terminal {
    /// The terminal that is both standard input and standard output, if they are one.
    pub(crate) fn of_this_process() -> Option<Self> {
        let (stdin, stdout) = (io::stdin(), io::stdout());
        if !is_terminal(stdin.as_fd()) || !is_terminal(stdout.as_fd()) {
            return None;
        }
        let (input, output) = (fstat(stdin.as_fd()).ok()?, fstat(stdout.as_fd()).ok()?);
        if input.st_rdev != output.st_rdev {
            return None;
        }
        if let Some(fd) = reopen(stdout.as_fd(), output.st_rdev) {
            return Some(Self { fd, reopened: true });
        }
        // Behind `su` the terminal can belong to somebody else: then the inherited one has to do,
        // with writes small enough not to block for long.
        let fd = stdin.as_fd().try_clone_to_owned().ok()?;
        Some(Self { fd, reopened: false })
    }

    /// The most that one write may take.
    pub(crate) fn write_limit(&self) -> usize {
        if self.reopened { usize::MAX } else { 256 }
    }

    /// Whether our process group has the terminal, and not the shell that put us into the background.
    pub(crate) fn is_foreground(&self) -> bool {
        is_foreground(self.fd.as_raw_fd())
    }

    /// Raw mode, with the modes of now kept for [`restore`].
    pub(crate) fn arm(&self) -> io::Result<()> {
        restore();
        let held = held().ok_or(io::ErrorKind::OutOfMemory)?;
        let modes = Modes::of(self.fd.as_fd())?;
        // SAFETY: `armed` is 0, so nobody reads; we are the only writer.
        unsafe { *held.termios.get() = modes.0 };
        held.fd.store(self.fd.as_raw_fd(), Ordering::Relaxed);
        // Armed first: a signal between the two lines restores what is still there.
        held.armed.store(1, Ordering::SeqCst);
        modes.raw().set(self.fd.as_fd())
    }
}

impl AsFd for Terminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
        if let Some(held) = held() {
            held.armed.store(0, Ordering::SeqCst);
        }
    }
}

/// Makes room for what [`restore`] needs, before a fork that is to share it.
pub(crate) fn share() {
    held();
}

/// Keeps what the agent armed in the terminal where [`agent_modes`] finds it, in this process and in its
/// guardian.
pub(crate) fn keep_agent_modes(bits: u64) {
    if let Some(held) = held() {
        held.agent_modes.store(bits, Ordering::Relaxed);
    }
}

/// What [`keep_agent_modes`] kept last.
pub(crate) fn agent_modes() -> u64 {
    held().map_or(0, |held| held.agent_modes.load(Ordering::Relaxed))
}

/// Keeps whether an agent runs of whose end nobody has been told, where the guardian finds it.
pub(crate) fn keep_agent_runs(runs: bool) {
    if let Some(held) = held() {
        held.agent_runs.store(runs.into(), Ordering::SeqCst);
    }
}

/// What [`keep_agent_runs`] kept last.
pub(crate) fn agent_runs() -> bool {
    held().is_some_and(|held| held.agent_runs.load(Ordering::SeqCst) != 0)
}

/// Gives the terminal back as it was; nothing when it is not armed. Safe in a signal handler. Tells
/// whether there was something to do.
///
/// A terminal that another process group has by now is left alone: it is not ours any more.
pub(crate) fn restore() -> bool {
    // Not `held()`: a signal handler must not be the one that maps the page.
    let Some(held) = HELD.get().and_then(Option::as_ref).map(Page::held) else {
        return false;
    };
    let fd = held.fd.load(Ordering::Relaxed);
    if held.armed.load(Ordering::SeqCst) != 1 || !is_foreground(fd) {
        return false;
    }
    let done = set_termios(fd, held.termios.get()).is_ok();
    held.armed.store(0, Ordering::SeqCst);
    done
}

/// The guardian has a terminal of its own to restore: the number of ours means nothing to it.
pub(crate) fn restore_through(fd: BorrowedFd<'_>) -> bool {
    if let Some(held) = held() {
        held.fd.store(fd.as_raw_fd(), Ordering::Relaxed);
    }
    restore()
}

/// Whether a line is read from the terminal behind `fd` without being shown: a password. A program that
/// takes every key itself and shows them itself is another thing.
pub(crate) fn hides_input(fd: BorrowedFd<'_>) -> bool {
    Modes::of(fd)
        .is_ok_and(|modes| modes.0.c_lflag & libc::ICANON != 0 && modes.0.c_lflag & libc::ECHO == 0)
}

/// Whether whole lines are read from the terminal behind `fd`, which it edits itself.
pub(crate) fn edits_lines(fd: BorrowedFd<'_>) -> bool {
    Modes::of(fd).is_ok_and(|modes| modes.0.c_lflag & libc::ICANON != 0)
}

pub(crate) fn is_terminal(fd: BorrowedFd<'_>) -> bool {
    nix::unistd::isatty(fd).unwrap_or(false)
}

/// Whether standard input is a terminal, and ours to read: not that of a shell which runs us in the
/// background.
pub(crate) fn is_at_hand() -> bool {
    let stdin = io::stdin();
    is_terminal(stdin.as_fd()) && is_foreground(stdin.as_raw_fd())
}

fn is_foreground(fd: RawFd) -> bool {
    // SAFETY: the number is of a terminal that was open when it was kept; a closed one is an error.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    // A terminal that does not control us has no foreground to lose.
    tcgetpgrp(fd).map_or(true, |group| group == getpgrp())
}

fn reopen(fd: BorrowedFd<'_>, device: libc::dev_t) -> Option<OwnedFd> {
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let new = open(&ttyname(fd).ok()?, flags, Mode::empty()).ok()?;
    // The name can be of another terminal: containers have a /dev/pts of their own.
    (fstat(&new).ok()?.st_rdev == device).then_some(new)
}

fn set_termios(fd: RawFd, modes: *const libc::termios) -> io::Result<()> {
    // Set from the background, modes raise SIGTTOU, and a handler of ours would start the call again
    // for ever. Blocked, the call goes through.
    let mut blocked = SigSet::empty();
    blocked.add(Signal::SIGTTOU);
    let mut before = SigSet::empty();
    let masked = nix::sys::signal::pthread_sigmask(
        nix::sys::signal::SigmaskHow::SIG_BLOCK,
        Some(&blocked),
        Some(&mut before),
    );
    // SAFETY: `modes` points to a live termios of our caller's.
    let result = check(unsafe { libc::tcsetattr(fd, libc::TCSANOW, modes) });
    if masked.is_ok() {
        let _ = before.thread_set_mask();
    }
    result
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
