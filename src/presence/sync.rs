//! What the joins of the presence are made of. `tests/interleavings.rs` puts loom's types in the place of
//! these, and tries every order in which the threads can meet.

pub(super) use std::sync::atomic::{AtomicBool, AtomicU64};
pub(super) use std::sync::{Mutex, MutexGuard};

pub(super) use tokio::time::timeout;
