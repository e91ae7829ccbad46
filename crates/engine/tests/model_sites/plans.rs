//! The plans that are looked through.

use quipu_engine::Settings;

use crate::plan::{Ask, Client, Operation, Plan, Trouble};

const ONE: Operation = Operation { key: b"k", id: b"one", amount: 1 };
const TWO: Operation = Operation { key: b"k", id: b"two", amount: 16 };
/// The same id, under another key.
const ELSEWHERE: Operation = Operation { key: b"l", id: b"one", amount: 1 };
const DELIVERY: Operation = Operation { key: b"stock", id: b"one", amount: 1 };
const SALE: Operation = Operation { key: b"stock", id: b"one", amount: -1 };

const TWO_SITES: &[usize] = &[0, 1];
const THREE_SITES: &[usize] = &[0, 1, 2];

const CREATE: (usize, Ask) = (0, Ask::Create { key: b"stock", initial: 0 });
const CREATE_FILLED: (usize, Ask) = (0, Ask::Create { key: b"stock", initial: 6 });
/// After it site 2 has rights of its own.
const SELL_AT_TWO: (usize, Ask) = (1, Ask::Plain { key: b"stock", amount: -1, remote_ms: 500 });
const SELL: Ask = Ask::Plain { key: b"stock", amount: -1, remote_ms: 0 };
const SELL_FROM_AFAR: Ask = Ask::Plain { key: b"stock", amount: -1, remote_ms: 100 };

const fn once(operation: usize, times: u8, sites: &'static [usize]) -> Client {
    Client { ask: Ask::Once(operation), times, sites }
}

const fn asks(ask: Ask, times: u8, sites: &'static [usize]) -> Client {
    Client { ask, times, sites }
}

const fn deletes(times: u8, sites: &'static [usize]) -> Client {
    Client { ask: Ask::Delete { key: b"k" }, times, sites }
}

fn plan(name: &'static str, sites: usize, operations: &'static [Operation], clients: Vec<Client>) -> Plan {
    let (trouble, settings) = (Trouble::default(), Settings::default());
    Plan { name, sites, operations, clients, before: &[], cut: &[], unlinked: &[], trouble, settings }
}

/// One operation, any number of times at two sites.
pub(crate) fn retries_at_two(trouble: Trouble) -> Plan {
    Plan { trouble, ..plan("retries at two sites", 2, &[ONE], vec![once(0, 3, TWO_SITES)]) }
}

pub(crate) fn retries_at_three(trouble: Trouble) -> Plan {
    Plan { trouble, ..plan("retries at three sites", 3, &[ONE], vec![once(0, 3, THREE_SITES)]) }
}

/// A retry at three sites that is not asked for more than twice.
pub(crate) fn retry_at_three(trouble: Trouble) -> Plan {
    Plan { trouble, ..plan("a retry at three sites", 3, &[ONE], vec![once(0, 2, THREE_SITES)]) }
}

/// All three count the operation, and the first and the third hear nothing of each other: the second one's count is taken
/// back, and settled, before the third knows for whom.
pub(crate) fn counted_at_three(trouble: Trouble) -> Plan {
    let clients = vec![once(0, 1, &[0]), once(0, 1, &[1]), once(0, 1, &[2])];
    Plan { trouble, cut: &[[0, 2]], ..plan("a retry that three count", 3, &[ONE], clients) }
}

/// The second site passes on what the others say.
pub(crate) fn retries_in_a_line(trouble: Trouble) -> Plan {
    let clients = vec![once(0, 2, THREE_SITES)];
    Plan { trouble, unlinked: &[[0, 2]], ..plan("a retry in a line of three", 3, &[ONE], clients) }
}

pub(crate) fn two_operations(trouble: Trouble) -> Plan {
    let clients = vec![once(0, 2, TWO_SITES), once(1, 2, TWO_SITES)];
    Plan { trouble, ..plan("two operations", 2, &[ONE, TWO], clients) }
}

/// The same id under two keys is two operations.
pub(crate) fn one_id_two_keys(trouble: Trouble) -> Plan {
    let clients = vec![once(0, 2, TWO_SITES), once(1, 2, TWO_SITES)];
    Plan { trouble, ..plan("one id, two keys", 2, &[ONE, ELSEWHERE], clients) }
}

/// No more than one operation may wait for the other site.
pub(crate) fn limit(trouble: Trouble) -> Plan {
    let plan = Plan { name: "limit of unsettled operations", ..two_operations(trouble) };
    Plan { settings: Settings { unsettled_max: 1, ..Settings::default() }, ..plan }
}

/// So many rows that they do not fit into a message with the operation's.
pub(crate) fn long_parts(trouble: Trouble) -> Plan {
    let clients = vec![asks(Ask::Fill, 1, &[1]), once(0, 2, TWO_SITES)];
    Plan { trouble, ..plan("long parts", 2, &[ONE], clients) }
}

pub(crate) fn resets_at_two(trouble: Trouble) -> Plan {
    let clients = vec![once(0, 2, TWO_SITES), deletes(2, TWO_SITES)];
    Plan { trouble, ..plan("resets at two sites", 2, &[ONE], clients) }
}

/// Two sites count, and a third, which hears of that from the second alone, sets aside what it knows.
pub(crate) fn reset_at_the_third(trouble: Trouble) -> Plan {
    let clients = vec![once(0, 2, TWO_SITES), deletes(1, &[2])];
    Plan { trouble, cut: &[[0, 2]], ..plan("a reset at the third site", 3, &[ONE], clients) }
}

/// The same, and the third may hear of it from the first too.
pub(crate) fn reset_at_the_third_in_reach(trouble: Trouble) -> Plan {
    Plan { name: "a reset at the third site, in reach", cut: &[], ..reset_at_the_third(trouble) }
}

pub(crate) fn reset_of_two(trouble: Trouble) -> Plan {
    let clients = vec![once(0, 2, TWO_SITES), once(1, 1, TWO_SITES), deletes(1, TWO_SITES)];
    Plan { trouble, ..plan("a reset of two operations", 2, &[ONE, TWO], clients) }
}

/// What an operation delivers is sold.
pub(crate) fn deliveries(trouble: Trouble) -> Plan {
    let clients = vec![once(0, 2, TWO_SITES), asks(SELL, 2, TWO_SITES)];
    Plan { trouble, before: &[CREATE], ..plan("deliveries", 2, &[DELIVERY], clients) }
}

/// The same, and whoever has nothing to sell asks the other one.
pub(crate) fn deliveries_from_afar(trouble: Trouble) -> Plan {
    let clients = vec![once(0, 2, TWO_SITES), asks(SELL_FROM_AFAR, 2, TWO_SITES)];
    Plan { trouble, before: &[CREATE], ..plan("deliveries from afar", 2, &[DELIVERY], clients) }
}

pub(crate) fn deliveries_at_three(trouble: Trouble) -> Plan {
    let clients = vec![once(0, 2, THREE_SITES), asks(SELL, 1, THREE_SITES)];
    Plan { trouble, before: &[CREATE], ..plan("deliveries at three sites", 3, &[DELIVERY], clients) }
}

/// Sales that are asked for again: one that is taken back gives its rights back.
pub(crate) fn sales(trouble: Trouble) -> Plan {
    let clients = vec![once(0, 3, TWO_SITES), asks(SELL_FROM_AFAR, 1, TWO_SITES)];
    Plan { trouble, before: &[CREATE_FILLED, SELL_AT_TWO], ..plan("sales", 2, &[SALE], clients) }
}

/// Two sites make the same counter, and clients count on it meanwhile.
pub(crate) fn creations(trouble: Trouble) -> Plan {
    let clients = vec![
        asks(Ask::Create { key: b"stock", initial: 1 }, 1, &[0]),
        asks(Ask::Create { key: b"stock", initial: 2 }, 1, &[1]),
        asks(SELL, 2, TWO_SITES),
    ];
    Plan { trouble, ..plan("creations", 2, &[], clients) }
}
