//! How replicas leave: early, with a notice, or, for a relay, by handing its estate to an heir.
//!
//! The paper outlines this in section 7.4; what must hold for it to be exact is written on each function.

use super::handshake::{Handshake, find_token};
use super::notice::Notice;
use super::slot::{Slot, Token};
use super::view::View;
use crate::Id;
use crate::algebra::Tally;
use std::collections::BTreeSet;

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

/// The servers that were seen to hold a copy of one of our tokens.
#[derive(Debug, Clone, PartialEq, Eq, Hash, minicbor::Encode, minicbor::Decode)]
pub(super) struct Holders<I: Ord> {
    /// The slot of the token: another token for the same target is another matter.
    #[n(0)]
    slot: Slot,
    #[n(1)]
    servers: BTreeSet<I>,
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
    /// Others rely on what is kept here: a relay leaves by stopping and naming an heir.
    #[error("others rely on slots, tokens or notices kept here; stop it and name an heir instead")]
    ServesOthers,
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
            let is_ours = seen.source == self.id;
            if is_ours && self.token_for(&seen.target).is_some_and(|own| own.slot == seen.slot) {
                // Of an earlier token for this target nothing is left: it was forgotten with that token.
                let fresh = || Holders { slot: seen.slot, servers: BTreeSet::new() };
                let holders = self.office().holders.entry(seen.target.clone()).or_insert_with(fresh);
                holders.servers.insert(view.id.clone());
            }
        }
        if self.office.as_ref().is_some_and(|office| !office.holders.is_empty()) {
            self.forget_holders();
        }
    }

    /// Forgets who holds tokens that are no more.
    fn forget_holders(&mut self) {
        let Handshake { office: Some(office), tokens, .. } = self else { return };
        office
            .holders
            .retain(|target, held| find_token(tokens, target).is_some_and(|own| own.slot == held.slot));
        self.tidy();
    }

    /// May this replica stop for good, leaving its tokens to the servers that cached them?
    ///
    /// `has_route(holder, target)`: does this server deliver to that target, or to its heir? Without a route a
    /// cached token is kept for ever and counted never.
    pub fn may_leave_early(&self, own_is_zero: bool, has_route: impl Fn(&I, &I) -> bool) -> bool {
        let delivered = |token: &Token<I, A>| {
            let held = self.office.as_ref().and_then(|office| office.holders.get(&token.target));
            held.is_some_and(|held| {
                held.slot == token.slot && held.servers.iter().any(|server| has_route(server, &token.target))
            })
        };
        own_is_zero && self.serves_nobody() && self.tokens.iter().all(delivered)
    }
}
