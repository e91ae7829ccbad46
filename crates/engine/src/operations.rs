//! Retries that count once: which operations were counted, for as long as the window says.
//!
//! A forgetful Bloom filter answers "new" for nearly every operation without a look-up (“Forgetful Bloom filters”
//! stand in front). What may have been seen is settled by the operations themselves: the recent ones are in memory,
//! older ones in *runs* in the table. A run is what one checkpoint wrote, in pages by hash, in a slice that is
//! dropped whole when its operations have expired. Being exact never depends on the filter: while it is being filled
//! again after a restart, everything is looked up.

use std::collections::BTreeMap;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use minicbor::{Decode, Encode};
use quipu_crdt::bloom::ElementHash;
use quipu_storage::{Row, Slice, Write};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::{
    Added, Moment, OperationId, Refusal, Rule, Rules, STORED_SINCE_BYTES, Settings, SiteId, Window,
    WindowMode,
    gate::Gate,
    record::{decode_row, encode_row},
};

/// Operations whose expiry lies in the same span share a slice.
pub(crate) const SLICE_MS: u64 = 120_000;
/// How many operations a page of a run has, about.
const PAGE_OPERATIONS: usize = 64;
/// The most pages that a run is divided into, as a power of two.
const PAGES_LOG2_MAX: u32 = 15;

const HEADER: u8 = b'h';
const PAGE: u8 = b'p';

/// The name of an operation at its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct OperationHash(u128);

impl OperationHash {
    pub(crate) fn of(key: &[u8], operation: OperationId<'_>) -> Self {
        if let Some((stored, _)) = stored_id(operation) {
            return Self(u128::from_be_bytes(*stored));
        }
        let mut hash = Xxh3::new();
        for part in [key, operation.producer, operation.id] {
            // With its length, so that no two triples have the same bytes.
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Self(hash.digest128())
    }

    /// Half of it, by which an operation is witnessed in rows.
    pub(crate) fn half(self) -> u64 {
        u64::try_from(self.0 & u128::from(u64::MAX)).unwrap_or(u64::MAX)
    }

    /// The id of [`OperationId::stored`].
    pub(crate) fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    fn element(self) -> ElementHash {
        ElementHash::from(self.0)
    }
}

impl<C> Encode<C> for OperationHash {
    fn encode<W: minicbor::encode::Write>(
        &self,
        encoder: &mut minicbor::Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        encoder.bytes(&self.0.to_be_bytes())?.ok()
    }
}

impl<'b, C> Decode<'b, C> for OperationHash {
    fn decode(decoder: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        let bytes = decoder.bytes()?.try_into();
        let bytes = bytes.map_err(|_| minicbor::decode::Error::message("an operation has 16 bytes"))?;
        Ok(Self(u128::from_be_bytes(bytes)))
    }
}

/// An operation that was counted, and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Counted {
    #[n(0)]
    pub(crate) amount: i64,
    #[n(1)]
    pub(crate) applied: i64,
    #[n(2)]
    pub(crate) value: i64,
    /// Until when it is remembered, in the shard's time.
    #[n(3)]
    pub(crate) expires_ms: u64,
    /// Where it was counted, if not at the first incarnation of this site. (A restored copy keeps what it remembers.)
    #[n(4)]
    pub(crate) site: Option<SiteId>,
    /// When its id was made, if that tells.
    #[n(5)]
    pub(crate) made_ms: Option<u64>,
    /// It is counted once, but perhaps as another site's: this one may have been taken back while a copy was away.
    #[n(6)]
    pub(crate) may_be_taken_back: Option<bool>,
}

impl Counted {
    pub(crate) fn answer(&self, own: SiteId) -> Added {
        let Self { value, applied, site, .. } = *self;
        let first = SiteId { incarnation: 0, ..own };
        Added { value, applied, repeated: true, site: site.unwrap_or(first) }
    }
}

/// Where something was counted, as [`Counted`] says it at this site.
pub(crate) fn elsewhere(site: SiteId, own: SiteId) -> Option<SiteId> {
    (site != SiteId { incarnation: 0, ..own }).then_some(site)
}

/// An operation with its name, as it is logged and stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Operation {
    #[n(0)]
    pub(crate) hash: OperationHash,
    #[n(1)]
    pub(crate) counted: Counted,
}

/// Operations that one checkpoint has written. Its rows never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) slice: Slice,
    name: RunName,
    pages_log2: u32,
    /// How many it has.
    pub(crate) operations: u64,
    /// When the newest of their ids was made, of those that tell.
    newest_ms: Option<u64>,
}

/// What the keys of a run's rows have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RunName {
    /// The number of the shard's last change when the checkpoint began.
    number: u64,
    /// Of the operations: a checkpoint that is made again after a crash has the same number, and may have fewer.
    digest: u64,
}

impl RunName {
    const BYTES: usize = 16;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.number.to_be_bytes());
        bytes[8..].copy_from_slice(&self.digest.to_be_bytes());
        bytes
    }

    fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let half = |at: usize| std::array::from_fn(|byte| bytes[at + byte]);
        Self { number: u64::from_be_bytes(half(0)), digest: u64::from_be_bytes(half(8)) }
    }

    /// Where a page of the run, or its header, stands in the table.
    fn key(self, kind: u8, page: Option<u16>) -> Vec<u8> {
        let mut key = vec![kind];
        key.extend_from_slice(&self.to_bytes());
        key.extend(page.into_iter().flat_map(u16::to_be_bytes));
        key
    }
}

#[derive(Encode, Decode)]
pub(crate) struct Header {
    #[n(0)]
    pages_log2: u32,
    #[n(1)]
    operations: u64,
    #[n(2)]
    newest_ms: Option<u64>,
}

impl Run {
    /// What headers of runs begin with.
    pub(crate) const HEADERS: &'static [u8] = &[HEADER];

    /// The run of a header.
    pub(crate) fn of_header(slice: Slice, key: &[u8], row: &Row) -> Result<Self, minicbor::decode::Error> {
        let wrong = || minicbor::decode::Error::message("the header of a run has another form");
        let name = key.get(1..).and_then(|bytes| bytes.try_into().ok()).ok_or_else(wrong)?;
        let header: Header = decode_row(&row.bytes)?;
        if header.pages_log2 > PAGES_LOG2_MAX {
            return Err(wrong());
        }
        let Header { pages_log2, operations, newest_ms } = header;
        Ok(Self { slice, name: RunName::from_bytes(name), pages_log2, operations, newest_ms })
    }

    #[cfg(test)]
    pub(crate) fn for_tests(slice: Slice, operations: u64) -> Self {
        Self { slice, name: RunName { number: 1, digest: 1 }, pages_log2: 0, operations, newest_ms: None }
    }

    fn page_of(&self, hash: OperationHash) -> u16 {
        let page = hash.0.checked_shr(128 - self.pages_log2).unwrap_or(0);
        u16::try_from(page).expect("fewer than sixteen bits are left")
    }

    /// Where the operation stands if it is in this run.
    pub(crate) fn key_of(&self, hash: OperationHash) -> Vec<u8> {
        self.name.key(PAGE, Some(self.page_of(hash)))
    }

    /// What the keys of its pages begin with.
    pub(crate) fn pages(&self) -> Vec<u8> {
        self.name.key(PAGE, None)
    }

    /// The rows of a run of these operations.
    fn write(slice: Slice, number: u64, mut operations: Vec<Operation>) -> (Self, Vec<Write>) {
        operations.sort_unstable_by_key(|operation| operation.hash);
        let pages_log2 = (operations.len() / PAGE_OPERATIONS).max(1).ilog2().min(PAGES_LOG2_MAX);
        let name = RunName { number, digest: xxh3_64(&encode_row(&operations)) };
        let count = operations.len() as u64;
        let newest_ms = operations.iter().filter_map(|operation| operation.counted.made_ms).max();
        let run = Self { slice, name, pages_log2, operations: count, newest_ms };
        let header = Header { pages_log2, operations: count, newest_ms };
        let write = |key, bytes| Write { slice, key, row: Row { version: 1, bytes } };
        let mut writes = vec![write(name.key(HEADER, None), encode_row(&header))];
        for page in operations.chunk_by(|one, next| run.page_of(one.hash) == run.page_of(next.hash)) {
            writes.push(write(run.key_of(page[0].hash), encode_row(&page)));
        }
        (run, writes)
    }
}

/// The operations of a page.
pub(crate) fn decode_page(row: &Row) -> Result<Vec<Operation>, minicbor::decode::Error> {
    decode_row(&row.bytes)
}

/// What is said of an operation that comes in.
pub(crate) enum Admitted {
    /// Count it, and remember it until then.
    New { hash: OperationHash, expires_ms: u64 },
    /// It was counted.
    Repeat(Counted),
    /// The filter takes it for one that was counted; there is no answer to repeat.
    Presumed,
}

/// Numbers for people, since the shard was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OperationStats {
    /// Operations that came with an id.
    pub seen: u64,
    /// Of these, repeats that were answered and not counted.
    pub repeats: u64,
    /// Looked up because of the filter, and found to be new.
    pub false_positives: u64,
}

#[derive(Debug)]
pub(crate) struct Operations {
    window: Window,
    rules: Rules,
    gate: Gate,
    /// Ids that tell that they were made then, or before, may have been forgotten: one that is not known is not taken for
    /// a new one, whatever the wall clock says now.
    forgotten_ms: Option<u64>,
    /// The same of those whose slices are dropped, which no later process will find.
    dropped_ms: Option<u64>,
    /// When the filter may have forgotten ids, and when the newest of them was made.
    fading: BTreeMap<u64, u64>,
    /// Counted since the last checkpoint began.
    recent: HashMap<OperationHash, Counted, FixedState>,
    /// Being written by a checkpoint.
    saving: HashMap<OperationHash, Counted, FixedState>,
    saving_runs: Vec<Run>,
    runs: Vec<Run>,
    /// Looked up for the batch that is being made.
    recalled: HashMap<OperationHash, Option<Counted>, FixedState>,
    stats: OperationStats,
}

impl Operations {
    /// What these runs of the table have; the filter does not know them yet.
    pub(crate) fn new(settings: &Settings, runs: Vec<Run>, forgotten_ms: Option<u64>, now_ms: u64) -> Self {
        let Settings { window, seed, rules, .. } = *settings;
        let map = || HashMap::with_hasher(FixedState::with_seed(seed));
        Self {
            window,
            rules,
            forgotten_ms,
            dropped_ms: forgotten_ms,
            fading: BTreeMap::new(),
            gate: Gate::new(window, runs.clone(), now_ms),
            recent: map(),
            saving: map(),
            saving_runs: Vec::new(),
            runs,
            recalled: HashMap::with_hasher(FixedState::with_seed(seed)),
            stats: OperationStats::default(),
        }
    }

    fn find(&self, hash: OperationHash) -> Option<Counted> {
        let found = self.recent.get(&hash).or_else(|| self.saving.get(&hash)).copied();
        found.or_else(|| self.recalled.get(&hash).copied().flatten())
    }

    /// Is it remembered? Everything that [`Self::where_to_look`] names has been looked up.
    pub(crate) fn knows(&self, hash: OperationHash) -> bool {
        self.find(hash).is_some()
    }

    /// The runs in which the operation must be looked for before it is admitted.
    pub(crate) fn where_to_look(&self, hash: OperationHash, id: OperationId<'_>, mode: WindowMode) -> &[Run] {
        let known = || self.recalled.contains_key(&hash) || self.find(hash).is_some();
        if mode == WindowMode::Filter || self.runs.is_empty() || known() {
            return &[];
        }
        if !self.gate.is_warm() || self.gate.contains(hash.element()) || self.is_forgotten(id) {
            &self.runs
        } else {
            &[]
        }
    }

    /// Tells what was found in the runs.
    pub(crate) fn recall(&mut self, hash: OperationHash, found: Option<Counted>) {
        if found.is_none() && self.gate.is_warm() {
            self.stats.false_positives += 1;
        }
        self.recalled.insert(hash, found);
    }

    /// Is it new? Everything that [`Self::where_to_look`] names has been looked up.
    pub(crate) fn admit(
        &mut self,
        hash: OperationHash,
        id: OperationId<'_>,
        amount: i64,
        now: Moment,
    ) -> Result<Admitted, Refusal> {
        let expires_ms = self.expiry(id, now)?;
        self.stats.seen += 1;
        let repeat = match self.window.mode {
            WindowMode::Exact => self.find(hash),
            WindowMode::Filter if self.gate.contains(hash.element()) => {
                self.stats.repeats += 1;
                return Ok(Admitted::Presumed);
            }
            WindowMode::Filter => None,
        };
        match repeat {
            None if self.is_forgotten(id) => Err(self.too_old(id, now)),
            None => Ok(Admitted::New { hash, expires_ms }),
            Some(counted) if counted.amount == amount => {
                self.stats.repeats += 1;
                Ok(Admitted::Repeat(counted))
            }
            Some(counted) => Err(Refusal::OtherAmount { first: counted.amount, now: amount }),
        }
    }

    /// Until when an operation that comes now is remembered.
    pub(crate) fn expiry(&self, id: OperationId<'_>, now: Moment) -> Result<u64, Refusal> {
        let window_ms = self.window.length_ms;
        let Some(made_ms) = made_ms(id) else { return Ok(now.elapsed_ms + window_ms) };
        let (age_ms, ahead_ms) = (now.unix_ms.saturating_sub(made_ms), made_ms.saturating_sub(now.unix_ms));
        let ahead_ms_max = self.window.ahead_ms_max();
        if age_ms > window_ms && self.rules.keep(Rule::OldIdsAreRefused) {
            return Err(Refusal::TooOld { age_ms, window_ms });
        }
        if ahead_ms > ahead_ms_max {
            return Err(Refusal::FromTheFuture { ahead_ms, ahead_ms_max });
        }
        // Kept until this clock itself would refuse it.
        Ok(now.elapsed_ms + window_ms + ahead_ms)
    }

    /// May an id that is not known have been forgotten?
    fn is_forgotten(&self, id: OperationId<'_>) -> bool {
        let keeps = self.rules.keep(Rule::ForgottenStayRefused) && self.rules.keep(Rule::OldIdsAreRefused);
        let forgotten_ms = self.forgotten_ms.filter(|_| keeps);
        forgotten_ms.is_some_and(|forgotten_ms| made_ms(id).is_some_and(|made_ms| made_ms <= forgotten_ms))
    }

    /// It is at least that old, though the clock may have been set back.
    fn too_old(&self, id: OperationId<'_>, now: Moment) -> Refusal {
        let window_ms = self.window.length_ms;
        let age_ms = made_ms(id).map_or(0, |made_ms| now.unix_ms.saturating_sub(made_ms));
        Refusal::TooOld { age_ms: age_ms.max(window_ms + 1), window_ms }
    }

    /// Up to which time of their making ids may have been forgotten.
    pub(crate) fn forgotten_ms(&self) -> Option<u64> {
        self.forgotten_ms
    }

    /// Up to which time of their making ids may have been forgotten that no later process will find.
    pub(crate) fn dropped_ms(&self) -> Option<u64> {
        self.dropped_ms
    }

    /// Ids made up to then may be forgotten from now on.
    pub(crate) fn forget_until(&mut self, made_ms: Option<u64>) {
        self.forgotten_ms = self.forgotten_ms.max(made_ms);
    }

    /// Operations in slices that have passed, or that the filter need not know any more, are not looked for again.
    pub(crate) fn expire(&mut self, now_ms: u64) {
        let floor = slice_of(now_ms);
        let expired = self.runs.iter().filter(|run| run.slice < floor).filter_map(|run| run.newest_ms);
        let mut newest_ms = expired.max();
        self.dropped_ms = self.dropped_ms.max(newest_ms);
        while let Some((until_ms, faded_ms)) = self.fading.pop_first() {
            if until_ms > now_ms {
                self.fading.insert(until_ms, faded_ms);
                break;
            }
            newest_ms = newest_ms.max(Some(faded_ms));
        }
        self.forget_until(newest_ms);
    }

    /// The filter is told of an operation, and will forget it.
    fn will_fade(&mut self, made_ms: Option<u64>, now_ms: u64) {
        let Some(made_ms) = made_ms else { return };
        let slack_ms = self.window.fading_ms();
        let told_ms = (now_ms / slack_ms + 1) * slack_ms;
        let newest =
            self.fading.entry(told_ms + self.window.length_ms + self.window.ahead_ms_max()).or_default();
        *newest = made_ms.max(*newest);
    }

    /// Until when an operation is remembered that was made then, if it tells, and is settled now.
    pub(crate) fn expiry_of_settled(&self, made_ms: Option<u64>, now: Moment) -> u64 {
        let ahead_ms = made_ms.map_or(0, |made_ms| made_ms.saturating_sub(now.unix_ms));
        now.elapsed_ms + self.window.length_ms + ahead_ms.min(self.window.ahead_ms_max())
    }

    /// One that is known elsewhere came again.
    pub(crate) fn note_repeat(&mut self) {
        self.stats.seen += 1;
        self.stats.repeats += 1;
    }

    /// What became of an operation. Everything that [`Self::where_to_look`] names has been looked up.
    pub(crate) fn outcome(
        &self,
        hash: OperationHash,
        id: OperationId<'_>,
        now: Moment,
        own: SiteId,
    ) -> crate::Outcome {
        match self.find(hash) {
            Some(counted) => {
                let added = Added { repeated: false, ..counted.answer(own) };
                match counted.may_be_taken_back {
                    Some(true) => crate::Outcome::Provisional(added),
                    _ => crate::Outcome::Counted(added),
                }
            }
            None if self.is_forgotten(id) => crate::Outcome::TooOld,
            None if matches!(self.expiry(id, now), Err(Refusal::TooOld { .. })) => crate::Outcome::TooOld,
            None => crate::Outcome::Unknown,
        }
    }

    /// Remembers an operation that was counted, now or before the shard was opened.
    pub(crate) fn remember(&mut self, operation: Operation, now_ms: u64) {
        self.gate.record(operation.hash.element(), now_ms);
        self.will_fade(operation.counted.made_ms, now_ms);
        // The filter-only mode needs it too: the filter is made of what was stored when the shard is opened again.
        self.recent.insert(operation.hash, operation.counted);
    }

    /// The batch is made: what was looked up for it is forgotten.
    pub(crate) fn seal(&mut self) {
        self.recalled.clear();
    }

    /// How many wait for a checkpoint.
    pub(crate) fn unsaved(&self) -> usize {
        self.recent.len()
    }

    /// The rows that keep what was counted since the last checkpoint; `number` is that of the shard's last change.
    pub(crate) fn capture(&mut self, number: u64, now_ms: u64) -> Vec<Write> {
        debug_assert!(self.saving.is_empty());
        std::mem::swap(&mut self.recent, &mut self.saving);
        let mut slices: BTreeMap<Slice, Vec<Operation>> = BTreeMap::new();
        let mut expired_ms = None;
        for (hash, counted) in &self.saving {
            if counted.expires_ms > now_ms {
                let operation = Operation { hash: *hash, counted: *counted };
                slices.entry(slice_of(counted.expires_ms)).or_default().push(operation);
            } else {
                expired_ms = expired_ms.max(counted.made_ms);
            }
        }
        self.dropped_ms = self.dropped_ms.max(expired_ms);
        self.forget_until(expired_ms);
        let mut writes = Vec::new();
        for (slice, operations) in slices {
            let (run, rows) = Run::write(slice, number, operations);
            self.saving_runs.push(run);
            writes.extend(rows);
        }
        writes
    }

    /// What was captured stands in the table.
    pub(crate) fn saved(&mut self) {
        self.saving.clear();
        self.runs.append(&mut self.saving_runs);
    }

    /// The run that the filter should hear of next.
    pub(crate) fn coldest(&self) -> Option<Run> {
        self.gate.coldest()
    }

    /// Operations of that run.
    pub(crate) fn warm(&mut self, operations: &[Operation], now_ms: u64) {
        for Operation { hash, counted } in operations {
            if counted.expires_ms > now_ms {
                self.gate.warm(hash.element(), now_ms);
                self.will_fade(counted.made_ms, now_ms);
            } else {
                self.forget_until(counted.made_ms);
            }
        }
    }

    /// The filter has heard of all of this run.
    pub(crate) fn warmed(&mut self, run: Run) {
        self.gate.warmed(run);
    }

    /// Tells the time. Returns the slice before which nothing is needed any more.
    pub(crate) fn tick(&mut self, now_ms: u64) -> Slice {
        let floor = slice_of(now_ms);
        self.expire(now_ms);
        self.runs.retain(|run| run.slice >= floor);
        self.gate.tick(now_ms, floor);
        if let Some(bits) = self.gate.bits_needed() {
            let known = self.recent.keys().chain(self.saving.keys()).map(|hash| hash.element());
            self.gate.grow(bits, known, self.runs.clone(), now_ms);
        }
        floor
    }

    /// Goes on counting, for people, from where `before` was.
    pub(crate) fn carry_on(&mut self, before: &Self) {
        self.stats = before.stats;
    }

    pub(crate) fn stats(&self) -> OperationStats {
        self.stats
    }

    /// Writes down what is remembered. The filter follows from it.
    #[cfg(feature = "testing")]
    pub(crate) fn describe(&self, to: &mut impl std::fmt::Write) -> std::fmt::Result {
        for operations in [&self.recent, &self.saving] {
            // In an order that does not tell which came first.
            write!(to, "{:?}", operations.iter().collect::<BTreeMap<_, _>>())?;
        }
        write!(to, "{:?}{:?}{:?}", self.saving_runs, self.runs, self.forgotten_ms)
    }

    pub(crate) fn filter(&self) -> FilterStats {
        self.gate.stats()
    }
}

/// The filter in front of the operations of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FilterStats {
    /// Its size.
    pub bytes: u64,
    /// The probability that it takes a new operation for one that was counted.
    pub error_estimate: f64,
}

/// The slice of operations that expire then. What expires in a slice before the current one has expired.
pub(crate) fn slice_of(expires_ms: u64) -> Slice {
    // Slice 0 is never dropped.
    Slice(u32::try_from(expires_ms / SLICE_MS).unwrap_or(u32::MAX - 1) + 1)
}

/// An operation of which only what is stored of its id is known: that, and what tells its time.
fn stored_id(operation: OperationId<'_>) -> Option<(&[u8; 16], &[u8])> {
    let is_stored = matches!(operation.id.len(), 16 | STORED_SINCE_BYTES);
    operation.id.split_first_chunk().filter(|_| operation.producer.is_empty() && is_stored)
}

/// When an operation was made, if its id is a UUID of version 7 in its usual form.
pub(crate) fn made_ms(operation: OperationId<'_>) -> Option<u64> {
    let id = stored_id(operation).map_or(operation.id, |(_, time)| time);
    let is_form = id.len() == 36
        && id.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            14 => *byte == b'7',
            19 => matches!(byte, b'8' | b'9' | b'a' | b'b' | b'A' | b'B'),
            _ => byte.is_ascii_hexdigit(),
        });
    if !is_form {
        return None;
    }
    let digits = std::str::from_utf8(id).ok()?;
    u64::from_str_radix(&[&digits[..8], &digits[9..13]].concat(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_of_version_7_tells_its_time() {
        let made_ms = |id: &[u8]| made_ms(OperationId { producer: b"p", id });
        assert_eq!(made_ms(b"017f22e2-79b0-7cc3-98c4-dc0c0c07398f"), Some(0x017f_22e2_79b0));
        for other in [
            "017f22e2-79b0-4cc3-98c4-dc0c0c07398f",
            "017f22e2-79b0-7cc3-c8c4-dc0c0c07398f",
            "017f22e279b07cc398c4dc0c0c07398f",
            "017f22e2-79b0-7cc3-98c4-dc0c0c07398g",
            "",
        ] {
            assert_eq!(made_ms(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn what_is_stored_of_an_id_may_tell_a_time() {
        let named = OperationId { producer: b"p", id: b"x" };
        let stored = named.to_stored(b"k");
        let since = [&stored[..], b"017f22e2-79b0-7cc3-98c4-dc0c0c07398f"].concat();
        let since = OperationId::stored_since(since[..].try_into().unwrap());
        for (operation, time) in
            [(named, None), (OperationId::stored(&stored), None), (since, Some(0x017f_22e2_79b0))]
        {
            assert_eq!(OperationHash::of(b"k", operation).to_bytes(), stored);
            assert_eq!(made_ms(operation), time);
        }
        let of_client = OperationId { producer: b"p", id: since.id };
        assert_ne!(OperationHash::of(b"k", of_client).to_bytes(), stored);
        assert_eq!(made_ms(of_client), None);
    }

    #[test]
    fn parts_of_an_operation_do_not_run_into_each_other() {
        let hash = |key: &str, producer: &str, id: &str| {
            let operation = OperationId { producer: producer.as_bytes(), id: id.as_bytes() };
            OperationHash::of(key.as_bytes(), operation)
        };
        assert_ne!(hash("a", "bc", "d"), hash("ab", "c", "d"));
        assert_ne!(hash("a", "b", "cd"), hash("a", "bc", "d"));
        assert_eq!(hash("a", "b", "c"), hash("a", "b", "c"));
    }

    #[test]
    fn every_operation_of_a_run_is_on_its_page() {
        for count in [1, 63, 64, 128, 1_000, 10_000] {
            let counted = Counted {
                amount: 1,
                applied: 1,
                value: 1,
                expires_ms: 5,
                site: None,
                made_ms: None,
                may_be_taken_back: None,
            };
            let operation = |n: u64| {
                let id = OperationId { producer: b"p", id: &n.to_le_bytes() };
                Operation { hash: OperationHash::of(b"k", id), counted }
            };
            let operations: Vec<_> = (0..count).map(operation).collect();
            let (run, writes) = Run::write(Slice(3), 9, operations.clone());
            assert_eq!(Run::of_header(Slice(3), &writes[0].key, &writes[0].row).unwrap(), run);
            for operation in operations {
                let page = writes.iter().find(|write| write.key == run.key_of(operation.hash)).unwrap();
                assert!(page.key.starts_with(&run.pages()));
                assert!(decode_page(&page.row).unwrap().contains(&operation));
            }
        }
    }
}
