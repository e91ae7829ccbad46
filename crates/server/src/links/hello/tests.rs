//! Whom a site talks to.

use super::*;

const TWO: SiteId = SiteId { number: 2, incarnation: 0 };
const THREE: SiteId = SiteId { number: 3, incarnation: 0 };

fn identity(site: SiteId, instance: u8) -> Identity {
    Identity {
        cluster: "quipu".to_owned(),
        shards: 4,
        site,
        instance: Instance([instance; 16]),
        run: Run { number: 5, nonce: 77 },
        earlier: vec![Run { number: 3, nonce: 75 }, Run { number: 4, nonce: 76 }],
    }
}

fn membership(members: &[SiteId]) -> Membership {
    Membership::of(members.iter().copied())
}

fn refusal(hello: &Hello, seen: Option<Seen>) -> String {
    let own = identity(SiteId::FIRST, 1);
    let rejection = own.check(hello, &membership(&[SiteId::FIRST, TWO]), None, seen.as_ref());
    let rejection = rejection.expect_err("refused");
    assert_eq!(rejection.refused().text, rejection.to_string());
    rejection.to_string()
}

/// What is remembered of site 2.
fn seen(number: u64, nonce: u64) -> Seen {
    Seen { instance: Instance([2; 16]), run: Run { number, nonce }, contested: false }
}

/// What site 2 says to site 1.
fn hello() -> Hello {
    identity(TWO, 2).hello(1, &membership(&[SiteId::FIRST, TWO]), None)
}

#[test]
fn a_member_of_the_same_cluster_is_a_peer() {
    let own = identity(SiteId::FIRST, 1);
    let members = membership(&[SiteId::FIRST, TWO]);
    let first = own.check(&hello(), &members, None, None).expect("a peer");
    assert_eq!(first, seen(5, 77));
    // Again in the same run, and in a later one.
    assert_eq!(own.check(&hello(), &members, None, Some(&first)), Ok(first));
    let later = Hello { run: Run { number: 6, nonce: 1 }, earlier: Some(vec![hello().run]), ..hello() };
    assert!(own.check(&later, &members, None, Some(&first)).is_ok());
}

#[test]
fn others_are_refused_with_what_repairs_it() {
    for (hello, parts) in [
        (Hello { protocol: 2, ..hello() }, ["version 2", "run the same version"]),
        (Hello { cluster: "other".to_owned(), ..hello() }, ["\"other\"", "--cluster quipu"]),
        (Hello { shards: 8, ..hello() }, ["8 shards", "--shards"]),
        (Hello { to: 4, ..hello() }, ["looks for site 4", "correct the address of site 4 in --peers"]),
        (Hello { site: SiteId::FIRST, ..hello() }, ["second site with the number 1", "another --site"]),
        (Hello { site: THREE, ..hello() }, ["knows {1, 2}", "quipu site add"]),
        (Hello { members: vec![SiteId::FIRST, TWO, THREE], ..hello() }, ["{1, 2, 3}", "the same --peers"]),
    ] {
        let text = refusal(&hello, None);
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
    let own = identity(SiteId::FIRST, 1);
    let members = membership(&[SiteId::FIRST, TWO]);
    let itself = own.check(&own.hello(2, &members, None), &members, None, None);
    assert_eq!(itself, Err(Rejection::Itself { own: SiteId::FIRST }));
}

#[test]
fn a_cluster_of_the_same_name_that_was_begun_apart_is_refused() {
    let (own, members) = (identity(SiteId::FIRST, 1), membership(&[SiteId::FIRST, TWO]));
    let [ours, theirs] = [1, 2].map(|byte| Some(ClusterId([byte; 16])));
    let hello = |cluster_id| Hello { cluster_id, ..hello() };
    for (here, there) in [(ours, ours), (ours, None), (None, theirs)] {
        assert!(own.check(&hello(there), &members, here, None).is_ok());
    }
    let text = own.check(&hello(theirs), &members, ours, None).expect_err("another one").to_string();
    assert!(text.contains("quipu/0202") && text.contains("quipu/0101"), "{text}");
    assert!(text.contains("was begun apart; correct the addresses in --peers"), "{text}");
}

#[test]
fn a_removed_site_is_refused_and_one_that_is_behind_is_not() {
    let own = identity(SiteId::FIRST, 1);
    let mut now = membership(&[SiteId::FIRST, THREE]);
    now.epoch = 2;
    let behind = identity(THREE, 3).hello(1, &membership(&[SiteId::FIRST, TWO, THREE]), None);
    assert!(own.check(&behind, &now, None, None).is_ok());
    now.removed.insert(TWO, THREE);
    let text = own.check(&hello(), &now, None, None).expect_err("removed").to_string();
    assert!(text.contains("site 3 has taken over") && text.contains("quipu site add"), "{text}");
}

#[test]
fn another_folder_under_the_same_number_is_refused() {
    let seen = Seen { instance: Instance([9; 16]), ..seen(1, 1) };
    let text = refusal(&hello(), Some(seen));
    assert!(text.contains("second site with the number 2"), "{text}");
    // Whoever knows a folder can pass for its site.
    assert!(!text.contains(&"09".repeat(16)) && !text.contains(&"02".repeat(16)), "{text}");
}

#[test]
fn a_run_that_lies_in_the_past_is_an_old_copy() {
    let own = identity(SiteId::FIRST, 1);
    let members = membership(&[SiteId::FIRST, TWO]);
    for seen in [seen(6, 77), seen(5, 78)] {
        let rejection = own.check(&hello(), &members, None, Some(&seen)).expect_err("old");
        assert_eq!(rejection.refused().reason, Reason::OldCopy);
        assert!(rejection.to_string().contains("quipu restore"), "{rejection}");
    }
    // Older than all that it tells.
    assert!(own.check(&hello(), &members, None, Some(&seen(2, 1))).is_ok());
    assert!(own.check(&hello(), &members, None, Some(&seen(4, 76))).is_ok());
    let untold = Hello { earlier: None, ..hello() };
    assert!(own.check(&untold, &members, None, Some(&seen(4, 1))).is_ok());
}

#[test]
fn where_a_run_was_refused_only_one_that_tells_the_run_that_was_seen_goes_on() {
    let (own, members) = (identity(SiteId::FIRST, 1), membership(&[SiteId::FIRST, TWO]));
    let contested = |number, nonce| Seen { contested: true, ..seen(number, nonce) };
    // Older than all that it tells.
    let rejection = own.check(&hello(), &members, None, Some(&contested(2, 1))).expect_err("a copy");
    assert_eq!(rejection, Rejection::OtherRun { site: TWO, own: SiteId::FIRST, known: 2 });
    // The original goes on, and it stays known that there is a copy.
    assert_eq!(own.check(&hello(), &members, None, Some(&contested(4, 76))), Ok(contested(5, 77)));
    // A site on a database tells no runs.
    let untold = Hello { earlier: None, ..hello() };
    assert!(own.check(&untold, &members, None, Some(&contested(4, 1))).is_ok());
}

/// A folder and its copy are both started, and restarted until its runs have higher numbers than those that were seen.
#[test]
fn a_later_run_of_a_folder_that_has_not_had_the_one_that_was_seen_is_beside_a_copy() {
    let (own, members) = (identity(SiteId::FIRST, 1), membership(&[SiteId::FIRST, TWO]));
    for number in [3, 4] {
        let seen = seen(number, 1);
        let rejection = own.check(&hello(), &members, None, Some(&seen)).expect_err("a copy");
        assert_eq!(rejection, Rejection::OtherRun { site: TWO, own: SiteId::FIRST, known: number });
        assert_eq!(rejection.refused().reason, Reason::OldCopy);
    }
}

#[test]
fn a_stream_that_has_become_shorter_is_an_old_copy() {
    let own = identity(SiteId::FIRST, 1);
    assert_eq!(own.check_positions(TWO, &[5, 0, 7, 1], &[5, 0, 6, 1]), Ok(()));
    let rejection = own.check_positions(TWO, &[5, 0, 7, 1], &[5, 0, 8, 1]).expect_err("shorter");
    assert_eq!(
        rejection,
        Rejection::OldStream { site: TWO, own: SiteId::FIRST, shard: 2, told: 7, known: 8 }
    );
    assert_eq!(rejection.refused().reason, Reason::OldCopy);
    let rejection = own.check_positions(TWO, &[5, 0, 7], &[5, 0, 7, 1]).expect_err("fewer");
    assert!(matches!(rejection, Rejection::Shards { theirs: 3, ours: 4, .. }));
}
