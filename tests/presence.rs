//! The presence: one session, seen by a fake Herdr and by a phone.

#![allow(clippy::panic, clippy::unwrap_used, reason = "what fails here fails the test")]

#[path = "presence/asks.rs"]
mod asks;
#[path = "presence/executors.rs"]
mod executors;
#[path = "presence/inbox.rs"]
mod inbox;
#[path = "presence/property.rs"]
mod property;
#[path = "presence/records.rs"]
mod records;
#[path = "presence/sessions.rs"]
mod sessions;
mod support;

use agent_presence::collie::CallerCheck;
use agent_presence::herdr::Environment;
use agent_presence::presence::{Builder, FaceStatus, Presence, Takes};
use support::fake_herdr::{Behaviour, FakeHerdr};
use support::phone::Phone;

/// A presence, its Herdr and its phone.
struct Rig {
    presence: Presence,
    herdr: FakeHerdr,
    phone: Phone,
    _folder: tempfile::TempDir,
}

fn rig() -> Rig {
    rig_with(|builder| builder.takes(Takes::ALL))
}

fn rig_with(how: impl FnOnce(Builder) -> Builder) -> Rig {
    // Not `TMPDIR`: the path of a socket has 103 bytes.
    let folder = tempfile::Builder::new().prefix("ap").tempdir_in("/tmp").unwrap();
    let herdr = FakeHerdr::start(Behaviour::Answers);
    let socket = folder.path().join("private/collie.sock");
    let builder = Presence::builder("my-agent")
        .herdr(Environment::new("w1:p1", herdr.socket_path()).with_binary("/nope/herdr"))
        .caller_check(CallerCheck::Off)
        .collie_socket(&socket);
    let presence = how(builder).start().unwrap();
    assert!(matches!(presence.status().collie, FaceStatus::On(_)), "{:?}", presence.status());
    Rig { presence, herdr, phone: Phone::at(socket), _folder: folder }
}

/// The items of a pane.
fn items(phone: &Phone, pane: &str) -> Vec<serde_json::Value> {
    phone.events(pane, None)["items"].as_array().unwrap().clone()
}
