//! Who holds the rights of bounded counters: how they are spread when a counter is made, how clients move them, and who
//! is told what about them.

use quipu_engine::{Action, Add, Added, Move, Refusal, Reply, Rule, Rules, Settings, SiteId, Spread, Ticket};

use crate::{
    members::without,
    world::{Weather, World, is_refused, site},
};

fn settings_without(rule: Rule) -> Settings {
    Settings { rules: Rules::without(rule), ..Settings::default() }
}

/// A counter from 0 on with so many units, at three sites.
fn stock(settings: Settings, units: i64, spread: Spread<'_>) -> World {
    let mut world = World::new(3, 1, settings);
    let ticket = world.create_spread(0, b"stock", (0, units), spread, 1_000);
    world.pass(1_000);
    assert_eq!(world.answer(0, ticket), Some(Reply::Created));
    world
}

fn moved(world: &mut World, at: usize, amount: u64, (from, to): (u16, u16)) -> Ticket {
    let (from, to) = (site(from), site(to));
    world.submit(at, b"stock", Action::Move(Move { amount, right: None, from, to, wait_ms: 2_000 }))
}

#[test]
fn the_rights_of_a_new_counter_are_spread_as_its_definition_says() {
    let shares = [(site(3), 7), (site(1), 2)];
    for (spread, rights) in [
        (Spread::Creator, vec![500]),
        (Spread::Even, vec![167, 167, 166]),
        (Spread::Shares(&shares), vec![112, 388]),
    ] {
        let mut world = stock(Settings::default(), 500, spread);
        for at in 0..3 {
            let mut held = world.rights(at, b"stock");
            held.retain(|rights| *rights > 0);
            assert_eq!(held, rights, "{spread:?} at {at}");
            assert_eq!(held.iter().sum::<u128>(), 500);
        }
    }
}

#[test]
fn sites_that_are_cut_off_sell_what_they_hold_and_no_more() {
    let mut world = stock(Settings::default(), 30, Spread::Even);
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        world.link(one, other, false);
    }
    for at in 0..3 {
        for _ in 0..10 {
            assert!(matches!(world.add(at, b"stock", -1), Reply::Added(_)), "at {at}");
        }
        assert!(is_refused(&world.add(at, b"stock", -1)), "at {at}");
    }
    world.heal();
    for at in 0..3 {
        assert_eq!(world.get(at, b"stock"), Some(0));
    }
    world.check_books();
}

#[test]
fn nobody_has_a_share_who_does_not_belong_to_the_cluster() {
    let mut world = World::new(2, 1, Settings::default());
    let shares = [(site(1), 1), (site(7), 1)];
    let ticket = world.create_spread(0, b"stock", (0, 500), Spread::Shares(&shares), 1_000);
    let Some(Reply::Refused(refusal)) = world.answer(0, ticket) else { panic!("it is refused at once") };
    let text = refusal.to_string();
    assert_eq!(text, "site 7 does not belong to the cluster; its sites are 1, 2; nothing was created");
}

#[test]
fn a_site_that_lacks_rights_says_who_holds_them() {
    let mut world = stock(Settings::default(), 500, Spread::Creator);
    let Reply::Refused(refusal) = world.add(1, b"stock", -1) else { panic!("site 2 has no rights") };
    assert_eq!(
        refusal.to_string(),
        "-1 cannot be counted here: the counter is at 500, its minimum is 0, and this site holds 0 of the 500 units that can \
         be subtracted; site 1 holds them; nothing was counted"
    );
    let Reply::Refused(refusal) = world.add(0, b"stock", -501) else { panic!("there are 500") };
    assert_eq!(
        refusal.to_string(),
        "-501 would take the counter beyond its minimum 0: it is at 500, and at most 500 can be subtracted; nothing was \
         counted"
    );
    let ticket = moved(&mut world, 0, 100, (1, 3));
    assert_eq!(world.answer(0, ticket), Some(Reply::Moved(100)));
    world.pass(100);
    let Reply::Refused(refusal) = world.add(1, b"stock", -1) else { panic!("site 2 has no rights") };
    assert!(
        refusal
            .to_string()
            .contains("0 of the 500 units that can be subtracted; site 1 holds 400, site 3 holds 100;")
    );
    let Reply::Refused(refusal) = world.add(2, b"stock", -101) else { panic!("site 3 has 100 rights") };
    assert!(
        refusal
            .to_string()
            .contains("100 of the 500 units that can be subtracted; site 1 holds 400; nothing"),
        "{refusal}"
    );
}

#[test]
fn rights_are_moved_by_their_holder_whoever_is_asked() {
    let mut world = stock(Settings::default(), 500, Spread::Creator);
    for (at, amount) in [(0, 10), (1, 20), (2, 30)] {
        let ticket = moved(&mut world, at, amount, (1, 2));
        world.pass(500);
        assert_eq!(world.answer(at, ticket), Some(Reply::Moved(amount)), "asked at {at}");
    }
    // Two at once are two.
    let tickets = [moved(&mut world, 2, 100, (1, 3)), moved(&mut world, 2, 100, (1, 3))];
    world.pass(500);
    assert_eq!(
        tickets.map(|ticket| world.answer(2, ticket)),
        [Some(Reply::Moved(100)), Some(Reply::Moved(100))]
    );
    for at in 0..3 {
        assert_eq!(world.rights(at, b"stock"), [240, 60, 200], "at {at}");
    }
    // More than there are: what there is.
    let ticket = moved(&mut world, 0, 1_000, (2, 3));
    world.pass(2_000);
    assert_eq!(world.answer(0, ticket), Some(Reply::Moved(60)));
    assert_eq!(world.rights(0, b"stock"), [240, 0, 260]);
    assert!(matches!(world.add(2, b"stock", -260), Reply::Added(_)));
    assert!(is_refused(&world.add(1, b"stock", -1)));
}

#[test]
fn what_cannot_be_moved_is_said() {
    let mut world = stock(Settings::default(), 500, Spread::Creator);
    let said = |world: &mut World, at, route| {
        let ticket = moved(world, at, 5, route);
        world.pass(2_500);
        match world.answer(at, ticket) {
            Some(Reply::Refused(refusal)) => refusal.to_string(),
            other => panic!("{other:?}"),
        }
    };
    for at in 0..3 {
        let text = said(&mut world, at, (2, 3));
        assert_eq!(
            text,
            "site 2 holds 0 of the 500 rights to subtract; site 1 holds them; nothing was moved"
        );
    }
    assert!(said(&mut world, 1, (1, 9)).starts_with("site 9 does not belong to the cluster"));
    assert!(said(&mut world, 1, (1, 1)).starts_with("rights are moved from one site to another"));
    world.link(0, 1, false);
    let text = said(&mut world, 1, (1, 2));
    assert!(text.starts_with("site 1 was asked to pass the rights on and has not answered within 2000 ms, because there is no link"), "{text}");
    world.add(0, b"plain", 1);
    let it = Move { amount: 5, right: None, from: site(1), to: site(2), wait_ms: 0 };
    assert_eq!(world.run(0, b"plain", Action::Move(it)), Reply::Refused(Refusal::NotBounded));
    assert_eq!(world.run(0, b"absent", Action::Move(it)), Reply::Refused(Refusal::NotBounded));
}

/// Moves rights with every message sent twice or more, and some lost. Returns what was said to have moved, and what the
/// receiver holds in the end.
fn move_in_bad_weather(settings: Settings, seed: u64) -> (u64, u128) {
    let mut world = World::new(3, seed, settings);
    let ticket = world.create(0, b"stock", 0, 500, 1_000);
    world.pass(1_000);
    assert_eq!(world.answer(0, ticket), Some(Reply::Created));
    world.weather = Weather { drop: 30, duplicate: 70 };
    let ticket = moved(&mut world, 1, 7, (1, 3));
    world.pass(1_900);
    let answer = world.answer(1, ticket);
    world.heal();
    let answer = answer.or_else(|| world.answer(1, ticket));
    let Some(Reply::Moved(moved)) = answer else { panic!("{answer:?}") };
    (moved, world.rights(0, b"stock")[1])
}

#[test]
fn a_request_that_arrives_twice_moves_once() {
    for seed in 0..20 {
        assert_eq!(move_in_bad_weather(Settings::default(), seed), (7, 7), "seed {seed}");
    }
    let wrong = |seed| move_in_bad_weather(settings_without(Rule::MovesNameTotals), seed).1 > 7;
    assert!((0..20).any(wrong), "without the rule it moves more than once");
}

/// The first answers of all sites to an add, in the moment in which the creator is told that the counter is made.
fn answers_when_created(settings: Settings, seed: u64) -> Vec<Reply> {
    let mut world = World::new(3, seed, settings);
    let ticket = world.create_spread(0, b"stock", (0, 30), Spread::Even, 5_000);
    while world.sites[0].replies.is_empty() {
        world.step();
    }
    assert_eq!(world.answer(0, ticket), Some(Reply::Created));
    (0..3).map(|at| world.add(at, b"stock", -1)).collect()
}

#[test]
fn when_it_is_created_all_sites_take_it() {
    for seed in 0..20 {
        for reply in answers_when_created(Settings::default(), seed) {
            assert!(matches!(reply, Reply::Added(_)), "seed {seed}: {reply:?}");
        }
    }
    let is_reserved = |reply: &Reply| matches!(reply, Reply::Refused(Refusal::Reserved { .. }));
    let wrong =
        |seed| answers_when_created(settings_without(Rule::CreatedEverywhere), seed).iter().any(is_reserved);
    assert!((0..20).any(wrong), "without the rule somebody answers that it is reserved");
}

#[test]
fn who_waits_for_an_agreement_does_not_wait_for_who_was_removed() {
    let mut world = World::new(3, 1, Settings::default());
    world.crash(2);
    let ticket = world.create(0, b"stock", 0, 10, 60_000);
    world.pass(1_000);
    assert_eq!(world.answer(0, ticket), None);
    let membership = without(&world, site(3), site(2));
    world.set_membership(membership);
    world.pass(1_000);
    assert_eq!(world.answer(0, ticket), Some(Reply::Created));
}

/// A command waits at its heir for the rights of a site that is lost. Returns its answer, given a moment.
fn wait_for_inheritance(settings: Settings, count: u16, moment_ms: u64) -> Option<Reply> {
    let mut world = World::new(count, 1, settings);
    let last = usize::from(count) - 1;
    let gone: SiteId = site(count);
    let ticket = world.create(last, b"stock", 0, 10, 1_000);
    world.pass(1_000);
    assert_eq!(world.answer(last, ticket), Some(Reply::Created));
    world.crash(last);
    let add = Add { remote_ms: 60_000, ..Add::of(-4) };
    let ticket = world.submit(0, b"stock", Action::Add { add, operation: None });
    world.pass(1_000);
    assert_eq!(world.answer(0, ticket), None);
    let membership = without(&world, gone, site(1));
    world.set_membership(membership);
    world.pass(moment_ms);
    world.answer(0, ticket)
}

#[test]
fn inherited_rights_wake_who_waits_for_them() {
    for count in [2, 3] {
        let answer = wait_for_inheritance(Settings::default(), count, 1_000);
        assert!(matches!(answer, Some(Reply::Added(Added { value: 6, .. }))), "{count} sites: {answer:?}");
    }
    let answer = wait_for_inheritance(settings_without(Rule::HeirsWait), 3, 1_000);
    assert!(answer.as_ref().is_some_and(is_refused), "without the rule it is refused: {answer:?}");
}

/// Site 1 makes a counter and waits for site 3, which is lost and removed. Nobody asks site 1 again; site 2 counts, twice.
fn count_in_the_way(settings: Settings) -> [Reply; 2] {
    let mut world = World::new(3, 1, settings);
    world.crash(2);
    world.create(0, b"stock", 0, 10, 0);
    world.pass(1_000);
    let membership = without(&world, site(3), site(1));
    world.set_membership(membership);
    world.pass(1_000);
    let first = world.add(1, b"stock", 5);
    world.pass(2_000);
    [first, world.add(1, b"stock", 5)]
}

#[test]
fn a_creation_that_is_in_the_way_goes_on_without_who_was_removed() {
    let is_reserved =
        |reply: &Reply| matches!(reply, Reply::Refused(Refusal::Reserved { by }) if *by == site(1));
    let [first, second] = count_in_the_way(Settings::default());
    assert!(is_reserved(&first), "{first:?}");
    assert!(matches!(second, Reply::Added(Added { value: 15, .. })), "{second:?}");
    let wrong = count_in_the_way(settings_without(Rule::CreationsGoOn));
    assert!(wrong.iter().all(is_reserved), "without the rule it is in the way for ever: {wrong:?}");
}
