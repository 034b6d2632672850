//! The error of a value that breaks a rule of the wire.

use std::borrow::Cow;

/// A value of the caller's that Collie would throw away, and the rule that it breaks.
///
/// This is what the published SDK throws as a `TypeError` or a `RangeError` (N050, N066).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place} {rule}")]
#[non_exhaustive]
pub struct RuleError {
    /// The value's place, such as `pane id` or `ask title`.
    pub place: Cow<'static, str>,
    /// The rule, such as `is 130 bytes long, at most 128 are allowed`.
    pub rule: Cow<'static, str>,
}

impl RuleError {
    pub(crate) fn new(
        place: impl Into<Cow<'static, str>>,
        rule: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { place: place.into(), rule: rule.into() }
    }
}
