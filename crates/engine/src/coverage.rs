//! What a run has come by: rules that were consulted, refusals, and branches that are seldom taken. All names are known
//! beforehand, so that a report over many runs can also list what was never reached.
//!
//! Counted for each thread, with the feature `testing` only. Without it a mark is nothing.

use crate::{BadMessage, Refusal, Reply, Rule};

/// Lists all variants of an enum, and does not compile while one is missing.
macro_rules! listed {
    ($type:ident, $($variant:ident)*) => {
        impl $type {
            /// The names of all variants.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($variant)),*];

            /// Which of [`Self::NAMES`] this is.
            #[cfg(feature = "testing")]
            fn listed(&self) -> usize {
                enum Place {
                    $($variant,)*
                }
                match self { $(Self::$variant { .. } => Place::$variant as usize,)* }
            }
        }
    };
}

listed!(Rule,
    IdsBelongToKeys RowsBeforeEntries ToldPositions LowestKeeps LearnedUntilSettled UnsettledRightsWait
    UnsettledAreKept AddBack OldIdsAreRefused ForgottenStayRefused DefinitionsWait CreatedEverywhere HeirsWait
    MovesNameTotals CreationsGoOn WantedStayInMemory BoundedRowsTogether NewIncarnation UnheardIsUndone AnswersFirst
    StreamsStayOne NewcomersWait HeirsCancel RemovedTogether HeirsTell HandedOverWaits SlotsOfOneIncarnation CopiesTravel
    CopiesUntilClosed FloorIsTold ResumedAsNew IdsWithRows PartsLeanOnTaken ZeroIsNoOutcome SettledStaySettled
    SettledIsStored SettledIsReplayed GoneStayGone TakenBackBeforeSettled TakenBackIsKnown ReplayedAsTold SweepsReachAsFar AheadIsTold
    TakenIsTold TablesAreTold HeirKnowsAll DecidesAsTold CopiesUntilTold ToldDesksStay DesksStayWithHeirs
    CopiedMayBeTakenBack CreditedIsNoted CopiesRememberDeleted HeardOpensSlots HeardTakesTokens LastWordsOutliveOne
    StoppedIsInDoubt FindingsStay
);

listed!(Refusal,
    Overflow OutOfBounds Creating Reserved Unsettled JoinedLately Joining OnlyAtSites TooManyPending Leaving NoSite
    CannotRetire BadVisit OtherServer Copy OtherAmount TooOld FromTheFuture Exists UsedBefore BoundedReset
    BadDefinition BadKey NotStored InDoubt NotHere Removed OldCopy SiteLeaves NotBounded CannotMove NotMovedYet NotTold
);

listed!(BadMessage, TooLong Unreadable Impossible OldCopy Branched);

/// Branches that are seldom taken, each with what happens there.
macro_rules! branches {
    ($($variant:ident: $text:literal,)*) => {
        /// A branch that is seldom taken.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Branch {
            $(#[doc = $text] $variant,)*
        }

        impl Branch {
            /// What happens in each of them.
            pub const NAMES: &'static [&'static str] = &[$($text),*];
        }
    };
}

branches! {
    SlotWaitsForPeer: "handoff: no slot is opened before a peer has spoken",
    TableTaken: "handoff: a table of closed slots is taken in",
    DecidedClosed: "handoff: a token for a removed site was counted long ago",
    DecidedTaken: "handoff: a token for a removed site was counted lately",
    DecidedOpen: "handoff: a token for a removed site is counted by the heir",
    DecidedInPart: "handoff: of a token for a removed site the rest is counted by the heir",
    RepeatUnsettled: "ids: a repeat of an operation that is not settled is answered",
    RepeatStored: "ids: an id is found in a stored run",
    RepeatNotStored: "ids: stored runs are looked through for an id in vain",
    RepeatTakenBack: "ids: an operation comes again whose count was taken back, and whose keeper is forgotten",
    RepeatPresumed: "ids: the filter alone takes an id for a repeat",
    TakenBack: "ids: a count is taken back because a lower site has counted, too",
    TakenBackByHeir: "ids: an heir takes back a count of a removed site",
    AddedBack: "ids: what a reset had set aside of a count that is taken back is added again",
    EstateBalanced: "ids: an heir balances what a removed site had taken back",
    OutcomeProvisional: "ids: an outcome is provisional",
    OutcomeCancelled: "ids: an outcome is cancelled",
    OutcomeKeeperUnheard: "ids: an outcome is cancelled, and the count that stays has not been heard",
    SettlingWaitsForRemoved: "ids: settling waits for what others know of a removed site",
    SettledAlone: "ids: what is open is settled when nobody else is left",
    SettledRemoved: "ids: an operation of a removed site is settled",
    SettledAtStart: "ids: an entry that was stored as open is found to be settled at the start",
    CancelledRetires: "ids: a count that was taken back is settled",
    SettledFromCopy: "ids: a count is settled that was open in a copy",
    SettledReplayed: "ids: a record that is read again closes an entry of a removed site",
    RetiredWithHeirs: "ids: a removed site's count is settled with what its heir took back",
    PartGap: "streams: a part arrives before what it follows",
    PartLeaning: "streams: a part arrives that relies on one which was not taken in",
    PartKnown: "streams: a part arrives that is known",
    PartOfNewcomer: "streams: a part of a newcomer that is not known here yet is left out",
    CarriedLater: "streams: the ids that come with a row do not fit into the message",
    PartCapped: "streams: a part does not hold all that the peer lacks",
    PartOfOther: "streams: a part of another site's stream is passed on",
    EntryCarried: "streams: an entry arrives with a row, before its own stream",
    PartEndsWithSweep: "streams: a part ends with a sweep",
    PartResent: "streams: what was not acknowledged is sent again",
    AheadTold: "sites: a row of a removed site that is ahead of its stream is told",
    SweepHeld: "streams: all rows wait because too much is under way",
    SweepBegun: "streams: a sweep begins",
    SweepContinued: "streams: a sweep goes on where it stopped",
    SweepReplaced: "streams: a sweep is replaced by a later one",
    SweepIgnored: "streams: a piece of a sweep does not come next",
    StreamsDiffer: "streams: a peer has taken in another branch of a third site's stream than this site",
    HearsayImpossible: "streams: hearsay of more than this site has written is ignored",
    WaitBegun: "rights: a command waits for rights of others",
    WaitRefused: "rights: too many commands wait already",
    WaitResumed: "rights: a command that waited is counted",
    WaitTimedOut: "rights: a command that waited is refused when its time is up",
    WaitTakenBack: "rights: a command that waits is taken back because the store does not answer",
    WaitMoved: "rights: a command that waits is answered because its shard goes to another node",
    RightsDrift: "rights: rights are asked for before they are needed",
    RightsGiven: "rights: rights are given",
    RightsOnTheirWay: "rights: rights that are asked for are on their way",
    RightsInherited: "rights: an heir takes over rights",
    ParkedWaits: "rights: what was handed over waits for rights",
    ParkedCounted: "rights: what waited for rights is counted",
    CreationProposed: "creation: a definition is proposed",
    CreationAgreed: "creation: a site agrees",
    CreationWithdrawn: "creation: a proposal is withdrawn, for a count or for a lower site",
    CreationTakesEffect: "creation: a definition takes effect",
    CreationLate: "creation: whoever waits for a creation hears who is missing",
    CommitFenced: "store: a commit is refused because another node has the shard",
    CommitFailed: "store: a commit fails",
    CommitUnknown: "store: it is not known what became of a commit",
    UnknownStored: "store: a commit of unknown outcome is found to be stored",
    UnknownStill: "store: a commit stays unknown when it is asked for",
    UnknownLost: "store: a commit of unknown outcome, and the shard is another node's",
    UnknownNothing: "store: a commit of unknown outcome is not known to the store",
    Reloaded: "store: a shard is read again after a batch that was not stored",
    ReloadFailed: "store: a shard cannot be read again",
    CheckpointFailed: "store: a checkpoint fails",
    CheckpointFull: "store: a checkpoint waits because too many are under way",
    MarkStuck: "store: a log cannot be told of a checkpoint",
    Evicted: "store: counters are evicted",
    ReadAgain: "store: an evicted counter is read again",
    SlicesDropped: "store: old operations are dropped",
    DoubtTold: "store: somebody who has waited long enough hears that nobody knows",
    ReadWithdrawn: "store: a read that has waited long enough is refused",
    FenceAsked: "nodes: a shard that may be another node's asks its fence",
    FenceNotAsSeen: "nodes: a shard is not taken because its fence has changed",
    ShardFreed: "nodes: a shard that was taken without an answer is given back",
    ShardClosed: "nodes: a shard is given to another node",
    TrustLapsed: "nodes: a node had lapsed",
    SlotFolded: "handoff: a slot is folded",
    CreditRefused: "handoff: what is handed over cannot be counted",
    TokenPassedOn: "handoff: a copy of a token for somebody else arrives",
    TokenClosed: "handoff: a copy of a token is dropped because its slot is closed",
    LastWordsKept: "handoff: last words are kept for others",
    LastWordsWait: "handoff: last words are not confirmed yet, because no second site has them",
    LastWordsDone: "handoff: last words have been acted on elsewhere",
    LastWordsToGone: "handoff: last words to a site that is gone are dropped",
    LastWordsAgain: "handoff: last words are tried again",
    IncarnationBegun: "sites: a restored copy takes a new incarnation",
    NewcomerKnowsIds: "sites: a newcomer takes operations when the window has passed",
}

impl Reply {
    /// A refusal, which is marked.
    pub(crate) fn refused(refusal: Refusal) -> Self {
        Self::Refused(refusal.reached())
    }
}

/// Marks a branch.
#[cfg(not(feature = "testing"))]
#[inline(always)]
pub(crate) fn reached(_: Branch) {}

#[cfg(not(feature = "testing"))]
impl Refusal {
    /// Marks a refusal.
    #[inline(always)]
    pub(crate) fn reached(self) -> Self {
        self
    }
}

#[cfg(not(feature = "testing"))]
impl BadMessage {
    /// Marks a message that is refused.
    #[inline(always)]
    pub(crate) fn reached(self) -> Self {
        self
    }
}

#[cfg(feature = "testing")]
pub(crate) use counting::reached;
#[cfg(feature = "testing")]
pub use counting::{Counts, take};

#[cfg(feature = "testing")]
mod counting {
    use super::{BadMessage, Branch, Refusal, Rule};
    use std::cell::RefCell;

    /// How often each name was reached.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Counts {
        /// Of [`Rule::NAMES`]: how often a rule was consulted, whether or not it made a difference.
        pub rules: [u64; Rule::NAMES.len()],
        /// Of [`Refusal::NAMES`].
        pub refusals: [u64; Refusal::NAMES.len()],
        /// Of [`BadMessage::NAMES`].
        pub messages: [u64; BadMessage::NAMES.len()],
        /// Of [`Branch::NAMES`].
        pub branches: [u64; Branch::NAMES.len()],
    }

    impl Counts {
        /// Nothing was reached.
        pub const NONE: Self = Self {
            rules: [0; Rule::NAMES.len()],
            refusals: [0; Refusal::NAMES.len()],
            messages: [0; BadMessage::NAMES.len()],
            branches: [0; Branch::NAMES.len()],
        };

        /// All names, by what they are of, with how often each was reached.
        pub fn all(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
            let of = |kind, names: &'static [&'static str], counts: &[u64]| {
                let all: Vec<_> =
                    names.iter().zip(counts).map(|(name, count)| (kind, *name, *count)).collect();
                all
            };
            [
                of("rule", Rule::NAMES, &self.rules),
                of("refusal", Refusal::NAMES, &self.refusals),
                of("message", BadMessage::NAMES, &self.messages),
                of("branch", Branch::NAMES, &self.branches),
            ]
            .into_iter()
            .flatten()
        }
    }

    thread_local! {
        static COUNTS: RefCell<Counts> = const { RefCell::new(Counts::NONE) };
    }

    /// What this thread has reached since it was last asked.
    pub fn take() -> Counts {
        COUNTS.replace(Counts::NONE)
    }

    fn count(mark: impl FnOnce(&mut Counts) -> &mut u64) {
        COUNTS.with_borrow_mut(|counts| *mark(counts) += 1);
    }

    pub(crate) fn reached(branch: Branch) {
        count(|counts| &mut counts.branches[branch as usize]);
    }

    impl Rule {
        /// Marks a rule that is consulted.
        pub(crate) fn reached(self) {
            count(|counts| &mut counts.rules[self.listed()]);
        }
    }

    impl Refusal {
        /// Marks a refusal.
        pub(crate) fn reached(self) -> Self {
            count(|counts| &mut counts.refusals[self.listed()]);
            self
        }
    }

    impl BadMessage {
        /// Marks a message that is refused.
        pub(crate) fn reached(self) -> Self {
            count(|counts| &mut counts.messages[self.listed()]);
            self
        }
    }
}
