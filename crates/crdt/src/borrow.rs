//! The Borrow-Counter: transient nodes count under an identity that a permanent node lends them, and when
//! they retire, the lender takes over what they counted and forgets them ("Borrowing an Identity for a
//! Distributed Counter", Enes, Baquero, Almeida and Leitão).
//!
//! An identity is a [dot](Dot) with an account. Only the owner of a dot adds to its account; only the owner
//! freezes it, for ever; only the node that created the dot then moves the amount to an account of its own
//! and removes the dot. So no two nodes ever write the same thing, and the value that a node reports is
//! exactly the sum of the additions in its causal past: it never exceeds what was issued, and never
//! decreases when only additions are made.
//!
//! Two things differ from the paper. Where it adds to a random active dot we take the smallest. And where
//! its `transfer` takes all frozen dots of a node, ours takes those that the transferring node itself has
//! created: two permanent nodes that had both lent to one client would otherwise both take both dots.
//!
//! Messages are whole states. A message with only what has changed must not run ahead of what came before
//! it: an account that already includes a transfer, without the removal that belongs to it, counts twice.
//!
//! What is not covered: a client that disappears without retiring leaves its dots behind.

use crate::algebra::Twin;
use crate::causal::{Causal, Dot, DotFun, DotMap, OutOfDots};
use crate::{Id, Merge, Overflow, Tally};
use minicbor::{Decode, Encode};

/// What was counted under one dot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Account<T> {
    /// Nothing will ever be added again. Irreversible: true wins in a merge.
    #[n(0)]
    pub frozen: bool,
    /// The sum of what was added.
    #[n(1)]
    pub amount: T,
}

impl<T: Merge> Merge for Account<T> {
    fn merge(&mut self, other: &Self) {
        self.frozen |= other.frozen;
        self.amount.merge(&other.amount);
    }
}

/// All accounts, by owner and dot: what replicas send each other, and a semilattice.
pub type BorrowState<I, T> = Causal<DotMap<I, DotFun<I, Account<T>>>>;

/// Why something was refused. State unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BorrowError {
    /// There is no active dot to count under.
    #[error("this node has no active identity: ask a permanent node to create one; nothing was changed")]
    NoIdentity,
    /// Only permanent nodes lend.
    #[error(
        "only a permanent node lends: create an identity for this node itself first; nothing was changed"
    )]
    NotPermanent,
    /// All numbers of dots are used up.
    #[error(transparent)]
    OutOfDots(#[from] OutOfDots),
    /// The account cannot hold the sum.
    #[error("the account cannot hold the sum; nothing was added and nothing was moved")]
    Overflow(#[from] Overflow),
}

/// A replica of the Borrow-Counter.
///
/// A transient node may leave once it [is settled](Borrow::is_settled). After it has retired it may still
/// merge and pass on states, and count again under a new identity. It must not come back under its name
/// without its state: it could find an old state in which its dot is still active, and count under a dot
/// that has been taken. That, like any two replicas under one name, is reported as a [`Twin`] where it shows.
///
/// ```
/// use quipu_crdt::Borrow;
/// let (mut site, mut phone) = (Borrow::new("site"), Borrow::new("phone"));
/// site.create(&"site")?; // becomes permanent
/// site.create(&"phone")?; // lends
/// phone.merge(site.state())?;
/// phone.add(&8)?;
/// phone.retire();
/// site.merge(phone.state())?;
/// assert_eq!(site.transfer(&"phone")?, 8);
/// phone.merge(site.state())?;
/// assert!(phone.is_settled());
/// assert_eq!(site.value(), 8u64);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Borrow<I: Id, T: Tally> {
    #[n(0)]
    id: I,
    #[n(1)]
    state: BorrowState<I, T>,
}

impl<I: Id, T: Tally> Borrow<I, T> {
    /// A replica that has heard of nothing, without an identity to count under.
    pub fn new(id: I) -> Self {
        Borrow { id, state: BorrowState::default() }
    }

    /// The name of this replica.
    pub fn id(&self) -> &I {
        &self.id
    }

    /// What to send to any other replica, and to store before anything is sent.
    pub fn state(&self) -> &BorrowState<I, T> {
        &self.state
    }

    /// The sum of all additions heard of, exact while it fits its type.
    pub fn value(&self) -> T {
        let mut sum = T::default();
        let accounts = self.state.store.iter().flat_map(|(_, dots)| dots.iter());
        accounts.for_each(|(_, account)| sum.saturating_add(&account.amount));
        sum
    }

    /// Can this node lend? It can while it has an active dot that it made for itself.
    pub fn is_permanent(&self) -> bool {
        self.active().any(|(dot, _)| dot.creator == self.id)
    }

    /// Is no dot of this node left? Then others hold all that it has counted.
    pub fn is_settled(&self) -> bool {
        self.state.store.get(&self.id).is_none()
    }

    /// The nodes from which a [`transfer`](Borrow::transfer) would take something.
    pub fn transferable(&self) -> impl Iterator<Item = &I> {
        let with_due = |owner: &&I| self.due(owner).next().is_some();
        self.state.store.iter().map(|(owner, _)| owner).filter(with_due)
    }

    /// Makes a dot for `owner`. With a dot for itself a node becomes permanent; a permanent node lends dots to
    /// others, who learn of it by a merge.
    pub fn create(&mut self, owner: &I) -> Result<Dot<I>, BorrowError> {
        if *owner != self.id && !self.is_permanent() {
            return Err(BorrowError::NotPermanent);
        }
        let dot = self.state.context.next(&self.id)?;
        self.state.context.add(dot.clone());
        let account = Account { frozen: false, amount: T::default() };
        self.state.store.update(owner, |dots| dots.entries_mut().insert(dot.clone(), account));
        Ok(dot)
    }

    /// Counts `amount` under the smallest active dot of this node.
    pub fn add(&mut self, amount: &T) -> Result<(), BorrowError> {
        if amount.is_zero() {
            return Ok(());
        }
        let (dot, account) = self.active().next().ok_or(BorrowError::NoIdentity)?;
        let mut sum = account.amount.clone();
        sum.try_add(amount)?;
        let dot = dot.clone();
        self.set_amount(dot, sum);
        Ok(())
    }

    /// Freezes all dots of this node, so that their creators can take over what was counted under them.
    ///
    /// A permanent node that has retired can make itself a new dot and transfer its own old ones to it. To
    /// leave for good it borrows a dot from another instead, transfers to that, and retires again.
    pub fn retire(&mut self) {
        self.state.store.update(&self.id, |dots| {
            dots.entries_mut().values_mut().for_each(|account| account.frozen = true);
        });
    }

    /// Moves what `from` counted under frozen dots that this node created to the smallest active dot of this
    /// node, removes those dots, and says how much it was.
    pub fn transfer(&mut self, from: &I) -> Result<T, BorrowError> {
        let (target, account) = self.active().next().ok_or(BorrowError::NoIdentity)?;
        let mut moved = T::default();
        self.due(from).try_for_each(|(_, due)| moved.try_add(&due.amount))?;
        let mut sum = account.amount.clone();
        sum.try_add(&moved)?;

        // Nothing fails from here on. The context keeps the removed dots, which is what removes them elsewhere.
        let target = target.clone();
        self.state.store.update(from, |dots| {
            dots.entries_mut().retain(|dot, account| !is_due(&self.id, dot, account));
        });
        self.set_amount(target, sum);
        Ok(moved)
    }

    /// Takes in what another replica has sent, now or long ago.
    pub fn merge(&mut self, state: &BorrowState<I, T>) -> Result<(), Twin> {
        self.check_no_twin(state)?;
        self.state.merge(state);
        Ok(())
    }

    /// The active dots of this node, smallest first.
    fn active(&self) -> impl Iterator<Item = (&Dot<I>, &Account<T>)> {
        let own = self.state.store.get(&self.id).into_iter().flat_map(DotFun::iter);
        own.filter(|(_, account)| !account.frozen)
    }

    /// The dots of `owner` that this node may take.
    fn due(&self, owner: &I) -> impl Iterator<Item = (&Dot<I>, &Account<T>)> {
        let dots = self.state.store.get(owner).into_iter().flat_map(DotFun::iter);
        dots.filter(|(dot, account)| is_due(&self.id, dot, account))
    }

    fn set_amount(&mut self, dot: Dot<I>, amount: T) {
        let account = Account { frozen: false, amount };
        self.state.store.update(&self.id, |dots| dots.entries_mut().insert(dot, account));
    }

    /// Refuses a state with something in it that only this node could have done, and has not.
    fn check_no_twin(&self, theirs: &BorrowState<I, T>) -> Result<(), Twin> {
        let created = theirs.context.max(&self.id) > self.state.context.max(&self.id);
        let mut own = theirs.store.get(&self.id).into_iter().flat_map(DotFun::iter);
        let wrote = own.any(|(dot, account)| !self.could_have_written(dot, account));
        if created || wrote || self.lost_a_dot_to(theirs) { Err(Twin) } else { Ok(()) }
    }

    /// Could the account of this own dot, as somebody else has it, be of our making?
    fn could_have_written(&self, dot: &Dot<I>, theirs: &Account<T>) -> bool {
        match self.state.store.get(&self.id).and_then(|dots| dots.get(dot)) {
            Some(ours) => {
                let mut joined = ours.clone();
                joined.merge(theirs);
                joined == *ours
            }
            // Taken long ago, or lent to us just now and not used yet.
            None => self.state.context.contains(dot) || (!theirs.frozen && theirs.amount.is_zero()),
        }
    }

    /// Has somebody removed a dot that only this node may remove, or one of its own that it has not frozen?
    fn lost_a_dot_to(&self, theirs: &BorrowState<I, T>) -> bool {
        self.state.store.iter().any(|(owner, dots)| {
            let held = theirs.store.get(owner);
            dots.iter().any(|(dot, account)| {
                let ours_alone = dot.creator == self.id || (*owner == self.id && !account.frozen);
                let removed = theirs.context.contains(dot) && held.is_none_or(|dots| dots.get(dot).is_none());
                ours_alone && removed
            })
        })
    }
}

/// May `lender` take this dot? Its owner has let go of it, and nobody else may take it.
fn is_due<I: Id, T>(lender: &I, dot: &Dot<I>, account: &Account<T>) -> bool {
    account.frozen && dot.creator == *lender
}
