//! How the nodes of one site find each other: what each has written of itself into the store that they share, and who has
//! which shard.
//!
//! Nothing here decides anything. A shard changes hands by its fence alone ([`crate::Log`]); what stands here says whom to
//! ask, and when it is time to take a shard from somebody who is gone.

use crate::{Fenced, Record, ShardId, StorageError};

/// One run of one node: drawn when the process starts, so that nobody else ever has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u128);

impl std::fmt::Display for NodeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// What a node has written of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// Who it is.
    pub node: NodeId,
    /// Counted up while it runs. Nobody's clock is compared with another's: a node is silent when this does not change.
    pub count: u64,
    /// It gives its shards away, and takes none.
    pub drains: bool,
    /// Where it can be reached, in bytes that mean something to nodes alone.
    pub about: Vec<u8>,
}

/// Who has a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// The shard.
    pub shard: ShardId,
    /// The node that has taken it last, and not released it.
    pub by: Option<NodeId>,
    /// Its fence, for whoever wants to take it from where it stands.
    pub fence: Fenced,
}

/// The register of a site's nodes.
pub trait Registry: Send + Sync {
    /// Which node this is.
    fn own(&self) -> NodeId;

    /// Writes what this node says of itself. It is seen by whoever looks after this has returned.
    fn write(&self, registered: &Registered) -> Result<(), StorageError>;

    /// Takes a node out, this one or another, for good: what it writes later is not seen.
    fn remove(&self, node: NodeId) -> Result<(), StorageError>;

    /// All that nodes have written of themselves. Those that are long gone may be left out.
    fn nodes(&self) -> Result<Vec<Registered>, StorageError>;

    /// Who has which shard, of those that anybody ever had.
    fn held(&self) -> Result<Vec<Held>, StorageError>;

    /// What was committed last to a shard's log, whoever has it: all that was committed before this was called is seen.
    /// `None`: nothing, after its checkpoint.
    fn last(&self, shard: ShardId) -> Result<Option<Record>, StorageError>;

    /// Wants a node to give its shards away, or to take some again.
    fn ask_to_drain(&self, node: NodeId, drains: bool) -> Result<(), StorageError>;

    /// Is this node wanted to give its shards away? `None`: nobody has said.
    fn is_asked_to_drain(&self) -> Result<Option<bool>, StorageError>;
}
