//! All handoffs of a shard, and what of them has to be stored.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};

use minicbor::{Decode, Encode};
use quipu_crdt::handoff::{Archives, Core, Handshake, Kept, Rules, Unsound};
use quipu_storage::{Row, Slice, Write};

use super::{Deltas, Key, Name, Opening};
use crate::{
    Rule,
    record::{self, DeskPart},
};

/// All handoffs of a shard. A site and a relay have those with the same shard of others; an edge, which is not divided,
/// has those with every shard that it has counts for.
#[derive(Debug)]
pub(crate) struct Desk {
    name: Name,
    tier: u8,
    /// By the shard of the cluster.
    handshakes: BTreeMap<u16, Handshake<Name, Deltas>>,
    /// Those who have a slot here.
    guests: BTreeMap<(u16, Name), Guest>,
    /// The servers that may have a slot for this replica.
    servers: BTreeMap<u16, BTreeMap<Name, Visited>>,
    /// In the batch that is being made.
    changed: BTreeMap<u16, Changed>,
    /// Since the last checkpoint.
    unsaved: BTreeMap<u16, Unsaved>,
    /// The pages that the table has.
    stored: BTreeSet<(u16, u8)>,
    /// Counters under which something is parked, at whatever site.
    parked: BTreeSet<Key>,
    /// That has changed.
    parked_changed: bool,
    /// The search for old slots.
    search: Search,
}

/// A search for old slots, piece by piece: there may be very many.
#[derive(Debug, Default)]
struct Search {
    /// Where it goes on.
    from: Option<(u16, Name)>,
    /// Since when the oldest slot is that it has come upon.
    oldest_s: Option<u64>,
    /// And the one before it, through all of them.
    oldest_of_all_s: Option<u64>,
}

/// What is remembered of one who has a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub(crate) struct Guest {
    /// Since when, in seconds since 1970.
    #[n(0)]
    pub(crate) since_s: u64,
    #[n(1)]
    pub(crate) opening: Opening,
}

/// How it stands with a server that was asked for a slot.
#[derive(Debug, Clone, Copy, Default)]
struct Visited {
    /// By what was last heard it has one.
    has_slot: bool,
    /// Visits that it has not answered: when they arrive late, it may open one.
    unanswered: u32,
}

#[derive(Debug, Default)]
struct Changed {
    archives: bool,
    names: BTreeSet<Name>,
}

#[derive(Debug, Default)]
struct Unsaved {
    archives: bool,
    pages: BTreeSet<u8>,
}

/// What a batch has changed of the handoffs with one shard.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Handed {
    #[n(0)]
    pub(crate) shard: u16,
    #[n(1)]
    pub(crate) core: CoreRow,
    /// If they have changed.
    #[n(2)]
    pub(crate) archives: Option<Archives<Name>>,
    /// What is kept of those who came by, if only that it is nothing.
    #[n(3)]
    pub(crate) kept: Vec<(Name, KeptRow)>,
}

/// What a replica knows of itself.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct CoreRow {
    #[n(0)]
    core: Core<Name, Deltas>,
    /// The servers that may have a slot for it; true: by what was last heard they have one.
    #[n(1)]
    servers: BTreeMap<Name, bool>,
}

/// What is kept of one who came by.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct KeptRow {
    #[n(0)]
    kept: Kept<Name, Deltas>,
    #[n(1)]
    guest: Option<Guest>,
}

/// What is stored of the handoffs with one shard: the table's rows, then what records say since.
#[derive(Debug, Default)]
pub(crate) struct StoredDesk {
    pub(crate) core: Option<CoreRow>,
    pub(crate) archives: Archives<Name>,
    pub(crate) kept: BTreeMap<Name, KeptRow>,
    /// The pages that the table has.
    pub(crate) pages: BTreeSet<u8>,
    /// What no checkpoint has.
    unsaved: Option<Unsaved>,
}

impl StoredDesk {
    /// A row of the table.
    pub(crate) fn read(&mut self, part: DeskPart, bytes: &[u8]) -> Result<(), minicbor::decode::Error> {
        match part {
            DeskPart::Core => self.core = Some(record::decode_row(bytes)?),
            DeskPart::Archives => self.archives = record::decode_row(bytes)?,
            DeskPart::Page(page) => {
                self.pages.insert(page);
                self.kept.extend(record::decode_row::<Vec<(Name, KeptRow)>>(bytes)?);
            }
        }
        Ok(())
    }

    /// A record came after the rows.
    pub(crate) fn replay(&mut self, handed: Handed) {
        let unsaved = self.unsaved.get_or_insert_default();
        self.core = Some(handed.core);
        if let Some(archives) = handed.archives {
            self.archives = archives;
            unsaved.archives = true;
        }
        for (name, row) in handed.kept {
            unsaved.pages.insert(name.page());
            self.kept.insert(name, row);
        }
    }
}

/// Numbers about handoffs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HandoffStats {
    /// Slots that are open.
    pub slots: u64,
    /// Since when the oldest of them is, in seconds since 1970, as of the last look through all.
    pub oldest_slot_s: Option<u64>,
    /// Slots that were folded, and are open.
    pub folded: u64,
    /// Bytes that these take in memory.
    pub folded_bytes: u64,
    /// Tokens made here that are not known to be taken.
    pub tokens: u64,
    /// Tokens of others that are kept here for others.
    pub cached: u64,
    /// Last words of edges that have not reached all whom they concern.
    pub notices: u64,
}

impl HandoffStats {
    /// Adds those of others.
    pub fn add(&mut self, other: &Self) {
        self.slots += other.slots;
        self.oldest_slot_s = self.oldest_slot_s.into_iter().chain(other.oldest_slot_s).min();
        self.folded += other.folded;
        self.folded_bytes += other.folded_bytes;
        self.tokens += other.tokens;
        self.cached += other.cached;
        self.notices += other.notices;
    }
}

impl Desk {
    pub(crate) fn new(name: Name, tier: u8) -> Self {
        Self {
            name,
            tier,
            handshakes: BTreeMap::new(),
            guests: BTreeMap::new(),
            servers: BTreeMap::new(),
            changed: BTreeMap::new(),
            unsaved: BTreeMap::new(),
            stored: BTreeSet::new(),
            parked: BTreeSet::new(),
            parked_changed: false,
            search: Search::default(),
        }
    }

    /// Goes on with what was stored.
    pub(crate) fn restore(
        &mut self,
        stored: BTreeMap<u16, StoredDesk>,
        rules: crate::Rules,
    ) -> Result<(), Unsound> {
        let (name, tier) = (self.name, self.tier);
        let keeps_all = !rules.keep(Rule::SlotsOfOneIncarnation);
        for (shard, stored) in stored {
            let StoredDesk { core, archives, kept, pages, unsaved } = stored;
            let Some(CoreRow { core, servers }) = core else { continue };
            // A restored copy is another target: slots of the one that it was are not its own. Nor are those of relays whose
            // heir that one was: some of them may have been used since the copy was made.
            let is_copy = !core.has_desk(&name);
            let is_ours = |desk: Name| desk == name || !is_copy && desk.site().is_none();
            let core = core.with_desks(|desk| keeps_all || is_ours(desk), name);
            self.stored.extend(pages.into_iter().map(|page| (shard, page)));
            // What was under way when the last process ended may not have arrived yet.
            let visited = |has_slot| Visited { has_slot, unanswered: 1 };
            let servers = servers.into_iter().map(|(name, has_slot)| (name, visited(has_slot)));
            self.servers.insert(shard, servers.collect());
            for (source, row) in &kept {
                if let Some(guest) = row.guest {
                    self.guests.insert((shard, *source), guest);
                }
            }
            let kept = kept.into_iter().map(|(source, row)| (source, row.kept));
            let handshake = Handshake::assemble(name, tier, core, archives, kept)?;
            self.guests.retain(|(of, source), _| *of != shard || handshake.kept(source).has_slots());
            self.handshakes.insert(shard, handshake);
            if let Some(unsaved) = unsaved {
                self.unsaved.insert(shard, unsaved);
            }
        }
        Ok(())
    }

    pub(crate) fn name(&self) -> Name {
        self.name
    }

    pub(crate) fn tier(&self) -> u8 {
        self.tier
    }

    pub(crate) fn handshakes(&self) -> impl Iterator<Item = (u16, &Handshake<Name, Deltas>)> {
        self.handshakes.iter().map(|(shard, handshake)| (*shard, handshake))
    }

    /// The handshake with a shard, to be changed. Say [afterwards](Self::note) of whom something may have changed.
    pub(crate) fn handshake(&mut self, shard: u16) -> &mut Handshake<Name, Deltas> {
        let new = || Handshake::new(self.name, self.tier, Rules::Quipu);
        self.handshakes.entry(shard).or_insert_with(new)
    }

    /// Takes the handshake with a shard out, while rows are changed by it.
    pub(crate) fn take(&mut self, shard: u16) -> Handshake<Name, Deltas> {
        let (name, tier) = (self.name, self.tier);
        mem::replace(self.handshake(shard), Handshake::new(name, tier, Rules::Quipu))
    }

    /// Puts it back.
    pub(crate) fn put_back(&mut self, shard: u16, handshake: Handshake<Name, Deltas>) {
        *self.handshake(shard) = handshake;
    }

    /// Is something kept here that others are to hear of?
    pub(crate) fn keeps_for_others(&self) -> bool {
        let keeps = |handshake: &Handshake<Name, Deltas>| {
            handshake.cached().next().is_some() || handshake.notices().next().is_some()
        };
        self.handshakes.values().any(keeps)
    }

    /// For whom something is kept here, by the shard of the cluster: the targets of tokens, and the servers that have not acted
    /// on last words.
    pub(crate) fn kept_for(&self) -> impl Iterator<Item = (u16, Name)> {
        self.handshakes.iter().flat_map(|(shard, handshake)| {
            let targets = handshake.cached().map(|token| token.target);
            let pending = handshake.notices().flat_map(|(_, pending)| pending.iter().copied());
            targets.chain(pending).map(|name| (*shard, name))
        })
    }

    pub(crate) fn guest(&self, shard: u16, name: Name) -> Option<&Guest> {
        self.guests.get(&(shard, name))
    }

    /// Something may have changed of what is kept of these. Who has a new slot is remembered by its `visit`.
    pub(crate) fn note(&mut self, shard: u16, names: impl IntoIterator<Item = Name>, visit: Guest) {
        let Some(handshake) = self.handshakes.get(&shard) else { return };
        let changed = self.changed.entry(shard).or_default();
        for name in names {
            changed.names.insert(name);
            if handshake.kept(&name).has_slots() {
                let guest = self.guests.entry((shard, name)).or_insert(visit);
                if visit.opening.follows(guest.opening) {
                    guest.opening = visit.opening;
                }
            } else {
                self.guests.remove(&(shard, name));
            }
        }
    }

    /// The folded slots have changed.
    pub(crate) fn note_archives(&mut self, shard: u16) {
        self.changed.entry(shard).or_default().archives = true;
    }

    /// A server is visited, and maybe asked for a slot.
    pub(crate) fn visit_server(&mut self, shard: u16, server: Name, wants_slot: bool) {
        let servers = self.servers.entry(shard).or_default();
        if wants_slot {
            servers.entry(server).or_default();
        }
        let Some(visited) = servers.get_mut(&server) else { return };
        visited.unanswered += 1;
        if wants_slot && !mem::replace(&mut visited.has_slot, true) {
            self.note_own(shard);
        }
    }

    /// A server has said whether it has a slot for this replica.
    pub(crate) fn hear_of_slot(&mut self, shard: u16, server: Name, has_slot: bool) {
        let Some(servers) = self.servers.get_mut(&shard) else { return };
        let Some(visited) = servers.get_mut(&server) else { return };
        visited.unanswered = visited.unanswered.saturating_sub(1);
        visited.has_slot = has_slot;
        if !has_slot && visited.unanswered == 0 {
            servers.remove(&server);
        }
        self.note_own(shard);
    }

    /// The own side of the handshake with a shard has changed.
    pub(crate) fn note_own(&mut self, shard: u16) {
        self.changed.entry(shard).or_default();
    }

    /// Does a server have a slot for this replica, by what was last heard?
    pub(crate) fn has_slot_at(&self, shard: u16, server: Name) -> bool {
        self.servers.get(&shard).and_then(|servers| servers.get(&server)).is_some_and(|it| it.has_slot)
    }

    /// The servers that may have a slot for this replica.
    pub(crate) fn servers(&self, shard: u16) -> impl Iterator<Item = Name> {
        self.servers.get(&shard).into_iter().flat_map(BTreeMap::keys).copied()
    }

    pub(crate) fn is_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// What the batch has changed.
    pub(crate) fn seal(&mut self) -> Vec<Handed> {
        let changed = mem::take(&mut self.changed);
        let mut sealed = Vec::with_capacity(changed.len());
        for (shard, Changed { archives, names }) in changed {
            let unsaved = self.unsaved.entry(shard).or_default();
            unsaved.archives |= archives;
            unsaved.pages.extend(names.iter().map(|name| name.page()));
            let (Some(handshake), Some(core)) = (self.handshakes.get(&shard), self.core_row(shard)) else {
                continue;
            };
            sealed.push(Handed {
                shard,
                core,
                archives: archives.then(|| handshake.archives()),
                kept: names.into_iter().map(|name| (name, self.kept_row(shard, name))).collect(),
            });
        }
        sealed
    }

    fn core_row(&self, shard: u16) -> Option<CoreRow> {
        let core = self.handshakes.get(&shard)?.core();
        let servers = self.servers.get(&shard).into_iter().flatten();
        let servers = servers.map(|(name, visited)| (*name, visited.has_slot));
        Some(CoreRow { core, servers: servers.collect() })
    }

    fn kept_row(&self, shard: u16, name: Name) -> KeptRow {
        let kept = self.handshakes.get(&shard).map(|handshake| handshake.kept(&name));
        KeptRow { kept: kept.unwrap_or_default(), guest: self.guests.get(&(shard, name)).copied() }
    }

    pub(crate) fn is_unsaved(&self) -> bool {
        !self.unsaved.is_empty() || self.parked_changed
    }

    /// The rows of what has changed since the last checkpoint.
    pub(crate) fn capture(&mut self, version: u64) -> Vec<Write> {
        let mut writes = Vec::new();
        let mut write = |shard, part, bytes| {
            let row = Row { version, bytes };
            writes.push(Write { slice: Slice::KEPT, key: record::desk_key(shard, part), row });
        };
        for (shard, Unsaved { archives, pages }) in mem::take(&mut self.unsaved) {
            let Some(handshake) = self.handshakes.get(&shard) else { continue };
            if let Some(core) = self.core_row(shard) {
                write(shard, DeskPart::Core, record::encode_row(&core));
            }
            if archives {
                write(shard, DeskPart::Archives, record::encode_row(&handshake.archives()));
            }
            for page in pages {
                let names = handshake.sources(Name::of_page(page));
                let rows: Vec<_> = names.into_iter().map(|name| (name, self.kept_row(shard, name))).collect();
                let was_stored = self.stored.contains(&(shard, page));
                if rows.is_empty() {
                    if was_stored {
                        write(shard, DeskPart::Page(page), Vec::new());
                    }
                } else {
                    self.stored.insert((shard, page));
                    write(shard, DeskPart::Page(page), record::encode_row(&rows));
                }
            }
        }
        if mem::take(&mut self.parked_changed) {
            let row = Row { version, bytes: record::encode_row(&self.parked) };
            writes.push(Write { slice: Slice::KEPT, key: record::PARKED_KEY.to_vec(), row });
        }
        writes
    }

    /// Something is parked under a counter, or nothing any more.
    pub(crate) fn note_parked(&mut self, key: &[u8], is_parked: bool) {
        if self.has_parked(key) != is_parked
            && let Some(key) = Key::new(key)
        {
            self.parked_changed = true;
            if is_parked {
                self.parked.insert(key)
            } else {
                self.parked.remove(&key)
            };
        }
    }

    pub(crate) fn has_parked(&self, key: &[u8]) -> bool {
        !self.parked.is_empty() && self.parked.contains(key)
    }

    /// The counters under which something is parked.
    pub(crate) fn parked(&self) -> impl Iterator<Item = &[u8]> {
        self.parked.iter().map(Key::bytes)
    }

    /// Folds slots that were opened before `before_s`, as far as `looks` guests allow.
    pub(crate) fn fold(&mut self, before_s: u64, looks: usize) {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = self.search.from.map_or(Unbounded, Excluded);
        let looked: Vec<_> = self
            .guests
            .range((from, Unbounded))
            .take(looks)
            .map(|(at, guest)| (*at, guest.since_s))
            .collect();
        let here = looked.iter().map(|(_, since_s)| *since_s).filter(|since_s| *since_s >= before_s);
        self.search.oldest_s = here.chain(self.search.oldest_s).min();
        self.search.from = looked.last().map(|(at, _)| *at).filter(|_| looked.len() == looks);
        if self.search.from.is_none() {
            self.search.oldest_of_all_s = self.search.oldest_s.take();
        }
        for ((shard, name), since_s) in looked {
            let Some(handshake) = self.handshakes.get_mut(&shard).filter(|_| since_s < before_s) else {
                continue;
            };
            if handshake.fold(&name) {
                crate::coverage::reached(crate::coverage::Branch::SlotFolded);
                self.guests.remove(&(shard, name));
                self.note_archives(shard);
                self.changed.entry(shard).or_default().names.insert(name);
            }
        }
    }

    pub(crate) fn stats(&self) -> HandoffStats {
        let mut stats = HandoffStats::default();
        for handshake in self.handshakes.values() {
            let desks = std::iter::once(handshake.desk()).chain(handshake.inherited().map(|(_, desk)| desk));
            for desk in desks {
                stats.slots += desk.slots().len() as u64;
                stats.folded += desk.folded_len();
                stats.folded_bytes += desk.folded_bytes() as u64;
            }
            stats.tokens += handshake.tokens().len() as u64;
            stats.cached += handshake.cached().count() as u64;
            stats.notices += handshake.notices().count() as u64;
        }
        stats.oldest_slot_s = self.search.oldest_of_all_s.filter(|_| stats.slots > 0);
        stats
    }
}
