//! Why a change cannot be, and why a site is not listened to.

use super::Standing;
use crate::SiteId;

/// A change that cannot be proposed. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadChange {
    /// Nobody of this id.
    #[error("site {site} is not a site of this cluster; nothing was changed. `quipu site list` shows who is")]
    NotListed {
        /// Who was named.
        site: SiteId,
    },
    /// Nobody to remove.
    #[error("no site to remove was named; nothing was changed")]
    Nobody,
    /// Two sites of one number.
    #[error(
        "site {site} cannot be added: site {listed} has this number; nothing was changed. Choose another number"
    )]
    NumberTaken {
        /// The new one.
        site: SiteId,
        /// Who has the number.
        listed: SiteId,
    },
    /// An id is used once.
    #[error(
        "the id {site} was used before and is never used again; nothing was changed. {}",
        match next { Some(next) => format!("The next of this number is {next}"), None => "Choose another number".into() }
    )]
    UsedBefore {
        /// The id.
        site: SiteId,
        /// One that can be used instead.
        next: Option<SiteId>,
    },
    /// A restored site keeps its number.
    #[error("site {old} cannot go on as {new}: a restored site keeps its number; nothing was changed")]
    OtherNumber {
        /// What the folder was.
        old: SiteId,
        /// What it was to be.
        new: SiteId,
    },
    /// An heir is a member and stays.
    #[error(
        "site {heir} cannot be the heir: it must be a member, and stay, when others go; nothing was changed. Name another one"
    )]
    CannotInherit {
        /// Who was named.
        heir: SiteId,
    },
    /// Nobody decides on its own leaving.
    #[error(
        "site {site} cannot propose its own removal; nothing was changed. Run the command at a site that stays"
    )]
    RemovesItself {
        /// Who was asked to.
        site: SiteId,
    },
    /// Newcomers propose nothing but to be taken for members.
    #[error(
        "site {site} is still joining and proposes no changes; nothing was changed. Run the command at another site"
    )]
    StillJoining {
        /// Who was asked to.
        site: SiteId,
    },
    /// Only who is joining can have joined, and only itself knows.
    #[error("site {site} is not joining; nothing was changed")]
    NotJoining {
        /// Who was named.
        site: SiteId,
    },
    /// Nobody else knows whether a site takes writes.
    #[error("site {site} itself says whether it leaves or stays; nothing was changed")]
    OnlyItself {
        /// Who was named.
        site: SiteId,
    },
    /// Somebody must go on.
    #[error("no member would be left if site {site} left; nothing was changed")]
    NobodyStays {
        /// Who wants to leave.
        site: SiteId,
    },
    /// It is not as the change needs it.
    #[error("site {site} is not {needed}; nothing was changed")]
    OtherStanding {
        /// Who was named.
        site: SiteId,
        /// What it would have to be.
        needed: Standing,
    },
    /// It may have counted what nobody else knows.
    #[error(
        "site {site} has not said that it takes no more writes and that the others have all that it has counted; nothing was \
         changed. `quipu site remove {site}` asks it to; if it is lost, say so: --dead"
    )]
    NotDrained {
        /// Who was named.
        site: SiteId,
    },
    /// Another change is under way.
    #[error(
        "site {by} has proposed to {change}, and changes are made one at a time; nothing was changed. Wait until it is done. \
         If site {by} is lost for ever, remove it, together with whoever else is lost and whom it was about to remove, \
         in one `quipu site remove`"
    )]
    UnderWay {
        /// Who has proposed.
        by: SiteId,
        /// What.
        change: String,
    },
    /// An own change is under way.
    #[error(
        "this site has already proposed to {change}, and changes are made one at a time; nothing was changed. Wait until it \
         is done, or take it back: `quipu site withdraw`"
    )]
    OwnUnderWay {
        /// What.
        change: String,
    },
    /// A name or an address is too long.
    #[error("a name or an address of a site has at most {max} bytes; nothing was changed", max = super::TEXT_BYTES_MAX)]
    TooLong,
    /// More than fit into a cluster.
    #[error(
        "a cluster has at most {sites} sites, and {removed} that were removed; nothing was changed",
        sites = super::SITES_MAX,
        removed = super::REMOVED_MAX
    )]
    TooMany,
    /// Numbers are from 1, each once.
    #[error("sites are numbered from 1, each number once, not as in {sites}; nothing was changed")]
    BadNumbers {
        /// Who was listed.
        sites: String,
    },
    /// It contradicts itself.
    #[error("this cannot be the list of sites of epoch {epoch}: it contradicts itself; nothing was changed")]
    NoList {
        /// The epoch it claims.
        epoch: u64,
    },
}

/// Why a site is not listened to. This site's state is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It has this site's own id.
    #[error(
        "another site has this site's id {site}. Stop one of the two; if it is a copy, run `quipu restore` on its folder"
    )]
    Itself {
        /// The id.
        site: SiteId,
    },
    /// It belonged to the cluster and does not any more.
    #[error(
        "site {site} was removed from the cluster in epoch {epoch}, and site {heir} has taken over what it had: it is \
         refused for ever. To use its machine again, empty its folder and run `quipu site add`, which gives it a new id"
    )]
    Removed {
        /// Who.
        site: SiteId,
        /// Its heir.
        heir: SiteId,
        /// The first epoch without it.
        epoch: u64,
    },
    /// It is being removed.
    #[error(
        "site {site} is about to be removed from the cluster, as site {by} has proposed, and is not listened to meanwhile. \
         `quipu site list` shows how far that is"
    )]
    BeingRemoved {
        /// Who.
        site: SiteId,
        /// Who has proposed it.
        by: SiteId,
    },
    /// It does not belong to the cluster.
    #[error(
        "site {site} is not, or not yet, one of the sites {sites} of epoch {epoch}. Run `quipu site add` at one of these"
    )]
    Stranger {
        /// Who.
        site: SiteId,
        /// Who does.
        sites: String,
        /// As of this epoch.
        epoch: u64,
    },
    /// It is another incarnation of a site.
    #[error(
        "site {site} is not known here, but {listed} is: if its folder is a copy of that of {listed}, run `quipu restore`, so \
         that the sites list its new incarnation in place of {listed}"
    )]
    OtherIncarnation {
        /// Who.
        site: SiteId,
        /// The incarnation that belongs to the cluster.
        listed: SiteId,
    },
    /// The two were started with different lists.
    #[error(
        "this site was first started with the sites {ours}, and site {site} with {theirs}: these are two clusters. Start the \
         one that is wrong anew, with an empty folder and the right `--site` and `--peers`"
    )]
    OtherStart {
        /// Who.
        site: SiteId,
        /// Our list.
        ours: String,
        /// Its list.
        theirs: String,
    },
    /// No changes lead from the one list to the other.
    #[error(
        "this site's list of sites is {ours} of epoch {our_epoch}, and that of site {site} is {theirs} of epoch \
         {their_epoch}, to which no changes of the other lead: each was removed by the other, or one of them has not \
         heard of its removal. Decide which cluster goes on; empty the folders of the other sites and add them with \
         `quipu site add`"
    )]
    Contradiction {
        /// Who.
        site: SiteId,
        /// Our list.
        ours: String,
        /// Its epoch.
        our_epoch: u64,
        /// Its list.
        theirs: String,
        /// Its epoch.
        their_epoch: u64,
    },
}

/// Bytes that are not what they should be. The state is unchanged.
#[derive(Debug, thiserror::Error)]
#[error("this is no {what} of a council: {why}; nothing was changed")]
pub struct BadBytes {
    /// What they should be.
    pub what: &'static str,
    /// What is wrong.
    pub why: String,
}
