//! What a store knows about its shards: fences, positions, checkpoints.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard},
};

use super::{
    frame::{self, Entry, Kind},
    wal::Shards,
};
use crate::{Position, Record, ShardId, StorageError, Taken};

/// One shard's place in the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Fence {
    /// Rises with every taking. Other processes are kept out by the folder's lock, so this one lives in memory; it
    /// is written with every batch to tell which of two owners' records counts.
    pub epoch: u64,
    /// Everything up to here is in the table, and the log says so durably.
    pub checkpoint: Position,
    /// The newest committed record.
    pub last: Position,
}

#[derive(Debug, Default)]
pub(super) struct ShardMap {
    fences: Mutex<BTreeMap<ShardId, Fence>>,
    /// What recovery read, until the shard is opened for the first time.
    recovered: Mutex<BTreeMap<ShardId, Vec<Record>>>,
}

const POISONED: &str = "a thread that changed a shard's fence panicked";

impl ShardMap {
    fn fences(&self) -> MutexGuard<'_, BTreeMap<ShardId, Fence>> {
        self.fences.lock().expect(POISONED)
    }

    /// From what recovery found in all logs.
    pub(super) fn from_entries(found: BTreeMap<ShardId, Found>) -> Result<Self, StorageError> {
        let map = Self::default();
        for (shard, found) in found {
            let (epoch, checkpoint) = (found.epoch, found.checkpoint);
            let records = found.resolve(checkpoint);
            let last = records.last().map_or(checkpoint, |record| record.position);
            let mut expected = checkpoint;
            for record in &records {
                expected = expected.next();
                if record.position != expected {
                    return Err(StorageError::Gap { shard, expected, found: record.position });
                }
            }
            map.fences().insert(shard, Fence { epoch, checkpoint, last });
            map.recovered.lock().expect(POISONED).insert(shard, records);
        }
        Ok(map)
    }

    pub(super) fn get(&self, shard: ShardId) -> Fence {
        self.fences().get(&shard).copied().unwrap_or_default()
    }

    /// Takes the fence: from now on the former owner's commits are refused.
    pub(super) fn take(&self, shard: ShardId) -> u64 {
        let mut fences = self.fences();
        let fence = fences.entry(shard).or_default();
        fence.epoch += 1;
        fence.epoch
    }

    pub(super) fn taken(&self, shard: ShardId) -> Taken {
        let Fence { checkpoint, last, .. } = self.get(shard);
        Taken { checkpoint, last }
    }

    /// The records that recovery read, if nothing was committed since.
    pub(super) fn take_recovered(&self, shard: ShardId) -> Option<Vec<Record>> {
        let records = self.recovered.lock().expect(POISONED).remove(&shard)?;
        (records.last()?.position == self.get(shard).last).then_some(records)
    }

    pub(super) fn commit(&self, shard: ShardId, position: Position) {
        let mut fences = self.fences();
        let fence = fences.entry(shard).or_default();
        fence.last = fence.last.max(position);
    }

    pub(super) fn checkpoint(&self, shard: ShardId, position: Position) {
        let mut fences = self.fences();
        let fence = fences.entry(shard).or_default();
        fence.checkpoint = fence.checkpoint.max(position);
    }
}

impl Shards for ShardMap {
    fn snapshot(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        for (&shard, fence) in self.fences().iter().filter(|(_, fence)| fence.checkpoint > Position(0)) {
            let Fence { epoch, checkpoint: position, .. } = *fence;
            frame::encode_entry(
                &mut payload,
                Entry { kind: Kind::Checkpoint, shard, epoch, position, record: &[] },
            );
        }
        payload
    }

    fn is_current(&self, shard: ShardId, epoch: u64) -> bool {
        self.get(shard).epoch == epoch
    }

    fn stored(&self, shard: ShardId, position: Position) {
        self.commit(shard, position);
    }
}

/// What the files say about one shard, gathered from all workers' logs.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub epoch: u64,
    pub checkpoint: Position,
    batches: Vec<(u64, Record)>,
}

impl Found {
    pub(super) fn add(&mut self, entry: Entry<'_>) {
        self.epoch = self.epoch.max(entry.epoch);
        match entry.kind {
            Kind::Checkpoint => self.checkpoint = self.checkpoint.max(entry.position),
            Kind::Batch => {
                let record = Record { position: entry.position, bytes: entry.record.to_vec() };
                self.batches.push((entry.epoch, record));
            }
        }
    }

    /// The records after `after`, in order. Where owners overlap, the later fence counts: what an earlier owner wrote
    /// from the later one's first position on was never reported.
    pub(super) fn resolve(self, after: Position) -> Vec<Record> {
        let mut batches = self.batches;
        batches.sort_by_key(|(epoch, record)| std::cmp::Reverse((*epoch, record.position)));
        let mut before = Position(u64::MAX);
        let mut records = Vec::new();
        for (_, record) in batches {
            if record.position < before {
                before = record.position;
                records.push(record);
            }
        }
        records.retain(|record| record.position > after);
        records.reverse();
        records
    }
}
