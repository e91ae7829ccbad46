//! Sites that go, come, and are restored.

use std::collections::BTreeSet;

use quipu_engine::{
    Action, Add, Added, Membership, Outcome, Refusal, Reply, Rule, Rules, Settings, SiteId, Window,
    WindowMode,
};

use crate::world::{Weather, World, site};

pub(crate) fn without(world: &World, gone: SiteId, heir: SiteId) -> Membership {
    let mut membership = world.membership();
    membership.epoch += 1;
    membership.members.remove(&gone);
    membership.removed.insert(gone, heir);
    membership
}

#[test]
fn what_a_removed_site_counted_stays_and_its_heir_takes_back_for_it() {
    let mut world = World::new(3, 1, Settings::default());
    world.add(2, b"plain", 7);
    world.pass(100);
    world.link(0, 2, false);
    world.link(0, 1, false);
    // Counted at 1 and at 3; 2 has heard of 3's count. Then 3 is lost.
    world.add_once(0, b"k", 5, b"one");
    world.add_once(2, b"k", 5, b"one");
    world.add_once(2, b"k", 4, b"two");
    world.pass(100);
    world.crash(2);
    world.link(0, 1, true);
    world.pass(1_000);
    assert_eq!(world.get(1, b"k"), Some(14), "nobody may take back for a site that may come again");
    let membership = without(&world, site(3), site(2));
    world.set_membership(membership);
    world.pass(5_000);
    for at in 0..2 {
        assert_eq!(world.get(at, b"k"), Some(9), "at {at}");
        assert_eq!(world.get(at, b"plain"), Some(7));
        assert!(
            matches!(world.outcome(at, b"k", b"one"), Outcome::Counted(Added { site: it, .. }) if it == site(1))
        );
    }
    assert_eq!(world.open_entries(), 0, "nothing waits for it any more");
    world.check_books();
    // A retry of what only the lost one had counted is recognised.
    let Reply::Added(answer) = world.add_once(0, b"k", 4, b"two") else { panic!("counted") };
    assert_eq!((answer.repeated, answer.site), (true, site(3)));
}

#[test]
fn an_heir_spends_the_rights_of_a_removed_site() {
    let mut world = World::new(3, 1, Settings::default());
    let ticket = world.create(2, b"stock", 0, 10, 1_000);
    world.pass(1_000);
    assert_eq!(world.answer(2, ticket), Some(Reply::Created));
    world.add(2, b"stock", -3);
    world.pass(500);
    world.crash(2);
    // Long enough for everything else to have been said.
    world.pass(2_000);
    let membership = without(&world, site(3), site(1));
    world.set_membership(membership);
    world.pass(1_000);
    assert!(matches!(world.add(0, b"stock", -2), Reply::Added(Added { value: 5, .. })));
    let add = Add { remote_ms: 900, ..Add::of(-4) };
    let ticket = world.submit(1, b"stock", Action::Add { add, operation: None });
    world.pass(900);
    assert!(matches!(world.answer(1, ticket), Some(Reply::Added(_))));
    world.pass(500);
    for at in 0..2 {
        assert_eq!(world.get(at, b"stock"), Some(1), "at {at}");
    }
    assert!(matches!(world.add(0, b"stock", -2), Reply::Refused(Refusal::OutOfBounds { .. })));
}

#[test]
fn who_joins_takes_writes_when_it_has_everything() {
    let window_ms = 5_000;
    let window = Window::new(window_ms, WindowMode::Exact, 1e-6).expect("a window");
    let mut world = World::new(3, 1, Settings { window, ..Settings::default() });
    let mut membership = Membership::of([site(1), site(2)]);
    world.set_membership(membership.clone());
    for number in 0..5_000_u32 {
        world.add(0, format!("key{number}").as_bytes(), 1);
    }
    world.add_once(0, b"k", 5, b"one");
    world.pass(1_000);
    membership.epoch = 2;
    membership.members.insert(site(3));
    membership.joining = BTreeSet::from([site(3)]);
    world.set_membership(membership.clone());
    world.start(2);
    assert!(!world.is_caught_up(2));
    assert_eq!(world.add(2, b"k", 1), Reply::Refused(Refusal::Joining));
    world.pass(3_000);
    assert!(world.is_caught_up(2));
    membership.epoch = 3;
    membership.joining.clear();
    world.set_membership(membership);
    assert_eq!(world.get(2, b"key4999"), Some(1));
    // It was settled before, and all others would know it.
    let reply = world.add_once(2, b"k", 5, b"one");
    assert!(matches!(reply, Reply::Refused(Refusal::JoinedLately { .. })), "{reply:?}");
    world.add_once(0, b"k", 1, b"two");
    world.pass(500);
    let Reply::Added(answer) = world.add_once(2, b"k", 1, b"two") else { panic!("known since") };
    assert!(answer.repeated);
    world.add(2, b"k", 1);
    world.pass(window_ms);
    world.add_once(2, b"k", 3, b"three");
    world.pass(1_000);
    for at in 0..3 {
        assert_eq!(world.get(at, b"k"), Some(10), "at {at}");
    }
    world.check_books();
}

#[test]
fn a_restored_site_goes_on_under_another_incarnation() {
    let mut world = World::new(2, 1, Settings::default());
    let ticket = world.create(1, b"stock", 0, 10, 1_000);
    world.pass(1_000);
    assert_eq!(world.answer(1, ticket), Some(Reply::Created));
    world.add(1, b"k", 7);
    world.add_once(1, b"k", 5, b"one");
    world.add(1, b"stock", -4);
    world.pass(1_000);
    let new = world.restore(1);
    let mut membership = without(&world, site(2), new);
    membership.members.insert(new);
    membership.joining.insert(new);
    world.set_membership(membership.clone());
    world.start(1);
    world.pass(2_000);
    assert!(world.is_caught_up(1));
    membership.epoch += 1;
    membership.joining.clear();
    world.set_membership(membership);
    world.pass(1_000);
    assert_eq!(world.get(1, b"k"), Some(12));
    let Reply::Added(answer) = world.add_once(1, b"k", 5, b"one") else { panic!("counted") };
    assert!(answer.repeated);
    world.add(1, b"k", 1);
    assert!(matches!(world.add(1, b"stock", -6), Reply::Added(Added { value: 0, .. })), "it is its own heir");
    world.pass(1_000);
    for at in 0..2 {
        assert_eq!((world.get(at, b"k"), world.get(at, b"stock")), (Some(13), Some(0)), "at {at}");
    }
    world.check_books();
}

#[test]
fn who_is_left_alone_waits_for_nobody() {
    let mut world = World::new(2, 1, Settings::default());
    world.link(0, 1, false);
    world.add_once(0, b"k", 5, b"one");
    world.crash(1);
    let membership = without(&world, site(2), site(1));
    world.set_membership(membership);
    world.pass(1_000);
    assert_eq!(world.open_entries(), 0, "what was open is settled");
    world.add_once(0, b"k", 5, b"two");
    world.pass(10);
    assert_eq!(world.open_entries(), 0, "and so is what comes later");
    let Reply::Added(answer) = world.add_once(0, b"k", 5, b"one") else { panic!("counted") };
    assert!(answer.repeated);
    assert_eq!(world.get(0, b"k"), Some(10));
}

#[test]
fn an_heir_takes_back_on_a_bounded_counter_with_the_rights_that_it_inherits() {
    let mut world = World::new(3, 1, Settings::default());
    let ticket = world.create(0, b"stock", 0, 0, 1_000);
    world.pass(1_000);
    assert_eq!(world.answer(0, ticket), Some(Reply::Created));
    world.link(0, 2, false);
    world.link(0, 1, false);
    // The rights to sell what was delivered twice are those of the site that will be lost.
    world.add_once(0, b"stock", 5, b"delivery");
    world.add_once(2, b"stock", 5, b"delivery");
    world.pass(100);
    world.crash(2);
    world.link(0, 1, true);
    let membership = without(&world, site(3), site(2));
    world.set_membership(membership);
    world.pass(5_000);
    for at in 0..2 {
        assert_eq!(world.get(at, b"stock"), Some(5), "at {at}");
    }
    assert_eq!(world.open_entries(), 0);
}

#[test]
fn what_an_heir_has_taken_back_it_takes_back_once() {
    let mut world = World::new(3, 1, Settings::default());
    world.link(0, 2, false);
    world.link(0, 1, false);
    for number in 0..20_u8 {
        world.add_once(0, b"k", 5, &[number]);
        world.add_once(2, b"k", 5, &[number]);
    }
    world.pass(100);
    world.crash(2);
    world.link(0, 1, true);
    let membership = without(&world, site(3), site(2));
    world.set_membership(membership);
    // Messages cross each other while the heir does its duty.
    world.weather = Weather { drop: 20, duplicate: 20 };
    world.pass(10_000);
    world.weather = Weather::default();
    world.pass(5_000);
    for at in 0..2 {
        assert_eq!(world.get(at, b"k"), Some(100), "at {at}");
    }
    assert_eq!(world.open_entries(), 0);
    world.check_books();
}

#[test]
fn who_joins_has_what_is_known_of_those_who_are_gone() {
    let mut world = World::new(3, 1, Settings::default());
    let mut membership = Membership::of([site(1), site(2)]);
    world.set_membership(membership.clone());
    world.add(1, b"k", 7);
    world.pass(500);
    world.crash(1);
    membership.epoch = 2;
    membership.members.remove(&site(2));
    membership.removed.insert(site(2), site(1));
    world.set_membership(membership.clone());
    world.pass(500);
    membership.epoch = 3;
    membership.members.insert(site(3));
    membership.joining.insert(site(3));
    world.set_membership(membership.clone());
    world.start(2);
    let mut waited_ms = 0;
    while !world.is_caught_up(2) {
        world.pass(1);
        waited_ms += 1;
        assert!(waited_ms < 5_000);
    }
    assert_eq!(world.get(2, b"k"), Some(7), "before it says that it has everything");
}

/// Sites 3 and 4 count the same operation. Of the one site 1 knows, of the other site 2; then both are lost, and removed.
/// Returns what is counted in the end.
fn two_lost_that_counted_the_same(rules: Rules, seed: u64) -> [Option<i64>; 2] {
    let mut world = World::new(4, seed, Settings { rules, ..Settings::default() });
    world.pass(200);
    for (one, other) in [(0, 1), (0, 3), (1, 2), (2, 3)] {
        world.link(one, other, false);
    }
    world.add_once(2, b"k", 5, b"one");
    world.add_once(3, b"k", 5, b"one");
    world.pass(200);
    world.crash(2);
    world.crash(3);
    world.weather = Weather { drop: 50, duplicate: 0 };
    world.link(0, 1, true);
    let mut membership = without(&world, site(3), site(1));
    membership.members.remove(&site(4));
    membership.removed.insert(site(4), site(1));
    world.set_membership(membership);
    world.pass(3_000);
    world.weather = Weather::default();
    world.pass(10_000);
    [0, 1].map(|at| world.get(at, b"k"))
}

#[test]
fn what_two_lost_sites_have_both_counted_counts_once() {
    for seed in 0..40 {
        assert_eq!(two_lost_that_counted_the_same(Rules::default(), seed), [Some(5); 2], "seed {seed}");
    }
    let without = Rules::without(Rule::RemovedTogether);
    let is_wrong = |seed| two_lost_that_counted_the_same(without, seed) != [Some(5); 2];
    assert!((0..40).any(is_wrong), "without the rule it counts twice");
}

/// An operation was counted at sites 1 and 3, and a copy of site 4 knows of both. Both are lost, their heir takes one count
/// back, and all of that is settled and forgotten when the copy is put back. Returns what is not settled in the end.
fn copy_from_before_losses(rules: Rules) -> u64 {
    let window = Window::new(2_000, WindowMode::Exact, 1e-6).expect("a window");
    let mut world = World::new(4, 1, Settings { rules, window, ..Settings::default() });
    world.pass(200);
    world.link(0, 2, false);
    world.link(1, 2, false);
    world.cut.insert((site(4), site(3)));
    world.add_once(0, b"k", 5, b"one");
    world.add_once(2, b"k", 5, b"one");
    world.pass(200);
    let copy = world.copy(3);
    assert_eq!(world.get(3, b"k"), Some(10), "it knows of both");
    for gone in [2, 0] {
        world.crash(gone);
        let id = world.sites[gone].id;
        let membership = without(&world, id, site(2));
        world.set_membership(membership);
        world.pass(10_000);
    }
    world.pass(300_000);
    assert_eq!((world.get(3, b"k"), world.open_entries()), (Some(5), 0));
    world.put_back(3, copy);
    world.link(3, 1, false);
    world.start(3);
    world.restore(3);
    world.link(3, 1, true);
    world.rejoin(3, site(4));
    world.pass(20_000);
    for at in [1, 3] {
        assert_eq!(world.get(at, b"k"), Some(5), "at {at}");
    }
    world.open_entries()
}

#[test]
fn a_copy_hears_that_what_lost_sites_counted_is_settled() {
    assert_eq!(copy_from_before_losses(Rules::default()), 0);
    assert_ne!(
        copy_from_before_losses(Rules::without(Rule::HeirsTell)),
        0,
        "without the rule it waits for ever"
    );
}
