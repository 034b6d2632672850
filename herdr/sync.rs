//! What the latest-only slot is made of. A test puts loom's types in the place of these.

pub(super) use std::sync::{Mutex, MutexGuard};
pub(super) use tokio::sync::Notify;
