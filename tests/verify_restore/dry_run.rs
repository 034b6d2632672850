//! `--dry-run`: the words arrive unchanged in the login shells that are installed.

use super::*;

/// What one shell did.
fn shell<'a>(verdict: &'a Verdict, name: &str) -> &'a Value {
    let shells = verdict.report["shells"].as_array().unwrap();
    shells.iter().find(|shell| shell["shell"] == name).unwrap()
}

fn dry_run(author: &Author, words: &[&str]) -> Verdict {
    let mut command = author.herdr.command(PROGRAM);
    command.args(["verify-restore", "--dry-run", "--json"]).args(words).env("LANG", "C.UTF-8");
    Verdict::of(command.output().unwrap())
}

#[test]
fn every_kind_of_word_arrives_in_every_shell_that_is_installed() {
    let author = Author::new();
    let words = [
        "my-agent",
        "--resume",
        "sess 42",
        "",
        "한국어 🙂",
        "say \"hi\"",
        "$HOME",
        "`id`",
        "!x",
        "~",
        "a=b",
        "*",
        "^x^y",
        "(a)",
        "%1",
        "C:\\x",
        "#c",
        "&",
        "--",
        "-e",
        "it\u{2019}s",
    ];
    let verdict = dry_run(&author, &[&["--"], &words[..]].concat());
    assert_eq!(verdict.code, Some(0), "{:#} {:?}", verdict.report, verdict.output);
    assert_eq!(verdict.report["ok"], true);
    for name in ["bash", "dash", "zsh", "fish"] {
        let shell = shell(&verdict, name);
        if which::which(name).is_ok() {
            assert_eq!(shell["found"], "21 words unchanged", "{shell:#}");
        } else {
            println!("skipped: no {name}");
            assert_eq!(shell["verdict"], "skipped");
            assert_eq!(shell["found"], "skipped: not installed");
        }
    }
}

/// zsh knows only ASCII where the login shell has no UTF-8 locale.
#[test]
fn a_locale_that_changes_a_word_is_found_out() {
    if which::which("zsh").is_err() {
        println!("skipped: no zsh");
        return;
    }
    let author = Author::new();
    let mut command = author.herdr.command(PROGRAM);
    command.args(["verify-restore", "--dry-run", "--json", "--", "my-agent", "한"]);
    let verdict = Verdict::of(command.env("LANG", "C").output().unwrap());
    assert_eq!(verdict.code, Some(1), "{:#}", verdict.report);
    let found = shell(&verdict, "zsh")["found"].as_str().unwrap();
    assert!(found.starts_with("word 2 arrived as"), "{found}");
}

#[test]
fn the_longest_command_arrives() {
    let author = Author::new();
    let long = "x".repeat(3_900 - "'my-agent' ''".len());
    let verdict = dry_run(&author, &["--", "my-agent", &long]);
    assert_eq!(verdict.code, Some(0), "{:#} {:?}", verdict.report, verdict.output);
}

#[test]
fn a_rule_that_is_broken_is_named() {
    let author = Author::new();
    let verdict = dry_run(&author, &["--", "my-agent", "it's"]);
    assert_eq!(verdict.code, Some(1));
    let said = String::from_utf8_lossy(&verdict.output.stderr);
    assert!(said.contains("word 2 of the resume command has an apostrophe"), "{said}");
}

/// In his own folders his own aliases count.
#[test]
fn a_word_that_changes_is_named_with_its_shell() {
    let author = Author::new();
    let alias = "alias my-agent='my-agent --loud'\n";
    fs::write(author.herdr.home().join(".bash_profile"), alias).unwrap();
    let verdict = dry_run(&author, &["--here", "--", "my-agent", "--resume", "1"]);
    assert_eq!(verdict.code, Some(1), "{:#}", verdict.report);
    let bash = shell(&verdict, "bash");
    assert_eq!(bash["found"], "word 2 arrived as \"--loud\", not as \"--resume\"");
    let verdict = dry_run(&author, &["--", "my-agent", "--resume", "1"]);
    assert_eq!(verdict.code, Some(0), "{:#}", verdict.report);
}

#[test]
fn a_line_that_runs_nothing_is_named() {
    let author = Author::new();
    let function = "my-agent() { echo instead; }\n";
    fs::write(author.herdr.home().join(".bash_profile"), function).unwrap();
    let verdict = dry_run(&author, &["--here", "--timeout", "3s", "--", "my-agent"]);
    assert_eq!(verdict.code, Some(1), "{:#}", verdict.report);
    let bash = shell(&verdict, "bash");
    assert!(bash["found"].as_str().unwrap().starts_with("nothing arrived"), "{bash:#}");
    assert!(bash["seen"].to_string().contains("instead"), "{bash:#}");
}

#[test]
fn people_see_a_line_a_shell() {
    let author = Author::new();
    let mut command = author.herdr.command(PROGRAM);
    command.args(["verify-restore", "--dry-run", "--", "my-agent", "a b"]);
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert_eq!(text.lines().next(), Some("typed: my-agent 'a b'"));
    assert!(text.contains("ok   bash  2 words unchanged\n"), "{text}");
}
