//! The quick start: one question on the phone, and its answer here.
//!
//! `cargo run --example hello`, then attach the printed socket to Collie, or look at it with
//! `agent-presence watch --socket PATH`.

#![expect(clippy::print_stdout, reason = "what an example shows is what it prints")]

use std::path::PathBuf;

use agent_presence::collie::{self, AskInput, AskOption, Caps, Options, PaneOptions};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // macOS has no XDG_RUNTIME_DIR: set COLLIE_DURABLE_SOCKET to an absolute path there (N054).
    let socket = std::env::var_os("COLLIE_DURABLE_SOCKET").map(PathBuf::from).or_else(|| {
        Some(PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR")?).join("hello/app.sock"))
    });
    let options = Options {
        socket,
        host_name: Some("desk".to_owned()),
        caps: Some(Caps { asks: true, ..Caps::NONE }),
        ..Options::default()
    };
    let collie = collie::open(options).await?;

    let title = |title: &str| PaneOptions { title: title.to_owned(), ..PaneOptions::default() };
    let pane = collie
        .workspace("hello", "Hello")?
        .tab("main", "Main")?
        .pane("hello-1", PaneOptions { harness: "hello".to_owned(), ..title("Hello") })?;
    collie.ready();
    println!("{}", collie.address().display());

    let options = [AskOption::new("yes", "Yes"), AskOption::new("no", "No")];
    let question = AskInput::choice("Does it work?", options).tool_call_id("q1").item_id("q1");
    let answer = pane.ask(question)?.await?;
    println!("answer: {}", answer.option_ids()[0]);

    collie.close().await;
    Ok(())
}
