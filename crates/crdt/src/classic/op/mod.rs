//! The counter that sends its operations.
//!
//! The outbox keeps what others may still lack of us; `heard` is what was counted of them.

mod heard;
mod outbox;

pub use heard::OUT_OF_ORDER_OPERATIONS_MAX;
pub use outbox::OUTBOX_OPERATIONS_MAX;

use super::{Refused, UnknownPeer};
use crate::algebra::Twin;
use crate::{Id, Overflow, Pn};
use heard::Heard;
use minicbor::decode::Error;
use minicbor::{Decode, Decoder, Encode};
use outbox::Outbox;
use std::collections::BTreeMap;

/// What the replicas of an [`OpCounter`] tell each other.
///
/// A replica sends each of its operations to every peer, again and again until that peer acknowledges it.
/// The receiver counts it the first time. Nobody passes on the operations of others.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub enum OpMessage<I: Id> {
    /// One operation, "+3" or "−1". Answered by an acknowledgement.
    #[n(0)]
    Operation {
        /// Who counted.
        #[n(0)]
        source: I,
        /// Its number among the operations of the source, from 1 and without holes.
        #[n(1)]
        sequence: u64,
        /// By how much.
        #[n(2)]
        amount: i64,
    },
    /// All early operations in one, for a peer that was away for long or is new. Answered likewise.
    #[n(1)]
    Summary {
        /// Who counted.
        #[n(0)]
        source: I,
        /// Stands for the operations 1 to this number.
        #[n(1)]
        until: u64,
        /// Their sum.
        #[n(2)]
        sum: Pn,
    },
    /// `from` has counted *every* operation of `source` up to a number. Those it counted beyond a gap are
    /// not mentioned: acknowledging them by the largest number would acknowledge the missing ones too.
    #[n(2)]
    Acknowledgement {
        /// Who has counted them.
        #[n(0)]
        from: I,
        /// Whose operations they are.
        #[n(1)]
        source: I,
        /// The last of them.
        #[n(2)]
        until: u64,
    },
}

/// A replica of a counter that sends operations instead of states.
///
/// An operation that arrives twice must count once, so each has a number, and a replica remembers of each
/// peer up to where it has counted everything, plus what it counted beyond a gap. That memory shrinks back
/// as gaps fill.
///
/// Operations come from their source only. A peer that is removed while others lack some of its operations
/// leaves them apart for ever; take it out of service first.
///
/// ```
/// use quipu_crdt::classic::OpCounter;
/// let (mut a, mut b) = (OpCounter::new("A"), OpCounter::new("B"));
/// a.add_peer("B")?;
/// b.add_peer("A")?;
/// let plus_three = a.add(3)?.expect("a message");
/// b.receive(&plus_three)?;
/// b.receive(&plus_three)?; // Delivered twice, counted once.
/// assert_eq!(b.value(), 3);
///
/// // No acknowledgement arrived, so A sends it again.
/// for message in a.unacknowledged(&"B")? {
///     let answer = b.receive(&message)?.expect("an acknowledgement");
///     a.receive(&answer)?;
/// }
/// assert!(a.unacknowledged(&"B")?.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode)]
pub struct OpCounter<I: Id> {
    #[n(0)]
    id: I,
    #[n(1)]
    outbox: Outbox,
    /// Up to which of our operations each peer has counted all.
    #[n(2)]
    acknowledged: BTreeMap<I, u64>,
    /// What was counted of each peer, and of those that were peers.
    #[n(3)]
    heard: BTreeMap<I, Heard>,
}

impl<I: Id> OpCounter<I> {
    /// A replica that has counted nothing yet and has no peers.
    pub fn new(id: I) -> Self {
        OpCounter { id, outbox: Outbox::default(), acknowledged: BTreeMap::new(), heard: BTreeMap::new() }
    }

    /// The name of this replica.
    pub fn id(&self) -> &I {
        &self.id
    }

    /// Declares a peer, at any time; one that is declared already stays as it is. A peer with our own name
    /// is refused.
    pub fn add_peer(&mut self, peer: I) -> Result<(), Twin> {
        if peer == self.id {
            return Err(Twin);
        }
        self.acknowledged.entry(peer).or_default();
        Ok(())
    }

    /// Stops sending to a peer, but keeps what it counted. From now on its messages are refused.
    pub fn remove_peer(&mut self, peer: &I) -> Result<(), UnknownPeer> {
        self.acknowledged.remove(peer).ok_or(UnknownPeer)?;
        self.fold_acknowledged();
        Ok(())
    }

    /// Counts up or down, and returns the message to send to every peer. Zero needs none.
    pub fn add(&mut self, amount: i64) -> Result<Option<OpMessage<I>>, Overflow> {
        if amount == 0 {
            return Ok(None);
        }
        let sequence = self.outbox.push(amount)?;
        if self.acknowledged.is_empty() {
            self.fold_acknowledged();
        }
        Ok(Some(OpMessage::Operation { source: self.id.clone(), sequence, amount }))
    }

    /// The sum of all operations that were counted here.
    pub fn value(&self) -> i128 {
        self.outbox.sum().value() + self.heard.values().map(Heard::value).sum::<i128>()
    }

    /// What to send to this peer again: at most [`OUTBOX_OPERATIONS_MAX`] operations and a summary.
    pub fn unacknowledged(&self, peer: &I) -> Result<Vec<OpMessage<I>>, UnknownPeer> {
        let acknowledged = *self.acknowledged.get(peer).ok_or(UnknownPeer)?;
        let source = || self.id.clone();
        let summary = self.outbox.summary_after(acknowledged);
        let summary = summary.map(|(until, sum)| OpMessage::Summary { source: source(), until, sum });
        let pending = self.outbox.pending_after(acknowledged);
        let pending =
            pending.map(|(sequence, amount)| OpMessage::Operation { source: source(), sequence, amount });
        Ok(summary.into_iter().chain(pending).collect())
    }

    /// How many own operations are remembered one by one, because a peer has not acknowledged them.
    pub fn pending(&self) -> usize {
        self.outbox.pending()
    }

    /// How many operations of others are remembered one by one, because there is a gap before them.
    pub fn out_of_order(&self) -> usize {
        self.heard.values().map(Heard::early).sum()
    }

    /// Takes in a message and returns the answer to send back to its sender, if there is one.
    pub fn receive(&mut self, message: &OpMessage<I>) -> Result<Option<OpMessage<I>>, Refused> {
        match message {
            OpMessage::Operation { source, sequence, amount } => {
                self.heard_of(source, *sequence)?.take(*sequence, *amount);
                Ok(Some(self.acknowledgement_to(source)))
            }
            OpMessage::Summary { source, until, sum } => {
                self.heard_of(source, *until)?.take_summary(*until, *sum);
                Ok(Some(self.acknowledgement_to(source)))
            }
            OpMessage::Acknowledgement { from, source, until } => {
                self.take_acknowledgement(from, source, *until)?;
                Ok(None)
            }
        }
    }

    /// What was counted of this source, if it may send us its operations up to this number.
    fn heard_of(&mut self, source: &I, number: u64) -> Result<&mut Heard, Refused> {
        if *source == self.id {
            let is_ours = number <= self.outbox.last();
            return Err(if is_ours { Refused::NotForUs } else { Twin.into() });
        }
        if !self.acknowledged.contains_key(source) {
            return Err(UnknownPeer.into());
        }
        Ok(self.heard.entry(source.clone()).or_default())
    }

    fn acknowledgement_to(&self, source: &I) -> OpMessage<I> {
        let until = self.heard.get(source).map_or(0, Heard::mark);
        OpMessage::Acknowledgement { from: self.id.clone(), source: source.clone(), until }
    }

    fn take_acknowledgement(&mut self, from: &I, source: &I, until: u64) -> Result<(), Refused> {
        if *source != self.id {
            return Err(Refused::NotForUs);
        }
        let acknowledged = self.acknowledged.get_mut(from).ok_or(UnknownPeer)?;
        if until > self.outbox.last() {
            return Err(Twin.into());
        }
        *acknowledged = until.max(*acknowledged);
        self.fold_acknowledged();
        Ok(())
    }

    /// What every peer has counted need not be kept one by one.
    fn fold_acknowledged(&mut self) {
        let by_all = self.acknowledged.values().min().copied();
        self.outbox.fold_until(by_all.unwrap_or(self.outbox.last()));
    }

    fn is_valid(&self) -> bool {
        let last = self.outbox.last();
        !self.acknowledged.contains_key(&self.id)
            && !self.heard.contains_key(&self.id)
            && self.acknowledged.values().all(|&until| until <= last)
    }
}

impl<'b, C, I: Id + Decode<'b, C>> Decode<'b, C> for OpCounter<I> {
    fn decode(decoder: &mut Decoder<'b>, context: &mut C) -> Result<Self, Error> {
        #[derive(Decode)]
        struct Wire<I: Id> {
            #[n(0)]
            id: I,
            #[n(1)]
            outbox: Outbox,
            #[n(2)]
            acknowledged: BTreeMap<I, u64>,
            #[n(3)]
            heard: BTreeMap<I, Heard>,
        }
        let Wire { id, outbox, acknowledged, heard } = Wire::decode(decoder, context)?;
        let decoded = OpCounter { id, outbox, acknowledged, heard };
        if !decoded.is_valid() {
            return Err(Error::message("a peer that has counted operations that were never made"));
        }
        Ok(decoded)
    }
}
