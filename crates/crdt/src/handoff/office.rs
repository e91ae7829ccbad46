//! What a server keeps for others: cached tokens, inherited desks, notices.

use super::cached::Cached;
use super::desk::Desk;
use super::handshake::{Handshake, Rules};
use super::ledger::Ledger;
use super::notice::KeptNotice;
use super::retirement::Holders;
use super::slot::Token;
use crate::Id;
use crate::algebra::Tally;
use std::collections::BTreeMap;

/// What a server keeps for others.
#[derive(Debug, Clone, PartialEq, Eq, Hash, minicbor::Encode, minicbor::Decode)]
pub(super) struct Office<I: Id, A: Tally> {
    /// Tokens made elsewhere for targets elsewhere.
    #[n(0)]
    pub(super) cached: Cached<I, A>,
    /// The desks of retired relays, under their old names: target clocks of two desks may be equal.
    #[n(1)]
    pub(super) inherited: BTreeMap<I, Desk<I>>,
    /// Notices to be passed on, by client.
    #[n(2)]
    pub(super) notices: BTreeMap<I, KeptNotice<I, A>>,
    /// Servers at which our own tokens were seen cached, by the target of the token.
    #[n(3)]
    pub(super) holders: BTreeMap<I, Holders<I>>,
}

impl<I: Id, A: Tally> Office<I, A> {
    fn new() -> Self {
        Office {
            cached: Cached::new(),
            inherited: BTreeMap::new(),
            notices: BTreeMap::new(),
            holders: BTreeMap::new(),
        }
    }

    fn is_empty(&self) -> bool {
        self.cached.is_empty()
            && self.inherited.is_empty()
            && self.notices.is_empty()
            && self.holders.is_empty()
    }
}

impl<I: Id, A: Tally> Handshake<I, A> {
    /// Keeps a copy of a token; of two from one source to one target the newer.
    pub(super) fn cache(&mut self, token: &Token<I, A>) {
        self.office().cached.insert(token);
    }

    /// Drops the cached tokens for this target of which `gone` is true.
    pub(super) fn drop_cached(&mut self, target: &I, gone: impl Fn(&Token<I, A>) -> bool) {
        let Some(office) = &mut self.office else { return };
        office.cached.drop_for(target, gone);
        self.tidy();
    }

    pub(super) fn office(&mut self) -> &mut Office<I, A> {
        self.office.get_or_insert_with(|| Box::new(Office::new()))
    }

    /// Gives the memory back when nothing is kept for others.
    pub(super) fn tidy(&mut self) {
        if self.office.as_ref().is_some_and(|office| office.is_empty()) {
            self.office = None;
        }
    }

    /// Tokens that are kept here for others.
    pub fn cached(&self) -> impl Iterator<Item = &Token<I, A>> {
        self.office.iter().flat_map(|office| office.cached.iter())
    }

    /// The desks of retired relays whose heir this is.
    pub fn inherited(&self) -> impl Iterator<Item = (&I, &Desk<I>)> {
        self.office.iter().flat_map(|office| &office.inherited)
    }

    pub(super) fn desk_of(&self, name: &I) -> Option<&Desk<I>> {
        if *name == self.id {
            return Some(&self.desk);
        }
        self.office.as_ref()?.inherited.get(name)
    }

    pub(super) fn desk_of_mut(&mut self, name: &I) -> Option<&mut Desk<I>> {
        if *name == self.id {
            return Some(&mut self.desk);
        }
        self.office.as_mut()?.inherited.get_mut(name)
    }

    /// Keeps of the slots of a source that has been silent for long only a bit each. False if it has none here.
    ///
    /// From then on whoever names the target clock of such a slot is taken for its source: fold slots of
    /// trusted sources, or of those whose loss is their own.
    pub fn fold(&mut self, source: &I) -> bool {
        if self.rules == Rules::Paper {
            return false;
        }
        let inherited = self.office.iter_mut().flat_map(|office| office.inherited.values_mut());
        inherited.fold(self.desk.fold(source), |folded, desk| desk.fold(source) | folded)
    }

    /// Is nothing kept here that others rely on? A desk that has ever opened a slot is relied on: whoever has
    /// a token for it waits to hear what became of it.
    pub(super) fn serves_nobody(&self) -> bool {
        let keeps_nothing = |office: &Office<I, A>| {
            office.cached.is_empty() && office.inherited.is_empty() && office.notices.is_empty()
        };
        self.desk.target_clock == 0 && self.office.as_ref().is_none_or(|office| keeps_nothing(office))
    }

    /// Takes a token at whichever desk it is for.
    pub(super) fn try_token<L: Ledger<Id = I, Amount = A>>(&mut self, ledger: &mut L, token: &Token<I, A>) {
        let Some(desk) = self.desk_of_mut(&token.target) else { return };
        if desk.fits(token) && ledger.credit(token).is_ok() {
            desk.close(token);
        }
    }
}
