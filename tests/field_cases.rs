//! What people reported of programs that wrap agents, tried on this one as they would meet it: the real
//! command, in a terminal, with a Herdr and a phone. The comment of each test says the report.

#![allow(clippy::panic, clippy::unwrap_used, reason = "what fails here fails the test")]

#[path = "field_cases/ends.rs"]
mod ends;
#[path = "field_cases/states.rs"]
mod states;
mod support;
#[path = "field_cases/terminal.rs"]
mod terminals;
#[allow(dead_code, reason = "each test program uses its own part")]
#[path = "shim/user.rs"]
mod user;

use std::fs;
use std::path::{Path, PathBuf};

use support::terminal::is_alive;

/// The sockets and locks below a folder, and whatever else is no folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

/// The processes of this user, by the home that they were started with. No session or group hides one.
fn processes(user: &user::User) -> Vec<u32> {
    let home = format!("HOME={}\0", user.path("").display().to_string().trim_end_matches('/'));
    let ids = fs::read_dir("/proc").unwrap();
    let ids = ids.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let is_ours = |id: &u32| {
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        memchr::memmem::find(&environment, home.as_bytes()).is_some() && is_alive(*id)
    };
    ids.filter(is_ours).collect()
}
