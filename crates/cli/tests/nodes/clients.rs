//! Clients of a Redis Cluster, which go to the node that has a key by themselves: redis-py, ioredis and `redis-benchmark`.

use std::{path::PathBuf, process::Command, thread, time::Duration};

use crate::{
    crew::{Crew, SHARDS},
    harness::{Client, Value, libraries, tools},
    store::Store,
};

/// Here nobody is to see that one small database serves many nodes slowly.
const PORT: &str = "--resp-cluster 127.0.0.1:0 --storage-deadline 60s";
const REDIRECTED: &str = "quipu_commands_redirected_total";
const PASSED_ON: &str = "quipu_commands_passed_on_total";
/// How long the load goes on after something has happened.
const CALM: Duration = Duration::from_secs(1);

pub(crate) fn redis_py((store, python): (&'static Store, PathBuf)) {
    run(store, Command::new(python), "redis_py_cluster.py");
}

pub(crate) fn ioredis((store, (node, folder)): (&'static Store, (PathBuf, PathBuf))) {
    let mut command = Command::new(node);
    command.env("QUIPU_NODE_MODULES", folder);
    run(store, command, "ioredis_cluster.js");
}

/// How many commands have taken a detour.
fn detours(crew: &Crew) -> u64 {
    crew.metric(REDIRECTED) + crew.metric(PASSED_ON)
}

/// Runs a script, and does to the nodes what it says.
fn run(store: &Store, command: Command, script: &str) {
    let crew = Crew::start_alike(&store.keyspace(), 3, PORT);
    let mut at_the_mark = None;
    let said = libraries::run(command, script, crew.resp_cluster(0).port(), &[], |line| {
        match line {
            "MARK" => at_the_mark = Some(detours(&crew)),
            "STRAIGHT" => assert_eq!(Some(detours(&crew)), at_the_mark, "some were not sent to the owner"),
            "DRAIN" => drain(&crew, 1),
            "KILL" => {
                crew.kill(2);
                crew.wait("its shards are taken", || crew.shares(0) == [SHARDS / 2, SHARDS / 2]);
                thread::sleep(CALM);
                crew.start_node(2);
                crew.settle();
                thread::sleep(CALM);
            }
            _ => return false,
        }
        true
    });
    assert!(at_the_mark.is_some(), "the script has not said when it knows all nodes");
    println!(
        "{script}: {}",
        said.iter().find(|line| line.contains("each once")).expect("what it has counted")
    );
}

/// One that has no port for clients of a cluster is never named: what is for it is passed on.
pub(crate) fn a_node_that_clients_of_a_cluster_cannot_reach(store: &'static Store) {
    const KEYS: i64 = 60;
    let link = "--link 127.0.0.1:0";
    let flags = [format!("{link} {PORT}"), format!("{link} {PORT}"), link.to_owned()];
    let crew = Crew::start_with(&store.keyspace(), &flags);
    crew.settle();
    let [mut first, mut second] =
        [0, 1].map(|number| Client::connect(crew.resp_cluster(number)).expect("it listens"));
    let mut moved = 0;
    for key in 0..KEYS {
        let command = format!("INCRBY mixed:{key} 5 IDMP client {key}");
        let answer = first.call(&command);
        if answer != Value::Integer(5) {
            let slot = first.call(&format!("CLUSTER KEYSLOT mixed:{key}")).integer();
            assert_eq!(answer, Value::Error(format!("MOVED {slot} {}", crew.resp_cluster(1))));
            assert_eq!(second.call(&command), Value::Integer(5));
            moved += 1;
        }
        // The same again, by another way.
        assert_eq!(crew.client(2).call(&command), Value::Integer(5));
    }
    assert_eq!(crew.metric(REDIRECTED), moved);
    let own = first.call("DBSIZE").integer() + second.call("DBSIZE").integer();
    assert!(moved > 0 && (1..KEYS).contains(&own), "{moved} moved, {own} at the two");
    let info = first.call("CLUSTER INFO").text();
    assert!(info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:2"), "{info}");
    assert_eq!(crew.client(0).call("DBSIZE"), Value::Integer(KEYS));
}

/// Lets a node give all its shards away, and take some again.
fn drain(crew: &Crew, number: usize) {
    let quipu = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
        let (url, node) = (format!("http://{}", crew.http(0)), crew.resp(number).to_string());
        let command = command.args(["node", "drain", &node, "--url", &url]).args(more);
        tools::output(command).expect("it drains");
    };
    quipu(&[]);
    assert_eq!(crew.shares(0), [0, SHARDS / 2, SHARDS / 2]);
    thread::sleep(CALM);
    quipu(&["--undo"]);
    crew.settle();
    thread::sleep(CALM);
}

pub(crate) fn redis_benchmark((store, program): (&'static Store, PathBuf)) {
    const REQUESTS: i64 = 4000;
    let crew = Crew::start_alike(&store.keyspace(), 3, PORT);
    let port = crew.resp_cluster(0).port().to_string();
    let requests = REQUESTS.to_string();
    let mut command = Command::new(program);
    command.args(["--cluster", "-h", "127.0.0.1", "-p", &port, "-t", "incr", "-q", "-n", &requests]);
    let said = tools::output(command.args(["-c", "12", "-P", "8"])).unwrap_or_else(|said| panic!("{said}"));
    assert!(said.contains("Cluster has 3 master nodes") || said.contains("requests per second"), "{said}");
    assert!(!said.to_ascii_lowercase().contains("error"), "{said}");
    assert_eq!(detours(&crew), 0, "{said}");
    // It has counted under a key of each node, and each node knows its own.
    let mut nodes = [0, 1, 2].map(|number| Client::connect(crew.resp_cluster(number)).expect("it listens"));
    let counted = nodes.each_mut().map(|client| {
        let keys = client.call("KEYS counter:*").array();
        assert_eq!(client.call("DBSIZE"), Value::Integer(i64::try_from(keys.len()).expect("few")));
        keys.iter().map(|key| client.call(&format!("GET {}", key.text())).integer()).sum::<i64>()
    });
    assert!(counted.iter().all(|counted| *counted > 0), "{counted:?}");
    assert_eq!(counted.iter().sum::<i64>(), REQUESTS, "{counted:?}");
    nodes.iter_mut().for_each(|client| assert_eq!(client.call("FLUSHALL"), Value::ok()));
    assert_eq!(crew.client(0).call("DBSIZE"), Value::Integer(0));
}
