//! A Cassandra of one's own: one or three real nodes on addresses of the loopback network, for tests and for
//! demonstrations. Its data is gone when it is dropped, or when this process ends, however it does.
//!
//! [`Program::find`] finds Java and fetches Cassandra (once, with Maven); [`Nodes::start`] starts it.

mod nodes;
mod process;
mod program;

pub use nodes::{Nodes, Setup, drop_keyspace};
pub use program::Program;
