//! A program in a terminal of its own that nobody sees but us.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::leader::{self, Image, Leader, Pty, Report};
use super::pty::Master;
use super::terminal::Size;
use super::wait::{Ready, wait};

/// How often the reader looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// What is to run.
#[derive(Debug)]
pub(crate) struct Program<'a> {
    pub(crate) path: &'a Path,
    /// Its own name first.
    pub(crate) arguments: &'a [OsString],
    pub(crate) environment: &'a [(OsString, OsString)],
}

/// A running program and its terminal. When it is dropped, the terminal hangs up.
#[derive(Debug)]
pub(crate) struct Console {
    leader: Leader,
    keys: File,
    ended: AtomicBool,
    closing: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Console {
    /// Starts a program in a terminal of this size. What it writes goes to `output`, on a thread of its own.
    ///
    /// # Errors
    /// No terminal or no process is to be had, or the program cannot be executed.
    pub(crate) fn start(
        program: &Program<'_>,
        (rows, columns): (u16, u16),
        mut output: impl FnMut(&[u8]) + Send + 'static,
    ) -> io::Result<Self> {
        let size = Size { rows, columns, ..Size::default() };
        let master = Master::open(size, None)?;
        let arguments: Vec<&OsStr> = program.arguments.iter().map(OsString::as_os_str).collect();
        let environment = program.environment.iter().map(|(name, value)| {
            let text = [name.clone().into_vec(), vec![b'='], value.clone().into_vec()].concat();
            Ok(CString::new(text)?)
        });
        let environment = environment.collect::<io::Result<Vec<_>>>()?;
        let image = Image::new(program.path.as_os_str(), &arguments, environment)?;
        let leader = leader::start(&image, Some(Pty { name: master.name(), stderr: true }), 0)?;
        let keys = File::from(master.as_fd().try_clone_to_owned()?);
        let closing = Arc::new(AtomicBool::new(false));
        let reader = thread::spawn({
            let closing = closing.clone();
            move || read_all(&File::from(master.into_fd()), &closing, &mut output)
        });
        Ok(Self { leader, keys, ended: AtomicBool::new(false), closing, reader: Some(reader) })
    }

    /// Types, and waits for at most `limit` until the terminal has taken it.
    pub(crate) fn type_text(&self, text: &str, limit: Duration) -> io::Result<()> {
        let deadline = Some(Instant::now() + limit);
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            if !wait(&self.keys, Ready::ToWrite, deadline)? {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match (&self.keys).write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether the program has ended by now.
    pub(crate) fn has_ended(&self) -> bool {
        while !self.ended.load(Ordering::SeqCst)
            && wait(&self.leader, Ready::ToRead, Some(Instant::now())).unwrap_or(true)
        {
            let goes_on = matches!(self.leader.next(), Report::Stopped(_) | Report::Continued);
            self.ended.store(!goes_on, Ordering::SeqCst);
        }
        self.ended.load(Ordering::SeqCst)
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        // The reader's descriptor is the last but ours: with both the terminal hangs up.
        self.closing.store(true, Ordering::SeqCst);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

fn read_all(master: &File, closing: &AtomicBool, output: &mut dyn FnMut(&[u8])) {
    let mut buffer = [0; 16 * 1024];
    while !closing.load(Ordering::SeqCst) {
        match wait(master, Ready::ToRead, Some(Instant::now() + LOOK)) {
            Ok(false) => continue,
            Ok(true) => {}
            Err(_) => return,
        }
        match { master }.read(&mut buffer) {
            Ok(count @ 1..) => output(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Nobody has the other end any more.
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn what_is_typed_arrives_and_what_is_written_is_seen() {
        let (sender, seen) = mpsc::channel();
        let arguments = ["sh", "-c", "read -r line; printf 'got %s in %s' \"$line\" \"$WHERE\""];
        let program = Program {
            path: Path::new("/bin/sh"),
            arguments: &arguments.map(OsString::from),
            environment: &[("WHERE".into(), "here".into())],
        };
        let console = Console::start(&program, (24, 80), move |bytes| {
            let _ = sender.send(bytes.to_vec());
        });
        let console = console.unwrap();
        assert!(!console.has_ended());
        console.type_text("a line\r", Duration::from_secs(5)).unwrap();
        let mut all = Vec::new();
        while !String::from_utf8_lossy(&all).contains("got a line in here") {
            all.extend(seen.recv_timeout(Duration::from_secs(10)).unwrap());
        }
        let end = Instant::now() + Duration::from_secs(10);
        while !console.has_ended() {
            assert!(Instant::now() < end);
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[cfg(target_os = "linux")] // Elsewhere only process 1 reaps it.
    #[test]
    fn a_program_goes_with_its_terminal() {
        use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
        use nix::unistd::Pid;
        let (sender, seen) = mpsc::channel();
        let arguments = ["sh", "-c", "echo $$; exec sleep 1000"].map(OsString::from);
        let program =
            Program { path: Path::new("/bin/sh"), arguments: &arguments, environment: &[] };
        let console = Console::start(&program, (24, 80), move |bytes| {
            let _ = sender.send(String::from_utf8_lossy(bytes).trim().to_owned());
        });
        let pid = seen.recv_timeout(Duration::from_secs(10)).unwrap().parse().unwrap();
        drop(console);
        let end = Instant::now() + Duration::from_secs(10);
        // It is ours to reap now that its leader is gone.
        let gone = || waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG));
        while !matches!(gone(), Ok(WaitStatus::Signaled(..))) {
            assert!(Instant::now() < end, "{pid} is there");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let arguments = ["none".into()];
        let program =
            Program { path: Path::new("/nope/none"), arguments: &arguments, environment: &[] };
        assert!(Console::start(&program, (24, 80), |_| {}).is_err());
    }
}
