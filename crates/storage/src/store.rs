//! A log and a table together: the one recovery, and the one order of a checkpoint.

use crate::{
    Batch, Fenced, Flush, Log, Mark, Outcome, Position, Record, Settled, ShardId, StorageError, Table, Taken,
    Write,
};

/// What a shard had committed: the rows of the table, and these records on top of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// The table holds at least everything up to here. (It may already hold rows of later records: replaying
    /// those changes nothing, because their versions are not higher.)
    pub checkpoint: Position,
    /// All records after the checkpoint, in order, without gaps.
    pub records: Vec<Record>,
}

impl Recovered {
    /// The position of the newest record.
    pub fn last(&self) -> Position {
        self.records.last().map_or(self.checkpoint, |record| record.position)
    }
}

/// The log and the table that one worker drives.
#[derive(Debug)]
pub struct Store<L, T> {
    log: L,
    table: T,
}

impl<L: Log, T: Table> Store<L, T> {
    /// Puts the two together.
    pub fn new(log: L, table: T) -> Self {
        Self { log, table }
    }

    /// The table, for reads and scans.
    pub fn table(&self) -> &T {
        &self.table
    }

    /// The log, for what is not said here.
    pub fn log(&mut self) -> &mut L {
        &mut self.log
    }

    /// Takes the shard's fence and recovers what was committed.
    pub fn open(&mut self, shard: ShardId) -> Result<Recovered, StorageError> {
        // Fence first: what the former owner commits between a read and the fence would be lost.
        let taken = self.log.take(shard)?;
        self.recover(shard, taken)
    }

    /// The same, if the fence stands as it was seen: see [`Log::take_seen`].
    pub fn open_seen(
        &mut self,
        shard: ShardId,
        seen: Option<Fenced>,
    ) -> Result<Option<Recovered>, StorageError> {
        let taken = self.log.take_seen(shard, seen)?;
        taken.map(|taken| self.recover(shard, taken)).transpose()
    }

    /// Reads again what a shard of ours has committed, for memory that holds the effects of a batch that failed.
    pub fn reload(&mut self, shard: ShardId) -> Result<Recovered, StorageError> {
        let standing = self.log.confirm(shard)?;
        self.recover(shard, standing)
    }

    fn recover(&mut self, shard: ShardId, standing: Taken) -> Result<Recovered, StorageError> {
        let Taken { checkpoint, last } = standing;
        let records = self.log.read(shard, checkpoint)?;
        let mut expected = checkpoint.next();
        for record in &records {
            if record.position != expected {
                return Err(StorageError::Gap { shard, expected, found: record.position });
            }
            expected = expected.next();
        }
        if expected != last.next() {
            return Err(StorageError::Gap { shard, expected, found: last });
        }
        Ok(Recovered { checkpoint, records })
    }

    /// Commits batches: see [`Log::commit`].
    pub fn commit(&mut self, batches: &[Batch], flush: Flush) -> Vec<Outcome> {
        self.log.commit(batches, flush)
    }

    /// Begins to commit batches: see [`Log::begin`].
    pub fn begin(&mut self, batches: Vec<Batch>, flush: Flush) -> Vec<Option<Outcome>> {
        self.log.begin(batches, flush)
    }

    /// What became of commits that were under way: see [`Log::finished`].
    pub fn finished(&mut self, wait: bool) -> Vec<(ShardId, Outcome)> {
        self.log.finished(wait)
    }

    /// Finds out about an unknown outcome: see [`Log::settle`].
    pub fn settle(&mut self, shard: ShardId) -> Settled {
        self.log.settle(shard)
    }

    /// Writes the rows of committed records up to `position`, and only of those; then moves the mark and lets the log forget them.
    pub fn checkpoint(
        &mut self,
        shard: ShardId,
        position: Position,
        rows: &[Write],
    ) -> Result<(), StorageError> {
        // Records before rows: rows of a record that a crash takes back would stand for another one later.
        self.log.flush()?;
        // Rows before the mark: a mark without its rows is a hole that no recovery fills.
        self.table.put(shard, rows)?;
        self.log.checkpoint(&[Mark { shard, position }])
    }
}
