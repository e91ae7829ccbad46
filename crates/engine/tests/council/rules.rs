//! Each rule on its own.

use std::collections::{BTreeMap, BTreeSet};

use quipu_crdt::testing::Random;
use quipu_engine::{
    Council, Membership, SiteId,
    council::{
        BadChange, Change, Config, Notice, Refused, SITES_MAX, Seat, Standing, Step, TEXT_BYTES_MAX, fuzzing,
    },
};

use crate::{add, checks::List, cluster, remove, remove_drained, site, sites};

/// Everybody hears everybody, until nothing changes.
fn talk(councils: &mut [&mut Council]) {
    let mut is_quiet = false;
    while !is_quiet {
        is_quiet = true;
        for from in 0..councils.len() {
            for to in (0..councils.len()).filter(|to| *to != from) {
                is_quiet &=
                    !tell(&councils[from].clone(), councils[to]).is_ok_and(|step| step.persist.is_some());
            }
        }
    }
}

fn tell(from: &Council, to: &mut Council) -> Result<Step, Refused> {
    let notice = Notice::decode(&from.notice().encode()).expect("what was written");
    to.receive(from.site(), &notice)
}

fn of<const N: usize>(numbers: [u16; N]) -> [Council; N] {
    cluster(&numbers).try_into().expect("as many")
}

fn missing(council: &Council) -> BTreeSet<SiteId> {
    council.waiting().map(|(_, missing)| missing).unwrap_or_default()
}

fn id(number: u16, incarnation: u16) -> SiteId {
    SiteId { number, incarnation }
}

fn restore(old: SiteId, new: SiteId) -> Change {
    Change::Restore { old, new, address: "elsewhere:7381".into() }
}

#[test]
fn a_site_joins_when_all_list_it() {
    let [mut one, mut two, mut three] = of([1, 2, 3]);
    let mut four = Council::newcomer(site(4));
    assert_eq!(
        four.membership(),
        Membership { epoch: 0, joining: sites(&[4]), ..Membership::alone(site(4)) }
    );

    let step = one.propose(add(4)).expect("a change");
    assert_eq!(Council::decode(&step.persist.expect("a new state")).ok().as_ref(), Some(&one));
    assert_eq!(step.tell, sites(&[2, 3]));
    assert_eq!(missing(&one), sites(&[2, 3]));
    assert_eq!(tell(&one, &mut two).expect("heard").tell, sites(&[1, 3]));
    assert_eq!(tell(&two, &mut one).expect("heard").tell, BTreeSet::new(), "one more is missing");
    assert_eq!(missing(&one), sites(&[3]));
    assert_eq!(one.config().epoch, 1);
    assert!(one.may_join(site(4)).is_err(), "it is not in force");
    let _answer = tell(&one, &mut three).expect("heard");
    assert_eq!(tell(&three, &mut one).expect("heard").tell, sites(&[2, 3, 4]));
    assert_eq!(one.config().epoch, 2);

    let _taken_over = tell(&one, &mut four).expect("heard");
    assert_eq!(four.standing(), Some(Standing::Joining));
    assert_eq!(four.membership().members, sites(&[1, 2, 3, 4]));
    assert_eq!(four.membership().joining, sites(&[4]));
    let _proposed = four.joined().expect("a change");
    talk(&mut [&mut one, &mut four]);
    assert_eq!(four.standing(), Some(Standing::Joining), "two and three do not list it yet");
    assert_eq!(missing(&four), sites(&[2, 3]));
    talk(&mut [&mut one, &mut two, &mut three, &mut four]);
    for council in [&one, &two, &three, &four] {
        assert_eq!(council.config().standing(site(4)), Some(Standing::Member));
        assert_eq!(council.config().epoch, 3);
    }
    assert_eq!(four.joined(), Ok(Step::default()));
}

#[test]
fn alone_everything_is_immediate() {
    let [mut one] = of([1]);
    assert_eq!(one.membership(), Membership::alone(site(1)));
    let _step = one.propose(add(2)).expect("a change");
    assert_eq!(one.membership().members, sites(&[1, 2]));
}

#[test]
fn a_removed_site_is_told_and_refused_for_ever() {
    let [mut one, mut two, mut three] = of([1, 2, 3]);
    let _step = one.propose(remove(&[3], 2)).expect("a change");
    assert_eq!(one.may_join(site(3)), Err(Refused::BeingRemoved { site: site(3), by: site(1) }));
    let _agreed = tell(&one, &mut two).expect("heard");
    assert!(two.may_join(site(3)).is_err());
    let step = tell(&two, &mut one).expect("heard");
    assert_eq!(step.tell, sites(&[2, 3]), "it is told");
    assert_eq!(one.membership().removed, BTreeMap::from([(site(3), site(2))]));

    let refused = tell(&three, &mut one).expect_err("it is removed");
    assert_eq!(refused, Refused::Removed { site: site(3), heir: site(2), epoch: 2 });
    assert!(refused.to_string().contains("`quipu site add`"), "{refused}");
    let _told = tell(&one, &mut three).expect("from a site that it knows");
    assert_eq!(three.standing(), None);
    assert_eq!(three.may_join(site(1)), Err(refused));
    let stays_out = three.propose(add(5));
    assert_eq!(stays_out, Err(BadChange::NotListed { site: site(3) }));
    talk(&mut [&mut one, &mut two]);
    assert_eq!(one.propose(add(3)), Err(BadChange::UsedBefore { site: site(3), next: Some(id(3, 1)) }));
    let again = Change::Add { site: id(3, 1), name: String::new(), address: String::new() };
    assert!(one.propose(again).is_ok(), "under a new id");
}

#[test]
fn of_two_proposals_the_lower_sites_goes_first() {
    let [mut one, mut two, mut three] = of([1, 2, 3]);
    let _step = three.propose(add(5)).expect("a change");
    let _step = one.propose(add(4)).expect("a change");
    let _agreed = tell(&three, &mut two).expect("heard");
    let _not = tell(&one, &mut two).expect("heard");
    assert_eq!(two.agreed()[0].by, site(3), "an agreement is not taken back");
    assert_eq!(two.propose(add(6)), Err(BadChange::UnderWay { by: site(3), change: "add site 5".into() }));
    let _withdrawn = tell(&one, &mut three).expect("heard");
    assert_eq!(three.waiting(), None);
    let _released = tell(&three, &mut two).expect("heard");
    assert!(two.agreed().is_empty());
    talk(&mut [&mut one, &mut two, &mut three]);
    assert_eq!(three.membership().members, sites(&[1, 2, 3, 4]));
    assert!(three.propose(add(5)).is_ok(), "then the other's");
}

#[test]
fn whoever_removes_more_goes_first() {
    let [mut one, _, mut three] = of([1, 2, 3]);
    let _step = one.propose(add(4)).expect("a change that waits for 2, which is lost");
    let _step = three.propose(remove(&[2], 3)).expect("a change");
    talk(&mut [&mut one, &mut three]);
    assert_eq!(one.membership().members, sites(&[1, 3]));
    assert_eq!(one.waiting(), None);
}

#[test]
fn several_are_removed_at_once() {
    let [mut one, _, _, mut four] = of([1, 2, 3, 4]);
    let _step = one.propose(remove(&[2], 1)).expect("a change");
    talk(&mut [&mut one, &mut four]);
    assert_eq!(missing(&one), sites(&[3]), "lost as well");
    let same = one.propose(remove(&[2], 1));
    assert_eq!(same, Ok(Step::default()), "nothing new");
    assert!(matches!(one.propose(add(5)), Err(BadChange::OwnUnderWay { .. })));
    let _step = one.propose(remove(&[2, 3], 4)).expect("goes before the own one");
    talk(&mut [&mut one, &mut four]);
    assert_eq!(four.membership().members, sites(&[1, 4]));
    assert_eq!(four.membership().removed, BTreeMap::from([(site(2), site(4)), (site(3), site(4))]));
}

#[test]
fn a_proposal_can_be_withdrawn() {
    let [mut one, mut two] = of([1, 2]);
    let _step = one.propose(add(3)).expect("a change");
    let late = one.clone();
    let _agreed = tell(&one, &mut two).expect("heard");
    assert_eq!(one.withdraw().tell, sites(&[2]));
    let _old_agreement = tell(&two, &mut one).expect("heard");
    assert_eq!(one.config().epoch, 1, "not decided any more");
    let _released = tell(&one, &mut two).expect("heard");
    assert!(two.agreed().is_empty());
    let _overtaken = tell(&late, &mut two).expect("heard");
    assert_eq!(two.agreed().len(), 1, "agreeing to what was withdrawn does no harm");
    talk(&mut [&mut one, &mut two]);
    assert!(two.agreed().is_empty());
    assert_eq!(one.withdraw(), Step::default());
}

#[test]
fn a_lost_proposer_is_removed_with_whom_it_removes() {
    let [mut one, mut two, _, mut four] = of([1, 2, 3, 4]);
    let _step = four.propose(remove(&[3], 4)).expect("a change");
    let _agreed = tell(&four, &mut two).expect("heard");
    let error = two.propose(remove(&[4], 2)).expect_err("4 may have removed 3");
    assert!(error.to_string().contains("together with whoever else is lost and whom it was about to remove"));
    let _step = two.propose(remove(&[3, 4], 2)).expect("a change");
    assert_eq!(two.agreed().len(), 2, "the first stays underneath");
    let _withdrawn = two.withdraw();
    assert_eq!(two.agreed().len(), 1);
    let _step = two.propose(remove(&[3, 4], 2)).expect("a change");
    talk(&mut [&mut one, &mut two]);
    assert_eq!(one.membership().members, sites(&[1, 2]));
    talk(&mut [&mut four, &mut one]);
    assert_eq!(four.standing(), None, "if it comes back it hears of it");
}

#[test]
fn a_restored_site_is_another_one() {
    let [mut one, mut two, mut old] = of([1, 2, 3]);
    let new = id(3, 1);
    let mut restored = old.restored(new).expect("a newcomer");
    assert_eq!(restored, Council::newcomer(new));
    let refused = one.may_join(new).expect_err("nobody has listed it");
    assert!(refused.to_string().contains("`quipu restore`"), "{refused}");
    let _step = one.propose(restore(site(3), new)).expect("a change");
    talk(&mut [&mut one, &mut two, &mut restored]);
    assert_eq!(restored.standing(), Some(Standing::Joining));
    assert_eq!(restored.membership().removed, BTreeMap::from([(site(3), new)]));
    assert_eq!(restored.config().sites[&new].name, "s3");
    assert!(matches!(tell(&old, &mut two), Err(Refused::Removed { heir, .. }) if heir == new));
    talk(&mut [&mut old, &mut two]);
    assert_eq!(old.standing(), None);
    let _step = restored.joined().expect("a change");
    talk(&mut [&mut one, &mut two, &mut restored]);
    assert_eq!(one.config().standing(new), Some(Standing::Member));

    let [alone] = of([1]);
    let restored = alone.restored(id(1, 1)).expect("nobody else to ask");
    assert_eq!(restored.standing(), Some(Standing::Member));
    assert_eq!(restored.membership().removed, BTreeMap::from([(site(1), id(1, 1))]));
    assert!(alone.restored(id(1, 0)).is_err() && alone.restored(id(2, 0)).is_err());
}

#[test]
fn different_first_lists_are_two_clusters() {
    let [mut one, two] = of([1, 2]);
    let [_, mut other, _] = of([1, 2, 3]);
    let refused = tell(&one, &mut other).expect_err("another list");
    assert!(refused.to_string().contains("the sites {1, 2, 3}, and site 1 with {1, 2}"), "{refused}");
    assert!(tell(&other, &mut one).is_err());
    assert!(tell(&two, &mut one).is_ok());

    // Only names and addresses may differ, and each site keeps those that it knows.
    let seats = [(site(1), Seat::member("a", "localhost:1")), (site(2), Seat::member("b", "localhost:2"))];
    let mut same = Council::first(site(2), seats.into()).expect("a list");
    let _step = one.propose(add(3)).expect("a change");
    talk(&mut [&mut one, &mut same]);
    assert_eq!(List::of(one.config()), List::of(same.config()));
    assert_eq!(same.config().sites[&site(1)].address, "localhost:1");
    assert_eq!(same.config().sites[&site(3)].address, "host3:7381");
}

#[test]
fn two_that_remove_each_other_are_two_clusters() {
    let [mut one, mut two] = of([1, 2]);
    let _step = one.propose(remove(&[2], 1)).expect("a change");
    let _step = two.propose(remove(&[1], 2)).expect("a change");
    assert!(matches!(tell(&one, &mut two), Err(Refused::Removed { .. })));
    let refused = Council::newcomer(site(3)).receive(site(1), one.notice()).expect_err("not listed");
    assert!(matches!(refused, Refused::Stranger { .. }), "{refused}");

    // A list that does not follow from ours, from a site that we list.
    let [_, mut two, mut three] = of([1, 2, 3]);
    let _step = two.propose(remove(&[1, 3], 2)).expect("a change");
    let _step = two.propose(add(4)).expect("a change");
    let [mut one, _, _] = of([1, 2, 5]);
    let refused = tell(&two, &mut one).expect_err("another cluster");
    assert!(matches!(refused, Refused::Contradiction { our_epoch: 1, their_epoch: 3, .. }), "{refused}");
    assert!(refused.to_string().contains("{1, 2, 5} of epoch 1"), "{refused}");
    assert!(tell(&two, &mut three).is_ok(), "who was removed by it hears of it");
    assert_eq!(three.standing(), None);
}

#[test]
fn who_is_not_listed_is_refused_with_the_remedy() {
    let [mut one, _] = of([1, 2]);
    let stranger = tell(&Council::newcomer(site(7)), &mut one).expect_err("not listed");
    assert!(stranger.to_string().contains("Run `quipu site add`"), "{stranger}");
    let twin = one.clone();
    assert_eq!(tell(&twin, &mut one), Err(Refused::Itself { site: site(1) }));
}

#[test]
fn changes_that_cannot_be() {
    let [mut one, mut two, _] = of([1, 2, 3]);
    let cases = [
        (add(2), BadChange::NumberTaken { site: site(2), listed: site(2) }),
        (add(0), BadChange::BadNumbers { sites: "{0, 1, 2, 3}".into() }),
        (remove(&[], 1), BadChange::Nobody),
        (remove(&[9], 1), BadChange::NotListed { site: site(9) }),
        (remove(&[2], 9), BadChange::NotListed { site: site(9) }),
        (remove(&[2], 2), BadChange::CannotInherit { heir: site(2) }),
        (remove(&[1], 2), BadChange::RemovesItself { site: site(1) }),
        (Change::Joined { site: site(1) }, BadChange::NotJoining { site: site(1) }),
        (Change::Joined { site: site(2) }, BadChange::NotJoining { site: site(2) }),
        (restore(site(2), id(3, 1)), BadChange::OtherNumber { old: site(2), new: id(3, 1) }),
        (restore(site(2), site(2)), BadChange::UsedBefore { site: site(2), next: Some(id(2, 1)) }),
        (restore(site(9), id(9, 1)), BadChange::NotListed { site: site(9) }),
        (
            Change::Add { site: site(4), name: "n".repeat(TEXT_BYTES_MAX + 1), address: String::new() },
            BadChange::TooLong,
        ),
    ];
    for (change, expected) in cases {
        let before = one.clone();
        assert_eq!(one.propose(change), Err(expected));
        assert_eq!(one, before);
    }
    let _step = one.propose(remove(&[3], 1)).expect("a change");
    talk(&mut [&mut one, &mut two]);
    let _step = one.propose(add(4)).expect("a change");
    let mut four = Council::newcomer(site(4));
    talk(&mut [&mut one, &mut two, &mut four]);
    assert_eq!(four.propose(add(5)), Err(BadChange::StillJoining { site: site(4) }));
    assert_eq!(one.propose(remove(&[2], 4)), Err(BadChange::CannotInherit { heir: site(4) }));

    let most = u16::try_from(SITES_MAX).expect("few");
    let seats = |count: u16| (1..=count).map(|number| (site(number), Seat::member("", ""))).collect();
    assert!(Config::first(seats(most)).is_ok());
    assert_eq!(Config::first(seats(most + 1)), Err(BadChange::TooMany));
    assert_eq!(Config::first(BTreeMap::new()), Err(BadChange::NoList { epoch: 1 }));
    assert_eq!(Council::first(site(9), seats(3)), Err(BadChange::NotListed { site: site(9) }));
}

/// States of all kinds, as bytes.
fn samples() -> Vec<Vec<u8>> {
    let [mut one, mut two, three, mut four] = of([1, 2, 3, 4]);
    let _step = four.propose(remove(&[3], 4)).expect("a change");
    let _agreed = tell(&four, &mut two).expect("heard");
    let _step = two.propose(remove(&[3, 4], 2)).expect("a change");
    let open = two.clone();
    talk(&mut [&mut one, &mut two]);
    let _step = one.propose(restore(site(2), id(2, 1))).expect("a change");
    let councils = [Council::newcomer(site(1)), three, four, open, two, one];
    councils.iter().flat_map(|council| [council.encode(), council.notice().encode()]).collect()
}

#[test]
fn no_bytes_do_harm() {
    let samples = samples();
    for bytes in &samples {
        assert!(fuzzing::council(bytes) > 0);
        for length in 0..bytes.len() {
            assert_eq!(fuzzing::council(&bytes[..length]), 0, "cut off");
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert_eq!(fuzzing::council(&longer), 0, "bytes follow");
        let other = [&[9], &bytes[1..]].concat();
        assert_eq!(fuzzing::council(&other), 0, "another format");
    }
    let mut random = Random::new(6);
    let mut read = 0;
    for _ in 0..50_000 {
        let mut bytes = random.pick(&samples).clone();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len());
            bytes[at] = u8::try_from(random.below(256)).expect("a byte");
        }
        read += fuzzing::council(&bytes);
    }
    assert!(read > 100, "some can still be read: {read}");
}

/// What the first version has stored can be read.
#[test]
fn the_bytes_stay_the_same() {
    let [mut one, _] = of([1, 2]);
    let _step = one.propose(add(3)).expect("a change");
    let hex: String = one.encode().iter().map(|byte| format!("{byte:02x}")).collect();
    let first = "0183820100838301a2820100836273316a686f7374313a3733383101820200836273326a686f7374323a3733383101a0018183\
                 820100018200838203006273336a686f7374333a3733383180";
    assert_eq!(hex, first);
}

#[test]
fn a_site_leaves_in_order_or_stays() {
    let [mut one, mut two, mut three] = of([1, 2, 3]);
    let not_drained = Err(BadChange::NotDrained { site: site(3) });
    assert_eq!(one.propose(remove_drained(&[3], 1)), not_drained, "it has not said so");
    assert_eq!(one.propose(Change::Leave { site: site(3) }), Err(BadChange::OnlyItself { site: site(3) }));
    assert_eq!(three.stay(), Ok(Step::default()), "it does");
    let _proposed = three.leave().expect("a change");
    assert!(three.is_about_to_leave());
    assert_eq!(one.propose(remove_drained(&[3], 1)), not_drained, "it is not in force");
    // It takes that back before it is in force, and after.
    let _withdrawn = three.stay().expect("withdrawn");
    assert!(!three.is_about_to_leave() && three.waiting().is_none());
    let _proposed = three.leave().expect("a change");
    talk(&mut [&mut one, &mut two, &mut three]);
    assert_eq!(one.config().standing(site(3)), Some(Standing::Leaving));
    assert_eq!(three.leave(), Ok(Step::default()), "it does");
    let _proposed = three.stay().expect("a change");
    assert_eq!(three.standing(), Some(Standing::Leaving), "the others have not agreed");
    talk(&mut [&mut one, &mut two, &mut three]);
    assert_eq!(three.standing(), Some(Standing::Member));
    assert_eq!(one.propose(remove_drained(&[3], 1)), not_drained, "it stays");
    // It leaves, and nobody who leaves is an heir.
    let _proposed = three.leave().expect("a change");
    talk(&mut [&mut one, &mut two, &mut three]);
    let heir = |heir| Change::Remove { sites: sites(&[2]), heir: site(heir), drained: false };
    assert!(one.config().after(site(1), &heir(3)).is_ok(), "if all else is lost");
    let _proposed = two.leave().expect("a change");
    talk(&mut [&mut one, &mut two, &mut three]);
    assert_eq!(one.leave(), Err(BadChange::NobodyStays { site: site(1) }));
    assert_eq!(one.propose(remove_drained(&[2], 3)), Err(BadChange::CannotInherit { heir: site(3) }));
    let _proposed = one.propose(remove_drained(&[2, 3], 1)).expect("both leave");
    assert_eq!(one.config().sites.keys().copied().collect::<Vec<_>>(), [site(1)]);
}
