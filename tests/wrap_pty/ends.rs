//! Exit codes, death by signal, programs that cannot start, and the terminal afterwards.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use crate::terminal::{Modes, Terminal};
use crate::{probe, runs, shell, start_cat, unguarded};

#[test]
fn output_and_exit_code_pass() {
    let mut terminal = Terminal::start(&mut shell("printf hello; exit 7"));
    assert_eq!(terminal.wait().code(), Some(7));
    assert_eq!(terminal.bytes(), b"hello");
}

#[test]
fn nothing_is_lost_in_any_of_many_runs() {
    for run in 0..runs() {
        let mut terminal = Terminal::start(probe().args(["printf", "x"]));
        assert_eq!(terminal.wait().code(), Some(0), "run {run}");
        assert_eq!(terminal.bytes(), b"x", "run {run}");
    }
}

#[test]
fn a_killed_program_is_seen_as_killed_in_every_run() {
    for run in 0..runs() {
        let mut terminal = Terminal::start(&mut shell("kill -9 $$"));
        assert_eq!(terminal.wait().signal(), Some(9), "run {run}");
    }
}

#[test]
fn death_by_signal_passes_as_that_signal() {
    for (name, number) in
        [("TERM", 15), ("HUP", 1), ("INT", 2), ("QUIT", 3), ("SEGV", 11), ("ABRT", 6), ("PIPE", 13)]
    {
        let mut terminal = Terminal::start(&mut shell(&format!("kill -{name} $$")));
        let status = terminal.wait();
        assert_eq!(status.signal(), Some(number), "{name}");
        assert!(!status.core_dumped(), "{name}: the core is the program's");
        assert_eq!(terminal.modes(), terminal.before, "{name}");
    }
}

#[test]
fn the_terminal_is_raw_meanwhile_and_as_before_after() {
    let mut terminal = Terminal::start(&mut shell("printf ready; read line"));
    assert!(terminal.before.is_cooked());
    terminal.wait_for("ready");
    assert!(terminal.modes().is_raw());
    terminal.type_bytes("\r");
    terminal.wait();
    assert_eq!(terminal.modes(), terminal.before);
}

#[test]
fn a_program_left_running_on_the_terminal_is_not_waited_for() {
    let mut terminal = Terminal::start(&mut shell("setsid sleep 60 & echo $!; exit 7"));
    assert_eq!(terminal.wait().code(), Some(7));
    let script = String::from_utf8(terminal.bytes()).expect("a number");
    let _ = Command::new("kill").arg(script.trim()).status();
}

#[test]
fn a_program_that_is_not_there_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let plain = folder.path().join("plain");
    fs::write(&plain, "echo never").expect("a file");
    let name = plain.to_str().expect("a path of text");
    for (program, code, text) in [
        ("no-such-program", 127, "no-such-program: command not found"),
        ("/no/such/program", 127, "/no/such/program: command not found"),
        (name, 126, "cannot be executed"),
        ("/", 126, "cannot be executed"),
    ] {
        let mut terminal = Terminal::start_sized(probe().arg(program), 24, 200);
        assert_eq!(terminal.wait().code(), Some(code), "{program}");
        assert!(terminal.screen().contains(text), "{program}: {}", terminal.screen());
        assert_eq!(terminal.modes(), terminal.before, "{program}");
    }
}

#[test]
fn scripts_start_as_a_shell_would_start_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("a mode");
        path
    };
    let bare = script("bare", "echo \"bare $1\"; exit 4");
    let mut terminal = Terminal::start(probe().arg(&bare).arg("argument"));
    assert_eq!(terminal.wait().code(), Some(4));
    assert_eq!(terminal.bytes(), b"bare argument\r\n");

    let broken = script("broken", "#!/no/such/interpreter\n");
    let mut terminal = Terminal::start(probe().arg(&broken));
    assert_eq!(terminal.wait().code(), Some(126));
    assert!(terminal.modes().is_cooked());
}

#[test]
fn a_panic_of_ours_gives_the_terminal_back() {
    for mut command in [probe(), unguarded()] {
        command.args(["sh", "-c", "printf boom; read line"]).env("WRAP_PROBE_PANIC", "boom");
        let mut terminal = Terminal::start(&mut command);
        assert_eq!(terminal.wait().code(), Some(101));
        assert_eq!(terminal.modes(), terminal.before);
        let bytes = String::from_utf8_lossy(&terminal.bytes()).into_owned();
        assert!(bytes.contains("asked to panic\r\n"), "printed too early: {bytes:?}");
    }
}

#[test]
fn without_a_terminal_there_is_no_pty() {
    let output = shell("test -t 0; echo $?; test -t 1; echo $?; exit 5")
        .stdin(Stdio::null())
        .output()
        .expect("it runs");
    assert_eq!((output.stdout.as_slice(), output.status.code()), (&b"1\n1\n"[..], Some(5)));

    let mut child = probe().arg("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let child = child.as_mut().expect("it runs");
    std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), b"a\nb").expect("it reads");
    let mut read = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().expect("a pipe"), &mut read)
        .expect("text");
    assert_eq!(read, "a\nb", "not one byte changed");
    assert!(child.wait().expect("it ends").success());

    let mut child = probe().arg("true").stdin(Stdio::piped()).spawn().expect("it runs");
    let _open = child.stdin.take();
    assert!(child.wait().expect("it ends").success(), "a pipe that stays open is not waited for");

    let status = shell("kill -9 $$").stdin(Stdio::null()).stdout(Stdio::null()).status();
    assert_eq!(status.expect("it runs").signal(), Some(9));
}

#[test]
fn keys_reach_the_program_and_its_own_terminal_edits_them() {
    let mut terminal =
        Terminal::start(&mut shell("read line; echo \"got <$line>\"; cat; echo over"));
    terminal.wait_for_modes("raw", Modes::is_raw);
    terminal.type_bytes("a lime\x7f\x7fne\r");
    terminal.wait_for("got <a line>");
    terminal.type_bytes("\x04");
    assert_eq!(terminal.wait().code(), Some(0));
    assert!(terminal.screen().contains("over"), "{}", terminal.screen());
}

#[test]
fn ctrl_c_and_ctrl_backslash_are_the_programs_own() {
    for (key, number) in [("\x03", 2), ("\x1c", 3)] {
        let mut terminal = start_cat(probe());
        terminal.type_bytes(key);
        assert_eq!(terminal.wait().signal(), Some(number));
        assert!(terminal.modes().is_cooked());
    }
}
