//! Runs shards over a store: the one place where the order "persist, then reply" is kept.
//!
//! A host is driven by one thread. It takes commands ([`Host::submit`]), makes what they changed durable in one go
//! ([`Host::commit`]) and hands out what may leave the process after that. Between batches it brings the table up to
//! date and evicts what does not fit into memory ([`Host::maintain`]).

mod discipline;
#[cfg(feature = "testing")]
mod fingerprint;
mod handoff;
mod incarnation;
mod nodes;
mod patience;
mod recovery;
mod relay;
mod sites;

use std::{collections::BTreeSet, mem, sync::Arc};

use quipu_storage::{
    Batch, Checkpointer, Flush, Log, Mark, Outcome as Stored, Position, Row, Scan, Settled, ShardId, Slice,
    StorageError, Store, Table, Write,
};

use self::recovery::Clock;

pub use self::{
    discipline::Discipline,
    nodes::Standing,
    patience::{Overdue, passed_on, withdrawn},
    sites::{Counting, Envelope, Unfinished},
};
use crate::{
    Command, Event, FilterStats, KEY_BYTES_MAX, Listing, Membership, Moment, OperationStats, Outputs,
    Refusal, Reply, Settings, Shard, SiteId, Ticket,
    coverage::{Branch, reached},
    handoff::HandoffStats,
    operations::decode_page,
    record::{COVERED_KEY, TIME_KEY, encode_row, row_key},
    shard::{ListFrom, Unreadable},
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

/// Why a shard could not be opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// It is another site's.
    #[error("shard {shard} was written by site {found}, and this is site {asked}; nothing was changed")]
    OtherSite {
        /// The shard.
        shard: u16,
        /// Who has written it.
        found: SiteId,
        /// Who wants to open it.
        asked: SiteId,
    },
    /// Stored bytes are not what was written.
    #[error("shard {shard}: {why}. Nothing was changed")]
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
    /// How long each commit took that was under way.
    pub commits_ms: Vec<u64>,
}

impl Released {
    fn extend(&mut self, outputs: Outputs) {
        self.replies.extend(outputs.replies);
        self.events.extend(outputs.events);
    }

    /// The batch was not stored: everybody whose command was in it hears why.
    fn refuse(&mut self, outputs: Outputs, refusal: &Refusal) {
        let refused =
            outputs.replies.into_iter().map(|(ticket, _)| (ticket, Reply::refused(refusal.clone())));
        self.replies.extend(refused);
    }

    /// It is not known whether the batch was stored. Whoever has only read is not left in doubt about a count.
    fn doubt(&mut self, outputs: Outputs, in_doubt: &Refusal) {
        let doubted = outputs.replies.into_iter().map(|(ticket, reply)| {
            let refusal = match reply {
                Reply::Value(_) | Reply::Inspected(_) | Reply::Outcome(_) | Reply::Refused(_) => {
                    &Refusal::NotHere
                }
                _ => in_doubt,
            };
            (ticket, Reply::Refused(refusal.clone()))
        });
        self.replies.extend(doubted);
    }
}

/// What a commit has handed to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// Counters and operations.
    pub rows: usize,
    /// The bytes of their records.
    pub bytes: usize,
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
    /// About handoffs.
    pub handoff: HandoffStats,
}

/// A shard and how it stands with its store.
struct Running {
    id: ShardId,
    shard: Shard,
    clock: Clock,
    position: Position,
    /// The position that the checkpoint under way covers.
    capturing: Option<Position>,
    /// The round of checkpoints that it has taken part in.
    round: u64,
    /// Not since the shard was opened with records that the table lacks: then it is due, or a process that ends
    /// again and again would leave a longer log each time.
    captured_ms: Option<u64>,
    /// Slices below were dropped.
    floor: Slice,
    pending: bool,
    /// The epoch of trust in which its fence was last known to be ours.
    confirmed: u64,
    /// When the last commit began.
    begun_ms: u64,
    state: State,
}

impl Running {
    fn time_ms(&self, now: Moment) -> u64 {
        self.clock.at(now).elapsed_ms
    }

    fn is_committing(&self) -> bool {
        matches!(self.state, State::Committing(_))
    }
}

/// A batch on its way to the log.
struct Commit {
    outputs: Outputs,
    bytes: u64,
    began_ms: u64,
    /// The epoch of trust in which it was begun.
    epoch: u64,
}

enum State {
    Live,
    /// A commit is under way: nothing is taken, and nothing said of it, until that has come to its end.
    Committing(Commit),
    /// A commit ended in "unknown": nothing is released, and nothing taken, until it is settled.
    Unsettled {
        commit: Commit,
        why: String,
    },
    /// Memory holds effects that are not stored, and could not be read again yet.
    Broken {
        why: String,
    },
    /// Somebody else has it.
    Lost,
}

impl State {
    /// What is said while the shard takes no commands.
    fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Live => None,
            Self::Committing(_) => {
                Some(Refusal::NotStored("a commit is under way; nothing was counted. Try again".into()))
            }
            Self::Unsettled { why, .. } | Self::Broken { why } => {
                Some(Refusal::NotStored(format!("{why}; nothing was counted. Try again")))
            }
            Self::Lost => Some(Refusal::NotHere),
        }
    }
}

/// The shards that one thread runs.
pub struct Host<L, T> {
    store: Store<L, T>,
    checkpointer: Option<Arc<Checkpointer>>,
    settings: Settings,
    flush: Flush,
    discipline: Discipline,
    membership: Membership,
    standing: Standing,
    connected: BTreeSet<SiteId>,
    counting: Counting,
    /// So many commits are under way.
    under_way: usize,
    /// Something was committed that a crash could take back.
    unflushed: bool,
    /// What the next batch says must not be taken back.
    flush_next: bool,
    /// When shards were last looked through for what waits.
    tended_ms: Option<u64>,
    shards: Vec<Option<Box<Running>>>,
    pending: Vec<ShardId>,
    refused: Released,
    /// What the table has, and the log has not heard of yet.
    marks: Vec<Mark>,
    next_shard: usize,
    /// How often the log has grown so much that every shard must be checkpointed.
    round: u64,
    checkpoints: u64,
    logged_bytes: u64,
    /// Why the store has refused the last commit, if it did.
    refusing: Option<String>,
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
            membership: Membership::alone(settings.site),
            standing: Standing::default(),
            connected: BTreeSet::new(),
            counting: Counting::default(),
            under_way: 0,
            unflushed: false,
            flush_next: false,
            tended_ms: None,
            shards: Vec::new(),
            pending: Vec::new(),
            refused: Released::default(),
            marks: Vec::new(),
            next_shard: 0,
            round: 0,
            checkpoints: 0,
            logged_bytes: 0,
            refusing: None,
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

    /// Takes a command. Its answer is [released](Self::commit) with the batch.
    pub fn submit(&mut self, id: ShardId, ticket: Ticket, command: Command<'_>, now: Moment) {
        let table = self.store.table();
        let Some(running) = self.shards.get_mut(usize::from(id.0)).and_then(Option::as_deref_mut) else {
            return self.refused.replies.push((ticket, Reply::refused(Refusal::NotHere)));
        };
        let now = running.clock.at(now);
        let ready = match running.state.refusal() {
            None => prepare(table, running, &command),
            Some(refusal) => Err(refusal),
        };
        if let Err(refusal) = ready {
            return self.refused.replies.push((ticket, Reply::refused(refusal)));
        }
        running.shard.apply(ticket, command, now);
        self.mark_pending(id);
    }

    fn mark_pending(&mut self, id: ShardId) {
        let Some(running) = self.running(id) else { return };
        if !mem::replace(&mut running.pending, true) {
            self.pending.push(id);
        }
    }

    /// How large the largest record has become that the next commit would write.
    pub fn record_bytes(&self) -> usize {
        let shards = self.pending.iter().filter_map(|id| self.shards.get(usize::from(id.0))?.as_deref());
        shards.map(|running| running.shard.record_bytes()).max().unwrap_or(0)
    }

    /// Is a commit of this shard under way? Then it is to be left alone: what is for it waits until [`Self::collect`]
    /// has heard of its end. Only stores that are far away have commits under way.
    pub fn is_committing(&self, id: ShardId) -> bool {
        self.under_way > 0
            && self
                .shards
                .get(usize::from(id.0))
                .and_then(Option::as_deref)
                .is_some_and(Running::is_committing)
    }

    /// Is any?
    pub fn has_commits_under_way(&self) -> bool {
        self.under_way > 0
    }

    /// How many commands wait for commits under way.
    pub fn commands_under_way(&self) -> usize {
        if self.under_way == 0 {
            return 0;
        }
        let commands = |running: &Running| match &running.state {
            State::Committing(Commit { outputs, .. }) => outputs.replies.len(),
            _ => 0,
        };
        self.shards.iter().flatten().map(|running| commands(running)).sum()
    }

    /// Takes in what became of commits under way, and releases what may be known then. With `wait`, it waits for all of
    /// them. Returns whether there was anything.
    pub fn collect(&mut self, wait: bool, now: Moment, released: &mut Released) -> bool {
        let mut any = false;
        while self.under_way > 0 {
            let finished = self.store.finished(wait);
            any |= !finished.is_empty();
            for (id, outcome) in finished {
                self.end_commit(id, outcome, now, released);
            }
            if !wait {
                break;
            }
        }
        any
    }

    fn end_commit(&mut self, id: ShardId, outcome: Stored, now: Moment, released: &mut Released) {
        let Some(running) = self.running(id).filter(|running| running.is_committing()) else { return };
        let State::Committing(commit) = mem::replace(&mut running.state, State::Live) else { return };
        released.commits_ms.push(now.elapsed_ms.saturating_sub(commit.began_ms));
        self.under_way -= 1;
        self.settle(id, commit, outcome, now, released);
    }

    /// Makes everything submitted durable, and releases what may be known then; or begins to, if the store is far away:
    /// then [`Self::collect`] releases it. Returns how much was written, if anything.
    pub fn commit(&mut self, now: Moment, released: &mut Released) -> Option<Written> {
        released.replies.append(&mut self.refused.replies);
        self.try_again(now);
        self.tend(now);
        let mut batches = Vec::with_capacity(self.pending.len());
        let mut waiting = Vec::with_capacity(self.pending.len());
        let mut written = Written::default();
        for id in mem::take(&mut self.pending) {
            let is_trusted = self.is_trusted(id);
            let Some(running) = self.running(id) else { continue };
            debug_assert!(!running.is_committing());
            running.pending = false;
            running.begun_ms = now.elapsed_ms;
            let now_ms = running.time_ms(now);
            if !is_trusted {
                running.shard.store_anyway();
            }
            let sealed = running.shard.seal(now_ms);
            match sealed.record {
                Some(record) => {
                    written.rows += sealed.rows;
                    written.bytes += record.len();
                    waiting.push((id, sealed.outputs));
                    batches.push(Batch { shard: id, record });
                }
                // Nothing changed, and all that a read can have seen is durable: commits are waited for. Where clients are
                // answered before the flush, a read shows what they were told. Edges and relays are told only what is flushed:
                // a visit notes its visitor, so that it is always part of the record, and of the flush.
                None => {
                    debug_assert!(!sealed.outputs.speaks_to_visitors());
                    released.extend(sealed.outputs);
                }
            }
        }
        if batches.is_empty() {
            return None;
        }
        self.discipline.before_commit(&mut waiting, released);
        if self.discipline.checkpoints_early() {
            batches.iter().for_each(|batch| self.begin_checkpoint(batch.shard, now));
        }
        let flush = if mem::take(&mut self.flush_next) { Flush::Now } else { self.flush };
        let lengths: Vec<u64> = batches.iter().map(|batch| batch.record.len() as u64).collect();
        let (began_ms, epoch) = (now.elapsed_ms, self.standing.epoch);
        let outcomes = self.store.begin(batches, flush);
        for (((id, outputs), outcome), bytes) in waiting.into_iter().zip(outcomes).zip(lengths) {
            let commit = Commit { outputs, bytes, began_ms, epoch };
            match outcome {
                Some(outcome) => self.settle(id, commit, outcome, now, released),
                None => self.leave_under_way(id, commit),
            }
        }
        Some(written)
    }

    fn leave_under_way(&mut self, id: ShardId, commit: Commit) {
        if let Some(running) = self.running(id) {
            running.state = State::Committing(commit);
            self.under_way += 1;
        }
    }

    fn settle(&mut self, id: ShardId, commit: Commit, outcome: Stored, now: Moment, released: &mut Released) {
        let Some(running) = self.running(id) else { return };
        match outcome {
            Stored::Committed { position } => self.note_stored(id, commit, position, released),
            Stored::Fenced => {
                reached(Branch::CommitFenced);
                running.state = State::Lost;
                released.refuse(commit.outputs, &Refusal::NotHere);
            }
            Stored::Failed(error) => {
                reached(Branch::CommitFailed);
                released.refuse(commit.outputs, &Refusal::NotStored(error.to_string()));
                self.refusing = Some(error.to_string());
                self.reload(id, now);
            }
            Stored::Unknown(error) => {
                reached(Branch::CommitUnknown);
                running.state = State::Unsettled { commit, why: error.to_string() };
            }
        }
    }

    /// A commit was stored, as was known at once or is known by now: its outputs are released.
    fn note_stored(&mut self, id: ShardId, commit: Commit, position: Position, released: &mut Released) {
        let Some(running) = self.running(id) else { return };
        let Commit { outputs, bytes, epoch, .. } = commit;
        running.position = position;
        running.confirmed = epoch;
        running.shard.committed();
        self.refusing = None;
        self.logged_bytes += bytes;
        self.unflushed |= self.flush == Flush::Later;
        released.extend(outputs);
    }

    /// After a batch that was not stored, memory holds effects that storage does not: throw it away.
    fn reload(&mut self, id: ShardId, now: Moment) {
        if self.discipline.keeps_memory() {
            return;
        }
        if let Some(checkpointer) = &self.checkpointer {
            // What it is writing is committed; what it has not begun stands in the log.
            checkpointer.forget(id);
        }
        let recovered = self.store.reload(id).map_err(OpenError::from);
        let table = self.store.table();
        let Some(running) = self.shards.get_mut(usize::from(id.0)).and_then(Option::as_deref_mut) else {
            return;
        };
        reached(Branch::Reloaded);
        running.capturing = None;
        let now_ms = running.time_ms(now);
        let shard = recovered.and_then(|recovered| {
            running.position = recovered.last();
            recovery::read(table, id, self.settings, &self.membership, &recovered, now_ms)
        });
        running.state = match shard {
            Ok(mut shard) => {
                shard.carry_on(&mut running.shard);
                running.shard = shard;
                State::Live
            }
            Err(OpenError::Storage(StorageError::Fenced(_))) => State::Lost,
            Err(error) => {
                reached(Branch::ReloadFailed);
                State::Broken { why: error.to_string() }
            }
        };
    }

    /// What is to be done between batches: settles what is unknown, begins and ends checkpoints, keeps to the memory
    /// budget, forgets old operations. Each call does a bounded piece of it. Returns whether more is waiting.
    pub fn maintain(&mut self, now: Moment, released: &mut Released) -> bool {
        debug_assert!(self.pending.is_empty());
        self.finish_checkpoints();
        let count = self.shards.len();
        let mut more = false;
        for _ in 0..count.min(8) {
            self.next_shard = (self.next_shard + 1) % count;
            let Some(running) = self.shards[self.next_shard].as_deref() else { continue };
            let id = running.id;
            match running.state {
                State::Unsettled { .. } => self.settle_unknown(id, now, released),
                State::Broken { .. } => self.reload(id, now),
                State::Lost | State::Committing(_) => {}
                State::Live => more |= self.look_after(id, now),
            }
        }
        more
    }

    fn settle_unknown(&mut self, id: ShardId, now: Moment, released: &mut Released) {
        let settled = self.store.settle(id);
        let Some(running) = self.running(id) else { return };
        let State::Unsettled { commit, why } = mem::replace(&mut running.state, State::Live) else { return };
        match settled {
            Settled::Committed { position } => {
                reached(Branch::UnknownStored);
                self.note_stored(id, commit, position, released);
            }
            Settled::Unknown(error) => {
                reached(Branch::UnknownStill);
                running.state = State::Unsettled { commit, why: error.to_string() };
            }
            Settled::Lost => {
                reached(Branch::UnknownLost);
                running.state = State::Lost;
                released.doubt(commit.outputs, &self.discipline.in_doubt(why));
            }
            Settled::Nothing => {
                reached(Branch::UnknownNothing);
                // The store does not know of it any more, so it cannot come to be stored: look what there is.
                released.doubt(commit.outputs, &Refusal::InDoubt(why));
                self.reload(id, now);
            }
        }
    }

    fn look_after(&mut self, id: ShardId, now: Moment) -> bool {
        let memory_bytes = self.settings.memory_bytes;
        let round = self.round.max(self.logged_bytes / LOGGED_BYTES_MAX);
        self.round = round;
        let Some(running) = self.running(id) else { return false };
        let now_ms = running.time_ms(now);
        let floor = running.shard.tick(now_ms);
        running.shard.evict(EVICTION_LOOKS);
        let is_due = running.shard.resident().1 > memory_bytes
            || running.round < round
            || running.shard.unsaved_operations() >= OPERATIONS_UNSAVED_MAX
            || running.captured_ms.is_none_or(|then| now_ms.saturating_sub(then) >= CHECKPOINT_EVERY_MS);
        // What has changed by itself is logged first.
        if is_due && running.shard.is_unsaved() && !running.shard.has_moved() {
            self.begin_checkpoint(id, now);
        }
        self.drop_slices(id, floor, now_ms);
        let (table, is_flushed) = (self.store.table(), !self.unflushed);
        let mut running = self.shards.get_mut(usize::from(id.0)).and_then(Option::as_deref_mut);
        if let Some(running) = running.as_deref_mut().filter(|_| is_flushed) {
            incarnation::sweep_up(table, running);
        }
        // What cannot be read stays cold, and is looked up.
        running.is_some_and(|running| recovery::warm(table, id, &mut running.shard, now_ms).unwrap_or(false))
    }

    /// Drops operations that have expired. On an error they stay a while longer: the next floor is higher.
    fn drop_slices(&mut self, id: ShardId, floor: Slice, now_ms: u64) {
        // That it has forgotten them first, for good.
        let is_stored = self.running(id).is_some_and(|running| !running.shard.has_moved());
        if !is_stored || (self.unflushed && self.store.log().flush().is_err()) {
            return;
        }
        let table = self.store.table();
        let running = self.shards.get_mut(usize::from(id.0)).and_then(Option::as_deref_mut);
        let Some(running) = running else { return };
        let slice_max = running.shard.slice_max();
        if floor <= running.floor || slice_max < running.floor || slice_max == Slice::KEPT {
            return;
        }
        // The time first, for good: a shard that went on from an earlier time would write operations to slices that do
        // not take them any more.
        let row = Row { version: now_ms, bytes: encode_row(&now_ms) };
        let time = Write { slice: Slice::KEPT, key: TIME_KEY.to_vec(), row };
        if table.put(id, &[time]).and_then(|()| table.drop_slices(id, floor)).is_ok() {
            reached(Branch::SlicesDropped);
            running.floor = floor;
        }
    }

    fn begin_checkpoint(&mut self, id: ShardId, now: Moment) {
        let round = self.round;
        let under_way = self.shards.iter().flatten().filter(|running| running.capturing.is_some()).count();
        // The list of settled entries tells of two checkpoints, of which the older one must be complete.
        let is_unmarked = self.marks.iter().any(|mark| mark.shard == id);
        if under_way >= CHECKPOINTS_MAX || is_unmarked {
            reached(Branch::CheckpointFull);
            return;
        }
        let Some(running) = self.running(id) else { return };
        let (position, now_ms) = (running.position, running.time_ms(now));
        let Some(mut rows) = running.shard.capture(now_ms, position) else { return };
        let covered = Row { version: position.0, bytes: encode_row(&position.0) };
        rows.push(Write { slice: Slice::KEPT, key: COVERED_KEY.to_vec(), row: covered });
        running.capturing = Some(position);
        running.captured_ms = Some(now_ms);
        running.round = round;
        self.checkpoints += 1;
        if self.flush == Flush::Later && self.store.log().flush().is_err() {
            // Rows of a record that a crash takes back would stand for another one later.
            return self.reload(id, now);
        }
        match &self.checkpointer {
            Some(checkpointer) => {
                checkpointer.offer(id, position, rows);
            }
            None => match self.discipline.checkpoint(&mut self.store, id, position, &rows) {
                Ok(()) => self.finish_checkpoint(id, position),
                // The log has it all; it will be tried again from there.
                Err(_) => {
                    reached(Branch::CheckpointFailed);
                    self.reload(id, now);
                }
            },
        }
    }

    fn finish_checkpoints(&mut self) {
        let Some(checkpointer) = &self.checkpointer else { return };
        let shards = &self.shards;
        let is_own = |shard: ShardId| shards.get(usize::from(shard.0)).is_some_and(Option::is_some);
        let finished = checkpointer.finished(is_own);
        for Mark { shard, position } in &finished {
            self.finish_checkpoint(*shard, *position);
        }
        self.marks.extend(finished);
        if self.marks.is_empty() {
            return;
        }
        let log = self.store.log();
        if log.checkpoint(&self.marks).is_ok() {
            return self.marks.clear();
        }
        reached(Branch::MarkStuck);
        // One that cannot be moved does not hold up the others. Those that can be later keep the log until then.
        self.marks.retain(|mark| match log.checkpoint(&[*mark]) {
            Ok(()) => false,
            Err(error) => matches!(
                error,
                StorageError::Io { .. } | StorageError::Full { .. } | StorageError::Unanswered { .. }
            ),
        });
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
        self.store.log().flush()?;
        self.unflushed = false;
        Ok(())
    }

    /// A page of the counters of a shard that is surely this node's. Call it between batches.
    pub fn list(
        &mut self,
        id: ShardId,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Listing, Refusal> {
        debug_assert!(self.pending.is_empty());
        self.check_readable(id)?;
        let row_prefix = row_key(prefix);
        let row_after = after.map(row_key);
        let scan = Scan {
            slice: Slice::KEPT,
            prefix: &row_prefix,
            after: row_after.as_deref(),
            rows_max: limit.max(1),
        };
        let page = self.store.table().scan(id, scan);
        let page = page.map_err(|error| Refusal::NotStored(error.to_string()))?;
        let running = self.running(id).ok_or(Refusal::NotHere)?;
        let listing = running.shard.list(ListFrom { prefix, after, limit }, &page);
        listing.map_err(|why| Refusal::NotStored(OpenError::Unreadable { shard: id.0, why }.to_string()))
    }

    /// Begins to watch a counter of a shard that is surely this node's. Call it between batches.
    pub fn watch(&mut self, id: ShardId, key: &[u8]) -> Result<Option<i64>, Refusal> {
        debug_assert!(self.pending.is_empty());
        if !is_key(key) {
            return Err(Refusal::BadKey { bytes: key.len() });
        }
        self.check_readable(id)?;
        let table = self.store.table();
        let running = self.shards.get_mut(usize::from(id.0)).and_then(Option::as_deref_mut);
        let running = running.ok_or(Refusal::NotHere)?;
        load(table, running, key)?;
        Ok(running.shard.watch(key))
    }

    /// Stops watching.
    pub fn unwatch(&mut self, id: ShardId, key: &[u8]) {
        if let Some(running) = self.running(id) {
            running.shard.unwatch(key);
        }
    }

    /// Why the table could not be brought up to date, if that was so lately. It is tried again.
    pub fn checkpoint_failure(&self) -> Option<StorageError> {
        self.checkpointer.as_ref().and_then(|checkpointer| checkpointer.failure())
    }

    /// Why the store refuses commits, if it has refused the last one.
    pub fn refusing(&self) -> Option<&str> {
        self.refusing.as_deref()
    }

    /// Tries, with the next batch, whether the store takes commits again.
    pub fn probe(&mut self) {
        let is_live = |running: &&Running| matches!(running.state, State::Live);
        let live = self.shards.iter().flatten().map(Box::as_ref).find(is_live).map(|running| running.id);
        match live {
            Some(id) => self.confirm(id),
            // There is nothing that it could refuse.
            None => self.refusing = None,
        }
    }

    /// Numbers for people.
    pub fn stats(&self) -> HostStats {
        let mut stats = HostStats {
            checkpoints: self.checkpoints,
            logged_bytes: self.logged_bytes,
            handoff: self.handoff_stats(),
            ..HostStats::default()
        };
        for running in self.shards.iter().flatten() {
            let (resident, bytes) = running.shard.resident();
            let (operations, filter) = running.shard.operation_stats();
            stats.live += running.shard.live();
            stats.resident += resident as u64;
            stats.resident_bytes += bytes as u64;
            let is_available = matches!(running.state, State::Live | State::Committing(_));
            stats.shards_unavailable += u64::from(!is_available);
            stats.operations.seen += operations.seen;
            stats.operations.repeats += operations.repeats;
            stats.operations.false_positives += operations.false_positives;
            stats.filter.bytes += filter.bytes;
            stats.filter.error_estimate = stats.filter.error_estimate.max(filter.error_estimate);
        }
        stats
    }

    /// How many counters exist in a shard that can be read and is surely this node's.
    pub fn live_in(&self, id: ShardId) -> Option<u64> {
        let running = self.shards.get(usize::from(id.0)).and_then(Option::as_deref);
        let is_live = |running: &&Running| matches!(running.state, State::Live);
        running.filter(is_live).filter(|_| self.is_trusted(id)).map(|running| running.shard.live())
    }

    /// How many counters exist in all such shards.
    pub fn live(&self) -> u64 {
        self.shards.iter().flatten().filter_map(|running| self.live_in(running.id)).sum()
    }
}

fn is_key(key: &[u8]) -> bool {
    (1..=KEY_BYTES_MAX).contains(&key.len())
}

fn load<T: Table>(table: &T, running: &mut Running, key: &[u8]) -> Result<(), Refusal> {
    // A key that is none is refused by the shard.
    if is_key(key) && running.shard.lacks(key) {
        let row = table.get(running.id, Slice::KEPT, &row_key(key));
        let row = row.map_err(|error| Refusal::NotStored(error.to_string()))?;
        running.shard.install(key, row.as_ref()).map_err(|why| Refusal::NotStored(why.to_string()))?;
    }
    Ok(())
}

/// Reads from the table what the command needs.
fn prepare<T: Table>(table: &T, running: &mut Running, command: &Command<'_>) -> Result<(), Refusal> {
    load(table, running, command.key)?;
    let Some((hash, runs)) = running.shard.where_to_look(command) else { return Ok(()) };
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
            reached(Branch::RepeatStored);
            break;
        }
    }
    if found.is_none() {
        reached(Branch::RepeatNotStored);
    }
    running.shard.recall(hash, found);
    Ok(())
}
