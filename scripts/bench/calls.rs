//! What a call costs the agent, whatever Herdr does meanwhile.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use agent_presence::{Presence, Session};
use tokio::sync::Notify;

use super::herdr::{Answers, Server, missing};
use super::{percentile, row};

const ROUNDS: usize = 200;
const CALLS: u32 = 2_000;

/// `session.working()` and its like while the reporter is busy, against a slot and a `Notify`; then
/// the same with a Herdr that hangs, and with none.
pub(crate) fn calls() {
    let slow = Server::start(Answers::After(Duration::from_millis(20)));
    let hung = Server::start(Answers::Never);
    let nowhere = tempfile::tempdir().unwrap();
    let open = |environment| {
        let builder = Presence::builder("bench").without_collie().herdr(environment);
        let presence = builder.start().unwrap();
        let session = presence.session("s").open().unwrap();
        (presence, session)
    };
    let (healthy, hung, missing) =
        (open(slow.environment()), open(hung.environment()), open(missing(nowhere.path())));
    let bare = Slot::start();
    let mut floor = Vec::new();
    let mut changed = Vec::new();
    let mut equal = Vec::new();
    let mut with_hung = Vec::new();
    let mut with_missing = Vec::new();
    for _ in 0..ROUNDS {
        floor.push(per_call(|call| bare.put(call)));
        changed.push(per_call(|call| change(&healthy.1, call)));
        equal.push(per_call(|_| healthy.1.working()));
        with_hung.push(per_call(|call| change(&hung.1, call)));
        with_missing.push(per_call(|call| change(&missing.1, call)));
    }
    let floor = percentile(&mut floor, 0.5);
    let changed = percentile(&mut changed, 0.5);
    row("a changed state, against a bare slot", changed, floor);
    row("an equal state, against a bare slot", percentile(&mut equal, 0.5), floor);
    row("a changed state, Herdr hangs", percentile(&mut with_hung, 0.5), changed);
    row("a changed state, no Herdr", percentile(&mut with_missing, 0.5), changed);
    for (presence, session) in [healthy, hung, missing] {
        drop(session);
        presence.close();
    }
}

fn change(session: &Session, call: u32) {
    if call.is_multiple_of(2) { session.working() } else { session.idle() }
}

fn per_call(mut call: impl FnMut(u32)) -> Duration {
    let start = Instant::now();
    (0..CALLS).for_each(&mut call);
    start.elapsed() / CALLS
}

/// The least that a latest-only slot can be, with a consumer that is busy.
struct Slot {
    value: Arc<Mutex<u32>>,
    changed: Arc<Notify>,
}

impl Slot {
    fn start() -> Self {
        let slot = Self { value: Arc::default(), changed: Arc::default() };
        let (value, changed) = (slot.value.clone(), slot.changed.clone());
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            runtime.unwrap().block_on(async {
                loop {
                    changed.notified().await;
                    let _ = *value.lock().unwrap();
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            });
        });
        slot
    }

    fn put(&self, value: u32) {
        *self.value.lock().unwrap() = value;
        self.changed.notify_one();
    }
}
