//! On the desk it is the same session, in the same pane.

use serde_json::{Value, json};
use std::fs;

use super::{TOY_AGENT, WRAP, is_ours, kept, user, wait_for_runs, wait_until_kept};
use crate::support::fake_herdr::write_program;

/// Field case 46: by one command in one folder, and Herdr keeps but the first of two equal ones.
#[test]
fn two_of_one_command_in_one_folder_both_come_back() {
    let mut herdr = user("2");
    for (count, pane) in ["w1:p1", "w1:p2"].into_iter().enumerate() {
        herdr.type_line_in(pane, WRAP);
        wait_for_runs(&herdr, count + 1);
    }
    wait_until_kept(&herdr, &["w1:p1", "w1:p2"]);
    let first = wait_for_runs(&herdr, 2);
    assert_eq!(first[0].folder, first[1].folder);
    for times in 1..=2 {
        herdr.restart();
        let runs = wait_for_runs(&herdr, 2 + 2 * times);
        wait_until_kept(&herdr, &["w1:p1", "w1:p2"]);
        let back = &runs[2 * times..];
        assert!(first.iter().all(|run| back.contains(run)), "{first:?} {back:?}");
    }
    let mut typed = herdr.typed();
    assert_eq!(typed.len(), 4, "{typed:?}");
    typed.sort();
    typed.dedup();
    assert_eq!(typed.len(), 2, "each pane has a command of its own: {typed:?}");
}

/// In a folder of any name, with words of any kind, through Herdr's file, the shell and back.
#[test]
fn any_folder_and_any_words_come_back() {
    let mut herdr = user("1");
    let folder = herdr.home().join("a folder/한국어 폴더's");
    fs::create_dir_all(&folder).unwrap();
    fs::write(
        herdr.bin().join("start"),
        "cd \"$HOME/a folder/한국어 폴더's\" && exec agent-presence wrap -- toy-agent \
         \"it's\" $'a\\nb\\n' '' '한국어 🙂' '$HOME `id` \\ \"'\n",
    )
    .unwrap();
    herdr.type_line("bash ~/../bin/start");
    wait_until_kept(&herdr, &["w1:p1"]);
    let first = wait_for_runs(&herdr, 1)[0].clone();
    assert_eq!(first.folder, folder);
    let words = ["it's", "a\nb\n", "", "한국어 🙂", "$HOME `id` \\ \""];
    assert_eq!(first.arguments, words);
    for times in 1..=2 {
        herdr.restart();
        assert_eq!(wait_for_runs(&herdr, 1 + times)[times], first);
        wait_until_kept(&herdr, &["w1:p1"]);
    }
    assert!(herdr.typed().iter().all(|line| is_ours(line)), "{:?}", herdr.typed());
}

/// Field case 54: what the user has quit does not come back.
#[test]
fn a_session_that_was_quit_stays_away() {
    let mut herdr = user("1");
    herdr.type_line(WRAP);
    wait_until_kept(&herdr, &["w1:p1"]);
    wait_for_runs(&herdr, 1);
    herdr.type_line("exit");
    herdr.wait_for_pane("w1:p1", "empty pane", |pane| pane["agent"] == Value::Null);
    herdr.restart();
    herdr.type_line("echo there-is-a-'shell'");
    herdr.terminal().wait_for("there-is-a-shell");
    assert_eq!(herdr.typed(), [""; 0]);
    assert_eq!(wait_for_runs(&herdr, 1).len(), 1);
}

/// The pane says why, waits for a key, and Herdr keeps the session: once the folder is back, so is it.
#[test]
fn what_cannot_come_back_says_so_and_is_not_forgotten() {
    let mut herdr = user("1");
    let folder = herdr.home().join("project");
    fs::create_dir(&folder).unwrap();
    herdr.type_line(&format!("cd project && {WRAP}"));
    wait_until_kept(&herdr, &["w1:p1"]);
    let first = wait_for_runs(&herdr, 1)[0].clone();
    herdr.stop();
    let command = kept(&herdr, "w1:p1");
    fs::remove_dir(&folder).unwrap();

    herdr.attach();
    herdr.terminal().wait_for("press Enter to leave");
    let screen = herdr.screen().replace('\n', "");
    assert!(screen.contains("cannot come back: its folder"), "{screen}");
    herdr.stop();
    assert_eq!(kept(&herdr, "w1:p1"), command, "Herdr has not forgotten it");

    fs::create_dir(&folder).unwrap();
    herdr.attach();
    assert_eq!(wait_for_runs(&herdr, 2)[1], first);
    wait_until_kept(&herdr, &["w1:p1"]);
    assert_eq!(herdr.typed().len(), 2);
}

/// A kill is no quit, and an agent that is not there for a while is none either.
#[test]
fn an_agent_that_was_taken_away_comes_back_with_its_program() {
    let mut herdr = user("1");
    herdr.type_line(WRAP);
    wait_until_kept(&herdr, &["w1:p1"]);
    let first = wait_for_runs(&herdr, 1)[0].clone();
    fs::remove_file(herdr.bin().join("toy-agent")).unwrap();
    herdr.restart();
    herdr.terminal().wait_for("press Enter to leave");
    assert!(herdr.screen().contains("toy-agent: command not found"), "{}", herdr.screen());
    write_program(&herdr.bin().join("toy-agent"), TOY_AGENT);
    herdr.restart();
    assert_eq!(wait_for_runs(&herdr, 2)[1], first);
    wait_until_kept(&herdr, &["w1:p1"]);
    herdr.stop();
    assert_eq!(kept(&herdr, "w1:p1")[1], json!("resume"));
}
