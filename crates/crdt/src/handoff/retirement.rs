//! How replicas leave: early, with a notice, or, for a relay, by handing its estate to an heir.
//!
//! The paper outlines this in section 7.4; what must hold for it to be exact is written on each function.

use super::handshake::Handshake;
use super::notice::Notice;
use super::slot::{Slot, Token};
use super::view::View;
use crate::Id;
use crate::algebra::Tally;

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

impl<I: Id, A: Tally> Handshake<I, A> {
    /// Does it still open slots and count?
    pub fn is_active(&self) -> bool {
        self.phase == Phase::Active
    }

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
}
