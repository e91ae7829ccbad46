//! Where counts are kept: two small things, the same for every backend.
//!
//! - A [`Log`] per shard is the commit point. A batch is atomic, durable when it is reported committed, and
//!   refused once somebody else has taken the shard's fence.
//! - A [`Table`] of rows is brought up to date behind the logs, in checkpoints ([`Checkpointer`]). Every row
//!   carries a version that only grows, so that writing it twice or late does no harm.
//!
//! [`Store`] puts the two together: opening a shard takes its fence, then reads what the log holds after the
//! checkpoint; a checkpoint writes rows first and moves the mark after. To this crate a record is just bytes.
//!
//! | backend | for |
//! |---|---|
//! | [`memory`] | tests: faults are injected, a crash is a call |
//! | [`embedded`] | one process, one folder: a file of records per worker, `fjall` as the table |
//! | [`mod@file`] | one process, one file: little data, opened often |
//!
//! # Blocking, on purpose
//!
//! Calls block. A worker thread owns its shards and drives one log; it hands over the batches of all its
//! shards in one call and has nothing to release before that call is back. On the embedded backend such a call
//! is one write and one flush, and a thread that waits for a flush costs nothing that a task would not. A
//! remote store runs the shards of one call side by side inside the call (on a runtime of its own) and returns
//! when the slowest is done or has run into its time limit, which is an outcome too ([`Outcome::Unknown`]). Logs
//! are `Send`: a node that wants to build the next batch meanwhile moves the log to a thread of its own, and a
//! node whose shards should not wait for each other gives them more workers.
//!
//! ```
//! use quipu_storage::{Batch, Flush, Outcome, Position, ShardId, Store, memory::Memory};
//!
//! let memory = Memory::new();
//! let mut store = Store::new(memory.log(), memory.table());
//! let shard = ShardId(7);
//! assert_eq!(store.open(shard)?.records.len(), 0);
//! let outcomes = store.commit(&[Batch { shard, record: b"one".to_vec() }], Flush::Now);
//! assert!(matches!(outcomes[..], [Outcome::Committed { position: Position(1) }]));
//!
//! // Another process takes the shard: it finds the record, and the first can commit no more.
//! let mut other = Store::new(memory.log(), memory.table());
//! assert_eq!(other.open(shard)?.records[0].bytes, b"one");
//! let outcomes = store.commit(&[Batch { shard, record: b"two".to_vec() }], Flush::Now);
//! assert!(matches!(outcomes[..], [Outcome::Fenced]));
//! # Ok::<(), quipu_storage::StorageError>(())
//! ```

mod checkpointer;
pub mod embedded;
mod error;
pub mod file;
mod log;
pub mod memory;
mod registry;
mod store;
mod table;
#[cfg(feature = "testing")]
pub mod testing;

#[cfg(feature = "testing")]
pub use testing::conformance;

pub use checkpointer::Checkpointer;
pub use error::StorageError;
pub use log::{
    BATCH_BYTES_MAX, Batch, Fenced, Flush, Log, Mark, Outcome, Position, Record, Settled, ShardId, Taken,
};
pub use registry::{Held, NodeId, Registered, Registry};
pub use store::{Recovered, Store};
pub use table::{KEY_BYTES_MAX, Page, ROW_BYTES_MAX, Row, Scan, Slice, Table, Write, check_sizes};
