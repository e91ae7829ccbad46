//! Handoff counters: exact counting by replicas that come and go.
//!
//! After “Scalable eventually consistent counters over unreliable networks” (Almeida and Baquero). Permanent
//! replicas are of tier 0; transient ones, of higher tiers, hand what they counted to lower ones and then
//! leave without a trace. The [`Handshake`] moves values, a [`Ledger`] holds them; [`Handoff`] puts the two
//! together.
//!
//! Read next: [`Handshake`] for the eight steps of a merge, [`RetireError`] and the functions around it for
//! how replicas leave.

mod cached;
mod desk;
mod estate;
mod examples;
mod handshake;
mod kept;
mod ledger;
mod notice;
mod office;
mod passing;
mod retirement;
mod slot;
#[cfg(test)]
mod tests;
mod view;

pub use desk::Desk;
pub use estate::{Adoption, Estate};
pub use handshake::{Addressee, Handshake, MergeError, Rules};
pub use kept::{Archives, Core, Kept, Unsound};
pub use ledger::{Ledger, Report, Tiers};
pub use notice::{Notice, NoticeDone};
pub use retirement::RetireError;
pub use slot::{Slot, Token, TokenName};
pub use view::View as ViewOf;

use crate::algebra::{Overflow, Twin};
use crate::{Id, Tally};
use ledger::{CounterLedger, Owned};
use minicbor::{Decode, Decoder};

/// What one [`Handoff`] sends to another.
pub type View<I, T> = ViewOf<I, T, Report<I, T>>;

/// Why nothing was added. State unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddError {
    /// The sum would not fit.
    #[error(transparent)]
    Overflow(#[from] Overflow),
    /// The replica has begun to leave.
    #[error("the replica is leaving and counts no more; nothing was added")]
    Leaving,
}

/// A counter that is counted in many places and handed over between them.
///
/// ```
/// use quipu_crdt::handoff::Handoff;
/// let mut site = Handoff::<_, u64>::new("site", 0);
/// let mut edge = Handoff::new("edge", 1);
/// edge.add(&9)?;
/// // Two round trips: ask for a slot, get it, hand over, be told so. Any message may be lost or repeated.
/// while edge.must_hand_off() {
///     site.merge(&edge.view_for(&"site", 0))?;
///     edge.merge(&site.reply_to(&edge.view_for(&"site", 0)))?;
/// }
/// assert_eq!(*site.fetch(), 9);
/// assert!(site.is_idle(), "nothing of the edge is left");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, minicbor::Encode)]
pub struct Handoff<I: Id, T: Tally> {
    #[n(0)]
    handshake: Handshake<I, T>,
    #[n(1)]
    ledger: CounterLedger<I, T>,
}

impl<I: Id, T: Tally> Handoff<I, T> {
    /// A new replica. Its name must never have been used before.
    pub fn new(id: I, tier: u8) -> Self {
        Self::with_rules(id, tier, Rules::Quipu)
    }

    /// A new replica under the given rules; all replicas of a system must follow the same.
    pub fn with_rules(id: I, tier: u8, rules: Rules) -> Self {
        Handoff { handshake: Handshake::new(id, tier, rules), ledger: CounterLedger::new() }
    }

    /// Its name.
    pub fn id(&self) -> &I {
        &self.handshake.id
    }

    /// 0 for permanent replicas, larger towards the edge.
    pub fn tier(&self) -> u8 {
        self.handshake.tier
    }

    /// The state of its handoffs.
    pub fn handshake(&self) -> &Handshake<I, T> {
        &self.handshake
    }

    /// Counts `amount` here.
    pub fn add(&mut self, amount: &T) -> Result<(), AddError> {
        if !self.handshake.is_active() {
            return Err(AddError::Leaving);
        }
        self.ledger.own.try_add(amount)?;
        self.ledger.val.saturating_add(amount);
        Ok(())
    }

    /// The value that is safe to report: never more than was counted anywhere, never less than before.
    pub fn fetch(&self) -> &T {
        &self.ledger.val
    }

    /// What was counted or received here and has not been handed over.
    pub fn own(&self) -> &T {
        &self.ledger.own
    }

    /// A lower bound of what lower tiers hold.
    pub fn below(&self) -> &T {
        &self.ledger.below
    }

    /// What the other replicas of tier 0 hold, as far as known; empty at higher tiers.
    pub fn others(&self) -> impl Iterator<Item = (&I, &T)> {
        self.ledger.others.iter()
    }

    /// Must it go on exchanging views before what it holds is elsewhere? A replica without clients may then
    /// disappear; a relay must [stop](Self::stop) and leave its desk to an heir.
    pub fn must_hand_off(&self) -> bool {
        !self.ledger.own.is_zero()
            || !self.handshake.tokens.is_empty()
            || self.handshake.cached().next().is_some()
    }

    /// Is there neither a slot nor a token here?
    pub fn is_idle(&self) -> bool {
        self.handshake.tokens.is_empty()
            && self.handshake.cached().next().is_none()
            && self.handshake.desk.is_idle()
            && self.handshake.inherited().all(|(_, desk)| desk.is_idle())
    }

    /// Merges what another replica sent. An old view of oneself does nothing; a view for another replica, and
    /// one that knows more of us than we do, is refused.
    pub fn merge(&mut self, view: &View<I, T>) -> Result<(), MergeError> {
        if self.ledger.is_behind(&self.handshake.id, &view.report) {
            return Err(Twin.into());
        }
        let own_id = self.handshake.id.clone();
        self.handshake.merge(&mut Owned { own_id: &own_id, ledger: &mut self.ledger }, view)?;
        if self.handshake.inherited().next().is_some() {
            self.report_own(); // Inherited slots are filled after step 5.
        }
        Ok(())
    }

    /// What the replica with this name and tier needs of us, unasked. It is no [answer](Self::reply_to).
    #[inline]
    pub fn view_for(&self, id: &I, tier: u8) -> View<I, T> {
        self.view(&Addressee { id, tier, stands_for: &[] })
    }

    /// Like [`view_for`](Self::view_for), for an heir: with what is meant for the relays it stands for.
    #[inline]
    pub fn view(&self, to: &Addressee<'_, I>) -> View<I, T> {
        self.handshake.view(to, self.report_for(to.tier), self.wants_slot())
    }

    /// For a server that is no longer the chosen one: closes slots and opens none.
    pub fn cleaning_view(&self, id: &I, tier: u8) -> View<I, T> {
        let to = Addressee { id, tier, stands_for: &[] };
        self.handshake.view(&to, self.report_for(tier), false)
    }

    /// The answer to a view: our view, and which of the offered tokens are closed here. Merge it first.
    #[inline]
    pub fn reply_to(&self, view: &View<I, T>) -> View<I, T> {
        self.handshake.reply_to(view, self.report_for(view.tier), self.wants_slot())
    }

    fn wants_slot(&self) -> bool {
        !self.ledger.own.is_zero()
    }

    fn report_for(&self, tier: u8) -> Report<I, T> {
        self.ledger.report(&self.handshake.id, Tiers { ours: self.handshake.tier, theirs: tier })
    }

    /// Folds the slot of a source that has been silent for long. See [`Handshake::fold`].
    pub fn fold(&mut self, source: &I) -> bool {
        self.handshake.fold(source)
    }

    /// May it stop now, without a word? See [`Handshake::may_leave_early`].
    pub fn may_leave_early(&self, has_route: impl Fn(&I, &I) -> bool) -> bool {
        self.handshake.may_leave_early(self.ledger.own.is_zero(), has_route)
    }

    /// Ends counting and writes the notice for the servers it used. See [`Handshake::retire`].
    pub fn retire(&mut self, servers: impl IntoIterator<Item = I>) -> Result<&Notice<I, T>, RetireError> {
        self.handshake.retire(self.ledger.own.is_zero(), servers)
    }

    /// Acts on a notice and keeps it for the other servers. See [`Handshake::keep_notice`].
    pub fn keep_notice(&mut self, notice: &Notice<I, T>) -> bool {
        let own_id = self.handshake.id.clone();
        let kept =
            self.handshake.keep_notice(&mut Owned { own_id: &own_id, ledger: &mut self.ledger }, notice);
        self.report_own();
        kept
    }

    /// Acts on a notice that another server keeps. See [`Handshake::act_on_notice`].
    pub fn act_on_notice(&mut self, notice: &Notice<I, T>) -> Vec<NoticeDone<I>> {
        let own_id = self.handshake.id.clone();
        let done =
            self.handshake.act_on_notice(&mut Owned { own_id: &own_id, ledger: &mut self.ledger }, notice);
        self.report_own();
        done
    }

    /// A server has acted on a notice kept here.
    pub fn notice_done(&mut self, done: &NoticeDone<I>) {
        self.handshake.notice_done(done);
    }

    /// Shuts a relay's desk for good. See [`Handshake::stop`].
    pub fn stop(&mut self) -> Result<(), RetireError> {
        self.handshake.stop()
    }

    /// A stopped relay's estate, for this heir alone. See [`Handshake::bequeath`].
    pub fn bequeath(&mut self, heir: &I) -> Result<Estate<I, T>, RetireError> {
        self.handshake.bequeath(heir)
    }

    /// Takes over a relay's estate, once. See [`Handshake::adopt`].
    pub fn adopt(&mut self, estate: &Estate<I, T>) -> Option<Adoption<I>> {
        let own_id = self.handshake.id.clone();
        let answer = self.handshake.adopt(&mut Owned { own_id: &own_id, ledger: &mut self.ledger }, estate);
        self.report_own();
        answer
    }

    /// The heir's answer. See [`Handshake::adopted`].
    pub fn adopted(&mut self, answer: &Adoption<I>) -> bool {
        self.handshake.adopted(answer)
    }

    /// May a stopped relay disappear? See [`Handshake::may_leave`].
    pub fn may_leave(&self) -> bool {
        self.handshake.may_leave(self.ledger.own.is_zero())
    }

    /// Lets the reported value follow what was received outside of a merge.
    fn report_own(&mut self) {
        let tiers = Tiers { ours: self.handshake.tier, theirs: u8::MAX };
        let nothing = Report { val: T::default(), below: T::default(), vals: Vec::new() };
        let own_id = &self.handshake.id;
        Owned { own_id, ledger: &mut self.ledger }.aggregate(tiers, &nothing);
    }
}

impl<'b, C, I: Id + Decode<'b, C>, T: Tally + Decode<'b, C>> Decode<'b, C> for Handoff<I, T> {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, minicbor::decode::Error> {
        #[derive(minicbor::Decode)]
        struct Parts<I: Id, T: Tally> {
            #[n(0)]
            handshake: Handshake<I, T>,
            #[n(1)]
            ledger: CounterLedger<I, T>,
        }
        let Parts { handshake, ledger } = Parts::decode(d, ctx)?;
        if ledger.others.contains_key(&handshake.id) {
            return Err(minicbor::decode::Error::message("not the state of a handoff replica"));
        }
        Ok(Handoff { handshake, ledger })
    }
}
