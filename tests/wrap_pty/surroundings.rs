//! What the program finds round itself: its terminal, size, descriptors, signals, environment.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Command, Stdio};

use nix::libc;

use crate::terminal::{Terminal, eventually};
use crate::{probe, shell};

/// The output of a command that ends by itself, as a person would see it, in a wide terminal.
fn screen(command: &mut Command) -> String {
    let mut terminal = Terminal::start_sized(command, 60, 200);
    terminal.wait();
    terminal.screen()
}

#[test]
fn it_leads_a_foreground_group_on_a_terminal_of_its_own() {
    let script = "tty; set -- $(ps -o pgid=,tpgid=,tty= -p $$); echo \"$(( $1 == $2 )) $(( $1 == $$ )) /dev/$3\"";
    let seen = screen(&mut shell(script));
    let lines: Vec<&str> = seen.lines().collect();
    assert!(lines[0].starts_with("/dev/"), "{seen}");
    assert_eq!(lines[1], format!("1 1 {}", lines[0]), "{seen}");
}

#[test]
fn it_has_the_users_descriptors_and_none_of_ours() {
    let list = ["-c", "ls /proc/self/fd | tr '\\n' ' '"];
    let direct = screen(Command::new("sh").args(list));
    assert_eq!(screen(probe().arg("sh").args(list)), direct);
    let mut command = Command::new("bash");
    let probe = env!("CARGO_BIN_EXE_wrap-probe");
    command.args(["-c", &format!("{probe} cat <(echo from the shell)")]);
    assert_eq!(screen(&mut command).trim_end(), "from the shell");
}

#[test]
fn its_standard_error_stays_where_the_user_put_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let file = File::create(&log).expect("a file");
    let mut terminal =
        Terminal::start_with(&mut shell("echo out; echo err >&2"), 24, 80, |command, slave| {
            let stream = || Stdio::from(slave.try_clone().expect("a descriptor"));
            command.stdin(stream()).stdout(stream()).stderr(file);
        });
    terminal.wait();
    assert_eq!(terminal.bytes(), b"out\r\n");
    assert_eq!(fs::read(&log).expect("the log"), b"err\n");
}

#[test]
fn no_signal_is_blocked_and_only_those_are_ignored_that_were() {
    let show = |of: &str, script: &str| {
        let show = format!("grep -E '{of}' /proc/self/status");
        let probe = env!("CARGO_BIN_EXE_wrap-probe");
        let direct = screen(Command::new("sh").args(["-c", &script.replace("SHOW", &show)]));
        let show = format!("env WRAP_PROBE_GUARD= {probe} {show}");
        (direct, screen(Command::new("sh").args(["-c", &script.replace("SHOW", &show)])))
    };
    let (direct, wrapped) = show("SigIgn", "trap '' HUP USR1 INT; SHOW");
    assert_eq!(wrapped, direct);
    let (direct, wrapped) = show("SigBlk", "exec env --block-signal=USR1,WINCH SHOW");
    assert_ne!(wrapped, direct);
    assert!(wrapped.contains("0000000000000000"), "{wrapped}");
}

#[test]
fn its_file_mode_mask_and_folder_are_ours() {
    let script =
        format!("umask 027; cd /usr; {} sh -c 'umask; pwd'", env!("CARGO_BIN_EXE_wrap-probe"));
    assert_eq!(screen(Command::new("sh").args(["-c", &script])).trim_end(), "0027\n/usr");
}

#[test]
fn its_environment_is_ours() {
    let folder = tempfile::tempdir().expect("a folder");
    let list = |name: &str| {
        let path = folder.path().join(name);
        let text = fs::read_to_string(path).expect("a list");
        // The shell's own, which says how deep or how it was started.
        text.lines().filter(|line| !line.starts_with("_=")).map(str::to_owned).collect::<Vec<_>>()
    };
    let outside = folder.path().join("outside").display().to_string();
    let inside = folder.path().join("inside").display().to_string();
    let script = format!(
        "env | sort >{outside}; {} sh -c 'env | sort >{inside}'",
        env!("CARGO_BIN_EXE_wrap-probe")
    );
    screen(
        Command::new("sh").args(["-c", &script]).env("TERM", "xterm-kitty").env("COLORTERM", "x"),
    );
    assert_eq!(list("inside"), list("outside"));
    assert!(list("inside").contains(&"TERM=xterm-kitty".to_owned()));
}

/// The size of the terminal with this name, in rows, columns and pixels.
fn size_of(name: &str) -> [u16; 4] {
    let file =
        OpenOptions::new().read(true).custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK).open(name);
    let file = file.expect("the program's terminal");
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    #[expect(unsafe_code, reason = "nix has no call for it")]
    // SAFETY: `size` is a live winsize.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    assert_eq!(result, 0, "a terminal has a size");
    [size.ws_row, size.ws_col, size.ws_xpixel, size.ws_ypixel]
}

#[test]
fn it_has_the_size_with_pixels_and_the_last_of_a_storm_wins() {
    let script = "trap 'stty size' WINCH; tty; while :; do sleep 0.02; done";
    let terminal = Terminal::start_sized(&mut shell(script), 31, 97);
    terminal.wait_for("/dev/");
    let name = terminal.screen().lines().next().expect("a line").to_owned();
    assert_eq!(size_of(&name), [31, 97, 0, 0]);
    for step in 1..=200 {
        terminal.resize(20 + step % 30, 80 + step, 800 + step, 600 + step);
    }
    terminal.resize(44, 132, 1320, 880);
    eventually("the last size", || size_of(&name) == [44, 132, 1320, 880]);
    terminal.wait_for_bytes("44 132");
}

#[test]
fn a_program_within_a_program_within_is_the_same() {
    let inner = env!("CARGO_BIN_EXE_wrap-probe");
    let mut command = probe();
    command.args([inner, "sh", "-c", "stty size; read line; echo \"<$line>\"; exit 5"]);
    let mut terminal = Terminal::start_sized(&mut command, 33, 99);
    terminal.wait_for("33 99");
    terminal.type_bytes("deep\r");
    assert_eq!(terminal.wait().code(), Some(5));
    assert!(terminal.screen().contains("<deep>"), "{}", terminal.screen());
}
