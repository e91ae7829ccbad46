//! The counter that never sells more than there is.

use super::{Refused, UnknownPeer};
use crate::algebra::Twin;
use crate::{Id, Overflow};
use minicbor::decode::Error;
use minicbor::{Decode, Decoder, Encode};
use std::collections::BTreeMap;

/// There is less left here than was asked for. State unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{asked} were asked for, and this replica has only {left} left; nothing was taken")]
pub struct OutOfQuota {
    /// How much was asked for.
    pub asked: u64,
    /// How much this replica may still spend or pass on.
    pub left: u64,
}

/// Quota that cannot be passed on. State unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TransferRefused {
    /// To a replica that is not a peer: nobody would ever receive it.
    #[error(transparent)]
    UnknownPeer(#[from] UnknownPeer),
    /// More than there is.
    #[error(transparent)]
    OutOfQuota(#[from] OutOfQuota),
    /// All that was ever passed to this peer would not fit into 64 bits.
    #[error(transparent)]
    Overflow(#[from] Overflow),
}

/// "I have passed you this much in total."
///
/// A total that only grows may be lost, repeated or overtaken; the receiver keeps the largest it has heard.
/// It can be made again at any time with [`Escrow::transfer_for`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Transfer<I: Id> {
    /// Who passed it on.
    #[n(0)]
    pub from: I,
    /// To whom. Nobody else may take it.
    #[n(1)]
    pub to: I,
    /// The sum of all that was ever passed from the one to the other.
    #[n(2)]
    pub total: u64,
}

/// What has moved between this replica and one peer, ever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Encode, Decode)]
struct Moved {
    #[n(0)]
    passed: u64,
    #[n(1)]
    received: u64,
}

/// A replica of a stock that must not be oversold, partitioned or not.
///
/// The stock is split into quotas. A replica spends from its own quota alone, so it can decide by itself,
/// and passes on what it can spare. Over all replicas, quota + sold + what is on its way is the whole stock
/// at any instant.
///
/// ```
/// use quipu_crdt::classic::Escrow;
/// let [mut a, mut b] = Escrow::split(100, &["A", "B"])?;
/// a.prepare_spend(40)?.apply();
/// assert!(a.prepare_spend(40).is_err(), "refused rather than oversold");
///
/// let message = b.prepare_transfer(&"A", 30)?.apply();
/// a.receive(&message)?;
/// a.receive(&message)?; // Delivered twice, received once.
/// a.prepare_spend(40)?.apply();
/// assert_eq!((a.quota(), a.sold(), b.quota()), (0, 80, 20));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode)]
pub struct Escrow<I: Id> {
    #[n(0)]
    id: I,
    /// What this replica was given at the start.
    #[n(1)]
    granted: u64,
    #[n(2)]
    sold: u64,
    #[n(3)]
    moved: BTreeMap<I, Moved>,
}

impl<I: Id> Escrow<I> {
    /// A replica that starts with this quota, and has no peers.
    pub fn new(id: I, quota: u64) -> Self {
        Escrow { id, granted: quota, sold: 0, moved: BTreeMap::new() }
    }

    /// Replicas that share `limit` as evenly as can be, all peers of each other. Two of one name are refused.
    pub fn split<const N: usize>(limit: u64, ids: &[I; N]) -> Result<[Self; N], Twin> {
        let count = N as u64;
        let mut shares = (0..count).map(|index| limit / count + u64::from(index < limit % count));
        let mut replicas = ids.clone().map(|id| Escrow::new(id, shares.next().unwrap_or(0)));
        for (index, replica) in replicas.iter_mut().enumerate() {
            let others = ids.iter().enumerate().filter(|&(other, _)| other != index);
            for (_, peer) in others {
                replica.add_peer(peer.clone())?;
            }
        }
        Ok(replicas)
    }

    /// The name of this replica.
    pub fn id(&self) -> &I {
        &self.id
    }

    /// Declares a peer; one that is declared already stays as it is. A peer with our own name is refused.
    /// Peers are never forgotten: without the totals an old message would be received again.
    pub fn add_peer(&mut self, peer: I) -> Result<(), Twin> {
        if peer == self.id {
            return Err(Twin);
        }
        self.moved.entry(peer).or_default();
        Ok(())
    }

    /// How much this replica may still spend or pass on.
    pub fn quota(&self) -> u64 {
        let quota = self.share() - i128::from(self.sold);
        u64::try_from(quota).expect("what was passed on and sold was there, and receive refuses too much")
    }

    /// How much this replica has sold.
    pub fn sold(&self) -> u64 {
        self.sold
    }

    /// All that was ever passed to this peer.
    pub fn passed_to(&self, peer: &I) -> u64 {
        self.moved.get(peer).map_or(0, |moved| moved.passed)
    }

    /// All that was ever received from this peer. What it passed beyond that is on its way.
    pub fn received_from(&self, peer: &I) -> u64 {
        self.moved.get(peer).map_or(0, |moved| moved.received)
    }

    /// Checks that this much may be spent. Nothing is spent before it is applied.
    pub fn prepare_spend(&mut self, amount: u64) -> Result<Spend<'_, I>, OutOfQuota> {
        self.check_quota(amount)?;
        Ok(Spend { escrow: self, amount })
    }

    /// Checks that this much may be passed to a peer. Nothing is passed before it is applied.
    pub fn prepare_transfer(&mut self, to: &I, amount: u64) -> Result<Pass<'_, I>, TransferRefused> {
        let moved = self.moved.get(to).ok_or(UnknownPeer)?;
        let total = moved.passed.checked_add(amount).ok_or(Overflow)?;
        self.check_quota(amount)?;
        let transfer = Transfer { from: self.id.clone(), to: to.clone(), total };
        Ok(Pass { escrow: self, transfer })
    }

    /// The message that tells this peer all that was passed to it, to be sent as often as one likes. `None`
    /// as long as there is nothing to tell.
    pub fn transfer_for(&self, peer: &I) -> Result<Option<Transfer<I>>, UnknownPeer> {
        let total = self.moved.get(peer).ok_or(UnknownPeer)?.passed;
        let transfer = Transfer { from: self.id.clone(), to: peer.clone(), total };
        Ok((total > 0).then_some(transfer))
    }

    /// Receives what was passed to us and not received before.
    pub fn receive(&mut self, transfer: &Transfer<I>) -> Result<(), Refused> {
        if transfer.to != self.id {
            return Err(Refused::NotForUs);
        }
        let received = self.moved.get(&transfer.from).ok_or(UnknownPeer)?.received;
        let more = transfer.total.saturating_sub(received);
        if self.share() + i128::from(more) > i128::from(u64::MAX) {
            return Err(Overflow.into());
        }
        self.moved.entry(transfer.from.clone()).or_default().received += more;
        Ok(())
    }

    fn check_quota(&self, asked: u64) -> Result<(), OutOfQuota> {
        let left = self.quota();
        if asked > left { Err(OutOfQuota { asked, left }) } else { Ok(()) }
    }

    /// The part of the stock that is here, sold or not: at least what was sold, and at most 64 bits.
    fn share(&self) -> i128 {
        let balance = |moved: &Moved| i128::from(moved.received) - i128::from(moved.passed);
        i128::from(self.granted) + self.moved.values().map(balance).sum::<i128>()
    }

    fn is_valid(&self) -> bool {
        let allowed = i128::from(self.sold)..=i128::from(u64::MAX);
        allowed.contains(&self.share()) && !self.moved.contains_key(&self.id)
    }
}

/// A sale that is allowed. It holds on to its replica, so it is still allowed when it is applied.
#[derive(Debug)]
#[must_use = "nothing is spent before it is applied"]
pub struct Spend<'a, I: Id> {
    escrow: &'a mut Escrow<I>,
    amount: u64,
}

impl<I: Id> Spend<'_, I> {
    /// Spends it.
    pub fn apply(self) {
        self.escrow.sold += self.amount; // At most the share, which fits.
    }
}

/// A transfer that is allowed. It holds on to its replica, so it is still allowed when it is applied.
#[derive(Debug)]
#[must_use = "nothing is passed on before it is applied"]
pub struct Pass<'a, I: Id> {
    escrow: &'a mut Escrow<I>,
    transfer: Transfer<I>,
}

impl<I: Id> Pass<'_, I> {
    /// Takes it from our quota, and returns the message that brings it to the peer.
    #[must_use = "the quota is on its way until the peer receives this, or a later message"]
    pub fn apply(self) -> Transfer<I> {
        self.escrow.moved.entry(self.transfer.to.clone()).or_default().passed = self.transfer.total;
        self.transfer
    }
}

impl<'b, C, I: Id + Decode<'b, C>> Decode<'b, C> for Escrow<I> {
    fn decode(decoder: &mut Decoder<'b>, context: &mut C) -> Result<Self, Error> {
        #[derive(Decode)]
        struct Wire<I: Id> {
            #[n(0)]
            id: I,
            #[n(1)]
            granted: u64,
            #[n(2)]
            sold: u64,
            #[n(3)]
            moved: BTreeMap<I, Moved>,
        }
        let Wire { id, granted, sold, moved } = Wire::decode(decoder, context)?;
        let decoded = Escrow { id, granted, sold, moved };
        if !decoded.is_valid() {
            return Err(Error::message("a replica that has spent more than it had"));
        }
        Ok(decoded)
    }
}
