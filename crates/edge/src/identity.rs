//! Who the edge is: a row beside those of its counters.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};
use quipu_engine::handoff::{Cluster, ClusterId, Name};
use quipu_storage::{Row, ShardId, Slice, StorageError, Table, Write};

use crate::{OpenError, random::random_bytes};

/// The identity stands where no counters are.
const SHARD: ShardId = ShardId(u16::MAX);
const KEY: &[u8] = b"identity";
/// The format of the row.
const FORMAT: u8 = 1;
/// So many addresses are remembered of servers that may have something of this edge.
const SERVERS_MAX: usize = 64;

/// Who the edge is, and whom it has met.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Identity {
    /// Its name, which nobody else ever had.
    #[n(0)]
    pub(crate) name: Name,
    /// How often the state was opened by someone who spoke to a server.
    #[n(1)]
    pub(crate) openings: u64,
    /// The cluster that it counts for, once it has met a server.
    #[n(2)]
    pub(crate) cluster: Option<String>,
    /// Into how many shards that cluster divides its counters, which never changes.
    #[n(3)]
    pub(crate) shards: Option<u16>,
    /// Where servers were last seen.
    #[n(4)]
    pub(crate) servers: BTreeMap<Name, String>,
    /// How often this was written.
    #[n(5)]
    version: u64,
    /// The id of the cluster, once a server has told it.
    #[n(6)]
    cluster_id: Option<ClusterId>,
    /// Why nothing is handed over from this state: it was found to be a copy, or to lack something.
    #[n(7)]
    pub(crate) copy: Option<String>,
}

impl Identity {
    /// What the table says; drawn if it says nothing.
    pub(crate) fn read<T: Table>(table: &T) -> Result<Self, OpenError> {
        let Some(row) = table.get(SHARD, Slice::KEPT, KEY)? else {
            let name = Name::drawn(random_bytes());
            let (cluster, shards, servers) = (None, None, BTreeMap::new());
            let (version, cluster_id, copy) = (0, None, None);
            let mut new = Self { name, openings: 0, cluster, shards, servers, version, cluster_id, copy };
            new.write(table)?;
            return Ok(new);
        };
        match row.bytes.split_first() {
            Some((&FORMAT, body)) => {
                minicbor::decode(body).map_err(|error| OpenError::Identity(error.to_string()))
            }
            Some((format, _)) => {
                Err(OpenError::Identity(format!("it has format {format}, and this version reads {FORMAT}")))
            }
            None => Err(OpenError::Identity("the row is empty".to_owned())),
        }
    }

    /// The cluster that it counts for, once it has met a server.
    pub(crate) fn home(&self) -> Option<Cluster> {
        Some(Cluster { name: self.cluster.clone()?, id: self.cluster_id })
    }

    /// It counts for this one. What is known of it stays known.
    pub(crate) fn settle(&mut self, cluster: Cluster) {
        self.cluster = Some(cluster.name);
        self.cluster_id = self.cluster_id.or(cluster.id);
    }

    /// Remembers, durably, whether something is wrong with this state.
    pub(crate) fn set_copy<T: Table>(&mut self, table: &T, why: Option<String>) -> Result<(), StorageError> {
        if self.copy == why {
            return Ok(());
        }
        let mut next = Self { copy: why, ..self.clone() };
        next.write(table)?;
        *self = next;
        Ok(())
    }

    /// Makes it durable.
    pub(crate) fn write<T: Table>(&mut self, table: &T) -> Result<(), StorageError> {
        let mut next = Self { version: self.version.saturating_add(1), ..self.clone() };
        while next.servers.len() > SERVERS_MAX {
            next.servers.pop_first();
        }
        let mut bytes = vec![FORMAT];
        minicbor::encode(&next, &mut bytes).expect("writing to memory does not fail");
        let row = Row { version: next.version, bytes };
        table.put(SHARD, &[Write { slice: Slice::KEPT, key: KEY.to_vec(), row }])?;
        *self = next;
        Ok(())
    }
}
