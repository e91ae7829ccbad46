//! The logs of all workers in one folder, and a worker's handle on its own.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use super::{
    disk::Disk,
    flaws::Flaws,
    frame::{self, ENTRY_BYTES, Entry, Kind},
    notes::{Note, Notes},
    opening::{Opening, ReadLogs, read_logs},
    repair::{Findings, Patient},
    shards::{Found, ShardMap},
    wal::Wal,
};
use crate::{
    BATCH_BYTES_MAX, Batch, Flush, Log, Mark, Outcome, Position, Record, Settled, ShardId, StorageError,
    Taken,
};

/// The most that one frame holds; a larger group becomes several frames, still with one flush.
const GROUP_BYTES_MAX: usize = 32 * 1024 * 1024;
/// When so much waits for a later flush it is flushed at once.
const LATER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How the logs are laid out.
#[derive(Debug, Clone, Copy)]
pub struct LogConfig {
    /// How many workers write; each has a log of its own. May change from run to run.
    pub workers: u16,
    /// How long a file gets before the next one begins.
    pub segment_bytes: u64,
    /// How much of it is reserved at once: less makes a start cheaper, more makes pauses rarer.
    pub reserve_bytes: u64,
    /// Nothing, except in tests.
    pub flaws: Flaws,
}

impl Default for LogConfig {
    fn default() -> Self {
        let (segment_bytes, reserve_bytes) = (64 * 1024 * 1024, 4 * 1024 * 1024);
        Self { workers: 1, segment_bytes, reserve_bytes, flaws: Flaws::default() }
    }
}

/// All logs of a folder.
#[derive(Debug)]
pub struct Logs<D: Disk> {
    shared: Arc<Shared<D>>,
}

#[derive(Debug)]
struct Shared<D: Disk> {
    shards: ShardMap,
    /// Locked one at a time; a shard's fence is read under the lock of the log that writes.
    wals: Vec<Mutex<Wal<D>>>,
    workers: usize,
    notes: Arc<Notes<D>>,
    /// The thread that writes notes, if there is one; it ends when the sender is dropped.
    noting: Mutex<Option<(mpsc::Sender<()>, JoinHandle<()>)>>,
}

impl<D: Disk> Drop for Shared<D> {
    /// What was committed since the last note is noted: then a folder that was closed in order is known in full.
    fn drop(&mut self) {
        let noting = self.noting.lock().ok().and_then(|mut noting| noting.take());
        if let Some((stop, thread)) = noting {
            drop(stop);
            // Before the folder's lock goes: the next process writes its own notes. A panic there has shown itself.
            let _ = thread.join();
        }
        // If that fails, what the last note says is as true as before.
        let _ = self.notes.write();
    }
}

impl<D: Disk> Shared<D> {
    fn wal(&self, at: usize) -> MutexGuard<'_, Wal<D>> {
        self.wals[at].lock().expect("a thread that wrote to this log panicked")
    }
}

impl<D: Disk> Logs<D> {
    /// Opens the logs in `disk`, of the folder `root`, made if there is nothing.
    pub fn open(disk: D, root: D, config: LogConfig) -> Result<Self, StorageError> {
        Opening::begin(disk, root, None, config)?.finish()
    }

    pub(super) fn start(
        disk: D,
        root: D,
        store: u64,
        note: Option<&Note>,
        config: LogConfig,
    ) -> Result<Self, StorageError> {
        let disk = Arc::new(disk);
        let ReadLogs { mut wals, shards } = read_logs(&disk, store, note, config)?;
        // Everything has been read and found whole; only now is anything written.
        let notes = Arc::new(Notes::open(root, store, wals.len(), config.flaws)?);
        for wal in &mut wals {
            wal.resume(&shards, Arc::clone(&notes))?;
        }
        notes.write_both()?;
        let wals = wals.into_iter().map(Mutex::new).collect();
        let workers = usize::from(config.workers.max(1));
        let shared = Arc::new(Shared { shards, wals, workers, notes, noting: Mutex::new(None) });
        for at in 0..shared.workers {
            reclaim(&shared, at)?;
        }
        Ok(Self { shared })
    }

    /// Makes logs that can be opened of what is left of them: see [`Embedded::repair`](super::Embedded::repair).
    pub fn repair(disk: D, root: D) -> Result<Findings, StorageError> {
        Patient { disk: Arc::new(disk), root, has_table: true, wrong_in_table: Vec::new() }.repair()
    }

    pub(super) fn root(&self) -> &D {
        self.shared.notes.root()
    }

    pub(super) fn notes(&self) -> Arc<Notes<D>> {
        Arc::clone(&self.shared.notes)
    }

    /// Notes what belongs to the folder, if that has changed: see `docs/format.md`.
    pub fn note(&self) -> Result<(), StorageError> {
        self.shared.notes.write()
    }

    /// The handle of a worker, counted from 0. Two handles of one worker share its file and take turns.
    ///
    /// # Panics
    /// If there are not so many workers.
    pub fn log(&self, worker: u16) -> EmbeddedLog<D> {
        let worker = usize::from(worker);
        assert!(worker < self.shared.workers, "worker {worker} of {}", self.shared.workers);
        EmbeddedLog {
            shared: Arc::clone(&self.shared),
            worker,
            epochs: BTreeMap::new(),
            unsettled: BTreeMap::new(),
        }
    }

    /// How many segments hold records: how much the table lags behind.
    pub fn segments(&self) -> usize {
        (0..self.shared.wals.len()).map(|at| self.shared.wal(at).segments()).sum()
    }
}

impl<D: Disk + 'static> Logs<D> {
    /// From now on a thread notes what belongs to the folder, so often, until all logs are dropped.
    pub(super) fn note_every(&self, time: Duration) -> Result<(), StorageError> {
        let (stop, stopped) = mpsc::channel::<()>();
        let notes = Arc::clone(&self.shared.notes);
        let thread = thread::Builder::new()
            .name("notes".to_owned())
            .spawn(move || {
                while stopped.recv_timeout(time) == Err(mpsc::RecvTimeoutError::Timeout) {
                    // If it fails, the last note stands, and this is tried again.
                    let _ = notes.write();
                }
            })
            .map_err(|error| StorageError::io("starting the thread that writes notes", error))?;
        let noting = &mut *self.shared.noting.lock().expect("a thread that was started is noted");
        *noting = Some((stop, thread));
        Ok(())
    }
}

fn reclaim<D: Disk>(shared: &Shared<D>, at: usize) -> Result<(), StorageError> {
    let passed = |shard, newest| shared.shards.get(shard).checkpoint >= newest;
    shared.wal(at).reclaim(&passed, at >= shared.workers)
}

/// One worker's log.
#[derive(Debug)]
pub struct EmbeddedLog<D: Disk> {
    shared: Arc<Shared<D>>,
    worker: usize,
    epochs: BTreeMap<ShardId, u64>,
    unsettled: BTreeMap<ShardId, Unsettled>,
}

#[derive(Debug, Clone, Copy)]
struct Unsettled {
    /// The frame that holds the batch.
    sequence: u64,
    position: Position,
}

/// A batch that may be written: which of the caller's it is, and where it goes.
#[derive(Debug, Clone, Copy)]
struct Admitted {
    at: usize,
    shard: ShardId,
    epoch: u64,
    position: Position,
}

impl<D: Disk> EmbeddedLog<D> {
    fn check(&self, shard: ShardId) -> Result<u64, StorageError> {
        let epoch = *self.epochs.get(&shard).ok_or(StorageError::NotOpen(shard))?;
        if self.shared.shards.get(shard).epoch == epoch {
            Ok(epoch)
        } else {
            Err(StorageError::Fenced(shard))
        }
    }

    fn admit(
        &self,
        at: usize,
        batch: &Batch,
        seen: &mut BTreeSet<ShardId>,
    ) -> Result<Admitted, StorageError> {
        let shard = batch.shard;
        let epoch = self.check(shard)?;
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
        Ok(Admitted { at, shard, epoch, position: self.shared.shards.get(shard).last.next() })
    }

    /// Writes the batches of one frame. An error means that nothing of them is stored.
    fn write(&self, wal: &mut Wal<D>, batches: &[Batch], admitted: &[Admitted]) -> Result<u64, StorageError> {
        let bytes = admitted.iter().map(|one| ENTRY_BYTES + batches[one.at].record.len()).sum();
        wal.make_room(&self.shared.shards, bytes)?;
        let mut payload = Vec::with_capacity(bytes);
        for &Admitted { at, shard, epoch, position } in admitted {
            let record = &batches[at].record;
            frame::encode_entry(&mut payload, Entry { kind: Kind::Batch, shard, epoch, position, record });
        }
        Ok(wal.write(payload))
    }

    /// After the frames are written: are they durable, or owed, or in doubt?
    fn finish(&self, wal: &mut Wal<D>, flush: Flush) -> Result<(), StorageError> {
        if flush == Flush::Now || wal.pending_bytes() > LATER_BYTES_MAX || !wal.is_trusted() {
            wal.sync(&self.shared.shards)
        } else {
            wal.report_all();
            Ok(())
        }
    }
}

/// Splits what is to be written into frames of at most [`GROUP_BYTES_MAX`].
fn groups(batches: &[Batch], admitted: &[Admitted]) -> Vec<Range<usize>> {
    let mut groups = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (at, one) in admitted.iter().enumerate() {
        let more = ENTRY_BYTES + batches[one.at].record.len();
        if at > start && bytes + more > GROUP_BYTES_MAX {
            groups.push(start..at);
            (start, bytes) = (at, 0);
        }
        bytes += more;
    }
    if start < admitted.len() {
        groups.push(start..admitted.len());
    }
    groups
}

impl<D: Disk> Log for EmbeddedLog<D> {
    fn take(&mut self, shard: ShardId) -> Result<Taken, StorageError> {
        let shared = Arc::clone(&self.shared);
        let epoch = shared.shards.take(shard);
        // A commit under way elsewhere either saw the old fence, then it ends before we get its lock, or is refused.
        for at in 0..shared.wals.len() {
            let mut wal = shared.wal(at);
            if !wal.is_clean() {
                let synced = wal.sync(&shared.shards);
                // What was reported has to stay. What is in doubt may as well never be stored: the fence says so.
                if wal.owes_reported() {
                    synced?;
                }
            }
        }
        self.epochs.insert(shard, epoch);
        self.unsettled.remove(&shard);
        Ok(shared.shards.taken(shard))
    }

    fn read(&mut self, shard: ShardId, after: Position) -> Result<Vec<Record>, StorageError> {
        self.check(shard)?;
        let last = self.shared.shards.get(shard).last;
        if last <= after {
            // Most shards, when a folder is opened: the files need not be read again to find nothing.
            return Ok(Vec::new());
        }
        if let Some(mut records) = self.shared.shards.take_recovered(shard) {
            records.retain(|record| record.position > after);
            return Ok(records);
        }
        let mut found = Found::default();
        for at in 0..self.shared.wals.len() {
            self.shared.wal(at).read(&mut |entry| {
                if entry.shard == shard && entry.position > after {
                    found.add(entry);
                }
            })?;
        }
        let mut records = found.resolve(after);
        records.retain(|record| record.position <= last);
        Ok(records)
    }

    fn commit(&mut self, batches: &[Batch], flush: Flush) -> Vec<Outcome> {
        let shared = Arc::clone(&self.shared);
        let mut wal = shared.wal(self.worker);
        let mut outcomes = Vec::with_capacity(batches.len());
        let mut admitted = Vec::with_capacity(batches.len());
        let mut seen = BTreeSet::new();
        for (at, batch) in batches.iter().enumerate() {
            outcomes.push(match self.admit(at, batch, &mut seen) {
                Ok(one) => {
                    admitted.push(one);
                    Outcome::Committed { position: one.position }
                }
                Err(StorageError::Fenced(_)) => Outcome::Fenced,
                Err(error) => Outcome::Failed(error),
            });
        }
        let mut written = Vec::with_capacity(admitted.len());
        for group in groups(batches, &admitted) {
            match self.write(&mut wal, batches, &admitted[group.clone()]) {
                Ok(sequence) => written.extend(admitted[group].iter().map(|&one| (sequence, one))),
                Err(error) => {
                    for one in &admitted[group] {
                        outcomes[one.at] = Outcome::Failed(error.clone());
                    }
                }
            }
        }
        if written.is_empty() {
            return outcomes;
        }
        match self.finish(&mut wal, flush) {
            Ok(()) => {
                for (_, one) in written {
                    shared.shards.commit(one.shard, one.position);
                }
            }
            Err(error) => {
                for (sequence, one) in written {
                    outcomes[one.at] = Outcome::Unknown(error.clone());
                    self.unsettled.insert(one.shard, Unsettled { sequence, position: one.position });
                }
            }
        }
        outcomes
    }

    fn flush(&mut self) -> Result<(), StorageError> {
        self.shared.wal(self.worker).sync(&self.shared.shards)
    }

    fn settle(&mut self, shard: ShardId) -> Settled {
        let Some(&Unsettled { sequence, position }) = self.unsettled.get(&shard) else {
            return Settled::Nothing;
        };
        let mut wal = self.shared.wal(self.worker);
        let settled = if self.check(shard).is_err() {
            Settled::Lost
        } else if wal.synced() >= sequence {
            Settled::Committed { position }
        } else {
            match wal.sync(&self.shared.shards) {
                Ok(()) => Settled::Committed { position },
                Err(error) => return Settled::Unknown(error),
            }
        };
        drop(wal);
        self.unsettled.remove(&shard);
        settled
    }

    fn checkpoint(&mut self, marks: &[Mark]) -> Result<(), StorageError> {
        let shared = Arc::clone(&self.shared);
        let mut wal = shared.wal(self.worker);
        let mut payload = Vec::new();
        for &Mark { shard, position } in marks {
            let epoch = self.check(shard)?;
            let last = shared.shards.get(shard).last;
            if position > last {
                return Err(StorageError::Beyond { shard, position, last });
            }
            frame::encode_entry(
                &mut payload,
                Entry { kind: Kind::Checkpoint, shard, epoch, position, record: &[] },
            );
        }
        wal.make_room(&shared.shards, payload.len())?;
        wal.write(payload);
        wal.sync(&shared.shards)?;
        for &Mark { shard, position } in marks {
            shared.shards.checkpoint(shard, position);
        }
        drop(wal);
        // Nobody writes to the logs of former workers, so nobody else would let go of them.
        for at in [self.worker].into_iter().chain(shared.workers..shared.wals.len()) {
            reclaim(&shared, at)?;
        }
        Ok(())
    }

    fn confirm(&mut self, shard: ShardId) -> Result<Taken, StorageError> {
        self.check(shard)?;
        Ok(self.shared.shards.taken(shard))
    }
}
