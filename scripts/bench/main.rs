//! What a presence costs. Every figure is printed beside a floor that is measured in the same run,
//! turn by turn with it: on a shared machine only the ratio means anything.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a program for developers: what fails ends it"
)]

mod calls;
mod collie;
mod commands;
mod herdr;
mod records;
mod reports;

use std::env;
use std::time::Duration;

const ROWS: [(&str, fn()); 11] = [
    ("calls", calls::calls),
    ("burst", reports::burst),
    ("socket", reports::socket),
    ("cli", reports::cli),
    ("scripts", commands::scripts),
    ("starts", commands::starts),
    ("idle", commands::idle),
    ("reads", collie::reads),
    ("writes", collie::writes),
    ("sessions", collie::sessions),
    ("records", records::records),
];

fn main() {
    let wanted: Vec<String> = env::args().skip(1).collect();
    if let [flag, megabytes] = wanted.as_slice()
        && flag == reports::PARENT
    {
        return reports::cli_parent(megabytes.parse().unwrap());
    }
    if let [flag, panes, items] = wanted.as_slice()
        && flag == collie::SESSIONS
    {
        return collie::hold_sessions(panes.parse().unwrap(), items.parse().unwrap());
    }
    if wanted == [reports::SOCKET] {
        return reports::socket_on_one_core();
    }
    if wanted == [collie::READS] {
        return collie::reads_on_one_core();
    }
    if wanted == [collie::WRITES] {
        return collie::writes_on_one_core();
    }
    for (name, row) in ROWS {
        if wanted.is_empty() || wanted.iter().any(|other| other == name) {
            println!("== {name}");
            row();
        }
    }
}

/// The value that a share of all samples does not exceed.
fn percentile(samples: &mut [Duration], share: f64) -> Duration {
    samples.sort_unstable();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a length"
    )]
    let place = ((samples.len() - 1) as f64 * share).round() as usize;
    samples[place]
}

/// One line: the figure, its floor, and what the figure is of the floor.
fn row(what: &str, figure: Duration, floor: Duration) {
    let ratio = figure.as_secs_f64() / floor.as_secs_f64();
    println!("{what:<44} {figure:>12.2?}  floor {floor:>12.2?}  ratio {ratio:>6.2}");
}
