//! One entry of the chat.

use serde::{Deserialize, Serialize};

/// One entry of the chat. An item with a known id replaces the earlier one in place (N060).
///
/// The constructors and limits are in [`crate::collie`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// By the id rule.
    pub id: String,
    /// When, in ISO 8601; the core sets it where the caller does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ts: Option<String>,
    /// What it is.
    #[serde(flatten)]
    pub body: ItemBody,
    /// Its text was longer than its limit, and was cut.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// The kinds of items.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum ItemBody {
    /// What the user said.
    User {
        /// At most 20,000 characters.
        text: String,
        /// The send that it came from: with this item, the send is effective (N068).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    /// What the agent said.
    Reply {
        /// At most 20,000 characters.
        text: String,
        /// The text still grows (N061).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        partial: bool,
    },
    /// What the agent thought.
    Thinking {
        /// At most 20,000 characters.
        text: String,
        /// The text still grows.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        partial: bool,
    },
    /// Text in Markdown.
    Markdown {
        /// At most 20,000 characters.
        text: String,
        /// The text still grows.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        partial: bool,
    },
    /// A line about the conversation.
    Notice {
        /// At most 20,000 characters.
        text: String,
        /// How much it matters.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        level: Option<NoticeLevel>,
        /// The text still grows.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        partial: bool,
    },
    /// A tool call.
    Tool {
        /// The tool, at most 200 characters.
        name: String,
        /// One line about the call, at most 200 characters.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
        /// At most 2,000 characters.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<String>,
        /// At most 2,000 characters.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<String>,
        /// How it went.
        status: ToolStatus,
        /// The call's id, by the id rule.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_call_id: Option<String>,
    },
    /// Code.
    Code {
        /// At most 20,000 characters.
        text: String,
        /// 1 to 32 of letters, digits and `+ # . _ -`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lang: Option<String>,
    },
    /// A link.
    Link {
        /// At most 20,000 characters.
        text: String,
        /// `https:`, `http:` or `mailto:`, at most 2048 bytes.
        href: String,
    },
    /// A word with a colour.
    Badge {
        /// At most 200 characters.
        label: String,
        /// The colour.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tone: Option<BadgeTone>,
    },
    /// How far something is.
    Progress {
        /// At most 200 characters.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<String>,
        /// 0 to 1.
        value: f64,
    },
}

/// How much a notice matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NoticeLevel {
    /// Good to know.
    Info,
    /// Look at it.
    Warning,
    /// Something failed.
    Error,
}

/// How a tool call went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolStatus {
    /// It runs.
    Running,
    /// It worked.
    Ok,
    /// It failed.
    Error,
    /// The user did not allow it.
    Denied,
}

/// The colour of a badge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BadgeTone {
    /// Grey.
    Neutral,
    /// Green.
    Good,
    /// Amber.
    Warn,
    /// Red.
    Bad,
}
