//! The fake Herdr as a command: `fake-herdr pane …`, `fake-herdr session …` and `fake-herdr --session NAME`
//! are Herdr's own program, and `fake-herdr serve [SOCKET [VERSION]]` a server that prints every request.
#![allow(dead_code, reason = "the tests use the rest of the server")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a helper of tests"
)]

mod cli;
mod model;
mod named;
mod server;

use std::env;
use std::path::Path;
use std::process::exit;

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "serve") {
        let socket = words.get(1).cloned().or_else(|| env::var("HERDR_SOCKET_PATH").ok());
        let Some(socket) = socket else {
            eprintln!("usage: fake-herdr serve SOCKET [VERSION]");
            exit(2);
        };
        let version = words.get(2).map_or("0.9.3", String::as_str);
        server::serve_for_ever(Path::new(&socket), version);
    }
    let done = named::run(&words).unwrap_or_else(|| cli::run(&words));
    print!("{}", done.output);
    eprint!("{}", done.errors);
    exit(done.code);
}
