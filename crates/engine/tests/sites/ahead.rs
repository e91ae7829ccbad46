//! Rows of a lost site that are newer than the stream that they came with: those who stay come to agree about them.

use quipu_engine::{Reply, Rule, Rules, Settings};

use crate::{
    members::without,
    world::{SHARD, World, is_refused, site},
};

/// So many long keys do not fit into one message.
const KEYS: u32 = 1_500;

fn received(world: &World, at: usize) -> u64 {
    let host = world.sites[at].host.as_ref().expect("it runs");
    host.received(SHARD, site(3)).unwrap_or(0)
}

/// Lets a site hear of site 3 until it has taken in a piece of its stream, and no more.
fn hear_one_piece(world: &mut World, at: usize) -> u64 {
    let before = received(world, at);
    let here = world.sites[at].id;
    world.cut.remove(&(site(3), here));
    while received(world, at) == before {
        world.step();
    }
    world.cut.insert((site(3), here));
    received(world, at)
}

/// Site 3 has ten units in stock and counts on many keys. Site 2 hears the first piece of that; then site 3 counts on the
/// first ones again, and site 1 hears the first piece, which has these rows as they are by then. Site 3 is lost.
fn lost_after_two_pieces(rules: Rules) -> World {
    let mut world = World::new(3, 1, Settings { rules, ..Settings::default() });
    let ticket = world.create(2, b"stock", 0, 10, 1_000);
    world.pass(1_000);
    assert_eq!(world.answer(2, ticket), Some(Reply::Created));
    world.cut.extend([(site(3), site(1)), (site(3), site(2))]);
    let count = |world: &mut World, id: &[u8]| {
        world.add_once(2, b"plain", 7, id);
        world.add(2, b"stock", -4);
    };
    count(&mut world, b"first");
    for number in 0..KEYS {
        world.add(2, format!("{number:0500}").as_bytes(), 1);
    }
    let two = hear_one_piece(&mut world, 1);
    count(&mut world, b"second");
    world.pass(4_000);
    let one = hear_one_piece(&mut world, 0);
    assert_eq!(one, two, "both have the same piece of the stream");
    assert_eq!([0, 1].map(|at| world.get(at, b"plain")), [Some(14), Some(7)]);
    assert_eq!([0, 1].map(|at| world.get(at, b"stock")), [Some(2), Some(6)]);
    world.crash(2);
    world.pass(2_000);
    let membership = without(&world, site(3), site(2));
    world.set_membership(membership);
    world
}

#[test]
fn those_who_stay_agree_about_rows_that_are_ahead_of_a_lost_stream() {
    let mut world = lost_after_two_pieces(Rules::default());
    world.pass(5_000);
    for at in 0..2 {
        assert_eq!(
            [b"plain".as_slice(), b"stock"].map(|key| world.get(at, key)),
            [Some(14), Some(2)],
            "at {at}"
        );
    }
    assert_eq!(world.open_entries(), 0, "nothing waits for it any more");
    world.check_books();
    // What it has counted after the piece is known, and so are the rights that it has left.
    let Reply::Added(again) = world.add_once(1, b"plain", 7, b"second") else { panic!("counted") };
    assert!(again.repeated);
    assert!(is_refused(&world.add(1, b"stock", -3)));
    assert!(matches!(world.add(1, b"stock", -2), Reply::Added(_)));
}

#[test]
fn a_process_that_starts_after_the_removal_tells_them_too() {
    let mut world = lost_after_two_pieces(Rules::default());
    // Before it has told anything.
    world.crash(0);
    world.start(0);
    world.pass(5_000);
    assert_eq!([0, 1].map(|at| world.get(at, b"plain")), [Some(14), Some(14)]);
    assert_eq!([0, 1].map(|at| world.get(at, b"stock")), [Some(2), Some(2)]);
}

#[test]
fn without_telling_them_sites_differ_for_ever() {
    let mut world = lost_after_two_pieces(Rules::without(Rule::AheadIsTold));
    world.pass(20_000);
    assert_eq!([0, 1].map(|at| world.get(at, b"plain")), [Some(14), Some(7)]);
    // The heir spends rights that are spent.
    assert!(matches!(world.add(1, b"stock", -6), Reply::Added(_)));
}
