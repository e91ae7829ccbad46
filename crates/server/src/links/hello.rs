//! Who a site is, as it tells its peers, and whom a site accepts as a peer.
//!
//! Checked before anything else is said: the same cluster and shards, the site that was meant to be reached, a member,
//! and the same folder as last time in a later run. So a second site under the same number, and most old copies of a
//! folder, are noticed before they could spoil a count.

use std::fmt;

use minicbor::{Decode, Encode};
use quipu_engine::{
    Membership, SiteId,
    handoff::{Cluster, ClusterId},
};
use sha2::{Digest, Sha256};

use super::frame::{Reason, Refused};

/// The version of what is said over links.
pub const PROTOCOL: u16 = 1;

/// A folder: random, made with it. A copy has the same one.
#[derive(Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub struct Instance(#[cbor(with = "minicbor::bytes")] pub [u8; 16]);

impl Instance {
    /// What anybody may be told of a folder to know it again. Its number itself is told to peers alone: with it one can pass
    /// for the site.
    pub(crate) fn fingerprint(&self) -> [u8; 16] {
        let digest = Sha256::new().chain_update(b"quipu folder").chain_update(self.0).finalize();
        std::array::from_fn(|at| digest[at])
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Instance({self})")
    }
}

/// One run of a server on its folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Run {
    /// Grows with each start.
    #[n(0)]
    pub number: u64,
    /// Random: two copies of a folder that are started once each have the same number, and not this.
    #[n(1)]
    pub nonce: u64,
}

/// What is remembered of a peer, durably, before anything is said over its link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Seen {
    /// Its folder.
    #[n(0)]
    pub instance: Instance,
    /// The latest of its runs that had the link.
    #[n(1)]
    pub run: Run,
    /// A run of its folder was refused as that of an old copy: there are two such folders.
    #[n(2)]
    #[cbor(default)]
    pub contested: bool,
}

/// Who a site is. Fixed while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The name of its cluster.
    pub cluster: String,
    /// Into how many shards the cluster cuts the keys.
    pub shards: u16,
    /// Its number and incarnation.
    pub site: SiteId,
    /// Its folder.
    pub instance: Instance,
    /// This run.
    pub run: Run,
    /// The last runs on the folder before this one, as far as they are noted; the oldest first.
    pub earlier: Vec<Run>,
}

/// How a site introduces itself.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Hello {
    /// [`PROTOCOL`].
    #[n(0)]
    pub protocol: u16,
    /// The name of its cluster.
    #[n(1)]
    pub cluster: String,
    /// Into how many shards the cluster cuts the keys.
    #[n(2)]
    pub shards: u16,
    /// Its number and incarnation.
    #[n(3)]
    pub site: SiteId,
    /// The number of the site that it takes the other side for.
    #[n(4)]
    pub to: u16,
    /// Its folder.
    #[n(5)]
    pub instance: Instance,
    /// This run.
    #[n(6)]
    pub run: Run,
    /// How often the members have changed.
    #[n(7)]
    pub epoch: u64,
    /// Who belongs to the cluster then.
    #[n(8)]
    pub members: Vec<SiteId>,
    /// The id of its cluster, if it knows it.
    #[n(9)]
    pub cluster_id: Option<ClusterId>,
    /// The last runs on its folder before this one, if it knows them.
    #[n(10)]
    pub earlier: Option<Vec<Run>>,
}

/// Why a site is not accepted as a peer. Nothing was changed. Each text names the sites itself: it is read at both ends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The site that was dialled has stopped.
    #[error("site {own} talks to nobody any more: {why}")]
    Stopped {
        /// Who says so.
        own: SiteId,
        /// Why it has stopped.
        why: String,
    },
    /// Another version.
    #[error(
        "site {site} speaks version {theirs} of the link protocol, and site {own} version {PROTOCOL}; run the same version of quipu at both"
    )]
    Protocol {
        /// The peer.
        site: SiteId,
        /// Who says so.
        own: SiteId,
        /// The peer's version.
        theirs: u16,
    },
    /// Another cluster.
    #[error(
        "site {site} belongs to the cluster {theirs:?}, and site {own} to {ours:?}; correct the addresses in --peers, or make its folder anew with --cluster {ours}"
    )]
    Cluster {
        /// The peer.
        site: SiteId,
        /// Who says so.
        own: SiteId,
        /// The peer's cluster.
        theirs: String,
        /// The other one.
        ours: String,
    },
    /// Another cluster with the same name.
    #[error(
        "site {site} belongs to the cluster {theirs:?}, and site {own} to {ours:?}, which has the same name and was begun apart; correct the addresses in --peers, and give each cluster a --cluster of its own"
    )]
    ClusterId {
        /// The peer.
        site: SiteId,
        /// Who says so.
        own: SiteId,
        /// The peer's cluster.
        theirs: String,
        /// The other one.
        ours: String,
    },
    /// Another number of shards.
    #[error(
        "site {site} has {theirs} shards, and site {own} has {ours}; all sites of a cluster have the same number. Make the folder of the one that is wrong anew, with --shards"
    )]
    Shards {
        /// The peer.
        site: SiteId,
        /// Who says so.
        own: SiteId,
        /// The peer's number.
        theirs: u16,
        /// The other one.
        ours: u16,
    },
    /// One's own address.
    #[error(
        "site {own} has reached itself; --peers has its own address under another number. Correct --peers"
    )]
    Itself {
        /// Who has dialled itself.
        own: SiteId,
    },
    /// Somebody else's address.
    #[error(
        "site {site} looks for site {wanted}, and has reached site {own}; correct the address of site {wanted} in --peers of site {site}"
    )]
    OtherSite {
        /// The peer.
        site: SiteId,
        /// Whom it wants.
        wanted: u16,
        /// Whom it has reached.
        own: SiteId,
    },
    /// Two with one number. Which folders they have is not said: whoever knows a site's folder can pass for that site.
    #[error(
        "there is a second site with the number {site}, in another folder. Stop one of them and start it with another --site, in a new folder"
    )]
    Twin {
        /// The number.
        site: SiteId,
    },
    /// Not a member.
    #[error(
        "site {site} is no member of the cluster at site {own}, which knows {members}. Add it with `quipu site add`, or start both sites with the same --peers"
    )]
    Stranger {
        /// The peer.
        site: SiteId,
        /// Who says so.
        own: SiteId,
        /// Whom that one knows.
        members: String,
    },
    /// A member that was removed.
    #[error(
        "site {site} was removed from the cluster, and site {heir} has taken over what it left; start it in a new folder, after `quipu site add`"
    )]
    Removed {
        /// The peer.
        site: SiteId,
        /// Who has inherited.
        heir: SiteId,
    },
    /// The two do not agree who belongs to the cluster.
    #[error(
        "site {site} counts {theirs} as the members of the cluster, and site {own} counts {ours}; start all sites with the same --peers (in a new folder where they were wrong)"
    )]
    Members {
        /// The peer.
        site: SiteId,
        /// Who says so.
        own: SiteId,
        /// As the peer has it.
        theirs: String,
        /// As this one has it.
        ours: String,
    },
    /// A run that lies in the past.
    #[error(
        "site {site} runs from an old copy of its folder: this is its run {found}, and site {own} has seen run {known} of it. Stop it and run `quipu restore` in its folder"
    )]
    OldRun {
        /// The peer.
        site: SiteId,
        /// Who says so.
        own: SiteId,
        /// The run that it says it is in.
        found: u64,
        /// The latest that was seen.
        known: u64,
    },
    /// A run that its folder has not had.
    #[error(
        "there is a copy of the folder of site {site}, and both were started: site {own} has seen run {known} of the one, and this is the other. Stop both, and run `quipu restore` in the folder of the one that is to go on"
    )]
    OtherRun {
        /// The peer.
        site: SiteId,
        /// Who says so.
        own: SiteId,
        /// The run that was seen.
        known: u64,
    },
    /// A stream that has become shorter.
    #[error(
        "site {site} runs from an old copy of its folder: it has {told} changes of its own in shard {shard}, and site {own} has {known} of them. Stop it and run `quipu restore` in its folder"
    )]
    OldStream {
        /// The peer.
        site: SiteId,
        /// Who says so.
        own: SiteId,
        /// The shard.
        shard: usize,
        /// How many changes it has.
        told: u64,
        /// How many were received.
        known: u64,
    },
}

impl Rejection {
    /// What the peer is told.
    pub fn refused(&self) -> Refused {
        let reason = match self {
            Self::OldRun { .. } | Self::OtherRun { .. } | Self::OldStream { .. } => Reason::OldCopy,
            _ => Reason::Other,
        };
        Refused { reason, text: self.to_string() }
    }
}

fn list(members: impl IntoIterator<Item = SiteId>) -> String {
    let members: Vec<String> = members.into_iter().map(|site| site.to_string()).collect();
    format!("{{{}}}", members.join(", "))
}

impl Identity {
    /// What this site says to the one with this number.
    pub fn hello(&self, to: u16, membership: &Membership, cluster_id: Option<ClusterId>) -> Hello {
        Hello {
            protocol: PROTOCOL,
            cluster: self.cluster.clone(),
            shards: self.shards,
            site: self.site,
            to,
            instance: self.instance,
            run: self.run,
            epoch: membership.epoch,
            members: membership.members.iter().copied().collect(),
            cluster_id,
            earlier: Some(self.earlier.clone()).filter(|earlier| !earlier.is_empty()),
        }
    }

    /// Is whoever says this a peer? `seen` is what is remembered of the site whose number it gives.
    pub fn check(
        &self,
        hello: &Hello,
        membership: &Membership,
        cluster_id: Option<ClusterId>,
        seen: Option<&Seen>,
    ) -> Result<Seen, Rejection> {
        let (site, own) = (hello.site, self.site);
        if hello.protocol != PROTOCOL {
            return Err(Rejection::Protocol { site, own, theirs: hello.protocol });
        }
        if hello.cluster != self.cluster {
            let (theirs, ours) = (hello.cluster.clone(), self.cluster.clone());
            return Err(Rejection::Cluster { site, own, theirs, ours });
        }
        let ours = Cluster { name: self.cluster.clone(), id: cluster_id };
        let theirs = Cluster { name: hello.cluster.clone(), id: hello.cluster_id };
        if ours.is_other(&theirs) {
            let (theirs, ours) = (theirs.beside(&ours), ours.beside(&theirs));
            return Err(Rejection::ClusterId { site, own, theirs, ours });
        }
        if hello.instance == self.instance && hello.run == self.run {
            return Err(Rejection::Itself { own });
        }
        if hello.shards != self.shards {
            return Err(Rejection::Shards { site, own, theirs: hello.shards, ours: self.shards });
        }
        if site == own {
            return Err(Rejection::Twin { site });
        }
        if hello.to != own.number {
            return Err(Rejection::OtherSite { site, wanted: hello.to, own });
        }
        self.check_membership(hello, membership)?;
        self.check_run(hello, seen)
    }

    fn check_membership(&self, hello: &Hello, membership: &Membership) -> Result<(), Rejection> {
        let (site, own) = (hello.site, self.site);
        // A newcomer listens to anybody.
        if membership.epoch == 0 {
            return Ok(());
        }
        if let Some(heir) = membership.removed.get(&site) {
            return Err(Rejection::Removed { site, heir: *heir });
        }
        if !membership.members.contains(&site) {
            let members = list(membership.members.iter().copied());
            return Err(Rejection::Stranger { site, own, members });
        }
        // Whoever is behind is told of the changes that it lacks, over this very link.
        if hello.epoch == membership.epoch && !membership.members.iter().eq(&hello.members) {
            let (theirs, ours) = (list(hello.members.clone()), list(membership.members.iter().copied()));
            return Err(Rejection::Members { site, own, theirs, ours });
        }
        Ok(())
    }

    fn check_run(&self, hello: &Hello, seen: Option<&Seen>) -> Result<Seen, Rejection> {
        let now = Seen { instance: hello.instance, run: hello.run, contested: false };
        let Some(seen) = seen else { return Ok(now) };
        if seen.instance != now.instance {
            return Err(Rejection::Twin { site: hello.site });
        }
        let is_older = now.run.number < seen.run.number;
        let is_another = now.run.number == seen.run.number && now.run.nonce != seen.run.nonce;
        if is_older || is_another {
            let (found, known) = (now.run.number, seen.run.number);
            return Err(Rejection::OldRun { site: hello.site, own: self.site, found, known });
        }
        // Runs have one number after the other, so the one that was seen is missing only if another folder had it, or if
        // it is older than all that are told. That is no excuse where it is known that there is another folder. (A site whose
        // nodes share a database tells no runs, and has no folder.)
        let earlier = hello.earlier.as_deref().unwrap_or_default();
        let is_told = !earlier.is_empty()
            && (seen.contested || earlier.iter().any(|run| run.number <= seen.run.number));
        if now.run != seen.run && is_told && !earlier.contains(&seen.run) {
            let known = seen.run.number;
            return Err(Rejection::OtherRun { site: hello.site, own: self.site, known });
        }
        Ok(Seen { contested: seen.contested, ..now })
    }

    /// Has a peer all of its own stream that was received of it? `received` was read before the peer read `told`.
    pub fn check_positions(&self, site: SiteId, told: &[u64], received: &[u64]) -> Result<(), Rejection> {
        let own = self.site;
        if told.len() != received.len() {
            let theirs = u16::try_from(told.len()).unwrap_or(u16::MAX);
            return Err(Rejection::Shards { site, own, theirs, ours: self.shards });
        }
        let shorter = told.iter().zip(received).position(|(told, received)| told < received);
        match shorter {
            None => Ok(()),
            Some(shard) => {
                let (told, known) = (told[shard], received[shard]);
                Err(Rejection::OldStream { site, own, shard, told, known })
            }
        }
    }
}

#[cfg(test)]
mod tests;
