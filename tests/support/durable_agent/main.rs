//! A durable agent that tests drive by lines on stdin, so that they are another process to it.
//!
//! `durable-agent SOCKET [RECORDS]`, or `durable-agent --env`, or `durable-agent --loopback TOKEN`,
//! which prints its port first. It prints `ready`, and then what becomes of its asks.

use std::error::Error;
use std::io::{BufRead, Write};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use agent_presence::collie::{
    self, ActionView, AskInput, AskOption, CallerCheck, Caps, Collie, Core, CoreOptions,
    FileRecords, Item, Loopback, MemoryHistory, Options, Pane, PaneOptions, PaneState, Tokens,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(place) = arguments.next() else {
        return ExitCode::from(2);
    };
    match run(&place, arguments.next().as_deref()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error {error}"));
            ExitCode::FAILURE
        }
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // The test may have stopped reading.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Where the agent is served.
enum Served {
    Private(Collie),
    Loopback(Loopback),
}

async fn serve(place: &str, argument: Option<&str>) -> Result<(Core, Served), Box<dyn Error>> {
    let mut options = CoreOptions { host_name: "desk".to_owned(), ..CoreOptions::default() };
    match (place, argument) {
        ("--env", _) => {
            let caps = Some(Caps { asks: true, ..Caps::NONE });
            let caller_check = CallerCheck::Off;
            let options = Options { caps, caller_check, ..Options::default() };
            let collie = collie::open(options).await?;
            Ok((collie.core().clone(), Served::Private(collie)))
        }
        ("--loopback", token) => {
            options.allow_always = false;
            let core = Core::new(options)?;
            let tokens = Tokens::new(token.unwrap_or_default())?;
            let loopback = collie::serve_loopback(core.clone(), 0, tokens).await?;
            say(&format!("port {}", loopback.address().port()));
            Ok((core, Served::Loopback(loopback)))
        }
        (socket, records) => {
            options.records = records.map(|path| FileRecords::open(Path::new(path))).transpose()?;
            let core = Core::new(options)?;
            let collie = collie::serve_private(core.clone(), socket).await?;
            Ok((core, Served::Private(collie)))
        }
    }
}

async fn run(place: &str, argument: Option<&str>) -> Result<(), Box<dyn Error>> {
    let (core, served) = serve(place, argument).await?;
    let pane = core.workspace("w", "Work")?.tab("t", "Tab")?.pane(
        "p",
        PaneOptions { title: "Pane".into(), harness: "test".into(), ..PaneOptions::default() },
    )?;
    pane.on_send(|send| async move {
        say(&format!("send {} {}", send.request_id, send.text));
        Ok(())
    });
    if place == "--loopback" {
        furnish(&core, &pane)?;
    }
    // Orphans of its tools become its children, and so stay below it.
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_child_subreaper(true)?;
    core.ready();
    say("ready");
    let (lines, mut next) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                break;
            }
        }
    });
    while let Some(line) = next.recv().await {
        command(&pane, &line).await?;
    }
    match served {
        Served::Private(collie) => collie.close().await,
        Served::Loopback(loopback) => loopback.close().await,
    }
    Ok(())
}

async fn command(pane: &Pane, line: &str) -> Result<(), Box<dyn Error>> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "working" => pane.state(PaneState::Working, Some(rest)),
        "idle" => pane.state(PaneState::Idle, None),
        "reply" => pane.reply(rest, "text")?,
        "ask" => raise(pane, AskInput::approval("May I?").id(rest))?,
        "choice" => {
            let options = [AskOption::new("yes", "Yes"), AskOption::new("no", "No")];
            raise(pane, AskInput::choice("Shall we?", options).id(rest))?;
        }
        "brief" => {
            raise(pane, AskInput::approval("Quick?").id(rest).timeout(Duration::from_millis(50)))?;
        }
        "withdraw" => pane.withdraw(rest),
        // A tool of the agent: a process below this one.
        "tool" => {
            let rest = rest.to_owned();
            let output = tokio::task::spawn_blocking(move || {
                Command::new("/bin/sh").arg("-c").arg(rest).output()
            });
            say(&format!("tool {}", String::from_utf8_lossy(&output.await??.stdout).trim()));
        }
        _ => return Err(format!("unknown command {word}").into()),
    }
    if word != "tool" {
        say(&format!("done {word}"));
    }
    Ok(())
}

/// What each route of the wire needs to have something to do.
fn furnish(core: &Core, pane: &Pane) -> Result<(), Box<dyn Error>> {
    pane.on_steer(async |_| Ok(()));
    pane.on_stop(async |_| Ok(()));
    pane.on_action(async |_| Ok(()));
    pane.actions([ActionView::new("archive", "Archive")])?;
    core.starters([ActionView::new("new", "New")])?;
    let history = MemoryHistory::new();
    history.put_row(serde_json::from_value(serde_json::json!({
        "id": "old", "title": "Old", "startedAt": "2026-11-30T14:53:46.120Z",
        "state": "closed", "items": 0,
    }))?);
    history.put_item("old", Item::user("u", "hi"));
    core.history(history);
    Ok(())
}

fn raise(pane: &Pane, input: AskInput) -> Result<(), collie::AskError> {
    let ask = pane.ask(input)?;
    let id = ask.id().to_owned();
    tokio::spawn(async move {
        match ask.await {
            Ok(answer) => say(&format!("answer {id} {}", answer.option_ids().join(","))),
            Err(closed) => say(&format!("closed {id} {:?}", closed.decided_by)),
        }
    });
    Ok(())
}
