//! Logs and a table on Apache Cassandra or ScyllaDB, so that many nodes can serve one site.
//!
//! - Each shard's log is one partition. Its owner, its next position and its checkpoint stand in static columns, and a
//!   commit is one conditional write of record and position: "if the owner is me and the next position is p". Nothing
//!   else decides who owns a shard, and no clock takes part.
//! - A commit whose outcome is not known is issued again, the same record, until the position is taken by it or the
//!   owner has changed. That goes on behind the caller, who asks ([`quipu_storage::Log::settle`]).
//! - The table's rows carry their version as the write timestamp, so that a late or repeated write changes nothing.
//!
//! Start reading at [`Cassandra`]. What the tables look like is in `schema.rs`, a commit in `issue.rs`.
//!
//! ```no_run
//! use quipu_storage::{ShardId, Store};
//! use quipu_storage_cassandra::{Access, Cassandra, Options, Schema};
//!
//! let address = "cassandra://10.0.0.1,10.0.0.2/quipu".parse()?;
//! let access = Access::default();
//! Cassandra::init(&address, &access, &Schema { replication: 3, ..Schema::default() })?;
//! let (cassandra, warnings) = Cassandra::open(&address, &access, Options::default())?;
//! for warning in warnings {
//!     eprintln!("{warning}");
//! }
//! let mut store = Store::new(cassandra.log(), cassandra.table());
//! store.open(ShardId(7))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod address;
mod away;
mod backoff;
mod bell;
mod body;
mod bridge;
mod connect;
mod error;
#[cfg(feature = "testing")]
mod faults;
mod fence;
mod floors;
mod issue;
#[cfg(feature = "local")]
pub mod local;
mod log;
mod records;
mod registry;
mod rows;
mod schema;
mod statements;
mod store;
mod table;

#[cfg(feature = "testing")]
pub use faults::{Fault, Faults};

pub use address::{Address, BadAddress};
pub use connect::Access;
pub use error::{SetupError, Warning};
pub use log::CassandraLog;
pub use registry::CassandraRegistry;
pub use schema::Schema;
pub use store::{Cassandra, Options, Timing};
pub use table::CassandraTable;
