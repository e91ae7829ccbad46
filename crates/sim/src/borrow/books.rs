//! What is counted of a run while it lasts, and what must hold at every message.

use super::Times;
use crate::core::{Millis, Node};

/// What was measured of all clients.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) arrived: u64,
    pub(super) vanished: u64,
    /// How often a client went on with another server.
    pub(super) moves: u64,
    pub(super) issued: u64,
    pub(super) client_messages: u64,
    pub(super) client_bytes: u64,
    pub(super) server_messages: u64,
    pub(super) server_bytes: u64,
    /// From its arrival until a client could count.
    pub(super) ready_ms: Vec<Millis>,
    /// From when a client counted no more until permanent nodes had it all.
    pub(super) held_ms: Vec<Millis>,
    /// From when a client counted no more until it could leave.
    pub(super) leave_ms: Vec<Millis>,
}

/// Never above what was issued, never lower than before.
pub(super) fn check_report(
    node: Node,
    before: Option<u64>,
    after: Option<u64>,
    issued: u64,
) -> Result<(), String> {
    let (Some(before), Some(after)) = (before, after) else { return Ok(()) };
    if after > issued {
        return Err(format!("node {node} reports {after}, but only {issued} were issued"));
    }
    if after < before {
        return Err(format!("node {node} reported {before} and then {after}"));
    }
    Ok(())
}

/// The quantiles of what was measured.
pub(super) fn times(mut all_ms: Vec<Millis>) -> Times {
    all_ms.sort_unstable();
    let Some(last) = all_ms.len().checked_sub(1) else { return Times::default() };
    Times { median_ms: all_ms[last / 2], p99_ms: all_ms[last * 99 / 100], max_ms: all_ms[last] }
}
