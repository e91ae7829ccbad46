//! A site of two nodes, and another site in a folder.

use std::{
    net::TcpListener,
    thread,
    time::{Duration, Instant},
};

use crate::{
    crew::{Crew, SHARDS},
    harness::{Client, Site},
    store::Store,
};

/// How long sites may take until they agree, takeovers among it.
const AGREE_WITHIN: Duration = Duration::from_secs(60);

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("it has an address").port()
}

fn agree(clients: &mut [Client], key: &str, value: i64) {
    let until = Instant::now() + AGREE_WITHIN;
    loop {
        let values: Vec<_> = clients.iter_mut().map(|client| client.call(&format!("GET {key}"))).collect();
        let is_so = values.iter().all(|found| !found.is_error() && found.count() == value);
        if is_so {
            return;
        }
        assert!(Instant::now() < until, "{key} should be {value}, and is {values:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

pub(crate) fn another_site_comes_to_any_node(store: &Store) {
    let (first, second, other) = (free_port(), free_port(), free_port());
    let site_of = |link: u16| format!("--site 1 --link 127.0.0.1:{link} --peers 2@127.0.0.1:{other}");
    let crew = Crew::start_with(&store.keyspace(), &[site_of(first), site_of(second)]);
    crew.wait("one node has all shards", || crew.shares(0) == [0, SHARDS] && crew.open() == SHARDS);
    // The other site knows the second node alone, whichever of them speaks.
    let flags = format!("--site 2 --shards {SHARDS} --link 127.0.0.1:{other} --peers 1@127.0.0.1:{second}");
    let folder = Site::in_folder(&flags);
    let there = folder.start();
    for round in 1..=5 {
        for key in 0..10 {
            crew.client(usize::from(round % 2 == 0))
                .call(&format!("INCRBY shared:{key} 3 IDMP here {round}-{key}"));
            there.client().call(&format!("INCRBY shared:{key} 4 IDMP there {round}-{key}"));
            // The same operation at both sites counts once, when they have met.
            there.client().call(&format!("INCRBY shared:{key} 3 IDMP here {round}-{key}"));
        }
    }
    let mut clients = [crew.client(0), crew.client(1), there.client()];
    (0..10).for_each(|key| agree(&mut clients, &format!("shared:{key}"), 35));
    // The node that speaks is killed: the other one speaks then, in a later run of the site.
    let speaker = (0..2).find(|number| {
        let nodes = crew.nodes(*number).expect("it answers");
        let own = nodes["node"].clone();
        let nodes = nodes["nodes"].as_array().cloned().unwrap_or_default();
        nodes.iter().any(|node| node["node"] == own && node["shards"] == SHARDS)
    });
    let speaker = speaker.expect("one has all shards");
    crew.kill(speaker);
    let heir = 1 - speaker;
    there.client().call("INCRBY shared:0 100");
    let mut clients = [crew.client(heir), there.client()];
    agree(&mut clients, "shared:0", 135);
    // And the first one again, when the second is stopped.
    crew.start_node(speaker);
    crew.stop(heir);
    crew.client(speaker).call("INCRBY shared:1 100");
    let mut clients = [crew.client(speaker), there.client()];
    agree(&mut clients, "shared:1", 135);
    agree(&mut clients, "shared:0", 135);
}
