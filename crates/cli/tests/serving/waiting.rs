//! Clients that wait for other sites, at a server that has none: the time is kept, and nobody else is held up.

use std::{
    net::Shutdown,
    thread,
    time::{Duration, Instant},
};

use crate::harness::{Client, Site, Value, client::encode};

/// Long enough to be told from none, short enough for a test.
const SOME_TIME: Duration = Duration::from_millis(300);
/// What takes no time takes less.
const NO_TIME: Duration = Duration::from_secs(5);

fn pipeline(client: &mut Client, commands: &[&str]) {
    let bytes: Vec<u8> =
        commands.iter().flat_map(|command| encode(&command.split(' ').collect::<Vec<_>>())).collect();
    client.write(&bytes).expect("it reads");
}

#[test]
fn without_other_sites_nobody_has_it() {
    let site = Site::new("--workers 2");
    let server = site.start();
    let mut client = server.client();
    assert_eq!(client.call("WAIT 0 0"), Value::Integer(0));
    for key in ["a", "b", "c", "d"] {
        client.call(&format!("INCR {key}"));
    }
    assert_eq!(client.call("WAIT 0 0"), Value::Integer(0), "who asks for none waits for none");
    for _ in 0..2 {
        let start = Instant::now();
        assert_eq!(client.call(&format!("WAIT 1 {}", SOME_TIME.as_millis())), Value::Integer(0));
        assert!((SOME_TIME..NO_TIME).contains(&start.elapsed()), "{:?}", start.elapsed());
    }
    assert_eq!(client.call("WAIT 1 -1"), Value::Error("ERR timeout is negative".to_owned()));
}

#[test]
fn what_is_asked_behind_a_wait_waits_and_others_do_not() {
    let site = Site::new("--workers 1");
    let server = site.start();
    let (mut waiter, mut other) = (server.client(), server.client());
    let start = Instant::now();
    pipeline(&mut waiter, &["INCR a", &format!("WAIT 1 {}", SOME_TIME.as_millis()), "GET a", "PING"]);
    assert_eq!(waiter.read().expect("a reply"), Value::Integer(1));
    assert_eq!(other.call("INCRBY a 10"), Value::Integer(11));
    assert!(start.elapsed() < SOME_TIME, "{:?}", start.elapsed());
    assert_eq!(waiter.read().expect("a reply"), Value::Integer(0));
    assert!(start.elapsed() >= SOME_TIME, "{:?}", start.elapsed());
    assert_eq!(waiter.read().expect("a reply").integer(), 11, "it was asked for after the wait");
    assert_eq!(waiter.read().expect("a reply"), Value::Simple("PONG".to_owned()));
}

#[test]
fn a_transaction_is_told_at_once() {
    let site = Site::new("--workers 2");
    let server = site.start();
    let mut client = server.client();
    let start = Instant::now();
    pipeline(&mut client, &["MULTI", "INCR a", "WAIT 3 0", "INCR a", "EXEC"]);
    for _ in 0..4 {
        client.read().expect("a reply");
    }
    let replies = client.read().expect("a reply").array();
    assert_eq!(replies, [Value::Integer(1), Value::Integer(0), Value::Integer(2)]);
    assert!(start.elapsed() < NO_TIME);
}

/// How many the server knows of, the one that asks among them.
fn clients(client: &mut Client) -> usize {
    match client.call("CLIENT LIST") {
        Value::Bulk(text) => String::from_utf8_lossy(&text).lines().count(),
        other => panic!("{other:?}"),
    }
}

fn wait_until(mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + NO_TIME;
    while !holds() {
        assert!(Instant::now() < until, "it does not come about");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn whoever_waits_for_ever_may_go() {
    let site = Site::new("--workers 2");
    let server = site.start();
    let mut watcher = server.client();
    let before = clients(&mut watcher);
    // One goes while it waits, one at once, with the server's answer on its way.
    let mut goes_later = server.client();
    pipeline(&mut goes_later, &["INCR a", "WAIT 1 0"]);
    assert_eq!(goes_later.read().expect("a reply"), Value::Integer(1));
    thread::sleep(Duration::from_millis(50));
    assert_eq!(clients(&mut watcher), before + 1, "it waits");
    drop(goes_later);
    let mut goes_at_once = server.client();
    pipeline(&mut goes_at_once, &["INCR a", "WAIT 1 0"]);
    drop(goes_at_once);
    wait_until(|| clients(&mut watcher) == before);
    // One that will send no more is told what there is.
    let mut half = server.client();
    pipeline(&mut half, &["WAIT 1 0"]);
    thread::sleep(Duration::from_millis(50));
    half.stream().shutdown(Shutdown::Write).expect("it is open");
    assert_eq!(half.read().expect("a reply"), Value::Integer(0));
    wait_until(|| clients(&mut watcher) == before);
    // And a server stops although somebody waits.
    let mut last = server.client();
    pipeline(&mut last, &["INCR a", "WAIT 1 0"]);
    assert_eq!(last.read().expect("a reply").integer(), 3);
    server.stop();
}

#[test]
fn rights_of_others_are_not_waited_for_where_there_are_no_others() {
    let site = Site::new("--workers 2");
    let server = site.start();
    let mut client = server.client();
    let start = Instant::now();
    assert_eq!(client.call("COUNTER.CREATE stock MIN 0 VALUE 3 WAIT 60000"), Value::ok());
    assert_eq!(client.call("DECRBY stock 2 REMOTE 60000 IDMP p 1"), Value::Integer(1));
    assert_eq!(client.call("DECRBY stock 2 REMOTE 60000 IDMP p 1"), Value::Integer(1), "a repeat");
    match client.call("DECRBY stock 2 REMOTE 60000") {
        Value::Error(text) => assert!(text.starts_with("OUTOFBOUNDS "), "{text}"),
        other => panic!("{other:?}"),
    }
    let saturated = client.call("INCREX stock BYINT -2 SATURATE REMOTE 60000").array();
    assert_eq!(saturated, [Value::Integer(0), Value::Integer(-1)]);
    assert!(start.elapsed() < NO_TIME);
    // In a pipeline all of it happens in its order.
    pipeline(
        &mut client,
        &["INCRBY stock 5 REMOTE 50", "DECR stock REMOTE 50", "GET stock", "DECRBY stock 9"],
    );
    let replies: Vec<Value> = (0..4).map(|_| client.read().expect("a reply")).collect();
    assert_eq!(replies[..2], [Value::Integer(5), Value::Integer(4)]);
    assert!(replies[2].integer() == 4 && replies[3].is_error(), "{replies:?}");
    assert!(client.call("MULTI") == Value::ok() && client.call("DECR stock REMOTE 5").is_error());
    assert!(client.call("EXEC").is_error());
    pipeline(&mut client, &["MULTI", "COUNTER.CREATE seats MIN 0 VALUE 2", "DECR seats", "EXEC"]);
    let replies: Vec<Value> = (0..4).map(|_| client.read().expect("a reply")).collect();
    assert_eq!(replies[3], Value::Array(vec![Value::ok(), Value::Integer(1)]));
}
