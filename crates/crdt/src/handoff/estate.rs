//! How a relay leaves: it hands all that it keeps for others to one heir.

use super::desk::Desk;
use super::handshake::{Handshake, discard_slot};
use super::ledger::Ledger;
use super::notice::KeptNotice;
use super::retirement::{Phase, RetireError};
use super::slot::Token;
use super::view::View;
use crate::Id;
use crate::algebra::Tally;
use std::collections::{BTreeMap, BTreeSet};

/// Everything that a retiring relay keeps for others, for its heir.
#[derive(Debug, Clone, PartialEq, Eq, Hash, minicbor::Encode, minicbor::Decode)]
pub struct Estate<I: Id, A: Tally> {
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
    /// The tier of the relay. An heir of a higher tier would not be offered the tokens of its clients.
    #[n(5)]
    pub(super) tier: u8,
}

impl<I: Id, A: Tally> Estate<I, A> {
    /// The relay that leaves it.
    pub fn from(&self) -> &I {
        &self.from
    }

    /// Who shall take it.
    pub fn heir(&self) -> &I {
        &self.heir
    }

    /// The tokens in it, those of last words among them: what they carry may be counted when it is adopted.
    pub fn tokens(&self) -> impl Iterator<Item = &Token<I, A>> {
        self.tokens.iter().chain(self.notices.values().flat_map(|kept| &kept.notice.tokens))
    }

    /// All of whom something is in it.
    pub fn sources(&self) -> BTreeSet<I> {
        let slots = self.desks.values().flat_map(|desk| desk.slots.keys());
        let tokens = self.tokens().map(|token| &token.source);
        slots.chain(tokens).chain(self.notices.keys()).cloned().collect()
    }
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
    /// itself about to leave, or is of a higher tier: then another has to be named.
    #[n(2)]
    pub adopted_by: Option<I>,
}

impl<I: Id, A: Tally> Handshake<I, A> {
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
        let (from, heir, tier) = (self.id.clone(), heir.clone(), self.tier);
        Ok(Estate { from, heir, desks, tokens, notices, tier })
    }

    /// Takes over a relay's estate, once: a repeated handover is the same handover. Whoever has inherited
    /// from the named heir answers for it. `None` if the estate is no business of this replica.
    pub fn adopt<L: Ledger<Id = I, Amount = A>>(
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
        if !estate.desks.contains_key(&estate.from) || estate.desks.contains_key(&self.id) {
            return None; // Not what a relay writes.
        }
        if estate.heir != self.id || self.phase != Phase::Active || self.tier > estate.tier {
            return answer(None);
        }
        self.take_over(ledger, estate);
        answer(Some(self.id.clone()))
    }

    pub(super) fn take_over<L: Ledger<Id = I, Amount = A>>(&mut self, ledger: &mut L, estate: &Estate<I, A>) {
        let office = self.office();
        for (name, desk) in &estate.desks {
            office.inherited.entry(name.clone()).or_insert_with(|| desk.clone());
        }
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

    /// An heir does for the desks it inherited what steps 1 and 2 do for its own.
    pub(super) fn serve_inherited<L: Ledger<Id = I, Amount = A>>(
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
    pub fn deliver_cached<L: Ledger<Id = I, Amount = A>>(&mut self, ledger: &mut L) {
        let here = |target: &&I| self.desk_of(target).is_some();
        let names: Vec<I> =
            self.office.iter().flat_map(|office| office.cached.targets()).filter(here).cloned().collect();
        for name in names {
            for token in self.office().cached.take_for(&name) {
                self.try_token(ledger, &token);
                if self.desk_of(&name).is_some_and(|desk| desk.fits(&token)) {
                    self.cache(&token); // The ledger refused it for now.
                }
            }
        }
    }
}
