//! A durable agent that tests drive by lines on stdin, so that they are another process to it.
//!
//! `durable-agent SOCKET [RECEIPTS]`. It prints `ready`, and then what becomes of its asks.

use std::io::{BufRead, Write};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use agent_presence::collie::{
    self, AskInput, AskOption, CallerCheck, Caps, CoreOptions, Options, Pane, PaneOptions,
    PaneState,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(socket) = arguments.next() else {
        return ExitCode::from(2);
    };
    match run(&socket, arguments.next().as_deref()).await {
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

async fn run(socket: &str, receipts: Option<&str>) -> Result<(), Box<dyn std::error::Error>> {
    let collie = if socket == "--env" {
        let caps = Some(Caps { asks: true, ..Caps::NONE });
        let caller_check = CallerCheck::Off;
        collie::open(Options { caps, caller_check, ..Options::default() }).await?
    } else {
        let mut options = CoreOptions { host_name: "desk".to_owned(), ..CoreOptions::default() };
        if let Some(path) = receipts {
            options.receipts = Arc::new(collie::FileReceipts::open(Path::new(path))?);
        }
        collie::serve_private(collie::Core::new(options)?, socket).await?
    };
    let pane = collie.workspace("w", "Work")?.tab("t", "Tab")?.pane(
        "p",
        PaneOptions { title: "Pane".into(), harness: "test".into(), ..PaneOptions::default() },
    )?;
    pane.on_send(|send| async move {
        say(&format!("send {} {}", send.request_id, send.text));
        Ok(())
    });
    // Orphans of its tools become its children, and so stay below it.
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_child_subreaper(true)?;
    collie.ready();
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
    collie.close().await;
    Ok(())
}

async fn command(pane: &Pane, line: &str) -> Result<(), Box<dyn std::error::Error>> {
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
