//! Every order in which threads can meet at the joins, tried with loom: callers and the reader of a
//! latest-only slot here, the parts of a presence in `presence`.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

/// The slot itself, on loom's locks in place of the real ones.
#[path = "../herdr/latest.rs"]
mod latest;

#[allow(unreachable_pub, reason = "the real modules name its types in public signatures")]
#[path = "interleavings/collie.rs"]
mod collie;
#[path = "interleavings/herdr.rs"]
mod herdr;
#[allow(dead_code, unreachable_pub, reason = "the tests use a part of the real modules")]
#[path = "interleavings/presence.rs"]
mod presence;
#[allow(dead_code, unreachable_pub, unused_imports, reason = "the joins use a part of it")]
#[path = "../src/session/mod.rs"]
mod session;

/// Loom wants every run to be the same.
mod os {
    pub(crate) mod random {
        #[expect(clippy::unnecessary_wraps, reason = "as the real one")]
        pub(crate) fn hex(_bytes: usize) -> std::io::Result<String> {
            Ok("0".to_owned())
        }
    }
}

/// What the slot is made of, under loom.
mod sync {
    pub(crate) use loom::sync::{Mutex, MutexGuard};

    /// As tokio's: one permit, kept until somebody waits.
    #[derive(Debug)]
    pub(crate) struct Notify(loom::sync::Notify);

    impl Default for Notify {
        fn default() -> Self {
            Self(loom::sync::Notify::new())
        }
    }

    impl Notify {
        pub(crate) fn notify_one(&self) {
            self.0.notify();
        }

        #[expect(clippy::unused_async, reason = "it has to look like tokio's")]
        pub(crate) async fn notified(&self) {
            self.0.wait();
        }
    }
}

use latest::Latest;
use loom::future::block_on;
use loom::sync::Arc;
use loom::thread;

/// The newest value, and how many callers are done: what the reporter's slots are, in small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Wanted {
    value: u32,
    changes: u32,
}

fn write(slot: &Latest<Wanted>, value: u32) {
    slot.put(|wanted| {
        wanted.value = value;
        wanted.changes += 1;
        true
    });
}

/// Two callers and a reader: the reader never sleeps on a change, and ends with the newest value.
#[test]
fn no_change_is_slept_on() {
    loom::model(|| {
        let slot = Arc::new(Latest::<Wanted>::default());
        let callers: Vec<_> = [1, 2]
            .into_iter()
            .map(|value| {
                let slot = slot.clone();
                thread::spawn(move || write(&slot, value))
            })
            .collect();
        let mut seen = slot.get();
        while seen.changes < 2 {
            block_on(slot.changed());
            let now = slot.get();
            assert!(now.changes >= seen.changes, "nothing older after something newer");
            seen = now;
        }
        for caller in callers {
            caller.join().unwrap();
        }
        assert_eq!(slot.get(), seen, "the last thing seen is the newest");
    });
}

/// A caller that changes its mind: the reader may miss the first value, never the last.
#[test]
fn the_last_of_a_callers_values_is_seen() {
    loom::model(|| {
        let slot = Arc::new(Latest::<Wanted>::default());
        let caller = {
            let slot = slot.clone();
            thread::spawn(move || (1..=3).for_each(|value| write(&slot, value)))
        };
        let mut seen = slot.get();
        while seen.value != 3 {
            // loom wakes for no reason, too: then nothing has changed.
            block_on(slot.changed());
            let now = slot.get();
            assert!(now.value >= seen.value, "nothing older after something newer");
            seen = now;
        }
        caller.join().unwrap();
        assert_eq!(slot.get().changes, 3);
    });
}
