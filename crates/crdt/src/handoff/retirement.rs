//! How replicas leave: early, with a notice, or, for a relay, by handing its estate to an heir.
//!
//! The paper outlines this in section 7.4; what must hold for it to be exact is written on each function.

use super::desk::Desk;
use super::handshake::{Handshake, discard_slot};
use super::ledger::Ledger;
use super::slot::{Slot, Token};
use super::view::View;
use crate::Id;
use crate::algebra::Tally;
use std::collections::{BTreeMap, BTreeSet};

/// Where a replica is in its life.
#[derive(Debug, Clone, PartialEq, Eq, Hash, minicbor::Encode, minicbor::Decode)]
pub(super) enum Phase<I, A> {
    #[n(0)]
    Active,
    /// A client that has written its notice: it counts no more and makes no more tokens.
    #[n(1)]
    Leaving(#[n(0)] Box<Notice<I, A>>),
    /// A relay whose desk is shut. It hands over what it counted, and its estate to the heir, once named.
    #[n(2)]
    Stopped {
        #[n(0)]
        heir: Option<I>,
    },
    /// A relay whose estate has been adopted.
    #[n(3)]
    Bequeathed {
        #[n(0)]
        heir: I,
    },
}

/// What a server keeps for others.
#[derive(Debug, Clone, PartialEq, Eq, Hash, minicbor::Encode, minicbor::Decode)]
pub(super) struct Office<I: Ord, A> {
    /// Tokens made elsewhere for targets elsewhere: by target, then by source.
    #[n(0)]
    pub(super) cached: BTreeMap<I, BTreeMap<I, Token<I, A>>>,
    /// The desks of retired relays, under their old names: target clocks of two desks may be equal.
    #[n(1)]
    pub(super) inherited: BTreeMap<I, Desk<I>>,
    /// Notices to be passed on, by client.
    #[n(2)]
    pub(super) notices: BTreeMap<I, KeptNotice<I, A>>,
    /// Servers at which our own tokens were seen cached.
    #[n(3)]
    pub(super) holders: BTreeSet<Holder<I>>,
}

/// That a server was seen to hold a copy of one of our tokens.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, minicbor::Encode, minicbor::Decode)]
pub(super) struct Holder<I> {
    #[n(0)]
    target: I,
    #[n(1)]
    slot: Slot,
    #[n(2)]
    holder: I,
}

impl<I: PartialEq> Holder<I> {
    fn is_of<A>(&self, tokens: &[Token<I, A>]) -> bool {
        tokens.iter().any(|own| own.target == self.target && own.slot == self.slot)
    }
}

/// The last words of a client: which of its slots will never be used, and all tokens that still may be.
///
/// It is one value, stored and passed on whole: a server that dropped slots on a notice whose tokens were
/// still on another path would lose them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, minicbor::Encode, minicbor::Decode)]
pub struct Notice<I, A> {
    /// Who leaves.
    #[n(0)]
    pub(super) client: I,
    /// Its last source clock: slots with an older one are stale, once its tokens have been tried.
    #[n(1)]
    pub(super) source_clock: u64,
    /// All tokens that it held.
    #[n(2)]
    pub(super) tokens: Vec<Token<I, A>>,
    /// The servers it used, each of which may hold a slot for it.
    #[n(3)]
    pub(super) servers: Vec<I>,
}

impl<I, A> Notice<I, A> {
    /// Who leaves.
    pub fn client(&self) -> &I {
        &self.client
    }

    /// The servers that have to hear of it.
    pub fn servers(&self) -> &[I] {
        &self.servers
    }

    /// The tokens that it holds.
    pub fn tokens(&self) -> &[Token<I, A>] {
        &self.tokens
    }
}

/// A notice and the servers that have not confirmed it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, minicbor::Encode, minicbor::Decode)]
pub(super) struct KeptNotice<I: Ord, A> {
    #[n(0)]
    pub(super) notice: Notice<I, A>,
    #[n(1)]
    pub(super) pending: BTreeSet<I>,
}

/// That one server has acted on the notice of one client.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, minicbor::Encode, minicbor::Decode)]
pub struct NoticeDone<I> {
    /// Whose notice.
    #[n(0)]
    pub client: I,
    /// The server, or the retired relay for which its heir answers.
    #[n(1)]
    pub server: I,
}

/// Everything that a retiring relay keeps for others, for its heir.
#[derive(Debug, Clone, PartialEq, Eq, Hash, minicbor::Encode, minicbor::Decode)]
pub struct Estate<I: Ord, A> {
    /// The relay.
    #[n(0)]
    pub(super) from: I,
    /// Who shall take it. Nobody else may.
    #[n(1)]
    pub(super) heir: I,
    /// Its own desk and those that it had inherited.
    #[n(2)]
    pub(super) desks: BTreeMap<I, Desk<I>>,
    #[n(3)]
    pub(super) tokens: Vec<Token<I, A>>,
    #[n(4)]
    pub(super) notices: BTreeMap<I, KeptNotice<I, A>>,
}

/// The answer to an [`Estate`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, minicbor::Encode, minicbor::Decode)]
pub struct Adoption<I> {
    /// The relay whose estate it was.
    #[n(0)]
    pub from: I,
    /// The heir that was named.
    #[n(1)]
    pub named: I,
    /// Who holds the estate now, the heir that was named or in turn its heir; nobody if the one named was
    /// itself about to leave: then another has to be named.
    #[n(2)]
    pub adopted_by: Option<I>,
}

/// Why a replica cannot leave yet. State unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RetireError {
    /// There is a value of its own that has not been handed over.
    #[error("there are counts here that have not been handed over; exchange views with a server first")]
    NotHandedOver,
    /// A relay was asked for its estate before it had stopped.
    #[error("the relay still takes handoffs; stop it first")]
    NotStopped,
    /// The estate may already be with somebody else.
    #[error("an heir has been named and has not refused; wait for its answer")]
    HeirNamed,
    /// A replica of tier 0 keeps the permanent counts.
    #[error("a replica of tier 0 cannot hand its counts to a lower tier")]
    Permanent,
    /// A relay cannot be its own heir, nor can one whose heir it is.
    #[error("a relay cannot leave its estate to itself or to one whose heir it is; name another server")]
    OwnHeir,
    /// It is on its way out already, in another manner.
    #[error("the replica is already leaving in another way")]
    Leaving,
}

impl<I: Id, A: Tally> Office<I, A> {
    fn new() -> Self {
        Office {
            cached: BTreeMap::new(),
            inherited: BTreeMap::new(),
            notices: BTreeMap::new(),
            holders: BTreeSet::new(),
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
        let by_source = self.office().cached.entry(token.target.clone()).or_default();
        match by_source.get_mut(&token.source) {
            Some(held) if held.slot.source_clock >= token.slot.source_clock => {}
            Some(held) => *held = token.clone(),
            None => drop(by_source.insert(token.source.clone(), token.clone())),
        }
    }

    /// Drops the cached tokens for this target of which `gone` is true.
    pub(super) fn drop_cached(&mut self, target: &I, gone: impl Fn(&Token<I, A>) -> bool) {
        let Some(office) = &mut self.office else { return };
        let Some(by_source) = office.cached.get_mut(target) else { return };
        by_source.retain(|_, token| !gone(token));
        if by_source.is_empty() {
            office.cached.remove(target);
            self.tidy();
        }
    }

    fn office(&mut self) -> &mut Office<I, A> {
        self.office.get_or_insert_with(|| Box::new(Office::new()))
    }

    /// Gives the memory back when nothing is kept for others.
    fn tidy(&mut self) {
        if self.office.as_ref().is_some_and(|office| office.is_empty()) {
            self.office = None;
        }
    }

    /// Tokens that are kept here for others.
    pub fn cached(&self) -> impl Iterator<Item = &Token<I, A>> {
        self.office.iter().flat_map(|office| office.cached.values().flat_map(BTreeMap::values))
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

    fn desk_of_mut(&mut self, name: &I) -> Option<&mut Desk<I>> {
        if *name == self.id {
            return Some(&mut self.desk);
        }
        self.office.as_mut()?.inherited.get_mut(name)
    }

    /// Takes a token at whichever desk it is for.
    fn try_token<L: Ledger<Amount = A>>(&mut self, ledger: &mut L, token: &Token<I, A>) {
        let Some(desk) = self.desk_of_mut(&token.target) else { return };
        if desk.fits(token) && ledger.credit(&token.value).is_ok() {
            desk.close(token);
        }
    }

    // Early retirement.

    /// Remembers at which servers our tokens have been seen.
    pub(super) fn note_holders<R>(&mut self, view: &View<I, A, R>) {
        for seen in &*view.tokens {
            let held = Holder { target: seen.target.clone(), slot: seen.slot, holder: view.id.clone() };
            if seen.source == self.id && held.is_of(&self.tokens) {
                self.office().holders.insert(held);
            }
        }
        if let Some(office) = &mut self.office
            && !office.holders.is_empty()
        {
            office.holders.retain(|held| held.is_of(&self.tokens));
            self.tidy();
        }
    }

    /// May this replica stop for good, leaving its tokens to the servers that cached them?
    ///
    /// `has_route(holder, target)`: does this server deliver to that target, or to its heir? Without a route a
    /// cached token is kept for ever and counted never.
    pub fn may_leave_early(&self, own_is_zero: bool, has_route: impl Fn(&I, &I) -> bool) -> bool {
        let Some(office) = &self.office else { return own_is_zero && self.tokens.is_empty() };
        let delivered = |token: &Token<I, A>| {
            office.holders.iter().any(|held| {
                held.target == token.target
                    && held.slot == token.slot
                    && has_route(&held.holder, &token.target)
            })
        };
        own_is_zero
            && self.tokens.iter().all(delivered)
            && office.cached.is_empty()
            && office.inherited.is_empty()
            && office.notices.is_empty()
    }

    // Notices.

    /// Ends counting here and writes the notice, which is the same from then on. The replica may disappear
    /// once a server that reaches all of `servers` has confirmed to [keep](Self::keep_notice) it.
    pub fn retire(
        &mut self,
        own_is_zero: bool,
        servers: impl IntoIterator<Item = I>,
    ) -> Result<&Notice<I, A>, RetireError> {
        match self.phase {
            Phase::Active if !own_is_zero => return Err(RetireError::NotHandedOver),
            Phase::Active => {
                let mut servers: BTreeSet<I> = servers.into_iter().collect();
                servers.extend(self.tokens.iter().map(|token| token.target.clone()));
                self.phase = Phase::Leaving(Box::new(Notice {
                    client: self.id.clone(),
                    source_clock: self.source_clock,
                    tokens: self.tokens.to_vec(),
                    servers: servers.into_iter().collect(),
                }));
            }
            Phase::Leaving(_) => {}
            Phase::Stopped { .. } | Phase::Bequeathed { .. } => return Err(RetireError::Leaving),
        }
        match &self.phase {
            Phase::Leaving(notice) => Ok(notice),
            _ => unreachable!("the phase was set above"),
        }
    }

    /// Acts on a notice and keeps it until all servers that it names have acted on it too. False if this
    /// replica is itself about to leave; then nothing was done.
    pub fn keep_notice<L: Ledger<Amount = A>>(&mut self, ledger: &mut L, notice: &Notice<I, A>) -> bool {
        let Phase::Active = self.phase else { return false };
        let mut pending: BTreeSet<I> = notice.servers.iter().cloned().collect();
        for done in self.act_on_notice(ledger, notice) {
            pending.remove(&done.server);
        }
        if !pending.is_empty() {
            let kept = KeptNotice { notice: notice.clone(), pending };
            self.office().notices.entry(notice.client.clone()).or_insert(kept);
        }
        true
    }

    /// Acts on a notice that another server passes on: tries its tokens, then drops stale slots, in this
    /// order. Returns for which of the named servers that is done; for a replica about to leave, none.
    pub fn act_on_notice<L: Ledger<Amount = A>>(
        &mut self,
        ledger: &mut L,
        notice: &Notice<I, A>,
    ) -> Vec<NoticeDone<I>> {
        let Phase::Active = self.phase else { return Vec::new() };
        for token in &notice.tokens {
            self.try_token(ledger, token);
        }
        let mut done = Vec::new();
        for server in &notice.servers {
            let Some(desk) = self.desk_of_mut(server) else { continue };
            // A token that still fits was refused by the ledger. Its slot stays, and so does the notice.
            if notice.tokens.iter().any(|token| token.target == *server && desk.fits(token)) {
                continue;
            }
            if desk.slots.get(&notice.client).is_some_and(|slot| slot.source_clock < notice.source_clock) {
                desk.slots.remove(&notice.client);
            }
            done.push(NoticeDone { client: notice.client.clone(), server: server.clone() });
        }
        done
    }

    /// A server has acted on a notice kept here.
    pub fn notice_done(&mut self, done: &NoticeDone<I>) {
        let Some(office) = &mut self.office else { return };
        let Some(kept) = office.notices.get_mut(&done.client) else { return };
        kept.pending.remove(&done.server);
        if kept.pending.is_empty() {
            office.notices.remove(&done.client);
            self.tidy();
        }
    }

    /// The notices kept here, each with the servers that have still to act on it.
    pub fn notices(&self) -> impl Iterator<Item = (&Notice<I, A>, &BTreeSet<I>)> {
        let kept = self.office.iter().flat_map(|office| office.notices.values());
        kept.map(|kept| (&kept.notice, &kept.pending))
    }

    // Relays.

    /// Shuts the desk for good: from now on no slot is opened, filled or dropped, no token cached, no notice
    /// taken. What was counted here is still handed over.
    pub fn stop(&mut self) -> Result<(), RetireError> {
        match self.phase {
            _ if self.tier == 0 => Err(RetireError::Permanent),
            Phase::Leaving(_) => Err(RetireError::Leaving),
            Phase::Active => {
                self.phase = Phase::Stopped { heir: None };
                Ok(())
            }
            Phase::Stopped { .. } | Phase::Bequeathed { .. } => Ok(()),
        }
    }

    /// The estate, for `heir` alone: another heir can be named only after this one has refused.
    pub fn bequeath(&mut self, heir: &I) -> Result<Estate<I, A>, RetireError> {
        if self.desk_of(heir).is_some() {
            return Err(RetireError::OwnHeir);
        }
        match &mut self.phase {
            Phase::Stopped { heir: named @ None } => *named = Some(heir.clone()),
            Phase::Stopped { heir: Some(named) } if named == heir => {}
            Phase::Stopped { .. } | Phase::Bequeathed { .. } => return Err(RetireError::HeirNamed),
            Phase::Active | Phase::Leaving(_) => return Err(RetireError::NotStopped),
        }
        let mut desks = BTreeMap::from([(self.id.clone(), self.desk.clone())]);
        let mut notices = BTreeMap::new();
        if let Some(office) = &self.office {
            desks.extend(office.inherited.iter().map(|(name, desk)| (name.clone(), desk.clone())));
            notices.clone_from(&office.notices);
        }
        let tokens = self.cached().cloned().collect();
        Ok(Estate { from: self.id.clone(), heir: heir.clone(), desks, tokens, notices })
    }

    /// Takes over a relay's estate, once: a repeated handover is the same handover. Whoever has inherited
    /// from the named heir answers for it. `None` if the estate is no business of this replica.
    pub fn adopt<L: Ledger<Amount = A>>(
        &mut self,
        ledger: &mut L,
        estate: &Estate<I, A>,
    ) -> Option<Adoption<I>> {
        let answer =
            |adopted_by| Some(Adoption { from: estate.from.clone(), named: estate.heir.clone(), adopted_by });
        self.desk_of(&estate.heir)?;
        if estate.from == self.id || matches!(self.phase, Phase::Bequeathed { .. }) {
            return None; // What we had adopted is with our heir: it knows, we have forgotten.
        }
        if self.desk_of(&estate.from).is_some() {
            return answer(Some(self.id.clone()));
        }
        if estate.heir != self.id || self.phase != Phase::Active {
            return answer(None);
        }
        self.take_over(ledger, estate);
        answer(Some(self.id.clone()))
    }

    pub(super) fn take_over<L: Ledger<Amount = A>>(&mut self, ledger: &mut L, estate: &Estate<I, A>) {
        let office = self.office();
        office.inherited.extend(estate.desks.iter().map(|(name, desk)| (name.clone(), desk.clone())));
        for (client, kept) in &estate.notices {
            office.notices.entry(client.clone()).or_insert_with(|| kept.clone());
        }
        for token in &estate.tokens {
            self.cache(token);
        }
        self.deliver_cached(ledger);
        self.act_on_kept_notices(ledger);
    }

    /// The heir's answer. Returns whether the estate is in good hands.
    pub fn adopted(&mut self, answer: &Adoption<I>) -> bool {
        if answer.from == self.id
            && let Phase::Stopped { heir } = &mut self.phase
            && heir.as_ref() == Some(&answer.named)
        {
            match &answer.adopted_by {
                // The desk stays as it was: a missing slot would read as a taken token.
                Some(heir) => {
                    self.phase = Phase::Bequeathed { heir: heir.clone() };
                    self.office = None;
                }
                None => *heir = None,
            }
        }
        matches!(self.phase, Phase::Bequeathed { .. })
    }

    /// May a relay that has [stopped](Self::stop) disappear?
    pub fn may_leave(&self, own_is_zero: bool) -> bool {
        matches!(self.phase, Phase::Bequeathed { .. }) && own_is_zero && self.tokens.is_empty()
    }

    /// The heir that a stopped relay has named and that has not answered.
    pub fn named_heir(&self) -> Option<&I> {
        match &self.phase {
            Phase::Stopped { heir } => heir.as_ref(),
            _ => None,
        }
    }

    /// Who holds the estate of this relay.
    pub fn heir(&self) -> Option<&I> {
        match &self.phase {
            Phase::Bequeathed { heir } => Some(heir),
            _ => None,
        }
    }

    /// Does it still open slots and count?
    pub fn is_active(&self) -> bool {
        self.phase == Phase::Active
    }

    /// An heir does for the desks it inherited what steps 1 and 2 do for its own.
    pub(super) fn serve_inherited<L: Ledger<Amount = A>>(
        &mut self,
        ledger: &mut L,
        view: &View<I, A, L::Report>,
    ) {
        if self.office.as_ref().is_none_or(|office| office.inherited.is_empty()) {
            return;
        }
        for token in &*view.tokens {
            self.try_token(ledger, token);
        }
        if self.tier < view.tier {
            for (name, desk) in &mut self.office().inherited {
                discard_slot(name, desk, view);
            }
        }
        self.deliver_cached(ledger);
    }

    /// Delivers what was cached for desks that are now here.
    fn deliver_cached<L: Ledger<Amount = A>>(&mut self, ledger: &mut L) {
        let mut names: Vec<I> = self.inherited().map(|(name, _)| name.clone()).collect();
        names.push(self.id.clone());
        for name in names {
            let Some(by_source) = self.office().cached.remove(&name) else { continue };
            for token in by_source.values() {
                self.try_token(ledger, token);
                if self.desk_of(&name).is_some_and(|desk| desk.fits(token)) {
                    self.cache(token); // The ledger refused it for now.
                }
            }
        }
    }

    fn act_on_kept_notices<L: Ledger<Amount = A>>(&mut self, ledger: &mut L) {
        let kept: Vec<Notice<I, A>> = self
            .office
            .iter()
            .flat_map(|office| office.notices.values())
            .map(|kept| kept.notice.clone())
            .collect();
        for notice in kept {
            for done in self.act_on_notice(ledger, &notice) {
                self.notice_done(&done);
            }
        }
    }
}
