//! Both sides dial; one link stays.

use std::net::TcpListener;

use quipu_server::links::{Frame, Hello, Run};

use crate::support::{Raw, Site, hello, nobody};

/// The server's own dial, answered by the other site.
fn answer_dial(listener: &TcpListener, number: u16, to: u16) -> Raw {
    let mut raw = Raw::accept(listener);
    assert!(raw.hello().is_some());
    raw.send(&Frame::Hello(hello(number, to)));
    raw.send(&Frame::Positions(vec![0; 4]));
    assert!(raw.has_positions_of_a_new_site());
    raw
}

#[test]
fn the_lower_site_keeps_its_own_dial() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let server = Site::start(1, [(2, listener.local_addr().expect("bound")), (3, nobody())]);
    let mut kept = answer_dial(&listener, 2, 1);
    server.expect("peer2:link=up");
    let mut other = Raw::dial(&server);
    other.send(&Frame::Hello(hello(2, 1)));
    other.finish_handshake();
    other.closed();
    assert!(kept.is_alive());
}

#[test]
fn the_higher_site_gives_its_own_dial_up_when_the_other_one_comes() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let server = Site::start(2, [(1, listener.local_addr().expect("bound")), (3, nobody())]);
    let mut other = answer_dial(&listener, 1, 2);
    server.expect("peer1:link=up");
    let mut kept = Raw::join(&server, 1);
    other.closed();
    assert!(kept.is_alive());
    assert!(server.info().contains("peer1:link=up"));
}

#[test]
fn a_peer_that_comes_again_has_lost_its_first_link() {
    let server = Site::first();
    let mut first = Raw::join(&server, 2);
    let mut second = Raw::join(&server, 2);
    first.closed();
    assert!(second.is_alive());
}

/// A copy that dials while the original has the link does not take the original's place.
#[test]
fn a_run_without_a_link_is_not_remembered() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let server = Site::start(1, [(2, listener.local_addr().expect("bound")), (3, nobody())]);
    let original = answer_dial(&listener, 2, 1);
    server.expect("peer2:link=up");
    let mut copy = Raw::dial(&server);
    let (run, earlier) = (Run { number: 6, nonce: 66 }, Some(vec![hello(2, 1).run]));
    copy.send(&Frame::Hello(Hello { run, earlier, ..hello(2, 1) }));
    copy.finish_handshake();
    copy.closed();
    drop(original);
    server.expect("peer2:link=down");
    assert!(answer_dial(&listener, 2, 1).is_alive());
}
