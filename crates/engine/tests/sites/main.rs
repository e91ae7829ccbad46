//! Several sites that count at once: what they agree on, and that retries count once among all.

mod ahead;
mod bounded;
mod copies;
mod members;
mod retries;
mod world;

use quipu_engine::{Action, Add, Added, OperationId, Outcome, Reply, Rule, Rules, Settings};

use world::{Weather, World, is_refused, site};

#[test]
fn three_sites_agree() {
    let mut world = World::new(3, 1, Settings::default());
    for at in 0..3 {
        world.add(at, b"k", 5 + at as i64);
    }
    world.pass(100);
    for at in 0..3 {
        assert_eq!(world.get(at, b"k"), Some(18));
    }
    world.check_books();
    let before = world.messages;
    world.pass(5_000);
    assert!(world.messages - before < 10, "{} messages although nothing happens", world.messages - before);
}

#[test]
fn a_retry_at_another_site_is_recognised() {
    let mut world = World::new(3, 1, Settings::default());
    world.add_once(1, b"k", 5, b"one");
    assert!(matches!(world.outcome(1, b"k", b"one"), Outcome::Provisional(_)));
    world.pass(100);
    let Reply::Added(answer) = world.add_once(0, b"k", 5, b"one") else { panic!("counted") };
    assert_eq!(answer, Added { value: 5, applied: 5, repeated: true, site: site(2) });
    assert!(matches!(world.outcome(0, b"k", b"one"), Outcome::Counted(_)));
    assert_eq!(world.open_entries(), 0);
    assert_eq!(world.get(2, b"k"), Some(5));
}

#[test]
fn a_retry_that_was_counted_twice_is_taken_back() {
    let mut world = World::new(3, 1, Settings::default());
    world.link(0, 1, false);
    world.link(0, 2, false);
    world.link(1, 2, false);
    for at in [2, 1, 0] {
        world.add_once(at, b"k", 5, b"one");
    }
    world.pass(2_000);
    world.link(1, 2, true);
    world.pass(2_000);
    assert_eq!(world.get(2, b"k"), Some(5));
    assert_eq!(world.outcome(2, b"k", b"one"), Outcome::Cancelled { counted_at: site(2) });
    world.heal();
    for at in 0..3 {
        assert_eq!(world.get(at, b"k"), Some(5), "at {at}");
        assert!(
            matches!(world.outcome(at, b"k", b"one"), Outcome::Counted(Added { site: it, .. }) if it == site(1))
        );
    }
    assert_eq!(world.open_entries(), 0);
    world.check_books();
}

#[test]
fn who_has_taken_a_count_back_never_names_itself() {
    let mut world = World::new(3, 1, Settings::default());
    let all = [(1, 2), (1, 3), (2, 3)].map(|(one, other)| (site(one), site(other)));
    world.cut.extend(all.into_iter().flat_map(|(one, other)| [(one, other), (other, one)]));
    for at in [2, 1, 0] {
        world.add_once(at, b"k", 5, b"one");
    }
    world.link(1, 2, true);
    world.pass(2_000);
    // Sites 1 and 3 believe in their link, and nothing comes through: site 2 passes nothing on, and has settled its own.
    world.link(0, 1, true);
    world.pass(5_000);
    assert_eq!(world.outcome(2, b"k", b"one"), Outcome::Cancelled { counted_at: site(2) });
    world.heal();
    for at in 0..3 {
        assert!(
            matches!(world.outcome(at, b"k", b"one"), Outcome::Counted(Added { site: it, .. }) if it == site(1))
        );
    }
}

#[test]
fn what_has_no_direct_link_is_passed_on() {
    let mut world = World::new(3, 1, Settings::default());
    world.link(0, 2, false);
    world.add_once(0, b"k", 5, b"one");
    world.add(2, b"k", 3);
    world.pass(2_000);
    for at in 0..3 {
        assert_eq!(world.get(at, b"k"), Some(8), "at {at}");
    }
    assert!(
        matches!(world.outcome(2, b"k", b"one"), Outcome::Counted(_)),
        "{:?}",
        world.outcome(2, b"k", b"one")
    );
    assert!(
        matches!(world.outcome(0, b"k", b"one"), Outcome::Counted(_)),
        "{:?}",
        world.outcome(0, b"k", b"one")
    );
    assert_eq!(world.open_entries(), 0);
}

#[test]
fn who_was_away_for_long_is_sent_all_rows() {
    let mut world = World::new(2, 1, Settings::default());
    world.link(0, 1, false);
    for number in 0..40_000_u32 {
        world.add(0, format!("key{number}").as_bytes(), 1);
    }
    world.add_once(0, b"key7", 5, b"one");
    world.link(0, 1, true);
    world.pass(3_000);
    assert_eq!(world.get(1, b"key39999"), Some(1));
    assert_eq!(world.get(1, b"key7"), Some(6));
    assert!(matches!(world.outcome(0, b"key7", b"one"), Outcome::Counted(_)));
    world.check_books();
}

#[test]
fn changes_that_are_forgotten_for_who_is_away_are_not_missed_by_who_is_there() {
    let mut world = World::new(3, 1, Settings::default());
    world.link(0, 2, false);
    world.link(1, 2, false);
    // Together one change more than are remembered. Of the last ones the first is under way when the others are made.
    (0..32 * 1024 - 9).for_each(|_| drop(world.add(0, b"hot", 1)));
    world.pass(1_000);
    (0..10).for_each(|_| drop(world.add(0, b"hot", 1)));
    world.pass(1_000);
    assert_eq!(world.get(1, b"hot"), Some(32 * 1024 + 1));
    world.heal();
    assert_eq!(world.get(2, b"hot"), Some(32 * 1024 + 1));
    world.check_books();
}

#[test]
fn a_reset_while_another_takes_back() {
    let mut world = World::new(3, 1, Settings::default());
    world.link(0, 1, false);
    world.link(0, 2, false);
    // Counted at 1 and 2; 3 hears of the count at 2 only, and deletes.
    world.add_once(0, b"k", 5, b"one");
    world.add_once(1, b"k", 5, b"one");
    world.pass(100);
    assert_eq!(world.get(2, b"k"), Some(5));
    world.link(1, 2, false);
    world.run(2, b"k", Action::Reset { to: None });
    world.link(0, 1, true);
    world.pass(500);
    assert_eq!(world.get(1, b"k"), Some(5));
    world.heal();
    for at in 0..3 {
        // The keeper's count decides, and the reset had not seen it.
        assert_eq!(world.get(at, b"k"), Some(5), "at {at}");
    }
    world.check_books();
}

#[test]
fn a_bounded_counter_is_made_when_all_agree() {
    let mut world = World::new(3, 1, Settings::default());
    world.link(0, 2, false);
    world.link(1, 2, false);
    let waits = world.create(0, b"stock", 0, 10, 1_000);
    world.pass(100);
    assert!(matches!(world.add(1, b"stock", -1), Reply::Refused(_)), "reserved");
    assert_eq!(world.answer(0, waits), None);
    world.pass(1_000);
    assert!(matches!(world.answer(0, waits), Some(Reply::Refused(_))), "site 3 is missing");
    world.heal();
    assert!(matches!(world.add(0, b"stock", -1), Reply::Added(_)));
    assert!(is_refused(&world.add(2, b"stock", -1)));
    let add = Add { remote_ms: 500, ..Add::of(-4) };
    let ticket = world.submit(2, b"stock", Action::Add { add, operation: None });
    world.pass(100);
    assert!(matches!(world.answer(2, ticket), Some(Reply::Added(Added { value: 5, .. }))));
    world.heal();
    for at in 0..3 {
        assert_eq!(world.get(at, b"stock"), Some(5));
    }
    world.check_books();
}

#[test]
fn of_two_definitions_the_lower_sites_wins() {
    let mut world = World::new(3, 1, Settings::default());
    let second = world.create(1, b"stock", 0, 10, 1_000);
    let first = world.create(0, b"stock", 0, 20, 1_000);
    world.pass(900);
    assert_eq!(world.answer(0, first), Some(Reply::Created));
    assert!(matches!(world.answer(1, second), Some(Reply::Refused(_))));
    world.pass(100);
    for at in 0..3 {
        assert_eq!(world.get(at, b"stock"), Some(20));
    }
}

/// Clients that retry elsewhere, in bad weather, with crashes and cuts.
fn storm(seed: u64) {
    let mut world = World::new(3, seed, Settings::default());
    world.weather = Weather { drop: 30, duplicate: 40 };
    let mut expected = [0_i64; 4];
    let keys: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
    for round in 0..150 {
        match world.random.below(12) {
            0 => {
                let (one, other) = (world.random.below(3), world.random.below(3));
                let up = world.random.below(2) == 0;
                if one != other && world.sites[one].host.is_some() && world.sites[other].host.is_some() {
                    world.link(one, other, up);
                }
            }
            1 => {
                let at = world.random.below(3);
                if world.sites[at].host.is_some() {
                    world.crash(at);
                } else {
                    world.start(at);
                }
            }
            _ => {}
        }
        let (key, amount) = (world.random.below(4), 1 + world.random.below(5) as i64);
        let id = format!("id{round}");
        let mut counted = false;
        for _ in 0..=world.random.below(3) {
            let at = world.random.below(3);
            if world.sites[at].host.is_some() {
                let operation = Some(OperationId { producer: b"p", id: id.as_bytes() });
                let reply = world.run(at, keys[key], Action::Add { add: Add::of(amount), operation });
                assert!(matches!(reply, Reply::Added(_)), "{reply:?}");
                counted = true;
            }
            let ms = world.random.below(60) as u64;
            world.pass(ms);
        }
        expected[key] += if counted { amount } else { 0 };
    }
    world.heal();
    for at in 0..3 {
        for (key, expected) in keys.iter().zip(expected) {
            assert_eq!(world.get(at, key).unwrap_or(0), expected, "seed {seed}, site {}", at + 1);
        }
    }
    assert_eq!(world.open_entries(), 0, "seed {seed}");
    world.check_books();
}

#[test]
fn retries_count_once_in_any_weather() {
    for seed in 0..100 {
        storm(seed);
    }
}

/// A site is sent all rows of a lost one's stream by two others, of which the second has less of it.
fn swept_by_two(rule: Option<Rule>) -> (World, Vec<Vec<u8>>) {
    let settings = Settings { rules: rule.map_or(Rules::default(), Rules::without), ..Settings::default() };
    let mut world = World::new(4, 1, settings);
    let keys: Vec<Vec<u8>> = (0..6_000).map(|number| format!("k{number:05}").into_bytes()).collect();
    world.pass(100);
    for other in 0..3 {
        world.link(other, 3, false);
    }
    keys.iter().for_each(|key| drop(world.add(0, key, 1)));
    world.pass(1_000);
    world.link(0, 2, false);
    world.link(1, 2, false);
    keys.iter().for_each(|key| drop(world.add(0, key, 10)));
    world.pass(1_000);
    world.link(0, 1, false);
    world.crash(0);
    // Who has begun anew does not remember which rows have changed.
    for at in [1, 2] {
        world.crash(at);
        world.start(at);
    }
    for (one, other) in [(0, 1), (0, 2), (0, 3), (1, 2)] {
        world.link(one, other, false);
    }
    // The second site begins, and what it says is stuck; the third goes on to the end; the second hears that, and its
    // messages come through again.
    world.link(2, 3, false);
    world.link(1, 3, true);
    world.pass(12);
    assert_eq!(world.get(3, &keys[5_999]), None, "it is in the middle");
    assert!(keys.iter().any(|key| world.get(3, key).is_some()), "it has begun");
    world.cut.insert((site(2), site(4)));
    world.link(2, 3, true);
    for _ in 0..1_000 {
        if world.get(3, &keys[5_999]).is_none() {
            world.step();
        }
    }
    world.cut.insert((site(3), site(4)));
    world.cut.remove(&(site(2), site(4)));
    world.pass(5_000);
    (world, keys)
}

#[test]
fn who_goes_on_with_anothers_sweep_has_as_much() {
    let (mut world, keys) = swept_by_two(None);
    for key in &keys {
        assert_eq!(world.get(3, key), Some(11), "{}", String::from_utf8_lossy(key));
    }
    let (mut world, keys) = swept_by_two(Some(Rule::SweepsReachAsFar));
    assert!(keys.iter().any(|key| world.get(3, key) == Some(1)), "the wrong variant leaves rows out");
}
