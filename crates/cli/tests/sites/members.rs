//! Sites come, go and are restored while the others count.

use std::{
    process::{Command, Output},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use crate::{
    cluster::{Cluster, wait},
    harness::{Cable, Line, Site, Value},
    refused::wait_for_words,
};

pub(crate) fn quipu(arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("QUIPU_")) {
        command.env_remove(name);
    }
    command.args(arguments.split(' ')).output().expect("it runs")
}

/// Runs `quipu site` at one of the sites: what it prints, or what it complains of.
pub(crate) fn site_command(cluster: &Cluster, at: u16, arguments: &str) -> Result<String, String> {
    let output = quipu(&format!("site {arguments} --server http://{}", cluster.running(at).http));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

pub(crate) fn takes_writes(cluster: &Cluster, number: u16, key: &str) -> bool {
    !cluster.client(number).call(&format!("INCR {key}")).is_error()
}

/// Whoever meets a removed site first tells it.
fn a_member_logs(cluster: &Cluster, words: &str) {
    wait(words, || [1, 2].iter().any(|number| cluster.sites[number].said().contains(words)));
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
    assert!(error.contains("cannot be reached") && error.contains("--dead"), "{error}");
    let error = site_command(&cluster, 2, "remove 1 --dead").expect_err("it runs");
    assert!(error.contains("site 1 is not dead"), "{error}");
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
    a_member_logs(&cluster, "site 3 was removed from the cluster");
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
    let old = cluster.copy_folder(2);
    cluster.client(2).call("INCRBY hits 5 IDMP web 1");
    cluster.agree("hits", 10);
    let restore = format!("restore --data {}", cluster.sites[&2].data().display());
    assert!(!quipu(&restore).status.success(), "a server runs on it");
    cluster.put_back(2, &old);
    let output = quipu(&restore);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    for part in ["site 2.1", " changes of site 2", "only its disk knew is lost", "quipu site restore 2.1"] {
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
    let mut created = cluster.client(3);
    wait("the counter is created", || !created.call("COUNTER.CREATE stock MIN 0 VALUE 10").is_error());
    for id in 0..50 {
        cluster.client(3).call(&format!("INCR hits IDMP web {id}"));
    }
    let error = site_command(&cluster, 3, "remove 3").expect_err("nobody decides on its own leaving");
    assert!(error.contains("Run the command at a site that stays"), "{error}");
    let error = site_command(&cluster, 1, "remove 9").expect_err("there is none");
    assert!(error.contains("site 9 is not a site of this cluster"), "{error}");
    let said = site_command(&cluster, 1, "remove 3 --heir 2").expect("one command");
    assert!(said.contains("removed: 3"), "{said}");
    // It runs, and knows.
    cluster.wait_for_info(3, "counting:no,site 3 was removed from the cluster");
    assert!(cluster.client(3).call("INCR hits").is_error());
    cluster.take(3).stop();
    cluster.agree("hits", 50);
    let list = site_command(&cluster, 2, "list").expect("a list");
    assert!(list.contains("3        removed; its heir is site 2"), "{list}");
    let mut spent = 0;
    wait("all ten can be spent", || {
        let answers = [1, 2].map(|number| cluster.client(number).call("DECR stock"));
        spent += answers.iter().filter(|answer| !answer.is_error()).count();
        spent == 10
    });
}

#[test]
fn a_site_that_was_to_leave_can_stay() {
    let mut cluster = Cluster::start(3, "");
    cluster.wait_for_link(1, 3);
    cluster.wait_for_link(2, 3);
    cluster.client(3).call("INCR hits");
    let said = site_command(&cluster, 1, "drain 3 --wait 30").expect("the others have everything");
    assert!(said.contains("quipu site remove 3"), "{said}");
    let is_leaving = |list: String| list.contains("3        leaving");
    wait("all know", || (1..=3).all(|at| is_leaving(site_command(&cluster, at, "list").expect("a list"))));
    let answer = cluster.client(3).call("INCR hits");
    assert!(answer.is_error() && answer.text().starts_with("LEAVING "), "{answer:?}");
    assert!(answer.text().contains("quipu site stay"), "{answer:?}");
    // That holds after a restart, too.
    cluster.take(3).stop();
    cluster.start_site(3);
    assert!(cluster.client(3).call("INCR hits").is_error());
    cluster.wait_for_link(2, 3);
    cluster.wait_for_link(1, 3);
    site_command(&cluster, 2, "stay 3 --wait 30").expect("it stays");
    cluster.client(3).call("INCR hits").integer();
    cluster.agree("hits", 2);
    // It says itself that it leaves, is stopped, and removed without being there.
    site_command(&cluster, 3, "drain --wait 30").expect("the others have everything");
    cluster.take(3).stop();
    cluster.wait_for_info(1, "peer3:link=down");
    site_command(&cluster, 1, "remove 3").expect("it has said that it leaves");
    cluster.agree("hits", 2);
}

#[test]
fn a_site_that_cannot_leave_in_time_says_what_is_open() {
    let mut cluster = Cluster::start(3, "");
    cluster.wait_for_link(1, 3);
    cluster.wait_for_link(2, 3);
    cluster.take(2).kill();
    cluster.client(3).call("INCR hits IDMP web 1");
    let error = site_command(&cluster, 1, "remove 3 --deadline 2").expect_err("site 2 lacks something");
    for part in
        ["site 2 lacks", "1 operations are not settled", "still a member", "quipu site stay 3", "--dead"]
    {
        assert!(error.contains(part), "{part:?} in {error}");
    }
    let list = site_command(&cluster, 1, "list").expect("a list");
    assert!(list.contains("3        draining") && list.contains("site 2 lacks"), "{list}");
    assert!(cluster.client(3).call("INCR hits").is_error());
    site_command(&cluster, 1, "stay 3 --wait 30").expect("it stays");
    wait("it takes writes", || !cluster.client(3).call("INCR hits").is_error());
    cluster.take(3).kill();
    cluster.wait_for_info(1, "peer3:link=down");
    for command in ["remove 3", "stay 3"] {
        let error = site_command(&cluster, 1, command).expect_err("it is not there");
        assert!(error.contains("site 3 cannot be reached"), "{error}");
    }
}

#[test]
fn a_change_that_is_not_in_force_is_shown_and_taken_back() {
    let mut cluster = Cluster::start(3, "");
    cluster.wait_for_link(1, 2);
    cluster.wait_for_link(1, 3);
    cluster.take(2).kill();
    let error = site_command(&cluster, 1, "add 4@127.0.0.1:9 --wait 0").expect_err("site 2 has not agreed");
    assert!(error.contains("waits for sites 2") || error.contains("waits for sites 2, 3"), "{error}");
    assert!(error.contains("quipu site withdraw"), "{error}");
    let open = "under way: add site 4, proposed by site 1; sites 2 have not agreed yet";
    for at in [1, 3] {
        wait("it is shown", || site_command(&cluster, at, "list").expect("a list").contains(open));
    }
    let error = site_command(&cluster, 3, "withdraw").expect_err("it is site 1's");
    assert!(error.contains("site 1 has proposed to add site 4"), "{error}");
    site_command(&cluster, 1, "withdraw").expect("it is its own");
    for at in [1, 3] {
        wait("it is gone", || !site_command(&cluster, at, "list").expect("a list").contains("under way"));
    }
    let error = site_command(&cluster, 1, "withdraw").expect_err("there is none");
    assert!(error.contains("no change is under way"), "{error}");
    cluster.start_site(2);
    site_command(&cluster, 3, "add 5@127.0.0.1:9 --wait 30").expect("nothing is in the way");
}

#[test]
fn a_removed_site_that_can_dial_nobody_is_told() {
    let mut cluster = Cluster::start(3, "");
    cluster.wait_for_link(1, 3);
    cluster.take(3).kill();
    cluster.wait_for_info(1, "peer3:link=down");
    site_command(&cluster, 1, "remove 3 --dead").expect("removed");
    for number in [1, 2] {
        cluster.line(3, number).set(Cable::Cut);
    }
    cluster.start_site(3);
    cluster.wait_for_info(3, "counting:no,site 3 was removed from the cluster");
    a_member_logs(&cluster, "site 3 was removed from the cluster, and was told so");
}
