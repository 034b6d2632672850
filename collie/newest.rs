//! The newest entries of a list in which a known id replaces in place.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The newest entries, in the order of their first appearance.
#[derive(Debug)]
pub(crate) struct Newest<T> {
    kept: VecDeque<(Arc<str>, T)>,
    /// How many entries were dropped from the front.
    dropped: usize,
    /// Where each id is, counted with the dropped ones.
    places: HashMap<Arc<str>, usize>,
    limit: usize,
}

impl<T> Newest<T> {
    pub(crate) fn new(limit: usize) -> Self {
        Self { kept: VecDeque::new(), dropped: 0, places: HashMap::new(), limit }
    }

    /// Adds an entry, or replaces the one of its id in place. Gives what went for it.
    pub(crate) fn put(&mut self, id: &str, value: T) -> Option<T> {
        let place = self.places.get(id).map(|place| place - self.dropped);
        if let Some((_, kept)) = place.and_then(|place| self.kept.get_mut(place)) {
            return Some(std::mem::replace(kept, value));
        }
        let id: Arc<str> = id.into();
        self.places.insert(id.clone(), self.dropped + self.kept.len());
        self.kept.push_back((id, value));
        if self.kept.len() > self.limit { self.drop_oldest() } else { None }
    }

    pub(crate) fn drop_oldest(&mut self) -> Option<T> {
        let (id, oldest) = self.kept.pop_front()?;
        self.places.remove(&id);
        self.dropped += 1;
        Some(oldest)
    }

    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &T)> {
        self.kept.iter().map(|(id, value)| (id, value))
    }

    /// There were older entries, which are no longer kept.
    pub(crate) fn has_dropped(&self) -> bool {
        self.dropped > 0
    }
}
