//! Receipts that die with the process (N113).

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

use super::{Lookup, RECEIPTS_PER_GROUP, Receipt, ReceiptGroup, ReceiptStore, StoredAnswer};

/// How many dropped ids are remembered.
const DROPPED_LIMIT: usize = 1_000_000;

/// The newest receipts of each group, in memory. The default of a core, and what
/// [`open`](crate::collie::open) always uses (N110, N115).
#[derive(Debug, Default)]
pub struct MemoryReceipts {
    index: Mutex<Index>,
}

impl MemoryReceipts {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReceiptStore for MemoryReceipts {
    fn get(&self, request_id: &str) -> Lookup {
        self.index().get(request_id)
    }

    fn begin(&self, _request_id: &str) -> io::Result<()> {
        Ok(())
    }

    fn put(&self, receipt: Receipt) -> io::Result<()> {
        self.index().put(receipt);
        Ok(())
    }

    fn abandon(&self, _request_id: &str) -> io::Result<()> {
        Ok(())
    }

    fn taken(&self, _pane_id: &str, _ask_id: &str) -> io::Result<()> {
        Ok(())
    }

    fn untaken(&self) -> Vec<StoredAnswer> {
        Vec::new()
    }

    fn may_block(&self) -> bool {
        false
    }
}

/// What both stores look up: the newest receipts of each group, and digests of the dropped ids.
#[derive(Debug, Default)]
pub(super) struct Index {
    receipts: HashMap<String, Receipt>,
    /// The ids of each group, the oldest first.
    groups: HashMap<ReceiptGroup, VecDeque<String>>,
    dropped: Dropped,
}

impl Index {
    pub(super) fn get(&self, request_id: &str) -> Lookup {
        match self.receipts.get(request_id) {
            Some(receipt) => Lookup::Kept(Box::new(receipt.clone())),
            None if self.dropped.holds(request_id) => Lookup::Dropped,
            None => Lookup::New,
        }
    }

    pub(super) fn put(&mut self, receipt: Receipt) {
        if let Some(kept) = self.receipts.get_mut(&receipt.request_id) {
            *kept = receipt;
            return;
        }
        let id = receipt.request_id.clone();
        if !self.groups.contains_key(&receipt.group) {
            self.groups.insert(receipt.group.clone(), VecDeque::new());
        }
        let Some(group) = self.groups.get_mut(&receipt.group) else { return };
        group.push_back(id.clone());
        self.receipts.insert(id, receipt);
        if group.len() > RECEIPTS_PER_GROUP
            && let Some(oldest) = group.pop_front()
        {
            self.receipts.remove(&oldest);
            self.dropped.insert(digest_of(&oldest));
        }
    }
}

impl Index {
    pub(super) fn has_group(&self, group: &ReceiptGroup) -> bool {
        self.groups.contains_key(group)
    }

    /// Lets go of a group: what belonged to it must not run again.
    pub(super) fn drop_group(&mut self, group: &ReceiptGroup) {
        for id in self.groups.remove(group).unwrap_or_default() {
            self.receipts.remove(&id);
            self.dropped.insert(digest_of(&id));
        }
    }

    /// Every receipt, the oldest of each group first.
    pub(super) fn oldest_first(&self) -> impl Iterator<Item = &Receipt> {
        self.groups.values().flatten().filter_map(|id| self.receipts.get(id))
    }

    pub(super) fn dropped_digests(&self) -> Vec<u64> {
        self.dropped.order.iter().copied().collect()
    }

    pub(super) fn drop_digests(&mut self, digests: Vec<u64>) {
        for digest in digests {
            self.dropped.insert(digest);
        }
    }
}

/// Ids whose receipts are gone, as 8-byte digests: of a million, one more is taken for one of them
/// once in 18 million million, and then refused, not run.
#[derive(Debug, Default)]
struct Dropped {
    digests: HashSet<u64>,
    /// Oldest first.
    order: VecDeque<u64>,
}

fn digest_of(id: &str) -> u64 {
    Sha256::digest(id.as_bytes()).iter().take(8).fold(0, |all, &byte| (all << 8) | u64::from(byte))
}

impl Dropped {
    fn holds(&self, id: &str) -> bool {
        self.digests.contains(&digest_of(id))
    }

    fn insert(&mut self, digest: u64) {
        if self.digests.insert(digest) {
            self.order.push_back(digest);
        }
        if self.order.len() > DROPPED_LIMIT
            && let Some(oldest) = self.order.pop_front()
        {
            self.digests.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt(id: &str, group: ReceiptGroup) -> Receipt {
        let (request_id, digest, body) = (id.to_owned(), String::new(), "{}".to_owned());
        Receipt { request_id, group, digest, body, answer: None, send: None }
    }

    #[test]
    fn n110_n111_n112_the_newest_thousand_of_each_group_are_kept() {
        let store = MemoryReceipts::new();
        let pane = |id: &str| ReceiptGroup::Pane(id.to_owned());
        let others = [
            ("other", pane("q")),
            ("started", ReceiptGroup::Start),
            ("renamed", ReceiptGroup::Rename),
            ("closed", ReceiptGroup::Close),
            ("reopened", ReceiptGroup::Reopen),
        ];
        for (id, group) in others.clone() {
            store.put(receipt(id, group)).unwrap();
        }
        for number in 0..=RECEIPTS_PER_GROUP {
            store.put(receipt(&format!("r{number}"), pane("p"))).unwrap();
        }
        assert_eq!(store.get("r0"), Lookup::Dropped);
        assert!(matches!(store.get("r1"), Lookup::Kept(_)));
        for (id, _) in others {
            assert!(matches!(store.get(id), Lookup::Kept(_)), "{id}");
        }
        assert_eq!(store.get("never"), Lookup::New);
    }
}
