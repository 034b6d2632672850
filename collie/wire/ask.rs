//! A question to the user: a card on the phone.

use serde::{Deserialize, Serialize};

/// An open question, as the phone sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AskView {
    /// By the id rule; single-use.
    pub id: String,
    /// What can be answered.
    #[serde(flatten)]
    pub kind: AskKind,
    /// The tool call that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The item that it belongs to, which need not exist (N251).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_id: Option<String>,
    /// The question, at most 256 bytes.
    pub title: String,
    /// Why it is asked, at most 2 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The tool's line, such as `refund(order: "5521", amount: 40)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The words of the notification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push: Option<Push>,
    /// When it closes by itself, in ISO 8601.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// When it was raised, in ISO 8601.
    pub opened_at: String,
    /// Over all of the above but `openedAt`: an answer names what the person saw (N221).
    pub hash: String,
}

/// The four kinds of questions (N073).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum AskKind {
    /// May the agent do this?
    Approval {
        /// `allow` and `deny`, and `allow-always` where it may be offered.
        options: Vec<AskOption>,
    },
    /// One of several, or several of them.
    Choice {
        /// 2 to 20.
        options: Vec<AskOption>,
        /// More than one may be chosen.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        multiple: bool,
        /// How many at least; 1 unless said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min: Option<u32>,
        /// How many at most; all of them unless said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<u32>,
    },
    /// A typed line.
    Text {
        /// What the empty field shows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        placeholder: Option<String>,
        /// In characters, at most 4000; that many unless said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_length: Option<u32>,
    },
    /// A set of fields.
    Form {
        /// 1 to 20.
        fields: Vec<Field>,
    },
}

/// One option of an approval, a choice, or a field of a form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskOption {
    /// By the id rule.
    pub id: String,
    /// At most 200 characters.
    pub label: String,
    /// A second line, at most 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl AskOption {
    /// An option without a second line.
    pub fn new(id: impl Into<String>, label: impl Into<String>) -> Self {
        Self { id: id.into(), label: label.into(), detail: None }
    }

    /// With a second line.
    pub fn detail(self, detail: impl Into<String>) -> Self {
        Self { detail: Some(detail.into()), ..self }
    }
}

/// One field of a form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    /// By the id rule.
    pub id: String,
    /// At most 200 characters.
    pub label: String,
    /// What can be put in.
    #[serde(rename = "type")]
    pub kind: FieldKind,
    /// It must be answered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// Of a `choice`: 2 to 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<AskOption>,
}

impl Field {
    /// A field that need not be answered.
    pub fn new(id: impl Into<String>, label: impl Into<String>, kind: FieldKind) -> Self {
        let (id, label) = (id.into(), label.into());
        Self { id, label, kind, required: false, options: Vec::new() }
    }

    /// It must be answered.
    pub fn required(self) -> Self {
        Self { required: true, ..self }
    }

    /// What a `choice` chooses from.
    pub fn options(self, options: impl Into<Vec<AskOption>>) -> Self {
        Self { options: options.into(), ..self }
    }
}

/// What can be put into a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FieldKind {
    /// A line.
    Text,
    /// A number.
    Number,
    /// Yes or no.
    Boolean,
    /// One of the field's options, by its id.
    Choice,
}

/// The words of a notification (N080).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Push {
    /// At most 60 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// At most 120 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
}
