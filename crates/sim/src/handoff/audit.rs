//! The books of a run: where everything that was counted is.

use super::fleet::{Client, Fixed, Fleet, index};
use super::setup::Cleanup;
use super::{Replica, setup::Retirement};
use crate::core::Node;
use std::collections::BTreeMap;

/// What was counted, by where it is: own values, and tokens that will still be taken if they arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Accounts {
    /// At tier 0.
    pub(super) roots: u64,
    /// At servers, tokens that they keep for others included.
    pub(super) servers: u64,
    /// At clients that are there.
    pub(super) clients: u64,
    /// At clients that vanished.
    pub(super) vanished: u64,
}

impl Accounts {
    pub(super) fn of(fleet: &Fleet) -> Self {
        let held = |replica: &Replica| held_by(fleet, replica);
        let sum = |nodes: &[Fixed]| nodes.iter().map(|node| held(&node.replica)).sum::<u64>();
        let clients = |client: &Option<Client>| client.as_ref().map_or(0, |client| held(&client.replica));
        Accounts {
            roots: sum(fleet.roots()),
            servers: sum(fleet.servers()) + kept_for_the_gone(fleet),
            clients: fleet.clients.iter().map(clients).sum(),
            vanished: fleet.vanished.iter().map(held).sum(),
        }
    }

    /// Conservation.
    pub(super) fn balance(&self, issued: u64) -> Result<(), String> {
        let Accounts { roots, servers, clients, vanished } = *self;
        if issued == roots + servers + clients + vanished {
            return Ok(());
        }
        Err(format!(
            "{issued} were issued, but there are {roots} at tier 0, {servers} at servers, {clients} at clients \
             and {vanished} with clients that vanished"
        ))
    }
}

/// The own value of a replica, and its tokens that will be taken.
fn held_by(fleet: &Fleet, replica: &Replica) -> u64 {
    let open = |token: &&_| is_open(fleet, token);
    let tokens = replica.handshake().tokens().iter().filter(open).map(|token| token.value);
    replica.own() + tokens.sum::<u64>()
}

fn is_open(fleet: &Fleet, token: &quipu_crdt::handoff::Token<u32, u64>) -> bool {
    let desk = fleet.fixed[index(token.target)].replica.handshake().desk();
    desk.is_open(&token.source, token.slot.target_clock)
}

/// Tokens that servers keep for clients that have left. Those of clients that are there are with them, too.
fn kept_for_the_gone(fleet: &Fleet) -> u64 {
    if !matches!(fleet.setup.retirement, Some(Retirement { cleanup: Cleanup::On, .. })) {
        return 0;
    }
    let first_client = fleet.setup.tier0 + fleet.setup.servers;
    let is_gone = |client: Node| fleet.clients[index(client - first_client)].is_none();
    let mut kept = BTreeMap::new();
    for server in fleet.servers() {
        let handshake = server.replica.handshake();
        let in_notices = handshake.notices().flat_map(|(notice, _)| notice.tokens());
        for token in handshake.cached().chain(in_notices) {
            if is_gone(token.source) && is_open(fleet, token) {
                kept.insert((token.target, token.slot.target_clock), token.value);
            }
        }
    }
    kept.values().sum()
}
