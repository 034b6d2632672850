//! Receipts: the kept answers to the phone's requests, so that nothing runs twice (N108 to N116).

mod file;
mod memory;

use std::fmt::Debug;
use std::io;

use serde::{Deserialize, Serialize};

pub use file::FileReceipts;
pub use memory::MemoryReceipts;

use super::wire::AnswerValue;

/// How many receipts are kept for each group (N110).
pub const RECEIPTS_PER_GROUP: usize = 1000;

/// What a receipt belongs to: a pane, or one of the four writes that have none (N111).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReceiptGroup {
    /// Answers, sends, stops and taps of one pane.
    Pane(String),
    /// All starts.
    Start,
    /// All renames.
    Rename,
    /// All closes.
    Close,
    /// All reopens.
    Reopen,
}

/// The kept answer to one request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// The request's id.
    pub request_id: String,
    /// What it belongs to.
    pub group: ReceiptGroup,
    /// Over the request's route and body: the same id with another body is refused.
    pub digest: String,
    /// The first answer, as JSON.
    pub body: String,
    /// Of an answered ask: the answer itself, for the agent to have after a restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<StoredAnswer>,
    /// Of a text that was accepted and [waits](super::SendRequest::defer) in the agent: the text, for
    /// the agent to have after a restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send: Option<StoredSend>,
}

/// A text that the agent has accepted, kept until it is in the chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredSend {
    /// The conversation.
    pub pane_id: String,
    /// The request that it came with.
    pub request_id: String,
    /// 1 byte to 64 KiB.
    pub text: String,
    /// It is for the running turn.
    pub steer: bool,
}

/// A person's answer, kept until the agent has taken it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredAnswer {
    /// The ask's pane.
    pub pane_id: String,
    /// The ask.
    pub ask_id: String,
    /// Over the words that the person saw: a later ask of the same id and other words is another
    /// question, one with another expiry is not.
    pub hash: String,
    /// The answer.
    pub value: AnswerValue,
    /// When, in ISO 8601.
    pub decided_at: String,
    /// Which raising of the ask it answers, since an id may be raised anew.
    #[serde(default)]
    pub raised: String,
}

/// What a store knows of a request id.
#[derive(Clone, Debug, PartialEq)]
pub enum Lookup {
    /// Nothing.
    New,
    /// Its answer.
    Kept(Box<Receipt>),
    /// There was one, and its receipt is gone: it must not run again (N112).
    Dropped,
}

/// Where receipts are kept (N114).
///
/// The core asks and tells one request at a time for each id, from several threads. Where
/// [`may_block`](Self::may_block) says so, all but [`get`](Self::get) run on a thread that may.
pub trait ReceiptStore: Debug + Send + Sync + 'static {
    /// What is known of a request id. From memory: it does not block.
    fn get(&self, request_id: &str) -> Lookup;

    /// An action is about to run. If the process ends before it is [`put`](Self::put) or
    /// [`abandoned`](Self::abandon), the id is [`Lookup::Dropped`] afterwards, so that no action
    /// runs twice. An ask's answer does not begin: putting it is what makes it happen.
    ///
    /// # Errors
    /// It could not be written; the action does not run.
    fn begin(&self, request_id: &str) -> io::Result<()>;

    /// Keeps a receipt, durably where the store is durable, before the answer leaves.
    ///
    /// # Errors
    /// It could not be written.
    fn put(&self, receipt: Receipt) -> io::Result<()>;

    /// An action that had begun was refused or failed: its id may be tried again (N116).
    ///
    /// # Errors
    /// It could not be written; the id may stay dropped.
    fn abandon(&self, request_id: &str) -> io::Result<()>;

    /// The agent has taken an answer: it is not for a later ask of the same id.
    ///
    /// # Errors
    /// It could not be written; the answer may be given once more after a restart.
    fn taken(&self, pane_id: &str, ask_id: &str) -> io::Result<()>;

    /// The answers from before this start that the agent has not taken (N084).
    fn untaken(&self) -> Vec<StoredAnswer>;

    /// The agent is being given an accepted text. If the process ends before it is
    /// [`delivered`](Self::delivered), nobody knows whether the agent took it.
    ///
    /// # Errors
    /// It could not be written.
    fn giving(&self, _request_id: &str) -> io::Result<()> {
        Ok(())
    }

    /// An accepted text is in the chat, or was refused there.
    ///
    /// # Errors
    /// It could not be written; the text may be given once more after a restart.
    fn delivered(&self, _request_id: &str) -> io::Result<()> {
        Ok(())
    }

    /// The accepted texts from before this start that are not in the chat, the oldest first, and
    /// whether the agent was being given each.
    fn undelivered(&self) -> Vec<(StoredSend, bool)> {
        Vec::new()
    }

    /// Whether writing may block the thread, as a disk does.
    fn may_block(&self) -> bool;
}
