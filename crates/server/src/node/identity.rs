//! Who a data folder is: its site and cluster, fixed when it is made; the runs of servers on it; what it has seen of its
//! peers. Kept in the table, in rows of a shard that does not exist.

use std::sync::Arc;

use minicbor::{Decode, Encode};
use quipu_engine::{Membership, Shards, SiteId};
use quipu_storage::{Row, ShardId, Slice, StorageError, Table, Write, embedded::FjallTable};

use crate::{
    config::{CLUSTER_DEFAULT, Config, SHARDS_DEFAULT, SITE_DEFAULT},
    links::{Board, Identity, Instance, Run, Seen},
    metrics::Metrics,
    random::random,
};

/// Stands for the folder where others have a shard.
const FOLDER: ShardId = ShardId(u16::MAX);
const IDENTITY: &[u8] = b"identity";
const RUN: &[u8] = b"run";
const COUNCIL: &[u8] = b"council";

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
        "--peers names site {asked}, and the members of this folder's cluster are {members}, as its first start said. Leave the site out and add it with `quipu site add`, or use another --data"
    )]
    NoMember {
        /// The peer.
        asked: u16,
        /// Who belongs to it.
        members: String,
    },
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
}

/// What a folder says of itself.
#[derive(Debug)]
pub(super) struct Folder {
    table: Arc<FjallTable>,
    pub(super) identity: Identity,
    pub(super) membership: Membership,
}

impl Folder {
    /// Reads who the folder is, and begins a run. A new folder becomes what the configuration says.
    pub(super) fn open(table: Arc<FjallTable>, config: &Config) -> Result<Self, FolderError> {
        let stored = match read::<Stored>(&table, IDENTITY, "identity")? {
            None => write(&table, IDENTITY, 1, Stored::new(config)?)?,
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
        let founders = stored.founders.ok_or_else(|| missing("no members"))?;
        let others = founders.into_iter().filter(|number| *number != site.number);
        let members = others.map(|number| SiteId { number, incarnation: 0 }).chain([site]);
        let membership = Membership::of(members);
        let (version, before) = match read::<Run>(&table, RUN, "run")? {
            Some((version, run)) => (version, run.number),
            None => (0, 0),
        };
        let run = Run { number: before + 1, nonce: random() };
        let identity = Identity {
            cluster: stored.cluster.ok_or_else(|| missing("no cluster"))?,
            shards: stored.shards,
            site,
            instance: stored.instance.ok_or_else(|| missing("no number of its own"))?,
            run: write(&table, RUN, version + 1, run)?,
        };
        Ok(Self { table, identity, membership })
    }

    /// The shards of the folder.
    pub(super) fn shards(&self) -> Result<Shards, FolderError> {
        let found = self.identity.shards;
        let why = || format!("{found} shards are not possible");
        Shards::new(found).ok_or_else(|| FolderError::Unreadable { what: "identity", why: why() })
    }

    /// Is there no other site?
    pub(super) fn is_alone(&self) -> bool {
        self.membership.members.len() == 1
    }

    /// What all threads are to know of the links.
    pub(super) fn board(&self, config: &Config, metrics: &Metrics) -> Board {
        let addresses = config.peers.iter().map(|peer| (peer.number, peer.address.clone())).collect();
        Board::new(self.identity.clone(), self.membership.clone(), &addresses, metrics)
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

    /// What the council has stored, if it has.
    #[cfg_attr(not(test), expect(dead_code, reason = "the council will keep its state here"))]
    pub(super) fn load_council(&self) -> Result<Option<Vec<u8>>, FolderError> {
        Ok(self.table.get(FOLDER, Slice::KEPT, COUNCIL)?.map(|row| row.bytes))
    }

    /// Stores what the council wants to find again. Durable when it returns.
    #[cfg_attr(not(test), expect(dead_code, reason = "the council will keep its state here"))]
    pub(super) fn store_council(&self, bytes: Vec<u8>) -> Result<(), FolderError> {
        let before = self.table.get(FOLDER, Slice::KEPT, COUNCIL)?;
        let version = before.map_or(1, |row| row.version + 1);
        put(&self.table, COUNCIL, Row { version, bytes })
    }
}

impl Stored {
    fn new(config: &Config) -> Result<Self, FolderError> {
        let own = config.site.unwrap_or(SITE_DEFAULT);
        let mut founders = vec![own];
        for peer in &config.peers {
            if peer.number == own {
                return Err(FolderError::OwnPeer { own });
            }
            founders.push(peer.number);
        }
        founders.sort_unstable();
        Ok(Self {
            shards: config.shards.unwrap_or(SHARDS_DEFAULT),
            cluster: Some(config.cluster.clone().unwrap_or_else(|| CLUSTER_DEFAULT.to_owned())),
            site: Some(SiteId { number: own, incarnation: 0 }),
            founders: Some(founders),
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
        }
    }

    /// Is the folder what was asked for?
    fn check(&self, config: &Config) -> Result<(), FolderError> {
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
        let members = self.founders.as_deref().unwrap_or_default();
        for peer in &config.peers {
            if peer.number == site {
                return Err(FolderError::OwnPeer { own: site });
            }
            if !members.contains(&peer.number) {
                let members: Vec<String> = members.iter().map(u16::to_string).collect();
                let members = format!("{{{}}}", members.join(", "));
                return Err(FolderError::NoMember { asked: peer.number, members });
            }
        }
        Ok(())
    }
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
    table: &FjallTable,
    key: &[u8],
    what: &'static str,
) -> Result<Option<(u64, T)>, FolderError> {
    let Some(row) = table.get(FOLDER, Slice::KEPT, key)? else { return Ok(None) };
    let unreadable = |why: minicbor::decode::Error| FolderError::Unreadable { what, why: why.to_string() };
    Ok(Some((row.version, minicbor::decode(&row.bytes).map_err(unreadable)?)))
}

/// Writes a row, durably, and gives back what it holds.
fn write<T: Encode<()>>(table: &FjallTable, key: &[u8], version: u64, value: T) -> Result<T, FolderError> {
    let bytes = minicbor::to_vec(&value).expect("writing to memory does not fail");
    put(table, key, Row { version, bytes })?;
    Ok(value)
}

fn put(table: &FjallTable, key: &[u8], row: Row) -> Result<(), FolderError> {
    Ok(table.put(FOLDER, &[Write { slice: Slice::KEPT, key: key.to_vec(), row }])?)
}

#[cfg(test)]
mod tests;
