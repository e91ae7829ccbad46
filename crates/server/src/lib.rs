//! The node of a counter database: worker threads that run shards, and the front ends by which people reach them.
//!
//! Start with [`Server`], which puts everything together, then `node/worker.rs`, the loop that counts. [`resp`] is the
//! Redis protocol without sockets, [`links`] how sites meet, [`config`] what a node is told, [`metrics`] what it tells about
//! itself.

pub mod auth;
pub mod config;
pub mod http;
mod keepalive;
pub mod links;
pub mod metrics;
mod node;
mod random;
pub mod resp;
mod rights;
pub mod uncounted;

pub use node::{FolderError, RestoreError, Restored, ServeError, Server, restore};

/// How long a command waits, in milliseconds, until all sites have the definition of a new bounded counter, unless it says
/// otherwise.
const CREATE_WAIT_MS: u64 = 2_000;
/// For how long a command may wait for other sites, in milliseconds.
pub const SITES_WAIT_MS_MAX: u64 = 60_000;
