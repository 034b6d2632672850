//! A core with records, and what comes back when it is started again.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_presence::collie::{AskInput, CoreOptions, FileRecords, Item, PaneState, SendRequest};
use serde_json::{Value, json};

use crate::agent::folder;
use crate::rig::{Rig, add_pane, verdict};

fn options(folder: &Path) -> CoreOptions {
    let records = open(&folder.join("records"), "the next life");
    CoreOptions { records: Some(records), ..CoreOptions::default() }
}

/// Ends a life as a kill does, but for what the thread has yet to write.
async fn end(rig: Rig) {
    let Rig { core, pane, driver } = rig;
    let driver = driver.unwrap();
    driver.abort();
    let _ = driver.await;
    drop((core, pane));
}

fn texts(items: &Value) -> Vec<String> {
    let items = items.as_array().unwrap().iter();
    items.filter_map(|item| item["text"].as_str()).map(str::to_owned).collect()
}

fn ask_ids(view: &Value) -> Vec<&str> {
    view["asks"].as_array().unwrap().iter().map(|ask| ask["id"].as_str().unwrap()).collect()
}

fn may_i() -> AskInput {
    AskInput::approval("May I?").tool_call_id("c")
}

const ALLOW: &str = "allow";

async fn allow(rig: &Rig, ask: &str, request_id: &str) -> u16 {
    rig.answer(ask, request_id, json!({"optionIds": [ALLOW]})).await.status
}

#[tokio::test]
async fn n125_n131_the_same_session_is_the_same_pane_and_its_items_are_history() {
    let folder = folder();
    let rig = Rig::with(options(folder.path()));
    rig.pane.state(PaneState::Working, Some("t-7"));
    rig.pane.user("u", "hi").unwrap();
    rig.pane.reply("r", "hel").unwrap();
    rig.pane.reply("r", "hello").unwrap();
    rig.pane.partial_reply("g", "and I sa").unwrap();
    let state = rig.get("state").await.json;
    end(rig).await;

    let rig = Rig::with(options(folder.path()));
    let again = rig.get("state").await.json;
    assert_ne!(again["instance"], state["instance"]);
    for field in ["id", "sessionId", "openedAt", "turnId", "tabId"] {
        assert_eq!(again["panes"][0][field], state["panes"][0][field], "{field}");
    }
    assert_eq!(again["panes"][0]["state"], "idle", "what it does now is the agent's to say");
    rig.pane.reply("r", "hello again").unwrap();
    rig.pane.reply("new", "I am back").unwrap();
    let view = rig.view().await;
    assert_eq!(texts(&view["items"]), ["hi", "hello again", "and I sa", "I am back"]);
    assert!(view["items"][2].get("partial").is_none(), "it grows no more");
    let cursor = view["cursor"].clone();
    rig.pane.reply("newer", "still here").unwrap();
    assert_eq!(rig.events(&cursor).await.len(), 1);

    assert_eq!(rig.get("hello").await.json["caps"]["history"], true);
    let rows = rig.get("history").await.json;
    assert_eq!(rows["rows"][0]["id"], "p");
    assert_eq!((&rows["rows"][0]["state"], &rows["rows"][0]["items"]), (&json!("open"), &json!(5)));
    let page = rig.get("history/p?limit=2").await.json;
    assert_eq!(texts(&page["items"]), ["still here", "I am back"]);
    let next = page["next"].as_str().unwrap();
    let page = rig.get(&format!("history/p?after={next}")).await.json;
    assert_eq!(texts(&page["items"]), ["and I sa", "hello again", "hi"]);
    assert_eq!(rig.get("history/unknown").await.refusal(), (404, "unknown-session"));
}

/// N124: what was closed before a restart is read, and comes back by a hook only.
#[tokio::test]
async fn n124_n136_a_closed_session_is_history() {
    let folder = folder();
    let rig = Rig::with(options(folder.path()));
    let other = add_pane(&rig.core, "other");
    other.reply("r", "bye").unwrap();
    other.close();
    // This one is open when the process ends, and is not opened again.
    let third = add_pane(&rig.core, "third");
    third.reply("r", "gone").unwrap();
    drop((other, third));
    end(rig).await;
    let rig = Rig::with(options(folder.path()));
    let rows = rig.get("history").await.json["rows"].as_array().unwrap().clone();
    let row = |id: &str| rows.iter().find(|row| row["id"] == id).unwrap().clone();
    assert_eq!((&row("other")["state"], &row("other")["items"]), (&json!("closed"), &json!(1)));
    assert!(row("other")["endedAt"].is_string());
    assert_eq!((&row("third")["state"], &row("third")["items"]), (&json!("closed"), &json!(1)));
    assert_eq!(row("p")["state"], "open");
    assert_eq!(texts(&rig.get("history/other").await.json["items"]), ["bye"]);
    let body = json!({"requestId": "r", "sessionId": "other"});
    assert_eq!(rig.post("reopen", body).await.refusal(), (404, "unknown-session"));
    assert_eq!(rig.get("state").await.json["panes"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn n043_n084_a_card_from_before_is_answered_in_between_and_the_same_call_has_it_once() {
    let folder = folder();
    let rig = Rig::with(options(folder.path()));
    let (_, told) = verdict();
    let id = rig.pane.ask_with(may_i().timeout(Duration::from_secs(600)), told).unwrap();
    let before = rig.view().await["asks"].clone();
    end(rig).await;

    let rig = Rig::with(options(folder.path()));
    assert_eq!(rig.view().await["asks"], before, "the card is as it was");
    assert_eq!(allow(&rig, &id, "r1").await, 200);
    assert_eq!(allow(&rig, &id, "r2").await, 409, "answered once");
    assert_eq!(rig.answer(&id, "r1", json!({"optionIds": [ALLOW]})).await.json["replayed"], true);
    end(rig).await;

    // The process may end once more.
    let rig = Rig::with(options(folder.path()));
    assert!(ask_ids(&rig.view().await).is_empty());
    let late = rig.answer(&id, "r3", json!({"optionIds": [ALLOW]})).await;
    assert_eq!((late.refusal(), &late.json["decidedBy"]), ((409, "ask-closed"), &json!("phone")));
    let ask = rig.pane.ask(may_i().timeout(Duration::from_secs(60))).unwrap();
    assert!(rig.pane.open_asks().is_empty(), "no second card");
    assert!(ask.await.unwrap().allowed());
    // It was taken: the same call again is another question (N220).
    let _again = rig.pane.ask(may_i()).unwrap();
    assert_eq!(ask_ids(&rig.view().await), [id.as_str()]);
}

#[tokio::test]
async fn an_ask_that_is_raised_again_has_the_card_from_before() {
    let folder = folder();
    let rig = Rig::with(options(folder.path()));
    let (_, told) = verdict();
    let id = rig.pane.ask_with(may_i(), told).unwrap();
    let (_, told) = verdict();
    let other = AskInput::approval("This?").tool_call_id("d");
    let changed = rig.pane.ask_with(other, told).unwrap();
    end(rig).await;
    let rig = Rig::with(options(folder.path()));
    let view = rig.view().await;
    let (answers, told) = verdict();
    assert_eq!(rig.pane.ask_with(may_i(), told).unwrap(), id);
    assert!(rig.pane.ask(may_i()).is_err(), "N085: now it is open");
    assert!(rig.events(&view["cursor"]).await.is_empty(), "nothing to see");
    // Other words are another question, and a person has to see them.
    let (_, told) = verdict();
    let other = AskInput::approval("That?").tool_call_id("d");
    rig.pane.ask_with(other, told).unwrap();
    let titles: Vec<_> = rig.pane.open_asks().into_iter().map(|ask| ask.title).collect();
    assert_eq!(titles, ["May I?", "That?"]);
    let body = json!({
        "requestId": "r", "hash": view["asks"][1]["hash"], "answer": {"optionIds": [ALLOW]},
    });
    let stale = rig.post(&format!("panes/p/asks/{changed}"), body).await;
    assert_eq!(stale.refusal(), (409, "ask-changed"));
    assert_eq!(allow(&rig, &id, "r1").await, 200);
    assert!(answers.lock().unwrap()[0].as_ref().unwrap().allowed());
}

#[tokio::test]
async fn a_card_that_nobody_can_raise_again_or_whose_time_is_over_does_not_come_back() {
    let folder = folder();
    let rig = Rig::with(options(folder.path()));
    for (id, input) in [
        ("now", AskInput::approval("Now?").only_now()),
        ("soon", AskInput::approval("Soon?").expires_at(std::time::SystemTime::now())),
    ] {
        let (_, told) = verdict();
        // The driver does not run meanwhile, so the second is still open at the end.
        rig.pane.ask_with(input.id(id), told).unwrap();
    }
    end(rig).await;
    let rig = Rig::with(options(folder.path()));
    let view = rig.view().await;
    assert!(ask_ids(&view).is_empty(), "{view}");
    let texts = texts(&view["items"]);
    assert!(texts.contains(&"Withdrawn before an answer: Now?".to_owned()), "{texts:?}");
    assert!(texts.contains(&"Timed out before an answer: Soon?".to_owned()), "{texts:?}");
}

/// Takes each text, lets it wait, and notes it.
fn deferring(rig: &Rig) -> Arc<Mutex<Vec<(String, bool)>>> {
    let taken = Arc::new(Mutex::new(Vec::new()));
    let noted = taken.clone();
    rig.pane.on_send(move |request: SendRequest| {
        request.defer();
        noted.lock().unwrap().push((request.text.clone(), request.again));
        async { Ok(()) }
    });
    taken
}

fn send(id: &str, text: &str) -> Value {
    json!({"requestId": id, "text": text})
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "no {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn n215_n217_a_text_that_was_accepted_and_not_taken_is_given_again() {
    let folder = folder();
    let rig = Rig::with(options(folder.path()));
    let taken = deferring(&rig);
    rig.pane.state(PaneState::Working, Some("t-1"));
    for (id, text) in [("a", "one"), ("b", "two"), ("c", "three")] {
        let reply = rig.post("panes/p/send", send(id, text)).await;
        assert_eq!((reply.status, &reply.json["queued"]), (200, &json!(true)));
    }
    rig.pane.item(Item::user("u", "one").request_id("a")).unwrap();
    assert_eq!(taken.lock().unwrap().len(), 3);
    end(rig).await;

    let rig = Rig::with(options(folder.path()));
    let taken = deferring(&rig);
    until("two texts", || taken.lock().unwrap().len() == 2).await;
    let expected = [("two".to_owned(), true), ("three".to_owned(), true)];
    assert_eq!(*taken.lock().unwrap(), expected, "in their order, and not what is in the chat");
    let reply = rig.post("panes/p/send", send("b", "two")).await;
    assert_eq!(reply.json["replayed"], true, "not run");
    rig.pane.item(Item::user("u2", "two").request_id("b")).unwrap();
    rig.pane.item(Item::user("u3", "three").request_id("c")).unwrap();
    end(rig).await;
    let rig = Rig::with(options(folder.path()));
    let taken = deferring(&rig);
    let reply = rig.post("panes/p/send", send("d", "four")).await;
    assert_eq!((reply.status, &reply.json["queued"]), (200, &json!(false)));
    assert_eq!(*taken.lock().unwrap(), [("four".to_owned(), false)], "nothing else");
}

#[tokio::test]
async fn a_text_from_before_waits_for_the_end_of_a_card_and_is_refused_in_the_chat() {
    let folder = folder();
    let rig = Rig::with(options(folder.path()));
    deferring(&rig);
    assert_eq!(rig.post("panes/p/send", send("a", "go on")).await.status, 200);
    let (_, told) = verdict();
    let id = rig.pane.ask_with(may_i(), told).unwrap();
    end(rig).await;
    let rig = Rig::with(options(folder.path()));
    let taken = deferring(&rig);
    assert_eq!(ask_ids(&rig.view().await), [id.as_str()]);
    assert!(taken.lock().unwrap().is_empty());
    rig.pane.withdraw(&id);
    until("a text", || taken.lock().unwrap().len() == 1).await;
    end(rig).await;
    // This time the agent takes no text.
    let rig = Rig::with(options(folder.path()));
    for _ in 0..1000 {
        if texts(&rig.view().await["items"]).iter().any(|text| text.ends_with("Not taken: go on")) {
            return end(rig).await;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{}", rig.view().await);
}

#[test]
fn one_process_has_the_records() {
    let folder = folder();
    let first = FileRecords::open(&folder.path().join("records")).unwrap();
    let second = FileRecords::open(&folder.path().join("records")).unwrap_err();
    assert_eq!(second.kind(), io::ErrorKind::WouldBlock);
    drop(first);
    FileRecords::open(&folder.path().join("records")).unwrap();
}

/// What a small life leaves: the files, and what may be served of it.
async fn small_life(folder: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let rig = Rig::with(options(folder));
    deferring(&rig);
    for number in 0..3 {
        rig.pane.reply(&format!("r{number}"), &format!("text {number}")).unwrap();
    }
    let (_, told) = verdict();
    rig.pane.ask_with(AskInput::approval("Open?").id("open"), told).unwrap();
    // Answered, and not taken.
    let ask = rig.pane.ask(AskInput::approval("Answered?").id("answered")).unwrap();
    assert_eq!(allow(&rig, "answered", "r").await, 200);
    std::mem::forget(ask);
    assert_eq!(rig.post("panes/p/send", json!({"requestId": "s", "text": "x"})).await.status, 409);
    let records = folder.join("records");
    // What was forgotten keeps the core, so its files are taken as they are.
    rig.get("history").await;
    let mut files = Vec::new();
    for file in [records.clone(), records.join("chat")].iter().flat_map(|at| at.read_dir().unwrap())
    {
        let path = file.unwrap().path();
        if path.is_file() {
            files.push((path.strip_prefix(&records).unwrap().to_owned(), fs::read(&path).unwrap()));
        }
    }
    assert_eq!(files.len(), 3);
    files
}

fn lay_out(at: &Path, files: &[(std::path::PathBuf, Vec<u8>)]) {
    fs::create_dir_all(at.join("chat")).unwrap();
    for (name, text) in files {
        let path = at.join(name);
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        file.unwrap().write_all(text).unwrap();
    }
}

/// A folder in memory where there is one: thousands of starts sync a lot.
fn quick_folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { folder() }
}

/// The thread of the life before may still have the files, on a busy machine.
fn open(at: &Path, what: &str) -> FileRecords {
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    loop {
        match FileRecords::open(at) {
            Ok(records) => return records,
            Err(error) => {
                let is_held = error.kind() == io::ErrorKind::WouldBlock;
                assert!(is_held && std::time::Instant::now() < deadline, "{what}: {error}");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// Starts from damaged files: nothing that is served was never said, and it goes on.
async fn check_damaged(at: &Path, what: &str) {
    let records = open(at, what);
    let rig = Rig::with(CoreOptions { records: Some(records), ..CoreOptions::default() });
    let view = rig.view().await;
    let served = texts(&view["items"]);
    let said: HashSet<String> = (0..3).map(|number| format!("text {number}")).collect();
    assert!(served.iter().all(|text| said.contains(text)), "{what}: {served:?}");
    for ask in view["asks"].as_array().unwrap() {
        let titles = [("open", "Open?"), ("answered", "Answered?")];
        assert!(titles.iter().any(|(id, title)| ask["id"] == *id && ask["title"] == *title));
    }
    // An answer is the one that was given, or a person is asked again.
    if let Ok(ask) = rig.pane.ask(AskInput::approval("Answered?").id("answered")) {
        let waits = rig.pane.open_asks().iter().any(|ask| ask.id == "answered");
        if !waits {
            assert!(ask.await.unwrap().allowed(), "{what}");
        }
    }
    // A question that was never answered has no answer.
    let (answers, told) = verdict();
    rig.pane.ask_with(AskInput::approval("Open?").id("open"), told).unwrap();
    assert!(answers.lock().unwrap().is_empty(), "{what}");
    rig.pane.reply("after", "it goes on").unwrap();
    end(rig).await;
    let records = open(at, what);
    let rig = Rig::with(CoreOptions { records: Some(records), ..CoreOptions::default() });
    assert!(texts(&rig.view().await["items"]).contains(&"it goes on".to_owned()), "{what}");
    end(rig).await;
}

/// The places that are tried in a file: each with `RECORDS_EVERY=1`, which takes minutes; some of them
/// unless said. The logs themselves are tried at each in `collie/log.rs`.
fn places(text: &[u8]) -> impl Iterator<Item = usize> {
    let every = std::env::var("RECORDS_EVERY").ok().and_then(|every| every.parse().ok());
    (0..text.len()).step_by(every.unwrap_or(13))
}

#[tokio::test]
async fn records_that_are_torn_at_any_byte_serve_nothing_wrong() {
    let life = folder();
    let files = small_life(life.path()).await;
    let folder = quick_folder();
    for (torn, (name, text)) in files.iter().enumerate() {
        for length in places(text) {
            let at = folder.path().join(format!("{torn}-{length}"));
            let mut files = files.clone();
            files[torn].1.truncate(length);
            lay_out(&at, &files);
            check_damaged(&at, &format!("{} torn at {length}", name.display())).await;
            fs::remove_dir_all(&at).unwrap();
        }
    }
}

#[tokio::test]
async fn records_with_a_flipped_bit_at_any_byte_serve_nothing_wrong() {
    let life = folder();
    let files = small_life(life.path()).await;
    let folder = quick_folder();
    for (flipped, (name, text)) in files.iter().enumerate() {
        for place in places(text) {
            let at = folder.path().join(format!("{flipped}-{place}"));
            let mut files = files.clone();
            files[flipped].1[place] ^= 1 << (place % 8);
            lay_out(&at, &files);
            check_damaged(&at, &format!("{} flipped at {place}", name.display())).await;
            fs::remove_dir_all(&at).unwrap();
        }
    }
}

/// The length of the one chat.
fn chat_length(folder: &Path) -> u64 {
    let mut files = folder.join("records/chat").read_dir().unwrap();
    files.next().unwrap().unwrap().metadata().unwrap().len()
}

#[tokio::test]
async fn n069_n135_a_chat_keeps_its_newest_items_and_its_file_stays_short() {
    let folder = folder();
    let rig = Rig::with(options(folder.path()));
    for number in 0..2100 {
        rig.pane.reply(&format!("r{number}"), &number.to_string()).unwrap();
    }
    for number in 0..5000 {
        rig.pane.reply("r2099", &format!("{number} {}", "x".repeat(1000))).unwrap();
    }
    assert_eq!(rig.get("history").await.json["rows"][0]["items"], 2000);
    assert!(chat_length(folder.path()) < 2 * 1024 * 1024, "{}", chat_length(folder.path()));
    end(rig).await;
    let rig = Rig::with(options(folder.path()));
    let view = rig.view().await;
    let texts = texts(&view["items"]);
    assert_eq!((texts.len(), &*texts[0], &view["droppedStart"]), (2000, "100", &json!(true)));
    assert!(texts[1999].starts_with("4999 "));
    // Big items count by their size.
    for number in 0..1000 {
        rig.pane.reply(&format!("big{number}"), &"y".repeat(20_000)).unwrap();
    }
    rig.get("history").await;
    assert!(chat_length(folder.path()) < 18 * 1024 * 1024, "{}", chat_length(folder.path()));
    end(rig).await;
    let rig = Rig::with(options(folder.path()));
    let kept = rig.view().await["items"].as_array().unwrap().len();
    assert!((400..=420).contains(&kept), "{kept} of 20 KB in 8 MiB");
}

/// A clock that stands.
#[derive(Debug)]
struct At(std::time::SystemTime);

impl agent_presence::Clock for At {
    fn now(&self) -> std::time::SystemTime {
        self.0
    }
}

#[tokio::test]
async fn a_conversation_goes_thirty_days_after_its_last_word() {
    let folder = folder();
    let days = |days: u64| std::time::SystemTime::now() - Duration::from_secs(days * 24 * 3600);
    for (session, age) in [("old", 31), ("young", 29)] {
        let clock = Arc::new(At(days(age)));
        let rig = Rig::with(CoreOptions { clock, ..options(folder.path()) });
        let pane = add_pane(&rig.core, session);
        pane.reply("r", session).unwrap();
        pane.close();
        drop(pane);
        end(rig).await;
        for file in folder.path().join("records/chat").read_dir().unwrap() {
            let file = fs::File::options().write(true).open(file.unwrap().path()).unwrap();
            let said = file.metadata().unwrap().modified().unwrap();
            file.set_modified(said.min(days(age))).unwrap();
        }
    }
    let rig = Rig::with(options(folder.path()));
    let rows = rig.get("history").await.json["rows"].as_array().unwrap().clone();
    let ids: HashSet<_> = rows.iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(ids, HashSet::from(["young", "p"]));
    assert_eq!(folder.path().join("records/chat").read_dir().unwrap().count(), 1);
}

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

/// What must be true of a conversation, whatever ends.
#[derive(Default)]
struct Model {
    /// In the order of their first appearance.
    items: Vec<(String, String)>,
    /// The cards, oldest first.
    open: Vec<String>,
    /// Answered while nobody waited.
    answered: HashSet<String>,
    /// Given to the agent a moment ago: if it ends now, it is to have it again.
    given: HashSet<String>,
    requests: u64,
}

impl Model {
    fn say(&mut self, id: String, text: String) {
        match self.items.iter_mut().find(|item| item.0 == id) {
            Some(item) => item.1 = text,
            None => self.items.push((id, text)),
        }
    }
}

async fn one_history(seed: u64, at: &Path) {
    let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut model = Model::default();
    let mut rig = Rig::with(options(at));
    let mut waited: HashSet<String> = HashSet::new();
    for step in 0..40 {
        let id = format!("q{}", dice.roll(3));
        match dice.roll(8) {
            0..=2 => {
                let (id, text) = (format!("i{}", dice.roll(5)), format!("step {step}"));
                rig.pane.reply(&id, &text).unwrap();
                model.say(id, text);
            }
            3 => {
                let (answers, told) = verdict();
                let raised = rig.pane.ask_with(AskInput::approval("May I?").id(&id), told);
                assert_eq!(raised.is_err(), waited.contains(&id), "{seed} {step}");
                let has_it = !answers.lock().unwrap().is_empty();
                assert_eq!(has_it, model.answered.remove(&id), "{seed} {step}: once, and not lost");
                if has_it {
                    model.given.insert(id.clone());
                } else if raised.is_ok() {
                    // A new question.
                    model.given.remove(&id);
                }
                if raised.is_ok() && !has_it {
                    waited.insert(id.clone());
                    if !model.open.contains(&id) {
                        model.open.push(id);
                    }
                }
            }
            4 | 5 => {
                model.requests += 1;
                let status = allow(&rig, &id, &format!("r{}", model.requests)).await;
                assert_eq!(status == 200, model.open.contains(&id), "{seed} {step}");
                model.open.retain(|open| *open != id);
                if status == 200 && waited.remove(&id) {
                    model.given.insert(id);
                } else if status == 200 {
                    model.answered.insert(id);
                }
            }
            _ => {
                end(rig).await;
                (rig, waited) = (Rig::with(options(at)), HashSet::new());
                model.answered.extend(model.given.drain());
            }
        }
        let view = rig.view().await;
        assert_eq!(ask_ids(&view), model.open, "{seed} {step}");
        let expected: Vec<_> = model.items.iter().map(|item| item.1.clone()).collect();
        assert_eq!(texts(&view["items"]), expected, "{seed} {step}");
    }
    end(rig).await;
}

/// `RECORDS_MODEL_RUNS` sets how many histories are tried, `RECORDS_MODEL_SEED` the first of them.
#[tokio::test]
async fn a_conversation_is_the_same_whenever_its_process_ends() {
    let number = |name: &str, unless: u64| {
        std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(unless)
    };
    let first = number("RECORDS_MODEL_SEED", 1);
    for seed in first..first + number("RECORDS_MODEL_RUNS", 40) {
        let folder = quick_folder();
        one_history(seed, folder.path()).await;
    }
}
