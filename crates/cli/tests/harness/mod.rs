//! What the tests on a running server share: the real binary on a folder of its own ([`Site`], [`Running`]), a client
//! that never retries by itself ([`Client`]), several sites on one machine ([`Cluster`]), and other programs where they are installed ([`tools`],
//! [`suite`]).

#![allow(dead_code, unused_imports, reason = "each test program uses its part of this")]

/// The command `quipu cluster` cuts links with it, too.
#[path = "../../src/commands/cluster/cable.rs"]
pub(crate) mod cable;
pub(crate) mod caller;
pub(crate) mod client;
pub(crate) mod cluster;
pub(crate) mod libraries;
pub(crate) mod random;
pub(crate) mod server;
pub(crate) mod suite;
pub(crate) mod tools;

pub(crate) use cable::{Cable, Line, Way};
pub(crate) use client::{Client, Value};
pub(crate) use cluster::Cluster;
pub(crate) use server::{Running, Site};
pub(crate) use suite::Suite;
