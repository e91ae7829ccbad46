//! Brings the table up to date behind the logs, on a thread of its own.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread::JoinHandle,
    time::Duration,
};

use crate::{Mark, Position, Row, ShardId, Slice, StorageError, Table, Write};

/// How long a failed round waits before it is tried again.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// What is said of a lock whose holder panicked.
const POISONED: &str = "the checkpoint thread panicked";

/// Takes committed rows from workers and writes them to the table in rounds. While a round is being written the
/// next one gathers; of several versions of a row only the newest is written.
///
/// A worker offers rows of records that are committed *and flushed*, and of no others; it moves its log's mark ([`crate::Log::checkpoint`]) to what
/// [`Checkpointer::finished`] returns.
///
/// ```
/// use std::sync::Arc;
/// use quipu_storage::{Checkpointer, Position, Row, ShardId, Slice, Table, Write, memory::Memory};
///
/// let table = Arc::new(Memory::new().table());
/// let checkpointer = Checkpointer::spawn(table.clone())?;
/// for n in 1..=100 {
///     let row = Row { version: n, bytes: n.to_string().into_bytes() };
///     checkpointer.offer(ShardId(0), Position(n), vec![Write { slice: Slice::KEPT, key: b"hits".to_vec(), row }]);
/// }
/// checkpointer.flush()?;
/// assert_eq!(checkpointer.finished(|_| true).last().unwrap().position, Position(100));
/// assert_eq!(table.get(ShardId(0), Slice::KEPT, b"hits")?.unwrap().bytes, b"100");
/// # Ok::<(), quipu_storage::StorageError>(())
/// ```
#[derive(Debug)]
pub struct Checkpointer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    gathering: BTreeMap<ShardId, Gathered>,
    gathered_bytes: usize,
    writing: bool,
    /// Forgotten while a round was being written: what becomes of it is not told.
    forgotten: BTreeSet<ShardId>,
    finished: BTreeMap<ShardId, Position>,
    failed: Option<StorageError>,
    stop: bool,
}

#[derive(Debug, Default)]
struct Gathered {
    position: Position,
    rows: BTreeMap<(Slice, Vec<u8>), Row>,
}

impl Gathered {
    /// Adds a row unless a newer one is there. Returns by how many bytes this has grown, roughly.
    fn add(&mut self, slice: Slice, key: Vec<u8>, row: Row) -> usize {
        let bytes = key.len() + row.bytes.len();
        match self.rows.get_mut(&(slice, key.clone())) {
            Some(known) if known.version >= row.version => 0,
            Some(known) => {
                let grown = row.bytes.len().saturating_sub(known.bytes.len());
                *known = row;
                grown
            }
            None => {
                self.rows.insert((slice, key), row);
                bytes
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(POISONED)
    }
}

impl Checkpointer {
    /// Starts the thread.
    pub fn spawn(table: Arc<dyn Table>) -> Result<Self, StorageError> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("checkpoint".to_owned())
            .spawn(move || work(&theirs, table.as_ref()))
            .map_err(|error| StorageError::io("starting the checkpoint thread", error))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Hands over rows that, with what was offered before, cover the shard's committed records up to `position`.
    /// Returns how many bytes wait to be written, for callers that slow down when there are too many.
    pub fn offer(&self, shard: ShardId, position: Position, writes: Vec<Write>) -> usize {
        let mut state = self.shared.lock();
        let gathered = state.gathering.entry(shard).or_default();
        gathered.position = gathered.position.max(position);
        let mut grown = 0;
        for Write { slice, key, row } in writes {
            grown += gathered.add(slice, key, row);
        }
        state.gathered_bytes += grown;
        self.shared.changed.notify_all();
        state.gathered_bytes
    }

    /// The marks that have become true since the last call: the table durably covers these positions. Each worker
    /// asks about the shards that are its own; the marks of others stay for them.
    pub fn finished(&self, is_own: impl Fn(ShardId) -> bool) -> Vec<Mark> {
        // Without it the log would grow for ever, and nobody would notice.
        assert!(self.thread.as_ref().is_none_or(|it| !it.is_finished()), "the checkpoint thread has ended");
        let finished = &mut self.shared.lock().finished;
        let (own, others) = mem::take(finished).into_iter().partition(|(shard, _)| is_own(*shard));
        *finished = others;
        let own: BTreeMap<ShardId, Position> = own;
        own.into_iter().map(|(shard, position)| Mark { shard, position }).collect()
    }

    /// Forgets what the shard has offered and not yet had written: it has a new owner, or is being reloaded.
    /// A round under way is not stopped, as its rows were committed; but what becomes of it is not told, so that it is
    /// not taken for a later one.
    pub fn forget(&self, shard: ShardId) {
        let mut state = self.shared.lock();
        state.gathering.remove(&shard);
        state.finished.remove(&shard);
        if state.writing {
            state.forgotten.insert(shard);
        }
    }

    /// Waits until everything offered so far is written, or a round has failed (it will be tried again).
    pub fn flush(&self) -> Result<(), StorageError> {
        let mut state = self.shared.lock();
        state.failed = None;
        self.shared.changed.notify_all();
        while state.writing || !state.gathering.is_empty() {
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            state = self.shared.changed.wait(state).expect(POISONED);
        }
        Ok(())
    }

    /// Why the last round failed, if it did. The rows are kept and written again.
    pub fn failure(&self) -> Option<StorageError> {
        self.shared.lock().failed.clone()
    }
}

impl Drop for Checkpointer {
    /// Stops after the round under way. What waits is not lost: the log holds it.
    fn drop(&mut self) {
        if let Ok(mut state) = self.shared.state.lock() {
            state.stop = true;
        }
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported by itself; there is nothing to add here.
            let _ = thread.join();
        }
    }
}

fn work(shared: &Shared, table: &dyn Table) {
    let mut state = shared.lock();
    while !state.stop {
        if state.gathering.is_empty() {
            state = shared.changed.wait(state).expect(POISONED);
            continue;
        }
        if state.failed.is_some() {
            state = shared.changed.wait_timeout(state, RETRY_AFTER).expect(POISONED).0;
            state.failed = None;
            continue;
        }
        let round = mem::take(&mut state.gathering);
        state.gathered_bytes = 0;
        state.writing = true;
        drop(state);
        let results: Vec<_> = round.into_iter().map(|(shard, round)| write(table, shard, round)).collect();
        state = shared.lock();
        state.writing = false;
        let forgotten = mem::take(&mut state.forgotten);
        for result in results.into_iter().filter(|(shard, ..)| !forgotten.contains(shard)) {
            finish(&mut state, result);
        }
        shared.changed.notify_all();
    }
}

type Written = (ShardId, Position, Result<(), (StorageError, Vec<Write>)>);

fn write(table: &dyn Table, shard: ShardId, round: Gathered) -> Written {
    let writes: Vec<Write> =
        round.rows.into_iter().map(|((slice, key), row)| Write { slice, key, row }).collect();
    let result = table.put(shard, &writes).map_err(|error| (error, writes));
    (shard, round.position, result)
}

fn finish(state: &mut State, (shard, position, result): Written) {
    match result {
        Ok(()) => {
            let finished = state.finished.entry(shard).or_default();
            *finished = position.max(*finished);
        }
        Err((error, writes)) => {
            state.failed = Some(error);
            let gathered = state.gathering.entry(shard).or_default();
            gathered.position = gathered.position.max(position);
            let mut grown = 0;
            for Write { slice, key, row } in writes {
                grown += gathered.add(slice, key, row);
            }
            state.gathered_bytes += grown;
        }
    }
}
