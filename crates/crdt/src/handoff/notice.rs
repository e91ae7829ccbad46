//! A client's last words, and how servers act on them.

use super::handshake::Handshake;
use super::ledger::Ledger;
use super::retirement::{Phase, RetireError};
use super::slot::Token;
use crate::Id;
use crate::algebra::Tally;
use std::collections::BTreeSet;

/// The last words of a client: which of its slots will never be used, and all tokens that still may be.
///
/// It is one value, stored and passed on whole: a server that dropped slots on a notice whose tokens were
/// still on another path would lose them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, minicbor::Encode, minicbor::Decode)]
pub struct Notice<I, A> {
    /// Who leaves.
    #[n(0)]
    pub(super) client: I,
    /// Its last source clock: slots with an older one are stale, once its tokens have been tried.
    #[n(1)]
    pub(super) source_clock: u64,
    /// All tokens that it held.
    #[n(2)]
    pub(super) tokens: Vec<Token<I, A>>,
    /// The servers it used, each of which may hold a slot for it.
    #[n(3)]
    pub(super) servers: Vec<I>,
}

impl<I, A> Notice<I, A> {
    /// Who leaves.
    pub fn client(&self) -> &I {
        &self.client
    }

    /// The servers that have to hear of it.
    pub fn servers(&self) -> &[I] {
        &self.servers
    }

    /// The tokens that it holds.
    pub fn tokens(&self) -> &[Token<I, A>] {
        &self.tokens
    }
}

/// A notice and the servers that have not confirmed it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, minicbor::Encode, minicbor::Decode)]
pub(super) struct KeptNotice<I: Ord, A> {
    #[n(0)]
    pub(super) notice: Notice<I, A>,
    #[n(1)]
    pub(super) pending: BTreeSet<I>,
}

/// That one server has acted on the notice of one client.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, minicbor::Encode, minicbor::Decode)]
pub struct NoticeDone<I> {
    /// Whose notice.
    #[n(0)]
    pub client: I,
    /// The server, or the retired relay for which its heir answers.
    #[n(1)]
    pub server: I,
}

impl<I: Id, A: Tally> Handshake<I, A> {
    /// Ends counting here and writes the notice, which is the same from then on. The replica may disappear
    /// once a server that reaches all of `servers` has confirmed to [keep](Self::keep_notice) it.
    pub fn retire(
        &mut self,
        own_is_zero: bool,
        servers: impl IntoIterator<Item = I>,
    ) -> Result<&Notice<I, A>, RetireError> {
        match self.phase {
            _ if self.tier == 0 => return Err(RetireError::Permanent),
            Phase::Active if !own_is_zero => return Err(RetireError::NotHandedOver),
            Phase::Active if !self.serves_nobody() => return Err(RetireError::ServesOthers),
            Phase::Active => {
                let mut servers: BTreeSet<I> = servers.into_iter().collect();
                servers.extend(self.tokens.iter().map(|token| token.target.clone()));
                self.phase = Phase::Leaving(Box::new(Notice {
                    client: self.id.clone(),
                    source_clock: self.source_clock,
                    tokens: self.tokens.to_vec(),
                    servers: servers.into_iter().collect(),
                }));
            }
            Phase::Leaving(_) => {}
            Phase::Stopped { .. } | Phase::Bequeathed { .. } => return Err(RetireError::Leaving),
        }
        match &self.phase {
            Phase::Leaving(notice) => Ok(notice),
            _ => unreachable!("the phase was set above"),
        }
    }

    /// The notice of a replica that [retires](Self::retire).
    pub fn last_words(&self) -> Option<&Notice<I, A>> {
        match &self.phase {
            Phase::Leaving(notice) => Some(notice),
            Phase::Active | Phase::Stopped { .. } | Phase::Bequeathed { .. } => None,
        }
    }

    /// Acts on a notice and keeps it until all servers that it names have acted on it too. False if this
    /// replica is itself about to leave; then nothing was done.
    pub fn keep_notice<L: Ledger<Id = I, Amount = A>>(
        &mut self,
        ledger: &mut L,
        notice: &Notice<I, A>,
    ) -> bool {
        let Phase::Active = self.phase else { return false };
        let mut pending: BTreeSet<I> = notice.servers.iter().cloned().collect();
        for done in self.act_on_notice(ledger, notice) {
            pending.remove(&done.server);
        }
        if !pending.is_empty() {
            let kept = KeptNotice { notice: notice.clone(), pending };
            self.office().notices.entry(notice.client.clone()).or_insert(kept);
        }
        true
    }

    /// Acts on a notice that another server passes on: tries its tokens, then drops stale slots, in this
    /// order. Returns for which of the named servers that is done; for a replica about to leave, none.
    pub fn act_on_notice<L: Ledger<Id = I, Amount = A>>(
        &mut self,
        ledger: &mut L,
        notice: &Notice<I, A>,
    ) -> Vec<NoticeDone<I>> {
        let Phase::Active = self.phase else { return Vec::new() };
        for token in &notice.tokens {
            self.try_token(ledger, token);
        }
        let mut done = Vec::new();
        for server in &notice.servers {
            let Some(desk) = self.desk_of_mut(server) else { continue };
            // A token that still fits was refused by the ledger. Its slot stays, and so does the notice.
            if notice.tokens.iter().any(|token| token.target == *server && desk.fits(token)) {
                continue;
            }
            if desk.slots.get(&notice.client).is_some_and(|slot| slot.source_clock < notice.source_clock) {
                desk.slots.remove(&notice.client);
            }
            done.push(NoticeDone { client: notice.client.clone(), server: server.clone() });
        }
        done
    }

    /// A server has acted on a notice kept here, or will never come back.
    pub fn notice_done(&mut self, done: &NoticeDone<I>) {
        let Some(office) = &mut self.office else { return };
        let Some(kept) = office.notices.get_mut(&done.client) else { return };
        kept.pending.remove(&done.server);
        if kept.pending.is_empty() {
            office.notices.remove(&done.client);
            self.tidy();
        }
    }

    /// Is there a notice here of which that is not known?
    pub fn is_pending(&self, done: &NoticeDone<I>) -> bool {
        let kept = self.office.as_ref().and_then(|office| office.notices.get(&done.client));
        kept.is_some_and(|kept| kept.pending.contains(&done.server))
    }

    /// The notices kept here, each with the servers that have still to act on it.
    pub fn notices(&self) -> impl Iterator<Item = (&Notice<I, A>, &BTreeSet<I>)> {
        let kept = self.office.iter().flat_map(|office| office.notices.values());
        kept.map(|kept| (&kept.notice, &kept.pending))
    }

    /// Acts again on the notices kept here, of which a token may have been refused by the ledger.
    pub fn act_on_kept_notices<L: Ledger<Id = I, Amount = A>>(&mut self, ledger: &mut L) {
        let kept: Vec<Notice<I, A>> = self
            .office
            .iter()
            .flat_map(|office| office.notices.values())
            .map(|kept| kept.notice.clone())
            .collect();
        for notice in kept {
            for done in self.act_on_notice(ledger, &notice) {
                self.notice_done(&done);
            }
        }
    }
}
