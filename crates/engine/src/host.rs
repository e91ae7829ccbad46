//! Runs shards over a store: the one place where the order "persist, then reply" is kept.
//!
//! A host is driven by one thread. It takes commands ([`Host::submit`]), makes what they changed durable in one go
//! ([`Host::commit`]) and hands out what may leave the process after that. Between batches it brings the table up to
//! date and evicts what does not fit into memory ([`Host::maintain`]).

mod discipline;
mod recovery;

use std::{mem, sync::Arc};

use quipu_storage::{
    Batch, Checkpointer, Flush, Log, Mark, Outcome as Stored, Position, Scan, Settled, ShardId, Slice,
    StorageError, Store, Table,
};

pub use self::discipline::Discipline;
use crate::{
    Command, Event, FilterStats, Listing, Moment, OperationStats, Outputs, Refusal, Reply, Settings, Shard,
    Ticket, operations::decode_page, record::row_key, shard::Unreadable,
};

/// A checkpoint begins when a shard has so many operations in memory.
const OPERATIONS_UNSAVED_MAX: usize = 16 * 1024;
/// And in all shards of the host, when so much was logged since that was last so.
const LOGGED_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// And when so much time has passed.
const CHECKPOINT_EVERY_MS: u64 = 60_000;
/// So many shards may wait for their rows to be written, which are in memory until then.
const CHECKPOINTS_MAX: usize = 4;
/// How many entries one round of eviction looks at.
const EVICTION_LOOKS: usize = 4096;
/// How many pages of old operations one round of warming reads.
const WARMING_PAGES: usize = 64;

/// Why a shard could not be opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// Stored bytes are not what was written.
    #[error("shard {shard}: {why}. Nothing was changed; restore this folder from a copy")]
    Unreadable {
        /// The shard.
        shard: u16,
        /// What is wrong.
        why: Unreadable,
    },
}

/// What may leave the process: everything it speaks of is durable.
#[derive(Debug, Default)]
pub struct Released {
    /// Answers.
    pub replies: Vec<(Ticket, Reply)>,
    /// What watchers are told.
    pub events: Vec<Event>,
}

impl Released {
    fn extend(&mut self, outputs: Outputs) {
        self.replies.extend(outputs.replies);
        self.events.extend(outputs.events);
    }

    /// The batch was not stored: everybody whose command was in it hears why.
    fn refuse(&mut self, outputs: Outputs, refusal: &Refusal) {
        let refused =
            outputs.replies.into_iter().map(|(ticket, _)| (ticket, Reply::Refused(refusal.clone())));
        self.replies.extend(refused);
    }
}

/// Numbers about a host, for people.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct HostStats {
    /// Counters that exist.
    pub live: u64,
    /// Counters in memory.
    pub resident: u64,
    /// Bytes that they take, roughly.
    pub resident_bytes: u64,
    /// Checkpoints begun.
    pub checkpoints: u64,
    /// Bytes logged.
    pub logged_bytes: u64,
    /// Shards that take no commands, because of their store.
    pub shards_unavailable: u64,
    /// About operations.
    pub operations: OperationStats,
    /// About the filters in front of them; the worst estimate.
    pub filter: FilterStats,
}

/// A shard and how it stands with its store.
struct Running {
    id: ShardId,
    shard: Shard,
    position: Position,
    /// The position that the checkpoint under way covers.
    capturing: Option<Position>,
    /// The round of checkpoints that it has taken part in.
    round: u64,
    captured_ms: u64,
    floor: Slice,
    pending: bool,
    state: State,
}

enum State {
    Live,
    /// A commit ended in "unknown": nothing is released, and nothing taken, until it is settled.
    Unsettled {
        outputs: Outputs,
        why: String,
    },
    /// Memory holds effects that are not stored, and could not be read again yet.
    Broken {
        why: String,
    },
    /// Somebody else has it.
    Lost,
}

/// The shards that one thread runs.
pub struct Host<L, T> {
    store: Store<L, T>,
    checkpointer: Option<Arc<Checkpointer>>,
    settings: Settings,
    flush: Flush,
    discipline: Discipline,
    shards: Vec<Option<Box<Running>>>,
    pending: Vec<ShardId>,
    refused: Released,
    /// What durations of earlier processes add up to.
    base_ms: u64,
    next_shard: usize,
    /// How often the log has grown so much that every shard must be checkpointed.
    round: u64,
    checkpoints: u64,
    logged_bytes: u64,
}

impl<L, T> std::fmt::Debug for Host<L, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl<L: Log, T: Table> Host<L, T> {
    /// A host without shards. With a checkpointer the table is written by that one's thread, else by this one's.
    pub fn new(
        store: Store<L, T>,
        checkpointer: Option<Arc<Checkpointer>>,
        settings: Settings,
        flush: Flush,
    ) -> Self {
        Self {
            store,
            checkpointer,
            settings,
            flush,
            discipline: Discipline::default(),
            shards: Vec::new(),
            pending: Vec::new(),
            refused: Released::default(),
            base_ms: 0,
            next_shard: 0,
            round: 0,
            checkpoints: 0,
            logged_bytes: 0,
        }
    }

    /// Chooses a wrong way.
    #[cfg(feature = "testing")]
    pub fn with_discipline(mut self, discipline: Discipline) -> Self {
        self.discipline = discipline;
        self
    }

    fn running(&mut self, id: ShardId) -> Option<&mut Running> {
        self.shards.get_mut(usize::from(id.0)).and_then(Option::as_deref_mut)
    }

    /// The shards' own time: it goes on where the last process stopped.
    fn shard_time(&self, now: Moment) -> Moment {
        Moment { elapsed_ms: self.base_ms + now.elapsed_ms, unix_ms: now.unix_ms }
    }

    /// Takes a command. Its answer is [released](Self::commit) with the batch.
    pub fn submit(&mut self, id: ShardId, ticket: Ticket, command: Command<'_>, now: Moment) {
        let now = self.shard_time(now);
        let table = self.store.table();
        let Some(running) = self.shards.get_mut(usize::from(id.0)).and_then(Option::as_deref_mut) else {
            let refusal = Refusal::NotStored(format!("shard {} is not open here; nothing was counted", id.0));
            return self.refused.replies.push((ticket, Reply::Refused(refusal)));
        };
        let ready = match &running.state {
            State::Live => prepare(table, running, &command, now),
            State::Unsettled { why, .. } | State::Broken { why } => {
                Err(Refusal::NotStored(format!("{why}; nothing was counted. Try again")))
            }
            State::Lost => {
                Err(Refusal::NotStored("another process has this shard; nothing was counted".into()))
            }
        };
        if let Err(refusal) = ready {
            return self.refused.replies.push((ticket, Reply::Refused(refusal)));
        }
        running.shard.apply(ticket, command, now);
        if !running.pending {
            running.pending = true;
            self.pending.push(id);
        }
    }

    /// How large the largest record has become that the next commit would write.
    pub fn record_bytes(&self) -> usize {
        let shards = self.pending.iter().filter_map(|id| self.shards.get(usize::from(id.0))?.as_deref());
        shards.map(|running| running.shard.record_bytes()).max().unwrap_or(0)
    }

    /// Makes everything submitted durable, and releases what may be known then.
    pub fn commit(&mut self, now: Moment, released: &mut Released) {
        let now_ms = self.shard_time(now).elapsed_ms;
        released.replies.append(&mut self.refused.replies);
        let mut batches = Vec::with_capacity(self.pending.len());
        let mut waiting = Vec::with_capacity(self.pending.len());
        for id in mem::take(&mut self.pending) {
            let Some(running) = self.running(id) else { continue };
            running.pending = false;
            let sealed = running.shard.seal(now_ms);
            match sealed.record {
                Some(record) => {
                    waiting.push((id, sealed.outputs));
                    batches.push(Batch { shard: id, record });
                }
                // Nothing changed, and all that a read can have seen is durable: commits are waited for.
                None => released.extend(sealed.outputs),
            }
        }
        if batches.is_empty() {
            return;
        }
        self.discipline.before_commit(&mut waiting, released);
        if self.discipline.checkpoints_early() {
            batches.iter().for_each(|batch| self.begin_checkpoint(batch.shard, now_ms));
        }
        let outcomes = self.store.commit(&batches, self.flush);
        for (((id, outputs), outcome), batch) in waiting.into_iter().zip(outcomes).zip(&batches) {
            self.settle(id, outputs, outcome, batch.record.len() as u64, now_ms, released);
        }
    }

    fn settle(
        &mut self,
        id: ShardId,
        outputs: Outputs,
        outcome: Stored,
        bytes: u64,
        now_ms: u64,
        released: &mut Released,
    ) {
        let Some(running) = self.running(id) else { return };
        match outcome {
            Stored::Committed { position } => {
                running.position = position;
                self.logged_bytes += bytes;
                released.extend(outputs);
            }
            Stored::Fenced => {
                running.state = State::Lost;
                let why =
                    Refusal::NotStored("another process has taken this shard; nothing was counted".into());
                released.refuse(outputs, &why);
            }
            Stored::Failed(error) => {
                released.refuse(outputs, &Refusal::NotStored(error.to_string()));
                self.reload(id, now_ms);
            }
            Stored::Unknown(error) => {
                running.state = State::Unsettled { outputs, why: error.to_string() };
            }
        }
    }

    /// After a batch that was not stored, memory holds effects that storage does not: throw it away.
    fn reload(&mut self, id: ShardId, now_ms: u64) {
        if self.discipline.keeps_memory() {
            return;
        }
        if let Some(checkpointer) = &self.checkpointer {
            // What it is writing is committed; what it has not begun stands in the log.
            checkpointer.forget(id);
        }
        let state = match self.store.reload(id).map_err(OpenError::from).and_then(|recovered| {
            let position = recovered.last();
            let shard = recovery::read(self.store.table(), id, self.settings, &recovered, |_| now_ms)?;
            Ok((shard, position))
        }) {
            Ok((shard, position)) => {
                let Some(running) = self.running(id) else { return };
                running.shard = shard;
                running.position = position;
                running.capturing = None;
                State::Live
            }
            Err(error) => State::Broken { why: error.to_string() },
        };
        if let Some(running) = self.running(id) {
            running.state = state;
        }
    }

    /// What is to be done between batches: settles what is unknown, begins and ends checkpoints, keeps to the memory
    /// budget, forgets old operations. Each call does a bounded piece of it. Returns whether more is waiting.
    pub fn maintain(&mut self, now: Moment, released: &mut Released) -> bool {
        debug_assert!(self.pending.is_empty());
        let now_ms = self.shard_time(now).elapsed_ms;
        self.finish_checkpoints();
        let count = self.shards.len();
        let mut more = false;
        for _ in 0..count.min(8) {
            self.next_shard = (self.next_shard + 1) % count;
            let Some(running) = self.shards[self.next_shard].as_deref() else { continue };
            let id = running.id;
            match running.state {
                State::Unsettled { .. } => self.settle_unknown(id, now_ms, released),
                State::Broken { .. } => self.reload(id, now_ms),
                State::Lost => {}
                State::Live => more |= self.look_after(id, now_ms),
            }
        }
        more
    }

    fn settle_unknown(&mut self, id: ShardId, now_ms: u64, released: &mut Released) {
        let settled = self.store.settle(id);
        let Some(running) = self.running(id) else { return };
        let State::Unsettled { outputs, why } = mem::replace(&mut running.state, State::Live) else { return };
        match settled {
            Settled::Committed { position } => {
                running.position = position;
                released.extend(outputs);
            }
            Settled::Unknown(error) => running.state = State::Unsettled { outputs, why: error.to_string() },
            Settled::Lost => {
                running.state = State::Lost;
                released.refuse(outputs, &Refusal::InDoubt(why));
            }
            Settled::Nothing => {
                // The store does not know of it any more, so it cannot come to be stored: look what there is.
                released.refuse(outputs, &Refusal::InDoubt(why));
                self.reload(id, now_ms);
            }
        }
    }

    fn look_after(&mut self, id: ShardId, now_ms: u64) -> bool {
        let memory_bytes = self.settings.memory_bytes;
        let round = self.round.max(self.logged_bytes / LOGGED_BYTES_MAX);
        self.round = round;
        let Some(running) = self.running(id) else { return false };
        let floor = running.shard.tick(now_ms);
        let is_new_floor = floor > running.floor;
        running.shard.evict(EVICTION_LOOKS);
        let is_due = running.shard.resident().1 > memory_bytes
            || running.round < round
            || running.shard.unsaved_operations() >= OPERATIONS_UNSAVED_MAX
            || now_ms.saturating_sub(running.captured_ms) >= CHECKPOINT_EVERY_MS;
        if is_due && running.shard.is_unsaved() {
            self.begin_checkpoint(id, now_ms);
        }
        // On an error the slices stay a while longer: the next floor is higher.
        if is_new_floor
            && self.store.table().drop_slices(id, floor).is_ok()
            && let Some(running) = self.running(id)
        {
            running.floor = floor;
        }
        self.warm(id, now_ms)
    }

    /// Tells the filter about operations of an earlier process. Returns whether there are more.
    fn warm(&mut self, id: ShardId, now_ms: u64) -> bool {
        let table = self.store.table();
        let Some(running) = self.shards.get_mut(usize::from(id.0)).and_then(Option::as_deref_mut) else {
            return false;
        };
        let operations = running.shard.operations();
        let Some(run) = operations.coldest() else { return false };
        let mut after: Option<Vec<u8>> = None;
        loop {
            let prefix = run.pages();
            let scan =
                Scan { slice: run.slice, prefix: &prefix, after: after.as_deref(), rows_max: WARMING_PAGES };
            // What cannot be read stays cold, and is looked up.
            let Ok(page) = table.scan(id, scan) else { return false };
            for (_, row) in &page.rows {
                let Ok(found) = decode_page(row) else { return false };
                operations.warm(&found, now_ms);
            }
            after = page.next;
            if after.is_none() {
                operations.warmed(run);
                return operations.coldest().is_some();
            }
        }
    }

    fn begin_checkpoint(&mut self, id: ShardId, now_ms: u64) {
        let round = self.round;
        let under_way = self.shards.iter().flatten().filter(|running| running.capturing.is_some()).count();
        if under_way >= CHECKPOINTS_MAX {
            return;
        }
        let Some(running) = self.running(id) else { return };
        let position = running.position;
        let Some(rows) = running.shard.capture(now_ms) else { return };
        running.capturing = Some(position);
        running.captured_ms = now_ms;
        running.round = round;
        self.checkpoints += 1;
        if self.flush == Flush::Later && self.store.log().flush().is_err() {
            // Rows of a record that a crash takes back would stand for another one later.
            return self.reload(id, now_ms);
        }
        match &self.checkpointer {
            Some(checkpointer) => {
                checkpointer.offer(id, position, rows);
            }
            None => match self.store.checkpoint(id, position, &rows) {
                Ok(()) => self.finish_checkpoint(id, position),
                // The log has it all; it will be tried again from there.
                Err(_) => self.reload(id, now_ms),
            },
        }
    }

    fn finish_checkpoints(&mut self) {
        let Some(checkpointer) = &self.checkpointer else { return };
        let marks = checkpointer.finished();
        if marks.is_empty() {
            return;
        }
        // A mark that could not be moved only means that the log is kept for longer.
        let _ = self.store.log().checkpoint(&marks);
        for Mark { shard, position } in marks {
            self.finish_checkpoint(shard, position);
        }
    }

    fn finish_checkpoint(&mut self, id: ShardId, position: Position) {
        let Some(running) = self.running(id) else { return };
        if running.capturing.is_some_and(|capturing| capturing <= position) {
            running.capturing = None;
            running.shard.saved();
        }
    }

    /// Puts on the device what was committed with [`Flush::Later`].
    pub fn flush(&mut self) -> Result<(), StorageError> {
        self.store.log().flush()
    }

    /// A page of the counters of a shard. Call it between batches.
    pub fn list(
        &mut self,
        id: ShardId,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Listing, OpenError> {
        debug_assert!(self.pending.is_empty());
        let row_prefix = row_key(prefix);
        let row_after = after.map(row_key);
        let scan = Scan {
            slice: Slice::KEPT,
            prefix: &row_prefix,
            after: row_after.as_deref(),
            rows_max: limit.max(1),
        };
        let page = self.store.table().scan(id, scan)?;
        let running = self.running(id).ok_or(StorageError::NotOpen(id))?;
        if !matches!(running.state, State::Live) {
            return Err(StorageError::Unsettled(id).into());
        }
        let listing = running.shard.list(prefix, after, limit, &page);
        listing.map_err(|why| OpenError::Unreadable { shard: id.0, why })
    }

    /// Begins to watch a counter. Call it between batches.
    pub fn watch(&mut self, id: ShardId, key: &[u8]) -> Result<Option<i64>, Refusal> {
        let table = self.store.table();
        let running = self.shards.get_mut(usize::from(id.0)).and_then(Option::as_deref_mut);
        let running =
            running.ok_or_else(|| Refusal::NotStored(format!("shard {} is not open here", id.0)))?;
        load(table, running, key)?;
        Ok(running.shard.watch(key))
    }

    /// Stops watching.
    pub fn unwatch(&mut self, id: ShardId, key: &[u8]) {
        if let Some(running) = self.running(id) {
            running.shard.unwatch(key);
        }
    }

    /// Numbers for people.
    pub fn stats(&self) -> HostStats {
        let mut stats = HostStats {
            checkpoints: self.checkpoints,
            logged_bytes: self.logged_bytes,
            ..HostStats::default()
        };
        for running in self.shards.iter().flatten() {
            let (resident, bytes) = running.shard.resident();
            let (operations, filter) = running.shard.operation_stats();
            stats.live += running.shard.live();
            stats.resident += resident as u64;
            stats.resident_bytes += bytes as u64;
            stats.shards_unavailable += u64::from(!matches!(running.state, State::Live));
            stats.operations.seen += operations.seen;
            stats.operations.repeats += operations.repeats;
            stats.operations.false_positives += operations.false_positives;
            stats.filter.bytes += filter.bytes;
            stats.filter.error_estimate = stats.filter.error_estimate.max(filter.error_estimate);
        }
        stats
    }

    /// How many counters exist.
    pub fn live(&self) -> u64 {
        self.shards.iter().flatten().map(|running| running.shard.live()).sum()
    }
}

fn load<T: Table>(table: &T, running: &mut Running, key: &[u8]) -> Result<(), Refusal> {
    if running.shard.lacks(key) {
        let row = table.get(running.id, Slice::KEPT, &row_key(key));
        let row = row.map_err(|error| Refusal::NotStored(error.to_string()))?;
        running.shard.install(key, row.as_ref()).map_err(|why| Refusal::NotStored(why.to_string()))?;
    }
    Ok(())
}

/// Reads from the table what the command needs.
fn prepare<T: Table>(
    table: &T,
    running: &mut Running,
    command: &Command<'_>,
    now: Moment,
) -> Result<(), Refusal> {
    load(table, running, command.key)?;
    let Some((hash, runs)) = running.shard.where_to_look(command, now) else { return Ok(()) };
    let mut found = None;
    // The newest first: most retries come soon.
    for run in runs.iter().rev() {
        let row = table.get(running.id, run.slice, &run.key_of(hash));
        let Some(row) = row.map_err(|error| Refusal::NotStored(error.to_string()))? else { continue };
        let page = decode_page(&row).map_err(|why| {
            Refusal::NotStored(format!("a page of operations cannot be read ({why}); nothing was counted"))
        })?;
        found = page.iter().find(|operation| operation.hash == hash).map(|operation| operation.counted);
        if found.is_some() {
            break;
        }
    }
    running.shard.recall(hash, found);
    Ok(())
}
