//! What the whole-program tests share.

pub(crate) mod phone;
