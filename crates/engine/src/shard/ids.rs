//! Operations with ids: counted once at one site, and once among all.
//!
//! With other sites an operation is first an entry of this site's log, which they are sent. When it is settled (nobody can
//! come with a count of its own any more) it becomes one of those that [`Operations`](crate::operations::Operations) keeps
//! for the window. Until then a lower site's count of the same operation makes this site take its own back.

use quipu_crdt::Pn;
use quipu_storage::{Position, Row, Slice, Write};

use super::{Shard, tally};
use crate::{
    Add, Added, Membership, Moment, OperationId, Outcome, Refusal, Rule, SiteId,
    counter::{Counter, pn},
    coverage::{Branch, reached},
    entry::{Cancellation, Count, Entry, Part, Taken, What},
    operations::{Admitted, Counted, Operation, OperationHash, elsewhere, made_ms, slice_of},
    record::{GONE_KEY, Gone, GoneEntries, Logged, encode_row},
};

/// What of a total lies in the direction of an amount.
fn axis(total: Pn, amount: i64) -> u64 {
    if amount < 0 { total.subtracted } else { total.added }
}

impl Count {
    fn answer(&self, site: SiteId) -> Added {
        Added { value: self.value, applied: self.applied, repeated: true, site }
    }
}

impl Shard {
    fn hash_of(&self, key: &[u8], id: OperationId<'_>) -> OperationHash {
        let key = if self.settings.rules.keep(Rule::IdsBelongToKeys) { key } else { b"" };
        OperationHash::of(key, id)
    }

    /// What an operation that is not settled has counted, and where: here if it is counted here. Not what was taken back.
    fn known(&self, hash: OperationHash) -> Option<(SiteId, Count)> {
        let mut counts = self.links.counts(hash);
        counts.retain(|(site, _)| !self.links.is_cancelled(hash, *site));
        let here = counts.iter().find(|(site, _)| *site == self.settings.site);
        here.or(counts.first()).copied()
    }

    /// The answer to a repeat of an operation that is not settled.
    fn repeat(&mut self, site: SiteId, count: Count, amount: i64) -> Result<Option<Added>, Refusal> {
        if count.amount != amount {
            return Err(Refusal::OtherAmount { first: count.amount, now: amount });
        }
        self.operations.note_repeat();
        Ok(Some(count.answer(site)))
    }

    /// `None` as for [`Shard::add`].
    pub(super) fn add_once(
        &mut self,
        key: &[u8],
        add: Add,
        id: OperationId<'_>,
        now: Moment,
    ) -> Result<Option<Added>, Refusal> {
        let hash = self.hash_of(key, id);
        let own = self.settings.site;
        self.operations.expiry(id, now)?;
        // What is settled goes first: others are taken back then, whether or not that is known here.
        if let Some((site, count)) = self.known(hash).filter(|_| !self.operations.knows(hash)) {
            reached(Branch::RepeatUnsettled);
            return self.repeat(site, count, add.amount);
        }
        // Who counts it is settled, and may be forgotten; that it was counted twice is not.
        let taken_back = self.links.counts(hash).first().copied();
        match self.operations.admit(hash, id, add.amount, now)? {
            Admitted::Repeat(counted) => Ok(Some(counted.answer(own))),
            Admitted::Presumed => {
                reached(Branch::RepeatPresumed);
                let value = self.value(key).unwrap_or(0);
                Ok(Some(Added { value, applied: 0, repeated: true, site: own }))
            }
            Admitted::New { hash, expires_ms } => {
                if let Some((site, count)) = taken_back {
                    reached(Branch::RepeatTakenBack);
                    return self.repeat(site, count, add.amount);
                }
                if let Some(from_ms) =
                    self.summary.knows_ids_from_ms.filter(|from_ms| now.elapsed_ms < *from_ms)
                    && self.settings.rules.keep(Rule::NewcomersWait)
                {
                    return Err(Refusal::JoinedLately { wait_ms: from_ms - now.elapsed_ms });
                }
                self.make_room_for_entry()?;
                let Some(added) = self.add(key, add, now)? else { return Ok(None) };
                let Added { value, applied, .. } = added;
                self.witness(key, hash, applied, now);
                if applied == 0 && add.amount != 0 && self.settings.rules.keep(Rule::ZeroIsNoOutcome) {
                    // Remembered, it could win against a count of the same operation at another site.
                    return Ok(Some(added));
                }
                if self.links.is_alone() {
                    let made_ms = made_ms(id);
                    let counted = Counted {
                        amount: add.amount,
                        applied,
                        value,
                        expires_ms,
                        site: elsewhere(own, own),
                        made_ms,
                        may_be_taken_back: None,
                    };
                    self.remember(Operation { hash, counted }, now);
                } else {
                    let end = self.total(key, own, applied);
                    let made_ms = made_ms(id);
                    self.log(
                        hash,
                        key,
                        What::Counted(Count { amount: add.amount, applied, value, made_ms, end }),
                    );
                }
                Ok(Some(added))
            }
        }
    }

    /// An operation that nobody else can have counted, in the same record as its count.
    fn remember(&mut self, operation: Operation, now: Moment) {
        self.operations.remember(operation, now.elapsed_ms);
        // It has a number of its own, so that the summary has another version even if nothing was counted.
        self.next_number();
        self.note_slice(operation.counted.expires_ms);
        self.counted.push(operation);
        self.record_bytes += 48;
    }

    fn note_slice(&mut self, expires_ms: u64) {
        self.summary.slice_max = self.summary.slice_max.max(slice_of(expires_ms).0);
    }

    /// The number of a change of the own stream.
    pub(super) fn next_number(&mut self) -> u64 {
        self.summary.changes += 1;
        let (number, alone) = (self.summary.changes, self.links.is_alone());
        let own = self.links.own_mut();
        own.position = number;
        if alone {
            own.trim(number);
        }
        number
    }

    /// Refuses an operation when too many wait for a site that does not answer.
    fn make_room_for_entry(&mut self) -> Result<(), Refusal> {
        let max = self.settings.unsettled_max;
        if self.links.is_alone() || self.links.own().open.len() < max {
            return Ok(());
        }
        if !self.settings.rules.keep(Rule::UnsettledAreKept) {
            let oldest = self.links.own().open.keys().next().copied();
            oldest.map(|number| self.links.remove(self.settings.site, number));
            return Ok(());
        }
        let own = self.settings.site;
        let oldest = self.links.own().open.keys().next().copied().unwrap_or(0);
        let behind = self.links.peers.iter().filter(|(_, peer)| peer.received(own) < oldest);
        Err(Refusal::Unsettled { max, waiting_for: behind.map(|(site, _)| *site).collect() })
    }

    /// What a site has added, or subtracted, under a key in all.
    fn total(&self, key: &[u8], site: SiteId, amount: i64) -> u64 {
        let index = self.counters.find(key);
        let counter = index.and_then(|index| self.counters.get(index).counter.as_ref());
        counter.map_or(0, |counter| axis(counter.total(self.settings.site, site), amount))
    }

    /// Is what an entry of a site speaks of part of that site's row here?
    pub(super) fn row_includes(&self, site: SiteId, key: &[u8], what: &What) -> bool {
        match what {
            What::Counted(Count { applied, end, .. }) => self.total(key, site, *applied) >= *end,
            What::Cancelled(Cancellation { parts, .. }) => parts
                .iter()
                .filter(|part| part.site == site)
                .all(|part| self.total(key, site, part.amount) >= part.end),
            What::Taken(Taken { end, .. }) => self.counter(key).is_some_and(|counter| {
                let handed = counter.handed(self.settings.site, site);
                handed.added >= end.added && handed.subtracted >= end.subtracted
            }),
        }
    }

    /// Writes an entry into the own log.
    pub(super) fn log(&mut self, hash: OperationHash, key: &[u8], what: What) {
        let number = self.next_number();
        let entry = Entry { number, hash, key: key.into(), what };
        self.keep(self.settings.site, entry);
    }

    /// Keeps an entry of any site's log, durably, until it is settled.
    pub(super) fn keep(&mut self, site: SiteId, entry: Entry) {
        self.record_bytes += entry.bytes();
        if let What::Cancelled(Cancellation { of, .. }) = &entry.what {
            self.findings.taken_back(entry.hash.half(), *of);
        }
        self.links.insert(site, entry.clone());
        self.logged.push(Logged { site, entry });
        self.entries_unsaved = true;
    }

    /// Takes back counts of an operation that a lower site has counted too: this site's, and those of removed sites that it
    /// answers for.
    pub(super) fn reconcile(&mut self, hash: OperationHash) {
        let counts = self.links.counts(hash);
        if counts.len() < 2 || !self.settings.rules.keep(Rule::LowestKeeps) {
            return;
        }
        let kept_by = counts[0].0;
        for (site, count) in &counts[1..] {
            let is_heir = *site != self.settings.site;
            if !self.links.answers_for(*site)
                || self.links.is_cancelled(hash, *site)
                || (is_heir && !self.settings.rules.keep(Rule::HeirsCancel))
            {
                continue;
            }
            let key =
                self.links.entries(hash).find(|(other, _)| other == site).map(|(_, entry)| entry.key.clone());
            let Some(key) = key else { continue };
            reached(if is_heir { Branch::TakenBackByHeir } else { Branch::TakenBack });
            let mut cancellation = Cancellation { of: *site, parts: Vec::new(), kept_by };
            if count.applied != 0 {
                cancellation.parts.push(Part { site: *site, amount: count.applied, end: count.end });
            }
            self.balance(&key, &mut cancellation);
            self.take_back_witness(&key, hash, is_heir, counts[0].1.applied == 0 && count.applied != 0);
            self.log(hash, &key, What::Cancelled(cancellation));
        }
    }

    /// Adds to the own row what is missing so that the parts which no reset has set aside sum to zero. Was something?
    fn balance(&mut self, key: &[u8], cancellation: &mut Cancellation) -> bool {
        let Some(index) = self.counters.find(key) else { return false };
        if !self.links.membership.removed.is_empty() {
            // The rights that a removed site's count has made go with it.
            self.inherit(index);
        }
        let (own, entry) = (self.settings.site, self.counters.get(index));
        let Some(counter) = entry.counter.as_ref() else { return false };
        let counting = |part: &&Part| part.end > axis(counter.mark(part.site), part.amount);
        let sum: i128 = cancellation.parts.iter().filter(counting).map(|part| i128::from(part.amount)).sum();
        let Ok(amount) = i64::try_from(-sum) else { return false };
        let (before, existed) = (entry.version(), counter.exists());
        if amount == 0 {
            return false;
        }
        let version = self.summary.changes + 1;
        let taken_back = self.counters.change(index, |entry| match &mut entry.counter {
            Some(counter) => counter.take_back(own, before, version, amount),
            None => Ok(()),
        });
        if taken_back.is_err() {
            // A total is full. It is looked at again with the next reset.
            return false;
        }
        self.touch(index, existed);
        tally(&mut self.books().cancelled, pn(amount));
        cancellation.parts.push(Part { site: own, amount, end: self.total(key, own, amount) });
        true
    }

    /// Other parts of a counter's rows are set aside than before: what this site has taken back may not sum to zero any
    /// more.
    pub(super) fn balance_cancellations(&mut self, key: &[u8]) {
        if self.links.is_alone() || !self.settings.rules.keep(Rule::AddBack) {
            return;
        }
        let cancels = |entry: &&Entry| entry.count().is_none();
        let entries: Vec<Entry> = self.links.own().entries_of(key, 0).filter(cancels).cloned().collect();
        for entry in entries {
            let What::Cancelled(mut cancellation) = entry.what else { continue };
            if self.balance(key, &mut cancellation) {
                reached(Branch::AddedBack);
                self.log(entry.hash, key, What::Cancelled(cancellation));
            }
        }
        let removed = self.links.membership.removed.keys().copied();
        let estates: Vec<SiteId> = removed.filter(|site| self.links.answers_for(*site)).collect();
        estates.into_iter().for_each(|site| self.balance_estate(site));
    }

    /// The same for what a removed site has taken back, which this one answers for. From then on it is this one's.
    pub(super) fn balance_estate(&mut self, removed: SiteId) {
        if !self.settings.rules.keep(Rule::AddBack) || !self.settings.rules.keep(Rule::HeirsCancel) {
            return;
        }
        let own = self.settings.site;
        let Some(origin) = self.links.origins.get(&removed) else { return };
        let entries: Vec<Entry> = origin.open.values().filter(|it| it.count().is_none()).cloned().collect();
        for entry in entries {
            let What::Cancelled(mut cancellation) = entry.what else { continue };
            let of = cancellation.of;
            let is_taken_over = self.links.entries(entry.hash).any(|(site, it)| {
                site == own && matches!(&it.what, What::Cancelled(cancellation) if cancellation.of == of)
            });
            if !is_taken_over && self.balance(&entry.key, &mut cancellation) {
                reached(Branch::EstateBalanced);
                self.log(entry.hash, &entry.key, What::Cancelled(cancellation));
            }
        }
    }

    /// What became of an operation.
    pub(super) fn outcome(&self, key: &[u8], id: OperationId<'_>, now: Moment) -> Outcome {
        let hash = self.hash_of(key, id);
        let own = self.settings.site;
        let settled = self.operations.outcome(hash, id, now, own);
        let keeper = self.known(hash);
        if self.links.count_of(hash, own).is_some()
            && let Some(kept_by) = self.links.kept_by(hash).filter(|_| self.links.is_cancelled(hash, own))
        {
            let counted_at = match (settled, keeper) {
                (Outcome::Counted(Added { site, .. }), _) | (_, Some((site, _))) => site,
                // Who counts it has not been heard here yet.
                _ => {
                    reached(Branch::OutcomeKeeperUnheard);
                    kept_by
                }
            };
            reached(Branch::OutcomeCancelled);
            return Outcome::Cancelled { counted_at };
        }
        match (settled, keeper) {
            (Outcome::Counted(_), _) | (_, None) => settled,
            (_, Some((site, count))) => {
                reached(Branch::OutcomeProvisional);
                Outcome::Provisional(Added { repeated: false, ..count.answer(site) })
            }
        }
    }

    /// Finds out which operations of this site are settled.
    pub(super) fn settle(&mut self, now: Moment) {
        let own = self.settings.site;
        if !self.links.membership.removed.keys().all(|removed| self.links.is_closed(*removed)) {
            // Somebody may still come with a count of a site that was removed.
            reached(Branch::SettlingWaitsForRemoved);
            return;
        }
        let acknowledged = self.all_have_of_own();
        while let Some((number, entry)) = self.links.own().open.first_key_value() {
            let number = *number;
            if number > acknowledged || !self.is_resolved(entry, acknowledged) {
                break;
            }
            self.retire_from_now_on(own, number, now);
        }
        let own = self.links.own_mut();
        let open = own.open.keys().next().map_or(u64::MAX, |number| number - 1);
        let settled = acknowledged.min(open).min(own.position);
        if settled > own.settled {
            own.settled = settled;
            self.links.restless = true;
        }
    }

    /// How much of the own stream all others have.
    pub(super) fn all_have_of_own(&mut self) -> u64 {
        let own = self.settings.site;
        let by_told = self.settings.rules.keep(Rule::ToldPositions);
        let origins = &self.links.origins;
        let acknowledged = self.links.peers.iter_mut().map(|(site, peer)| {
            let arrived = origins.get(site).map_or(0, |origin| origin.position);
            let settled = peer.settled_with(arrived);
            if by_told { settled } else { peer.received(own) }
        });
        acknowledged.min().unwrap_or(u64::MAX)
    }

    /// Nobody is left whom anything could wait for, and who would say something.
    pub(crate) fn is_left_alone(&self) -> bool {
        self.links.peers.is_empty()
            && !self.links.is_alone()
            && self.links.origins.values().any(|origin| !origin.open.is_empty())
    }

    /// Settles what is open when nobody is left.
    pub(crate) fn settle_alone(&mut self, now: Moment) {
        reached(Branch::SettledAlone);
        self.settle_removed(now);
        self.settle(now);
    }

    /// Has everybody who counted the operation, but one, taken that back? And does everybody know?
    fn is_resolved(&self, entry: &Entry, acknowledged: u64) -> bool {
        let (own, hash) = (self.settings.site, entry.hash);
        if let What::Taken(_) = &entry.what {
            // All counters of a token together: what is left of its entries says that the slot is closed.
            let mut of_token = self.links.entries(hash).filter(|(site, _)| *site == own);
            return of_token.all(|(_, entry)| entry.number <= acknowledged);
        }
        if let What::Cancelled(Cancellation { of, .. }) = &entry.what {
            // What an heir has taken back for a removed site it would take back again, were that forgotten before what the
            // removed site has said.
            let speaks_of_it = |site: SiteId, it: &Entry| match &it.what {
                What::Counted(_) | What::Taken(_) => site == *of,
                What::Cancelled(cancellation) => site != own && cancellation.of == *of,
            };
            return *of == own || !self.links.entries(hash).any(|(site, it)| speaks_of_it(site, it));
        }
        // First of all: the lower site's count may be settled, and gone from here, before everybody knows of this.
        if let Some((_, number)) = self.links.cancellation(hash, own) {
            return number <= acknowledged;
        }
        let counts = self.links.counts(hash);
        let is_lowest = counts.first().is_some_and(|(lowest, _)| *lowest == own);
        is_lowest
            && counts[1..].iter().all(|(site, _)| self.all_know_it_taken_back(hash, *site, acknowledged))
    }

    /// Was this site's count taken back, and do all others know, who have the own stream up to `acknowledged`? Should they
    /// hear before that the count which is kept is settled, and who took this one back be lost, they would keep both.
    pub(super) fn all_know_it_taken_back(&self, hash: OperationHash, of: SiteId, acknowledged: u64) -> bool {
        let Some((by, number)) = self.links.cancellation(hash, of) else { return false };
        if by == self.settings.site {
            number <= acknowledged || !self.settings.rules.keep(Rule::TakenBackBeforeSettled)
        } else {
            self.links.all_have_entry(by, number) || !self.settings.rules.keep(Rule::TakenBackIsKnown)
        }
    }

    /// Its own site says that the entries of a stream up to here are settled.
    pub(super) fn settle_learned(&mut self, site: SiteId, settled: u64, now: Moment) {
        let Some(origin) = self.links.origins.get_mut(&site) else { return };
        let settled = settled.min(origin.position);
        if settled <= origin.settled {
            return;
        }
        origin.settled = settled;
        let numbers: Vec<u64> = origin.open.range(..=settled).map(|(number, _)| *number).collect();
        for number in numbers {
            self.retire_from_now_on(site, number, now);
        }
    }

    /// An entry is settled. The batch stores that, even if nothing else has changed: from then on an answer may say so.
    /// Returns as [`Self::retire`].
    pub(super) fn retire_from_now_on(&mut self, site: SiteId, number: u64, now: Moment) -> Option<Operation> {
        self.moved |= self.settings.rules.keep(Rule::SettledIsStored);
        self.retire(site, number, now)
    }

    /// What was stored as open and is settled since goes where it belongs.
    pub(super) fn retire_settled(&mut self, now_ms: u64) {
        // How far an id is ahead of the clock is not known here: it is kept for as long as that can be.
        let now = Moment { elapsed_ms: now_ms, unix_ms: 0 };
        let settled = self.links.origins.iter().flat_map(|(site, origin)| {
            origin.open.range(..=origin.settled).map(|(number, _)| (*site, *number))
        });
        for (site, number) in settled.collect::<Vec<_>>() {
            reached(Branch::SettledAtStart);
            self.retire(site, number, now);
        }
    }

    /// The count that an heir takes back by this entry: whose it is, and its number.
    fn taken_back_by(&self, site: SiteId, number: u64) -> Option<(SiteId, u64)> {
        let entry = self.links.origins.get(&site)?.open.get(&number)?;
        let What::Cancelled(Cancellation { of, .. }) = &entry.what else { return None };
        let mut counts =
            self.links.entries(entry.hash).filter(|(other, it)| other == of && it.count().is_some());
        counts.next().filter(|_| *of != site).map(|(of, it)| (of, it.number))
    }

    /// An entry is settled: a count goes to those that are remembered for the window. Returns what is remembered.
    pub(super) fn retire(&mut self, site: SiteId, number: u64, now: Moment) -> Option<Operation> {
        let own = self.settings.site;
        if let Some((of, count)) = self.taken_back_by(site, number) {
            // The heir has seen that all have both: the count goes first.
            reached(Branch::RetiredWithHeirs);
            self.retire(of, count, now);
        }
        let hash = self.links.origins.get(&site).and_then(|it| it.open.get(&number)).map(|entry| entry.hash);
        // What took it back may have been settled, and forgotten, before this site heard of it.
        let is_cancelled = hash
            .is_some_and(|hash| self.links.is_cancelled(hash, site) || self.links.is_kept_below(hash, site));
        let (entry, is_in_table) = self.links.retire(site, number)?;
        // The checkpoint that lists it as settled is known by its position in the log, which must be a new one.
        self.moved |= is_in_table && self.settings.rules.keep(Rule::SettledIsStored);
        let count = match entry.what {
            What::Counted(count) => count,
            What::Taken(taken) => {
                self.close_slot(taken);
                return None;
            }
            What::Cancelled(_) => return None,
        };
        if is_cancelled {
            reached(Branch::CancelledRetires);
            self.findings.taken_back(entry.hash.half(), site);
            return None;
        }
        let Count { amount, applied, value, made_ms, .. } = count;
        let expires_ms = self.operations.expiry_of_settled(made_ms, now);
        let copied = self.links.origins.get(&site).and_then(|origin| origin.copied);
        let may_be_taken_back = copied.filter(|copied| copied.has(number)).map(|_| true);
        if may_be_taken_back.is_some() {
            reached(Branch::SettledFromCopy);
        }
        let site = elsewhere(site, own);
        let counted = Counted { amount, applied, value, expires_ms, site, made_ms, may_be_taken_back };
        let operation = Operation { hash: entry.hash, counted };
        self.operations.remember(operation, now.elapsed_ms);
        self.note_slice(expires_ms);
        Some(operation)
    }

    /// A record says that an operation is settled. Its entry may be there, from the table or an earlier record: of a removed
    /// site no position says which ones are settled.
    pub(super) fn replay_operation(&mut self, operation: Operation, now_ms: u64) {
        let Operation { hash, counted } = operation;
        let at = counted.answer(self.settings.site).site;
        let count =
            |(site, entry): (SiteId, &Entry)| (site == at && entry.count().is_some()).then_some(entry.number);
        let number = self.links.entries(hash).find_map(count);
        if let Some(number) = number.filter(|_| self.settings.rules.keep(Rule::SettledIsReplayed)) {
            reached(Branch::SettledReplayed);
            self.links.retire(at, number);
        }
        self.operations.remember(operation, now_ms);
    }

    /// The rows that keep the entries which are not settled, and the end of those that the last checkpoint has seen go.
    /// `version` is that of the checkpoint, which covers the log up to `position`.
    pub(super) fn capture_entries(&mut self, version: u64, position: Position) -> Vec<Write> {
        self.entries_unsaved = false;
        let written = Logged::row_version(self.settings.site);
        let mut writes = Vec::new();
        let mut gone = Gone { position: position.0, ..Gone::default() };
        for (site, origin) in &mut self.links.origins {
            for (number, entry) in origin.open.iter().filter(|(number, _)| !origin.stored.contains(number)) {
                let bytes = encode_row(&Logged { site: *site, entry: entry.clone() });
                let key = Logged::row_key(*site, *number);
                writes.push(Write { slice: Slice::KEPT, key, row: Row { version: written, bytes } });
            }
            // Not before the runs that have taken them over are surely there.
            let deletable = std::mem::take(&mut origin.deletable);
            for number in &deletable {
                let key = Logged::row_key(*site, *number);
                writes.push(Write {
                    slice: Slice::KEPT,
                    key,
                    row: Row { version: written + 1, bytes: Vec::new() },
                });
            }
            let open = &origin.open;
            origin.leaving.append(&mut origin.gone);
            // One that takes back what it took back before goes by another number.
            origin.leaving.extend(origin.stored.iter().filter(|number| !open.contains_key(number)));
            origin.stored = open.keys().copied().collect();
            gone.before.extend(GoneEntries::of(*site, deletable));
            gone.now.extend(GoneEntries::of(*site, origin.leaving.clone()));
        }
        let is_listed = !gone.before.is_empty() || !gone.now.is_empty();
        if std::mem::replace(&mut self.lists_gone, is_listed) || is_listed {
            // First: of a checkpoint that fails, the first rows may be written.
            let bytes = if is_listed { encode_row(&gone) } else { Vec::new() };
            let row = Row { version, bytes };
            writes.insert(0, Write { slice: Slice::KEPT, key: GONE_KEY.to_vec(), row });
        }
        writes
    }

    /// The checkpoint is done.
    pub(super) fn entries_saved(&mut self) {
        for origin in self.links.origins.values_mut() {
            origin.deletable.append(&mut origin.leaving);
        }
    }

    /// What operations of this site, and of removed ones that it is the heir of, have counted under a key that are not
    /// settled: rights that these made wait.
    pub(super) fn waiting_rights(&self, key: &[u8]) -> Pn {
        if !self.settings.rules.keep(Rule::UnsettledRightsWait) {
            return Pn::default();
        }
        let mut waiting = self.links.own().provisional(key);
        let Membership { removed, .. } = &self.links.membership;
        for site in removed.keys().filter(|site| self.links.membership.holder(**site) == self.settings.site) {
            let inherited = self.links.origins.get(site).map(|origin| origin.provisional(key));
            let Pn { added, subtracted } = inherited.unwrap_or_default();
            waiting.added = waiting.added.saturating_add(added);
            waiting.subtracted = waiting.subtracted.saturating_add(subtracted);
        }
        waiting
    }

    /// The counters that must be in memory, because what was counted on them may have to be taken back, or what is parked
    /// can be counted when there are rights for it.
    pub(crate) fn keys_of_entries(&self) -> Vec<Box<[u8]>> {
        let entries = self.links.origins.values().flat_map(|origin| origin.open.values());
        let parked = self.desk.parked().map(Into::into);
        let mut keys: Vec<_> = entries.map(|entry| entry.key.clone()).chain(parked).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// May this counter leave memory, as far as its operations are concerned?
    pub(super) fn has_open_entries(links: &crate::links::Links, key: &[u8]) -> bool {
        links.origins.values().any(|origin| origin.count_of(key) > 0)
    }

    /// A counter as this shard has it.
    pub(super) fn counter(&self, key: &[u8]) -> Option<&Counter> {
        self.counters.get(self.counters.find(key)?).counter.as_ref()
    }
}
