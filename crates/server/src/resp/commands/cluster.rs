//! `CLUSTER SLOTS|SHARDS|NODES|INFO|MYID|KEYSLOT|…`, and by name only, because there is nothing to do: `ASKING`, `READONLY`,
//! `READWRITE`. Known on connections in cluster mode alone.

use std::fmt::Write as _;

use super::{Arity, Call, Group, Handler, Spec, client::help, connection::about};
use crate::resp::{Arguments, ClusterNode, Reply, RequestError, SLOTS, SlotMap, error::quote, slot_of};

/// Nobody votes on who has what, so there is no later one.
const EPOCH: u64 = 0;

/// Said of every way to change by hand who has what.
const BY_THEMSELVES: &str =
    "nodes find each other in the store that they share, and divide the hash slots among themselves";
/// Said of every way to look into one slot.
const BY_SHARDS: &str = "counters are kept by shards, which are many slots each; SCAN lists the keys of this node, and \
                         CLUSTER KEYSLOT says where a key belongs";

pub(super) static COMMANDS: [Spec; 4] = [
    nothing("asking", "Does nothing: a slot that moves is at one node at a time."),
    about(
        Group::Server,
        "cluster",
        Arity::AtLeast(2),
        "Is about the nodes and their hash slots.",
        Handler::Container { alone: None, subcommands: &SUBCOMMANDS },
    ),
    nothing("readonly", "Does nothing: no node is a replica."),
    nothing("readwrite", "Does nothing: no node is a replica."),
];

const fn nothing(name: &'static str, summary: &'static str) -> Spec {
    let ok: super::Action = |call, _| {
        call.reply().ok();
        Ok(())
    };
    about(Group::Connection, name, Arity::Exactly(1), summary, Handler::Connection(ok))
}

const fn word(name: &'static str, arity: usize, summary: &'static str, run: super::Action) -> Spec {
    about(Group::Server, name, Arity::Exactly(arity), summary, Handler::Connection(run))
}

static SUBCOMMANDS: [Spec; 10] = [
    word("cluster|help", 2, "Says this.", |call, _| {
        help(call, "CLUSTER", &SUBCOMMANDS);
        Ok(())
    }),
    word("cluster|info", 2, "Says how the cluster is.", |call, _| {
        let text = info(&call.server.slot_map());
        call.reply().text(&text);
        Ok(())
    }),
    word("cluster|keyslot", 3, "Gives the hash slot of a key.", |call, arguments| {
        let slot = slot_of(arguments.get(2).unwrap_or_default());
        call.reply().integer(slot.into());
        Ok(())
    }),
    word("cluster|links", 2, "Lists nothing: nodes are linked as they need it.", |call, _| {
        call.reply().array(0);
        Ok(())
    }),
    word("cluster|myid", 2, "Gives the name of this node.", |call, _| {
        let map = call.server.slot_map();
        call.reply().bulk(map.own.id.as_bytes());
        Ok(())
    }),
    word("cluster|nodes", 2, "Lists the nodes with their hash slots, as text.", |call, _| {
        let text = nodes(&call.server.slot_map());
        call.reply().text(&text);
        Ok(())
    }),
    word("cluster|replicas", 3, "Lists nothing: no node is a replica.", replicas),
    word("cluster|shards", 2, "Lists the nodes with their hash slots.", |call, _| {
        let map = call.server.slot_map();
        shards(&map, &mut call.reply());
        Ok(())
    }),
    word("cluster|slaves", 3, "Lists nothing: no node is a replica.", replicas),
    word("cluster|slots", 2, "Lists the hash slots with their nodes.", |call, _| {
        let map = call.server.slot_map();
        slots(&map, &mut call.reply());
        Ok(())
    }),
];

/// Why a second word that Redis knows is refused.
pub(super) fn refusal(word: &[u8]) -> Option<RequestError> {
    const BY_HAND: &str = "addslots addslotsrange bumpepoch count-failure-reports delslots delslotsrange failover \
                           flushslots forget meet replicate reset saveconfig set-config-epoch setslot";
    const INTO_SLOTS: &str = "countkeysinslot getkeysinslot";
    let (known, instead) =
        [(BY_HAND, BY_THEMSELVES), (INTO_SLOTS, BY_SHARDS)].into_iter().find_map(|(words, instead)| {
            let known = words.split_whitespace().find(|known| known.as_bytes().eq_ignore_ascii_case(word))?;
            Some((known, instead))
        })?;
    Some(RequestError::NotSupported { command: format!("CLUSTER {}", known.to_ascii_uppercase()), instead })
}

fn replicas(call: &mut Call<'_>, arguments: Arguments<'_>) -> Result<(), RequestError> {
    let id = arguments.get(2).unwrap_or_default();
    if !call.server.slot_map().nodes().any(|node| node.id.as_bytes() == id) {
        return Err(RequestError::UnknownNode(quote(id)));
    }
    call.reply().array(0);
    Ok(())
}

fn info(map: &SlotMap) -> String {
    let served = map.slot_count();
    let state = if served == usize::from(SLOTS) { "ok" } else { "fail" };
    let known = map.nodes().count();
    let size = map.nodes().filter(|node| !node.slots().is_empty()).count();
    format!(
        "cluster_state:{state}\r\ncluster_slots_assigned:{served}\r\ncluster_slots_ok:{served}\r\n\
         cluster_slots_pfail:0\r\ncluster_slots_fail:0\r\ncluster_known_nodes:{known}\r\ncluster_size:{size}\r\n\
         cluster_current_epoch:{EPOCH}\r\ncluster_my_epoch:{EPOCH}\r\ncluster_stats_messages_sent:0\r\n\
         cluster_stats_messages_received:0\r\ntotal_cluster_links_buffer_limit_exceeded:0\r\n"
    )
}

/// A line for each: id, address, flags, master, ping, pong, epoch, link, slots.
fn nodes(map: &SlotMap) -> String {
    let mut text = String::new();
    for node in map.nodes() {
        let flags = if std::ptr::eq(node, &map.own) { "myself,master" } else { "master" };
        // There is no bus, so there is no port of it.
        let mut written = write!(text, "{} {}@0 {flags} - 0 0 {EPOCH} connected", node.id, node.endpoint);
        for range in node.slots() {
            let (first, last) = (range.start(), range.end());
            written = written.and_then(|()| match first == last {
                true => write!(text, " {first}"),
                false => write!(text, " {first}-{last}"),
            });
        }
        debug_assert!(written.is_ok(), "a string takes everything");
        text.push('\n');
    }
    text
}

fn shards(map: &SlotMap, reply: &mut Reply<'_>) {
    reply.array(map.nodes().count());
    for node in map.nodes() {
        let ClusterNode { id, endpoint, .. } = node;
        reply.map(2);
        reply.bulk(b"slots");
        reply.array(2 * node.slots().len());
        for range in node.slots() {
            reply.integer((*range.start()).into());
            reply.integer((*range.end()).into());
        }
        reply.bulk(b"nodes");
        reply.array(1);
        reply.map(7);
        reply.bulk(b"id");
        reply.bulk(id.as_bytes());
        reply.bulk(b"port");
        reply.integer(endpoint.port.into());
        for name in ["ip", "endpoint"] {
            reply.bulk(name.as_bytes());
            reply.bulk(endpoint.host.as_bytes());
        }
        reply.bulk(b"role");
        reply.bulk(b"master");
        reply.bulk(b"replication-offset");
        reply.integer(0);
        reply.bulk(b"health");
        reply.bulk(b"online");
    }
}

fn slots(map: &SlotMap, reply: &mut Reply<'_>) {
    let each = |node| ClusterNode::slots(node).iter().map(move |range| (range, node));
    let mut ranges: Vec<_> = map.nodes().flat_map(each).collect();
    ranges.sort_unstable_by_key(|(range, _)| *range.start());
    reply.array(ranges.len());
    for (range, ClusterNode { id, endpoint, .. }) in ranges {
        reply.array(3);
        reply.integer((*range.start()).into());
        reply.integer((*range.end()).into());
        reply.array(4);
        reply.bulk(endpoint.host.as_bytes());
        reply.integer(endpoint.port.into());
        reply.bulk(id.as_bytes());
        reply.map(0);
    }
}
