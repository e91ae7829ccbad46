//! Sites come, go and are restored while the others count.

use std::{
    fs,
    process::{Command, Output},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use crate::{
    cluster::{Cluster, wait},
    harness::{Line, Site, Value},
    refused::{copy, wait_for_words},
};

fn quipu(arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("QUIPU_")) {
        command.env_remove(name);
    }
    command.args(arguments.split(' ')).output().expect("it runs")
}

/// Runs `quipu site` at one of the sites: what it prints, or what it complains of.
fn site_command(cluster: &Cluster, at: u16, arguments: &str) -> Result<String, String> {
    let output = quipu(&format!("site {arguments} --server http://{}", cluster.running(at).http));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

fn takes_writes(cluster: &Cluster, number: u16, key: &str) -> bool {
    !cluster.client(number).call(&format!("INCR {key}")).is_error()
}

#[test]
fn a_fourth_site_joins_while_the_others_count() {
    let mut cluster = Cluster::start(3, "");
    for number in 1..=3 {
        cluster.client(number).call("INCRBY early 10");
    }
    cluster.agree("early", 30);
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (1..=3)
        .map(|number| {
            let (mut client, stop) = (cluster.client(number), Arc::clone(&stop));
            thread::spawn(move || {
                let mut counted = 0;
                while !stop.load(Ordering::Relaxed) {
                    client.call("INCR shared").integer();
                    counted += 1;
                }
                counted
            })
        })
        .collect();
    let line = Line::new().expect("a port is free");
    let join = format!("1@{}", cluster.running(1).link.expect("it has peers"));
    let site = Site::new(&format!("--site 4 --link 127.0.0.1:0 --join {join} --workers 2"));
    let running = site.start();
    line.aim(running.link.expect("it joins"));
    // Before it is added it is told what to do, and takes no writes.
    wait_for_words(&site, &["quipu site add"]);
    let answer = running.client().call("INCR shared");
    assert!(answer.is_error() && format!("{answer:?}").contains("joining"), "{answer:?}");
    cluster.take_in(4, site, running);
    let said = site_command(&cluster, 2, &format!("add 4@{} --wait 30", line.address)).expect("added");
    assert!(said.contains("site 4 belongs to the cluster"), "{said}");
    wait("site 4 takes writes", || takes_writes(&cluster, 4, "own"));
    stop.store(true, Ordering::Relaxed);
    let counted: i64 = writers.into_iter().map(|writer| writer.join().expect("it counts")).sum();
    assert!(counted > 0);
    cluster.agree("shared", counted);
    cluster.agree("early", 30);
    cluster.agree("own", 1);
    for number in 1..=4 {
        cluster.wait_for_info(number, "epoch:3");
        let list = site_command(&cluster, number, "list").expect("a list");
        assert!(list.contains("epoch 3") && list.matches(" member ").count() == 4, "{list}");
    }
    // It is a member after a restart, too, and reaches those whom it has only heard of.
    cluster.take(4).stop();
    let running = cluster.sites[&4].start();
    line.aim(running.link.expect("it has peers"));
    let site = cluster.sites.remove(&4).expect("it is there");
    cluster.take_in(4, site, running);
    cluster.wait_for_link(3, 4);
    cluster.client(4).call("INCR own");
    cluster.agree("own", 2);
}

#[test]
fn a_dead_site_is_removed_and_refused_when_it_comes_back() {
    let mut cluster = Cluster::start(3, "");
    cluster.client(3).call("INCRBY hits 7");
    let mut created = cluster.client(3);
    wait("the counter is created", || !created.call("COUNTER.CREATE stock MIN 0 MAX 10 VALUE 10").is_error());
    created.call("DECRBY stock 3");
    cluster.agree("hits", 7);
    cluster.agree("stock", 7);
    cluster.take(3).kill();
    cluster.wait_for_info(1, "peer3:link=down");
    cluster.client(1).call("INCRBY hits 5 IDMP web 1");
    let outcome = |cluster: &Cluster| cluster.client(1).call("COUNTER.OUTCOME hits web 1").array().remove(0);
    assert_eq!(outcome(&cluster), Value::Bulk(b"provisional".to_vec()));
    let error = site_command(&cluster, 2, "remove 3").expect_err("it may come back");
    assert!(error.contains("--dead") && error.contains("nothing was changed"), "{error}");
    let error = site_command(&cluster, 2, "remove 1 --dead").expect_err("it runs");
    assert!(error.contains("stop it first"), "{error}");
    site_command(&cluster, 2, "remove 3 --dead --wait 30").expect("removed");
    for number in [1, 2] {
        let list = site_command(&cluster, number, "list").expect("a list");
        assert!(list.contains("removed; its heir is site 1"), "{list}");
    }
    // Nothing waits for it, what it counted stays, and its heir has its rights.
    wait("the id settles", || outcome(&cluster) == Value::Bulk(b"counted".to_vec()));
    cluster.agree("hits", 12);
    let mut spent = 0;
    wait("all seven can be spent, those of the removed site too", || {
        let answers = [1, 2].map(|number| cluster.client(number).call("DECR stock"));
        spent += answers.iter().filter(|answer| !answer.is_error()).count();
        spent == 7
    });
    cluster.agree("stock", 0);
    assert!(cluster.client(1).call("DECR stock").is_error(), "and no more");
    // It comes back, and has not heard of it.
    cluster.start_site(3);
    cluster.wait_for_info(3, "counting:no,site 3 was removed from the cluster");
    let answer = cluster.client(3).call("INCR hits");
    assert!(answer.is_error() && format!("{answer:?}").contains("quipu site add"), "{answer:?}");
    wait_for_words(&cluster.sites[&1], &["site 3 was removed from the cluster"]);
    let error = site_command(&cluster, 1, "add 3@127.0.0.1:9").expect_err("a number is used once");
    assert!(error.contains("Choose another number"), "{error}");
    // Also after the next start.
    cluster.take(3).stop();
    cluster.start_site(3);
    assert!(cluster.client(3).call("INCR hits").is_error());
    cluster.take(3).stop();
    cluster.client(2).call("INCR hits");
    cluster.agree("hits", 13);
}

#[test]
fn a_restored_copy_goes_on_without_counting_anything_twice() {
    let mut cluster = Cluster::start(2, "");
    cluster.client(2).call("INCRBY hits 5");
    cluster.agree("hits", 5);
    cluster.take(2).stop();
    let data = cluster.sites[&2].data();
    let kept = data.with_file_name("kept");
    copy(&data, &kept);
    cluster.start_site(2);
    cluster.client(2).call("INCRBY hits 5 IDMP web 1");
    cluster.agree("hits", 10);
    let running = cluster.take(2);
    let busy = quipu(&format!("restore --data {}", data.display()));
    assert!(!busy.status.success(), "a server runs on it");
    running.kill();
    fs::remove_dir_all(&data).expect("removed");
    fs::rename(&kept, &data).expect("moved");
    let output = quipu(&format!("restore --data {}", data.display()));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    for part in ["site 2.1", "1 changes of site 2", "only its disk knew is lost", "quipu site restore 2.1"] {
        assert!(said.contains(part), "{part:?} in {said}");
    }
    cluster.start_site(2);
    assert!(!takes_writes(&cluster, 2, "hits"), "it does not belong to the cluster yet");
    site_command(&cluster, 1, "restore 2.1 --wait 30").expect("in the place of site 2");
    wait("site 2.1 takes writes", || takes_writes(&cluster, 2, "hits"));
    cluster.agree("hits", 11);
    cluster.client(1).call("INCRBY hits 5 IDMP web 1");
    cluster.agree("hits", 11);
    let list = site_command(&cluster, 1, "list").expect("a list");
    assert!(list.contains("2.1      member") && list.contains("heir is site 2.1"), "{list}");
}

#[test]
fn a_site_that_leaves_in_order_takes_nothing_with_it() {
    let mut cluster = Cluster::start(3, "");
    cluster.wait_for_link(1, 3);
    cluster.wait_for_link(2, 3);
    for _ in 0..50 {
        cluster.client(3).call("INCR hits");
    }
    let said = site_command(&cluster, 3, "drain --wait 30").expect("the others have everything");
    assert!(said.contains("quipu site remove"), "{said}");
    let answer = cluster.client(3).call("INCR hits");
    assert!(answer.is_error() && format!("{answer:?}").contains("quipu site stay"), "{answer:?}");
    // It is taken back, and then it leaves; that holds after a restart, too.
    site_command(&cluster, 3, "stay").expect("it stays");
    cluster.client(3).call("INCR hits").integer();
    site_command(&cluster, 3, "drain --wait 30").expect("the others have everything");
    cluster.take(3).stop();
    cluster.start_site(3);
    assert!(cluster.client(3).call("INCR hits").is_error());
    cluster.take(3).kill();
    cluster.wait_for_info(1, "peer3:link=down");
    cluster.wait_for_info(2, "peer3:link=down");
    site_command(&cluster, 1, "remove 3 --dead --heir 2 --wait 30").expect("removed");
    cluster.agree("hits", 51);
    let error = site_command(&cluster, 1, "remove 9 --dead").expect_err("there is none");
    assert!(error.contains("site 9 is not a site of this cluster"), "{error}");
}
