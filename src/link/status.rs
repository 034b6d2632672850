//! How the faces are, in the link's words.

use super::connection::Opened;
use super::messages::{
    CollieStatus, HerdrStatus, RecordsStatus, StateWord, StatusParams, StatusResult,
};
use crate::herdr::{self, Ownership, ReadBack, TransportKind};
use crate::presence::{FaceStatus, Presence, Session};

pub(super) fn status(presence: &Presence, params: &StatusParams, opened: &Opened) -> StatusResult {
    let status = presence.status();
    let herdr = match (status.herdr, presence.herdr_status()) {
        (FaceStatus::On(pane), Some(herdr)) => Some(herdr_status(pane, herdr)),
        _ => None,
    };
    let collie = match status.collie {
        FaceStatus::On(socket) => Some(CollieStatus { socket: Some(socket), off: None }),
        FaceStatus::Off(why) => Some(CollieStatus { socket: None, off: Some(why) }),
        FaceStatus::Absent => None,
    };
    let records = match status.records {
        FaceStatus::On(folder) => Some(RecordsStatus { folder: Some(folder), off: None }),
        FaceStatus::Off(why) => Some(RecordsStatus { folder: None, off: Some(why) }),
        FaceStatus::Absent => None,
    };
    let session = params.session.as_deref().and_then(|id| presence.find(id));
    StatusResult {
        agent: presence.agent().to_owned(),
        session: session.filter(Session::is_open).map(|session| session.id().to_owned()),
        herdr,
        collie,
        records,
        link: opened.dropped(),
    }
}

fn herdr_status(pane: String, status: herdr::Status) -> HerdrStatus {
    let (read_back, shown_instead) = match status.read_back {
        ReadBack::Pending => ("pending", None),
        ReadBack::Agrees => ("agrees", None),
        ReadBack::Unavailable => ("unavailable", None),
        ReadBack::Differs { agent, state } => {
            let agent = agent.unwrap_or_else(|| "nobody".to_owned());
            ("differs", Some(format!("{agent}, {}", state.as_deref().unwrap_or("no state"))))
        }
    };
    let ownership = match status.ownership {
        Ownership::Unchecked => "unchecked",
        Ownership::Ours => "ours",
        Ownership::Foreign { .. } => "foreign",
        Ownership::Unknown => "unknown",
    };
    let transport = status.transport.map(|kind| match kind {
        TransportKind::Socket => "socket",
        TransportKind::Cli => "cli",
    });
    HerdrStatus {
        pane,
        transport: transport.map(str::to_owned),
        version: status.version,
        reported: status.reported.map(|state| match state {
            herdr::State::Idle => StateWord::Idle,
            herdr::State::Working => StateWord::Working,
            herdr::State::Blocked => StateWord::Blocked,
        }),
        settled: status.settled,
        read_back: read_back.to_owned(),
        shown_instead,
        ownership: ownership.to_owned(),
        last_error: status.last_error,
        seq: status.seq,
        resumes_another_session: status.resumes_another_session,
    }
}
