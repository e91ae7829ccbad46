//! A handshake in pieces, for stores that write only what has changed.
//!
//! What a server keeps because of one source is one piece ([`Kept`]): a visit of that source changes it, and the few
//! numbers of the [`Core`]. Folded slots are a third, which changes when slots are folded and when a late token comes.

use super::desk::{Archive, Desk};
use super::handshake::{Handshake, Rules};
use super::notice::KeptNotice;
use super::retirement::{Holders, Phase};
use super::slot::{Slot, Token};
use super::view::Few;
use crate::Id;
use crate::algebra::Tally;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, RangeBounds};

/// What a server keeps because of one source.
#[derive(Debug, Clone, PartialEq, Eq, minicbor::Encode, minicbor::Decode)]
pub struct Kept<I: Ord, A> {
    /// Its open slots, by the desk that has opened them.
    #[n(0)]
    slots: Vec<(I, Slot)>,
    /// Copies of its tokens, for others.
    #[n(1)]
    tokens: Vec<Token<I, A>>,
    /// Its last words, for others.
    #[n(2)]
    notice: Option<KeptNotice<I, A>>,
}

impl<I: Ord, A> Kept<I, A> {
    /// Is there nothing of this source?
    pub fn is_nothing(&self) -> bool {
        self.slots.is_empty() && self.tokens.is_empty() && self.notice.is_none()
    }

    /// Is there a slot of this source?
    pub fn has_slots(&self) -> bool {
        !self.slots.is_empty()
    }
}

impl<I: Ord, A> Default for Kept<I, A> {
    fn default() -> Self {
        Kept { slots: Vec::new(), tokens: Vec::new(), notice: None }
    }
}

/// What a replica knows besides: its clocks, its own tokens, and whether it is about to leave.
#[derive(Debug, Clone, PartialEq, Eq, minicbor::Encode, minicbor::Decode)]
pub struct Core<I: Ord, A> {
    #[n(0)]
    source_clock: u64,
    #[n(1)]
    tokens: Few<Token<I, A>>,
    #[n(2)]
    holders: BTreeMap<I, Holders<I>>,
    #[n(3)]
    phase: Phase<I, A>,
    /// The target clock of each desk: the own one, and inherited ones.
    #[n(4)]
    desks: BTreeMap<I, u64>,
}

impl<I: Id, A> Core<I, A> {
    /// Is there a desk of this name?
    pub fn has_desk(&self, name: &I) -> bool {
        self.desks.contains_key(name)
    }

    /// Without the desks for which `keep` is false, and with one, which may be new, under this name.
    #[must_use]
    pub fn with_desks(mut self, keep: impl Fn(I) -> bool, own: I) -> Self {
        self.desks.retain(|name, _| keep(name.clone()));
        self.desks.entry(own).or_default();
        self
    }
}

/// The folded slots of all desks.
#[derive(Debug, Clone, PartialEq, Eq, minicbor::Encode, minicbor::Decode)]
pub struct Archives<I: Ord>(#[n(0)] BTreeMap<I, Archive>);

impl<I: Ord> Default for Archives<I> {
    fn default() -> Self {
        Archives(BTreeMap::new())
    }
}

/// Pieces that do not fit together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the pieces of one replica's handoffs")]
pub struct Unsound;

impl<I: Id, A: Tally> Handshake<I, A> {
    /// Puts the pieces of a replica together. Slots of desks that the core does not have are left out.
    pub fn assemble(
        id: I,
        tier: u8,
        core: Core<I, A>,
        archives: Archives<I>,
        kept: impl IntoIterator<Item = (I, Kept<I, A>)>,
    ) -> Result<Self, Unsound> {
        let mut handshake = Handshake::new(id, tier, Rules::Quipu);
        let Core { source_clock, tokens, holders, phase, desks } = core;
        handshake.source_clock = source_clock;
        handshake.tokens = tokens;
        handshake.phase = phase;
        if !holders.is_empty() {
            handshake.office().holders = holders;
        }
        for (name, target_clock) in desks {
            handshake.desk_or_inherit(&name).target_clock = target_clock;
        }
        for (name, archive) in archives.0 {
            if let Some(desk) = handshake.desk_of_mut(&name) {
                desk.set_archive(archive);
            }
        }
        for (source, kept) in kept {
            handshake.put_kept(&source, kept)?;
        }
        let is_sound = handshake.is_sound()
            && handshake.desk.is_sound()
            && handshake.inherited().all(|(_, desk)| desk.is_sound());
        if is_sound { Ok(handshake) } else { Err(Unsound) }
    }

    fn desk_or_inherit(&mut self, name: &I) -> &mut Desk<I> {
        if *name == self.id {
            return &mut self.desk;
        }
        self.office().inherited.entry(name.clone()).or_insert_with(Desk::new)
    }

    fn put_kept(&mut self, source: &I, kept: Kept<I, A>) -> Result<(), Unsound> {
        for (desk, slot) in kept.slots {
            if let Some(desk) = self.desk_of_mut(&desk) {
                desk.slots.insert(source.clone(), slot);
            }
        }
        for token in kept.tokens {
            if token.source != *source {
                return Err(Unsound);
            }
            self.cache(&token);
        }
        if let Some(notice) = kept.notice {
            self.office().notices.insert(source.clone(), notice);
        }
        Ok(())
    }

    /// What it knows besides what it keeps for others.
    pub fn core(&self) -> Core<I, A> {
        let mut desks = BTreeMap::from([(self.id.clone(), self.desk.target_clock)]);
        desks.extend(self.inherited().map(|(name, desk)| (name.clone(), desk.target_clock)));
        Core {
            source_clock: self.source_clock,
            tokens: self.tokens.clone(),
            holders: self.office.as_ref().map(|office| office.holders.clone()).unwrap_or_default(),
            phase: self.phase.clone(),
            desks,
        }
    }

    /// Its folded slots.
    pub fn archives(&self) -> Archives<I> {
        let desks = std::iter::once((&self.id, &self.desk)).chain(self.inherited());
        Archives(desks.filter_map(|(name, desk)| Some((name.clone(), desk.archive()?.clone()))).collect())
    }

    /// What it keeps because of a source.
    pub fn kept(&self, source: &I) -> Kept<I, A> {
        let desks = std::iter::once((&self.id, &self.desk)).chain(self.inherited());
        let slots = desks.filter_map(|(name, desk)| Some((name.clone(), *desk.slots.get(source)?)));
        let office = self.office.as_ref();
        Kept {
            slots: slots.collect(),
            tokens: office.into_iter().flat_map(|office| office.cached.of_source(source)).cloned().collect(),
            notice: office.and_then(|office| office.notices.get(source)).cloned(),
        }
    }

    /// The sources within a range of names of which something is kept.
    pub fn sources(&self, range: impl RangeBounds<I>) -> BTreeSet<I> {
        let range = (range.start_bound().cloned(), range.end_bound().cloned());
        let within = |range: &(Bound<I>, Bound<I>)| (range.0.clone(), range.1.clone());
        let mut sources: BTreeSet<I> = BTreeSet::new();
        for desk in std::iter::once(&self.desk).chain(self.inherited().map(|(_, desk)| desk)) {
            sources.extend(desk.slots.range(within(&range)).map(|(source, _)| source.clone()));
        }
        if let Some(office) = &self.office {
            sources.extend(office.cached.sources(within(&range)).cloned());
            sources.extend(office.notices.range(within(&range)).map(|(client, _)| client.clone()));
        }
        sources
    }
}
