//! The counters of a shard that are in memory: a slab of entries and an index into it.
//!
//! An entry costs 48 bytes, its key, and five to nine bytes in the index. What is not needed lately and stands in the
//! table may be evicted, by a clock hand that walks over the slab.

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

use crate::{counter::Counter, record::Before};

/// Entries are allocated so many at a time: a slab that doubled would waste half of what it has.
const CHUNK_ENTRIES: usize = 1024;

/// What one entry costs in memory, besides its key.
const ENTRY_BYTES: usize = size_of::<Entry>() + 9;

/// Where an entry stands.
pub(crate) type Index = u32;

/// What is known of an entry besides its counter.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Flags {
    /// Used since the clock hand came by.
    pub(crate) used: bool,
    /// Changed in the batch that is being made.
    pub(crate) touched: bool,
    /// Changed since the last checkpoint began.
    pub(crate) unsaved: bool,
    /// Being written by the checkpoint under way.
    pub(crate) saving: bool,
    /// In the list of those that the table may not have.
    pub(crate) fresh: bool,
    /// The table has a row for it that is not deleted.
    pub(crate) in_table: bool,
    /// How it was before what no other site has heard of is noted.
    pub(crate) noted: bool,
}

impl Flags {
    const BITS: u32 = 7;

    fn pack(self) -> u64 {
        let Self { used, touched, unsaved, saving, fresh, in_table, noted } = self;
        let bits = [used, touched, unsaved, saving, fresh, in_table, noted];
        bits.into_iter().fold(0, |packed, bit| packed << 1 | u64::from(bit))
    }

    fn unpack(packed: u64) -> Self {
        let bit = |at: u32| packed >> (Self::BITS - 1 - at) & 1 == 1;
        Self {
            used: bit(0),
            touched: bit(1),
            unsaved: bit(2),
            saving: bit(3),
            fresh: bit(4),
            in_table: bit(5),
            noted: bit(6),
        }
    }
}

/// The highest number of a change: it shares eight bytes with the flags.
pub(crate) const VERSION_MAX: u64 = u64::MAX >> Flags::BITS;

#[derive(Debug, Default)]
pub(crate) struct Entry {
    pub(crate) key: Box<[u8]>,
    /// `None`: there is no such counter (any more).
    pub(crate) counter: Option<Counter>,
    /// The number of its last change, and the flags.
    version_and_flags: u64,
}

impl Entry {
    /// The number of its last change.
    pub(crate) fn version(&self) -> u64 {
        self.version_and_flags >> Flags::BITS
    }

    pub(crate) fn set_version(&mut self, version: u64) {
        debug_assert!(version <= VERSION_MAX);
        self.version_and_flags = version << Flags::BITS | self.flags().pack();
    }

    pub(crate) fn flags(&self) -> Flags {
        Flags::unpack(self.version_and_flags)
    }

    pub(crate) fn flag<R>(&mut self, change: impl FnOnce(&mut Flags) -> R) -> R {
        let mut flags = self.flags();
        let result = change(&mut flags);
        self.version_and_flags = self.version() << Flags::BITS | flags.pack();
        result
    }

    pub(crate) fn exists(&self) -> bool {
        self.counter.as_ref().is_some_and(Counter::exists)
    }

    fn bytes(&self) -> usize {
        ENTRY_BYTES + self.key.len() + self.counter.as_ref().map_or(0, Counter::heap_bytes)
    }
}

#[derive(Debug)]
pub(crate) struct Counters {
    chunks: Vec<Vec<Entry>>,
    free: Vec<Index>,
    index: HashTable<Index>,
    hasher: FixedState,
    hand: usize,
    bytes: usize,
    /// Counters are noted as they were before their first change after this number.
    note_since: Option<u64>,
    noted: Vec<Before>,
}

/// Where an index points.
fn place(index: Index) -> (usize, usize) {
    let index = index as usize;
    (index / CHUNK_ENTRIES, index % CHUNK_ENTRIES)
}

fn entry(chunks: &[Vec<Entry>], index: Index) -> &Entry {
    let (chunk, at) = place(index);
    &chunks[chunk][at]
}

impl Counters {
    /// Empty. The seed keeps clients from choosing keys that collide.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            chunks: Vec::new(),
            free: Vec::new(),
            index: HashTable::new(),
            hasher: FixedState::with_seed(seed),
            hand: 0,
            bytes: 0,
            note_since: None,
            noted: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn find(&self, key: &[u8]) -> Option<Index> {
        let hash = self.hasher.hash_one(key);
        self.index.find(hash, |index| *entry(&self.chunks, *index).key == *key).copied()
    }

    /// Where all entries stand.
    pub(crate) fn indexes(&self) -> impl Iterator<Item = Index> {
        self.index.iter().copied()
    }

    pub(crate) fn get(&self, index: Index) -> &Entry {
        entry(&self.chunks, index)
    }

    /// From now on counters are noted as they were before their first change after this number, or not any more.
    pub(crate) fn note_since(&mut self, since: Option<u64>) {
        self.note_since = since;
        self.noted.clear();
    }

    /// What was noted since this was last called.
    pub(crate) fn take_noted(&mut self) -> Vec<Before> {
        std::mem::take(&mut self.noted)
    }

    /// Changes a counter.
    pub(crate) fn change<R>(&mut self, index: Index, change: impl FnOnce(&mut Entry) -> R) -> R {
        if let Some(since) = self.note_since {
            self.note(index, since);
        }
        self.put(index, change)
    }

    fn note(&mut self, index: Index, since: u64) {
        let (chunk, at) = place(index);
        let entry = &mut self.chunks[chunk][at];
        if entry.version() <= since && !entry.flag(|flags| std::mem::replace(&mut flags.noted, true)) {
            let (key, version, counter) = (entry.key.clone(), entry.version(), entry.counter.clone());
            self.noted.push(Before { key, version, counter, since });
        }
    }

    /// Puts into an entry what was stored of it, or says of it what is stored, and keeps account of what it costs.
    pub(crate) fn put<R>(&mut self, index: Index, change: impl FnOnce(&mut Entry) -> R) -> R {
        let (chunk, at) = place(index);
        let entry = &mut self.chunks[chunk][at];
        let before = entry.bytes();
        let result = change(entry);
        self.bytes = self.bytes + entry.bytes() - before;
        result
    }

    /// Changes the flags of an entry, which cost nothing.
    pub(crate) fn flag<R>(&mut self, index: Index, change: impl FnOnce(&mut Flags) -> R) -> R {
        let (chunk, at) = place(index);
        self.chunks[chunk][at].flag(change)
    }

    /// Adds an entry for a key that has none.
    pub(crate) fn insert(&mut self, key: &[u8]) -> Index {
        let new = Entry { key: key.into(), ..Entry::default() };
        self.bytes += new.bytes();
        let index = match self.free.pop() {
            Some(index) => {
                let (chunk, at) = place(index);
                self.chunks[chunk][at] = new;
                index
            }
            None => self.push(new),
        };
        let chunks = &self.chunks;
        let hasher = &self.hasher;
        let hash = hasher.hash_one(key);
        self.index.insert_unique(hash, index, |index| hasher.hash_one(&*entry(chunks, *index).key));
        index
    }

    fn push(&mut self, new: Entry) -> Index {
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK_ENTRIES) {
            self.chunks.push(Vec::with_capacity(CHUNK_ENTRIES));
        }
        let chunk = self.chunks.len() - 1;
        self.chunks[chunk].push(new);
        let index = chunk * CHUNK_ENTRIES + self.chunks[chunk].len() - 1;
        Index::try_from(index).expect("a shard has fewer than 2^32 counters in memory")
    }

    fn remove(&mut self, index: Index) {
        let (chunk, at) = place(index);
        let hash = self.hasher.hash_one(&*self.chunks[chunk][at].key);
        if let Ok(found) = self.index.find_entry(hash, |other| *other == index) {
            found.remove();
        }
        self.bytes -= self.chunks[chunk][at].bytes();
        self.chunks[chunk][at] = Entry::default();
        self.free.push(index);
    }

    /// Looks at up to `looks` entries and evicts those that `may_go` and were not used since the hand last came by,
    /// until no more than `bytes_max` are used. Returns how many went that the table must be asked for.
    pub(crate) fn evict(&mut self, bytes_max: usize, looks: usize, may_go: impl Fn(&Entry) -> bool) -> usize {
        let all = self.chunks.len() * CHUNK_ENTRIES;
        let mut gone = 0;
        for _ in 0..looks.min(2 * all) {
            if self.bytes <= bytes_max {
                break;
            }
            self.hand = (self.hand + 1) % all;
            let (chunk, at) = (self.hand / CHUNK_ENTRIES, self.hand % CHUNK_ENTRIES);
            let Some(entry) = self.chunks[chunk].get_mut(at) else { continue };
            if entry.key.is_empty() || !may_go(entry) {
                continue;
            }
            if entry.flag(|flags| std::mem::take(&mut flags.used)) {
                continue;
            }
            gone += usize::from(entry.counter.is_some());
            self.remove(Index::try_from(self.hand).expect("it was an index when it was inserted"));
        }
        gone
    }

    /// Lets go of an entry that stands for no counter, and that no list has.
    pub(crate) fn forget(&mut self, index: Index) {
        debug_assert!(self.get(index).counter.is_none());
        self.remove(index);
    }
}
