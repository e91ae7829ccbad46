//! A map that is bounded by forgetting: of too many entries the one that was used longest ago goes first.

use std::{borrow::Borrow, collections::BTreeMap, mem};

/// The entries that were used last, at most so many. Entries that are [held](Self::hold) stay, and are not counted.
///
/// ```
/// use quipu_engine::Recent;
///
/// let mut recent = Recent::new(2);
/// for key in ["a", "b", "a", "c"] {
///     recent.use_or_insert(key, || 0);
/// }
/// assert_eq!(recent.keys().collect::<Vec<_>>(), [&"a", &"c"]);
/// ```
#[derive(Debug)]
pub struct Recent<K, V> {
    max: usize,
    entries: BTreeMap<K, Entry<V>>,
    /// The keys of the entries that are not held, by when they were last used.
    order: BTreeMap<u64, K>,
    /// How many uses there were so far.
    uses: u64,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    /// The number of the last use; `None`: it is held.
    used: Option<u64>,
}

impl<K: Ord + Clone, V> Recent<K, V> {
    /// An empty map of at most `max` entries, besides those that are held.
    pub fn new(max: usize) -> Self {
        Self { max, entries: BTreeMap::new(), order: BTreeMap::new(), uses: 0 }
    }

    /// The number of entries, those that are held included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Is there an entry for this key?
    pub fn contains<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.entries.contains_key(key)
    }

    /// The value of an entry. This is no use of it.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// The value of an entry, to be changed. This is no use of it.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.entries.get_mut(key).map(|entry| &mut entry.value)
    }

    /// Uses an entry, if there is one.
    pub fn touch<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let entry = self.entries.get_mut(key)?;
        if let Some(used) = &mut entry.used
            && *used != self.uses
            && let Some(key) = self.order.remove(used)
        {
            self.uses += 1;
            *used = self.uses;
            self.order.insert(self.uses, key);
        }
        Some(&mut entry.value)
    }

    /// Uses an entry, which is made if there is none. Returns the entry that was forgotten for it, if one was.
    pub fn use_or_insert(&mut self, key: K, new: impl FnOnce() -> V) -> Option<(K, V)> {
        if self.touch(&key).is_some() {
            return None;
        }
        self.uses += 1;
        self.order.insert(self.uses, key.clone());
        self.entries.insert(key, Entry { value: new(), used: Some(self.uses) });
        self.forget_oldest()
    }

    /// Holds an entry: it stays until it is [let go](Self::let_go) or [removed](Self::remove).
    pub fn hold<Q: Ord + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        if let Some(used) = self.entries.get_mut(key).and_then(|entry| entry.used.take()) {
            self.order.remove(&used);
        }
    }

    /// An entry is held no more: this is its last use so far. Returns the entry that was forgotten for it, if one was.
    pub fn let_go<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<(K, V)>
    where
        K: Borrow<Q>,
    {
        let name = self.entries.get_key_value(key).filter(|(_, entry)| entry.used.is_none())?.0.clone();
        self.uses += 1;
        self.entries.get_mut(key)?.used = Some(self.uses);
        self.order.insert(self.uses, name);
        self.forget_oldest()
    }

    fn forget_oldest(&mut self) -> Option<(K, V)> {
        if self.order.len() <= self.max {
            return None;
        }
        let (_, oldest) = self.order.pop_first()?;
        let entry = self.entries.remove(&oldest)?;
        Some((oldest, entry.value))
    }

    /// Removes an entry, also one that is held.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let entry = self.entries.remove(key)?;
        if let Some(used) = entry.used {
            self.order.remove(&used);
        }
        Some(entry.value)
    }

    /// Keeps the entries of which `stays` is true.
    pub fn retain(&mut self, mut stays: impl FnMut(&K, &mut V) -> bool) {
        let order = &mut self.order;
        self.entries.retain(|key, entry| {
            let stays = stays(key, &mut entry.value);
            if let Some(used) = entry.used.filter(|_| !stays) {
                order.remove(&used);
            }
            stays
        });
    }

    /// The keys, in their order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.entries.keys()
    }

    /// The entries, in the order of their keys.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.entries.iter_mut().map(|(key, entry)| (key, &mut entry.value))
    }

    /// The values, in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values().map(|entry| &entry.value)
    }

    /// Moves everything out.
    pub fn take(&mut self) -> Self {
        let max = self.max;
        mem::replace(self, Self::new(max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(recent: &Recent<u32, u32>) -> Vec<u32> {
        recent.keys().copied().collect()
    }

    #[test]
    fn the_entry_used_longest_ago_goes_first() {
        let mut recent = Recent::new(3);
        for key in [1, 2, 3] {
            assert_eq!(recent.use_or_insert(key, || key * 10), None);
        }
        assert_eq!(recent.touch(&1), Some(&mut 10));
        assert_eq!(recent.get(&2), Some(&20), "to look is no use");
        assert_eq!(recent.use_or_insert(4, || 40), Some((2, 20)));
        assert_eq!(recent.use_or_insert(3, || 0), None);
        assert_eq!(recent.use_or_insert(0, || 0), Some((1, 10)));
        assert_eq!(keys(&recent), [0, 3, 4]);
    }

    #[test]
    fn what_is_held_stays_and_is_not_counted() {
        let mut recent = Recent::new(2);
        recent.use_or_insert(1, || 10);
        recent.hold(&1);
        for key in 2..10 {
            recent.use_or_insert(key, || 0);
        }
        assert_eq!(keys(&recent), [1, 8, 9]);
        assert_eq!(recent.touch(&1), Some(&mut 10));
        assert_eq!(recent.let_go(&1), Some((8, 0)));
        assert_eq!(recent.let_go(&1), None, "it is not held");
        assert_eq!(recent.use_or_insert(10, || 0), Some((9, 0)));
        assert_eq!(keys(&recent), [1, 10]);
    }

    #[test]
    fn what_is_removed_leaves_nothing() {
        let mut recent = Recent::new(4);
        for key in 0..4 {
            recent.use_or_insert(key, || key);
        }
        recent.hold(&3);
        assert_eq!((recent.remove(&3), recent.remove(&3)), (Some(3), None));
        recent.retain(|key, _| *key > 0);
        assert_eq!((keys(&recent), recent.order.len()), (vec![1, 2], 2));
    }
}
