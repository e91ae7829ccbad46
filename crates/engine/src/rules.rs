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
    /// A count that was open in a copy, and is settled when the copy goes on, may have been taken back. *Without:* it is told
    /// as settled, while other sites tell of the one that is kept.
    CopiedMayBeTakenBack,
    /// Of several sites that counted an operation the lowest keeps it. *Without:* all do.
    LowestKeeps,
    /// What was learned of others is kept until they say that it is settled. *Without:* for the window.
    LearnedUntilSettled,
    /// Rights made by an operation wait until it is settled. *Without:* they are spent at once.
    UnsettledRightsWait,
    /// At the limit of operations that wait for a site, more are refused. *Without:* the oldest are forgotten.
    UnsettledAreKept,
    /// The row of an entry whose end a checkpoint has written is deleted by the next one, also after a restart. *Without:* that one
    /// lists it as settled since then, and if it fails half-way, the entry is open again, perhaps without the one that took it back.
    GoneStayGone,
    /// A record that says that an operation is settled closes its entry when it is read again. *Without:* the entry of a
    /// removed site is open again, and settled once more, by what is known then.
    SettledIsReplayed,
    /// What a reset sets aside of a count that is taken back is added again. *Without:* not.
    AddBack,
    /// An id that tells that it is older than the window is refused. *Without:* it is counted again, as others are.
    OldIdsAreRefused,
    /// And one that may have been forgotten stays refused when the wall clock is set back. *Without:* the clock decides.
    ForgottenStayRefused,
    /// A definition takes effect when all sites have agreed. *Without:* at once.
    DefinitionsWait,
    /// Who has created a bounded counter is told so when all sites take it. *Without:* when it takes effect at the creator.
    CreatedEverywhere,
    /// An heir waits for the rights that it will take over. *Without:* only for those of others.
    HeirsWait,
    /// Who is to pass on rights is told a total. *Without:* every request that arrives moves them again.
    MovesNameTotals,
    /// Whoever is refused because a counter is being made has the others look again. *Without:* a proposal that waits for a
    /// site that was removed, or restored, waits for ever.
    CreationsGoOn,
    /// A counter of which others are asked for something stays in memory: for rights, or to look again while it is being made.
    /// *Without:* where memory is short it leaves before, nobody is asked, and the proposal waits for ever.
    WantedStayInMemory,
    /// All rows of a bounded counter travel together. *Without:* each on its own.
    BoundedRowsTogether,
    /// A restored copy takes a new incarnation. *Without:* it goes on as before.
    NewIncarnation,
    /// What a copy has counted since it was started, and nobody has heard of, is undone when it takes a new incarnation.
    /// *Without:* it stays in the rows of the old one, which others have as well.
    UnheardIsUndone,
    /// A copy that goes on remembers deleted counters while the others have yet to list it. *Without:* like a site that was
    /// always alone it forgets them, with what was set aside: nobody tells it that again.
    CopiesRememberDeleted,
    /// A site that was started tells nothing of what it counts before another one has spoken to it. *Without:* at once.
    AnswersFirst,
    /// A stream that two copies of a site have written is noticed by the runs that wrote it. *Without:* both are taken in.
    StreamsStayOne,
    /// A newcomer takes writes when it has what the others have. *Without:* at once.
    NewcomersWait,
    /// An heir takes back what a removed site should have. *Without:* nobody does.
    HeirsCancel,
    /// What a removed site has counted is settled when all that is known of any removed one is here. *Without:* of that one.
    RemovedTogether,
    /// An heir tells that what a removed site has counted is settled. *Without:* everybody finds that out for itself.
    HeirsTell,
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
    /// A command that waited is resumed like a new one, with a look at stored ids. *Without:* with what is in
    /// memory, and a change of membership does not wake it.
    ResumedAsNew,
    /// A creation, or a move of rights, that waits when its site must not count any more is told to be in doubt. *Without:* it
    /// is told that nothing was done, although other sites may have done it.
    StoppedIsInDoubt,
    /// What rows have witnessed once stays in the books. *Without:* as long as they witness it.
    FindingsStay,
    /// A row arrives with the unsettled ids that it includes. *Without:* the ids of other sites come by their own streams.
    IdsWithRows,
    /// A part whose rows include ids that came with earlier parts of its sender is taken in by who has these from that sender.
    /// *Without:* also by who has them from another one, without the ids.
    PartsLeanOnTaken,
    /// An attempt that counted nothing is no outcome. *Without:* it is remembered, and may win against a count.
    ZeroIsNoOutcome,
    /// Entries that were settled before a checkpoint stay settled. *Without:* a process that starts settles them again.
    SettledStaySettled,
    /// That operations are settled is logged before anybody is told, and before a checkpoint lists it. *Without:* with the next
    /// change. A process that starts before that tells of them as provisional, or as cancelled; and a checkpoint that fails
    /// half-way can be taken for the complete one before it, which covers the same log, and operations are forgotten.
    SettledIsStored,
    /// An heir settles a count that it has taken back for a removed site when all others have that. *Without:* they may hear first
    /// that the count is settled, and keep it; if the heir is lost then, nobody takes it back.
    TakenBackBeforeSettled,
    /// A count is settled when all sites know what has taken back the other counts of the operation. *Without:* when its own site
    /// knows; if that one is lost then, together with who took one back, the others have heard that the count is settled, and
    /// keep both.
    TakenBackIsKnown,
    /// What a site has changed itself has a number that its stream has got to, after a restart too. *Without:* a row of several
    /// sites has that of another site's change, and the stream goes past it.
    ReplayedAsTold,
    /// Who goes on with a sweep that another site has begun has as much of the stream. *Without:* perhaps less.
    SweepsReachAsFar,
    /// Rows of a removed site that are ahead of its stream are told to all before anybody answers for it. *Without:* sites
    /// differ about them for ever, and an heir spends rights that are spent.
    AheadIsTold,
    /// A site tells which tokens it has taken, with the rows that they were counted in. *Without:* an heir counts them
    /// again.
    TakenIsTold,
    /// Which slots were closed before is told to who joins, or inherits. *Without:* an heir decides from what it has seen.
    TablesAreTold,
    /// An heir decides about tokens when it has all that anybody knows of the removed site. *Without:* at once.
    HeirKnowsAll,
    /// An heir decides about tokens for a desk after it has told others that it answers for the desk. *Without:* before; then
    /// a copy of it that is put back decides again about what the others have settled.
    DecidesAsTold,
    /// Who has a copy of a token is told that it is closed when another site knows that it was taken. *Without:* at once.
    CopiesUntilTold,
    /// A site goes on telling which slots are closed at a desk that it has decided for. *Without:* it leaves the desk out while
    /// others join; those do not learn what it has decided.
    ToldDesksStay,
    /// A desk that an heir has told of is the heir's, also if the table of the site before it arrives once more. *Without:*
    /// it belongs to the site whose table came last; a site that is restored is not told what the heir has decided.
    DesksStayWithHeirs,
    /// That the slot of a token is closed is stored with what was counted of it, also of a token that was kept here and could not
    /// be counted before. *Without:* a site that is killed right after that counts it again.
    CreditedIsNoted,
    /// A site that was started opens no slots before another one has spoken to it. *Without:* an old copy opens some under
    /// the clocks of others.
    HeardOpensSlots,
    /// A site that was started counts no tokens before another one has spoken to it. *Without:* an old copy counts one that
    /// its original counts, too.
    HeardTakesTokens,
    /// An edge is told that its last words are kept when a second site has their tokens, or knows that they were taken.
    /// *Without:* at once.
    LastWordsOutliveOne,
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
        rule.reached();
        self.broken != Some(rule)
    }

    /// Is this rule kept? Always.
    #[cfg(not(feature = "testing"))]
    pub fn keep(self, _: Rule) -> bool {
        true
    }
}
