//! The chat of one conversation on disk: its items, the newest of them.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::value::RawValue;

use super::ChatRecord;
use crate::collie::core::{Json, VIEW_LIMIT};
use crate::collie::log::{self, Log};
use crate::collie::newest::Newest;

const KIND: &str = "chat";
/// The most that is kept of one chat. Its file is at most twice as long, and a little more.
const BYTES: usize = 8 * 1024 * 1024;
const SLACK: u64 = 1024 * 1024;

/// A chat that is written to.
#[derive(Debug)]
pub(super) struct Chat {
    log: Log,
    path: PathBuf,
    /// How much of it was of use when that was looked at last. The items themselves are not kept here:
    /// there may be many chats.
    useful: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Line<'a> {
    Item(&'a RawValue),
    /// There were older items.
    Dropped(bool),
}

/// Newest items, with their sizes.
#[derive(Debug)]
struct Kept<T> {
    items: Newest<(usize, T)>,
    bytes: usize,
    has_dropped: bool,
}

impl<T> Kept<T> {
    fn new() -> Self {
        Self { items: Newest::new(VIEW_LIMIT), bytes: 0, has_dropped: false }
    }

    fn put(&mut self, id: &str, size: usize, value: T) {
        self.bytes += size;
        let mut gone = self.items.put(id, (size, value));
        while let Some((size, _)) = gone {
            self.bytes -= size;
            gone = if self.bytes > BYTES { self.items.drop_oldest() } else { None };
        }
        while self.bytes > BYTES
            && let Some((size, _)) = self.items.drop_oldest()
        {
            self.bytes -= size;
        }
    }

    /// Takes a record of the log; whether it is one.
    fn take(&mut self, record: &[u8], value: impl FnOnce(&[u8]) -> T) -> bool {
        if record == br#"{"dropped":true}"# {
            self.has_dropped = true;
            return true;
        }
        let Some((id, item)) = item_of(record) else {
            return false;
        };
        self.put(&id, item.len(), value(item));
        true
    }
}

/// An item of a record, and its id. The checksum has vouched for the text, so the rest of it is not
/// read here: a start is not to wait for that.
fn item_of(record: &[u8]) -> Option<(Cow<'_, str>, &[u8])> {
    let item = record.strip_prefix(br#"{"item":"#)?.strip_suffix(b"}")?;
    let id = item.strip_prefix(br#"{"id":"#)?;
    let id = serde_json::Deserializer::from_slice(id).into_iter().next()?.ok()?;
    Some((id, item))
}

impl Chat {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut kept = Kept::new();
        let log = Log::open(path, KIND, |record| kept.take(record, |_| ()))?;
        let mut chat = Self { log, path: path.to_owned(), useful: kept.bytes as u64 };
        chat.tidy()?;
        Ok(chat)
    }

    pub(super) fn append(&mut self, item: &Json) -> io::Result<()> {
        self.log.append(&Line::Item(item.raw()), false)?;
        self.tidy()
    }

    /// Writes it anew where most of it is of no use, so that each byte is written three times at most.
    fn tidy(&mut self) -> io::Result<()> {
        if self.log.bytes() <= SLACK + 2 * self.useful && !self.log.is_damaged() {
            return Ok(());
        }
        let ChatRecord { items, dropped_start } = read(&self.path)?;
        let dropped = dropped_start.then_some(Line::Dropped(true));
        let items = items.iter().map(|(_, item)| Line::Item(item.raw()));
        self.log.rewrite(dropped.into_iter().chain(items))?;
        self.useful = self.log.bytes();
        Ok(())
    }
}

/// Reads a chat, which may be written to meanwhile.
pub(super) fn read(path: &Path) -> io::Result<ChatRecord> {
    let mut kept = Kept::new();
    match log::read(path, KIND, |record| kept.take(record, |item| Box::<[u8]>::from(item))) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ChatRecord::default()),
        read => read?,
    }
    let dropped_start = kept.has_dropped || kept.items.has_dropped();
    let items = kept.items.iter().filter_map(|(id, (_, text))| {
        let item = serde_json::from_slice::<Box<RawValue>>(text).ok()?;
        Some((id.to_string(), Json::from(item)))
    });
    Ok(ChatRecord { items: items.collect(), dropped_start })
}

/// How many items a chat has.
pub(super) fn count(path: &Path) -> io::Result<usize> {
    let mut kept = Kept::new();
    match log::read(path, KIND, |record| kept.take(record, |_| ())) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        read => read.map(|()| kept.items.len()),
    }
}
