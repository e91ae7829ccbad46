//! A shard: the single-writer state machine of a slice of the keys.
//!
//! Commands go in; what to persist, then replies and events come out, in that order ([`Sealed`]). There is no I/O
//! here. Whoever drives a shard first gives it what the table has ([`Shard::lacks`], [`Shard::install`]), and after a
//! batch that was not stored throws it away and opens it again: memory holds effects that storage does not.

use std::{collections::BTreeSet, mem};

use quipu_crdt::{Bounded, bounded::Definition};
use quipu_storage::{Page, Row, Slice, Write};

use crate::{
    Action, Add, Added, Beyond, BoundedView, Command, Inspection, KEY_BYTES_MAX, Limits, Moment, OperationId,
    Refusal, Reply, Settings, SiteView, WindowMode,
    counter::{Counter, pn},
    counters::{Counters, Entry, Flags, Index, VERSION_MAX},
    operations::{Admitted, Counted, Operation, OperationHash, Operations, Run, slice_of},
    record::{self, Contents, Summary},
};

/// Whoever waits for a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A counter that is watched has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The counter.
    pub key: Box<[u8]>,
    /// Its value; `None`: it does not exist any more.
    pub value: Option<i64>,
}

/// What may leave the process once the batch is durable.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outputs {
    /// Answers, in the order of the commands. Reads and refusals are answers too.
    pub replies: Vec<(Ticket, Reply)>,
    /// What watchers are told.
    pub events: Vec<Event>,
}

/// A batch: first make the record durable, then release the outputs.
#[derive(Debug, PartialEq, Eq)]
pub struct Sealed {
    /// To be stored; `None` if nothing has changed.
    pub record: Option<Vec<u8>>,
    /// How many counters and operations are in it.
    pub rows: usize,
    /// To be released after that.
    pub outputs: Outputs,
}

/// Stored bytes that are not what was written.
#[derive(Debug, thiserror::Error)]
#[error("{what} cannot be read: {why}")]
pub struct Unreadable {
    pub(crate) what: &'static str,
    pub(crate) why: minicbor::decode::Error,
}

/// What cannot be read, if it is that.
pub(crate) const A_RECORD: &str = "a record of the log";

/// What the table has of a shard besides its counters.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    pub(crate) summary: Summary,
    pub(crate) runs: Vec<Run>,
    /// The table has no counters: what is not in memory does not exist.
    pub(crate) is_empty: bool,
}

/// One shard.
#[derive(Debug)]
pub struct Shard {
    settings: Settings,
    counters: Counters,
    operations: Operations,
    /// All counters are in memory.
    complete: bool,
    summary: Summary,
    outputs: Outputs,
    touched: Vec<Index>,
    counted: Vec<Operation>,
    record_bytes: usize,
    unsaved: Vec<Index>,
    /// What the checkpoint under way writes.
    saving: Option<Vec<Index>>,
    /// How many of `unsaved` are in the order of their keys, from the first on.
    unsaved_sorted: usize,
    /// Counters that the checkpoint under way writes and that the table may not list yet, in the order of their keys.
    fresh_saving: Vec<Index>,
    watched: BTreeSet<Box<[u8]>>,
}

impl Shard {
    /// A shard as it was stored: what the table has, and the records since the checkpoint.
    pub(crate) fn recover<'a>(
        settings: Settings,
        stored: Stored,
        records: impl Iterator<Item = &'a [u8]>,
        now_ms: u64,
    ) -> Result<Self, Unreadable> {
        let mut shard = Self {
            settings,
            counters: Counters::new(settings.seed),
            operations: Operations::new(settings.window, stored.runs, settings.seed, now_ms),
            complete: stored.is_empty,
            summary: stored.summary,
            outputs: Outputs::default(),
            touched: Vec::new(),
            counted: Vec::new(),
            record_bytes: 0,
            unsaved: Vec::new(),
            saving: None,
            unsaved_sorted: 0,
            fresh_saving: Vec::new(),
            watched: BTreeSet::new(),
        };
        for bytes in records {
            let contents = record::decode_record(bytes).map_err(|why| Unreadable { what: A_RECORD, why })?;
            shard.replay(contents, now_ms);
        }
        Ok(shard)
    }

    fn replay(&mut self, contents: Contents<'_>, now_ms: u64) {
        for change in contents.changes {
            let index = self.counters.find(change.key).unwrap_or_else(|| self.counters.insert(change.key));
            self.counters.change(index, |entry| {
                entry.counter = change.counter;
                entry.set_version(change.version);
            });
            self.list_unsaved(index);
        }
        for operation in contents.operations {
            self.operations.remember(operation, now_ms);
        }
        self.summary = contents.summary;
    }

    /// Must the row of this key be read from the table, and [installed](Self::install), before a command on it?
    pub fn lacks(&self, key: &[u8]) -> bool {
        !self.complete && self.counters.find(key).is_none()
    }

    /// Where the row of a key stands in the table.
    pub fn row_key(key: &[u8]) -> Vec<u8> {
        record::row_key(key)
    }

    /// Takes in what the table has under a key that this shard [lacks](Self::lacks).
    pub fn install(&mut self, key: &[u8], row: Option<&Row>) -> Result<(), Unreadable> {
        let Some(row) = row.filter(|row| !row.bytes.is_empty()) else { return Ok(()) };
        let counter = decode_counter(row)?;
        let index = self.counters.insert(key);
        self.counters.change(index, |entry| {
            entry.counter = Some(counter);
            entry.set_version(row.version);
            entry.flag(|flags| flags.in_table = true);
        });
        Ok(())
    }

    pub(crate) fn where_to_look(
        &self,
        command: &Command<'_>,
        now: Moment,
    ) -> Option<(OperationHash, Vec<Run>)> {
        let (id, mode) = match command.action {
            Action::Add { operation: Some(id), .. } => (id, self.settings.window.mode),
            // Whoever asks is told what is stored, even if the filter alone decides what counts.
            Action::Outcome(id) => (id, WindowMode::Exact),
            _ => return None,
        };
        let hash = OperationHash::of(command.key, id);
        let runs = self.operations.where_to_look(hash, id.id, mode, now);
        (!runs.is_empty()).then(|| (hash, runs.to_vec()))
    }

    pub(crate) fn recall(&mut self, hash: OperationHash, found: Option<Counted>) {
        self.operations.recall(hash, found);
    }

    /// Does what a command says. The reply comes out with the batch.
    pub fn apply(&mut self, ticket: Ticket, command: Command<'_>, now: Moment) {
        let reply = self.run(command, now).unwrap_or_else(Reply::Refused);
        self.outputs.replies.push((ticket, reply));
    }

    fn run(&mut self, command: Command<'_>, now: Moment) -> Result<Reply, Refusal> {
        let Command { key, action } = command;
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err(Refusal::BadKey { bytes: key.len() });
        }
        match action {
            Action::Add { add, operation: None } => self.add(key, add).map(Reply::Added),
            Action::Add { add, operation: Some(id) } => self.add_once(key, add, id, now).map(Reply::Added),
            Action::Get => Ok(Reply::Value(self.value(key))),
            Action::Reset { to } => self.reset(key, to),
            Action::Create(limits) => self.create(key, limits),
            Action::Inspect => Ok(Reply::Inspected(self.inspect(key).map(Box::new))),
            Action::Outcome(id) => {
                Ok(Reply::Outcome(self.operations.outcome(OperationHash::of(key, id), id.id, now)))
            }
        }
    }

    fn find(&mut self, key: &[u8]) -> Option<Index> {
        let index = self.counters.find(key)?;
        self.counters.flag(index, |flags| flags.used = true);
        Some(index)
    }

    fn value(&mut self, key: &[u8]) -> Option<i64> {
        let index = self.find(key)?;
        shown(self.counters.get(index))
    }

    fn add_once(&mut self, key: &[u8], add: Add, id: OperationId<'_>, now: Moment) -> Result<Added, Refusal> {
        let hash = OperationHash::of(key, id);
        match self.operations.admit(hash, id.id, add.amount, now)? {
            Admitted::Repeat(counted) => Ok(counted.answer()),
            Admitted::Presumed => {
                Ok(Added { value: self.value(key).unwrap_or(0), applied: 0, repeated: true })
            }
            Admitted::New { hash, expires_ms } => {
                let added = self.add(key, add)?;
                let Added { value, applied, .. } = added;
                let counted = Counted { amount: add.amount, applied, value, expires_ms };
                let operation = Operation { hash, counted };
                self.operations.remember(operation, now.elapsed_ms);
                // In the same record as the count. It has a number of its own, so that the summary has another version
                // even if nothing was counted.
                self.summary.changes += 1;
                self.summary.slice_max = self.summary.slice_max.max(slice_of(expires_ms).0);
                self.counted.push(operation);
                self.record_bytes += 48;
                Ok(added)
            }
        }
    }

    fn add(&mut self, key: &[u8], add: Add) -> Result<Added, Refusal> {
        let found = self.find(key);
        let counter = found.and_then(|index| self.counters.get(index).counter.as_ref());
        let room = Room::of(counter, &self.settings, add);
        let applied = room.admit(add)?;
        let existed = counter.is_some_and(Counter::exists);
        if applied == 0 && add.amount != 0 && !existed {
            // Nothing to count, and nothing to count it on.
            return Ok(Added { value: 0, applied: 0, repeated: false });
        }
        let index = found.unwrap_or_else(|| self.counters.insert(key));
        let (site, version) = (self.settings.site, self.summary.changes + 1);
        if applied != 0 || !existed {
            self.counters.change(index, |entry| match &mut entry.counter {
                Some(counter) => counter.add(site, version, applied),
                empty => {
                    *empty = Some(Counter::Plain(pn(applied)));
                    Ok(())
                }
            })?;
            self.touch(index, existed);
        }
        let value = room.value + i128::from(applied);
        Ok(Added { value: saturated(value), applied, repeated: false })
    }

    fn reset(&mut self, key: &[u8], to: Option<i64>) -> Result<Reply, Refusal> {
        let found = self.find(key);
        let existed = found.is_some_and(|index| self.counters.get(index).exists());
        if to.is_none() && !existed {
            return Ok(Reply::Reset { existed });
        }
        let (site, version) = (self.settings.site, self.summary.changes + 1);
        let index = found.unwrap_or_else(|| self.counters.insert(key));
        let before = self.counters.get(index).version();
        self.counters.change(index, |entry| match &mut entry.counter {
            Some(counter) => counter.reset(site, before, version, to),
            empty => {
                *empty = to.map(|to| Counter::Plain(pn(to)));
                Ok(())
            }
        })?;
        self.touch(index, existed);
        Ok(Reply::Reset { existed })
    }

    fn create(&mut self, key: &[u8], limits: Limits) -> Result<Reply, Refusal> {
        let found = self.find(key);
        if found.is_some_and(|index| self.counters.get(index).exists()) {
            return Err(Refusal::Exists);
        }
        let Limits { minimum, maximum, initial } = limits;
        let definition = Definition::new(minimum, maximum, initial, self.settings.site)
            .map_err(|error| Refusal::BadDefinition(error.to_string()))?;
        let bounded = Bounded::new(self.settings.site, definition);
        let index = found.unwrap_or_else(|| self.counters.insert(key));
        self.counters.change(index, |entry| entry.counter = Some(Counter::Bounded(Box::new(bounded))));
        self.touch(index, false);
        Ok(Reply::Created)
    }

    fn inspect(&mut self, key: &[u8]) -> Option<Inspection> {
        let index = self.find(key)?;
        let entry = self.counters.get(index);
        let value = shown(entry)?;
        let counter = entry.counter.as_ref()?;
        let bounded = match counter {
            Counter::Bounded(bounded) => Some(bounded),
            Counter::Plain(_) | Counter::Shared(_) => None,
        };
        let sites = counter.sites(self.settings.site).into_iter().map(|(site, counted)| SiteView {
            site,
            added: counted.added,
            subtracted: counted.subtracted,
            rights_to_add: bounded.and_then(|bounded| bounded.rights_to_add(&site)),
            rights_to_subtract: bounded.and_then(|bounded| bounded.rights_to_subtract(&site)),
        });
        let definition = bounded.map(|bounded| bounded.definition());
        Some(Inspection {
            value,
            sites: sites.collect(),
            version: entry.version(),
            bounded: definition.map(|definition| BoundedView {
                minimum: definition.minimum(),
                maximum: definition.maximum(),
                initial: definition.initial(),
                creator: *definition.creator(),
            }),
        })
    }

    /// A counter has changed: it gets the next number, and goes into the batch and the next checkpoint.
    fn touch(&mut self, index: Index, existed: bool) {
        self.summary.changes += 1;
        let version = self.summary.changes;
        let exists = self.counters.change(index, |entry| {
            entry.set_version(version);
            entry.exists()
        });
        match (existed, exists) {
            (false, true) => self.summary.live += 1,
            (true, false) => self.summary.live = self.summary.live.saturating_sub(1),
            _ => {}
        }
        if !self.counters.flag(index, |flags| mem::replace(&mut flags.touched, true)) {
            self.touched.push(index);
            self.record_bytes += 32 + self.counters.get(index).key.len();
        }
        self.list_unsaved(index);
    }

    fn list_unsaved(&mut self, index: Index) {
        let before = self.counters.get(index).flags();
        let is_fresh = before.fresh || !before.in_table;
        let flags = Flags { used: true, unsaved: true, fresh: is_fresh, ..before };
        self.counters.flag(index, |it| *it = flags);
        if !before.unsaved {
            if self.unsaved.len() == self.unsaved.capacity() {
                // By an eighth: with a new counter in every place, doubling would cost as much as a small key.
                self.unsaved.reserve_exact(64 + self.unsaved.len() / 8);
            }
            self.unsaved.push(index);
        }
    }

    fn sort_unsaved(&mut self) {
        if self.unsaved_sorted < self.unsaved.len() {
            let counters = &self.counters;
            self.unsaved.sort_by(|one, other| counters.get(*one).key.cmp(&counters.get(*other).key));
            self.unsaved_sorted = self.unsaved.len();
        }
    }

    /// How large the record of the batch has become, roughly.
    pub fn record_bytes(&self) -> usize {
        self.record_bytes
    }

    /// Ends the batch: everything applied since the last one.
    pub fn seal(&mut self, now_ms: u64) -> Sealed {
        let mut outputs = mem::take(&mut self.outputs);
        self.operations.seal();
        if self.touched.is_empty() && self.counted.is_empty() {
            return Sealed { record: None, rows: 0, outputs };
        }
        self.summary.time_ms = now_ms;
        let counters = &self.counters;
        let changes = self.touched.iter().map(|index| {
            let entry = counters.get(*index);
            (&*entry.key, entry.version(), entry.counter.as_ref())
        });
        let record = record::encode_record(&self.summary, changes, &self.counted);
        let rows = self.touched.len() + self.counted.len();
        for index in self.touched.drain(..) {
            self.counters.flag(index, |flags| flags.touched = false);
            if !self.watched.is_empty() {
                let entry = self.counters.get(index);
                if self.watched.contains(&entry.key) {
                    outputs.events.push(Event { key: entry.key.clone(), value: shown(entry) });
                }
            }
        }
        self.counted.clear();
        self.record_bytes = 0;
        Sealed { record: Some(record), rows, outputs }
    }

    /// Is there something that a checkpoint would write?
    pub fn is_unsaved(&self) -> bool {
        !self.unsaved.is_empty() || self.operations.unsaved() > 0
    }

    /// How many operations wait for a checkpoint.
    pub fn unsaved_operations(&self) -> usize {
        self.operations.unsaved()
    }

    /// Begins a checkpoint: the rows of everything changed since the last one. All of it must be committed: call this
    /// between batches. `None` while the last checkpoint is not [done](Self::saved).
    pub fn capture(&mut self, now_ms: u64) -> Option<Vec<Write>> {
        if self.saving.is_some() || !self.is_unsaved() {
            return None;
        }
        debug_assert!(self.touched.is_empty());
        let mut writes = self.operations.capture(self.summary.changes, now_ms);
        self.sort_unsaved();
        self.unsaved_sorted = 0;
        let unsaved = mem::take(&mut self.unsaved);
        let fresh = unsaved.iter().filter(|index| self.counters.get(**index).flags().fresh);
        self.fresh_saving = fresh.copied().collect();
        writes.extend(unsaved.iter().map(|index| self.capture_counter(*index)));
        self.saving = Some(unsaved);
        for index in &self.fresh_saving {
            self.counters.flag(*index, |flags| flags.fresh = false);
        }
        // Of what is deleted the table gets no row that it would list.
        self.fresh_saving.retain(|index| self.counters.get(*index).exists());
        let row = Row { version: self.summary.changes, bytes: record::encode_row(&self.summary) };
        writes.push(Write { slice: Slice::KEPT, key: record::SUMMARY_KEY.to_vec(), row });
        Some(writes)
    }

    fn capture_counter(&mut self, index: Index) -> Write {
        self.counters.flag(index, |flags| (flags.unsaved, flags.saving) = (false, true));
        if !self.counters.get(index).exists() {
            // No other site can know of it, so nothing has to be remembered of it.
            self.counters.change(index, |entry| entry.counter = None);
            self.counters.flag(index, |flags| flags.in_table = false);
        }
        let entry = self.counters.get(index);
        let bytes = entry.counter.as_ref().map_or_else(Vec::new, record::encode_row);
        let row = Row { version: entry.version(), bytes };
        Write { slice: Slice::KEPT, key: record::row_key(&entry.key), row }
    }

    /// The checkpoint is done: its rows are durable.
    pub fn saved(&mut self) {
        let Some(saved) = self.saving.take() else { return };
        self.operations.saved();
        for index in mem::take(&mut self.fresh_saving) {
            self.counters.flag(index, |flags| flags.in_table = true);
        }
        for index in saved {
            self.counters.flag(index, |flags| flags.saving = false);
            let entry = self.counters.get(index);
            if entry.counter.is_none() && !entry.flags().unsaved {
                self.counters.forget(index);
            }
        }
    }

    /// Evicts counters until the memory budget is kept, as far as `looks` entries allow.
    pub fn evict(&mut self, looks: usize) {
        // What stands in a list stays: the list would point to whoever comes into its place.
        let may_go = |entry: &Entry| {
            let Flags { touched, unsaved, saving, fresh, .. } = entry.flags();
            !(touched || unsaved || saving || fresh)
        };
        if self.counters.evict(self.settings.memory_bytes, looks, may_go) > 0 {
            self.complete = false;
        }
    }

    /// Tells the time. Returns the slice before which the table needs nothing any more.
    pub fn tick(&mut self, now_ms: u64) -> Slice {
        self.operations.tick(now_ms)
    }

    /// The highest slice that the table may have rows of.
    pub(crate) fn slice_max(&self) -> Slice {
        Slice(self.summary.slice_max)
    }

    pub(crate) fn operations(&mut self) -> &mut Operations {
        &mut self.operations
    }

    /// How many counters exist.
    pub fn live(&self) -> u64 {
        self.summary.live
    }

    /// How many counters are in memory, and how many bytes they take, roughly.
    pub fn resident(&self) -> (usize, usize) {
        (self.counters.len(), self.counters.bytes())
    }

    /// Numbers about operations.
    pub fn operation_stats(&self) -> (crate::OperationStats, crate::FilterStats) {
        (self.operations.stats(), self.operations.filter())
    }

    /// Goes on telling what `before`, which this one replaces, was asked to tell.
    pub(crate) fn carry_on(&mut self, before: &mut Self) {
        self.watched = mem::take(&mut before.watched);
        self.operations.carry_on(&before.operations);
    }

    /// From now on changes of this counter are told. Returns its value; its row must be installed.
    pub fn watch(&mut self, key: &[u8]) -> Option<i64> {
        self.watched.insert(key.into());
        self.value(key)
    }

    /// No more.
    pub fn unwatch(&mut self, key: &[u8]) {
        self.watched.remove(key);
    }

    /// The counters after `after` whose keys have the prefix: what the table's `page` lists, brought up to date. All of
    /// it must be committed: call this between batches.
    pub(crate) fn list(
        &mut self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
        page: &Page,
    ) -> Result<Listing, Unreadable> {
        self.sort_unsaved();
        let limit = limit.max(1);
        let until = page.next.as_deref().map(|next| record::counter_key(next).unwrap_or(next));
        let mut counters = Vec::new();
        for (row_key, row) in &page.rows {
            let Some(key) = record::counter_key(row_key) else { continue };
            let value = match self.counters.find(key) {
                Some(index) => shown(self.counters.get(index)),
                None => Some(saturated(decode_counter(row)?.value())),
            };
            counters.extend(value.map(|value| (key.to_vec(), value)));
        }
        // The table may list some of these too; they are the same then.
        for indexes in [&self.fresh_saving, &self.unsaved] {
            let begin = indexes.partition_point(|index| {
                let key = &*self.counters.get(*index).key;
                key < prefix || after.is_some_and(|after| key <= after)
            });
            let entries = indexes[begin..].iter().map(|index| self.counters.get(*index));
            let entries = entries.take_while(|entry| {
                entry.key.starts_with(prefix) && until.is_none_or(|until| &*entry.key <= until)
            });
            let listed = entries.filter_map(|entry| Some((entry.key.to_vec(), shown(entry)?)));
            counters.extend(listed.take(limit + 1));
        }
        counters.sort_unstable();
        counters.dedup_by(|one, other| one.0 == other.0);
        let mut next = until.map(<[u8]>::to_vec);
        if counters.len() > limit {
            counters.truncate(limit);
            next = counters.last().map(|(key, _)| key.clone());
        }
        Ok(Listing { counters, next })
    }
}

/// A page of counters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// Keys and values, in the order of the keys.
    pub counters: Vec<(Vec<u8>, i64)>,
    /// Go on after this key; `None`: that was all.
    pub next: Option<Vec<u8>>,
}

fn decode_counter(row: &Row) -> Result<Counter, Unreadable> {
    if row.version > VERSION_MAX {
        let why = minicbor::decode::Error::message("a version that no change has");
        return Err(Unreadable { what: "the row of a counter", why });
    }
    record::decode_row(&row.bytes).map_err(|why| Unreadable { what: "the row of a counter", why })
}

/// The value of a counter that exists.
fn shown(entry: &Entry) -> Option<i64> {
    let counter = entry.counter.as_ref().filter(|counter| counter.exists())?;
    Some(saturated(counter.value()))
}

/// What many sites have counted may be more than clients can be told.
fn saturated(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

/// How far a counter can go in the direction of an add.
struct Room {
    value: i128,
    /// What the range of numbers allows.
    in_range: u128,
    /// What the limits of the command and the rights of this site allow, and the limit that says so.
    within: Option<(u128, i64)>,
}

impl Room {
    fn of(counter: Option<&Counter>, settings: &Settings, add: Add) -> Self {
        let value = counter.filter(|counter| counter.exists()).map_or(0, Counter::value);
        let down = add.amount < 0;
        let distance = |limit: i64| {
            let distance = if down { value - i128::from(limit) } else { i128::from(limit) - value };
            u128::try_from(distance).unwrap_or(0)
        };
        let asked = if down { add.lower } else { add.upper };
        let mut within = asked.map(|limit| (distance(limit), limit));
        if let Some(Counter::Bounded(bounded)) = counter {
            let definition = bounded.definition();
            let (rights, bound) = if down {
                (bounded.rights_to_subtract(&settings.site), definition.minimum())
            } else {
                (bounded.rights_to_add(&settings.site), definition.maximum())
            };
            if let (Some(rights), Some(bound)) = (rights, bound) {
                within = Some(within.map_or((rights, bound), |within| within.min((rights, bound))));
            }
        }
        let in_range = distance(if down { i64::MIN } else { i64::MAX });
        Self { value, in_range, within }
    }

    /// How much of the amount is counted.
    fn admit(&self, add: Add) -> Result<i64, Refusal> {
        let amount = u128::from(add.amount.unsigned_abs());
        let (available, limit) = match self.within {
            Some((available, limit)) if available <= self.in_range => (available, Some(limit)),
            _ => (self.in_range, None),
        };
        if amount <= available {
            return Ok(add.amount);
        }
        match (add.beyond, limit) {
            (Beyond::Saturate, _) => {
                let applied = i64::try_from(available).expect("less than the amount");
                Ok(if add.amount < 0 { -applied } else { applied })
            }
            (Beyond::Skip, Some(_)) => Ok(0),
            (Beyond::Refuse, Some(limit)) => Err(Refusal::OutOfBounds {
                amount: add.amount,
                limit,
                value: saturated(self.value),
                available: u64::try_from(available).expect("less than the amount"),
            }),
            (Beyond::Refuse | Beyond::Skip, None) => Err(Refusal::Overflow),
        }
    }
}
