//! The durable wire, version 1: every path, JSON name and error code of it is in this folder, and
//! nowhere else. `collie/WIRE.md` says the same in prose.
//!
//! The types are the same ones on both sides: the core serializes them, [`client`] reads them.

mod ask;
mod body;
pub mod client;
mod error;
mod item;
mod route;
mod shapes;

pub use ask::{AskKind, AskOption, AskView, Field, FieldKind, Push};
pub use error::ErrorView;
pub use item::{BadgeTone, Item, ItemBody, NoticeLevel, ToolStatus};
pub use shapes::{
    ActionView, AnswerValue, CallerCheck, Caps, Change, DecidedBy, Event, EventsView, Hello,
    HistoryItems, HistoryRow, HistoryRows, PaneState, PaneView, Phase, RowState, StarterView,
    StateView, TabView, Target, WireRange, WorkspaceView, Written,
};

pub(crate) use body::{Body, read_action, read_hello};
pub(crate) use error::Refusal;
pub(crate) use route::{Page, Read, Route, Write, is_cursor};

/// The versions that this side speaks: 1 to 1.
pub const WIRE: WireRange = WireRange { min: 1, max: 1 };

/// The content type of every body of the wire.
pub(crate) const JSON_TYPE: &str = "application/json; charset=utf-8";
/// The longest body of a request, in bytes.
pub(crate) const BODY_LIMIT: usize = 1024 * 1024;
/// The longest text of a send, in bytes.
pub(crate) const SEND_LIMIT: usize = 64 * 1024;

/// Serializes a value of the wire, which always can be.
pub(crate) fn to_json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| {
        // Only a map with keys that are no text can fail, and the wire has none.
        tracing::error!(%error, "a value of the durable wire could not be written");
        "{}".to_owned()
    })
}

/// The same, to be put into other bodies as it is.
pub(crate) fn to_raw<T: serde::Serialize>(value: &T) -> Box<serde_json::value::RawValue> {
    serde_json::value::RawValue::from_string(to_json(value)).unwrap_or_else(|error| {
        tracing::error!(%error, "a value of the durable wire could not be kept");
        serde_json::value::RawValue::NULL.to_owned()
    })
}
