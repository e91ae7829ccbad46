//! Connections in cluster mode: who has which hash slots, and what is said to those who ask the wrong node. The node that is
//! asked has `a` and `b`, the second one has `foo` and `d`.

use quipu_server::resp::{Mode, Protocol};

use crate::support::Conversation;

const MOVED: &str = "-MOVED 12182 two.example.org:7002\r\n";
const CROSSED: &str = "-CROSSSLOT Keys in request don't hash to the same slot\r\n";
const OWN: &str = "0000000000000000000000000000000100000000";
const SECOND: &str = "0000000000000000000000000000000200000000";

fn node() -> Conversation {
    Conversation::in_mode(Mode::Cluster, None)
}

fn says(commands: &[&str], expected: &str) {
    assert_eq!(node().say(commands), expected, "{commands:?}");
}

#[test]
fn a_key_elsewhere_is_answered_with_where_it_is() {
    says(&["INCR a", "GET a", "INCR foo", "INCR a"], &format!(":1\r\n$1\r\n1\r\n{MOVED}:2\r\n"));
    for command in [
        "GET foo",
        "MGET foo",
        "SET foo 5",
        "SET foo text",
        "DEL foo foo",
        "INCREX foo BYINT 2",
        "INCRBY foo 1 IDMP p 7",
        "COUNTER.CREATE foo MIN 0",
        "COUNTER.INFO foo",
        "COUNTER.OUTCOME foo p 7",
        "TYPE foo",
        "MGET {foo}1 {foo}2",
    ] {
        says(&[command], MOVED);
    }
    // What is wrong anyhow is wrong here.
    says(&["INCR"], "-ERR wrong number of arguments for 'incr' command\r\n");
    says(&["PING", "DBSIZE", "SCAN 0"], "+PONG\r\n:0\r\n*2\r\n$1\r\n0\r\n*0\r\n");
}

#[test]
fn keys_of_several_slots_are_refused() {
    for command in ["MGET a b", "DEL a foo", "EXISTS a b a", "UNLINK a b"] {
        says(&[command], CROSSED);
    }
    says(&["MGET {a}1 {a}2", "EXISTS a a"], "*2\r\n$-1\r\n$-1\r\n:0\r\n");
    assert_eq!(Conversation::new(None).say(&["MGET a b foo"]), "*3\r\n$-1\r\n$-1\r\n$-1\r\n");
}

#[test]
fn a_transaction_is_in_one_slot_and_at_this_node() {
    says(&["MULTI", "INCR a", "GET {a}1", "EXEC"], "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n$-1\r\n");
    let aborted = "-EXECABORT Transaction discarded because of previous errors.\r\n";
    says(&["MULTI", "INCR foo", "INCR a", "EXEC"], &format!("+OK\r\n{MOVED}+QUEUED\r\n{aborted}"));
    says(&["MULTI", "MGET a b", "EXEC"], &format!("+OK\r\n{CROSSED}{aborted}"));
    let without = "-ERR EXEC without MULTI\r\n";
    says(
        &["MULTI", "INCR a", "INCR b", "EXEC", "EXEC"],
        &format!("+OK\r\n+QUEUED\r\n+QUEUED\r\n{CROSSED}{without}"),
    );
    says(&["MULTI", "CLUSTER MYID", "EXEC"], &format!("+OK\r\n+QUEUED\r\n*1\r\n$40\r\n{OWN}\r\n"));
    says(&["MULTI", "INCR a", "RESET", "INCR foo"], &format!("+OK\r\n+QUEUED\r\n+RESET\r\n{MOVED}"));
}

#[test]
fn the_map_in_all_its_forms() {
    let range = |first, last, host: &str, port, id| {
        format!(
            "*3\r\n:{first}\r\n:{last}\r\n*4\r\n${}\r\n{host}\r\n:{port}\r\n$40\r\n{id}\r\n*0\r\n",
            host.len()
        )
    };
    let slots = [
        range(0, 8191, "127.0.0.1", 7001, OWN),
        range(8192, 12_287, "two.example.org", 7002, SECOND),
        range(12_288, 16_382, "127.0.0.1", 7001, OWN),
        range(16_383, 16_383, "two.example.org", 7002, SECOND),
    ];
    says(&["CLUSTER SLOTS"], &format!("*4\r\n{}", slots.concat()));
    let nodes = format!(
        "{OWN} 127.0.0.1:7001@0 myself,master - 0 0 0 connected 0-8191 12288-16382\n\
         {SECOND} two.example.org:7002@0 master - 0 0 0 connected 8192-12287 16383\n\
         0000000000000000000000000000000300000000 ::1:7003@0 master - 0 0 0 connected\n"
    );
    says(&["CLUSTER NODES"], &format!("${}\r\n{nodes}\r\n", nodes.len()));
    let shards = node().say(&["HELLO 3", "CLUSTER SHARDS"]);
    let own = format!(
        "*3\r\n%2\r\n$5\r\nslots\r\n*4\r\n:0\r\n:8191\r\n:12288\r\n:16382\r\n$5\r\nnodes\r\n*1\r\n%7\r\n$2\r\nid\r\n$40\r\n{OWN}\r\n\
         $4\r\nport\r\n:7001\r\n$2\r\nip\r\n$9\r\n127.0.0.1\r\n$8\r\nendpoint\r\n$9\r\n127.0.0.1\r\n$4\r\nrole\r\n$6\r\nmaster\r\n\
         $18\r\nreplication-offset\r\n:0\r\n$6\r\nhealth\r\n$6\r\nonline\r\n"
    );
    assert!(shards.contains(&own), "{shards}");
    let info = node().say(&["CLUSTER INFO"]);
    for line in ["cluster_state:ok", "cluster_slots_ok:16384", "cluster_known_nodes:3", "cluster_size:2"] {
        assert!(info.contains(&format!("{line}\r\n")), "{line} in {info}");
    }
    says(&["CLUSTER MYID"], &format!("$40\r\n{OWN}\r\n"));
    says(&["CLUSTER KEYSLOT foo", "cluster keyslot {foo}bar"], ":12182\r\n:12182\r\n");
    says(&["CLUSTER LINKS", &format!("CLUSTER REPLICAS {SECOND}")], "*0\r\n*0\r\n");
    says(&["CLUSTER REPLICAS x"], "-ERR Unknown node x\r\n");
}

#[test]
fn what_clients_of_clusters_ask_besides() {
    says(&["READONLY", "READWRITE", "ASKING", "SELECT 0"], "+OK\r\n+OK\r\n+OK\r\n+OK\r\n");
    says(&["SELECT 1"], "-ERR SELECT is not allowed in cluster mode\r\n");
    assert!(node().say(&["HELLO"]).contains("$4\r\nmode\r\n$7\r\ncluster\r\n"));
    assert!(node().say(&["INFO cluster"]).contains("cluster_enabled:1\r\n"));
    let (alone, cluster) = (Conversation::new(None).say(&["COMMAND COUNT"]), node().say(&["COMMAND COUNT"]));
    let count = |reply: &str| reply.trim().strip_prefix(':').and_then(|count| count.parse().ok());
    assert_eq!(count(&cluster), count(&alone).map(|count: u32| count + 4));
    let keys = |command: &str| node().say(&[&format!("COMMAND GETKEYS {command}")]);
    assert_eq!(keys("INCRBY foo 5 IDMP p 7"), "*1\r\n$3\r\nfoo\r\n");
    assert_eq!(keys("COUNTER.CREATE foo MIN 0"), "*1\r\n$3\r\nfoo\r\n");
    assert_eq!(keys("MGET a foo"), "*2\r\n$1\r\na\r\n$3\r\nfoo\r\n");
    assert!(node().say(&["COMMAND INFO cluster"]).starts_with("*1\r\n*10\r\n$7\r\ncluster\r\n"));
}

#[test]
fn what_operators_of_clusters_do_is_refused_in_clear_words() {
    for (command, words) in [
        ("CLUSTER MEET 127.0.0.1 7002", "ERR CLUSTER MEET is not supported: nodes find each other"),
        ("cluster setslot 5 node x", "ERR CLUSTER SETSLOT is not supported: nodes find each other"),
        (
            "CLUSTER COUNTKEYSINSLOT 5",
            "ERR CLUSTER COUNTKEYSINSLOT is not supported: counters are kept by shards",
        ),
        ("CLUSTER NOSUCH", "ERR unknown subcommand 'NOSUCH'. Try CLUSTER HELP."),
        ("CLUSTER", "ERR wrong number of arguments for 'cluster' command"),
        ("CLUSTER MYID x", "ERR wrong number of arguments for 'cluster|myid' command"),
    ] {
        let said = node().say(&[command]);
        assert!(said.starts_with(&format!("-{words}")), "{command}: {said}");
        assert!(Conversation::new(None).say(&[command]).starts_with("-ERR "), "{command}");
    }
    let disabled = "-ERR This instance has cluster support disabled\r\n";
    for command in ["CLUSTER SLOTS", "READONLY", "ASKING"] {
        assert_eq!(Conversation::new(None).say(&[command]), disabled, "{command}");
    }
}

#[test]
fn nothing_is_told_before_the_password() {
    let mut node = Conversation::in_mode(Mode::Cluster, Some("secret"));
    let refused = "-NOAUTH Authentication required.\r\n";
    for command in ["CLUSTER SLOTS", "CLUSTER MEET a 1", "READONLY", "INCR foo"] {
        assert_eq!(node.say(&[command]), refused, "{command}");
    }
    assert_eq!(node.say(&["AUTH secret", "INCR foo"]), format!("+OK\r\n{MOVED}"));
    assert_eq!(node.say(&["RESET", "CLUSTER SLOTS"]), format!("+RESET\r\n{refused}"));
    assert_eq!((node.session.mode(), node.session.protocol()), (Mode::Cluster, Protocol::Resp2));
}
