//! What a state file says, in memory: the rows, and the records that no checkpoint covers.

use std::collections::BTreeMap;

use super::entry::Entry;
use crate::{Position, Record, Row, ShardId, Slice, StorageError};

/// Everything that is stored.
#[derive(Debug, Default)]
pub(super) struct Image {
    logs: BTreeMap<ShardId, ShardLog>,
    rows: BTreeMap<(ShardId, Slice, Vec<u8>), Row>,
    floors: BTreeMap<ShardId, Slice>,
    /// Records that may or may not be stored: a commit of theirs has failed half-way.
    in_doubt: BTreeMap<ShardId, Record>,
    record_bytes: usize,
}

/// The log of a shard.
#[derive(Debug, Default)]
pub(super) struct ShardLog {
    /// Rises with every taking. Other processes are kept out by the lock, so this lives in memory.
    pub(super) fence: u64,
    pub(super) checkpoint: Position,
    pub(super) last: Position,
    /// After the checkpoint, without gaps.
    pub(super) records: Vec<Record>,
}

impl Image {
    /// Takes in an entry, in the order of the file. An error tells what does not fit.
    pub(super) fn apply(&mut self, entry: &Entry<'_>) -> Result<(), StorageError> {
        match *entry {
            Entry::Record { shard, position, bytes } => {
                let expected = self.log(shard).last.next();
                if position != expected {
                    return Err(StorageError::Gap { shard, expected, found: position });
                }
                self.record_bytes += bytes.len();
                let log = self.log(shard);
                log.last = position;
                log.records.push(Record { position, bytes: bytes.to_vec() });
            }
            Entry::Checkpoint { shard, position } => self.checkpoint(shard, position),
            Entry::Row { shard, slice, key, version, bytes } => {
                let floor = self.floors.get(&shard).copied().unwrap_or(Slice::KEPT);
                let is_dropped = slice < floor && slice != Slice::KEPT;
                let place = (shard, slice, key.to_vec());
                let is_newer = self.rows.get(&place).is_none_or(|row| row.version < version);
                if !is_dropped && is_newer {
                    self.rows.insert(place, Row { version, bytes: bytes.to_vec() });
                }
            }
            Entry::Floor { shard, slice } => {
                let known = self.floors.entry(shard).or_insert(Slice::KEPT);
                let floor = slice.max(*known);
                *known = floor;
                self.rows.retain(|(owner, slice, _), _| {
                    *owner != shard || *slice == Slice::KEPT || *slice >= floor
                });
            }
        }
        Ok(())
    }

    pub(super) fn log(&mut self, shard: ShardId) -> &mut ShardLog {
        self.logs.entry(shard).or_default()
    }

    pub(super) fn known_log(&self, shard: ShardId) -> Option<&ShardLog> {
        self.logs.get(&shard)
    }

    pub(super) fn rows(&self) -> &BTreeMap<(ShardId, Slice, Vec<u8>), Row> {
        &self.rows
    }

    /// Bytes of the records that no checkpoint covers.
    pub(super) fn record_bytes(&self) -> usize {
        self.record_bytes
    }

    /// Moves the mark. Records up to it go; and so do deleted rows: who deletes a row tells it to remember the version,
    /// until it cannot be written with an older one any more, and those who move a mark have written all rows up to it.
    fn checkpoint(&mut self, shard: ShardId, position: Position) {
        let log = self.log(shard);
        log.checkpoint = log.checkpoint.max(position);
        log.last = log.last.max(position);
        let passed = log.checkpoint;
        let (mut gone, mut all) = (0, std::mem::take(&mut log.records));
        all.retain(|record| {
            let stays = record.position > passed;
            gone += if stays { 0 } else { record.bytes.len() };
            stays
        });
        log.records = all;
        self.record_bytes -= gone;
        self.rows.retain(|(owner, ..), row| *owner != shard || !row.bytes.is_empty());
    }

    /// The commit of a record has failed half-way.
    pub(super) fn doubt(&mut self, shard: ShardId, record: Record) {
        self.in_doubt.insert(shard, record);
    }

    /// Somebody else has the shard: what was in doubt shall not be stored.
    pub(super) fn drop_doubt(&mut self, shard: ShardId) {
        self.in_doubt.remove(&shard);
    }

    /// What was in doubt is stored.
    pub(super) fn settle_doubts(&mut self) -> Result<(), StorageError> {
        for (shard, Record { position, bytes }) in std::mem::take(&mut self.in_doubt) {
            self.apply(&Entry::Record { shard, position, bytes: &bytes })?;
        }
        Ok(())
    }

    /// Shows all that a new file has to say, what is in doubt too.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        let floors = self.floors.iter().map(|(&shard, &slice)| Entry::Floor { shard, slice });
        let rows = self.rows.iter().map(|((shard, slice, key), row)| Entry::row(*shard, *slice, key, row));
        let marks = self.logs.iter().filter(|(_, log)| log.checkpoint > Position(0));
        let marks = marks.map(|(&shard, log)| Entry::Checkpoint { shard, position: log.checkpoint });
        let committed =
            self.logs.iter().flat_map(|(shard, log)| log.records.iter().map(move |it| (shard, it)));
        let records = committed.chain(&self.in_doubt);
        let records = records.map(|(&shard, Record { position, bytes })| Entry::Record {
            shard,
            position: *position,
            bytes,
        });
        // Marks before rows: a mark drops the deleted rows before it.
        marks.chain(floors).chain(rows).chain(records)
    }
}
