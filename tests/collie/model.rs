//! Random actions, repeats, races, faults and restarts against what must hold of them: no action
//! runs twice, and no acknowledged answer is lost.
//!
//! `COLLIE_MODEL_RUNS` sets how many histories are tried, `COLLIE_MODEL_SEED` the first of them. The
//! strict run, which takes a minute and a half, is
//! `COLLIE_MODEL_RUNS=10000 cargo test --test collie model`.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex};

use agent_presence::collie::{
    Answer, AskClosed, AskInput, Caller, Core, CoreOptions, Lookup, Pane, Receipt, ReceiptStore,
    Request, StoredAnswer,
};
use serde_json::{Value, json};

use crate::rig::add_pane;

/// Numbers that look random, and are the same for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// A disk that outlives the process, and fails when it is told to.
#[derive(Debug, Default)]
struct Disk {
    receipts: HashMap<String, Receipt>,
    begun: HashSet<String>,
    untaken: HashMap<(String, String), StoredAnswer>,
    fail_next: bool,
    /// Its writes take a thread, and so leave time for what happens meanwhile.
    slow: bool,
}

#[derive(Clone, Debug, Default)]
struct DiskStore(Arc<Mutex<Disk>>);

impl DiskStore {
    fn write<R>(&self, write: impl FnOnce(&mut Disk) -> R) -> io::Result<R> {
        let mut disk = self.0.lock().unwrap();
        if std::mem::take(&mut disk.fail_next) {
            return Err(io::Error::other("the disk is full"));
        }
        Ok(write(&mut disk))
    }
}

impl ReceiptStore for DiskStore {
    fn get(&self, id: &str) -> Lookup {
        let disk = self.0.lock().unwrap();
        match disk.receipts.get(id) {
            Some(receipt) => Lookup::Kept(Box::new(receipt.clone())),
            None if disk.begun.contains(id) => Lookup::Dropped,
            None => Lookup::New,
        }
    }

    fn begin(&self, id: &str) -> io::Result<()> {
        self.write(|disk| disk.begun.insert(id.to_owned())).map(|_| ())
    }

    fn put(&self, receipt: Receipt) -> io::Result<()> {
        self.write(|disk| {
            disk.begun.remove(&receipt.request_id);
            if let Some(answer) = &receipt.answer {
                let key = (answer.pane_id.clone(), answer.ask_id.clone());
                disk.untaken.insert(key, answer.clone());
            }
            disk.receipts.insert(receipt.request_id.clone(), receipt);
        })
    }

    fn abandon(&self, id: &str) -> io::Result<()> {
        self.write(|disk| disk.begun.remove(id)).map(|_| ())
    }

    fn taken(&self, pane: &str, ask: &str) -> io::Result<()> {
        self.write(|disk| drop(disk.untaken.remove(&(pane.to_owned(), ask.to_owned()))))
    }

    fn untaken(&self) -> Vec<StoredAnswer> {
        self.0.lock().unwrap().untaken.values().cloned().collect()
    }

    fn may_block(&self) -> bool {
        self.0.lock().unwrap().slow
    }
}

/// What the outside has seen, over all lives of the process.
#[derive(Debug, Default)]
struct Seen {
    /// What broke a rule on a task, where a panic is only a failed request.
    faults: Vec<&'static str>,
    /// How often the handler ran, by request id.
    runs: HashMap<String, u32>,
    /// The first acknowledged answer to each request id.
    acknowledged: HashMap<String, Value>,
    /// Verdicts by question (a number of its own for each raising).
    verdicts: HashMap<u64, Result<Answer, AskClosed>>,
    /// The option that was acknowledged for each question.
    decided: HashMap<u64, String>,
}

/// One life of the process.
struct Life {
    runtime: tokio::runtime::Runtime,
    core: Core,
    pane: Pane,
    /// The questions that are open, or were decided in this life, by ask id.
    raised: HashMap<String, u64>,
}

struct Model {
    dice: Dice,
    disk: DiskStore,
    seen: Arc<Mutex<Seen>>,
    hang: Arc<std::sync::atomic::AtomicBool>,
    life: Life,
    questions: u64,
    requests: Vec<(String, Value)>,
}

fn live(
    disk: &DiskStore,
    seen: &Arc<Mutex<Seen>>,
    hang: &Arc<std::sync::atomic::AtomicBool>,
) -> Life {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let receipts = Arc::new(disk.clone());
    let core = Core::new(CoreOptions { receipts, ..CoreOptions::default() }).unwrap();
    let pane = add_pane(&core, "p");
    let (seen, hang) = (seen.clone(), hang.clone());
    pane.on_send(move |request| {
        *seen.lock().unwrap().runs.entry(request.request_id).or_default() += 1;
        let hangs = hang.load(std::sync::atomic::Ordering::Relaxed);
        async move {
            if hangs {
                std::future::pending::<()>().await;
            }
            Ok(())
        }
    });
    core.ready();
    Life { runtime, core, pane, raised: HashMap::new() }
}

impl Model {
    fn new(number: u64) -> Self {
        let (disk, seen, hang) = (DiskStore::default(), Arc::default(), Arc::default());
        let life = live(&disk, &seen, &hang);
        disk.0.lock().unwrap().slow = number.is_multiple_of(4);
        let dice = Dice(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        Self { dice, disk, seen, hang, life, questions: 0, requests: Vec::new() }
    }

    fn step(&mut self) {
        match self.dice.roll(20) {
            0..=4 => self.raise(),
            5..=9 => {
                let first = self.new_answer();
                // Two devices at once, half of the time.
                let second = (self.dice.roll(2) == 0).then(|| self.new_answer());
                let both: Vec<_> = [Some(first), second].into_iter().flatten().collect();
                self.post(&both);
            }
            10..=12 => {
                let send = self.new_send();
                self.post(&[send]);
            }
            13..=15 => self.repeat(),
            16 => {
                let ask = self.ask_id();
                self.life.pane.withdraw(&ask);
            }
            17 => self.disk.0.lock().unwrap().fail_next = true,
            18 => self.crash_in_a_handler(),
            _ => self.restart(),
        }
    }

    fn ask_id(&mut self) -> String {
        format!("q{}", self.dice.roll(3))
    }

    fn raise(&mut self) {
        let id = self.ask_id();
        self.questions += 1;
        let question = self.questions;
        let (seen, disk, ask) = (self.seen.clone(), self.disk.clone(), id.clone());
        let told = move |verdict: Result<Answer, AskClosed>| {
            if let Ok(answer) = &verdict {
                let kept = disk.0.lock().unwrap().receipts.values().any(|receipt| {
                    let stored = receipt.answer.as_ref();
                    stored
                        .is_some_and(|stored| stored.ask_id == ask && stored.value == answer.value)
                });
                if !kept {
                    seen.lock().unwrap().faults.push("an answer was given before it was durable");
                }
            }
            let mut seen = seen.lock().unwrap();
            if seen.verdicts.insert(question, verdict).is_some() {
                seen.faults.push("a question has two verdicts");
            }
        };
        // An answer that waits from before a crash is given to this question, whole.
        let waiting =
            self.disk.0.lock().unwrap().untaken.get(&("p".to_owned(), id.clone())).cloned();
        if self.life.pane.ask_with(AskInput::approval("May I?").id(&id), told).is_ok() {
            let before = self.life.raised.insert(id, question);
            if let (Some(waiting), None) = (waiting, before) {
                let seen = self.seen.lock().unwrap();
                let Some(Ok(answer)) = seen.verdicts.get(&question) else {
                    panic!("an acknowledged answer was lost");
                };
                assert_eq!(answer.value, waiting.value);
            }
        }
    }

    fn new_answer(&mut self) -> (String, Value) {
        let option = if self.dice.roll(2) == 0 { "allow" } else { "deny" };
        let path = format!("panes/p/asks/{}", self.ask_id());
        self.new_request(path, json!({"answer": {"optionIds": [option]}}))
    }

    fn new_send(&mut self) -> (String, Value) {
        self.new_request("panes/p/send".to_owned(), json!({"text": "go", "steer": false}))
    }

    fn new_request(&mut self, path: String, mut body: Value) -> (String, Value) {
        body["requestId"] = format!("r{}", self.requests.len()).into();
        self.requests.push((path.clone(), body.clone()));
        (path, body)
    }

    fn repeat(&mut self) {
        if self.requests.is_empty() {
            return;
        }
        let count = self.requests.len() as u64;
        let picked = usize::try_from(self.dice.roll(count)).unwrap();
        let request = self.requests[picked].clone();
        let copies = if self.dice.roll(2) == 0 { 1 } else { 2 };
        self.post(&vec![request; copies]);
    }

    fn post(&mut self, requests: &[(String, Value)]) {
        let core = self.life.core.clone();
        // The agent may withdraw an ask while it is being answered.
        let withdrawn = (self.dice.roll(4) == 0).then(|| self.ask_id());
        let steps = self.dice.roll(6);
        let pane = self.life.pane.clone();
        let replies = self.life.runtime.block_on(async {
            let tasks: Vec<_> = requests
                .iter()
                .map(|(path, body)| tokio::spawn(post(core.clone(), path.clone(), body.clone())))
                .collect();
            if let Some(ask) = withdrawn {
                for _ in 0..steps {
                    tokio::task::yield_now().await;
                }
                pane.withdraw(&ask);
            }
            let mut replies = Vec::new();
            for task in tasks {
                replies.push(task.await.unwrap());
            }
            replies
        });
        for ((path, body), (status, reply)) in requests.iter().zip(replies) {
            self.check(path, body, status, reply);
        }
    }

    fn check(&mut self, path: &str, body: &Value, status: u16, mut reply: Value) {
        let id = body["requestId"].as_str().unwrap().to_owned();
        let mut seen = self.seen.lock().unwrap();
        assert!(seen.faults.is_empty(), "{:?}", seen.faults);
        assert!(seen.runs.get(&id).copied().unwrap_or(0) <= 1, "{id} ran twice");
        if status != 200 {
            assert!(!seen.acknowledged.contains_key(&id), "{id} was taken back: {reply}");
            return;
        }
        let replayed = reply.as_object_mut().unwrap().remove("replayed").is_some();
        if let Some(first) = seen.acknowledged.get(&id) {
            assert!(replayed && *first == reply, "{id} changed: {first} {reply}");
            return;
        }
        seen.acknowledged.insert(id, reply);
        if let Some(ask) = path.strip_prefix("panes/p/asks/")
            && let (Some(question), false) = (self.life.raised.get(ask), replayed)
        {
            let option = body["answer"]["optionIds"][0].as_str().unwrap().to_owned();
            let Some(Ok(answer)) = seen.verdicts.get(question) else {
                panic!("an acknowledged answer did not reach the agent");
            };
            assert_eq!(answer.option_ids()[0], option);
            assert!(seen.decided.insert(*question, option).is_none(), "answered twice");
        }
    }

    /// The process ends while a handler runs.
    fn crash_in_a_handler(&mut self) {
        let (path, body) = self.new_send();
        self.hang.store(true, std::sync::atomic::Ordering::Relaxed);
        let core = self.life.core.clone();
        self.life.runtime.block_on(async {
            let posted = tokio::spawn(post(core, path, body));
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            posted.abort();
        });
        self.hang.store(false, std::sync::atomic::Ordering::Relaxed);
        self.restart();
    }

    fn restart(&mut self) {
        // A runtime that is dropped ends its tasks wherever they are.
        self.life = live(&self.disk, &self.seen, &self.hang);
    }
}

async fn post(core: Core, path: String, body: Value) -> (u16, Value) {
    let request = Request {
        method: "POST".to_owned(),
        target: format!("/durable/v1/{path}"),
        content_type: Some("application/json".to_owned()),
        if_none_match: None,
        body: body.to_string().into_bytes(),
    };
    let response = core.handle(request, Caller::Other).await;
    (response.status, serde_json::from_slice(&response.body).unwrap())
}

#[test]
fn n109_n114_n116_n275_n276_no_action_runs_twice_and_no_answer_is_lost() {
    let number = |name: &str, unless: u64| {
        std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(unless)
    };
    let first = number("COLLIE_MODEL_SEED", 1);
    for seed in first..first + number("COLLIE_MODEL_RUNS", 300) {
        let mut model = Model::new(seed);
        let run = std::panic::AssertUnwindSafe(|| (0..40).for_each(|_| model.step()));
        if let Err(panic) = std::panic::catch_unwind(run) {
            eprintln!("COLLIE_MODEL_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}
