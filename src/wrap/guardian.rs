//! The guardian (not yet).

/// Not yet.
pub fn is_guarded() -> bool {
    false
}

/// Not yet.
pub fn guard() {}

pub(super) fn parent() -> Option<u32> {
    None
}
