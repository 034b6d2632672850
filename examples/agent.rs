//! A small agent: turns, streaming text, an approval, and what the phone wants of it.
//!
//! `cargo run --example agent`, then `agent-presence watch` in another terminal: send it a text.
//! Its first argument, if given, is the path of Collie's socket.

#![expect(clippy::print_stdout, reason = "what an example shows is what it prints")]

use std::time::Duration;

use agent_presence::collie::{Item, ToolStatus};
use agent_presence::presence::{Inbox, Presence, Session, Takes, Wanted};
use serde_json::json;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let takes = Takes { send: true, stop: true, ..Takes::NONE };
    let mut builder = Presence::builder("example-agent").takes(takes);
    if let Some(socket) = std::env::args_os().nth(1) {
        builder = builder.collie_socket(socket);
    }
    let presence = builder.start()?;
    let session = presence.session("example-1").title("An example").open()?;
    println!("{:?}", presence.status().collie);

    let inbox = session.inbox();
    while let Some(wish) = inbox.wait() {
        match wish.accept() {
            Wanted::Send { text } if text == "quit" => break,
            Wanted::Send { text } => turn(&session, &inbox, &text)?,
            // Nothing runs.
            _ => {}
        }
    }
    session.release();
    presence.close();
    Ok(())
}

/// One turn: from the user's word to idle.
fn turn(session: &Session, inbox: &Inbox, task: &str) -> Result<(), Failure> {
    session.working();
    let reply = session.reply(&format!("reply-{}", session.turn().unwrap_or_default()));
    let mut text = String::new();
    for word in format!("You said: {task}").split_whitespace() {
        text += if text.is_empty() { "" } else { " " };
        text += word;
        reply.partial(&text)?;
        // A stop comes at once, also in the middle of a turn.
        if let Some(stop) = inbox.wait_for(Duration::from_millis(50)) {
            stop.accept();
            session.notice("Stopped.")?;
            session.idle();
            return Ok(());
        }
    }
    reply.done(&text)?;

    let call = format!("call-{}", session.turn().unwrap_or_default());
    let verdict = session.approve("note", json!({"text": task})).call(&call).raise()?.wait();
    let status = if verdict.approved { ToolStatus::Ok } else { ToolStatus::Denied };
    session.item(Item::tool(&call, "note", status).input(task))?;
    println!("{task}: {}", if verdict.approved { "noted" } else { "not noted" });
    session.idle();
    Ok(())
}
