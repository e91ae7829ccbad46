//! The log of a state file.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Shared, State,
    entry::Entry,
    image::{Image, ShardLog},
    lock,
    writer::AppendError,
};
use crate::{
    BATCH_BYTES_MAX, Batch, Flush, Log, Mark, Outcome, Position, Record, Settled, ShardId, StorageError,
    Taken, embedded::Disk,
};

/// A log of a state file. Everything is flushed at once, whatever was asked for.
#[derive(Debug)]
pub struct FileLog<D: Disk> {
    shared: Shared<D>,
    fences: BTreeMap<ShardId, u64>,
    /// Commits that have failed half-way.
    unsettled: BTreeMap<ShardId, Position>,
}

impl<D: Disk> FileLog<D> {
    pub(super) fn new(shared: Shared<D>) -> Self {
        Self { shared, fences: BTreeMap::new(), unsettled: BTreeMap::new() }
    }

    /// The shard's log, if its fence is ours.
    fn own<'a>(&self, image: &'a Image, shard: ShardId) -> Result<&'a ShardLog, StorageError> {
        let fence = *self.fences.get(&shard).ok_or(StorageError::NotOpen(shard))?;
        let log = image.known_log(shard).ok_or(StorageError::NotOpen(shard))?;
        if log.fence == fence { Ok(log) } else { Err(StorageError::Fenced(shard)) }
    }

    fn admit(
        &self,
        image: &Image,
        batch: &Batch,
        seen: &mut BTreeSet<ShardId>,
    ) -> Result<Position, StorageError> {
        let shard = batch.shard;
        let position = self.own(image, shard)?.last.next();
        if self.unsettled.contains_key(&shard) {
            return Err(StorageError::Unsettled(shard));
        }
        let bytes = batch.record.len();
        if bytes > BATCH_BYTES_MAX {
            return Err(StorageError::TooLarge { what: "a batch", bytes, max: BATCH_BYTES_MAX });
        }
        if !seen.insert(shard) {
            return Err(StorageError::Twice(shard));
        }
        Ok(position)
    }

    /// Stores records, or says what became of them: `InDoubt` for all that it is not known of any.
    fn store(state: &mut State<D>, records: &[(&Batch, Position)]) -> Result<(), AppendError> {
        let State { image, writer } = state;
        writer.ready(image).map_err(AppendError::NotStored)?;
        let entries = || {
            records.iter().map(|(batch, position)| Entry::Record {
                shard: batch.shard,
                position: *position,
                bytes: &batch.record,
            })
        };
        let mut payload = Vec::new();
        entries().for_each(|entry| entry.encode(&mut payload));
        match writer.append(&payload) {
            Ok(()) => entries().try_for_each(|entry| image.apply(&entry)).map_err(AppendError::InDoubt),
            Err(AppendError::InDoubt(_)) => {
                for (batch, position) in records {
                    image.doubt(batch.shard, Record { position: *position, bytes: batch.record.clone() });
                }
                writer.write_anew(image).map_err(AppendError::InDoubt)
            }
            Err(error) => Err(error),
        }
    }
}

fn standing(log: &ShardLog) -> Taken {
    Taken { checkpoint: log.checkpoint, last: log.last }
}

impl<D: Disk> Log for FileLog<D> {
    fn take(&mut self, shard: ShardId) -> Result<Taken, StorageError> {
        let mut state = lock(&self.shared);
        let image = &mut state.image;
        // The file is in doubt, if anything is: it is written anew before the new owner commits.
        image.drop_doubt(shard);
        let log = image.log(shard);
        log.fence += 1;
        self.fences.insert(shard, log.fence);
        self.unsettled.remove(&shard);
        Ok(standing(log))
    }

    fn read(&mut self, shard: ShardId, after: Position) -> Result<Vec<Record>, StorageError> {
        let state = lock(&self.shared);
        let records = &self.own(&state.image, shard)?.records;
        Ok(records.iter().filter(|record| record.position > after).cloned().collect())
    }

    fn commit(&mut self, batches: &[Batch], _: Flush) -> Vec<Outcome> {
        let shared = Shared::clone(&self.shared);
        let mut state = lock(&shared);
        let mut seen = BTreeSet::new();
        let mut outcomes = Vec::with_capacity(batches.len());
        let mut admitted = Vec::with_capacity(batches.len());
        for batch in batches {
            outcomes.push(match self.admit(&state.image, batch, &mut seen) {
                Ok(position) => {
                    admitted.push((outcomes.len(), batch, position));
                    Outcome::Committed { position }
                }
                Err(StorageError::Fenced(_)) => Outcome::Fenced,
                Err(error) => Outcome::Failed(error),
            });
        }
        if admitted.is_empty() {
            return outcomes;
        }
        let records: Vec<_> = admitted.iter().map(|(_, batch, position)| (*batch, *position)).collect();
        if let Err(failed) = Self::store(&mut state, &records) {
            for (at, batch, position) in admitted {
                outcomes[at] = match &failed {
                    AppendError::NotStored(error) => Outcome::Failed(error.clone()),
                    AppendError::InDoubt(error) => {
                        self.unsettled.insert(batch.shard, position);
                        Outcome::Unknown(error.clone())
                    }
                };
            }
        }
        outcomes
    }

    fn flush(&mut self) -> Result<(), StorageError> {
        Ok(()) // Nothing waits.
    }

    fn settle(&mut self, shard: ShardId) -> Settled {
        let Some(&position) = self.unsettled.get(&shard) else { return Settled::Nothing };
        let shared = Shared::clone(&self.shared);
        let mut state = lock(&shared);
        let State { image, writer } = &mut *state;
        if self.own(image, shard).is_err() {
            self.unsettled.remove(&shard);
            return Settled::Lost;
        }
        // It may have been stored since, with those of another shard.
        if let Err(error) = writer.ready(image) {
            return Settled::Unknown(error);
        }
        self.unsettled.remove(&shard);
        Settled::Committed { position }
    }

    fn checkpoint(&mut self, marks: &[Mark]) -> Result<(), StorageError> {
        let mut state = lock(&self.shared);
        let State { image, writer } = &mut *state;
        for &Mark { shard, position } in marks {
            let last = self.own(image, shard)?.last;
            if position > last {
                return Err(StorageError::Beyond { shard, position, last });
            }
        }
        writer.ready(image)?;
        let entries = || marks.iter().map(|&Mark { shard, position }| Entry::Checkpoint { shard, position });
        let mut payload = Vec::new();
        entries().for_each(|entry| entry.encode(&mut payload));
        writer.append(&payload)?;
        entries().try_for_each(|entry| image.apply(&entry))?;
        if writer.is_untidy() {
            // If that fails the file is as it was, or is written anew before anything else: no harm.
            let _ = writer.write_anew(image);
        }
        Ok(())
    }

    fn confirm(&mut self, shard: ShardId) -> Result<Taken, StorageError> {
        let state = lock(&self.shared);
        self.own(&state.image, shard).map(standing)
    }
}
