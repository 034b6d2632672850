//! A terminal that is attached to a session.

use super::{Exit, client_socket, failed, folder, is_running, printed};
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
use std::env;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a server that was just started may take.
const START_LIMIT: Duration = Duration::from_secs(10);

/// Starts the session's server where none runs, and attaches this terminal to it until it ends.
pub(super) fn run(name: &str) -> Exit {
    if !is_running(name) {
        start_server(name);
    }
    let end = Instant::now() + START_LIMIT;
    let mut stream = loop {
        match UnixStream::connect(client_socket(&folder(name))) {
            Ok(stream) => break stream,
            Err(error) if Instant::now() > end => {
                return failed("no_server", &error.to_string());
            }
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    };
    let Ok(before) = tcgetattr(io::stdin()) else {
        return failed("no_terminal", "a client needs a terminal");
    };
    let mut raw = before.clone();
    cfmakeraw(&mut raw);
    tcsetattr(io::stdin(), SetArg::TCSANOW, &raw).unwrap();
    let mut typing = stream.try_clone().unwrap();
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut typing);
        let _ = typing.shutdown(Shutdown::Both);
    });
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        if io::stdout().write_all(&buffer[..count]).and_then(|()| io::stdout().flush()).is_err() {
            break;
        }
    }
    let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, &before);
    printed("the session has ended")
}

/// The server runs on its own, in a session of its own.
fn start_server(name: &str) {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--session", name, "server"]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    if env::var_os("FAKE_HERDR_ERRORS").is_none() {
        command.stderr(Stdio::null());
    }
    #[expect(unsafe_code, reason = "std starts no sessions")]
    // SAFETY: async-signal-safe.
    unsafe {
        command.pre_exec(|| Ok(nix::unistd::setsid().map(drop)?));
    }
    // Reaped by whoever has it after us.
    drop(command.spawn().unwrap());
}
