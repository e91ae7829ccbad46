//! One worker's logs: the calls of [`Log`], each of which waits for what runs side by side behind it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Instant,
};

use futures_util::{StreamExt, TryStreamExt, future::try_join_all, stream};
use quipu_storage::{
    BATCH_BYTES_MAX, Batch, Flush, Log, Mark, Outcome, Position, Record, Settled, ShardId, StorageError,
    Taken,
};
use uuid::Uuid;

use crate::{
    body::{self, Body, INLINE_BYTES_MAX},
    error::{unanswered, while_doing},
    fence::{self, shard_number, stored},
    issue::{Decision, Entry, Pending, Progress, issue},
    store::{Inner, Link},
};

/// How many records are asked for at once, and how many such requests are under way.
const RECORDS_PER_READ: u64 = 256;
const READS_AT_ONCE: usize = 4;

/// The logs of the shards that one worker owns.
#[derive(Debug)]
pub struct CassandraLog {
    inner: Arc<Inner>,
    fences: BTreeMap<ShardId, Fence>,
    unsettled: BTreeMap<ShardId, Pending>,
}

/// A shard that was taken.
#[derive(Debug, Clone, Copy)]
struct Fence {
    /// Under which name.
    owner: Uuid,
    /// The newest record that is known to be stored.
    last: Position,
    /// Somebody else has it now.
    is_lost: bool,
    /// Up to here there may be bytes of records beside the log; 0 if there are none.
    parts_to: Position,
}

impl CassandraLog {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        Self { inner, fences: BTreeMap::new(), unsettled: BTreeMap::new() }
    }

    fn link(&self) -> Arc<Link> {
        Arc::clone(&self.inner.link)
    }

    fn fence(&self, shard: ShardId) -> Result<Fence, StorageError> {
        match self.fences.get(&shard) {
            Some(fence) if fence.is_lost => Err(StorageError::Fenced(shard)),
            Some(fence) => Ok(*fence),
            None => Err(StorageError::NotOpen(shard)),
        }
    }

    fn lose(&mut self, shard: ShardId) {
        if let Some(fence) = self.fences.get_mut(&shard) {
            fence.is_lost = true;
        }
    }

    /// Passes an error on; that a shard is somebody else's is remembered.
    fn note<T>(&mut self, result: Result<T, StorageError>) -> Result<T, StorageError> {
        if let Err(StorageError::Fenced(shard)) = &result {
            self.lose(*shard);
        }
        result
    }

    fn admit(&self, batch: &Batch, seen: &mut BTreeSet<ShardId>) -> Result<Entry, StorageError> {
        let Batch { shard, record } = batch;
        let fence = self.fence(*shard)?;
        if self.unsettled.contains_key(shard) {
            return Err(StorageError::Unsettled(*shard));
        }
        let bytes = record.len();
        if bytes > BATCH_BYTES_MAX {
            return Err(StorageError::TooLarge { what: "a batch", bytes, max: BATCH_BYTES_MAX });
        }
        if !seen.insert(*shard) {
            return Err(StorageError::Twice(*shard));
        }
        let position = fence.last.next();
        Ok(Entry { shard: *shard, owner: fence.owner, position, record: record.clone() })
    }

    /// Begins a commit, which goes on by itself.
    fn begin(&mut self, entry: Entry) -> Pending {
        if let Some(fence) = self.fences.get_mut(&entry.shard)
            && entry.record.len() > INLINE_BYTES_MAX
        {
            fence.parts_to = entry.position;
        }
        let pending = Pending::new(entry.position);
        self.inner.bridge.start(issue(self.link(), entry, pending.clone()));
        pending
    }

    fn finish(&mut self, shard: ShardId, pending: Pending, progress: Progress) -> Outcome {
        let position = pending.position;
        match progress.decision {
            Some(Decision::Committed) => {
                self.committed(shard, position);
                Outcome::Committed { position }
            }
            Some(Decision::Fenced) => {
                self.lose(shard);
                Outcome::Fenced
            }
            decision => {
                self.unsettled.insert(shard, pending);
                Outcome::Unknown(why(shard, decision, progress.trouble))
            }
        }
    }

    fn committed(&mut self, shard: ShardId, position: Position) {
        if let Some(fence) = self.fences.get_mut(&shard) {
            fence.last = position;
        }
    }
}

/// Why it is not known what became of a commit.
fn why(shard: ShardId, decision: Option<Decision>, trouble: Option<StorageError>) -> StorageError {
    let doing = || format!("committing to shard {}", shard.0);
    match (decision, trouble) {
        (Some(_), _) => unanswered(doing(), "another owner has taken it meanwhile"),
        (None, Some(trouble)) => trouble,
        (None, None) => unanswered(doing(), "the store has not answered yet"),
    }
}

impl Log for CassandraLog {
    fn take(&mut self, shard: ShardId) -> Result<Taken, StorageError> {
        let link = self.link();
        let (owner, taken) = self.inner.bridge.run(async move { fence::take(&link, shard).await })?;
        // Whoever had it may have dropped slices.
        self.inner.link.floors.forget(shard);
        if let Some(pending) = self.unsettled.remove(&shard) {
            pending.abandon();
        }
        // What others stored beside the log is deleted with the first checkpoint.
        let fence = Fence { owner, last: taken.last, is_lost: false, parts_to: taken.last.next() };
        self.fences.insert(shard, fence);
        Ok(taken)
    }

    fn read(&mut self, shard: ShardId, after: Position) -> Result<Vec<Record>, StorageError> {
        let Fence { owner, last, .. } = self.fence(shard)?;
        let link = self.link();
        let read = self.inner.bridge.run(async move {
            let records = link.patiently(|| read(&link, shard, after, last)).await?;
            // After the records: they are those of the owner's log only if the owner is still the same.
            match link.patiently(|| fence::standing(&link, shard)).await? {
                Some(now) if now.owner == owner => Ok(records),
                _ => Err(StorageError::Fenced(shard)),
            }
        });
        self.note(read)
    }

    fn commit(&mut self, batches: &[Batch], _: Flush) -> Vec<Outcome> {
        let mut seen = BTreeSet::new();
        let begun: Vec<_> = batches
            .iter()
            .map(|batch| self.admit(batch, &mut seen).map(|entry| (batch.shard, self.begin(entry))))
            .collect();
        let until = Instant::now() + self.inner.link.timing.commit;
        let mut outcomes = Vec::with_capacity(begun.len());
        for begun in begun {
            outcomes.push(match begun {
                Ok((shard, pending)) => {
                    let progress = pending.wait(until);
                    self.finish(shard, pending, progress)
                }
                Err(StorageError::Fenced(_)) => Outcome::Fenced,
                Err(error) => Outcome::Failed(error),
            });
        }
        outcomes
    }

    /// The store has flushed what it has acknowledged.
    fn flush(&mut self) -> Result<(), StorageError> {
        Ok(())
    }

    fn settle(&mut self, shard: ShardId) -> Settled {
        let Some(pending) = self.unsettled.get(&shard).cloned() else { return Settled::Nothing };
        let progress = pending.wait_for_attempt(Instant::now() + self.inner.link.timing.settle);
        let position = pending.position;
        match progress.decision {
            None => return Settled::Unknown(why(shard, None, progress.trouble)),
            Some(Decision::Committed) => self.committed(shard, position),
            Some(Decision::Fenced | Decision::Lost) => self.lose(shard),
        }
        self.unsettled.remove(&shard);
        match progress.decision {
            Some(Decision::Committed) => Settled::Committed { position },
            _ => Settled::Lost,
        }
    }

    fn checkpoint(&mut self, marks: &[Mark]) -> Result<(), StorageError> {
        let mut moves = Vec::with_capacity(marks.len());
        for mark in marks {
            let Fence { owner, last, parts_to, .. } = self.fence(mark.shard)?;
            let Mark { shard, position } = *mark;
            if position > last {
                return Err(StorageError::Beyond { shard, position, last });
            }
            moves.push((*mark, owner, parts_to > Position(0)));
        }
        let link = self.link();
        let moved = self.inner.bridge.run(async move {
            let moves = moves.into_iter().map(|(mark, owner, has_parts)| {
                let link = &link;
                async move {
                    link.patiently(|| fence::move_checkpoint(link, mark, owner)).await?;
                    Ok::<_, StorageError>(forget(link, mark, has_parts).await.then_some(mark))
                }
            });
            try_join_all(moves).await
        });
        for Mark { shard, position } in self.note(moved)?.into_iter().flatten() {
            if let Some(fence) = self.fences.get_mut(&shard).filter(|fence| fence.parts_to <= position) {
                fence.parts_to = Position(0);
            }
        }
        Ok(())
    }

    fn confirm(&mut self, shard: ShardId) -> Result<Taken, StorageError> {
        let Fence { owner, .. } = self.fence(shard)?;
        let link = self.link();
        let standing =
            self.inner.bridge.run(async move { link.patiently(|| fence::standing(&link, shard)).await })?;
        let Some(standing) = standing.filter(|standing| standing.owner == owner) else {
            self.lose(shard);
            return Err(StorageError::Fenced(shard));
        };
        let Taken { checkpoint, last } = standing.taken();
        // What is unsettled may stand there already, and is not committed before it is settled.
        let known = self.unsettled.get(&shard).map(|pending| Position(pending.position.0 - 1));
        Ok(Taken { checkpoint, last: known.map_or(last, |known| known.min(last)) })
    }
}

impl Drop for CassandraLog {
    fn drop(&mut self) {
        for pending in self.unsettled.values() {
            pending.abandon();
        }
    }
}

/// Deletes records up to a checkpoint. What is left behind by an error, or by a clock that is late, goes with the next.
/// Returns whether all that lay beside the log is gone.
async fn forget(link: &Link, mark: Mark, has_parts: bool) -> bool {
    let values = (shard_number(mark.shard), stored(mark.position.0));
    let log = &link.statements.log;
    let forgotten = link.session.execute_unpaged(&log.forget, values).await;
    forgotten.is_ok() && has_parts && link.session.execute_unpaged(&log.forget_parts, values).await.is_ok()
}

async fn read(
    link: &Link,
    shard: ShardId,
    after: Position,
    last: Position,
) -> Result<Vec<Record>, StorageError> {
    let starts = (after.0..last.0).step_by(usize::try_from(RECORDS_PER_READ).unwrap_or(1));
    let reads = starts.map(|from| read_some(link, shard, from, last.0.min(from + RECORDS_PER_READ)));
    let read: Vec<Vec<Record>> =
        stream::iter(reads.collect::<Vec<_>>()).buffered(READS_AT_ONCE).try_collect().await?;
    Ok(read.into_iter().flatten().collect())
}

async fn read_some(link: &Link, shard: ShardId, after: u64, last: u64) -> Result<Vec<Record>, StorageError> {
    type Stored = (i64, Option<Vec<u8>>, Option<Uuid>, Option<i32>);
    let doing = || format!("reading the log of shard {}", shard.0);
    let values = (shard_number(shard), stored(after), stored(last));
    let answer = link.session.execute_unpaged(&link.statements.log.records, values).await;
    let rows = answer.map_err(while_doing(doing()))?.into_rows_result().map_err(while_doing(doing()))?;
    let mut records = Vec::with_capacity(rows.rows_num());
    let mut elsewhere = Vec::new();
    for row in rows.rows::<Stored>().map_err(while_doing(doing()))? {
        let (position, record, name, bytes) = row.map_err(while_doing(doing()))?;
        let position = Position(u64::try_from(position).unwrap_or(0));
        if let (None, Some(name), Some(bytes)) = (&record, name, bytes) {
            elsewhere.push((position, Body { name, bytes: usize::try_from(bytes).unwrap_or(0) }));
        }
        records.push(Record { position, bytes: record.unwrap_or_default() });
    }
    let mut loaded = body::load(link, shard, &elsewhere).await?;
    for record in &mut records {
        if let Some(bytes) = loaded.remove(&record.position) {
            record.bytes = bytes;
        }
    }
    Ok(records)
}
