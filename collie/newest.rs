//! The newest entries of a list in which a known id replaces in place.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use hashbrown::HashTable;

/// The newest entries, in the order of their first appearance.
#[derive(Debug)]
pub(crate) struct Newest<T> {
    kept: VecDeque<(Arc<str>, T)>,
    /// How many entries were dropped from the front.
    dropped: usize,
    /// Where each id is, counted with the dropped ones, modulo 2^32. The ids themselves are in `kept`: a hub
    /// holds many.
    places: HashTable<u32>,
    hasher: RandomState,
    limit: usize,
}

impl<T> Newest<T> {
    /// Keeps `limit` entries, less than 2^32.
    pub(crate) fn new(limit: usize) -> Self {
        let (kept, places, hasher) = (VecDeque::new(), HashTable::new(), RandomState::new());
        Self { kept, dropped: 0, places, hasher, limit }
    }

    /// Adds an entry, or replaces the one of its id in place. Gives what went for it.
    pub(crate) fn put(&mut self, id: &str, value: T) -> Option<T> {
        let hash = self.hasher.hash_one(id);
        let Self { kept, dropped, places, hasher, limit } = self;
        let at = |place: u32| index(place, *dropped);
        let is_id = |place: &u32| kept.get(at(*place)).is_some_and(|(known, _)| **known == *id);
        let place = places.find(hash, is_id).copied();
        if let Some((_, kept)) = place.and_then(|place| kept.get_mut(at(place))) {
            return Some(std::mem::replace(kept, value));
        }
        kept.push_back((id.into(), value));
        let place = low(*dropped + kept.len() - 1);
        let hash_at =
            |place: &u32| kept.get(at(*place)).map_or(0, |(id, _)| hasher.hash_one(&**id));
        places.insert_unique(hash, place, hash_at);
        if kept.len() > *limit { self.drop_oldest() } else { None }
    }

    pub(crate) fn drop_oldest(&mut self) -> Option<T> {
        let (id, oldest) = self.kept.pop_front()?;
        let first = low(self.dropped);
        if let Ok(place) =
            self.places.find_entry(self.hasher.hash_one(&*id), |&place| place == first)
        {
            place.remove();
        }
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

#[expect(clippy::cast_possible_truncation, reason = "places are counted modulo 2^32")]
fn low(place: usize) -> u32 {
    place as u32
}

/// Where a place is now.
fn index(place: u32, dropped: usize) -> usize {
    place.wrapping_sub(low(dropped)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_also_after_many_were_dropped() {
        let mut newest = Newest::new(3);
        newest.dropped = u32::MAX as usize - 1;
        for id in ["a", "b", "c", "d", "e", "f"] {
            newest.put(id, id.to_owned());
        }
        for id in ["d", "e", "f"] {
            assert_eq!(newest.put(id, format!("{id} again")).as_deref(), Some(id));
        }
        let ids: Vec<_> = newest.iter().map(|(id, _)| id.to_string()).collect();
        assert_eq!(ids, ["d", "e", "f"]);
        assert_eq!(newest.put("a", "a".to_owned()).as_deref(), Some("d again"), "the oldest goes");
        assert_eq!(newest.places.len(), 3);
    }
}
