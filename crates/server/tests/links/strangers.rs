//! Somebody who has found the port of the links and knows the protocol, but does not belong to the cluster. Whatever a
//! stranger says, nothing is counted, listed, deleted or stopped.

use quipu_engine::{
    Action, Command, call,
    handoff::exchange::{self, Exchange},
};
use quipu_server::links::{Frame, Hello, Instance, Reason, Refused};

use crate::{
    relays,
    support::{CLUSTER, Raw, Site, hello},
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
        (Hello { site: quipu_engine::SiteId { number: 1, incarnation: 0 }, ..twin }, "with the number 1"),
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
