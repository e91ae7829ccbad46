//! The examples of `docs/protocol.md`: a whole handoff, one answer lost and one request repeated, byte by byte.

use std::{fs, path::PathBuf};

use minicbor::{Decode, Encode};
use quipu_engine::{
    Reply, Settings, Ticket,
    handoff::{
        Answer, Cluster, ClusterId, Server, Visit,
        exchange::{self, Exchange, Exchanged, Left, ShardAnswer, Taken},
    },
};

use crate::world::{Node, moment, shards};

/// With this variable the examples are written, not compared.
const WRITE: &str = "QUIPU_WRITE_VECTORS";

fn check<T: Encode<()> + for<'b> Decode<'b, ()> + PartialEq + std::fmt::Debug>(
    name: &str,
    what: &str,
    message: &T,
) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/vectors/{name}.hex"));
    let bytes = exchange::encode(message);
    assert_eq!(exchange::decode::<T>(&bytes).expect("its own bytes"), *message);
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let lines: Vec<String> = digits.chunks(32).map(<[String]>::concat).collect();
    let text = format!("# {what}\n{}\n", lines.join("\n"));
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, &text).expect("it can be written");
    }
    let stored = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(stored, text, "{name} is written otherwise");
}

fn cluster() -> Cluster {
    Cluster { name: "quipu".to_owned(), id: Some(ClusterId(*b"drawn at the 1st")) }
}

fn request(visits: Vec<(u16, Visit)>) -> Exchange {
    Exchange::new(Some(cluster()), visits)
}

fn answer(server: Server, shard: u16, answer: Answer) -> Exchanged {
    let answers = vec![(shard, ShardAnswer::Visited(Box::new(answer)))];
    Exchanged::new(cluster(), server, answers)
}

#[test]
fn a_handoff_is_written_as_documented() {
    let (mut site, mut edge) = (Node::site(1, Settings::default()), Node::edge(1));
    let server = site.server();
    check("exchange-hello", "The first request: who are you?", &Exchange::default());
    let hello = Exchanged::new(cluster(), server, Vec::new());
    check("exchange-hello-answer", "The answer: site 1 of the cluster quipu, which has 4 shards", &hello);

    edge.add(b"hits", 5, 0);
    edge.ask(b"hits");
    let visit = |edge: &mut Node| {
        let mut visits = edge.visits(server, true, 0);
        assert_eq!(visits.len(), 1);
        visits.remove(0)
    };
    let take = |site: &mut Node, shard, visit: Visit| match site.take(shard, visit, 0) {
        Reply::Visited(answer) => *answer,
        other => panic!("{other:?}"),
    };
    let (shard, wish) = visit(&mut edge);
    check("exchange-wish", "I have counted something; what is hits?", &request(vec![(shard, wish.clone())]));
    let slot = take(&mut site, shard, wish.clone());
    check(
        "exchange-slot",
        "Here is a slot for it; hits is 0. (This answer is lost.)",
        &answer(server, shard, slot.clone()),
    );
    assert_eq!(take(&mut site, shard, wish), slot, "the same request again, the same answer");
    edge.answered(shard, server, &slot, 0);

    let (shard, token) = visit(&mut edge);
    check("exchange-token", "Here are 5 for hits, for that slot", &request(vec![(shard, token.clone())]));
    let taken = take(&mut site, shard, token.clone());
    check("exchange-taken", "The slot is filled; hits is 5", &answer(server, shard, taken.clone()));
    let again = take(&mut site, shard, token);
    assert_eq!((again, site.value(b"hits")), (taken.clone(), 5), "the token is repeated, and counted once");
    edge.answered(shard, server, &taken, 0);
    assert!(edge.open_handoffs().is_empty());
    assert_eq!(edge.value(b"hits"), 5);
}

#[test]
fn a_copy_is_refused_as_documented() {
    let (mut site, mut edge, mut copy) = (Node::site(1, Settings::default()), Node::edge(1), Node::edge(1));
    let server = site.server();
    edge.restart(0);
    edge.restart(0);
    edge.add(b"hits", 5, 0);
    copy.add(b"hits", 5, 0);
    edge.exchange(&mut site, true, 0); // There is a slot for it now.
    let (shard, visit) = copy.visits(server, true, 0).remove(0);
    let Reply::Refused(refusal) = site.take(shard, visit, 0) else { panic!("it is refused") };
    let answers = vec![(shard, ShardAnswer::from(refusal))];
    assert_eq!(answers, [(shard, ShardAnswer::Copy)]);
    check(
        "exchange-copy",
        "Somebody else uses your state; nothing was done",
        &Exchanged::new(cluster(), server, answers),
    );
}

#[test]
fn what_a_relay_leaves_is_written_as_documented() {
    let (mut site, mut relay, mut edge) = (Node::site(1, Settings::default()), Node::relay(1), Node::edge(1));
    edge.add(b"hits", 5, 0);
    edge.exchange(&mut relay, true, 0); // There is a slot for it now.
    let shard = shards().of(b"hits");
    relay.host.stop_relay(shard).expect("it may");
    relay.host.bequeath(shard, Ticket(0), site.server().name);
    let Some((_, Reply::Estate(estate))) = relay.commit(0).pop() else { panic!("an estate") };
    site.host.adopt(shard, Ticket(0), &estate, moment(0));
    let Some((_, Reply::Adopted(adoption))) = site.commit(0).pop() else { panic!("it is adopted") };
    let left = Left { shard: shard.0, estate: *estate };
    check("estate", "A relay leaves the slot of an edge in shard 1 to site 1", &left);
    check("adopted", "Site 1 has taken it over", &Taken::Answered(*adoption));
}
