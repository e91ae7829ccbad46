//! Who a data folder is: its site and cluster, fixed when it is made; the runs of servers on it; what it has seen of its
//! peers. Kept in the table, in rows of a shard that does not exist.

use std::{collections::BTreeMap, sync::Arc};

use minicbor::{Decode, Encode};
use quipu_engine::{
    Council, Shards, SiteId,
    council::{BadChange, Seat},
    handoff::{ClusterId, Name},
};
use quipu_storage::{Row, ShardId, Slice, StorageError, Table, Write};

use super::council::Sitting;
use crate::{
    config::{CLUSTER_DEFAULT, Config, SHARDS_DEFAULT, SITE_DEFAULT},
    links::{Identity, Instance, Run, Seen},
    random::random,
};

/// Stands for the folder where others have a shard.
const FOLDER: ShardId = super::siblings::SEAT;
const IDENTITY: &[u8] = b"identity";
const RUN: &[u8] = b"run";
/// The last runs before it.
const EARLIER: &[u8] = b"earlier-runs";
/// So many of them are noted.
const EARLIER_MAX: usize = 64;
const COUNCIL: &[u8] = b"council";
/// The id of the cluster, once it is known here.
const CLUSTER_ID: &[u8] = b"cluster-id";
/// Is the site about to leave the cluster?
const LEAVING: &[u8] = b"leaving";
/// Is a relay to retire?
const RETIRING: &[u8] = b"retiring";
/// Why the folder is an old copy, once that was noticed.
const OLD_COPY: &[u8] = b"old-copy";
/// The id that a folder is being restored under.
const RESTORING: &[u8] = b"restoring";

/// Why a folder cannot be used as was asked. It was not changed.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The store failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// Bytes that nobody has written.
    #[error("what the folder says of itself cannot be read ({what}: {why}); restore it from a copy")]
    Unreadable {
        /// The row.
        what: &'static str,
        /// What is wrong.
        why: String,
    },
    /// Another number of shards.
    #[error(
        "it has {found} shards, and --shards says {asked}; the number is fixed when a folder is made. Leave --shards out, or use another --data"
    )]
    Shards {
        /// How many it has.
        found: u16,
        /// How many were asked for.
        asked: u16,
    },
    /// The folder of another site.
    #[error(
        "it is the folder of site {found}, and --site says {asked}; the number is fixed when a folder is made. Leave --site out, or use another --data"
    )]
    Site {
        /// Whose it is.
        found: u16,
        /// Whose it should be.
        asked: u16,
    },
    /// The folder of another cluster.
    #[error(
        "it belongs to the cluster {found:?}, and --cluster says {asked:?}; the name is fixed when a folder is made. Leave --cluster out, or use another --data"
    )]
    Cluster {
        /// Whose it is.
        found: String,
        /// Whose it should be.
        asked: String,
    },
    /// A peer that does not belong to the cluster.
    #[error(
        "--peers names site {asked}, and the members of this folder's cluster are {members}, as its council says. Leave the site out and add it with `quipu site add`, or use another --data"
    )]
    NoMember {
        /// The peer.
        asked: u16,
        /// Who belongs to it.
        members: String,
    },
    /// A restore that has begun and not ended.
    #[error(
        "its restore under the id {new} was interrupted, and parts of it have the old id; run `quipu restore` on it again, which goes on"
    )]
    Restoring {
        /// What it becomes.
        new: SiteId,
    },
    /// Incarnations only grow.
    #[error(
        "it is the folder of site {site}, which cannot become incarnation {asked}; nothing was changed. Name a higher one, or none"
    )]
    OldIncarnation {
        /// What it is.
        site: SiteId,
        /// What was asked for.
        asked: u16,
    },
    /// There are no more.
    #[error(
        "site {site} has no incarnation after this one; nothing was changed. Empty the folder and add it under another number"
    )]
    NoIncarnation {
        /// What it is.
        site: SiteId,
    },
    /// A relay's folder, for a site.
    #[error(
        "it is the folder of a relay, and --tier says 0; what it is is fixed when a folder is made. Give --tier 1 and --parents, or use another --data"
    )]
    IsRelay,
    /// A site's folder, for a relay.
    #[error(
        "it is the folder of site {site}, and --tier says 1; what it is is fixed when a folder is made. Leave --tier out, or use another --data"
    )]
    IsSite {
        /// Whose it is.
        site: SiteId,
    },
    /// A copy of a relay's folder.
    #[error(
        "it is the folder of a relay, which cannot be restored: what a copy has may have been handed over since. Start a relay in a new folder; what only the lost one had counted is lost"
    )]
    RelayCopy,
    /// The site itself among its peers.
    #[error(
        "--peers names site {own}, which is this site itself; leave it out, or give --site another number"
    )]
    OwnPeer {
        /// Its number.
        own: u16,
    },
}

/// As it is stored. A folder from before there were several sites has the first field alone.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
struct Stored {
    #[n(0)]
    shards: u16,
    #[n(1)]
    cluster: Option<String>,
    #[n(2)]
    site: Option<SiteId>,
    #[n(3)]
    instance: Option<Instance>,
    /// The members at the first start, this site among them.
    #[n(4)]
    founders: Option<Vec<u16>>,
    /// Where a newcomer, or a restored site, finds members of the cluster that it is to join.
    #[n(5)]
    known: Option<BTreeMap<u16, String>>,
    /// The name of a relay; none: it is a site.
    #[n(6)]
    relay: Option<Name>,
}

/// What a folder says of itself.
pub(super) struct Folder {
    table: Arc<dyn Table>,
    pub(super) identity: Identity,
    stored: Stored,
}

impl std::fmt::Debug for Folder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Folder").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl Folder {
    /// Reads who the folder is, and begins a run. A new folder becomes what the configuration says.
    /// Where several nodes may do so at a time, all make the same of it: `instance` is what it was made with.
    pub(super) fn open(
        table: Arc<dyn Table>,
        config: &Config,
        instance: Option<Instance>,
    ) -> Result<Self, FolderError> {
        if let Some((_, Some(new))) = read::<Option<SiteId>>(&table, RESTORING, "restore")? {
            return Err(FolderError::Restoring { new });
        }
        let stored = match read::<Stored>(&table, IDENTITY, "identity")? {
            None => {
                let new = Stored::new(config)?;
                write(&table, IDENTITY, 1, Stored { instance: instance.or(new.instance), ..new })?
            }
            Some((version, old)) if old.instance.is_none() => {
                let alone = Stored { shards: old.shards, ..Stored::alone() };
                alone.check(config)?;
                write(&table, IDENTITY, version + 1, alone)?
            }
            Some((_, stored)) => stored,
        };
        stored.check(config)?;
        let missing = |why: &str| FolderError::Unreadable { what: "identity", why: why.to_owned() };
        let site = stored.site.ok_or_else(|| missing("no site"))?;
        let (version, before) = match read::<Run>(&table, RUN, "run")? {
            Some((version, run)) => (version, Some(run)),
            None => (0, None),
        };
        let earlier = note_earlier(&table, before)?;
        let run = Run { number: before.map_or(0, |run| run.number) + 1, nonce: random() };
        let identity = Identity {
            cluster: stored.cluster.clone().ok_or_else(|| missing("no cluster"))?,
            shards: stored.shards,
            site,
            instance: stored.instance.ok_or_else(|| missing("no number of its own"))?,
            run: write(&table, RUN, version + 1, run)?,
            earlier,
        };
        Ok(Self { table, identity, stored })
    }

    /// The id of the cluster, if it is known here. Drawn, durably, by the lowest of the sites that a cluster begins with.
    pub(super) fn cluster_id(&self) -> Result<Option<ClusterId>, FolderError> {
        if let Some((_, id)) = read::<ClusterId>(&self.table, CLUSTER_ID, "cluster id")? {
            return Ok(Some(id));
        }
        let Stored { founders, known, relay, .. } = &self.stored;
        let lowest = founders.iter().flatten().min();
        if relay.is_some() || known.is_some() || lowest != Some(&self.identity.site.number) {
            return Ok(None);
        }
        write(&self.table, CLUSTER_ID, 1, ClusterId(self.identity.instance.fingerprint())).map(Some)
    }

    /// Remembers the id of the cluster, as another one of it has told. Durable when it returns.
    pub(super) fn store_cluster_id(&self, id: ClusterId) -> Result<(), FolderError> {
        write_next(&self.table, CLUSTER_ID, id)
    }

    /// The shards of the folder.
    pub(super) fn shards(&self) -> Result<Shards, FolderError> {
        let found = self.identity.shards;
        let why = || format!("{found} shards are not possible");
        Shards::new(found).ok_or_else(|| FolderError::Unreadable { what: "identity", why: why() })
    }

    /// The council as it was stored, or as it begins: then it is durable when this returns.
    pub(super) fn council(&self, config: &Config) -> Result<Sitting, FolderError> {
        let unreadable = |why: String| FolderError::Unreadable { what: "council", why };
        let council = match self.load_council()? {
            Some(bytes) => Council::decode(&bytes).map_err(|bad| unreadable(bad.to_string()))?,
            None => {
                let council = self.stored.first_council(self.identity.site, config);
                let council = council.map_err(|bad| unreadable(bad.to_string()))?;
                self.store_council(council.encode())?;
                council
            }
        };
        let listed = council.config();
        for peer in config.peers.iter().filter(|_| listed.epoch > 0) {
            let mut ids = listed.sites.keys().chain(listed.removed.keys());
            if !ids.any(|id| id.number == peer.number) {
                let members: Vec<String> = listed.sites.keys().map(ToString::to_string).collect();
                let members = format!("{{{}}}", members.join(", "));
                return Err(FolderError::NoMember { asked: peer.number, members });
            }
        }
        let mut addresses = self.stored.known.clone().unwrap_or_default();
        let given = config.join.iter().chain(&config.peers);
        addresses.extend(given.map(|peer| (peer.number, peer.address.clone())));
        Ok(Sitting::new(council, addresses, self.is_leaving()?))
    }

    /// What was last seen of a peer.
    pub(super) fn seen(&self, site: SiteId) -> Result<Option<Seen>, FolderError> {
        Ok(read(&self.table, &peer_key(site), "a peer")?.map(|(_, seen)| seen))
    }

    /// Remembers what was seen of a peer. Durable when it returns.
    pub(super) fn remember(&self, site: SiteId, seen: Seen) -> Result<(), FolderError> {
        let key = peer_key(site);
        let version = match read::<Seen>(&self.table, &key, "a peer")? {
            Some((_, before)) if before == seen => return Ok(()),
            Some((version, _)) => version + 1,
            None => 1,
        };
        write(&self.table, &key, version, seen).map(drop)
    }

    /// Remembers whether the site is about to leave the cluster. Durable when it returns.
    pub(super) fn store_leaving(&self, is_leaving: bool) -> Result<(), FolderError> {
        write_next(&self.table, LEAVING, is_leaving)
    }

    /// Is the site about to leave the cluster, as people want it?
    pub(super) fn is_leaving(&self) -> Result<bool, FolderError> {
        Ok(read::<bool>(&self.table, LEAVING, "leaving")?.is_some_and(|(_, is_leaving)| is_leaving))
    }

    /// Why the folder is an old copy, as this run or an earlier one has noticed: it counts no more until it was restored.
    pub(super) fn old_copy(&self) -> Result<Option<String>, FolderError> {
        Ok(read::<Option<String>>(&self.table, OLD_COPY, "old copy")?.and_then(|(_, why)| why))
    }

    /// Remembers why the folder is an old copy. Durable when it returns.
    pub(super) fn store_old_copy(&self, why: &str) -> Result<(), FolderError> {
        write_next(&self.table, OLD_COPY, Some(why))
    }

    /// The name of a relay; none: it is a site.
    pub(super) fn relay(&self) -> Option<Name> {
        self.stored.relay
    }

    /// Is a relay to retire?
    pub(super) fn is_retiring(&self) -> Result<bool, FolderError> {
        Ok(read::<bool>(&self.table, RETIRING, "retiring")?.is_some_and(|(_, is_retiring)| is_retiring))
    }

    /// Remembers that a relay is to retire. Durable when it returns.
    pub(super) fn store_retiring(&self) -> Result<(), FolderError> {
        write_next(&self.table, RETIRING, true)
    }

    /// What the council has stored, if it has.
    pub(super) fn load_council(&self) -> Result<Option<Vec<u8>>, FolderError> {
        Ok(self.table.get(FOLDER, Slice::KEPT, COUNCIL)?.map(|row| row.bytes))
    }

    /// Stores what the council wants to find again. Durable when it returns.
    pub(super) fn store_council(&self, bytes: Vec<u8>) -> Result<(), FolderError> {
        let before = self.table.get(FOLDER, Slice::KEPT, COUNCIL)?;
        let version = before.map_or(1, |row| row.version + 1);
        put(&self.table, COUNCIL, Row { version, bytes })
    }
}

impl Stored {
    fn new(config: &Config) -> Result<Self, FolderError> {
        let own = config.site.unwrap_or(SITE_DEFAULT);
        if config.peers.iter().chain(&config.join).any(|peer| peer.number == own) {
            return Err(FolderError::OwnPeer { own });
        }
        let joins = !config.join.is_empty();
        let peers = config.peers.iter().filter(|_| !joins).map(|peer| peer.number);
        let mut founders: Vec<u16> = peers.chain([own]).collect();
        founders.sort_unstable();
        let known = config.join.iter().map(|peer| (peer.number, peer.address.clone())).collect();
        Ok(Self {
            shards: config.shards.unwrap_or(SHARDS_DEFAULT),
            cluster: Some(config.cluster.clone().unwrap_or_else(|| CLUSTER_DEFAULT.to_owned())),
            site: Some(SiteId { number: own, incarnation: 0 }),
            founders: Some(founders),
            known: joins.then_some(known),
            relay: config.is_relay().then(|| Name::drawn(new_instance().0)),
            ..Self::alone()
        })
    }

    /// What a folder was before there were several sites.
    fn alone() -> Self {
        Self {
            shards: SHARDS_DEFAULT,
            cluster: Some(CLUSTER_DEFAULT.to_owned()),
            site: Some(SiteId::FIRST),
            instance: Some(new_instance()),
            founders: Some(vec![SiteId::FIRST.number]),
            known: None,
            relay: None,
        }
    }

    /// The council of a folder that has none yet.
    fn first_council(&self, site: SiteId, config: &Config) -> Result<Council, BadChange> {
        if self.known.is_some() {
            return Ok(Council::newcomer(site));
        }
        let founders = self.founders.iter().flatten().filter(|number| **number != site.number);
        let others = founders.map(|number| SiteId { number: *number, incarnation: 0 });
        let seat = |site: SiteId| {
            let address = config.peers.iter().find(|peer| peer.number == site.number);
            (site, Seat::member("", address.map_or("", |peer| &peer.address)))
        };
        Council::first(site, others.chain([site]).map(seat).collect())
    }

    /// Is the folder what was asked for?
    fn check(&self, config: &Config) -> Result<(), FolderError> {
        match (config.is_relay(), self.relay) {
            (true, None) => return Err(FolderError::IsSite { site: self.site.unwrap_or(SiteId::FIRST) }),
            (false, Some(_)) => return Err(FolderError::IsRelay),
            (true, Some(_)) | (false, None) => {}
        }
        if let Some(asked) = config.shards.filter(|asked| *asked != self.shards) {
            return Err(FolderError::Shards { found: self.shards, asked });
        }
        let site = self.site.unwrap_or(SiteId::FIRST).number;
        if let Some(asked) = config.site.filter(|asked| *asked != site) {
            return Err(FolderError::Site { found: site, asked });
        }
        if let (Some(asked), Some(found)) = (&config.cluster, &self.cluster)
            && asked != found
        {
            return Err(FolderError::Cluster { found: found.clone(), asked: asked.clone() });
        }
        match config.peers.iter().chain(&config.join).any(|peer| peer.number == site) {
            true => Err(FolderError::OwnPeer { own: site }),
            false => Ok(()),
        }
    }
}

/// What a folder is to become.
pub(super) struct Plan {
    table: Arc<dyn Table>,
    stored: Stored,
    pub(super) old: SiteId,
    pub(super) new: SiteId,
    pub(super) shards: Shards,
    /// The old one's.
    pub(super) council: Council,
}

impl Plan {
    /// Notes that a restore has begun: nothing is served from the folder until it has ended.
    pub(super) fn begin(table: Arc<dyn Table>, incarnation: Option<u16>) -> Result<Self, FolderError> {
        let unreadable = |what, why: String| FolderError::Unreadable { what, why };
        let stored = read::<Stored>(&table, IDENTITY, "identity")?;
        let (_, stored) = stored.ok_or_else(|| unreadable("identity", "there is none".into()))?;
        if stored.relay.is_some() {
            return Err(FolderError::RelayCopy);
        }
        let old = stored.site.unwrap_or(SiteId::FIRST);
        let council = match table.get(FOLDER, Slice::KEPT, COUNCIL)? {
            Some(row) => Council::decode(&row.bytes).map_err(|bad| unreadable("council", bad.to_string()))?,
            None => Council::first(old, BTreeMap::from([(old, Seat::member("", ""))]))
                .map_err(|bad| unreadable("council", bad.to_string()))?,
        };
        let shards = Shards::new(stored.shards);
        let shards = shards.ok_or_else(|| unreadable("identity", format!("{} shards", stored.shards)))?;
        let begun = read::<Option<SiteId>>(&table, RESTORING, "restore")?;
        let new = match begun {
            Some((_, Some(new))) => new,
            _ => {
                let next = old.incarnation.checked_add(1).ok_or(FolderError::NoIncarnation { site: old })?;
                let incarnation = incarnation.unwrap_or(next);
                if incarnation < next {
                    return Err(FolderError::OldIncarnation { site: old, asked: incarnation });
                }
                SiteId { number: old.number, incarnation }
            }
        };
        write_next(&table, RESTORING, Some(new))?;
        Ok(Self { table, stored, old, new, shards, council })
    }

    /// The name of the cluster.
    pub(super) fn cluster(&self) -> &str {
        self.stored.cluster.as_deref().unwrap_or(CLUSTER_DEFAULT)
    }

    /// Did an interrupted restore come so far that the folder has its new id?
    pub(super) fn is_renamed(&self) -> bool {
        self.old == self.new
    }

    /// The folder is the new one's. It knows where the others were.
    pub(super) fn finish(&self, council: &Council) -> Result<(), FolderError> {
        if !self.is_renamed() {
            let seats = self.council.config().sites.iter().filter(|(_, seat)| !seat.address.is_empty());
            let mut known = self.stored.known.clone().unwrap_or_default();
            known.extend(seats.map(|(site, seat)| (site.number, seat.address.clone())));
            known.remove(&self.new.number);
            let (site, instance, known) = (Some(self.new), Some(new_instance()), Some(known));
            let stored = Stored { site, instance, known, ..self.stored.clone() };
            write_next(&self.table, IDENTITY, stored)?;
        }
        let version = self.table.get(FOLDER, Slice::KEPT, COUNCIL)?.map_or(0, |row| row.version);
        put(&self.table, COUNCIL, Row { version: version + 1, bytes: council.encode() })?;
        write_next(&self.table, LEAVING, false)?;
        write_next(&self.table, OLD_COPY, None::<String>)?;
        write_next(&self.table, RESTORING, None::<SiteId>)
    }
}

/// Writes a row in place of the one that is there.
fn write_next<T: Encode<()>>(table: &dyn Table, key: &[u8], value: T) -> Result<(), FolderError> {
    let version = table.get(FOLDER, Slice::KEPT, key)?.map_or(0, |row| row.version);
    write(table, key, version + 1, value).map(drop)
}

/// The last runs before the one that begins, with the one that has ended: durable when this returns, before its place is
/// taken.
fn note_earlier(table: &dyn Table, ended: Option<Run>) -> Result<Vec<Run>, FolderError> {
    let (version, mut earlier) = read::<Vec<Run>>(table, EARLIER, "earlier runs")?.unwrap_or_default();
    let Some(ended) = ended else { return Ok(earlier) };
    if !earlier.contains(&ended) {
        earlier.push(ended);
        earlier.drain(..earlier.len().saturating_sub(EARLIER_MAX));
    }
    write(table, EARLIER, version + 1, earlier)
}

fn new_instance() -> Instance {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&random().to_le_bytes());
    bytes[8..].copy_from_slice(&random().to_le_bytes());
    Instance(bytes)
}

fn peer_key(site: SiteId) -> Vec<u8> {
    [b"peer/".as_slice(), &site.number.to_be_bytes(), &site.incarnation.to_be_bytes()].concat()
}

/// A row and its version.
fn read<T: for<'b> Decode<'b, ()>>(
    table: &dyn Table,
    key: &[u8],
    what: &'static str,
) -> Result<Option<(u64, T)>, FolderError> {
    let Some(row) = table.get(FOLDER, Slice::KEPT, key)? else { return Ok(None) };
    let unreadable = |why: minicbor::decode::Error| FolderError::Unreadable { what, why: why.to_string() };
    Ok(Some((row.version, minicbor::decode(&row.bytes).map_err(unreadable)?)))
}

/// Writes a row, durably, and gives back what it holds.
fn write<T: Encode<()>>(table: &dyn Table, key: &[u8], version: u64, value: T) -> Result<T, FolderError> {
    let bytes = minicbor::to_vec(&value).expect("writing to memory does not fail");
    put(table, key, Row { version, bytes })?;
    Ok(value)
}

fn put(table: &dyn Table, key: &[u8], row: Row) -> Result<(), FolderError> {
    Ok(table.put(FOLDER, &[Write { slice: Slice::KEPT, key: key.to_vec(), row }])?)
}

#[cfg(test)]
mod tests;
