//! How servers pass on what they keep for each other: copies of tokens, and last words.
//!
//! Between servers there are no slots and no views, only these: a token goes to its target over whatever servers there
//! are in between, and that its slot is closed comes back the same way. Whoever has a copy keeps it until then.

use super::handshake::Handshake;
use super::ledger::Ledger;
use super::retirement::Phase;
use super::slot::{Token, TokenName};
use crate::Id;
use crate::algebra::Tally;

impl<I: Id, A: Tally> Handshake<I, A> {
    /// Takes a token that another server passes on: counts it, if its slot is here, or keeps a copy, if it is for
    /// somebody else. Returns its name if its slot is closed by now, so that copies of it can be dropped.
    pub fn take_passed_on<L: Ledger<Id = I, Amount = A>>(
        &mut self,
        ledger: &mut L,
        token: &Token<I, A>,
    ) -> Option<TokenName<I>> {
        let Phase::Active = self.phase else { return None };
        if self.desk_of(&token.target).is_none() {
            self.cache(token);
            return None;
        }
        self.try_token(ledger, token);
        let desk = self.desk_of(&token.target)?;
        desk.is_closed(&token.source, token.slot.target_clock).then(|| token.name())
    }

    /// The slot of a token is closed. Returns whether there was a copy of the token here.
    pub fn token_closed(&mut self, name: &TokenName<I>) -> bool {
        let is_here = self.cached().any(|token| token.has_name(name));
        if is_here {
            self.drop_cached(&name.target, |token| token.has_name(name));
        }
        is_here
    }
}
