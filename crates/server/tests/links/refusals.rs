//! Who is refused: told why and what repairs it, at both ends.

use std::net::TcpListener;

use quipu_server::links::{Frame, Hello, Instance, Reason, Refused, Run};

use crate::support::{CLUSTER, Raw, Site, hello, nobody, site};

/// What site 1 answers to this Hello.
fn answer(server: &Site, hello: Hello) -> Refused {
    let mut raw = Raw::dial(server);
    raw.send(&Frame::Hello(hello));
    raw.refused()
}

#[test]
fn a_peer_that_does_not_belong_here_hears_why() {
    let server = Site::first();
    let two = || hello(2, 1);
    for (hello, part) in [
        (Hello { protocol: 9, ..two() }, "version 9"),
        (Hello { cluster: "other".to_owned(), ..two() }, "belongs to the cluster \"other\""),
        (Hello { shards: 64, ..two() }, "has 64 shards, and site 1 has 4"),
        (Hello { to: 3, ..two() }, "looks for site 3, and has reached site 1"),
        (Hello { site: site(1), ..two() }, "second site with the number 1"),
        (Hello { members: vec![site(1), site(2)], ..two() }, "counts {1, 2} as the members"),
    ] {
        let refused = answer(&server, hello);
        assert!(refused.text.contains(part), "{}", refused.text);
        assert_eq!(refused.reason, Reason::Other);
    }
    server.expect("peer2:link=down");
    server.expect("trouble=site 2 counts {1, 2} as the members");
    let stranger = answer(&server, hello(7, 1));
    assert!(stranger.text.contains("quipu site add"), "{}", stranger.text);
    server.expect("turned_away:site 7 is no member");
    // None of them was remembered as site 2.
    let mut raw = Raw::join(&server, 2);
    assert!(raw.is_alive());
}

#[test]
fn a_second_site_with_the_same_number_is_refused_also_after_the_first_has_gone() {
    let server = Site::first();
    let mut first = Raw::join(&server, 2);
    let twin = || Hello { instance: Instance([99; 16]), ..hello(2, 1) };
    let text = answer(&server, twin()).text;
    assert!(text.contains("second site with the number 2") && text.contains("another --site"), "{text}");
    assert!(first.is_alive(), "the first is not disturbed");
    drop(first);
    server.expect("peer2:link=down");
    assert!(answer(&server, twin()).text.contains("second site"));
}

#[test]
fn an_old_copy_is_refused_by_its_run() {
    let server = Site::first();
    drop(Raw::join(&server, 2));
    for run in [Run { number: 4, nonce: 50 }, Run { number: 5, nonce: 51 }] {
        let refused = answer(&server, Hello { run, ..hello(2, 1) });
        assert_eq!(refused.reason, Reason::OldCopy);
        assert!(refused.text.contains("quipu restore"), "{}", refused.text);
    }
    // A later run of a folder that has not had the one that was seen.
    let (run, earlier) = (Run { number: 9, nonce: 90 }, Some(vec![Run { number: 5, nonce: 51 }]));
    let refused = answer(&server, Hello { run, earlier, ..hello(2, 1) });
    assert_eq!(refused.reason, Reason::OldCopy);
    assert!(refused.text.contains("there is a copy of the folder of site 2"), "{}", refused.text);
    // The same run, and a later one.
    drop(Raw::join(&server, 2));
    let mut raw = Raw::dial(&server);
    raw.send(&Frame::Hello(Hello { run: Run { number: 6, nonce: 1 }, ..hello(2, 1) }));
    raw.finish_handshake();
    assert!(raw.is_alive());
}

#[test]
fn whoever_has_too_few_positions_is_refused() {
    let server = Site::first();
    let mut raw = Raw::dial(&server);
    raw.send(&Frame::Hello(hello(2, 1)));
    assert!(raw.hello().is_some() && raw.positions().is_some());
    raw.send(&Frame::Positions(vec![0; 3]));
    assert!(raw.refused().text.contains("has 3 shards"));
}

#[test]
fn a_site_that_dials_checks_whom_it_has_reached() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let server = Site::start(1, [(2, listener.local_addr().expect("bound")), (3, nobody())]);
    for (answer, part) in [
        (hello(3, 1), "looks for site 2, and has reached site 3"),
        (Hello { cluster: "other".to_owned(), ..hello(2, 1) }, "belongs to the cluster \"other\""),
    ] {
        let mut raw = Raw::accept(&listener);
        let said = raw.hello().expect("who dials speaks first");
        assert_eq!((said.site, said.to, said.cluster.as_str()), (site(1), 2, CLUSTER));
        raw.send(&Frame::Hello(answer));
        assert!(raw.refused().text.contains(part));
        server.expect(part);
    }
    // It tries again.
    let mut raw = Raw::accept(&listener);
    assert!(raw.hello().is_some());
    raw.send(&Frame::Hello(hello(2, 1)));
    raw.send(&Frame::Positions(vec![0; 4]));
    assert!(raw.has_positions_of_a_new_site());
    server.expect("peer2:link=up");
    assert!(raw.is_alive());
}

#[test]
fn a_site_that_is_told_that_it_is_an_old_copy_counts_no_more() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let server = Site::start(1, [(2, listener.local_addr().expect("bound")), (3, nobody())]);
    assert_eq!(server.ask("INCR hits"), ":1");
    let mut raw = Raw::accept(&listener);
    assert!(raw.hello().is_some());
    let text = "site 1 runs from an old copy of its folder; run `quipu restore`".to_owned();
    raw.send(&Frame::Refused(Refused { reason: Reason::OldCopy, text }));
    raw.closed();
    server.expect("counting:no,site 1 runs from an old copy");
    for command in ["INCR hits", "DEL hits", "SET hits 5", "COUNTER.CREATE other MAX 5"] {
        let answer = server.ask(command);
        assert!(answer.starts_with('-') && answer.contains("quipu restore"), "{command}: {answer}");
    }
    assert_eq!(server.ask("GET hits"), "1");
    // It talks to nobody any more, and whoever dials hears why.
    let text = answer(&server, hello(3, 1)).text;
    assert!(text.contains("site 1 talks to nobody any more") && text.contains("quipu restore"), "{text}");
}

#[test]
fn a_site_that_is_an_old_copy_closes_its_other_links() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let server = Site::start(1, [(2, listener.local_addr().expect("bound")), (3, nobody())]);
    let mut raw = Raw::accept(&listener);
    let mut third = Raw::join(&server, 3);
    assert!(raw.hello().is_some() && third.is_alive());
    raw.send(&Frame::Refused(Refused { reason: Reason::OldCopy, text: "old".to_owned() }));
    third.closed();
    server.expect("counting:no,old");
    server.expect("peer3:link=down");
}

#[test]
fn a_site_that_was_told_that_it_is_an_old_copy_counts_nothing_after_a_restart_either() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let server = Site::start(1, [(2, listener.local_addr().expect("bound")), (3, nobody())]);
    assert_eq!(server.ask("INCR hits"), ":1");
    let mut raw = Raw::accept(&listener);
    assert!(raw.hello().is_some());
    let text = "site 1 runs from an old copy of its folder; run `quipu restore`".to_owned();
    raw.send(&Frame::Refused(Refused { reason: Reason::OldCopy, text }));
    raw.closed();
    server.expect("counting:no,site 1 runs from an old copy");
    // Nobody can be reached who says it again.
    drop(listener);
    let server = server.again();
    let answer = server.ask("INCR hits");
    assert!(answer.starts_with("-OLDCOPY") && answer.contains("quipu restore"), "{answer}");
    assert!(server.info().contains("counting:no,site 1 runs from an old copy"), "{}", server.info());
    assert_eq!(server.ask("GET hits"), "1");
}

#[test]
fn a_copy_that_was_refused_stays_refused_when_it_does_not_tell_the_run_that_was_seen_any_more() {
    let server = Site::first();
    drop(Raw::join(&server, 2));
    let copy = |number| Run { number, nonce: number };
    let refused = answer(&server, Hello { run: copy(6), earlier: Some(vec![copy(5)]), ..hello(2, 1) });
    assert_eq!(refused.reason, Reason::OldCopy);
    // It was started so often that its run 5 is none of the last 64.
    let earlier = Some((36..100).map(copy).collect());
    let refused = answer(&server, Hello { run: copy(100), earlier, ..hello(2, 1) });
    assert_eq!(refused.reason, Reason::OldCopy, "{}", refused.text);
    // The original goes on.
    let earlier = Some(vec![hello(2, 1).run]);
    let mut raw = Raw::dial(&server);
    raw.send(&Frame::Hello(Hello { run: Run { number: 6, nonce: 60 }, earlier, ..hello(2, 1) }));
    raw.finish_handshake();
    assert!(raw.is_alive());
}
