//! A slot that holds the newest value only, between callers who must not wait and one reader.
//!
//! `sync` is a module of its own so that `tests/interleavings.rs` can put loom's types in its place and
//! try every order of things.

use super::sync::{Mutex, MutexGuard, Notify};
use std::sync::PoisonError;

/// The newest value, and a bell for the reader.
///
/// A caller holds the lock for a few nanoseconds and wakes the reader only if it sleeps, so a call while
/// the reader is busy makes no system call.
#[derive(Debug, Default)]
pub(super) struct Latest<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T: Clone> Latest<T> {
    /// Lets `change` change the value in its place. It says whether it did.
    pub(super) fn put(&self, change: impl FnOnce(&mut T) -> bool) {
        // The bell comes after the value: who hears it finds the value.
        let changed = change(&mut self.lock());
        if changed {
            self.ring();
        }
    }

    /// The newest value.
    pub(super) fn get(&self) -> T {
        self.lock().clone()
    }

    /// Wakes the reader, or lets its next wait return at once.
    pub(super) fn ring(&self) {
        self.changed.notify_one();
    }

    /// Waits until the bell has rung since the last wait. For one reader.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The value is whole at any moment, so a panic of another holder spoils nothing.
    fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
