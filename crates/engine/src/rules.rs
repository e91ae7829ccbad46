//! What keeps many sites exact, and the wrong ways that tests choose to see themselves catch them.
//!
//! Without the feature `testing` there is one way, and choosing costs nothing.

use quipu_crdt::{Bounded, Overflow, Pn};

use crate::{SiteId, handoff::View, links::WireRow};

/// How sites treat each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rules {
    #[cfg(feature = "testing")]
    broken: Option<Rule>,
}

/// A rule that can be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// An id belongs to its key. *Without:* the same id under another key is taken for a repeat.
    IdsBelongToKeys,
    /// Entries are taken in together with the rows that they speak of. *Without:* before them.
    RowsBeforeEntries,
    /// An acknowledgement settles an operation when all that its sender had written until then has arrived. *Without:* at
    /// once.
    ToldPositions,
    /// Of several sites that counted an operation the lowest keeps it. *Without:* all do.
    LowestKeeps,
    /// What was learned of others is kept until they say that it is settled. *Without:* for the window.
    LearnedUntilSettled,
    /// Rights made by an operation wait until it is settled. *Without:* they are spent at once.
    UnsettledRightsWait,
    /// At the limit of operations that wait for a site, more are refused. *Without:* the oldest are forgotten.
    UnsettledAreKept,
    /// What a reset sets aside of a count that is taken back is added again. *Without:* not.
    AddBack,
    /// An id that tells that it is older than the window is refused. *Without:* it is counted again, as others are.
    OldIdsAreRefused,
    /// And one that may have been forgotten stays refused when the wall clock is set back. *Without:* the clock decides.
    ForgottenStayRefused,
    /// A definition takes effect when all sites have agreed. *Without:* at once.
    DefinitionsWait,
    /// All rows of a bounded counter travel together. *Without:* each on its own.
    BoundedRowsTogether,
    /// A restored copy takes a new incarnation. *Without:* it goes on as before.
    NewIncarnation,
    /// A newcomer takes writes when it has what the others have. *Without:* at once.
    NewcomersWait,
    /// An heir takes back what a removed site should have. *Without:* nobody does.
    HeirsCancel,
    /// What was handed over for a bounded counter waits for rights. *Without:* it is counted at once.
    HandedOverWaits,
    /// Slots belong to one incarnation of a site. *Without:* a restored copy goes on with them.
    SlotsOfOneIncarnation,
    /// Copies of tokens are passed on to those who have their slots. *Without:* they stay where they are.
    CopiesTravel,
    /// A copy of a token is kept until its slot is said to be closed. *Without:* until its target has said anything.
    CopiesUntilClosed,
    /// Who hands over is told below which clock slots may have been folded. *Without:* a folded slot is one that was used.
    FloorIsTold,
}

impl Rules {
    /// Leaves a rule out.
    #[cfg(feature = "testing")]
    pub fn without(rule: Rule) -> Self {
        Self { broken: Some(rule) }
    }

    /// A row as it is sent.
    #[cfg(not(feature = "testing"))]
    #[expect(clippy::unused_self, reason = "it has a choice in tests")]
    pub(crate) fn apart(self, row: WireRow, _: SiteId) -> WireRow {
        row
    }

    /// A row as it is sent: without the rule, of a bounded counter only what one site has written.
    #[cfg(feature = "testing")]
    pub(crate) fn apart(self, row: WireRow, origin: SiteId) -> WireRow {
        match row {
            WireRow::Bounded(bounded) if !self.keep(Rule::BoundedRowsTogether) => {
                WireRow::Bounded(Box::new(bounded.row_alone(&origin)))
            }
            other => other,
        }
    }

    /// Takes in what was handed over for a bounded counter: it waits for rights.
    #[cfg(not(feature = "testing"))]
    #[expect(clippy::unused_self, reason = "it has a choice in tests")]
    pub(crate) fn take_in(self, bounded: &mut Bounded<SiteId>, delta: &Pn) -> Result<(), Overflow> {
        bounded.park(delta)
    }

    /// Takes in what was handed over for a bounded counter: it waits for rights, or without the rule it does not.
    #[cfg(feature = "testing")]
    pub(crate) fn take_in(self, bounded: &mut Bounded<SiteId>, delta: &Pn) -> Result<(), Overflow> {
        if self.keep(Rule::HandedOverWaits) {
            bounded.park(delta)
        } else {
            bounded.count_without_rights(delta)
        }
    }

    /// An answer as it is sent.
    #[cfg(not(feature = "testing"))]
    #[expect(clippy::unused_self, reason = "it has a choice in tests")]
    pub(crate) fn answer(self, view: View) -> View {
        view
    }

    /// An answer as it is sent: without the rule it tells of no floor.
    #[cfg(feature = "testing")]
    pub(crate) fn answer(self, mut view: View) -> View {
        if !self.keep(Rule::FloorIsTold) {
            view.tell_no_floor();
        }
        view
    }

    /// Is this rule kept?
    #[cfg(feature = "testing")]
    pub fn keep(self, rule: Rule) -> bool {
        self.broken != Some(rule)
    }

    /// Is this rule kept? Always.
    #[cfg(not(feature = "testing"))]
    pub fn keep(self, _: Rule) -> bool {
        true
    }
}
