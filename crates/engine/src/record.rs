//! The bytes of a shard: records of its log, rows of its table. Pictures of them are in `docs/format.md`.

use minicbor::{Decode, Decoder, Encode, Encoder};

use quipu_crdt::Pn;

use crate::{
    KEY_BYTES_MAX, SiteId, Window,
    counter::Counter,
    counters::VERSION_MAX,
    entry::Entry,
    handoff::{ClosedChange, Handed, Name},
    links::Runs,
    operations::{Operation, SLICE_MS, slice_of},
    shard::StoredFindings,
};

/// The format of records, rows and the summary.
const FORMAT: u8 = 1;

/// The row of a counter begins with this.
const COUNTER: u8 = b'k';
/// The row of an entry that is not settled begins with this.
pub(crate) const OPEN_ENTRY: u8 = b'o';
/// The row that lists entries which are settled, and whose rows are still there.
pub(crate) const GONE_KEY: &[u8] = b"g";
/// Rows about handoffs begin with this.
pub(crate) const DESK: u8 = b'h';
/// The row of a counter as it was before what no other site has heard of begins with this.
pub(crate) const BEFORE: u8 = b'b';
/// Rows about closed slots of desks begin with this; the one without a name tells whose tables are known.
pub(crate) const CLOSED_KEY: &[u8] = b"c";
/// The row that lists the counters under which something is parked.
pub(crate) const PARKED_KEY: &[u8] = b"p";
/// The row that sums a shard up.
pub(crate) const SUMMARY_KEY: &[u8] = b"s";
/// The row that tells the shard's time when slices were last dropped. Its version is that time.
pub(crate) const TIME_KEY: &[u8] = b"t";
/// The row that tells up to which record of its log the table has everything of a shard. Its version is that position.
pub(crate) const COVERED_KEY: &[u8] = b"l";

/// No shard has counted for so long; in milliseconds.
const TIME_MS_MAX: u64 = 1 << 48;
/// No shard has changed so often.
const CHANGES_MAX: u64 = VERSION_MAX / 2;
/// Operations expire at most so many slices after they were counted.
const SLICES_AHEAD_MAX: u64 = 2 * Window::LENGTH_MS_MAX / SLICE_MS;

/// What a shard must know besides its counters and operations.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub(crate) struct Summary {
    /// The number of the last change.
    #[n(0)]
    pub(crate) changes: u64,
    /// How many counters exist.
    #[n(1)]
    pub(crate) live: u64,
    /// The shard's time.
    #[n(2)]
    pub(crate) time_ms: u64,
    /// The highest slice in use.
    #[n(3)]
    pub(crate) slice_max: u32,
    /// What was counted here, and why.
    #[n(4)]
    pub(crate) books: Option<Books>,
    /// How far this site has got with the stream of each, its own among them; none, if there was never another one.
    #[n(5)]
    pub(crate) streams: Option<Vec<Stream>>,
    /// Whose rows are those that do not say it; the first site's, if that is not said either.
    #[n(6)]
    pub(crate) site: Option<SiteId>,
    /// From when on it knows all operations of the window, in the shard's time; never yet, while it joins the cluster.
    #[n(7)]
    pub(crate) knows_ids_from_ms: Option<u64>,
    /// Ids that tell that they were made then, or before, may have been forgotten.
    #[n(8)]
    pub(crate) forgotten_ms: Option<u64>,
    /// What no other site has heard of begins here; none, if one has heard from this site since it was started.
    #[n(9)]
    pub(crate) unheard: Option<Unheard>,
    /// What was undone when this became another incarnation of its site.
    #[n(10)]
    pub(crate) undone: Option<Undone>,
    /// Operations that were not counted exactly once.
    #[n(11)]
    pub(crate) findings: Option<StoredFindings>,
}

/// The end of a stream that nobody else has heard of. What comes there is another site's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Undone {
    /// The incarnation before.
    #[n(0)]
    pub(crate) site: SiteId,
    /// What came after this was undone.
    #[n(1)]
    pub(crate) position: u64,
}

/// Where the shard stood when its site was started. Until another site has spoken to it since, nobody knows whether it
/// goes on from an old copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Unheard {
    /// The number of the last change.
    #[n(0)]
    pub(crate) changes: u64,
    /// The last one of the own stream.
    #[n(1)]
    pub(crate) position: u64,
}

/// A counter as it was before what no other site has heard of; `None`: there was none.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Before {
    #[n(0)]
    #[cbor(with = "crate::entry::key")]
    pub(crate) key: Box<[u8]>,
    /// The number of its last change then.
    #[n(1)]
    pub(crate) version: u64,
    #[n(2)]
    pub(crate) counter: Option<Counter>,
    /// [`Unheard::changes`]: rows of an earlier time say nothing.
    #[n(3)]
    pub(crate) since: u64,
}

/// What this site has counted, and why, modulo 2^64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub(crate) struct Books {
    /// What clients were told.
    #[n(0)]
    pub(crate) issued: Pn,
    /// What was put in the place of what was set aside.
    #[n(1)]
    pub(crate) set: Pn,
    /// What was taken back of retries that two sites have counted.
    #[n(2)]
    pub(crate) cancelled: Pn,
}

/// How far a stream is known.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Stream {
    #[n(0)]
    pub(crate) site: SiteId,
    #[n(1)]
    pub(crate) position: u64,
    #[n(2)]
    pub(crate) settled: u64,
    /// All that the site has counted, modulo 2^64.
    #[n(3)]
    pub(crate) counted: Pn,
    /// Which runs of the site have written it.
    #[n(4)]
    pub(crate) runs: Option<Runs>,
    /// Of a removed site: the rows here that are ahead of its stream are in the own one.
    #[n(8)]
    pub(crate) is_told: Option<bool>,
    #[n(9)]
    pub(crate) copied: Option<Copied>,
}

/// The entries of a stream that were open in the copy from which a site went on. They may have been taken back since, by
/// entries that are settled, and are not sent any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Copied {
    /// Those after this number,
    #[n(0)]
    pub(crate) settled: u64,
    /// up to this one.
    #[n(1)]
    pub(crate) position: u64,
}

impl Copied {
    pub(crate) fn has(self, number: u64) -> bool {
        self.settled < number && number <= self.position
    }
}

/// Entries whose rows the table still has although they are settled. Without this list a process that starts would settle
/// them again, perhaps without the entry that took one of them back.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub(crate) struct Gone {
    /// Settled before the checkpoint before this one: it has written what became of them. This one deletes their rows.
    #[n(0)]
    pub(crate) before: Vec<GoneEntries>,
    /// Settled since then: this checkpoint writes what became of them.
    #[n(1)]
    pub(crate) now: Vec<GoneEntries>,
    /// This checkpoint is complete if it is said to cover the log up to here.
    #[n(2)]
    pub(crate) position: u64,
}

/// Entries of one site.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct GoneEntries {
    #[n(0)]
    pub(crate) site: SiteId,
    #[n(1)]
    pub(crate) numbers: Vec<u64>,
}

impl GoneEntries {
    /// None, if there are none.
    pub(crate) fn of(site: SiteId, numbers: Vec<u64>) -> Option<Self> {
        (!numbers.is_empty()).then_some(Self { site, numbers })
    }
}

impl Gone {
    /// The entries to be left out, if the last complete checkpoint covers the log up to a position.
    pub(crate) fn left_out(self, checkpoint: u64) -> impl Iterator<Item = (SiteId, u64)> {
        let is_complete = self.position <= checkpoint;
        let all = self.before.into_iter().chain(self.now.into_iter().filter(move |_| is_complete));
        all.flat_map(|GoneEntries { site, numbers }| numbers.into_iter().map(move |number| (site, number)))
    }
}

impl Summary {
    /// What holds of every summary that was written. (What is beyond would overflow, or be looked for for ever.)
    fn check(&self) -> Result<(), Failed> {
        check_time(self.time_ms)?;
        check_time(self.forgotten_ms.unwrap_or(0))?;
        if self.changes > CHANGES_MAX || self.live > self.changes {
            return Err(Failed::message("more counters than changes, or too many changes"));
        }
        let positions = self.streams.iter().flatten().map(|stream| stream.position.max(stream.settled));
        if positions.max().is_some_and(|position| position > CHANGES_MAX) {
            return Err(Failed::message("a stream that is too long"));
        }
        if self.unheard.is_some_and(|it| it.changes > self.changes || it.position > self.changes) {
            return Err(Failed::message("what nobody has heard of begins after the end"));
        }
        if u64::from(self.slice_max) > u64::from(slice_of(self.time_ms).0) + SLICES_AHEAD_MAX {
            return Err(Failed::message("operations that expire after any window"));
        }
        Ok(())
    }
}

fn check_time(time_ms: u64) -> Result<(), Failed> {
    match time_ms {
        0..=TIME_MS_MAX => Ok(()),
        _ => Err(Failed::message(format!("a time of {time_ms} ms"))),
    }
}

/// One changed counter in a record; `None`: deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) version: u64,
    pub(crate) counter: Option<Counter>,
}

/// What one batch has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Contents<'a> {
    pub(crate) summary: Summary,
    pub(crate) changes: Vec<Change<'a>>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) entries: Vec<Logged>,
    pub(crate) handed: Vec<Handed>,
    pub(crate) before: Vec<Before>,
    pub(crate) closed: Option<ClosedChange>,
}

/// An entry of a site's log of operations, which is not settled.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Logged {
    #[n(0)]
    pub(crate) site: SiteId,
    #[n(1)]
    pub(crate) entry: Entry,
}

impl Logged {
    /// The version of its row, written by a process of this site; the next one deletes it. A later incarnation goes by
    /// higher ones: what it undoes has the numbers of what comes from others.
    pub(crate) fn row_version(own: SiteId) -> u64 {
        1 + 2 * u64::from(own.incarnation)
    }

    /// Where it stands in the table.
    pub(crate) fn row_key(site: SiteId, number: u64) -> Vec<u8> {
        let mut key = vec![OPEN_ENTRY];
        key.extend_from_slice(&site.number.to_be_bytes());
        key.extend_from_slice(&site.incarnation.to_be_bytes());
        key.extend_from_slice(&number.to_be_bytes());
        key
    }
}

const IN_MEMORY: &str = "writing to memory does not fail";

/// Writes a record.
pub(crate) fn encode_record<'a>(
    summary: &Summary,
    changes: impl ExactSizeIterator<Item = (&'a [u8], u64, Option<&'a Counter>)>,
    operations: &[Operation],
    entries: &[Logged],
    handed: &[Handed],
    before: &[Before],
    closed: Option<&ClosedChange>,
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32 + 48 * (changes.len() + operations.len()) + 96 * entries.len());
    bytes.push(FORMAT);
    let mut encoder = Encoder::new(&mut bytes);
    encoder.encode(summary).expect(IN_MEMORY);
    encoder.array(changes.len() as u64).expect(IN_MEMORY);
    for (key, version, counter) in changes {
        encoder.bytes(key).expect(IN_MEMORY).u64(version).expect(IN_MEMORY).encode(counter).expect(IN_MEMORY);
    }
    encoder.encode(operations).expect(IN_MEMORY);
    let has_closed = closed.is_some();
    if !entries.is_empty() || !handed.is_empty() || !before.is_empty() || has_closed {
        encoder.encode(entries).expect(IN_MEMORY);
    }
    if !handed.is_empty() || !before.is_empty() || has_closed {
        encoder.encode(handed).expect(IN_MEMORY);
    }
    if !before.is_empty() || has_closed {
        encoder.encode(before).expect(IN_MEMORY);
    }
    if let Some(closed) = closed {
        encoder.encode(closed).expect(IN_MEMORY);
    }
    bytes
}

type Failed = minicbor::decode::Error;

fn body(bytes: &[u8]) -> Result<Decoder<'_>, Failed> {
    match bytes.split_first() {
        Some((&FORMAT, body)) => Ok(Decoder::new(body)),
        Some((format, _)) => Err(Failed::message(format!("format {format}; this version reads {FORMAT}"))),
        None => Err(Failed::message("no bytes at all")),
    }
}

/// Reads a record.
pub(crate) fn decode_record(bytes: &[u8]) -> Result<Contents<'_>, Failed> {
    let mut decoder = body(bytes)?;
    let summary: Summary = decoder.decode()?;
    summary.check()?;
    let count = decoder.array()?.ok_or_else(|| Failed::message("changes without their number"))?;
    // Not reserved: the number is only a claim.
    let mut changes = Vec::new();
    for _ in 0..count {
        let change = Change { key: decoder.bytes()?, version: decoder.u64()?, counter: decoder.decode()? };
        if change.key.is_empty() || change.key.len() > KEY_BYTES_MAX {
            return Err(Failed::message("a key is empty or too long"));
        }
        if !(1..=summary.changes).contains(&change.version) {
            return Err(Failed::message("a change before the first or after the last one"));
        }
        changes.push(change);
    }
    let operations = decoder.decode()?;
    let has_more = |decoder: &Decoder<'_>| decoder.position() != bytes.len() - 1;
    let entries = if has_more(&decoder) { decoder.decode()? } else { Vec::new() };
    let handed = if has_more(&decoder) { decoder.decode()? } else { Vec::new() };
    let before = if has_more(&decoder) { decoder.decode()? } else { Vec::new() };
    let closed = if has_more(&decoder) { Some(decoder.decode()?) } else { None };
    if decoder.position() != bytes.len() - 1 {
        return Err(Failed::message("bytes follow the record"));
    }
    Ok(Contents { summary, changes, operations, entries, handed, before, closed })
}

/// The rows about handoffs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeskPart {
    /// What the replica knows of itself.
    Core,
    /// Folded slots.
    Archives,
    /// What is kept of others, by their names.
    Page(u8),
}

/// Where a row about the handoffs with a shard stands.
pub(crate) fn desk_key(shard: u16, part: DeskPart) -> Vec<u8> {
    let [high, low] = shard.to_be_bytes();
    match part {
        DeskPart::Core => vec![DESK, high, low, 0],
        DeskPart::Archives => vec![DESK, high, low, 1],
        DeskPart::Page(page) => vec![DESK, high, low, 2, page],
    }
}

/// What stands under a key of [`desk_key`].
pub(crate) fn desk_part(key: &[u8]) -> Option<(u16, DeskPart)> {
    let (part, shard) = match *key {
        [DESK, high, low, 0] => (DeskPart::Core, [high, low]),
        [DESK, high, low, 1] => (DeskPart::Archives, [high, low]),
        [DESK, high, low, 2, page] => (DeskPart::Page(page), [high, low]),
        _ => return None,
    };
    Some((u16::from_be_bytes(shard), part))
}

/// Where the closed slots of a desk stand.
pub(crate) fn closed_key(desk: Name) -> Vec<u8> {
    [CLOSED_KEY, &desk.bytes()].concat()
}

/// The desk of a key of [`closed_key`].
pub(crate) fn closed_desk(key: &[u8]) -> Option<Name> {
    let bytes = key.strip_prefix(CLOSED_KEY)?;
    minicbor::decode(&[&[0x50], bytes].concat()).ok().filter(|_| bytes.len() == 16)
}

/// The key of the row that has a counter as it was before.
pub(crate) fn before_key(key: &[u8]) -> Vec<u8> {
    [&[BEFORE], key].concat()
}

/// The key of a counter's row.
pub(crate) fn row_key(key: &[u8]) -> Vec<u8> {
    let mut row_key = Vec::with_capacity(1 + key.len());
    row_key.push(COUNTER);
    row_key.extend_from_slice(key);
    row_key
}

/// The counter of a row's key.
pub(crate) fn counter_key(row_key: &[u8]) -> Option<&[u8]> {
    row_key.strip_prefix(&[COUNTER])
}

/// The bytes of a row.
pub(crate) fn encode_row<T: Encode<()>>(value: &T) -> Vec<u8> {
    let mut bytes = vec![FORMAT];
    minicbor::encode(value, &mut bytes).expect(IN_MEMORY);
    bytes
}

/// What [`encode_row`] wrote.
pub(crate) fn decode_row<T: for<'b> Decode<'b, ()>>(bytes: &[u8]) -> Result<T, Failed> {
    let mut decoder = body(bytes)?;
    let value = decoder.decode()?;
    if decoder.position() != bytes.len() - 1 {
        return Err(Failed::message("bytes follow the row"));
    }
    Ok(value)
}

/// The row that sums a shard up.
pub(crate) fn decode_summary(bytes: &[u8]) -> Result<Summary, Failed> {
    let summary: Summary = decode_row(bytes)?;
    summary.check()?;
    Ok(summary)
}

/// The row that tells the time.
pub(crate) fn decode_time(bytes: &[u8]) -> Result<u64, Failed> {
    let time_ms = decode_row(bytes)?;
    check_time(time_ms)?;
    Ok(time_ms)
}
