//! Who belongs to the cluster, agreed by the sites themselves while they run. One [`Council`] per site, without I/O.
//!
//! # The protocol
//!
//! Every site has the list of sites ([`Config`]) of some epoch. A [`Change`] is proposed at one site and leads to the next
//! epoch. A site *states* its list, the proposals it has agreed to, and its own among them ([`Notice`]), whole, whenever
//! any of it changes, when a link begins, and every few seconds: notices may be lost, repeated and overtaken. Everything
//! that a notice says is durable first ([`Step`]).
//!
//! 1. *Asked* is everybody whom the list names, except those whom the change removes.
//! 2. *In force* is a change when its proposer, and nobody else, knows that all who are asked have agreed to this very
//!    proposal, and has made the next list durable. The others take over any later list that they hear of.
//! 3. A site agrees to one proposal at a time and never takes that back. Only the proposer withdraws, by stating that the
//!    proposal is no longer there; it can, because it alone decides.
//! 4. A site that has a proposal of its own withdraws it for one that *goes before* it: one that removes more sites
//!    (others would wait for these for ever), or as many and comes from a lower site. It agrees to no other. So the
//!    first of all open proposals gathers all agreements.
//! 5. *A lost proposer* can neither decide nor withdraw any more, or may have decided without anybody else knowing. Who
//!    has agreed to its proposal agrees on top of that to one which removes the proposer *and everybody whom the lost
//!    proposal removes*. The first agreement stays underneath, and binds again if the second proposal is withdrawn.
//! 6. Who has agreed to a removal refuses the sites that it removes, and takes over no list from them.
//! 7. *A planned removal* ([`Change::Remove`] with `drained`) is possible on a list that says of all whom it removes that they
//!    are [leaving](Standing::Leaving). Only a site itself proposes that for itself ([`Change::Leave`]), once it takes no
//!    writes and the others have all that it has counted, and only itself that it stays ([`Change::Stay`]). A planned
//!    removal is not agreed to on top of a proposal of the site that leaves: it is not lost, and may have decided to stay.
//!    So either it stays, in the next list, or it goes, and has counted nothing since it said that it leaves.
//!
//! # Why there is one list per epoch
//!
//! Let two proposals on top of one list have been decided. A site that was asked about both had agreed to both at a time,
//! since a withdrawn one is not decided: one lies on top of the other, and removes the other's proposer and whom the other
//! removes. Everybody asked about the upper one refuses, from its agreement on, all who could bring the lower one's list;
//! and whoever had it before did not agree. So no site that the upper list keeps ever has the lower list, and whoever has
//! it is refused for ever by the others, as any removed site that goes on without having heard of it. Rule 5 needs
//! *everybody whom the lost proposal removes*: a survivor that listened to one of these again could take a list from it
//! which the others, by the lost proposer's decision, never will.
//!
//! If no site was asked about both, then people have removed the sites of two halves from each other's list at the same
//! time, though neither was lost. Two clusters go on, which refuse each other ([`Refused::Contradiction`]).
//!
//! So people remove only sites that are lost or stopped, and name all of these in one removal: nobody waits for those whom
//! it names. Who is lost while it removes others takes these with it; they come back under a new id. (If it was removing
//! the very site that is to go on, those who had agreed to that go instead.)

mod change;
mod config;
#[cfg(feature = "testing")]
pub mod fuzzing;
mod notice;
mod refusal;

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

use minicbor::{Decode, Encode};

pub use change::Change;
pub use config::{Config, REMOVED_MAX, Removed, SITES_MAX, Seat, Standing, TEXT_BYTES_MAX};
pub use notice::{NOTICE_BYTES_MAX, Notice, Proposal};
pub use refusal::{BadBytes, BadChange, Refused};

use crate::{Membership, SiteId};
use config::list;
use notice::{decode, encode};

/// What is to be done, in this order. Nothing is told before it is durable.
#[must_use = "what a council has agreed to must be stored, and told"]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Step {
    /// The council's whole state, if it has changed: store it in place of the one before.
    pub persist: Option<Vec<u8>>,
    /// Send these sites [`Council::notice`], if there is a link.
    pub tell: BTreeSet<SiteId>,
}

/// What one site knows and has promised about who belongs to the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Council {
    #[n(0)]
    site: SiteId,
    #[n(1)]
    notice: Notice,
    /// Who else has agreed to the own open proposal.
    #[n(2)]
    supporters: BTreeSet<SiteId>,
    #[cbor(skip)]
    flaw: Option<Flaw>,
}

/// Wrong ways, for tests that must catch them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// In force when most have agreed.
    Majority,
    /// A site that has agreed agrees to what goes before instead.
    Revokes,
    /// A lost proposer's proposal is overridden without those whom it removes.
    OverridesMore,
    /// What lay under a withdrawn proposal is forgotten.
    ForgetsUnderneath,
    /// Lists are taken over from sites that are being removed.
    ListensToLeavers,
    /// A planned removal is agreed to on top of what the site that leaves has proposed.
    OverridesStay,
}

impl Council {
    /// A site of a cluster that begins, with the list that it was started with.
    pub fn first(site: SiteId, sites: BTreeMap<SiteId, Seat>) -> Result<Self, BadChange> {
        if !sites.contains_key(&site) {
            return Err(BadChange::NotListed { site });
        }
        Ok(Self::with(site, Config::first(sites)?))
    }

    /// A site with an empty folder, which takes over the first list that names it.
    pub fn newcomer(site: SiteId) -> Self {
        Self::with(site, Config::default())
    }

    /// What a restored folder goes on with: a newcomer whom the others must list by [`Change::Restore`]; if there are no
    /// others, a member again.
    pub fn restored(&self, new: SiteId) -> Result<Self, BadChange> {
        let Some((old, seat)) =
            self.config().sites.first_key_value().filter(|_| self.config().sites.len() == 1)
        else {
            return Ok(Self::newcomer(new));
        };
        let restore = Change::Restore { old: *old, new, address: seat.address.clone() };
        let config = self.config().changed(&restore)?.changed(&Change::Joined { site: new })?;
        Ok(Self::with(new, config))
    }

    fn with(site: SiteId, config: Config) -> Self {
        let notice = Notice { config, ..Notice::default() };
        Self { site, notice, supporters: BTreeSet::new(), flaw: None }
    }

    /// Chooses a wrong way.
    #[cfg(feature = "testing")]
    pub fn with_flaw(mut self, flaw: Option<Flaw>) -> Self {
        self.flaw = flaw;
        self
    }

    /// What is stored, whole.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Reads what was stored.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadBytes> {
        let bad = |why| BadBytes { what: "state", why };
        let council: Self = decode(bytes).map_err(bad)?;
        council.notice.check().map_err(|error| bad(error.to_string()))?;
        let own = council.notice.agreed.iter().position(|proposal| proposal.by == council.site);
        let is_last = own.is_none_or(|own| {
            own + 1 == council.notice.agreed.len()
                && council.notice.agreed[own].number <= council.notice.number
        });
        if !is_last {
            return Err(bad("an own proposal is not the last".into()));
        }
        Ok(council)
    }

    /// Whose it is.
    pub fn site(&self) -> SiteId {
        self.site
    }

    /// The list in force, as this site knows it.
    pub fn config(&self) -> &Config {
        &self.notice.config
    }

    /// How far this site has come itself; `None`: it is not listed yet, or not any more. Only a member takes writes.
    pub fn standing(&self) -> Option<Standing> {
        self.config().standing(self.site)
    }

    /// For [`Host::set_membership`](crate::Host::set_membership). A newcomer is alone until it has a list.
    pub fn membership(&self) -> Membership {
        let config = self.config();
        let mut membership =
            Membership { epoch: config.epoch, ..Membership::of(config.sites.keys().copied()) };
        let joining = config.sites.iter().filter(|(_, seat)| seat.standing == Standing::Joining);
        membership.joining = joining.map(|(site, _)| *site).collect();
        membership.removed = config.removed.iter().map(|(site, removed)| (*site, removed.heir)).collect();
        if config.epoch == 0 {
            membership.members.insert(self.site);
            membership.joining.insert(self.site);
        }
        membership
    }

    /// What this site states: to be sent when a link begins, when a [`Step`] says so, and every few seconds, always after
    /// the last [`Step::persist`] is durable.
    pub fn notice(&self) -> &Notice {
        &self.notice
    }

    /// The proposals that this site is bound by, its own among them.
    pub fn agreed(&self) -> &[Proposal] {
        &self.notice.agreed
    }

    /// The own proposal that is under way, and who has yet to agree to it.
    pub fn waiting(&self) -> Option<(&Proposal, BTreeSet<SiteId>)> {
        let own = self.notice.own(self.site)?;
        let mut missing = self.config().stayers(&own.change);
        missing.retain(|site| *site != self.site && !self.supporters.contains(site));
        Some((own, missing))
    }

    /// Are counts exchanged with this site? (A newcomer listens to anybody.) Notices come first on every link, whatever
    /// this says: a site that is removed must hear of it, and one that is being removed may give way.
    pub fn may_join(&self, site: SiteId) -> Result<(), Refused> {
        let config = self.config();
        for refused in [site, self.site] {
            if let Some(Removed { heir, epoch }) = config.removed.get(&refused) {
                return Err(Refused::Removed { site: refused, heir: *heir, epoch: *epoch });
            }
        }
        if config.epoch == 0 {
            return Ok(());
        }
        if !config.sites.contains_key(&site) {
            return Err(match config.incarnation_of(site) {
                Some(listed) => Refused::OtherIncarnation { site, listed },
                None => Refused::Stranger { site, sites: list(config.sites.keys()), epoch: config.epoch },
            });
        }
        match self.notice.agreed.last().filter(|last| last.change.removes().contains(&site)) {
            Some(removal) => Err(Refused::BeingRemoved { site, by: removal.by }),
            None => Ok(()),
        }
    }

    /// Wants a change. It is in force at once if nobody else is asked.
    pub fn propose(&mut self, change: Change) -> Result<Step, BadChange> {
        self.config().after(self.site, &change)?;
        let number = self.notice.number.checked_add(1).ok_or(BadChange::TooMany)?;
        let proposal = Proposal { by: self.site, number, change };
        if let Some(own) = self.notice.own(self.site) {
            if own.change == proposal.change {
                return Ok(Step::default());
            }
            if !proposal.goes_before(own) {
                return Err(BadChange::OwnUnderWay { change: own.change.to_string() });
            }
        }
        if let Some(other) = self.in_the_way_of(&proposal) {
            return Err(BadChange::UnderWay { by: other.by, change: other.change.to_string() });
        }
        let before = self.clone();
        self.drop_own();
        self.notice.number = number;
        self.notice.agreed.push(proposal);
        self.decide();
        Ok(self.step(&before))
    }

    /// Says that this site, which is joining, has everything: every definition, and every peer's stream up to a position
    /// which that peer told after it had listed this site. It is a member once all have agreed, and so all list it. May be
    /// called any number of times until [`standing`](Self::standing) says so: a change that goes before may come between.
    pub fn joined(&mut self) -> Result<Step, BadChange> {
        match self.standing() {
            Some(Standing::Member) => Ok(Step::default()),
            _ => self.propose(Change::Joined { site: self.site }),
        }
    }

    /// Says that this site takes no writes any more and that the others have all that it has counted. May be called any
    /// number of times, as [`Self::joined`].
    pub fn leave(&mut self) -> Result<Step, BadChange> {
        match self.standing() {
            Some(Standing::Leaving) => Ok(Step::default()),
            _ => self.propose(Change::Leave { site: self.site }),
        }
    }

    /// Wants to take writes again, after all: takes back that it leaves, if that is not in force yet. It takes writes once
    /// [`Self::standing`] says so. May be called any number of times.
    pub fn stay(&mut self) -> Result<Step, BadChange> {
        match self.standing() {
            Some(Standing::Leaving) => self.propose(Change::Stay { site: self.site }),
            _ if self.is_about_to_leave() => Ok(self.withdraw()),
            _ => Ok(Step::default()),
        }
    }

    /// Has this site said that it leaves, whether or not that is in force?
    pub fn is_about_to_leave(&self) -> bool {
        let own = self.notice.own(self.site).map(|own| &own.change);
        self.standing() == Some(Standing::Leaving) || matches!(own, Some(Change::Leave { .. }))
    }

    /// Takes the own open proposal back.
    pub fn withdraw(&mut self) -> Step {
        let before = self.clone();
        self.drop_own();
        self.step(&before)
    }

    /// Hears what another site states. A site that is refused because it was removed is to be sent [`notice`](Self::notice),
    /// so that it knows.
    pub fn receive(&mut self, from: SiteId, notice: &Notice) -> Result<Step, Refused> {
        let order = self.compare(from, notice)?;
        let before = self.clone();
        match order {
            Ordering::Less => return Ok(Step { persist: None, tell: BTreeSet::from([from]) }),
            Ordering::Equal => {}
            Ordering::Greater => self.take_over(notice.config.clone()),
        }
        self.release(from, notice);
        self.count(from, notice);
        if self.config().epoch == notice.config.epoch {
            self.consider(from, notice);
        }
        let mut step = self.step(&before);
        // It does not know yet, or our answer was lost.
        if notice.own(from).is_some_and(|theirs| self.notice.agreed.contains(theirs)) {
            step.tell.insert(from);
        }
        Ok(step)
    }

    /// Is their list older than ours, the same, or one that we take over?
    fn compare(&self, from: SiteId, notice: &Notice) -> Result<Ordering, Refused> {
        let (ours, theirs) = (self.config(), &notice.config);
        if from == self.site {
            return Err(Refused::Itself { site: from });
        }
        let order = theirs.epoch.cmp(&ours.epoch);
        if let refused @ Err(_) = self.may_join(from) {
            // A site that is being removed is heard about its own proposals: it may give way.
            let is_leaving = matches!(refused, Err(Refused::BeingRemoved { .. }));
            let listens = self.flaw == Some(Flaw::ListensToLeavers);
            if !is_leaving || (order == Ordering::Greater && !listens) {
                return refused.map(|()| order);
            }
        }
        let fits = match order {
            Ordering::Less => theirs.can_become(ours),
            Ordering::Equal => theirs.is_same(ours),
            Ordering::Greater => ours.can_become(theirs),
        };
        if !fits {
            let lists = (list(ours.sites.keys()), list(theirs.sites.keys()));
            return Err(match (ours.epoch, theirs.epoch, lists) {
                (1, 1, (ours, theirs)) => Refused::OtherStart { site: from, ours, theirs },
                (our_epoch, their_epoch, (ours, theirs)) => {
                    Refused::Contradiction { site: from, ours, our_epoch, theirs, their_epoch }
                }
            });
        }
        if ours.epoch == 0 && order == Ordering::Greater {
            // A newcomer believes a list that names itself, and who states it.
            let reader = Self::with(from, theirs.clone());
            reader.may_join(from)?;
            reader.may_join(self.site)?;
        }
        Ok(order)
    }

    /// What its proposer no longer states is withdrawn.
    fn release(&mut self, from: SiteId, notice: &Notice) {
        let own = notice.own(from);
        let count = self.notice.agreed.len();
        self.notice.agreed.retain(|proposal| {
            proposal.by != from || notice.number < proposal.number || own == Some(proposal)
        });
        if self.flaw == Some(Flaw::ForgetsUnderneath) && self.notice.agreed.len() < count {
            self.notice.agreed.clear();
        }
    }

    /// Has it agreed to the own open proposal?
    fn count(&mut self, from: SiteId, notice: &Notice) {
        let Some(own) = self.notice.own(self.site) else { return };
        if notice.agreed.contains(own) && self.config().stayers(&own.change).contains(&from) {
            self.supporters.insert(from);
            self.decide();
        }
    }

    /// Agrees to the other's open proposal, if nothing is in the way.
    fn consider(&mut self, from: SiteId, notice: &Notice) {
        let Some(theirs) = notice.own(from) else { return };
        if self.notice.agreed.contains(theirs) || self.config().after(from, &theirs.change).is_err() {
            return;
        }
        let is_asked = self.config().stayers(&theirs.change).contains(&self.site);
        if is_asked && self.in_the_way_of(theirs).is_some() {
            return;
        }
        if self.notice.own(self.site).is_some_and(|own| !theirs.goes_before(own)) {
            return;
        }
        self.drop_own();
        if self.flaw == Some(Flaw::Revokes) {
            self.notice.agreed.clear();
        }
        if is_asked {
            self.notice.agreed.push(theirs.clone());
        }
    }

    /// What this site has agreed to and cannot agree to this on top of.
    fn in_the_way_of(&self, proposal: &Proposal) -> Option<&Proposal> {
        self.others().last().filter(|last| match self.flaw {
            Some(Flaw::Revokes) => !proposal.goes_before(last),
            Some(Flaw::OverridesMore) => !proposal.change.removes().contains(&last.by),
            Some(Flaw::OverridesStay) => !proposal.removes_proposer_of(last),
            _ => !proposal.overrides(last),
        })
    }

    /// What this site has agreed to of others.
    fn others(&self) -> &[Proposal] {
        let agreed = &self.notice.agreed;
        &agreed[..agreed.len() - usize::from(self.notice.own(self.site).is_some())]
    }

    fn drop_own(&mut self) {
        self.notice.agreed.truncate(self.others().len());
        self.supporters.clear();
    }

    /// Puts the own proposal in force once all who are asked have agreed.
    fn decide(&mut self) {
        let Some((own, missing)) = self.waiting() else { return };
        let few = match self.flaw {
            Some(Flaw::Majority) => (self.config().stayers(&own.change).len() - 1) / 2,
            _ => 0,
        };
        // It was checked when it was proposed, on top of this list.
        let next = self.config().after(self.site, &own.change);
        if let Ok(next) = next
            && missing.len() <= few
        {
            self.take_over(next);
        }
    }

    fn take_over(&mut self, next: Config) {
        self.notice.config.become_next(next);
        self.notice.agreed.clear();
        self.supporters.clear();
    }

    /// What is to be done after a change of the state.
    fn step(&self, before: &Self) -> Step {
        let mut step = Step { persist: (self != before).then(|| self.encode()), tell: BTreeSet::new() };
        if self.notice != before.notice {
            // Also those who were just removed: they shall know.
            step.tell.extend(before.config().sites.keys().chain(self.config().sites.keys()));
            step.tell.remove(&self.site);
        }
        step
    }
}
