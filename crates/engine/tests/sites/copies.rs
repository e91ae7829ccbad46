//! Old copies of a site's data that were started.

use quipu_crdt::Pn;
use quipu_engine::{
    Action, Add, Added, BadMessage, OperationId, Reply, Rule, Rules, Settings, Uncounted, WaitsFor,
};

use crate::world::{SHARD, World, site};

fn unheard(world: &mut World, at: usize) -> Vec<Uncounted> {
    world.sites[at].host.as_mut().expect("it runs").uncounted(SHARD).expect("it can be read")
}

fn count(world: &mut World, at: usize, it: &Uncounted) -> bool {
    let mut repeated = true;
    let mut add = |key: &[u8], amount: i64, operation: OperationId<'_>| {
        let action = Action::Add { add: Add::of(amount), operation: Some(operation) };
        let Reply::Added(Added { repeated: again, .. }) = world.run(at, key, action) else {
            panic!("counted")
        };
        repeated &= again;
    };
    for (id, applied) in &it.operations {
        add(&it.key, *applied, OperationId::stored(id));
    }
    let rest = OperationId { producer: b"restore", id: b"of site 2" };
    add(&it.key, i64::try_from(it.counted.added).expect("few"), rest);
    repeated
}

/// Cuts site 2 off, or heals that.
fn link(world: &mut World, up: bool) {
    (0..world.sites.len()).filter(|at| *at != 1).for_each(|at| world.link(1, at, up));
}

/// Site 2 has counted 5 under x when it is copied; then it counts 7 more, and 3 under y. The copy is started while it is cut
/// off, twice, and counts 20, 4 with an id, and 1.
fn started_copy(sites: u16, rules: Rules) -> World {
    let mut world = World::new(sites, 1, Settings { rules, ..Settings::default() });
    world.add(1, b"x", 5);
    world.pass(100);
    let copy = world.copy(1);
    world.add(1, b"x", 7);
    world.add(1, b"y", 3);
    world.pass(1_000);
    assert_eq!((world.get(0, b"x"), world.get(0, b"y")), (Some(12), Some(3)));
    world.put_back(1, copy);
    link(&mut world, false);
    world.start(1);
    world.add(1, b"x", 20);
    world.add_once(1, b"x", 4, b"one");
    // Long enough for a checkpoint.
    world.pass(70_000);
    world.crash(1);
    world.start(1);
    world.add(1, b"x", 1);
    world
}

#[test]
fn an_old_copy_undoes_what_it_has_counted_and_tells_it_exactly() {
    let mut world = started_copy(2, Rules::default());
    assert_eq!(world.get(1, b"x"), Some(30));
    let uncounted = unheard(&mut world, 1);
    let [only] = uncounted.as_slice() else { panic!("{uncounted:?}") };
    assert_eq!((&*only.key, only.counted, only.was_reset), (b"x".as_slice(), Pn::added(21), false));
    assert_eq!(only.operations.iter().map(|(_, applied)| *applied).collect::<Vec<_>>(), [4]);
    world.restore(1);
    world.link(0, 1, true);
    world.rejoin(1, site(2));
    for at in 0..2 {
        assert_eq!((world.get(at, b"x"), world.get(at, b"y")), (Some(12), Some(3)), "at {at}");
    }
    world.check_books();
    // It is counted where people say, once, whoever else tries the same or one of its operations.
    assert!(!count(&mut world, 0, only));
    world.pass(1_000);
    assert!(count(&mut world, 1, only));
    let Reply::Added(again) = world.add_once(0, b"x", 4, b"one") else { panic!("counted") };
    assert!(again.repeated);
    world.heal();
    for at in 0..2 {
        assert_eq!(world.get(at, b"x"), Some(37), "at {at}");
    }
    world.check_books();
}

#[test]
fn what_was_counted_at_two_sites_from_one_copy_counts_once() {
    let mut world = started_copy(3, Rules::default());
    let uncounted = unheard(&mut world, 1);
    world.restore(1);
    link(&mut world, true);
    world.rejoin(1, site(2));
    // Both before they hear of each other.
    assert!(!count(&mut world, 0, &uncounted[0]) && !count(&mut world, 2, &uncounted[0]));
    world.heal();
    for at in 0..3 {
        assert_eq!(world.get(at, b"x"), Some(37), "at {at}");
    }
}

#[test]
fn without_undoing_it_the_stream_of_the_old_one_is_another_than_its_peers_have() {
    let mut world = started_copy(2, Rules::without(Rule::UnheardIsUndone));
    world.restore(1);
    world.link(0, 1, true);
    world.rejoin(1, site(2));
    assert!(
        matches!(world.refused.as_slice(), [(at, BadMessage::Branched { of, .. })] if (*at, *of) == (site(1), site(2)))
    );
}

/// The copy has a longer stream than its original had, and meets site 1.
fn copy_in_place(rules: Rules) -> World {
    let mut world = started_copy(2, rules);
    world.add(1, b"x", 1_000);
    world.link(0, 1, true);
    world.pass(2_000);
    world
}

#[test]
fn a_copy_in_the_place_of_its_original_is_noticed_before_it_tells_anything() {
    let mut world = copy_in_place(Rules::default());
    let [(at, BadMessage::Branched { peer, of, .. })] = world.refused.as_slice() else {
        panic!("{:?}", world.refused)
    };
    assert_eq!((*at, *peer, *of), (site(2), site(1), site(2)));
    assert_eq!((world.get(0, b"x"), world.get(0, b"y")), (Some(12), Some(3)));
}

#[test]
fn without_runs_a_copy_in_the_place_of_its_original_differs_for_ever() {
    let mut world = copy_in_place(Rules::without(Rule::StreamsStayOne));
    let values = |world: &mut World, at| (world.get(at, b"x"), world.get(at, b"y"));
    assert_ne!(values(&mut world, 0), values(&mut world, 1));
}

/// Site 3 has heard of the original, which has counted so often since it was copied, site 1 of the copy, and neither of both.
fn two_branches(times: i64) -> World {
    let mut world = World::new(3, 1, Settings::default());
    world.add(1, b"x", 5);
    world.pass(1_000);
    let copy = world.copy(1);
    world.link(0, 1, false);
    world.link(0, 2, false);
    for _ in 0..times {
        world.add(1, b"x", 1);
    }
    world.pass(1_000);
    assert_eq!((world.get(0, b"x"), world.get(2, b"x")), (Some(5), Some(5 + times)));
    world.put_back(1, copy);
    world.link(1, 2, false);
    world.start(1);
    world.link(1, 2, false);
    world.link(0, 1, true);
    world.add(1, b"y", 20);
    world.add(1, b"y", 1);
    world.pass(1_000);
    assert_eq!(world.get(0, b"y"), Some(21));
    world.link(0, 2, true);
    world.pass(1_000);
    // Neither takes in half of what the other has of site 2.
    assert_eq!(
        [0, 2].map(|at| (world.get(at, b"x"), world.get(at, b"y"))),
        [(Some(5), Some(21)), (Some(5 + times), None)]
    );
    assert!(world.refused.is_empty());
    world
}

/// Of the two branches the longer one does not come to the restored copy, which has the other one.
#[test]
fn a_restored_copy_that_cannot_join_says_whose_changes_do_not_come() {
    let mut world = two_branches(10);
    let new = world.restore(1);
    let mut membership = world.membership();
    membership.epoch += 1;
    membership.members.remove(&site(2));
    membership.removed.insert(site(2), new);
    membership.members.insert(new);
    membership.joining.insert(new);
    world.set_membership(membership);
    world.link(1, 2, true);
    world.start(1);
    world.pass(3_000);
    let waits = world.waits_for(1);
    assert!(!world.is_caught_up(1));
    assert_eq!(waits, [WaitsFor::Branch { of: site(2), at: site(3) }].into());
    let text = waits.first().map(ToString::to_string).unwrap_or_default();
    assert!(text.contains("site 3 has changes of site 2"), "{text}");
}

#[test]
fn a_branch_that_comes_by_way_of_another_site_is_not_taken_in() {
    let mut world = two_branches(1);
    // Both know it.
    assert_eq!(world.differing(0), [(site(2), site(3))].into());
    assert_eq!(world.differing(2), [(site(2), site(1))].into());
    assert!(world.differing(1).is_empty());
    world.link(1, 2, true);
    world.pass(1_000);
    let is_of_two = |bad: &BadMessage| matches!(bad, BadMessage::Branched { of, .. } if *of == site(2));
    assert!(!world.refused.is_empty() && world.refused.iter().all(|(_, bad)| is_of_two(bad)));
}

#[test]
fn what_was_set_at_a_copy_is_told_as_such() {
    let mut world = World::new(2, 1, Settings::default());
    world.add(1, b"x", 5);
    world.pass(100);
    let copy = world.copy(1);
    world.put_back(1, copy);
    world.link(0, 1, false);
    world.start(1);
    world.add_once(1, b"x", 2, b"before");
    world.run(1, b"x", Action::Reset { to: Some(100) });
    world.add_once(1, b"x", 3, b"after");
    world.add(1, b"new", 1);
    world.run(1, b"new", Action::Reset { to: None });
    let told = unheard(&mut world, 1);
    let [new, x] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!((x.counted, x.was_reset, x.operations.len()), (Pn::added(100), true, 1));
    assert_eq!((new.counted, new.was_reset), (Pn::default(), true));
    world.restore(1);
    world.link(0, 1, true);
    world.rejoin(1, site(2));
    for at in 0..2 {
        assert_eq!((world.get(at, b"x"), world.get(at, b"new")), (Some(5), None));
    }
}

/// What site 1 says to site 2 is lost, and not what 2 says to 1.
fn one_way(rules: Rules) -> (World, Vec<Uncounted>) {
    let mut world = World::new(2, 1, Settings { rules, ..Settings::default() });
    world.add(1, b"x", 5);
    world.pass(100);
    world.crash(1);
    world.cut.insert((site(1), site(2)));
    world.start(1);
    world.add(1, b"x", 20);
    world.pass(1_000);
    let told = unheard(&mut world, 1);
    world.restore(1);
    world.cut.clear();
    world.rejoin(1, site(2));
    (world, told)
}

#[test]
fn nothing_is_told_before_another_site_has_spoken() {
    let (mut world, told) = one_way(Rules::default());
    assert_eq!((world.get(0, b"x"), told[0].counted), (Some(5), Pn::added(20)));
    let (mut world, told) = one_way(Rules::without(Rule::AnswersFirst));
    assert_eq!((world.get(0, b"x"), told[0].counted), (Some(25), Pn::added(20)), "it would count twice");
}

#[test]
fn notes_are_gone_when_a_site_was_heard() {
    let mut world = World::new(2, 1, Settings::default());
    world.add(1, b"x", 5);
    world.crash(1);
    world.link(0, 1, false);
    world.start(1);
    world.add(1, b"x", 1);
    world.pass(70_000);
    assert_eq!(unheard(&mut world, 1).len(), 1);
    assert_eq!(world.notes(1), 1);
    world.link(0, 1, true);
    world.pass(2_000);
    assert!(unheard(&mut world, 1).is_empty());
    assert_eq!(world.notes(1), 0);
    assert_eq!(world.get(0, b"x"), Some(6));
}

/// While site 2.1, a restored copy, joins, site 3 deletes x, which site 1 had counted. Another copy is made when 2.1 has just
/// become a member, and has not stored that: it goes on as 2.2, whose first checkpoint comes before the others list it. Then
/// they hear from it how far it is before they tell it anything, and site 1 counts 7.
fn deleted_before_the_copy(rules: Rules) -> World {
    let mut world = World::new(3, 1, Settings { rules, ..Settings::default() });
    world.add(0, b"x", 5);
    world.pass(100);
    let first = world.restore(1);
    world.list_restored(1, site(2));
    world.start(1);
    world.pass(2_000);
    world.run(2, b"x", Action::Reset { to: None });
    world.pass(1_000);
    world.all_joined();
    let copy = world.copy(1);
    world.put_back(1, copy);
    world.start(1);
    let second = world.restore(1);
    for to in [first, second] {
        world.cut.extend([(site(1), to), (site(3), to)]);
    }
    world.start_unlisted(1);
    world.pass(1_000);
    world.list_restored(1, first);
    world.pass(1_000);
    world.cut.clear();
    world.add(0, b"x", 7);
    world.pass(10_000);
    world
}

#[test]
fn a_copy_that_nobody_has_listed_remembers_what_was_deleted() {
    let mut world = deleted_before_the_copy(Rules::default());
    for at in 0..3 {
        assert_eq!(world.get(at, b"x"), Some(7), "at {at}");
    }
    world.check_books();
    let mut world = deleted_before_the_copy(Rules::without(Rule::CopiesRememberDeleted));
    assert_eq!([0, 1, 2].map(|at| world.get(at, b"x")), [Some(7), Some(12), Some(7)]);
}
