//! Bytes, in both directions, at any pace.

use std::fs;
use std::process::Command;

use nix::sys::signal::Signal;

use crate::terminal::{Modes, Terminal, children, eventually, is_alive, memory_peak};
use crate::{probe, shell};

/// Bytes of every kind, the same in every run.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..count).map(next).collect()
}

#[test]
fn random_output_comes_out_as_it_went_in() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("noise");
    for count in [200_000, 4 << 20] {
        let noise = noise(count);
        fs::write(&path, &noise).expect("a file");
        let script = format!("stty raw -echo; cat {}", path.display());
        let mut terminal = Terminal::start(&mut shell(&script));
        terminal.wait();
        assert!(terminal.bytes() == noise, "{count} bytes: {} came", terminal.count());
    }
}

#[test]
fn random_input_goes_in_as_it_was_typed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("typed");
    let noise = noise(100_000);
    let script = format!("stty raw -echo; printf ready; head -c 100000 >{}", path.display());
    let mut terminal = Terminal::start(&mut shell(&script));
    terminal.wait_for_bytes("ready");
    terminal.type_bytes(&noise);
    terminal.wait();
    assert!(fs::read(&path).expect("what was typed") == noise);
}

#[test]
fn no_line_is_lost_at_the_end() {
    let mut terminal = Terminal::start(&mut shell("seq 1 100000"));
    terminal.wait();
    let lines: Vec<String> = (1..=100_000).map(|number| format!("{number}\r\n")).collect();
    let expected = lines.concat();
    assert!(terminal.bytes() == expected.as_bytes(), "{} bytes came", terminal.count());
}

#[test]
fn a_big_paste_meets_big_output_without_a_standstill() {
    let script = "stty raw -echo; printf ready; head -c 1000000 /dev/zero | tr '\\0' o; \
        head -c 1000000 | wc -c";
    let mut terminal = Terminal::start(&mut shell(script));
    terminal.wait_for_bytes("ready");
    terminal.type_bytes(vec![b'i'; 1_000_000]);
    terminal.wait();
    assert!(terminal.bytes().ends_with(b"o1000000\n"));
}

#[test]
fn a_terminal_that_takes_no_more_stops_the_program_and_nothing_else() {
    let mut terminal = Terminal::start(&mut shell("trap 'exit 9' USR1; printf ready; yes & wait"));
    terminal.wait_for_bytes("ready");
    terminal.pause(true);
    let relay = children(terminal.pid())[0];
    let program = children(children(relay)[0])[0];
    let before = memory_peak(relay);
    // It answers signals all the while.
    terminal.signal(Signal::SIGUSR1);
    eventually("the program's end", || !is_alive(program));
    assert!(memory_peak(relay) < before + (1 << 20), "nothing piles up");
    terminal.pause(false);
    assert_eq!(terminal.wait().code(), Some(9));
}

#[test]
fn questions_to_the_terminal_pass_out_and_answers_pass_in() {
    let script = "stty raw -echo; printf '\\033[c\\033]11;?\\033\\\\'; head -c 20 | od -An -c | tr -d ' \\n'";
    let mut terminal = Terminal::start(&mut shell(script));
    terminal.wait_for_bytes("\x1b[c\x1b]11;?\x1b\\");
    terminal.type_bytes("\x1b[?62;22c\x1b]11;rgb:0\x07");
    terminal.wait();
    assert!(terminal.screen().contains("033[?62;22c033]11;rgb:0"), "{}", terminal.screen());
}

#[test]
fn the_program_status_question_is_answered_at_once_and_passes_all_the_same() {
    let script =
        "stty raw -echo; printf '\\033]7501;?\\007\\033[c'; head -c 10 | od -An -c | tr -d ' \\n'";
    let mut terminal = Terminal::start(&mut shell(script));
    // Nobody at the terminal answers anything.
    terminal.wait();
    let bytes = terminal.bytes();
    assert!(bytes.starts_with(b"\x1b]7501;?\x07\x1b[c"), "{}", bytes.escape_ascii());
    assert!(terminal.screen().contains("033]7501;?033\\"), "{}", terminal.screen());
}

#[test]
fn what_passes_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let mut command =
        shell("printf '\\033]7501;state=working\\007'; read line; printf over; exit 3");
    let mut terminal = Terminal::start(command.env("WRAP_PROBE_LOG", &log));
    terminal.wait_for_modes("raw", Modes::is_raw);
    terminal.type_bytes("hi\r");
    terminal.wait();
    let log = fs::read_to_string(log).expect("a log");
    for line in [
        "started ",
        "status Report(Set",
        "input hi\\r",
        "output ",
        "status: Exited(3), ended_by: None",
    ] {
        assert!(log.contains(line), "{line:?} in {log}");
    }
}

#[test]
fn a_sequence_without_an_end_takes_no_memory() {
    let script = "stty raw -echo; printf ready; head -c 1 >/dev/null; printf '\\033]52;c;'; \
        head -c 8000000 /dev/zero | tr '\\0' A; printf '\\007done'; head -c 1";
    let mut terminal = Terminal::start(&mut shell(script));
    terminal.wait_for_bytes("ready");
    let relay = children(terminal.pid())[0];
    let before = memory_peak(relay);
    terminal.type_bytes("x");
    terminal.wait_for_bytes("done");
    assert!(memory_peak(relay) < before + (1 << 20), "{} to {}", before, memory_peak(relay));
    terminal.type_bytes("x");
    assert!(terminal.wait().success());
}

#[test]
fn modes_are_undone_after_a_kill_and_only_then() {
    let arm = "printf '\\033[?1049;2004;1003;1006h\\033[?25l\\033[>5u\\033[>4;2m\\033[2;9r'";
    let armed = b"\x1b[?1049;2004;1003;1006h\x1b[?25l\x1b[>5u\x1b[>4;2m\x1b[2;9r";
    let mut terminal = Terminal::start(&mut shell(&format!("{arm}; exit 3")));
    terminal.wait();
    assert_eq!(terminal.bytes(), armed, "a program that ends in order has had its say");

    let mut terminal = Terminal::start(&mut shell(&format!("{arm}; kill -9 $$")));
    terminal.wait();
    let bytes = terminal.bytes();
    let undone = bytes.strip_prefix(&armed[..]).expect("what was armed");
    let expected =
        "\x1b[<1u\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?25h\x1b[?1049l\x1b7\x1b[r\x1b8\x1b[>4;0m";
    assert_eq!(undone.escape_ascii().to_string(), expected.as_bytes().escape_ascii().to_string());

    let mut terminal = Terminal::start(&mut shell("printf plain; kill -9 $$"));
    terminal.wait();
    assert_eq!(terminal.bytes(), b"plain", "nothing armed, nothing undone");
}

#[test]
fn an_empty_standard_input_is_an_end_and_no_loop() {
    let script = format!("{} cat </dev/null; echo \"code $?\"", env!("CARGO_BIN_EXE_wrap-probe"));
    let mut terminal = Terminal::start(Command::new("sh").args(["-c", &script]));
    terminal.wait();
    assert_eq!(terminal.bytes(), b"code 0\r\n");
    let mut terminal = Terminal::start(probe().args(["cat"]));
    terminal.wait_for_modes("raw", Modes::is_raw);
    terminal.type_bytes("\x04");
    assert!(terminal.wait().success(), "Ctrl-D ends it");
}
