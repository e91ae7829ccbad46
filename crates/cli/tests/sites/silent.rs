//! A site that was silent for so long that others may have removed it asks them before it counts.

use crate::{
    cluster::{Cluster, wait},
    harness::{Cable, Value},
    members::site_command,
};

/// Three sites that agree on `hits`.
fn three() -> Cluster {
    let cluster = Cluster::start(3, "");
    cluster.client(3).call("INCRBY hits 5");
    cluster.agree("hits", 5);
    cluster
}

fn others_have_given_it_up(cluster: &Cluster) {
    for number in [1, 2] {
        cluster.wait_for_info(number, "peer3:link=down");
    }
}

fn remove_as_dead(cluster: &Cluster) {
    let said = site_command(cluster, 1, "remove 3 --dead --wait 30").expect("removed");
    assert!(said.contains("removed: 3"), "{said}");
}

fn is_removed(answer: &Value) {
    assert!(answer.is_error() && answer.text().starts_with("REMOVED "), "{answer:?}");
    assert!(answer.text().contains("nothing was counted"), "{answer:?}");
}

#[test]
fn a_site_that_was_paused_and_removed_acknowledges_nothing() {
    let mut cluster = three();
    let mut clients: Vec<_> = (0..4).map(|_| cluster.client(3)).collect();
    for client in &mut clients {
        client.call("PING");
    }
    cluster.running(3).signal("STOP");
    others_have_given_it_up(&cluster);
    remove_as_dead(&cluster);
    for (number, client) in clients.iter_mut().enumerate() {
        let commands =
            format!("INCR hits\r\nINCR own:{number}\r\nINCRBY hits 2 IDMP p {number}\r\nSET hits 9\r\n");
        client.write(commands.as_bytes()).expect("the system takes it");
    }
    cluster.running(3).signal("CONT");
    for client in &mut clients {
        for _ in 0..4 {
            is_removed(&client.read().expect("an answer"));
        }
    }
    is_removed(&cluster.client(3).call("INCR hits"));
    // It still answers reads.
    assert_eq!(cluster.client(3).call("GET hits").count(), 5);
    let url = format!("http://{}/v1/counters/hits/add", cluster.running(3).http);
    let refused = ureq::post(&url).header("content-type", "application/json").send(r#"{"amount": 1}"#);
    assert!(matches!(refused, Err(ureq::Error::StatusCode(503))), "{refused:?}");
    cluster.take(3).kill();
    cluster.agree("hits", 5);
}

#[test]
fn a_site_that_was_killed_and_removed_acknowledges_nothing_when_it_is_started() {
    let mut cluster = three();
    let gone = cluster.take(3);
    let resp = gone.resp;
    gone.kill();
    others_have_given_it_up(&cluster);
    remove_as_dead(&cluster);
    let running = cluster.sites[&3].start_at(resp);
    is_removed(&running.client().call("INCR hits"));
    drop(running);
    cluster.agree("hits", 5);
}

#[test]
fn a_site_that_was_paused_and_not_removed_counts() {
    let cluster = three();
    let mut client = cluster.client(3);
    cluster.running(3).signal("STOP");
    others_have_given_it_up(&cluster);
    client.write(b"INCR hits\r\n").expect("the system takes it");
    cluster.running(3).signal("CONT");
    assert_eq!(client.read().expect("an answer"), Value::Integer(6));
    cluster.agree("hits", 6);
    let said = cluster.sites[&3].said();
    assert!(said.contains("its peers are asked whether it is still a member"), "{said}");
}

#[test]
fn a_site_that_was_paused_and_reaches_nobody_counts() {
    for cable in [Cable::Cut, Cable::Silent] {
        let cluster = three();
        let mut client = cluster.client(3);
        cluster.running(3).signal("STOP");
        others_have_given_it_up(&cluster);
        for number in [1, 2] {
            cluster.set(number, 3, cable);
        }
        client.write(b"INCR hits\r\n").expect("the system takes it");
        cluster.running(3).signal("CONT");
        assert_eq!(client.read().expect("an answer"), Value::Integer(6), "{cable:?}");
        for number in [1, 2] {
            cluster.set(number, 3, Cable::Whole);
        }
        cluster.agree("hits", 6);
        wait("it goes on", || !cluster.client(3).call("INCR more").is_error());
    }
}
