//! What the whole-program tests share.

pub(crate) mod fake_herdr;
pub(crate) mod phone;
pub(crate) mod restoring_herdr;
pub(crate) mod terminal;
