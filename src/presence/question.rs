//! Questions that are about to be asked.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::ask::{Approval, Ask, AskError, Verdict, raise};
use super::inner::SessionInner;
use crate::collie::{AskInput, AskKind, AskOption, approval_of};
use crate::os::random;

/// What any question may have.
#[derive(Debug, Default)]
struct About {
    call: Option<String>,
    item: Option<String>,
    reason: Option<String>,
    timeout: Option<Duration>,
}

impl About {
    fn apply(&self, mut input: AskInput) -> AskInput {
        if let Some(item) = &self.item {
            input = input.item_id(item);
        }
        if let Some(reason) = &self.reason {
            input = input.reason(reason);
        }
        if let Some(timeout) = self.timeout {
            input = input.timeout(timeout);
        }
        input
    }
}

/// A question that is about to be asked.
#[derive(Debug)]
pub struct Question {
    session: Arc<SessionInner>,
    title: String,
    kind: AskKind,
    tool: Option<String>,
    about: About,
}

impl Question {
    pub(super) fn new(session: Arc<SessionInner>, title: &str, kind: AskKind) -> Self {
        Self { session, title: title.to_owned(), kind, tool: None, about: About::default() }
    }

    /// Of a choice: adds an option: what comes back when it is picked, and what the user reads.
    pub fn option(mut self, id: &str, label: &str) -> Self {
        if let AskKind::Choice { options, .. } = &mut self.kind {
            options.push(AskOption::new(id, label));
        }
        self
    }

    /// Of a choice: the user picks `at_least` to `at_most` options.
    pub fn several(mut self, at_least: u32, at_most: u32) -> Self {
        if let AskKind::Choice { multiple, min, max, .. } = &mut self.kind {
            (*multiple, *min, *max) = (true, Some(at_least), Some(at_most));
        }
        self
    }

    /// Of a text: what the empty field shows, cut to 200 characters.
    pub fn placeholder(mut self, text: &str) -> Self {
        if let AskKind::Text { placeholder, .. } = &mut self.kind {
            *placeholder = Some(text.to_owned());
        }
        self
    }

    /// Of a text: the most characters, 1 to 4000.
    pub fn max_length(mut self, characters: u32) -> Self {
        if let AskKind::Text { max_length, .. } = &mut self.kind {
            *max_length = Some(characters);
        }
        self
    }

    /// Why it is asked; cut to 2 KiB.
    pub fn reason(mut self, reason: &str) -> Self {
        self.about.reason = Some(reason.to_owned());
        self
    }

    /// The tool's line, such as `refund(order: "5521", amount: 40)`.
    pub fn tool(mut self, line: &str) -> Self {
        self.tool = Some(line.to_owned());
        self
    }

    /// The tool call that it is about, by the id rule (N049). The ask's id is derived from it
    /// (N083): an answer that came when nobody waited any more is given to the same question of the
    /// same call, raised again.
    pub fn call(mut self, id: &str) -> Self {
        self.about.call = Some(id.to_owned());
        self
    }

    /// The item of the chat that it belongs to.
    pub fn item(mut self, id: &str) -> Self {
        self.about.item = Some(id.to_owned());
        self
    }

    /// Closes the card after this time; a timeout is no answer.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.about.timeout = Some(timeout);
        self
    }

    /// Shows the card. The session is blocked until it is answered.
    ///
    /// # Errors
    /// Which rule the question breaks, or that nobody can be asked.
    pub fn raise(self) -> Result<Ask, AskError> {
        let words = json!([self.title, self.kind, self.about.reason, self.tool]).to_string();
        let mut input = self.about.apply(AskInput::of_kind(&self.title, self.kind));
        if let Some(tool) = &self.tool {
            input = input.tool(tool);
        }
        input = match &self.about.call {
            Some(call) => input.tool_call_id(call),
            None => input.id(random::hex(16).map_err(AskError::Random)?),
        };
        let call = self.about.call.as_deref().map(|call| (call, words));
        raise(&self.session, &self.title, input, call)
    }
}

/// The question whether a tool may run, about to be asked.
#[derive(Debug)]
pub struct ApprovalQuestion {
    session: Arc<SessionInner>,
    tool: String,
    /// JSON text, because it keeps the order of the arguments (N101).
    arguments: Result<Box<RawValue>, String>,
    about: About,
}

impl ApprovalQuestion {
    pub(super) fn new<A: Serialize>(session: Arc<SessionInner>, tool: &str, arguments: &A) -> Self {
        let arguments = to_raw_value(arguments).map_err(|error| error.to_string());
        Self { session, tool: tool.to_owned(), arguments, about: About::default() }
    }

    /// As [`Question::reason`].
    pub fn reason(mut self, reason: &str) -> Self {
        self.about.reason = Some(reason.to_owned());
        self
    }

    /// As [`Question::call`].
    pub fn call(mut self, id: &str) -> Self {
        self.about.call = Some(id.to_owned());
        self
    }

    /// As [`Question::item`].
    pub fn item(mut self, id: &str) -> Self {
        self.about.item = Some(id.to_owned());
        self
    }

    /// Closes the card after this time. A timeout never approves.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.about.timeout = Some(timeout);
        self
    }

    /// Shows the card. The session is blocked until it is answered.
    ///
    /// # Errors
    /// Which rule the question breaks, or that nobody can be asked.
    pub fn raise(self) -> Result<Approval, AskError> {
        let arguments = self.arguments.map_err(AskError::Arguments)?;
        let call = match &self.about.call {
            Some(call) => call.clone(),
            None => random::hex(16).map_err(AskError::Random)?,
        };
        // A person must be asked about what is to run, so arguments that differ are another question.
        let words = json!([self.tool, arguments.get(), self.about.reason]).to_string();
        let input = self.about.apply(approval_of(&self.tool, &arguments, &call, None));
        let title = format!("{} wants to run", self.tool);
        let call = self.about.call.as_deref().map(|call| (call, words));
        raise(&self.session, &title, input, call).map(Approval::new)
    }
}

/// Awaited as it is, it is raised when it is polled first.
impl IntoFuture for ApprovalQuestion {
    type Output = Result<Verdict, AskError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { Ok(self.raise()?.await) })
    }
}
