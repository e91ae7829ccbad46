//! A site of two nodes, and another site in a folder.

use std::{
    process::Command,
    thread,
    time::{Duration, Instant},
};

use crate::{
    crew::{Crew, SHARDS},
    harness::{Client, Running, Site, tools},
    store::Store,
};

/// How long sites may take until they agree, takeovers among it.
const AGREE_WITHIN: Duration = Duration::from_secs(60);

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

fn quipu(arguments: &str) -> Result<String, String> {
    let output = Command::new(env!("CARGO_BIN_EXE_quipu")).args(arguments.split(' ')).output();
    let output = output.expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// Which node speaks for the site, as all that run see it.
fn speaker(crew: &Crew) -> usize {
    let speaks = |number: usize| {
        let nodes = crew.nodes(number)?;
        let own = nodes["nodes"].as_array()?.iter().find(|node| node["node"] == nodes["node"])?.clone();
        (own["speaks"] == true).then_some(number)
    };
    let found = || (0..crew.len()).find_map(speaks);
    crew.wait("one node speaks", || found().is_some());
    found().expect("one node speaks")
}

pub(crate) fn another_site_comes_to_any_node(store: &Store) {
    let (first, second, other) = (tools::free_port(), tools::free_port(), tools::free_port());
    let site_of = |link: u16| format!("--site 1 --link 127.0.0.1:{link} --peers 2@127.0.0.1:{other}");
    let crew = Crew::start_with(&store.keyspace(), &[site_of(first), site_of(second)]);
    crew.settle();
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
    both_nodes_know_of_the_other_site(&crew);
    spend_everywhere(&crew, &there);
    // The node that does not speak is killed, and its shards are heard at the other one.
    let speaker_before = speaker(&crew);
    let listener = 1 - speaker_before;
    crew.kill(listener);
    there.client().call("INCRBY shared:0 50");
    (0..10).for_each(|key| _ = there.client().call(&format!("INCRBY shared:{key} 50")));
    let mut clients = [crew.client(speaker_before), there.client()];
    (1..10).for_each(|key| agree(&mut clients, &format!("shared:{key}"), 85));
    agree(&mut clients, "shared:0", 135);
    // The node that speaks is killed: the other one speaks then, in a later run of the site.
    crew.start_node(listener);
    crew.settle();
    crew.kill(speaker_before);
    there.client().call("INCRBY shared:0 100");
    let mut clients = [crew.client(listener), there.client()];
    agree(&mut clients, "shared:0", 235);
    // And the first one again, when the second is stopped.
    crew.start_node(speaker_before);
    crew.settle();
    crew.stop(listener);
    (0..10).for_each(|key| _ = crew.client(speaker_before).call(&format!("INCRBY shared:{key} 100")));
    let mut clients = [crew.client(speaker_before), there.client()];
    (1..10).for_each(|key| agree(&mut clients, &format!("shared:{key}"), 185));
    agree(&mut clients, "shared:0", 335);
}

/// Whichever node is asked: it knows that the link is up, when something came over it, and what has arrived there.
fn both_nodes_know_of_the_other_site(crew: &Crew) {
    for number in 0..2 {
        crew.wait("the link is up", || {
            crew.client(number).call("INFO replication").text().contains("peer2:link=up")
        });
        let mut client = crew.client(number);
        for key in 0..10 {
            let info = format!("{:?}", client.call(&format!("COUNTER.INFO shared:{key}")));
            assert!(info.contains(&format!("{:?}", b"heard_ms_ago")), "{info}");
            client.call(&format!("INCR waited:{key}"));
            assert_eq!(client.call("WAIT 1 20000").integer(), 1, "the other site has waited:{key}");
        }
    }
}

/// A counter with bounds is created at one site and spent at both, through every node, and never more than there is.
fn spend_everywhere(crew: &Crew, there: &Running) {
    for key in 0..4 {
        let created = crew
            .client(key % 2)
            .call(&format!("COUNTER.CREATE stock:{key} MIN 0 MAX 60 VALUE 60 WAIT 20000"));
        assert!(!created.is_error(), "{created:?}");
        let mut clients = [crew.client(0), crew.client(1), there.client()];
        let mut sold = 0;
        for round in 0..30 {
            for client in &mut clients {
                sold += i64::from(
                    !client.call(&format!("DECR stock:{key} REMOTE 5000 IDMP r{round} {key}")).is_error(),
                );
            }
        }
        assert!(sold >= 30, "each id is sold once at least: {sold}");
        agree(&mut clients, &format!("stock:{key}"), 30);
    }
}

pub(crate) fn another_site_joins(store: &Store) {
    let crew = Crew::start(&store.keyspace(), 2);
    (0..20).for_each(|key| _ = crew.client(key % 2).call(&format!("INCRBY early:{key} 7")));
    let link = |number: usize| {
        let nodes = crew.nodes(number).expect("it answers");
        let own =
            nodes["nodes"].as_array().expect("nodes").iter().find(|it| it["node"] == nodes["node"]).cloned();
        own.expect("it is there")["link"].as_str().expect("an address").to_owned()
    };
    let site =
        Site::in_folder(&format!("--site 2 --shards {SHARDS} --link 127.0.0.1:0 --join 1@{}", link(1)));
    let there = site.start();
    let address = there.link.expect("it joins");
    let said =
        quipu(&format!("site add 2@{address} --wait 60 --server http://{}", crew.http(speaker(&crew))));
    assert!(said.as_ref().is_ok_and(|said| said.contains("site 2 belongs to the cluster")), "{said:?}");
    crew.wait("it takes writes", || !there.client().call("INCRBY early:0 3").is_error());
    let mut clients = [crew.client(0), crew.client(1), there.client()];
    agree(&mut clients, "early:0", 10);
    (1..20).for_each(|key| agree(&mut clients, &format!("early:{key}"), 7));
    crew.settle();
    // It leaves in order, and takes nothing with it.
    (0..20).for_each(|key| _ = there.client().call(&format!("INCRBY early:{key} 5")));
    let said = quipu(&format!("site remove 2 --wait 90 --server http://{}", crew.http(speaker(&crew))));
    assert!(said.is_ok(), "{said:?}");
    let mut clients = [crew.client(0), crew.client(1)];
    agree(&mut clients, "early:0", 15);
    (1..20).for_each(|key| agree(&mut clients, &format!("early:{key}"), 12));
}

pub(crate) fn a_site_of_nodes_joins_and_leaves(store: &Store) {
    let other = Site::in_folder(&format!("--site 1 --shards {SHARDS} --link 127.0.0.1:0"));
    let there = other.start();
    (0..20).for_each(|key| _ = there.client().call(&format!("INCRBY early:{key} 7")));
    let links = [tools::free_port(), tools::free_port()];
    let join = there.link.expect("it has links");
    let flags = links.map(|link| format!("--site 2 --link 127.0.0.1:{link} --join 1@{join}"));
    let crew = Crew::start_with(&store.keyspace(), &flags);
    let said = quipu(&format!("site add 2@127.0.0.1:{} --wait 60 --server http://{}", links[0], there.http));
    assert!(said.as_ref().is_ok_and(|said| said.contains("site 2 belongs to the cluster")), "{said:?}");
    // While it joined, its shards were together. Now they are not.
    crew.settle();
    crew.wait("it takes writes", || !crew.client(0).call("INCRBY early:0 3").is_error());
    let mut clients = [crew.client(0), crew.client(1), there.client()];
    agree(&mut clients, "early:0", 10);
    (1..20).for_each(|key| agree(&mut clients, &format!("early:{key}"), 7));
    (0..20).for_each(|key| _ = crew.client(key % 2).call(&format!("INCRBY early:{key} 5")));
    // It leaves in order: all its nodes stop taking writes, and what they have counted stays.
    let said = quipu(&format!("site remove 2 --wait 90 --server http://{}", there.http));
    assert!(said.is_ok(), "{said:?}");
    (0..2).for_each(|number| {
        crew.wait("no more writes", || crew.client(number).call("INCR late").is_error());
    });
    let mut clients = [there.client()];
    agree(&mut clients, "early:0", 15);
    (1..20).for_each(|key| agree(&mut clients, &format!("early:{key}"), 12));
}
