//! The receiving side of handoffs at one server: which slots are open, and which were folded away.

use super::handshake::CLOCK_MAX;
use super::slot::{Slot, Token};
use crate::Id;
use minicbor::{Decode, Decoder, Encode, Encoder};
use roaring::RoaringTreemap;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

/// The slots that one server holds open, under one name.
///
/// A server has its own desk, and keeps the desks of retired relays whose heir it is.
///
/// Slots of sources that have been silent for long can be *folded*: of each only its target clock stays, in
/// a bitmap. That is enough to take a late token exactly once, because each slot of a desk has a target clock
/// of its own and a source makes at most one token for it. Below the *floor* a missing slot says nothing
/// any more: it may have been folded.
#[derive(Debug, Clone, PartialEq, Eq, Hash, minicbor::Encode)]
pub struct Desk<I: Ord> {
    /// The target clock of the next slot; `dck` in the paper.
    #[n(0)]
    pub(super) target_clock: u64,
    /// At most one for each source.
    #[n(1)]
    pub(super) slots: BTreeMap<I, Slot>,
    /// What is left of folded slots. Most replicas never fold one.
    #[n(2)]
    archive: Option<Box<Archive>>,
}

/// Slots of sources that have been silent for long.
#[derive(Debug, Clone, PartialEq, Eq, Hash, minicbor::Encode, minicbor::Decode)]
pub(super) struct Archive {
    /// Target clocks of folded slots that are still open.
    #[n(0)]
    folded: Clocks,
    /// Every slot that was ever folded has a target clock below this.
    #[n(1)]
    floor: u64,
}

impl<I: Id> Desk<I> {
    pub(super) fn new() -> Self {
        Desk { target_clock: 0, slots: BTreeMap::new(), archive: None }
    }

    /// The open slots, by source.
    pub fn slots(&self) -> &BTreeMap<I, Slot> {
        &self.slots
    }

    /// How many slots have been opened; `dck` in the paper.
    pub fn target_clock(&self) -> u64 {
        self.target_clock
    }

    /// The target clock below which a missing slot may have been folded.
    pub fn floor(&self) -> u64 {
        self.archive.as_ref().map_or(0, |archive| archive.floor)
    }

    /// How many slots have been folded and are still open.
    pub fn folded_len(&self) -> u64 {
        self.archive.as_ref().map_or(0, |archive| archive.folded.0.len())
    }

    /// The target clocks of all slots that are open here, folded ones among them. Every other one below
    /// [`Self::target_clock`] is closed.
    pub fn open_clocks(&self) -> impl Iterator<Item = u64> {
        let folded = self.archive.iter().flat_map(|archive| archive.folded.0.iter());
        self.slots.values().map(|slot| slot.target_clock).chain(folded)
    }

    /// The size of the bitmap of folded slots. (Stored, distances between them are written, which is less.)
    pub fn folded_bytes(&self) -> usize {
        self.archive.as_ref().map_or(0, |archive| archive.folded.0.serialized_size())
    }

    /// Is nothing open here, neither a slot nor a folded one?
    pub fn is_idle(&self) -> bool {
        self.slots.is_empty() && self.folded_len() == 0
    }

    fn is_folded(&self, target_clock: u64) -> bool {
        self.archive.as_ref().is_some_and(|archive| archive.folded.0.contains(target_clock))
    }

    /// Would this token, which is for this desk, be taken?
    pub(super) fn fits<A>(&self, token: &Token<I, A>) -> bool {
        self.slots.get(&token.source) == Some(&token.slot) || self.is_folded(token.slot.target_clock)
    }

    /// Removes the slot that this token fits.
    pub(super) fn close<A>(&mut self, token: &Token<I, A>) {
        if self.slots.get(&token.source) == Some(&token.slot) {
            self.slots.remove(&token.source);
        } else if let Some(archive) = &mut self.archive {
            archive.folded.0.remove(token.slot.target_clock);
        }
    }

    pub(super) fn open(&mut self, source: I, source_clock: u64) {
        self.slots.insert(source, Slot { source_clock, target_clock: self.target_clock });
        self.target_clock += 1;
    }

    /// Was the slot of this source with this target clock open once, and is it no more? An answer that needs
    /// no memory of closed slots.
    pub(super) fn is_closed(&self, source: &I, target_clock: u64) -> bool {
        target_clock < self.target_clock
            && !self.is_folded(target_clock)
            && self.slots.get(source).is_none_or(|slot| slot.target_clock != target_clock)
    }

    /// Would a token of this source for the slot with this target clock be taken?
    pub fn is_open(&self, source: &I, target_clock: u64) -> bool {
        target_clock < self.target_clock && !self.is_closed(source, target_clock)
    }

    /// Keeps of the slot of `source` only a bit. False if there is none.
    pub(super) fn fold(&mut self, source: &I) -> bool {
        let Some(slot) = self.slots.remove(source) else { return false };
        let archive =
            self.archive.get_or_insert_with(|| Box::new(Archive { folded: Clocks::default(), floor: 0 }));
        archive.folded.0.insert(slot.target_clock);
        archive.floor = archive.floor.max(slot.target_clock + 1);
        true
    }

    pub(super) fn archive(&self) -> Option<&Archive> {
        self.archive.as_deref()
    }

    pub(super) fn set_archive(&mut self, archive: Archive) {
        self.archive = Some(Box::new(archive));
    }

    /// What a desk always is, and bytes from outside may not be.
    pub(super) fn is_sound(&self) -> bool {
        let folded = self.archive.as_ref().and_then(|archive| archive.folded.0.max());
        self.target_clock < CLOCK_MAX
            && self.floor() <= self.target_clock
            && folded.is_none_or(|clock| clock < self.floor())
            && self.slots.values().all(|slot| slot.target_clock < self.target_clock)
    }
}

impl<'b, C, I: Id + Decode<'b, C>> Decode<'b, C> for Desk<I> {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, minicbor::decode::Error> {
        #[derive(minicbor::Decode)]
        struct Parts<I: Ord> {
            #[n(0)]
            target_clock: u64,
            #[n(1)]
            slots: BTreeMap<I, Slot>,
            #[n(2)]
            archive: Option<Box<Archive>>,
        }
        let Parts { target_clock, slots, archive } = Parts::decode(d, ctx)?;
        let desk = Desk { target_clock, slots, archive };
        if !desk.is_sound() {
            return Err(minicbor::decode::Error::message("not the slots of a server"));
        }
        Ok(desk)
    }
}

/// A set of clocks, as a compressed bitmap.
#[derive(Debug, Clone, Default, PartialEq)]
struct Clocks(RoaringTreemap);

impl Eq for Clocks {}

impl Hash for Clocks {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.iter().for_each(|clock| clock.hash(state));
    }
}

/// The distances between neighbours: small numbers, and no length that promises more than follows.
impl<C> Encode<C> for Clocks {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        e.array(self.0.len())?;
        let mut next = 0;
        for clock in &self.0 {
            e.u64(clock - next)?;
            next = clock + 1;
        }
        Ok(())
    }
}

impl<'b, C> Decode<'b, C> for Clocks {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        let mut clocks = RoaringTreemap::new();
        let mut next = Some(0u64);
        for distance in d.array_iter::<u64>()? {
            let clock = next.and_then(|next| next.checked_add(distance.ok()?));
            let clock = clock.ok_or_else(|| minicbor::decode::Error::message("not a set of clocks"))?;
            clocks.insert(clock);
            next = clock.checked_add(1);
        }
        Ok(Clocks(clocks))
    }
}
