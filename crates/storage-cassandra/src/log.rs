//! One worker's logs: the calls of [`Log`], each of which waits for what runs side by side behind it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Instant,
};

use futures_util::future::try_join_all;
use quipu_storage::{
    BATCH_BYTES_MAX, Batch, Fenced, Flush, Log, Mark, Outcome, Position, Record, Settled, ShardId,
    StorageError, Taken,
};
use uuid::Uuid;

use crate::{
    bell::{Bell, Tell},
    body::INLINE_BYTES_MAX,
    error::unanswered,
    fence::{self, Taker},
    issue::{Decision, Entry, Pending, Progress, issue},
    records,
    store::{Inner, Link},
};

/// The logs of the shards that one worker owns.
#[derive(Debug)]
pub struct CassandraLog {
    inner: Arc<Inner>,
    /// Whose it is.
    node: Uuid,
    fences: BTreeMap<ShardId, Fence>,
    /// Begun, and nobody has been told of their end; until when they may be.
    under_way: BTreeMap<ShardId, (Pending, Instant)>,
    unsettled: BTreeMap<ShardId, Pending>,
    bell: Arc<Bell>,
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
    pub(crate) fn new(inner: Arc<Inner>, node: Uuid, tell: Option<Tell>) -> Self {
        let bell = Arc::new(Bell::new(tell));
        let (under_way, unsettled) = (BTreeMap::new(), BTreeMap::new());
        Self { inner, node, fences: BTreeMap::new(), under_way, unsettled, bell }
    }

    fn take_as(
        &mut self,
        shard: ShardId,
        seen: Option<Option<Fenced>>,
    ) -> Result<Option<Taken>, StorageError> {
        let (link, taker) = (self.link(), Taker { shard, node: self.node, seen });
        let taken = self.inner.bridge.run(async move { fence::take(&link, taker).await })?;
        let Some((owner, taken)) = taken else { return Ok(None) };
        // Whoever had it may have dropped slices.
        self.inner.link.floors.forget(shard);
        self.abandon(shard);
        // What others stored beside the log is deleted with the first checkpoint.
        let fence = Fence { owner, last: taken.last, is_lost: false, parts_to: taken.last.next() };
        self.fences.insert(shard, fence);
        Ok(Some(taken))
    }

    /// Makes no further attempts to commit what is not decided.
    fn abandon(&mut self, shard: ShardId) {
        let under_way = self.under_way.remove(&shard).map(|(pending, _)| pending);
        for pending in self.unsettled.remove(&shard).into_iter().chain(under_way) {
            pending.abandon();
        }
    }

    fn link(&self) -> Arc<Link> {
        Arc::clone(&self.inner.link)
    }

    /// The same, unless it would only be waited for: then the caller, who has others to look after, tries again later.
    fn link_that_answers(&self) -> Result<Arc<Link>, StorageError> {
        self.inner.link.away.check()?;
        Ok(self.link())
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

    fn admit(&self, batch: Batch, seen: &mut BTreeSet<ShardId>) -> Result<Entry, StorageError> {
        let Batch { shard, record } = batch;
        let fence = self.fence(shard)?;
        let bytes = record.len();
        if bytes > BATCH_BYTES_MAX {
            return Err(StorageError::TooLarge { what: "a batch", bytes, max: BATCH_BYTES_MAX });
        }
        if !seen.insert(shard) {
            return Err(StorageError::Twice(shard));
        }
        if self.unsettled.contains_key(&shard) || self.under_way.contains_key(&shard) {
            return Err(StorageError::Unsettled(shard));
        }
        Ok(Entry { shard, owner: fence.owner, position: fence.last.next(), record })
    }

    /// Begins a commit, which goes on by itself.
    fn start(&mut self, entry: Entry) -> Pending {
        if let Some(fence) = self.fences.get_mut(&entry.shard)
            && entry.record.len() > INLINE_BYTES_MAX
        {
            fence.parts_to = entry.position;
        }
        let pending = Pending::new(entry.position, Arc::clone(&self.bell));
        self.inner.bridge.start(issue(self.link(), entry, pending.clone()));
        pending
    }

    /// Ends a commit that is under way: looks, or waits, and tells what became of it.
    fn finish(&mut self, shard: ShardId, look: impl FnOnce(&Pending, Instant) -> Progress) -> Outcome {
        let Some((pending, until)) = self.under_way.remove(&shard) else {
            return Outcome::Failed(StorageError::NotOpen(shard));
        };
        let progress = look(&pending, until);
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
        self.take_as(shard, None)?.ok_or(StorageError::Fenced(shard))
    }

    fn take_seen(&mut self, shard: ShardId, seen: Option<Fenced>) -> Result<Option<Taken>, StorageError> {
        self.take_as(shard, Some(seen))
    }

    fn release(&mut self, shard: ShardId) -> Result<(), StorageError> {
        let Some(Fence { owner, is_lost, .. }) = self.fences.remove(&shard) else {
            return Err(StorageError::NotOpen(shard));
        };
        self.abandon(shard);
        if is_lost {
            return Ok(());
        }
        let link = self.link();
        self.inner.bridge.run(async move { link.patiently(|| fence::release(&link, shard, owner)).await })
    }

    fn read(&mut self, shard: ShardId, after: Position) -> Result<Vec<Record>, StorageError> {
        let Fence { owner, last, .. } = self.fence(shard)?;
        let link = self.link_that_answers()?;
        let read = self.inner.bridge.run(async move {
            let records = link.patiently(|| records::read(&link, shard, after, last)).await?;
            // After the records: they are those of the owner's log only if the owner is still the same.
            match link.patiently(|| fence::standing(&link, shard)).await? {
                Some(now) if now.owner == owner => Ok(records),
                _ => Err(StorageError::Fenced(shard)),
            }
        });
        self.note(read)
    }

    fn commit(&mut self, batches: &[Batch], flush: Flush) -> Vec<Outcome> {
        let begun = self.begin(batches.to_vec(), flush);
        let mut outcomes = Vec::with_capacity(begun.len());
        for (begun, batch) in begun.into_iter().zip(batches) {
            let shard = batch.shard;
            outcomes.push(match begun {
                Some(outcome) => outcome,
                None => self.finish(shard, Pending::wait),
            });
        }
        outcomes
    }

    fn begin(&mut self, batches: Vec<Batch>, _: Flush) -> Vec<Option<Outcome>> {
        let until = Instant::now() + self.inner.link.timing.commit;
        let mut seen = BTreeSet::new();
        let mut begun = Vec::with_capacity(batches.len());
        for batch in batches {
            begun.push(match self.admit(batch, &mut seen) {
                Ok(entry) => {
                    let shard = entry.shard;
                    let pending = self.start(entry);
                    self.under_way.insert(shard, (pending, until));
                    None
                }
                Err(StorageError::Fenced(_)) => Some(Outcome::Fenced),
                Err(error) => Some(Outcome::Failed(error)),
            });
        }
        begun
    }

    fn finished(&mut self, wait: bool) -> Vec<(ShardId, Outcome)> {
        loop {
            let rung = self.bell.count();
            let now = Instant::now();
            let is_over = |(pending, until): &(Pending, Instant)| {
                *until <= now || pending.progress().decision.is_some()
            };
            let over = self.under_way.iter().filter(|(_, one)| is_over(one));
            let over: Vec<ShardId> = over.map(|(&shard, _)| shard).collect();
            let first = self.under_way.values().map(|(_, until)| *until).min();
            match first {
                Some(until) if wait && over.is_empty() => self.bell.wait(rung, until),
                _ => {
                    let finish = |shard| (shard, self.finish(shard, |pending, _| pending.progress()));
                    return over.into_iter().map(finish).collect();
                }
            }
        }
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
        let link = self.link_that_answers()?;
        let moved = self.inner.bridge.run(async move {
            let moves = moves.into_iter().map(|(mark, owner, has_parts)| {
                let link = &link;
                async move {
                    link.patiently(|| fence::move_checkpoint(link, mark, owner)).await?;
                    Ok::<_, StorageError>(records::forget(link, mark, has_parts).await.then_some(mark))
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
        let link = self.link_that_answers()?;
        let standing =
            self.inner.bridge.run(async move { link.patiently(|| fence::standing(&link, shard)).await })?;
        let Some(standing) = standing.filter(|standing| standing.owner == owner) else {
            self.lose(shard);
            return Err(StorageError::Fenced(shard));
        };
        let Taken { checkpoint, last } = standing.taken();
        // What is unsettled may stand there already, and is not committed before it is settled.
        let under_way = || self.under_way.get(&shard).map(|(pending, _)| pending);
        let pending = self.unsettled.get(&shard).or_else(under_way);
        let known = pending.map(|pending| Position(pending.position.0 - 1));
        Ok(Taken { checkpoint, last: known.map_or(last, |known| known.min(last)) })
    }
}

impl Drop for CassandraLog {
    fn drop(&mut self) {
        let under_way = self.under_way.values().map(|(pending, _)| pending);
        for pending in self.unsettled.values().chain(under_way) {
            pending.abandon();
        }
    }
}
