//! What a start with many records costs, against reading their bytes alone.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use agent_presence::collie::{
    Caller, Core, CoreOptions, FileReceipts, FileRecords, Item, Pane, PaneOptions, Receipt,
    ReceiptGroup, ReceiptStore as _, Request,
};

use super::{percentile, row};

const MEGABYTE: u64 = 1024 * 1024;
const LOG: u64 = 50 * MEGABYTE;
const STARTS: usize = 15;
/// Conversations, each with this many items of 5,000 characters: 50 MB of chats together.
const CONVERSATIONS: usize = 10;
const ITEMS: usize = 1_000;

pub(crate) fn records() {
    let folder = tempfile::Builder::new().prefix("ap").tempdir_in("/tmp").unwrap();
    let at = folder.path().join("records");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        fill(&at);
        println!(
            "{} MB of chats, {} receipts",
            size(&at.join("chat")) / MEGABYTE,
            receipts_of(&at)
        );
        // What is written behind a start is not waited for, except here at its end.
        measure("a start, and its session's pane", &at, start);
        // A chat is never left longer than twice what is kept of it: this one was made by hand.
        let chat = fs::read_dir(at.join("chat")).unwrap().next().unwrap().unwrap().path();
        lengthen(&chat, LOG);
        let sessions: Vec<String> = (0..CONVERSATIONS).map(|number| format!("s{number}")).collect();
        let mut samples = Vec::new();
        for _ in 0..STARTS {
            let began = Instant::now();
            let core = Core::new(options(&at)).unwrap();
            for session in &sessions {
                place(&core, session);
            }
            core.ready();
            for session in &sessions {
                view(&core, session).await;
            }
            samples.push(began.elapsed());
        }
        let floor = floor(&at);
        row("10 panes and their views, one of 50 MB", percentile(&mut samples, 0.5), floor);
        fs::remove_dir_all(at.join("chat")).unwrap();
        // It is written anew when it is longer than 4 MiB and twice what is of use: no log of so many receipts
        // comes to be longer than the first. The second was made by hand.
        let useful = fs::metadata(at.join("receipts")).unwrap().len();
        for length in [4 * MEGABYTE + 2 * useful, LOG] {
            lengthen(&at.join("receipts"), length);
            start_with_receipts(&at);
        }
    });
}

fn options(at: &Path) -> CoreOptions {
    CoreOptions { records: Some(FileRecords::open(at).unwrap()), ..CoreOptions::default() }
}

fn place(core: &Core, session: &str) -> Pane {
    let tab = core.workspace("w", "Work").unwrap().tab("t", "Tab").unwrap();
    tab.pane(session, PaneOptions { title: "A pane".into(), ..PaneOptions::default() }).unwrap()
}

fn start(at: &Path) -> (Core, Pane) {
    let core = Core::new(options(at)).unwrap();
    let pane = place(&core, "s0");
    core.ready();
    (core, pane)
}

fn start_with_receipts(at: &Path) {
    let receipts = at.join("receipts");
    let text = fs::read(&receipts).unwrap();
    let mut samples = Vec::new();
    for _ in 0..STARTS {
        let began = Instant::now();
        let started = start(at);
        samples.push(began.elapsed());
        drop(started);
        // It was written anew behind the start. On the disk, so that no start waits for that.
        fs::write(&receipts, &text).unwrap();
        fs::File::open(&receipts).unwrap().sync_all().unwrap();
    }
    let name = format!("a start with {} MB of receipts", text.len() as u64 / MEGABYTE);
    row(&name, percentile(&mut samples, 0.5), floor(at));
}

async fn view(core: &Core, session: &str) {
    let request = Request {
        method: "GET".to_owned(),
        target: format!("/durable/v1/panes/{session}/events"),
        ..Request::default()
    };
    assert_eq!(core.handle(request, Caller::Other).await.status, 200);
}

/// 10,000 receipts, and chats.
fn fill(at: &Path) {
    let core = Core::new(options(at)).unwrap();
    for conversation in 0..CONVERSATIONS {
        let pane = place(&core, &format!("s{conversation}"));
        for item in 0..ITEMS {
            pane.item(Item::reply(format!("item-{item}"), "x".repeat(5_000))).unwrap();
        }
    }
    drop(core);
    let receipts = FileReceipts::open(&at.join("receipts")).unwrap();
    for number in 0..10_000 {
        let receipt = Receipt {
            request_id: format!("request-{number}"),
            group: ReceiptGroup::Pane(format!("s{}", number % CONVERSATIONS)),
            digest: "0123456789abcdef0123456789abcdef".to_owned(),
            body: format!(r#"{{"ok":true,"requestId":"request-{number}","queued":false}}"#),
            answer: None,
            send: None,
        };
        receipts.put(receipt).unwrap();
    }
}

/// Repeats the lines of a log until it is long.
fn lengthen(log: &Path, length: u64) {
    let text = fs::read(log).unwrap();
    let first = text.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    let mut file = OpenOptions::new().append(true).open(log).unwrap();
    while file.metadata().unwrap().len() < length {
        file.write_all(&text[first..]).unwrap();
    }
}

fn measure<T>(what: &str, at: &Path, run: impl Fn(&Path) -> T) {
    let mut samples: Vec<Duration> = (0..STARTS)
        .map(|_| {
            let began = Instant::now();
            let _done = run(at);
            began.elapsed()
        })
        .collect();
    row(what, percentile(&mut samples, 0.5), floor(at));
}

/// Reading every byte of it.
fn floor(at: &Path) -> Duration {
    let began = Instant::now();
    for file in files(at) {
        fs::read(file).unwrap();
    }
    began.elapsed()
}

fn files(at: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(at).unwrap().map(|file| file.unwrap().path());
    found.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn size(at: &Path) -> u64 {
    files(at).iter().map(|file| fs::metadata(file).unwrap().len()).sum()
}

fn receipts_of(at: &Path) -> usize {
    fs::read_to_string(at.join("receipts")).unwrap().lines().count()
}
