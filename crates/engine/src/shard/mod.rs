//! A shard: the single-writer state machine of a slice of the keys.
//!
//! Commands go in; what to persist, then replies and events come out, in that order ([`Sealed`]). There is no I/O
//! here. Whoever drives a shard first gives it what the table has ([`Shard::lacks`], [`Shard::install`]), and after a
//! batch that was not stored throws it away and opens it again: memory holds effects that storage does not.

mod ahead;
mod audit;
mod closed;
mod creation;
mod findings;
#[cfg(feature = "testing")]
mod fingerprint;
mod handoff;
mod ids;
mod incarnation;
mod listing;
mod moving;
mod passing;
mod receive;
mod relay;
mod rights;
mod room;
mod send;
mod sweep;
mod transient;
mod unheard;

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};

use quipu_crdt::Pn;
use quipu_storage::{Position, Row, Slice, Write};

pub(crate) use self::findings::StoredFindings;
pub use self::{
    audit::{ShardAudit, SiteAudit, Suspicion, Suspicious},
    listing::Listing,
    unheard::Uncounted,
};
use self::{findings::Findings, passing::Passing, rights::Waiting, room::Room, transient::Pending};
pub(crate) use self::{listing::ListFrom, sweep::SweepWanted};
use crate::{
    Action, Add, Added, BoundedView, Command, Inspection, KEY_BYTES_MAX, Membership, Moment, Refusal, Reply,
    Rule, Rules, Settings, SiteId, SiteView, WindowMode,
    counter::{Counter, growth, pn},
    counters::{Counters, Entry, Flags, Index, VERSION_MAX},
    coverage::{Branch, reached},
    handoff::{ClosedSlots, Desk, Key, Name, StoredClosed, StoredDesk},
    links::{Changed, Links},
    operations::{Counted, Operation, OperationHash, Operations, Run},
    record::{self, Before, Books, Contents, Logged, Summary, Undone},
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

impl Outputs {
    /// Is an edge or a relay told something of what is here, or an heir of what a relay leaves? It forgets what it is told to
    /// be here, so that must be on the device.
    pub(crate) fn speaks_to_visitors(&self) -> bool {
        let speaks =
            |reply: &Reply| matches!(reply, Reply::Visited(_) | Reply::Estate(_) | Reply::Adopted(_));
        self.replies.iter().any(|(_, reply)| speaks(reply))
    }
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
    /// Entries that are not settled, or were not until lately.
    pub(crate) open: Vec<(u64, Logged)>,
    /// Those of them that were settled when the last checkpoint was made.
    pub(crate) gone: BTreeSet<(SiteId, u64)>,
    /// Handoffs, by the shard that they are with.
    pub(crate) desk: BTreeMap<u16, StoredDesk>,
    /// Closed slots of other desks.
    pub(crate) closed: StoredClosed,
    /// Counters under which something is parked.
    pub(crate) parked: BTreeSet<Key>,
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
    logged: Vec<Logged>,
    /// Entries were logged that no checkpoint has.
    entries_unsaved: bool,
    /// The last checkpoint has listed entries that are settled and still in the table.
    lists_gone: bool,
    /// How far this site has got with a stream has changed.
    moved: bool,
    /// Rows of removed sites are told for the counters up to this one.
    told_up_to: Option<Vec<u8>>,
    /// From the next process on this is another site.
    incarnation: Option<SiteId>,
    /// Counters as they were before what nobody has heard of, that no checkpoint has.
    unsaved_before: Vec<Before>,
    /// So many of them the checkpoint under way writes.
    saving_before: usize,
    /// The table may have some that nobody needs.
    has_old_notes: bool,
    record_bytes: usize,
    links: Links,
    /// What several peers are sent.
    last_part: Option<send::LastPart>,
    desk: Desk,
    closed: ClosedSlots,
    pending: Pending,
    passing: Passing,
    waiting: Waiting,
    unsaved: Vec<Index>,
    /// What the checkpoint under way writes.
    saving: Option<Vec<Index>>,
    /// How many of `unsaved` are in the order of their keys, from the first on.
    unsaved_sorted: usize,
    /// Counters that the checkpoint under way writes and that the table may not list yet, in the order of their keys.
    fresh_saving: Vec<Index>,
    watched: BTreeSet<Box<[u8]>>,
    findings: Findings,
}

impl Shard {
    /// A shard as it was stored: what the table has, and the records since the checkpoint.
    pub(crate) fn recover<'a>(
        settings: Settings,
        membership: &Membership,
        stored: Stored,
        records: impl Iterator<Item = &'a [u8]>,
        now_ms: u64,
    ) -> Result<Self, Unreadable> {
        let Summary { changes, ref streams, .. } = stored.summary;
        let links = Links::new(settings.site, membership, changes, streams.as_deref(), settings.seed);
        let mut shard = Self {
            settings,
            links,
            last_part: None,
            desk: match settings.transient {
                Some(transient) => Desk::new(transient.name, transient.tier),
                None => Desk::new(Name::of_site(settings.site), 0),
            },
            closed: ClosedSlots::new(stored.closed),
            pending: Pending::default(),
            passing: Passing::default(),
            waiting: Waiting::default(),
            logged: Vec::new(),
            entries_unsaved: false,
            lists_gone: !stored.gone.is_empty(),
            moved: false,
            told_up_to: None,
            incarnation: None,
            unsaved_before: Vec::new(),
            saving_before: 0,
            has_old_notes: true,
            counters: Counters::new(settings.seed),
            operations: Operations::new(&settings, stored.runs, stored.summary.forgotten_ms, now_ms),
            findings: Findings::new(stored.summary.findings.clone()),
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
        let records: Vec<&[u8]> = records.collect();
        let (undone, is_in_log) = shard.undoing(&records)?;
        for (version, Logged { site, entry }) in stored.open {
            let number = entry.number;
            // What a later incarnation has written under the same number has come from others.
            let is_undone = |it: Undone| {
                it.site == site && number > it.position && version <= Logged::row_version(it.site)
            };
            if undone.is_some_and(is_undone) {
                continue;
            }
            if stored.gone.contains(&(site, number)) && settings.rules.keep(Rule::SettledStaySettled) {
                // What it said has been taken over, or taken back by an entry that is gone before it. A checkpoint has all of that:
                // were this one to wait for the next, and that to fail half-way, it would be open again.
                let origin = shard.links.origins.entry(site).or_default();
                match settings.rules.keep(Rule::GoneStayGone) {
                    true => origin.deletable.push(number),
                    false => origin.gone.push(number),
                }
                continue;
            }
            let origin = shard.links.origins.entry(site).or_default();
            origin.stored.insert(number);
            if is_in_log && undone.is_some_and(|it| it.site == site && number > it.position) {
                // A checkpoint was not completed. All that has come since the undoing is in the log.
                continue;
            }
            shard.links.insert(site, entry);
        }
        let mut desk = stored.desk;
        stored.parked.iter().for_each(|key| shard.desk.note_parked(key.bytes(), true));
        for bytes in records {
            let mut contents =
                record::decode_record(bytes).map_err(|why| Unreadable { what: A_RECORD, why })?;
            for handed in mem::take(&mut contents.handed) {
                desk.entry(handed.shard).or_default().replay(handed);
            }
            shard.replay(contents, now_ms);
        }
        shard.desk.restore(desk, settings.rules).map_err(|why| Unreadable {
            what: "the state of handoffs",
            why: minicbor::decode::Error::message(why),
        })?;
        shard.retire_settled(now_ms);
        shard.note_joining();
        shard.begin_unheard();
        shard.look_at_table();
        Ok(shard)
    }

    /// What was undone when this became another incarnation, and whether the log has entries of before that.
    fn undoing(&self, records: &[&[u8]]) -> Result<(Option<Undone>, bool), Unreadable> {
        let undone_in = |bytes: &&[u8]| {
            let contents = record::decode_record(bytes).map_err(|why| Unreadable { what: A_RECORD, why })?;
            Ok(contents.summary.undone)
        };
        let stored = self.summary.undone;
        if self.settings.site.incarnation == 0 {
            return Ok((stored, false));
        }
        let first = records.first().map(undone_in).transpose()?.unwrap_or(stored);
        let last = records.last().map(undone_in).transpose()?.unwrap_or(stored);
        Ok((last, first != last))
    }

    fn replay(&mut self, contents: Contents<'_>, now_ms: u64) {
        let (site, before) = (self.settings.site, self.links.own().position);
        let streams = contents.summary.streams.iter().flatten();
        let end = streams.filter(|stream| stream.site == site).map(|stream| stream.position).max();
        let end = end.filter(|_| self.settings.rules.keep(Rule::ReplayedAsTold)).unwrap_or(u64::MAX);
        let mut own = Vec::new();
        for change in contents.changes {
            let index = self.counters.find(change.key).unwrap_or_else(|| self.counters.insert(change.key));
            let version = change.version;
            // Of a bounded counter it is not known which rows have changed.
            let own_version =
                change.counter.as_ref().map_or(version, |it| it.version_of(site, version, site));
            // Others may have changed it after that, in the same batch too, and the stream ends before. And what is remembered
            // first must be the oldest here, too: all that is not older stays in memory.
            let number = own_version.min(version).min(end);
            if number > before {
                own.push(Changed { number, here: number, index });
            }
            self.counters.put(index, |entry| {
                entry.counter = change.counter;
                entry.set_version(version);
            });
            self.list_unsaved(index);
            self.note_parked(index);
        }
        if !self.links.is_alone() {
            own.sort_unstable_by_key(|changed| changed.number);
            own.into_iter().for_each(|changed| self.links.own_mut().push(changed, std::iter::empty()));
        }
        self.unsaved_before.extend(contents.before);
        if let Some(closed) = contents.closed {
            self.closed.replay(closed);
        }
        self.entries_unsaved |= !contents.entries.is_empty();
        for Logged { site, entry } in contents.entries {
            self.links.insert(site, entry);
        }
        for operation in contents.operations {
            self.replay_operation(operation, now_ms);
        }
        let Summary { changes, slice_max, undone, .. } = self.summary;
        if let Some(now_undone) = contents.summary.undone.filter(|now_undone| undone != Some(*now_undone)) {
            // Rows of the table under such numbers are not undone ones, but came from others.
            let stored = self.links.undo(now_undone);
            self.links.origins.entry(now_undone.site).or_default().stored.extend(stored);
        }
        self.operations.forget_until(contents.summary.forgotten_ms);
        self.summary = contents.summary;
        self.findings = Findings::new(self.summary.findings.clone());
        // A checkpoint may have come after the record.
        self.summary.changes = self.summary.changes.max(changes);
        self.summary.slice_max = self.summary.slice_max.max(slice_max);
        match &self.summary.streams {
            Some(streams) => {
                for stream in streams {
                    let origin = self.links.origins.entry(stream.site).or_default();
                    if stream.site == site {
                        origin.position = stream.position;
                    } else {
                        // Which of the rows were its is not remembered.
                        origin.skip_to(stream.position);
                    }
                    origin.settled = origin.settled.max(stream.settled);
                    origin.last_settled = origin.settled;
                    origin.counted = stream.counted;
                    origin.runs = stream.runs.clone().unwrap_or_default();
                    origin.is_told = stream.is_told == Some(true);
                    origin.copied = stream.copied;
                }
            }
            // Of a time when it was alone. Entries that a checkpoint has written since then stay.
            None => self.links.own_mut().skip_to(self.summary.changes),
        }
    }

    /// From now on these belong to the cluster.
    pub fn follow(&mut self, membership: &Membership) {
        self.links.follow(membership.clone());
        self.told_up_to = None;
        self.look_at_table();
        // A command may wait for rights of whom this site is the heir now, or for somebody who is gone.
        self.waiting.is_woken = self.settings.rules.keep(Rule::ResumedAsNew);
        self.note_joining();
        if self.links.peers.is_empty() {
            self.be_heard();
        }
    }

    /// Operations that were settled before all sites have listed this one are not sent to it.
    fn note_joining(&mut self) {
        if self.links.membership.joining.contains(&self.settings.site) {
            self.summary.knows_ids_from_ms = Some(u64::MAX);
            self.moved = true;
        }
    }

    /// Must the row of this key be read from the table, and [installed](Self::install), before a command on it?
    pub fn lacks(&self, key: &[u8]) -> bool {
        !self.complete && self.counters.find(key).is_none()
    }

    /// Takes in what the table has under a key that this shard [lacks](Self::lacks).
    pub fn install(&mut self, key: &[u8], row: Option<&Row>) -> Result<(), Unreadable> {
        let Some(row) = row.filter(|row| !row.bytes.is_empty()) else { return Ok(()) };
        reached(Branch::ReadAgain);
        let counter = decode_counter(row)?;
        let index = self.counters.insert(key);
        self.counters.put(index, |entry| {
            entry.counter = Some(counter);
            entry.set_version(row.version);
            entry.flag(|flags| flags.in_table = true);
        });
        self.note_suspect(index);
        Ok(())
    }

    pub(crate) fn where_to_look(&self, command: &Command<'_>) -> Option<(OperationHash, Vec<Run>)> {
        let (id, mode) = match command.action {
            Action::Add { operation: Some(id), .. } => (id, self.settings.window.mode),
            // Whoever asks is told what is stored, even if the filter alone decides what counts.
            Action::Outcome(id) => (id, WindowMode::Exact),
            _ => return None,
        };
        let hash = OperationHash::of(command.key, id);
        let runs = self.operations.where_to_look(hash, id, mode);
        (!runs.is_empty()).then(|| (hash, runs.to_vec()))
    }

    pub(crate) fn recall(&mut self, hash: OperationHash, found: Option<Counted>) {
        self.operations.recall(hash, found);
    }

    /// Does what a command says. The reply comes out with the batch.
    pub fn apply(&mut self, ticket: Ticket, command: Command<'_>, now: Moment) {
        match self.run(command, now) {
            Ok(Some(reply)) => self.outputs.replies.push((ticket, reply)),
            Ok(None) => self.wait(ticket, command, now.elapsed_ms),
            Err(refusal) => self.outputs.replies.push((ticket, Reply::refused(refusal))),
        }
    }

    /// `None`: whoever asked is willing to wait for other sites.
    fn run(&mut self, command: Command<'_>, now: Moment) -> Result<Option<Reply>, Refusal> {
        let Command { key, action } = command;
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err(Refusal::BadKey { bytes: key.len() });
        }
        if self.settings.transient.is_some() {
            return self.run_transient(command, now).map(Some);
        }
        let is_write = matches!(
            action,
            Action::Add { .. } | Action::Reset { .. } | Action::Create { .. } | Action::Move(_)
        );
        if is_write && self.is_joining() {
            return Err(Refusal::Joining);
        }
        match action {
            Action::Add { add, operation: None } => Ok(self.add(key, add, now)?.map(Reply::Added)),
            Action::Add { add, operation: Some(id) } => {
                Ok(self.add_once(key, add, id, now)?.map(Reply::Added))
            }
            Action::Get => Ok(Some(Reply::Value(self.value(key)))),
            Action::Reset { to } => self.reset(key, to).map(Some),
            Action::Create { limits, spread, wait_ms } => self.create(key, limits, spread, wait_ms),
            Action::Inspect => Ok(Some(Reply::Inspected(self.inspect(key).map(Box::new)))),
            Action::Outcome(id) => Ok(Some(Reply::Outcome(self.outcome(key, id, now)))),
            Action::Move(it) => self.move_rights(key, it),
        }
    }

    pub(crate) fn rules(&self) -> Rules {
        self.settings.rules
    }

    fn is_joining(&self) -> bool {
        self.links.membership.joining.contains(&self.settings.site)
            && self.settings.rules.keep(Rule::NewcomersWait)
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

    fn shown_at(&self, index: Index) -> Option<i64> {
        let entry = self.counters.get(index);
        if self.settings.transient.is_some() { self.transient_value(&entry.key) } else { shown(entry) }
    }

    /// `None`: this site has too few rights, and whoever asked is willing to wait for those of others.
    fn add(&mut self, key: &[u8], add: Add, now: Moment) -> Result<Option<Added>, Refusal> {
        let found = self.find(key);
        if !self.links.membership.removed.is_empty()
            && let Some(index) = found
        {
            self.inherit(index);
        }
        let counter = found.and_then(|index| self.counters.get(index).counter.as_ref());
        let site = self.settings.site;
        if let Some(by) = counter.and_then(|counter| self.reserved(counter)) {
            self.hasten_everywhere(key, now.elapsed_ms);
            return Err(Refusal::Reserved { by });
        }
        let room = Room::of(counter, site, self.waiting_rights(key), add);
        let existed = counter.is_some_and(Counter::exists);
        if let Some(lack) = room.lacks()
            && self.may_wait(key, lack, add, now)
        {
            return Ok(None);
        }
        let applied = room.admit(add).map_err(|refusal| self.say_where(key, room.lacks(), refusal))?;
        if applied == 0 && add.amount != 0 && !existed {
            // Nothing to count, and nothing to count it on.
            return Ok(Some(Added { value: 0, applied: 0, repeated: false, site }));
        }
        let index = found.unwrap_or_else(|| self.counters.insert(key));
        if applied != 0 || !existed {
            self.count(index, applied, existed)?;
            self.note_pending(index);
        }
        if room.is_bounded() {
            self.balance_rights(key, applied, now);
        }
        let value = room.value + i128::from(applied);
        Ok(Some(Added { value: saturated(value), applied, repeated: false, site }))
    }

    fn count(&mut self, index: Index, applied: i64, existed: bool) -> Result<(), Refusal> {
        let (site, version, alone) = (self.settings.site, self.summary.changes + 1, self.links.is_alone());
        let grown = self.counters.change(index, |entry| match &mut entry.counter {
            Some(counter) => {
                let before = counter.total(site, site);
                let counted = counter.add(site, version, applied, alone);
                counted.map(|()| growth(before, counter.total(site, site)))
            }
            empty => {
                *empty = Some(Counter::Plain(pn(applied)));
                Ok(pn(applied))
            }
        })?;
        self.touch(index, existed);
        let began_anew = growth(pn(applied), grown);
        tally(&mut self.books().issued, pn(applied));
        tally(&mut self.books().set, began_anew);
        Ok(())
    }

    fn reset(&mut self, key: &[u8], to: Option<i64>) -> Result<Reply, Refusal> {
        let found = self.find(key);
        let counter = found.and_then(|index| self.counters.get(index).counter.as_ref());
        if let Some(by) = counter.and_then(|counter| self.reserved(counter)) {
            return Err(Refusal::Reserved { by });
        }
        let aside = found.and_then(|index| shown(self.counters.get(index)));
        let existed = counter.is_some_and(Counter::exists);
        if to.is_none() && !existed {
            return Ok(Reply::Reset { aside });
        }
        let (site, version, alone) = (self.settings.site, self.summary.changes + 1, self.links.is_alone());
        let index = found.unwrap_or_else(|| self.counters.insert(key));
        let before = self.counters.get(index).version();
        let grown = self.counters.change(index, |entry| match &mut entry.counter {
            Some(counter) => {
                let total = counter.total(site, site);
                let reset = counter.reset(site, before, version, to, alone);
                reset.map(|()| growth(total, counter.total(site, site)))
            }
            empty => {
                *empty = to.map(|to| Counter::Plain(pn(to)));
                Ok(to.map(pn).unwrap_or_default())
            }
        })?;
        self.touch(index, existed);
        tally(&mut self.books().set, grown);
        self.balance_cancellations(key);
        Ok(Reply::Reset { aside })
    }

    fn books(&mut self) -> &mut Books {
        self.summary.books.get_or_insert_default()
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
        let provisional = |site| self.links.origins.get(&site).map(|origin| origin.provisional(key));
        let sites = counter.sites(self.settings.site).into_iter().map(|(site, counted)| SiteView {
            site,
            added: counted.added,
            subtracted: counted.subtracted,
            rights_to_add: bounded.and_then(|bounded| bounded.rights_to_add(&site)),
            rights_to_subtract: bounded.and_then(|bounded| bounded.rights_to_subtract(&site)),
            provisional: provisional(site).unwrap_or_default(),
        });
        Some(Inspection {
            value,
            sites: sites.collect(),
            version: entry.version(),
            bounded: bounded.map(|bounded| BoundedView {
                minimum: bounded.definition().minimum(),
                maximum: bounded.definition().maximum(),
                initial: bounded.definition().initial(),
                creator: *bounded.definition().creator(),
                parked: bounded.parked_in_all(),
            }),
        })
    }

    /// The own row of a counter has changed.
    fn touch(&mut self, index: Index, existed: bool) {
        let number = self.touch_any(index, existed);
        let alone = self.links.is_alone();
        let site = self.settings.site;
        let boundaries = self.links.peers.values().flat_map(|peer| peer.positions(site));
        let own = self.links.origins.entry(site).or_default();
        own.position = number;
        if alone {
            own.trim(number);
        } else {
            own.push(Changed { number, here: number, index }, boundaries);
        }
    }

    /// A counter has changed: it gets the next number, and goes into the batch and the next checkpoint.
    fn touch_any(&mut self, index: Index, existed: bool) -> u64 {
        self.summary.changes += 1;
        let version = self.summary.changes;
        let exists = self.counters.put(index, |entry| {
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
        version
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
        self.renew_table();
        self.moved |= self.desk.is_changed() || self.closed.is_changed();
        if self.touched.is_empty() && self.counted.is_empty() && self.logged.is_empty() && !self.moved {
            self.committed();
            return Sealed { record: None, rows: 0, outputs };
        }
        if self.moved {
            // The summary has other bytes, so it needs another version.
            self.summary.changes += 1;
        }
        // What has expired by the time that is stored is not looked for by the next process.
        self.operations.expire(now_ms);
        self.summary.time_ms = now_ms;
        self.summary.forgotten_ms = self.operations.forgotten_ms();
        self.summary.streams = self.links.streams();
        self.summary.site = self.written_by();
        self.links.restless = true;
        self.moved = false;
        self.note_suspects();
        let before = self.counters.take_noted();
        let counters = &self.counters;
        let changes = self.touched.iter().map(|index| {
            let entry = counters.get(*index);
            (&*entry.key, entry.version(), entry.counter.as_ref())
        });
        let (handed, closed) = (self.desk.seal(), self.closed.seal());
        let (summary, counted, logged) = (&self.summary, &self.counted, &self.logged);
        let record =
            record::encode_record(summary, changes, counted, logged, &handed, &before, closed.as_ref());
        self.unsaved_before.extend(before);
        let rows = self.touched.len() + self.counted.len() + self.logged.len() + handed.len();
        let rows = rows + closed.map_or(0, |closed| closed.len());
        for index in mem::take(&mut self.touched) {
            self.counters.flag(index, |flags| flags.touched = false);
            if !self.watched.is_empty() {
                let entry = self.counters.get(index);
                if self.watched.contains(&entry.key) {
                    let (key, value) = (entry.key.clone(), self.shown_at(index));
                    outputs.events.push(Event { key, value });
                }
            }
        }
        self.counted.clear();
        self.logged.clear();
        self.record_bytes = 0;
        Sealed { record: Some(record), rows, outputs }
    }

    /// The next batch is stored even if nothing has changed: so its fence says whether the shard is still this node's.
    pub(crate) fn store_anyway(&mut self) {
        self.moved = true;
    }

    /// The batch that was [sealed](Self::seal) is stored.
    pub(crate) fn committed(&mut self) {
        self.pending.committed();
    }

    /// Is there something that a checkpoint would write?
    pub fn is_unsaved(&self) -> bool {
        !self.unsaved.is_empty()
            || self.operations.unsaved() > 0
            || self.entries_unsaved
            || self.desk.is_unsaved()
            || self.closed.is_unsaved()
            || !self.unsaved_before.is_empty()
            || self.links.is_stored_in_vain()
    }

    /// How many operations wait for a checkpoint.
    pub fn unsaved_operations(&self) -> usize {
        self.operations.unsaved()
    }

    /// Begins a checkpoint, which covers the log up to `position`: the rows of everything changed since the last one. All of
    /// it must be committed: call this between batches. `None` while the last checkpoint is not [done](Self::saved).
    pub fn capture(&mut self, now_ms: u64, position: Position) -> Option<Vec<Write>> {
        if self.saving.is_some() || !self.is_unsaved() {
            return None;
        }
        debug_assert!(self.touched.is_empty());
        let mut writes = self.operations.capture(self.summary.changes, now_ms);
        writes.extend(self.capture_entries(self.summary.changes + 1, position));
        writes.extend(self.desk.capture(self.summary.changes));
        writes.extend(self.closed.capture(self.summary.changes));
        writes.extend(self.capture_before());
        self.sort_unsaved();
        self.unsaved_sorted = 0;
        let unsaved = mem::take(&mut self.unsaved);
        let fresh = unsaved.iter().filter(|index| self.counters.get(**index).flags().fresh);
        self.fresh_saving = fresh.copied().collect();
        writes.extend(unsaved.iter().map(|index| self.capture_counter(*index)));
        // Nor does it list what is deleted from now on, even if that is made again before it is written.
        for index in &unsaved {
            if self.counters.get(*index).counter.is_none() {
                self.counters.flag(*index, |flags| flags.in_table = false);
            }
        }
        self.saving = Some(unsaved);
        for index in &self.fresh_saving {
            self.counters.flag(*index, |flags| flags.fresh = false);
        }
        // Of what is deleted the table gets no row that it would list.
        self.fresh_saving.retain(|index| self.counters.get(*index).counter.is_some());
        // What was settled since the last record is in no record: it has other bytes, so it needs another version.
        self.summary.changes += 1;
        self.summary.forgotten_ms = self.operations.forgotten_ms();
        self.summary.streams = self.links.streams();
        self.summary.site = self.written_by();
        self.summary.findings = self.findings.stored();
        let row = Row { version: self.summary.changes, bytes: record::encode_row(&self.summary) };
        writes.push(Write { slice: Slice::KEPT, key: record::SUMMARY_KEY.to_vec(), row });
        Some(writes)
    }

    fn capture_counter(&mut self, index: Index) -> Write {
        self.counters.flag(index, |flags| (flags.unsaved, flags.saving) = (false, true));
        let is_only_here = self.links.knows_nobody()
            || (self.links.is_alone() && !self.settings.rules.keep(Rule::CopiesRememberDeleted));
        if is_only_here && !self.counters.get(index).exists() {
            // No other site can know of it, so nothing has to be remembered of it.
            self.counters.put(index, |entry| entry.counter = None);
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
        self.entries_saved();
        self.before_saved();
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
        if self.settings.transient.is_some() {
            return; // What is not handed over is in memory, and bounded.
        }
        // What stands in a list stays: the list would point to whoever comes into its place.
        let (links, desk, oldest_here) = (&self.links, &self.desk, self.links.oldest_here());
        // Once it is gone it is not known whether it lacks something, and nobody is asked.
        let wanted: BTreeSet<&[u8]> = match self.settings.rules.keep(Rule::WantedStayInMemory) {
            true => self.waiting.wanted().collect(),
            false => BTreeSet::new(),
        };
        let may_go = |entry: &Entry| {
            let Flags { touched, unsaved, saving, fresh, .. } = entry.flags();
            let is_listed = touched || unsaved || saving || fresh || entry.version() >= oldest_here;
            let is_awaited = Self::has_open_entries(links, &entry.key)
                || desk.has_parked(&entry.key)
                || wanted.contains(&*entry.key);
            !is_listed && !is_awaited
        };
        if self.counters.evict(self.settings.memory_bytes, looks, may_go) > 0 {
            reached(Branch::Evicted);
            self.complete = false;
        }
    }

    /// Tells the time. Returns the slice before which the table needs nothing any more.
    pub fn tick(&mut self, now_ms: u64) -> Slice {
        if self.summary.knows_ids_from_ms == Some(u64::MAX) && !self.is_joining() {
            // It is listed by all now: what was settled before is forgotten everywhere after the window.
            reached(Branch::NewcomerKnowsIds);
            self.summary.knows_ids_from_ms = Some(now_ms + self.settings.window.length_ms());
            self.moved = true;
        }
        self.waiting.expire(now_ms);
        self.findings.expire(now_ms);
        let floor = self.operations.tick(now_ms);
        self.moved |= self.operations.dropped_ms() > self.summary.forgotten_ms;
        floor
    }

    /// Is there something to be stored, though no command asks for it?
    pub(crate) fn has_moved(&self) -> bool {
        self.moved || self.closed.is_due()
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
        self.carry_on_seen(before);
        self.waiting = mem::take(&mut before.waiting);
        self.operations.carry_on(&before.operations);
        if before.summary.unheard.is_none() {
            self.be_heard();
        }
        for (site, peer) in mem::take(&mut before.links.peers) {
            if let Some(here) = self.links.peers.get_mut(&site) {
                // What it has told is true whatever became of the batch.
                *here = peer;
                here.forget_told();
                here.begin(here.connected);
            }
        }
    }

    /// From now on changes of this counter are told. Returns its value; its row must be installed.
    pub fn watch(&mut self, key: &[u8]) -> Option<i64> {
        self.watched.insert(key.into());
        if self.settings.transient.is_some() { self.ask_always(key) } else { self.value(key) }
    }

    /// No more.
    pub fn unwatch(&mut self, key: &[u8]) {
        self.watched.remove(key);
        self.ask_for_a_while(key);
    }
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

/// Adds to a total that is kept modulo 2^64.
fn tally(total: &mut Pn, grown: Pn) {
    total.added = total.added.wrapping_add(grown.added);
    total.subtracted = total.subtracted.wrapping_add(grown.subtracted);
}

/// What many sites have counted may be more than clients can be told.
fn saturated(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}
