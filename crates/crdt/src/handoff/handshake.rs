//! The eight steps by which values move between replicas without being lost or counted twice.
//!
//! [`Handshake::eight_steps`] is the `merge` of “Scalable eventually consistent counters over unreliable
//! networks” (Almeida and Baquero, section 5.3), step by step and by the paper's names. What we add stands
//! apart: [`Handshake::our_steps`] below, and [retirement](super::retirement).

use super::desk::Desk;
use super::ledger::{Ledger, Tiers};
use super::office::Office;
use super::retirement::Phase;
use super::slot::{Slot, Token, TokenName};
use super::view::{Few, View};
use crate::Id;
use crate::algebra::{Tally, Twin};
use minicbor::{Decode, Decoder};

/// Far more handoffs than any replica lives to see; a state that claims more is not genuine.
pub(super) const CLOCK_MAX: u64 = 1 << 62;

/// Which rules a replica follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, minicbor::Encode, minicbor::Decode)]
pub enum Rules {
    /// The paper's, to compare with: a cached token is dropped as soon as its target shows no slot for it.
    #[n(0)]
    Paper,
    /// Ours: a cached token, and one below its target's floor, is dropped only when the target says that its
    /// slot is closed.
    #[n(1)]
    Quipu,
}

/// A view that cannot be merged. State unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// Another replica writes under our name, or we run from an old copy of our state.
    #[error(transparent)]
    Twin(#[from] Twin),
    /// It was made for another replica, and may leave out what concerns us.
    #[error("the view was made for another replica; nothing was merged")]
    NotForUs,
}

/// The state of all handoffs of one replica: slots, tokens and clocks, but not the values that it counts,
/// which are in a [`Ledger`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, minicbor::Encode)]
pub struct Handshake<I: Id, A: Tally> {
    #[n(0)]
    pub(super) id: I,
    #[n(1)]
    pub(super) tier: u8,
    #[n(2)]
    pub(super) rules: Rules,
    /// Counts the tokens made here; `sck` in the paper.
    #[n(3)]
    pub(super) source_clock: u64,
    /// The receiving side.
    #[n(4)]
    pub(super) desk: Desk<I>,
    /// Tokens made here, at most one for each target, in the order of the targets.
    #[n(5)]
    pub(super) tokens: Few<Token<I, A>>,
    /// Tokens made elsewhere and what else we keep for others; most replicas keep nothing.
    #[n(6)]
    pub(super) office: Option<Box<Office<I, A>>>,
    #[n(7)]
    pub(super) phase: Phase<I, A>,
}

impl<I: Id, A: Tally> Handshake<I, A> {
    /// A replica that has never met another.
    pub fn new(id: I, tier: u8, rules: Rules) -> Self {
        Handshake {
            id,
            tier,
            rules,
            source_clock: 0,
            desk: Desk::new(),
            tokens: Few::new(),
            office: None,
            phase: Phase::Active,
        }
    }

    /// Its name.
    pub fn id(&self) -> &I {
        &self.id
    }

    /// 0 for permanent replicas, larger towards the edge.
    pub fn tier(&self) -> u8 {
        self.tier
    }

    /// How many tokens it has made; `sck` in the paper.
    pub fn source_clock(&self) -> u64 {
        self.source_clock
    }

    /// The slots that it holds open under its own name.
    pub fn desk(&self) -> &Desk<I> {
        &self.desk
    }

    /// The tokens that it made and that it does not know to be taken.
    pub fn tokens(&self) -> &[Token<I, A>] {
        &self.tokens
    }

    /// Merges what another replica sent. Merging an old view of oneself does nothing.
    pub fn merge<L: Ledger<Id = I, Amount = A>>(
        &mut self,
        ledger: &mut L,
        view: &View<I, A, L::Report>,
    ) -> Result<(), MergeError> {
        self.refuse_twin(view)?;
        if view.id == self.id {
            return Ok(());
        }
        if view.to != self.id {
            return Err(MergeError::NotForUs);
        }
        match self.phase {
            Phase::Active => self.eight_steps(ledger, view),
            Phase::Leaving(_) | Phase::Stopped { .. } | Phase::Bequeathed { .. } => {
                self.steps_of_a_source(ledger, view);
            }
        }
        if self.rules == Rules::Quipu {
            self.our_steps(ledger, view);
        }
        Ok(())
    }

    fn tiers<R>(&self, view: &View<I, A, R>) -> Tiers {
        Tiers { ours: self.tier, theirs: view.tier }
    }

    pub(super) fn eight_steps<L: Ledger<Id = I, Amount = A>>(
        &mut self,
        ledger: &mut L,
        view: &View<I, A, L::Report>,
    ) {
        self.fill_slots(ledger, view);
        self.discard_slot(view);
        self.create_slot(view);
        ledger.merge_vectors(self.tiers(view), &view.report);
        ledger.aggregate(self.tiers(view), &view.report);
        self.discard_tokens(view);
        self.create_token(ledger, view);
        self.cache_tokens(view);
    }

    /// What is left of the eight for one that is about to leave: it takes nothing from others any more.
    fn steps_of_a_source<L: Ledger<Id = I, Amount = A>>(
        &mut self,
        ledger: &mut L,
        view: &View<I, A, L::Report>,
    ) {
        ledger.merge_vectors(self.tiers(view), &view.report);
        ledger.aggregate(self.tiers(view), &view.report);
        self.discard_tokens(view);
        if !matches!(self.phase, Phase::Leaving(_)) {
            self.create_token(ledger, view); // A client's notice speaks for all tokens it will ever make.
        }
    }

    /// Step 1. A token whose value does not fit into the ledger is not taken: its slot stays.
    pub(super) fn fill_slots<L: Ledger<Id = I, Amount = A>>(
        &mut self,
        ledger: &mut L,
        view: &View<I, A, L::Report>,
    ) {
        for token in view.tokens.iter().filter(|token| token.target == self.id) {
            if self.desk.fits(token) && ledger.credit(token).is_ok() {
                self.desk.close(token);
            }
        }
    }

    /// Step 2. The source has moved on: no token for this slot can come any more.
    pub(super) fn discard_slot<R>(&mut self, view: &View<I, A, R>) {
        discard_slot(&self.id, &mut self.desk, view);
    }

    /// Step 3.
    pub(super) fn create_slot<R>(&mut self, view: &View<I, A, R>) {
        // A token that still fits a folded slot was refused by the ledger: no second one beside it.
        let refused = |token: &Token<I, A>| token.target == self.id && self.desk.fits(token);
        if self.tier < view.tier
            && view.wants_slot
            && !self.desk.slots.contains_key(&view.id)
            && !view.tokens.iter().any(refused)
        {
            self.desk.open(view.id.clone(), view.source_clock);
        }
    }

    /// Step 6. For our own tokens a missing or newer slot says that the token was taken, because views to a
    /// higher tier always carry the slot of the addressee. For cached tokens they say nothing.
    pub(super) fn discard_tokens<R>(&mut self, view: &View<I, A, R>) {
        self.tokens.retain(|token| !is_taken(token, view));
        if self.rules == Rules::Paper {
            self.drop_cached(&view.id, |token| is_taken(token, view));
        }
    }

    /// Step 7. While an older token for this target is not known to be taken, there is no second one.
    pub(super) fn create_token<L: Ledger<Id = I, Amount = A>>(
        &mut self,
        ledger: &mut L,
        view: &View<I, A, L::Report>,
    ) {
        let Some(slot) = view.slot_for(&self.id) else { return };
        if slot.source_clock != self.source_clock || self.tier <= view.tier {
            return;
        }
        let Err(place) = self.tokens.binary_search_by(|old| old.target.cmp(&view.id)) else { return };
        let token =
            Token { source: self.id.clone(), target: view.id.clone(), slot, value: ledger.withdraw() };
        self.tokens.insert(place, token);
        self.source_clock += 1;
    }

    /// Step 8.
    pub(super) fn cache_tokens<R>(&mut self, view: &View<I, A, R>) {
        if self.tier < view.tier {
            for token in &*view.tokens {
                if token.source == view.id && token.target != self.id {
                    self.cache(token);
                }
            }
        }
    }

    /// What the paper leaves open: explicit closing, receipts for early retirement, inherited desks.
    pub(super) fn our_steps<L: Ledger<Id = I, Amount = A>>(
        &mut self,
        ledger: &mut L,
        view: &View<I, A, L::Report>,
    ) {
        for name in &view.closed {
            self.tokens.retain(|token| !token.has_name(name));
            self.drop_cached(&name.target, |token| token.has_name(name));
        }
        self.note_holders(view);
        if let Phase::Active = self.phase {
            self.serve_inherited(ledger, view);
        }
    }

    pub(super) fn token_for(&self, target: &I) -> Option<&Token<I, A>> {
        find_token(&self.tokens, target)
    }

    /// What a handshake always is, and bytes from outside may not be.
    pub(super) fn is_sound(&self) -> bool {
        let own = |token: &Token<I, A>| {
            token.source == self.id && token.target != self.id && token.slot.source_clock < self.source_clock
        };
        self.source_clock < CLOCK_MAX
            && self.tokens.iter().all(own)
            && self.tokens.is_sorted_by(|one, next| one.target < next.target)
            && self.inherited().all(|(name, _)| *name != self.id)
    }

    /// Somebody else was seen under our name, or we run from an old copy of our state.
    fn refuse_twin<R>(&self, view: &View<I, A, R>) -> Result<(), Twin> {
        let itself = view.id == self.id
            && (view.source_clock > self.source_clock || view.target_clock > self.desk.target_clock);
        let slot = view.slot_for(&self.id).is_some_and(|slot| slot.source_clock > self.source_clock);
        // A cached token proves nothing: its maker may be anybody.
        let token = view.tokens.iter().any(|token| {
            token.source == self.id && token.slot.source_clock >= self.source_clock
                || token.source == view.id
                    && token.target == self.id
                    && token.slot.target_clock >= self.desk.target_clock
        });
        if itself || slot || token { Err(Twin) } else { Ok(()) }
    }

    /// What to send to a replica, unasked, with what the ledger reports to it. `wants_slot`: is there something
    /// of our own to hand over? In a cleaning view that is denied, so that it closes slots and opens none.
    #[inline]
    pub fn view<R>(&self, to: &Addressee<'_, I>, report: R, wants_slot: bool) -> View<I, A, R> {
        View {
            id: self.id.clone(),
            tier: self.tier,
            source_clock: self.source_clock,
            target_clock: self.desk.target_clock,
            wants_slot,
            slots: self.slots_for(to),
            tokens: self.tokens_for(to),
            report,
            floor: self.desk.floor(),
            closed: Vec::new(),
            to: to.id.clone(),
        }
    }

    /// The answer to a view that has been merged: our view, and which of the offered tokens are closed here.
    #[inline]
    pub fn reply_to<R>(&self, view: &View<I, A, R>, report: R, wants_slot: bool) -> View<I, A, R> {
        let to = Addressee { id: &view.id, tier: view.tier, stands_for: &[] };
        let mut reply = self.view(&to, report, wants_slot);
        reply.closed = self.closed_among(view);
        reply
    }

    #[inline]
    fn slots_for(&self, to: &Addressee<'_, I>) -> Few<(I, Slot)> {
        if self.tier < to.tier {
            return self.desk.slots.get(to.id).map(|&slot| (to.id.clone(), slot)).into_iter().collect();
        }
        if self.tier == to.tier && self.rules == Rules::Paper {
            // Only there to drop cached tokens, which our rules do by name.
            return self.desk.slots.iter().map(|(id, &slot)| (id.clone(), slot)).collect();
        }
        Few::new()
    }

    #[inline]
    fn tokens_for(&self, to: &Addressee<'_, I>) -> Few<Token<I, A>> {
        let mut tokens = Few::new();
        if self.tier > to.tier || self.rules == Rules::Paper {
            tokens.extend(self.tokens.iter().cloned());
        }
        let Some(office) = &self.office else { return tokens };
        if self.rules == Rules::Paper {
            tokens.extend(office.cached.iter().cloned());
            return tokens;
        }
        for name in std::iter::once(to.id).chain(to.stands_for.iter().filter(|&name| name != to.id)) {
            tokens.extend(office.cached.for_target(name).cloned());
        }
        if self.tier < to.tier {
            // The source learns that its token is cached here. None is among those above: a source has none
            // for itself, nor for a relay of its own or a higher tier.
            tokens.extend(office.cached.of_source(to.id).cloned());
        }
        tokens
    }

    /// Of the tokens that `view` offered, those whose slots here are closed. The sender of a token below the
    /// floor, of a cached one or of one for a desk that we inherited keeps it until it hears this.
    pub fn closed_among<R>(&self, view: &View<I, A, R>) -> Vec<TokenName<I>> {
        if self.rules == Rules::Paper {
            return Vec::new();
        }
        let closed = view.tokens.iter().filter(|token| {
            let clock = token.slot.target_clock;
            let inferred = token.source == view.id && token.target == self.id && clock >= self.desk.floor();
            !inferred && self.desk_of(&token.target).is_some_and(|desk| desk.is_closed(&token.source, clock))
        });
        closed.map(Token::name).collect()
    }
}

/// Bytes from outside may claim anything; what the steps rely on is checked here.
impl<'b, C, I: Id + Decode<'b, C>, A: Tally + Decode<'b, C>> Decode<'b, C> for Handshake<I, A> {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, minicbor::decode::Error> {
        #[derive(minicbor::Decode)]
        struct Parts<I: Id, A: Tally> {
            #[n(0)]
            id: I,
            #[n(1)]
            tier: u8,
            #[n(2)]
            rules: Rules,
            #[n(3)]
            source_clock: u64,
            #[n(4)]
            desk: Desk<I>,
            #[n(5)]
            tokens: Few<Token<I, A>>,
            #[n(6)]
            office: Option<Box<Office<I, A>>>,
            #[n(7)]
            phase: Phase<I, A>,
        }
        let Parts { id, tier, rules, source_clock, desk, tokens, office, phase } = Parts::decode(d, ctx)?;
        let handshake = Handshake { id, tier, rules, source_clock, desk, tokens, office, phase };
        if !handshake.is_sound() {
            return Err(minicbor::decode::Error::message("not the state of handoffs"));
        }
        Ok(handshake)
    }
}

/// To whom a view goes.
#[derive(Debug, Clone, Copy)]
pub struct Addressee<'a, I> {
    /// Its name.
    pub id: &'a I,
    /// Its tier.
    pub tier: u8,
    /// The retired relays whose heir it is: it takes what is meant for them.
    pub stands_for: &'a [I],
}

/// The token for this target.
pub(super) fn find_token<'a, I: Ord, A>(tokens: &'a [Token<I, A>], target: &I) -> Option<&'a Token<I, A>> {
    tokens.binary_search_by(|token| token.target.cmp(target)).ok().map(|place| &tokens[place])
}

/// The discarding of step 2, at the desk with this name.
pub(super) fn discard_slot<I: Id, A, R>(name: &I, desk: &mut Desk<I>, view: &View<I, A, R>) {
    let Some(slot) = desk.slots.get(&view.id) else { return };
    // A token that still fits was refused by the ledger; dropping its slot would lose it.
    let refused = |token: &Token<I, A>| token.target == *name && desk.fits(token);
    if view.source_clock > slot.source_clock && !view.tokens.iter().any(refused) {
        desk.slots.remove(&view.id);
    }
}

/// Has the sender, whose view this is, taken this token?
fn is_taken<I: Id, A, R>(token: &Token<I, A>, view: &View<I, A, R>) -> bool {
    token.target == view.id && view.says_taken(&token.source, token.slot.target_clock)
}
