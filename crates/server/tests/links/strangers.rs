//! Somebody who has found the port of the links and knows the protocol, but does not belong to the cluster. Whatever a
//! stranger says, nothing is counted, listed, deleted or stopped.

use std::{collections::BTreeMap, net::TcpListener};

use quipu_engine::{
    Action, Add, Command, Council, Limits, Move, SiteId, Spread, call,
    council::{Change, Notice, Seat},
    handoff::exchange::{self, Exchange, Exchanged},
};
use quipu_server::links::{Frame, Hello, Instance, Reason, Refused};

use crate::{
    relays,
    support::{CLUSTER, Raw, SHARDS, Site, hello, nobody, site},
    vectors::vector,
};

/// Questions as nodes of one site ask them: the format, then CBOR.
const COUNT: &[u8] = b"\x01\x82\x02\x80";
const AUDIT: &[u8] = b"\x01\x82\x03\x80";
/// A page of shard 0; the last byte says whether it is deleted.
const LIST: &[u8] = b"\x01\x82\x01\x85\x00\x40\xf6\x18\x64\xf4";
const CLEAR: &[u8] = b"\x01\x82\x01\x85\x00\x40\xf6\x18\x64\xf5";
/// Site 2 has said something wrong, and this site runs from an old copy.
const FAULT: &[u8] = b"\x01\x82\x0a\x83\x82\x02\x00\x63old\xf5";

/// Counters in every shard.
fn with_counters() -> Site {
    let server = Site::first();
    for number in 0..20 {
        assert_eq!(server.ask(&format!("INCR hits:{number}")), ":1");
    }
    server
}

fn is_unharmed(server: &Site) {
    assert_eq!(server.ask("DBSIZE"), ":20");
    assert_eq!(server.ask("INCR hits:0"), ":2");
    assert!(server.info().contains("counting:yes"), "{}", server.info());
}

#[test]
fn a_refusal_is_not_believed_from_somebody_who_has_dialled() {
    let server = with_counters();
    for reason in [Reason::OldCopy, Reason::Other] {
        let mut raw = Raw::dial(&server);
        let text = "site 1 runs from an old copy of its folder".to_owned();
        raw.send(&Frame::Refused(Refused { reason, text }));
        raw.closed();
        server.expect("turned_away:a refusal came before the handshake was over");
    }
    is_unharmed(&server);
}

#[test]
fn a_refusal_is_not_believed_from_somebody_whose_hello_was_refused() {
    let server = with_counters();
    let mut raw = Raw::dial(&server);
    raw.send(&Frame::Hello(Hello { cluster: "other".to_owned(), ..hello(2, 1) }));
    let text = "site 1 runs from an old copy of its folder".to_owned();
    raw.send(&Frame::Refused(Refused { reason: Reason::OldCopy, text }));
    raw.closed();
    is_unharmed(&server);
}

#[test]
fn a_site_on_a_folder_answers_no_questions_of_nodes() {
    let server = with_counters();
    for question in [COUNT, AUDIT, LIST, CLEAR, FAULT] {
        let mut raw = relays::join(&server);
        raw.send(&Frame::Ask { number: 7, question });
        let answer = relays::next(&mut raw, |frame| format!("{frame:?}"));
        assert_eq!(answer, None, "it closes");
    }
    is_unharmed(&server);
}

#[test]
fn a_site_on_a_folder_has_no_other_nodes() {
    let server = with_counters();
    let mut raw = Raw::dial(&server);
    raw.send(&Frame::Node { key: [0; 16] });
    raw.send(&Frame::Ask { number: 7, question: CLEAR });
    let text = raw.refused().text;
    assert!(text.contains("no node of this site"), "{text}");
    is_unharmed(&server);
}

#[test]
fn nothing_is_asked_before_the_handshake() {
    let server = with_counters();
    let get = call::encode_command(Command { key: b"hits:0", action: Action::Get });
    for first in [
        Frame::Ask { number: 7, question: CLEAR },
        Frame::Call { number: 7, command: &get },
        Frame::Estate(b"\x01\x80"),
        Frame::Council(b"x"),
        Frame::Leave { leaves: true },
    ] {
        let mut raw = Raw::dial(&server);
        raw.send(&first);
        assert_eq!(raw.next(|frame| format!("{frame:?}")), None, "it closes");
        server.expect("came before the handshake was over");
    }
    is_unharmed(&server);
}

#[test]
fn whoever_hands_over_introduces_itself_first() {
    let server = with_counters();
    let wish: Exchange = exchange::decode(&vector("exchange-wish")).expect("as documented");
    assert_eq!(wish.visits.len(), 1);
    let wish = Exchange { cluster: Some(CLUSTER.to_owned()), cluster_id: None, ..wish };
    let mut raw = Raw::dial(&server);
    raw.send(&Frame::Exchange(&exchange::encode(&wish)));
    let text = raw.refused().text;
    assert!(text.contains("before it has said who it is"), "{text}");
    is_unharmed(&server);
}

#[test]
fn a_refusal_names_no_folder() {
    let server = Site::first();
    drop(Raw::join(&server, 2));
    let twin = Hello { instance: Instance([99; 16]), ..hello(2, 1) };
    for (hello, part) in [
        (twin.clone(), "second site with the number 2"),
        // Whoever claims to be the site itself.
        (Hello { site: site(1), ..twin }, "with the number 1"),
    ] {
        let mut raw = Raw::dial(&server);
        raw.send(&Frame::Hello(hello));
        let text = raw.refused().text;
        assert!(text.contains(part), "{text}");
        let is_id = |word: &str| word.len() >= 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let mut words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
        assert!(!words.any(is_id), "{text}");
    }
}

#[test]
fn what_anybody_may_know_of_a_folder_is_a_fingerprint() {
    let server = Site::first();
    let mut raw = Raw::dial(&server);
    raw.send(&Frame::Hello(hello(2, 1)));
    let said = raw.hello().expect("a peer is told the folder");
    let (folder, id) = (said.instance, said.cluster_id.expect("site 1 draws it"));
    assert_ne!(id.0, folder.0);
    let mut relay = Raw::dial(&server);
    let hello = Exchange { cluster: Some(CLUSTER.to_owned()), ..Exchange::default() };
    relay.send(&Frame::Exchange(&exchange::encode(&hello)));
    let told = relays::next(&mut relay, |frame| match frame {
        Frame::Exchanged(body) => exchange::decode::<Exchanged>(body).expect("an answer"),
        other => panic!("{other:?}"),
    });
    assert_eq!(told.expect("it answers").home().id, Some(id));
    for command in ["CLUSTER MYID", "CLUSTER NODES"] {
        let text = server.ask_as_cluster(command);
        assert!(text.len() >= 32 && !text.contains(&folder.to_string()), "{command}: {text}");
    }
    for text in [server.info(), server.ask("INFO")] {
        assert!(!text.contains(&folder.to_string()), "{text}");
    }
}

#[test]
fn a_site_does_for_a_relay_only_what_relays_pass_on() {
    let server = with_counters();
    let limits = Limits { minimum: Some(0), maximum: None, initial: 5 };
    let passed = Move { amount: 1, right: None, from: site(1), to: site(2), wait_ms: 0 };
    for action in [
        Action::Get,
        Action::Inspect,
        Action::Add { add: Add::of(1), operation: None },
        Action::Reset { to: None },
        Action::Reset { to: Some(7) },
        Action::Create { limits, spread: Spread::Creator, wait_ms: 0 },
        Action::Create { limits, spread: Spread::Even, wait_ms: 0 },
        Action::Move(passed),
    ] {
        let mut relay = relays::join(&server);
        let command = call::encode_command(Command { key: b"hits:0", action });
        relay.send(&Frame::Call { number: 7, command: &command });
        let text = relays::next(&mut relay, |frame| match frame {
            Frame::Refused(refused) => refused.text,
            other => panic!("{action:?}: {other:?}"),
        });
        assert!(text.is_some_and(|text| text.contains("nothing was done")), "{action:?}");
    }
    assert_eq!(server.ask("GET hits:1"), "1");
    is_unharmed(&server);
}

fn council(number: u16) -> Council {
    let seats: BTreeMap<SiteId, Seat> = [1, 2, 3].map(|it| (site(it), Seat::member("", ""))).into();
    Council::first(site(number), seats).expect("a list")
}

fn removal_of(gone: u16, heir: u16) -> Change {
    Change::Remove { sites: [site(gone)].into(), heir: site(heir), drained: false }
}

/// Site 1 is removed, as sites 2 and 3 have agreed.
fn without_site_1() -> Vec<u8> {
    let (mut two, mut three) = (council(2), council(3));
    let _proposed = two.propose(removal_of(1, 2)).expect("a change");
    let _agreed = three.receive(site(2), two.notice()).expect("heard");
    let _heard = two.receive(site(3), three.notice()).expect("heard");
    assert!(two.config().removed.contains_key(&site(1)));
    two.notice().encode()
}

#[test]
fn a_notice_is_not_believed_before_the_handshake_is_complete() {
    let server = with_counters();
    let mut raw = Raw::dial(&server);
    raw.send(&Frame::Hello(hello(2, 1)));
    assert!(raw.hello().is_some() && raw.positions().is_some());
    raw.send(&Frame::Council(&without_site_1()));
    raw.closed();
    server.expect("trouble=a message for the council came before the handshake was over");
    is_unharmed(&server);
}

#[test]
fn a_site_that_was_removed_is_told_when_the_handshake_is_complete() {
    let server = with_counters();
    let mut raw = Raw::join(&server, 2);
    raw.send(&Frame::Council(&without_site_1()));
    raw.closed();
    server.expect("counting:no,site 1 was removed");
}

/// The next message for the council.
fn notice(raw: &mut Raw) -> Option<Notice> {
    raw.next(|frame| match frame {
        Frame::Council(bytes) => Some(Notice::decode(bytes).expect("a notice")),
        _ => None,
    })?
}

/// Sites 1 and 3 remove site 2.
fn remove_2(server: &Site) {
    let mut three = council(3);
    let _proposed = three.propose(removal_of(2, 3)).expect("a change");
    let mut raw = Raw::join(server, 3);
    while !three.config().removed.contains_key(&site(2)) {
        raw.send(&Frame::Council(&three.notice().encode()));
        if let Some(notice) = notice(&mut raw) {
            let _heard = three.receive(site(1), &notice).expect("heard");
        }
    }
    raw.send(&Frame::Council(&three.notice().encode()));
    server.expect("epoch:2");
}

/// After the handshake site 2 is told that it was removed, and nothing else.
fn is_told(mut two: Raw) {
    assert!(notice(&mut two).is_some_and(|notice| notice.config().removed.contains_key(&site(2))));
    let refused = two.refused();
    assert!(refused.text.contains("site 2 was removed"), "{}", refused.text);
}

#[test]
fn a_removed_site_that_dials_is_told_when_the_handshake_is_complete() {
    let server = with_counters();
    remove_2(&server);
    let mut two = Raw::dial(&server);
    two.send(&Frame::Hello(hello(2, 1)));
    assert!(two.hello().is_some() && two.positions().is_some());
    two.send(&Frame::Positions(vec![0; SHARDS.into()]));
    is_told(two);
    assert!(server.info().contains("counting:yes"));
}

#[test]
fn a_removed_site_is_told_where_it_was_found_when_the_handshake_is_complete() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let server = Site::start(1, [(2, listener.local_addr().expect("bound")), (3, nobody())]);
    let answer = || {
        let mut two = Raw::accept(&listener);
        let said = two.hello().expect("who dials speaks first");
        two.send(&Frame::Hello(hello(2, 1)));
        two.send(&Frame::Positions(vec![0; SHARDS.into()]));
        assert!(two.positions().is_some());
        (said.epoch, two)
    };
    let (epoch, mut linked) = answer();
    assert_eq!(epoch, 1);
    remove_2(&server);
    linked.closed();
    let (epoch, told) = answer();
    assert_eq!(epoch, 2);
    is_told(told);
}
