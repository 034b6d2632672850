//! A terminal for tests: runs a command on a pseudoterminal, types, looks at the screen, resizes, closes.

#![allow(dead_code, reason = "each test program uses its own part")]
#![expect(clippy::expect_used, reason = "a test that cannot go on says where")]

use std::fmt::Debug;
use std::io;
use std::num::NonZero;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{ControlFlags, InputFlags, LocalFlags, OutputFlags, tcgetattr};
use nix::unistd::{Pid, pipe, read, write};

/// How long anything may take before it counts as never.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// The modes of a terminal, to compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Modes {
    input: InputFlags,
    output: OutputFlags,
    control: ControlFlags,
    local: LocalFlags,
    characters: Vec<u8>,
}

impl Modes {
    /// Whether lines are edited and echoed, and Ctrl-C is a signal: a terminal that no program holds.
    pub(crate) fn is_cooked(&self) -> bool {
        self.local.contains(LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG)
    }

    /// Whether every byte passes as it is.
    pub(crate) fn is_raw(&self) -> bool {
        !self.local.intersects(LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG)
    }
}

struct Seen {
    bytes: Vec<u8>,
    screen: vt100::Parser,
    paused: bool,
}

struct Shared {
    seen: Mutex<Seen>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A terminal with a command in it. The command leads the terminal's session, as one does that a
/// terminal starts itself; give it a shell for job control.
pub(crate) struct Terminal {
    master: OwnedFd,
    slave: OwnedFd,
    child: Child,
    shared: Arc<Shared>,
    stop: Option<OwnedFd>,
    reader: Option<JoinHandle<()>>,
    status: Option<ExitStatus>,
    /// The modes before the command started.
    pub(crate) before: Modes,
}

impl Terminal {
    /// Starts `command` in a terminal of 24 rows and 80 columns.
    pub(crate) fn start(command: &mut Command) -> Self {
        Self::start_sized(command, 24, 80)
    }

    /// Starts `command` in a terminal of this size. Streams that `command` sets itself stay as they are,
    /// when set through [`Terminal::start_with`].
    pub(crate) fn start_sized(command: &mut Command, rows: u16, columns: u16) -> Self {
        Self::start_with(command, rows, columns, |command, slave| {
            let stream = || Stdio::from(slave.try_clone().expect("a descriptor"));
            command.stdin(stream()).stdout(stream()).stderr(stream());
        })
    }

    /// Starts `command` with the streams that `connect` gives it.
    pub(crate) fn start_with(
        command: &mut Command,
        rows: u16,
        columns: u16,
        connect: impl FnOnce(&mut Command, &OwnedFd),
    ) -> Self {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).expect("a pseudoterminal");
        let (stop_read, stop) = pipe().expect("a pipe");
        for fd in [&pty.master, &pty.slave, &stop_read, &stop] {
            fcntl(fd, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).expect("a flag");
        }
        connect(command, &pty.slave);
        let before = modes(&pty.master);
        let terminal = pty.slave.as_raw_fd();
        #[expect(unsafe_code, reason = "std starts no sessions")]
        // SAFETY: all are async-signal-safe.
        unsafe {
            command.pre_exec(move || {
                nix::unistd::setsid()?;
                // A shell has its background jobs ignore some, and such a job may be running the tests.
                for signal in Signal::iterator() {
                    libc::signal(signal as i32, libc::SIG_DFL);
                }
                if libc::ioctl(terminal, libc::TIOCSCTTY as _, 0) == -1 {
                    return Err(io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn().expect("the command starts");
        // The command holds the terminal now; what is left of it here would keep it open.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let screen = vt100::Parser::new(cells(rows), cells(columns), 1000);
        let shared = Arc::new(Shared {
            seen: Mutex::new(Seen { bytes: Vec::new(), screen, paused: false }),
            changed: Condvar::new(),
        });
        let reader = thread::spawn({
            let (shared, master) = (shared.clone(), pty.master.try_clone().expect("a descriptor"));
            move || read_all(&shared, &master, &stop_read)
        });
        Self {
            master: pty.master,
            slave: pty.slave,
            child,
            shared,
            stop: Some(stop),
            reader: Some(reader),
            status: None,
            before,
        }
    }

    /// The command's process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Types. Waits when the terminal takes no more.
    pub(crate) fn type_bytes(&self, bytes: impl AsRef<[u8]>) {
        let mut rest = bytes.as_ref();
        while !rest.is_empty() {
            let count = write(&self.master, rest).expect("the terminal takes input");
            rest = &rest[count..];
        }
    }

    /// All that came so far.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.shared.lock().bytes.clone()
    }

    /// How much came so far.
    pub(crate) fn count(&self) -> usize {
        self.shared.lock().bytes.len()
    }

    /// What a person sees.
    pub(crate) fn screen(&self) -> String {
        self.shared.lock().screen.screen().contents()
    }

    /// Waits until a person sees `text`.
    pub(crate) fn wait_for(&self, text: &str) {
        self.wait_until(&format!("{text:?} on the screen"), |seen| {
            seen.screen.screen().contents().contains(text)
        });
    }

    /// Waits until these bytes have come.
    pub(crate) fn wait_for_bytes(&self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        let mut searched = 0;
        self.wait_until(&format!("{:?}", String::from_utf8_lossy(bytes)), |seen| {
            let found = memchr::memmem::find(&seen.bytes[searched..], bytes).is_some();
            searched = seen.bytes.len().saturating_sub(bytes.len());
            found
        });
    }

    /// How often this text has come.
    pub(crate) fn count_of(&self, text: &str) -> usize {
        memchr::memmem::find_iter(&self.shared.lock().bytes, text).count()
    }

    /// Waits until this text has come so often.
    pub(crate) fn wait_for_count_of(&self, text: &str, count: usize) {
        self.wait_until(&format!("{text:?} {count} times"), |seen| {
            memchr::memmem::find_iter(&seen.bytes, text).count() >= count
        });
    }

    /// Waits until at least so many bytes have come.
    pub(crate) fn wait_for_count(&self, count: usize) {
        self.wait_until(&format!("{count} bytes"), |seen| seen.bytes.len() >= count);
    }

    fn wait_until(&self, what: &str, mut holds: impl FnMut(&Seen) -> bool) {
        let end = Instant::now() + DEADLINE;
        let mut seen = self.shared.lock();
        while !holds(&seen) {
            let left = end.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero(),
                "no {what} within {DEADLINE:?}; the screen:\n{}",
                seen.screen.screen().contents()
            );
            seen = self
                .shared
                .changed
                .wait_timeout(seen, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Stops reading, as a slow connection or Ctrl-S does, or goes on.
    pub(crate) fn pause(&self, paused: bool) {
        self.shared.lock().paused = paused;
        self.shared.changed.notify_all();
    }

    /// Gives the terminal another size, in cells and in pixels.
    pub(crate) fn resize(&self, rows: u16, columns: u16, width: u16, height: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: width, ws_ypixel: height };
        #[expect(unsafe_code, reason = "nix has no call for it")]
        // SAFETY: `size` is a live winsize.
        let result =
            unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        assert_eq!(result, 0, "the size is taken");
        self.shared.lock().screen.screen_mut().set_size(cells(rows), cells(columns));
    }

    /// The modes of now.
    pub(crate) fn modes(&self) -> Modes {
        modes(&self.master)
    }

    /// Waits until the modes are as asked for.
    pub(crate) fn wait_for_modes(&self, what: &str, holds: impl Fn(&Modes) -> bool) {
        let end = Instant::now() + DEADLINE;
        while !holds(&self.modes()) {
            let screen = || self.screen();
            assert!(
                Instant::now() < end,
                "no modes of {what} within {DEADLINE:?}; the screen:\n{}",
                screen()
            );
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Sends the command a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).expect("the command is there");
    }

    /// Waits until the command has ended and all its output has come.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        if let Some(status) = self.status {
            return status;
        }
        let end = Instant::now() + DEADLINE;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("the command can be waited for") {
                break status;
            }
            assert!(
                Instant::now() < end,
                "not ended within {DEADLINE:?}; the screen:\n{}",
                self.screen()
            );
            thread::sleep(Duration::from_millis(1));
        };
        eventually("the rest of the output", || {
            // Reading and keeping is one step under the lock.
            let _seen = self.shared.lock();
            let mut waits = [PollFd::new(self.master.as_fd(), PollFlags::POLLIN)];
            poll(&mut waits, PollTimeout::ZERO) == Ok(0)
        });
        self.status = Some(status);
        status
    }

    /// Whether the command has ended by now.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.status = self.status.or(self.child.try_wait().expect("the command can be waited for"));
        self.status.is_some()
    }

    /// Closes the terminal, as its window would be, and waits for the command's end.
    pub(crate) fn close(mut self) -> ExitStatus {
        self.stop_reading();
        let Self { master, slave, child, .. } = &mut self;
        // Both ends: the last of the master's hangs up.
        let null = || OwnedFd::from(std::fs::File::open("/dev/null").expect("/dev/null"));
        *slave = null();
        *master = null();
        let end = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = child.try_wait().expect("the command can be waited for") {
                self.status = Some(status);
                return status;
            }
            assert!(
                Instant::now() < end,
                "not ended within {DEADLINE:?} after the terminal closed"
            );
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn stop_reading(&mut self) {
        self.stop = None;
        self.pause(false);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if self.status.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        self.stop_reading();
    }
}

fn modes(terminal: &OwnedFd) -> Modes {
    let modes = tcgetattr(terminal).expect("a terminal has modes");
    Modes {
        input: modes.input_flags,
        output: modes.output_flags,
        control: modes.control_flags,
        local: modes.local_flags,
        characters: modes.control_chars.to_vec(),
    }
}

fn cells(count: u16) -> NonZero<u16> {
    NonZero::new(count).expect("a terminal has cells")
}

fn read_all(shared: &Shared, master: &OwnedFd, stop: &OwnedFd) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let mut waits = [
            PollFd::new(master.as_fd(), PollFlags::POLLIN),
            PollFd::new(stop.as_fd(), PollFlags::POLLIN),
        ];
        let _ = poll(&mut waits, PollTimeout::NONE);
        if waits[1].any().unwrap_or(true) {
            return;
        }
        let mut seen = shared.lock();
        if seen.paused {
            let pause = Duration::from_millis(10);
            drop(shared.changed.wait_timeout(seen, pause).unwrap_or_else(PoisonError::into_inner));
            continue;
        }
        match read(master, &mut buffer) {
            Ok(count) if count > 0 => {
                seen.bytes.extend_from_slice(&buffer[..count]);
                seen.screen.process(&buffer[..count]);
                shared.changed.notify_all();
            }
            _ => return,
        }
    }
}

/// Waits until something holds that nothing tells of.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < end, "{what}: not within {DEADLINE:?}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a process with this id is there and not a zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    state.is_ok_and(|stat| {
        let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        !after_name.starts_with(['Z', 'X'])
    })
}

/// The children of a process, in no order.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    list.unwrap_or_default().split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// The processes of the session that a process leads or led.
pub(crate) fn session_of(pid: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc")
        .expect("/proc")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    processes
        .filter(|other| {
            let stat = std::fs::read_to_string(format!("/proc/{other}/stat")).unwrap_or_default();
            let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
            after_name.split(' ').nth(3) == Some(pid.to_string().as_str())
        })
        .collect()
}

/// The most memory that a process has had, in bytes.
pub(crate) fn memory_peak(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) * 1024
}
