//! A wrapped agent in a Herdr that is stopped and started again: the same session on the desk, the same
//! conversation on the phone.

#![allow(clippy::panic, clippy::unwrap_used, reason = "what fails here fails the test")]

#[path = "coming_back/desk.rs"]
mod desk;
#[path = "coming_back/phone.rs"]
mod phone;
mod support;

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use support::fake_herdr::write_program;
use support::phone::Phone;
use support::restoring_herdr::RestoringHerdr;
use support::terminal::eventually;

const PROGRAM: &str = env!("CARGO_BIN_EXE_agent-presence");

/// How a user starts it, with the command that brings it back.
const WRAP: &str = "agent-presence wrap --resume 'toy-agent --resume {session}' -- toy-agent";

/// Has a conversation of its own, or the one that it is told to resume. A `deploy` that was not decided is
/// asked about again, once it may go on.
const TOY_AGENT: &str = r#"#!/usr/bin/env bash
id=toy-$$
[ "${1-}" = --resume ] && { id=$2; shift 2; }
printf '%s\0' "$PWD" "$id" "$@" >"$HOME/runs/$$.new"
# Arguments of its own are no part of what the user said that brings it back.
if [ $# -gt 0 ]; then
    agent-presence session "$id" -- toy-agent --resume "$id" "$@"
else
    agent-presence session "$id"
fi
mv "$HOME/runs/$$.new" "$HOME/runs/$$.run"
ask() {
    agent-presence approve --call "$1" --timeout 10m deploy '{"target":"staging"}'
    echo "$1 $?" >>"$HOME/verdicts"
    rm "$HOME/asks-$id"
}
agent-presence state idle
if [ -e "$HOME/asks-$id" ]; then
    read -r call <"$HOME/asks-$id"
    until [ -e "$HOME/go" ]; do sleep 0.01; done
    ask "$call"
fi
while read -r line; do
    agent-presence state working
    agent-presence say "I have heard: $line"
    case $line in
        exit) exit 0 ;;
        deploy*) echo "$line" >"$HOME/asks-$id"; ask "$line" ;;
    esac
    agent-presence state idle
done
"#;

/// How the agent was started.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    folder: PathBuf,
    session: String,
    arguments: Vec<OsString>,
}

/// A user with the toy agent, in a Herdr with so many panes.
fn user(panes: &str) -> RestoringHerdr {
    let herdr =
        RestoringHerdr::start_with(&[("FAKE_HERDR_PANES", panes), ("FAKE_HERDR_SAVE_MS", "10")]);
    herdr.link("agent-presence", PROGRAM);
    write_program(&herdr.bin().join("toy-agent"), TOY_AGENT);
    fs::create_dir(herdr.home().join("runs")).unwrap();
    herdr
}

/// Waits until agents were started so often, and says how they were, in order.
fn wait_for_runs(herdr: &RestoringHerdr, count: usize) -> Vec<Run> {
    eventually("a run of the agent", || runs(herdr).len() >= count);
    runs(herdr)
}

fn runs(herdr: &RestoringHerdr) -> Vec<Run> {
    let entries =
        fs::read_dir(herdr.home().join("runs")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "run")).collect();
    files.sort_by_key(|path| fs::metadata(path).unwrap().modified().unwrap());
    files.iter().map(|path| run(path)).collect()
}

fn run(path: &Path) -> Run {
    let text = fs::read(path).unwrap();
    let mut words = text.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec()));
    let (folder, session) = (words.next().unwrap().into(), words.next().unwrap());
    let mut arguments: Vec<_> = words.collect();
    // Behind the last separator.
    arguments.pop();
    Run { folder, session: session.into_string().unwrap(), arguments }
}

/// What the agent got for its calls, in order.
fn verdicts(herdr: &RestoringHerdr) -> Vec<String> {
    let text = fs::read_to_string(herdr.home().join("verdicts")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// The command that Herdr would keep of a pane if it stopped now. Null: none, or not the pane yet.
fn kept(herdr: &RestoringHerdr, pane: &str) -> Value {
    let saved = herdr.saved().unwrap();
    let panes = saved["workspaces"][0]["tabs"][0]["panes"].as_array().unwrap();
    let pane = panes.iter().find(|kept| kept["pane_id"] == pane);
    pane.map_or(Value::Null, |pane| pane["agent_resume"]["argv"].clone())
}

/// Waits until Herdr has the command of each of these panes, and shows their agents idle.
fn wait_until_kept(herdr: &RestoringHerdr, panes: &[&str]) {
    for pane in panes {
        eventually("a command", || {
            herdr.saved().is_some() && kept(herdr, pane)[0] == "agent-presence"
        });
        herdr.wait_for_agent_in(pane, "toy-agent");
    }
}

/// The phone of the toy agent's user.
fn phone(herdr: &RestoringHerdr) -> Phone {
    let phone = Phone::at(herdr.runtime().join("agent-presence/toy-agent/collie.sock"));
    phone.wait_ready();
    phone
}

/// Whether this is `agent-presence resume TOKEN`.
fn is_ours(line: &str) -> bool {
    let token = line.strip_prefix("agent-presence resume ");
    token.is_some_and(|token| {
        token.len() == 32 && token.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}
