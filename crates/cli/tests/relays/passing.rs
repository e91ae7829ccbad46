//! Commands with ids at a relay: a site does them, once, and the relay says what it knows.

use super::*;

#[test]
fn a_site_counts_operations_once_through_a_relay() {
    let parent = Parent::start();
    let site = relay(&[&parent], "");
    let relay = site.start();
    wait_for_info(&relay, "replication", "link=up");
    let (mut client, mut direct) = (relay.client(), parent.running().client());
    assert_eq!(client.call("INCRBY hits 5 IDMP web 1").integer(), 5);
    assert_eq!(parent.value("hits"), 5, "the site has counted when the relay answers");
    assert_eq!(client.call("INCRBY hits 5 IDMP web 1").integer(), 5);
    assert_eq!(direct.call("INCRBY hits 5 IDMP web 1").integer(), 5, "it is the same operation there");
    assert_eq!(direct.call("INCRBY hits 2 IDMP web 2").integer(), 7);
    assert_eq!(client.call("INCRBY hits 2 IDMP web 2").integer(), 7);
    let refused = client.call("INCRBY hits 3 IDMP web 2");
    assert!(refused.text().starts_with("IDMPMISMATCH"), "{refused:?}");
    let outcome = client.call("COUNTER.OUTCOME hits web 1").text();
    assert!(outcome.contains("counted"), "{outcome}");
    // With limits, and among others.
    let reply = client.call("INCREX hits BYINT 9 UBOUND 10 SATURATE IDMP web 3");
    assert_eq!(reply.text(), "[10 3]");
    let commands = (0..100).map(|number| format!("INCR hits IDMP many {number}"));
    commands.for_each(|command| assert!(!client.call(&command).is_error()));
    assert_eq!(parent.value("hits"), 110);
    // Over HTTP, too.
    for replayed in [None, Some("true")] {
        let url = format!("http://{}/v1/counters/hits/add", relay.http);
        let request =
            ureq::post(url).header("content-type", "application/json").header("idempotency-key", "\"x\"");
        let answer = request.send(r#"{"amount": 5}"#).expect("an answer");
        let header = answer.headers().get("idempotent-replayed").and_then(|value| value.to_str().ok());
        assert_eq!(header, replayed);
    }
    assert_eq!(parent.value("hits"), 115);
    relay.stop();
}

#[test]
fn without_a_site_an_operation_is_refused_and_one_under_way_is_in_doubt() {
    let parent = Parent::start();
    let site = relay(&[&parent], "");
    let relay = site.start();
    wait_for_info(&relay, "replication", "link=up");
    let mut client = relay.client();
    // Nothing comes through, and nobody is told: it may have been counted.
    parent.line.set(Cable::Silent);
    // What it is reading at this moment it still passes on.
    std::thread::sleep(Duration::from_millis(500));
    let reply = client.call("INCRBY hits 5 IDMP web 1").text();
    assert!(reply.starts_with("INDOUBT") && reply.contains("ask again with the operation's id"), "{reply}");
    parent.line.set(Cable::Cut);
    wait_for_info(&relay, "replication", "trouble:");
    let reply = client.call("INCRBY hits 7 IDMP web 2").text();
    assert!(reply.starts_with("NOSITE") && reply.contains("nothing was counted"), "{reply}");
    assert_eq!(client.call("INCRBY hits 100").integer(), 100, "without an id it counts");
    parent.line.set(Cable::Whole);
    wait("the site can be reached", || !client.call("INCRBY hits 5 IDMP web 1").is_error());
    wait("and once more", || !client.call("INCRBY hits 7 IDMP web 2").is_error());
    parent.wait_for("hits", 112);
    stays_so(Duration::from_secs(1), || parent.value("hits") == 112);
    relay.stop();
}
