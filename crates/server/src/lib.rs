//! The node of a counter database: worker threads that run shards, and the front ends by which people reach them.
//!
//! Start with [`Server`], which puts everything together, then `node/worker.rs`, the loop that counts. [`resp`] is the
//! Redis protocol without sockets, [`config`] what a node is told.

pub mod auth;
pub mod config;
mod node;
pub mod resp;

pub use node::{ListRequest, Node, ServeError, Server};
