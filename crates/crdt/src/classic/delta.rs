//! The counter that sends each peer only what that peer lacks.

use super::{PnCounter, Refused, Slots, UnknownPeer};
use crate::algebra::Twin;
use crate::{Id, Merge, Overflow, Pn};
use minicbor::decode::Error;
use minicbor::{Decode, Decoder, Encode};
use std::collections::BTreeMap;

/// What the replicas of a [`DeltaPnCounter`] tell each other.
///
/// Either message says the same: the sender knows *at least* these slots. "A is at least 37" stays true for
/// ever, so it may be lost, repeated or overtaken; "add 1 to A" would be lost or counted twice.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub enum DeltaMessage<I: Id> {
    /// News for a peer, to be answered by an acknowledgement. Sent again until that arrives.
    #[n(0)]
    Delta {
        /// Who knows this.
        #[n(0)]
        from: I,
        /// The slots of which the peer has not acknowledged all.
        #[n(1)]
        slots: Slots<I, Pn>,
    },
    /// The answer: the slots of the delta as they now stand at the receiver. Not answered.
    #[n(1)]
    Acknowledgement {
        /// Who knows this.
        #[n(0)]
        from: I,
        /// The slots that the delta was about.
        #[n(1)]
        slots: Slots<I, Pn>,
    },
}

/// A [`PnCounter`] that sends each peer only the slots of which that peer has not acknowledged all.
///
/// What counts is what a peer has *acknowledged*, not what it was sent: a delta that was sent may be lost,
/// and if nothing changed afterwards, nothing would ever repair it.
///
/// ```
/// use quipu_crdt::classic::DeltaPnCounter;
/// let (mut a, mut b) = (DeltaPnCounter::new("A"), DeltaPnCounter::new("B"));
/// a.add_peer("B")?;
/// b.add_peer("A")?;
/// a.inc(37)?;
///
/// let lost = a.delta_for(&"B")?.expect("B lacks 37");
/// let again = a.delta_for(&"B")?.expect("B still lacks 37");
/// assert_eq!(lost, again);
///
/// let answer = b.receive(&again)?.expect("an acknowledgement");
/// a.receive(&answer)?;
/// assert_eq!(a.delta_for(&"B")?, None);
/// assert_eq!(b.value(), 37);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode)]
pub struct DeltaPnCounter<I: Id> {
    #[n(0)]
    counter: PnCounter<I>,
    /// What each peer is known to know.
    #[n(1)]
    acknowledged: BTreeMap<I, Slots<I, Pn>>,
}

impl<I: Id> DeltaPnCounter<I> {
    /// A replica that has counted nothing yet and has no peers.
    pub fn new(id: I) -> Self {
        DeltaPnCounter { counter: PnCounter::new(id), acknowledged: BTreeMap::new() }
    }

    /// The name of this replica.
    pub fn id(&self) -> &I {
        self.counter.id()
    }

    /// Declares a peer; one that is declared already stays as it is. A peer with our own name is refused.
    pub fn add_peer(&mut self, peer: I) -> Result<(), Twin> {
        if peer == *self.id() {
            return Err(Twin);
        }
        self.acknowledged.entry(peer).or_default();
        Ok(())
    }

    /// Forgets a peer, but not what it counted. From now on its messages are refused.
    pub fn remove_peer(&mut self, peer: &I) -> Result<(), UnknownPeer> {
        self.acknowledged.remove(peer).map(drop).ok_or(UnknownPeer)
    }

    /// Counts `amount` up.
    pub fn inc(&mut self, amount: u64) -> Result<(), Overflow> {
        self.counter.inc(amount)
    }

    /// Counts `amount` down; the value may become negative.
    pub fn dec(&mut self, amount: u64) -> Result<(), Overflow> {
        self.counter.dec(amount)
    }

    /// What all replicas have added less what they have subtracted, as far as is known here.
    pub fn value(&self) -> i128 {
        self.counter.value()
    }

    /// All that is known here.
    pub fn slots(&self) -> &Slots<I, Pn> {
        self.counter.slots()
    }

    /// What to send to this peer now; `None` when it has acknowledged everything.
    pub fn delta_for(&self, peer: &I) -> Result<Option<DeltaMessage<I>>, UnknownPeer> {
        let acknowledged = self.acknowledged.get(peer).ok_or(UnknownPeer)?;
        let slots = self.slots().beyond(acknowledged);
        if slots.is_empty() {
            return Ok(None);
        }
        Ok(Some(DeltaMessage::Delta { from: self.id().clone(), slots }))
    }

    /// Takes in a message and returns the answer to send back to its sender, if there is one.
    pub fn receive(&mut self, message: &DeltaMessage<I>) -> Result<Option<DeltaMessage<I>>, Refused> {
        let (DeltaMessage::Delta { from, slots } | DeltaMessage::Acknowledgement { from, slots }) = message;
        let acknowledged = self.acknowledged.get_mut(from).ok_or(UnknownPeer)?;
        self.counter.try_merge(slots)?;
        // Whoever tells us something knows it: it need not be told back.
        acknowledged.merge(slots);
        Ok(match message {
            // Answered even if it is old: the first answer may have been lost.
            DeltaMessage::Delta { .. } => Some(self.acknowledgement_of(slots)),
            DeltaMessage::Acknowledgement { .. } => None,
        })
    }

    fn acknowledgement_of(&self, slots: &Slots<I, Pn>) -> DeltaMessage<I> {
        DeltaMessage::Acknowledgement { from: self.id().clone(), slots: self.slots().restricted_to(slots) }
    }

    /// Nobody knows more of our slot than we do, and we are no peer of ours.
    fn is_valid(&self) -> bool {
        let id = self.id();
        let known_of_us = |known: &Slots<I, Pn>| self.slots().covers(id, &known.of(id));
        !self.acknowledged.contains_key(id) && self.acknowledged.values().all(known_of_us)
    }
}

impl<'b, C, I: Id + Decode<'b, C>> Decode<'b, C> for DeltaPnCounter<I> {
    fn decode(decoder: &mut Decoder<'b>, context: &mut C) -> Result<Self, Error> {
        #[derive(Decode)]
        struct Wire<I: Id> {
            #[n(0)]
            counter: PnCounter<I>,
            #[n(1)]
            acknowledged: BTreeMap<I, Slots<I, Pn>>,
        }
        let Wire { counter, acknowledged } = Wire::decode(decoder, context)?;
        let decoded = DeltaPnCounter { counter, acknowledged };
        if !decoded.is_valid() {
            return Err(Error::message("a peer that knows more of this replica than it does itself"));
        }
        Ok(decoded)
    }
}
