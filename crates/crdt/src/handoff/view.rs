//! What one replica sends to another.

use super::slot::{Slot, Token, TokenName};
use minicbor::{Decode, Decoder, Encode, Encoder};
use smallvec::SmallVec;
use std::ops::Deref;

/// The part of a replica's state that its addressee needs: the one message of the handoff protocol.
///
/// Views may be lost, repeated, reordered and merged any time later; each speaks of a state that its sender
/// was in, which must have been durable when it was sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, minicbor::Encode, minicbor::Decode)]
pub struct View<I, A, R> {
    /// Who sends.
    #[n(0)]
    pub(super) id: I,
    /// Its tier.
    #[n(1)]
    pub(super) tier: u8,
    /// Its clock as a source.
    #[n(2)]
    pub(super) source_clock: u64,
    /// Its clock as a target.
    #[n(3)]
    pub(super) target_clock: u64,
    /// Has it something of its own to hand over? Never so in a cleaning view.
    #[n(4)]
    pub(super) wants_slot: bool,
    /// Its slot for the addressee, if the addressee is of a higher tier.
    #[n(5)]
    pub(super) slots: Few<(I, Slot)>,
    /// Its own tokens, if the addressee is of a lower tier; cached tokens for or from the addressee.
    #[n(6)]
    pub(super) tokens: Few<Token<I, A>>,
    /// What its ledger tells.
    #[n(7)]
    pub(super) report: R,
    /// Below this target clock its missing slots may have been folded.
    #[n(8)]
    pub(super) floor: u64,
    /// Tokens that the addressee offered and whose slots are closed for good.
    #[n(9)]
    pub(super) closed: Vec<TokenName<I>>,
    /// For whom it is. What is missing in it is missing only for this one.
    #[n(10)]
    pub(super) to: I,
}

impl<I: PartialEq, A, R> View<I, A, R> {
    /// Who sends.
    pub fn id(&self) -> &I {
        &self.id
    }

    /// For whom it is.
    pub fn to(&self) -> &I {
        &self.to
    }

    /// Leaves only what a replica without clients can truly say: its own tokens and its wish for a slot. For
    /// senders that are not trusted to speak for others, such as edges.
    pub fn restrict_to_a_leaf(&mut self)
    where
        I: Clone,
    {
        let id = self.id.clone();
        self.tokens.retain(|token| token.source == id);
        self.slots = Few::new();
        self.closed.clear();
    }

    /// Takes the wish for a slot out: what is open may be closed, and nothing is opened.
    pub fn want_no_slot(&mut self) {
        self.wants_slot = false;
    }

    /// Wrong: says that no slot was ever folded. For tests that see this caught.
    #[cfg(feature = "testing")]
    pub fn tell_no_floor(&mut self) {
        self.floor = 0;
    }

    /// Leaves out tokens of which it is not to be said yet that their slots are closed.
    pub fn retain_closed(&mut self, keep: impl Fn(&TokenName<I>) -> bool) {
        self.closed.retain(keep);
    }

    /// Says also of these tokens that their slots are closed, as was heard from those who have opened them.
    pub fn say_closed(&mut self, closed: impl IntoIterator<Item = TokenName<I>>) {
        self.closed.extend(closed);
    }

    /// Leaves out copies of other replicas' tokens of which `keep` is false. Who has them offers them again, so
    /// a message can be kept short; the sender's own tokens are never left out.
    pub fn retain_copies(&mut self, mut keep: impl FnMut(&Token<I, A>) -> bool)
    where
        I: Clone,
    {
        let id = self.id.clone();
        self.tokens.retain(|token| token.source == id || keep(token));
    }

    /// The tier of the sender.
    pub fn tier(&self) -> u8 {
        self.tier
    }

    /// What its ledger tells.
    pub fn report(&self) -> &R {
        &self.report
    }

    /// The tokens that it carries.
    pub fn tokens(&self) -> &[Token<I, A>] {
        &self.tokens
    }

    /// Has the sender something of its own to hand over?
    pub fn wants_slot(&self) -> bool {
        self.wants_slot
    }

    /// Does it tell of an open slot for `source`?
    pub fn has_slot_for(&self, source: &I) -> bool {
        self.slot_for(source).is_some()
    }

    /// Does it say to `source`, by the slot that it shows or does not show, that the token for the slot with this clock was taken?
    pub fn says_taken(&self, source: &I, target_clock: u64) -> bool {
        let next = self.slot_for(source).map_or(self.target_clock, |slot| slot.target_clock);
        target_clock >= self.floor && next > target_clock
    }

    pub(super) fn slot_for(&self, source: &I) -> Option<Slot> {
        self.slots.iter().find(|(id, _)| id == source).map(|&(_, slot)| slot)
    }
}

/// A list that is mostly empty or of one element, and then needs no memory of its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Few<T>(SmallVec<[T; 1]>);

impl<T> Few<T> {
    pub(super) fn new() -> Self {
        Few(SmallVec::new())
    }

    pub(super) fn insert(&mut self, place: usize, element: T) {
        self.0.insert(place, element);
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.0.retain(|element| keep(element));
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> Extend<T> for Few<T> {
    fn extend<E: IntoIterator<Item = T>>(&mut self, elements: E) {
        self.0.extend(elements);
    }
}

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<E: IntoIterator<Item = T>>(elements: E) -> Self {
        Few(elements.into_iter().collect())
    }
}

impl<C, T: Encode<C>> Encode<C> for Few<T> {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut Encoder<W>,
        ctx: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        self.0.as_slice().encode(e, ctx)
    }
}

impl<'b, C, T: Decode<'b, C>> Decode<'b, C> for Few<T> {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, minicbor::decode::Error> {
        d.array_iter_with(ctx)?.collect()
    }
}
