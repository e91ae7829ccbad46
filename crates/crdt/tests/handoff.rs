//! Handoff counters, example by example.

use proptest::prelude::*;
use quipu_crdt::codec::{self, DecodeError};
use quipu_crdt::handoff::{
    AddError, Adoption, Estate, Handoff, Handshake, MergeError, Notice, NoticeDone, RetireError, View,
};
use quipu_crdt::testing::Random;
use quipu_crdt::{Overflow, Pn, Twin};
use std::collections::BTreeMap;

type Counter = Handoff<u32, u64>;

const TWIN: MergeError = MergeError::Twin(Twin);
const ROUND_TRIPS_MAX: usize = 10;

/// One message each way.
fn round_trip(higher: &mut Counter, lower: &mut Counter) {
    let view = higher.view_for(lower.id(), lower.tier());
    lower.merge(&view).expect("no twin");
    higher.merge(&lower.reply_to(&view)).expect("no twin");
}

/// Round trips until all is handed over, which must not take many.
fn hand_over(higher: &mut Counter, lower: &mut Counter) {
    for _ in 0..ROUND_TRIPS_MAX {
        if !higher.must_hand_off() {
            return;
        }
        round_trip(higher, lower);
    }
    panic!("not handed over after {ROUND_TRIPS_MAX} round trips");
}

fn counted(id: u32, tier: u8, amount: u64) -> Counter {
    let mut counter = Counter::new(id, tier);
    counter.add(&amount).expect("a small number");
    counter
}

/// The run of the paper's Figure 3: node i hands 9 to node j, after earlier handoffs between them.
#[test]
fn the_four_steps_of_a_handoff() {
    let (mut i, mut j) = (counted(1, 1, 3), Counter::new(0, 0));
    hand_over(&mut i, &mut j);
    let (source_clock, target_clock) = (i.handshake().source_clock(), j.handshake().desk().target_clock());
    assert!(source_clock > 0 && target_clock > 0, "it is the continuation of a longer run");
    i.add(&9).expect("a small number");

    j.merge(&i.view_for(&0, 0)).expect("no twin");
    let slot = j.handshake().desk().slots()[&1];
    assert_eq!((slot.source_clock, slot.target_clock), (source_clock, target_clock));
    assert_eq!(j.handshake().desk().target_clock(), target_clock + 1);
    assert_eq!((*i.own(), *j.own()), (9, 3));

    i.merge(&j.view_for(&1, 1)).expect("no twin");
    let token = &i.handshake().tokens()[0];
    assert_eq!((token.slot, token.value), (slot, 9));
    assert_eq!(i.handshake().source_clock(), source_clock + 1);
    assert_eq!((*i.own(), *j.own()), (0, 3));

    j.merge(&i.view_for(&0, 0)).expect("no twin");
    assert!(j.handshake().desk().slots().is_empty());
    assert_eq!((*i.own(), *j.own()), (0, 12));
    assert!(i.must_hand_off(), "it does not know yet");

    i.merge(&j.view_for(&1, 1)).expect("no twin");
    assert!(i.is_idle() && j.is_idle() && !i.must_hand_off());
    assert_eq!((*i.fetch(), *j.fetch()), (12, 12));
    assert_eq!((*i.below(), *j.below()), (12, 0), "all of it is below the one and nothing below the other");
}

#[test]
fn merging_an_old_view_of_oneself_does_nothing() {
    let (mut edge, mut site) = (counted(1, 1, 5), Counter::new(0, 0));
    let old = edge.view_for(&0, 0);
    round_trip(&mut edge, &mut site);
    let before = edge.clone();
    assert_eq!(edge.merge(&old), Ok(()));
    assert_eq!(edge, before);
}

#[test]
fn a_second_replica_with_the_same_name_is_noticed_where_it_can_be() {
    // A restored copy of the edge, from before its handoff.
    let (mut edge, mut site) = (counted(1, 1, 5), Counter::new(0, 0));
    let mut copy = edge.clone();
    round_trip(&mut edge, &mut site);
    assert!(site.handshake().desk().slots().contains_key(&1));
    let newer = edge.view_for(&0, 0);
    let before = copy.clone();
    assert_eq!(copy.merge(&newer), Err(TWIN), "the view of the other one knows more handoffs");
    round_trip(&mut edge, &mut site);
    edge.add(&1).expect("a small number");
    site.merge(&edge.view_for(&0, 0)).expect("no twin");
    assert_eq!(copy.merge(&site.view_for(&1, 1)), Err(TWIN), "the slot is for a later clock than ours");
    assert_eq!(copy, before, "nothing changed");

    // A restored copy of a site: its peer knows more of it, and an edge has a token for a slot unknown to it.
    let (mut lima, mut cusco) = (Counter::new(2, 0), Counter::new(3, 0));
    let mut copy = lima.clone();
    lima.add(&7).expect("a small number");
    cusco.merge(&lima.view_for(&3, 0)).expect("no twin");
    assert_eq!(copy.merge(&cusco.view_for(&2, 0)), Err(TWIN));
    let mut edge = counted(4, 1, 1);
    let old = lima.view_for(&2, 0);
    round_trip(&mut edge, &mut lima);
    assert_eq!(lima.merge(&old), Ok(()), "an old view of itself, from before it opened the slot");
    assert_eq!(copy.merge(&edge.view_for(&2, 0)), Err(TWIN));
    assert_eq!(*copy.fetch(), 0);
}

/// A relay has made no token yet: only the slots that it opened tell the two apart.
#[test]
fn a_second_relay_is_noticed_by_the_slots_that_the_first_has_opened() {
    let mut relay = Counter::new(1, 1);
    let mut copy = relay.clone();
    relay.merge(&counted(2, 2, 5).view_for(&1, 1)).expect("no twin");
    assert_eq!(copy.merge(&relay.view_for(&1, 1)), Err(TWIN));
}

#[test]
fn zero_is_allowed_and_does_nothing() {
    let mut counter = Counter::new(1, 1);
    let before = counter.clone();
    counter.add(&0).expect("zero is allowed");
    assert_eq!(counter, before);
    assert!(!counter.must_hand_off());
}

#[test]
fn an_overflow_is_an_error_where_it_is_added() {
    let mut counter = counted(1, 1, u64::MAX);
    let before = counter.clone();
    assert_eq!(counter.add(&1), Err(AddError::Overflow(Overflow)));
    assert_eq!(counter, before);
}

/// A site cannot hold both values in one number: the second stays with its edge, and nothing is lost.
#[test]
fn a_token_that_does_not_fit_is_not_taken_and_not_lost() {
    let (mut full, mut more, mut site) = (counted(1, 1, u64::MAX), counted(2, 1, 10), Counter::new(0, 0));
    for _ in 0..4 {
        round_trip(&mut full, &mut site);
        round_trip(&mut more, &mut site);
    }
    assert!(!full.must_hand_off());
    assert!(more.must_hand_off());
    assert_eq!(more.handshake().tokens()[0].value, 10);
    assert!(site.handshake().desk().slots().contains_key(&2), "its slot stays open");
    assert_eq!(*site.fetch(), u64::MAX);

    // Another site cannot take it: the token is for this slot.
    let mut other = Counter::new(3, 0);
    round_trip(&mut more, &mut other);
    assert_eq!((*other.own(), *other.fetch()), (0, 0));
}

#[test]
fn a_report_saturates_and_never_wraps() {
    let (mut lima, mut cusco) = (counted(0, 0, u64::MAX), counted(1, 0, 5));
    lima.merge(&cusco.view_for(&0, 0)).expect("no twin");
    cusco.merge(&lima.view_for(&1, 0)).expect("no twin");
    assert_eq!((*lima.fetch(), *cusco.fetch()), (u64::MAX, u64::MAX));
    assert_eq!((*lima.own(), *cusco.own()), (u64::MAX, 5), "what is counted is exact");
    assert_eq!(lima.others().collect::<Vec<_>>(), [(&1, &5)]);
}

/// A client whose server is away leaves its token with another server and goes; the token finds its slot.
#[test]
fn a_token_outlives_its_client() {
    let (mut away, mut near) = (Counter::new(1, 1), Counter::new(2, 1));
    let mut client = counted(3, 2, 5);
    round_trip(&mut client, &mut away); // A slot there, a token here.
    round_trip(&mut client, &mut near); // The other one caches it and says so.
    assert!(!client.may_leave_early(|_, _| false), "the holder has no way to deliver it");
    assert!(client.may_leave_early(|&holder, &target| (holder, target) == (2, 1)));
    round_trip(&mut client, &mut Counter::new(4, 1)); // So does a third, from which no way leads there.
    assert!(client.may_leave_early(|&holder, &target| (holder, target) == (2, 1)));
    drop(client);
    assert_eq!(near.retire([]), Err(RetireError::ServesOthers), "it keeps the token");

    let offer = near.view_for(&1, 1);
    away.merge(&offer).expect("no twin");
    assert_eq!(*away.own(), 5);
    near.merge(&away.reply_to(&offer)).expect("no twin");
    assert!(near.is_idle() && away.is_idle(), "nothing is left of the client");
    assert_eq!(near.handshake(), Counter::new(2, 1).handshake(), "not even an empty place to keep it");
}

/// The stale slot that the paper's section 7.4 describes, and its complementary clean-up.
#[test]
fn a_notice_clears_the_slots_that_a_client_left_behind() {
    let (mut first, mut second, mut client) = (Counter::new(1, 1), Counter::new(2, 1), counted(3, 2, 5));
    first.merge(&client.view_for(&1, 1)).expect("no twin"); // A slot whose answer never arrives.
    hand_over(&mut client, &mut second);
    assert!(first.handshake().desk().slots().contains_key(&3));

    let notice = client.retire([1, 2]).expect("it has handed over").clone();
    assert_eq!((*notice.client(), notice.servers(), notice.tokens()), (3, &[1, 2][..], &[][..]));
    assert_eq!(client.add(&1), Err(AddError::Leaving));
    assert_eq!(client.retire([]), Ok(&notice), "the notice does not change any more");
    assert!(second.keep_notice(&notice));
    let (kept, pending) = second.handshake().notices().next().expect("one server is missing");
    assert_eq!((kept, pending.iter().copied().collect::<Vec<_>>()), (&notice, vec![1]));
    for done in first.act_on_notice(&notice) {
        second.notice_done(&done);
    }
    assert!(first.is_idle() && second.is_idle());
    assert!(second.handshake().notices().next().is_none());
    assert_eq!(*second.own(), 5);
}

/// Of a folded slot only its target clock is left. A client that has a token for it names that clock in its notice; one that
/// never heard of its slot cannot, and the bit stays.
#[test]
fn a_notice_closes_the_folded_slots_that_its_client_has_tokens_for() {
    let (mut site, mut client) = (Counter::new(0, 0), counted(1, 1, 5));
    round_trip(&mut client, &mut site);
    assert!(site.fold(&1));
    let notice = client.retire([0]).expect("its token has all").clone();
    assert!(site.keep_notice(&notice));
    assert_eq!((*site.own(), site.handshake().desk().folded_len()), (5, 0));

    let (mut site, mut other, mut client) = (Counter::new(0, 0), Counter::new(2, 0), counted(1, 1, 5));
    site.merge(&client.view_for(&0, 0)).expect("no twin"); // The answer is lost.
    hand_over(&mut client, &mut other);
    assert!(site.fold(&1));
    let notice = client.retire([0, 2]).expect("it has handed over").clone();
    assert!(site.keep_notice(&notice));
    assert_eq!((*site.own(), site.handshake().desk().folded_len()), (0, 1));
    assert_eq!(*other.own(), 5);
}

#[test]
fn a_client_with_counts_cannot_write_its_notice() {
    let mut client = counted(3, 2, 5);
    let before = client.clone();
    assert_eq!(client.retire([1]), Err(RetireError::NotHandedOver));
    assert_eq!(client, before);
}

#[test]
fn an_edge_that_comes_back_years_later_still_hands_over_once() {
    let (mut site, mut edge) = (Counter::new(0, 0), counted(1, 1, 5));
    round_trip(&mut edge, &mut site); // Slot and token; then silence.
    assert!(!site.is_idle(), "a slot is open");
    assert!(site.fold(&1));
    assert!(!site.is_idle(), "a folded slot is open too");
    assert!((2..100).contains(&site.handshake().desk().folded_bytes()));
    assert!(!site.fold(&1), "there is no slot any more");
    assert!(site.handshake().desk().slots().is_empty());
    assert_eq!(site.handshake().desk().folded_len(), 1);

    let late = edge.view_for(&0, 0);
    site.merge(&site.view_for(&1, 1)).expect("no twin");
    edge.merge(&site.view_for(&1, 1)).expect("no twin");
    assert!(edge.must_hand_off(), "a missing slot below the floor says nothing");
    for _ in 0..3 {
        site.merge(&late).expect("no twin");
    }
    assert_eq!(*site.fetch(), 5);
    edge.merge(&site.reply_to(&late)).expect("no twin");
    assert!(!edge.must_hand_off() && site.is_idle());
}

#[test]
fn a_relay_leaves_its_estate_to_one_heir() {
    let (mut relay, mut heir, mut client) = (counted(1, 1, 2), Counter::new(0, 0), counted(3, 2, 5));
    round_trip(&mut client, &mut relay); // A slot at the relay, a token at the client.
    assert_eq!(relay.bequeath(&0), Err(RetireError::NotStopped));
    relay.stop().expect("relays may stop");
    assert_eq!(relay.bequeath(&1), Err(RetireError::OwnHeir));
    let estate = relay.bequeath(&0).expect("it has stopped");
    assert_eq!(relay.bequeath(&9), Err(RetireError::HeirNamed));
    assert_eq!((relay.handshake().named_heir(), relay.handshake().heir()), (Some(&0), None));
    let adoption = heir.adopt(&estate).expect("it is named");
    assert_eq!(adoption.adopted_by, Some(0));
    assert_eq!(heir.adopt(&estate), Some(adoption.clone()), "a repeated handover is the same handover");
    assert!(relay.adopted(&adoption));
    assert_eq!((relay.handshake().named_heir(), relay.handshake().heir()), (None, Some(&0)));
    assert!(!relay.may_leave(), "it has counts of its own");
    hand_over(&mut relay, &mut heir);
    assert!(relay.may_leave());

    hand_over(&mut client, &mut heir);
    assert_eq!(*heir.fetch(), 7);
    assert!(heir.is_idle());
    assert_eq!(Counter::new(0, 0).stop(), Err(RetireError::Permanent));
}

#[test]
fn an_heir_that_is_leaving_refuses_and_another_is_named() {
    let (mut relay, mut leaving, mut heir) = (Counter::new(1, 1), Counter::new(2, 1), Counter::new(0, 0));
    relay.stop().expect("relays may stop");
    leaving.stop().expect("relays may stop");
    let estate = relay.bequeath(&2).expect("it has stopped");
    assert_eq!(heir.adopt(&estate), None, "it is not for this one");
    let refusal = leaving.adopt(&estate).expect("it is named");
    assert_eq!(refusal.adopted_by, None);
    assert!(!relay.adopted(&refusal));
    let estate = relay.bequeath(&0).expect("the first has refused");
    assert!(relay.adopted(&heir.adopt(&estate).expect("it is named")));
    assert!(relay.may_leave());
}

#[test]
fn a_map_of_counters_and_a_counter_that_goes_down_are_handed_over_alike() {
    let mut site = Handoff::<u32, BTreeMap<&str, u64>>::new(0, 0);
    let mut edge = Handoff::<u32, BTreeMap<&str, u64>>::new(1, 1);
    edge.increment("likes", 3).expect("a small number");
    edge.increment("views", 5).expect("a small number");
    site.increment("views", 1).expect("a small number");
    for _ in 0..2 {
        site.merge(&edge.view_for(&0, 0)).expect("no twin");
        edge.merge(&site.view_for(&1, 1)).expect("no twin");
    }
    assert_eq!((site.fetch_key(&"likes"), site.fetch_key(&"views")), (3, 6));
    assert_eq!(edge.fetch_key(&"views"), 6);
    assert!(site.is_idle() && !edge.must_hand_off());

    let mut site = Handoff::<u32, Pn>::new(0, 0);
    let mut edge = Handoff::<u32, Pn>::new(1, 1);
    edge.increase(5).expect("a small number");
    edge.decrease(8).expect("a small number");
    for _ in 0..2 {
        site.merge(&edge.view_for(&0, 0)).expect("no twin");
        edge.merge(&site.view_for(&1, 1)).expect("no twin");
    }
    assert_eq!((site.value(), edge.value()), (-3, -3));
}

/// A client that has handed everything over is as it was made but for its clock and what it reports: nothing
/// is left on the heap, and the rest is its own size.
#[test]
fn an_idle_client_is_small() {
    let (mut client, mut site) = (counted(1, 1, 5), Counter::new(0, 0));
    hand_over(&mut client, &mut site);
    let handshake = client.handshake();
    assert!(handshake.tokens().is_empty() && handshake.cached().next().is_none());
    assert!(handshake.desk().is_idle() && handshake.notices().next().is_none());
    let bytes = size_of::<Counter>();
    println!("an idle client replica takes {bytes} bytes");
    assert!(bytes <= 200, "{bytes} bytes");
}

/// What a token that the ledger refuses must not lead to, after its slot was folded: a second slot, and with
/// it a second token in place of the first.
#[test]
fn a_refused_token_of_a_folded_slot_is_not_replaced() {
    let (mut site, mut edge) = (Counter::new(0, 0), counted(1, 1, 10));
    round_trip(&mut edge, &mut site);
    assert!(site.fold(&1));
    site.add(&u64::MAX).expect("it fits by itself");
    edge.add(&1).expect("a small number");
    for _ in 0..3 {
        round_trip(&mut edge, &mut site);
    }
    assert_eq!(edge.handshake().tokens()[0].value, 10);
    assert_eq!((*edge.own(), *site.own()), (1, u64::MAX), "nothing is lost");
    assert!(site.handshake().desk().slots().is_empty(), "no second slot");
}

#[test]
fn a_relay_with_clients_cannot_leave_as_a_client_does() {
    let (mut relay, mut client) = (Counter::new(1, 1), counted(2, 2, 5));
    round_trip(&mut client, &mut relay);
    assert!(!relay.may_leave_early(|_, _| true));
    assert_eq!(relay.retire([0]), Err(RetireError::ServesOthers));
    assert_eq!(Counter::new(0, 0).retire([]), Err(RetireError::Permanent));
    relay.stop().expect("that is its way out");
}

#[test]
fn a_view_for_somebody_else_is_refused() {
    let (mut site, mut edge, other) = (Counter::new(0, 0), counted(1, 1, 5), Counter::new(2, 1));
    round_trip(&mut edge, &mut site);
    let before = edge.clone();
    let misdirected = site.view_for(other.id(), 1);
    assert_eq!(edge.merge(&misdirected), Err(MergeError::NotForUs));
    assert_eq!(edge, before);
}

/// What a leaf says of others is left out: it cannot close their tokens, nor open slots at a lower tier.
#[test]
fn a_leaf_speaks_only_for_itself() {
    let (mut relay, mut site, mut forger) = (counted(1, 1, 100), Counter::new(0, 0), Counter::new(9, 1));
    round_trip(&mut relay, &mut site);
    forger.merge(&relay.view_for(&9, 1)).expect("no twin");
    let mut edge = counted(3, 2, 1);
    round_trip(&mut edge, &mut relay);
    let mut view = edge.view_for(&1, 1);
    assert_eq!((*view.id(), *view.to(), view.tier(), view.tokens().len()), (3, 1, 2, 1));
    view.restrict_to_a_leaf();
    assert_eq!(view, edge.view_for(&1, 1), "an honest leaf says nothing else");
    let mut reply = site.reply_to(&relay.view_for(&0, 0));
    assert!(reply.has_slot_for(&1));
    reply.restrict_to_a_leaf();
    assert!(!reply.has_slot_for(&1) && reply.tokens().is_empty());
}

/// A token that nobody has a slot for, from a careless or hostile edge, stops neither its relay nor the site.
#[test]
fn a_cached_token_from_the_future_stops_nobody() {
    let (mut relay, mut site) = (counted(1, 1, 7), Counter::new(0, 0));
    // The edge got its token from another site of that name.
    let (mut elsewhere, mut edge) = (Counter::new(0, 0), counted(3, 2, 1));
    for _ in 0..5 {
        round_trip(&mut counted(8, 1, 1), &mut elsewhere);
    }
    round_trip(&mut edge, &mut elsewhere);
    relay.merge(&edge.view_for(&1, 1)).expect("no twin");
    assert_eq!(relay.handshake().cached().count(), 1);
    for _ in 0..3 {
        round_trip(&mut relay, &mut site);
    }
    assert_eq!((*relay.own(), *site.own()), (0, 7), "the relay hands over as before");
    assert_eq!(relay.handshake().cached().count(), 1, "neither counted nor dropped");
}

#[test]
fn an_heir_of_a_higher_tier_refuses_and_old_slots_are_folded_at_heirs_too() {
    let (mut relay, mut client, mut heir) = (Counter::new(1, 1), counted(2, 2, 5), Counter::new(0, 0));
    round_trip(&mut client, &mut relay);
    relay.stop().expect("a relay may stop");
    let estate = relay.bequeath(&7).expect("it has stopped");
    let refusal = Counter::new(7, 2).adopt(&estate).expect("it is named");
    assert_eq!(refusal.adopted_by, None);
    relay.adopted(&refusal);
    let estate = relay.bequeath(&0).expect("the other has refused");
    assert!(relay.adopted(&heir.adopt(&estate).expect("it is named")));
    assert!(heir.fold(&2));
    assert!(heir.handshake().inherited().all(|(_, desk)| desk.slots().is_empty() && desk.folded_len() == 1));
    hand_over(&mut client, &mut heir);
    assert_eq!(*heir.own(), 5);
    assert!(heir.is_idle());
}

/// Own tokens go to lower tiers only: nobody else can take or cache them.
#[test]
fn a_view_for_a_replica_of_the_same_tier_carries_no_tokens_of_the_sender() {
    let (mut relay, mut site) = (counted(1, 1, 5), Counter::new(0, 0));
    assert_eq!((relay.handshake().tier(), site.handshake().tier()), (1, 0));
    assert!(relay.view_for(&0, 0).wants_slot());
    round_trip(&mut relay, &mut site);
    assert!(!relay.view_for(&0, 0).wants_slot(), "its token has everything");
    assert_eq!(relay.view_for(&0, 0).tokens(), relay.handshake().tokens());
    assert_eq!(relay.view_for(&2, 1).tokens(), []);
}

/// Slots are for those who may fill them, and cached tokens for their targets and sources.
#[test]
fn a_view_carries_nothing_that_its_addressee_has_no_use_for() {
    let (mut away, mut near, mut client) = (Counter::new(1, 1), Counter::new(2, 1), counted(3, 2, 5));
    round_trip(&mut client, &mut away);
    assert!(away.view_for(&3, 2).has_slot_for(&3));
    assert!(!away.view_for(&2, 1).has_slot_for(&3), "for a server of the same tier");
    round_trip(&mut client, &mut near);
    assert_eq!(near.view_for(&1, 1).tokens().len(), 1, "for the target");
    assert_eq!(near.view_for(&3, 2).tokens().len(), 1, "for the source");
    assert_eq!(near.view_for(&4, 2).tokens(), [], "for another client");
}

#[test]
fn slots_are_open_from_when_they_are_opened_until_they_are_filled() {
    let (mut site, mut edge) = (Counter::new(0, 0), counted(1, 1, 5));
    assert!(!site.handshake().desk().is_open(&1, 0), "not opened yet");
    round_trip(&mut edge, &mut site);
    assert!(site.handshake().desk().is_open(&1, 0));
    round_trip(&mut edge, &mut site);
    assert!(!site.handshake().desk().is_open(&1, 0), "filled");
}

/// An old view that comes late opens a slot that nobody will fill. It goes with the next view, although that
/// one carries a token for the same site.
#[test]
fn a_slot_opened_by_a_late_view_is_dropped() {
    let (mut site, mut edge) = (Counter::new(0, 0), counted(1, 1, 5));
    let old = edge.view_for(&0, 0);
    round_trip(&mut edge, &mut site);
    let with_token = edge.view_for(&0, 0);
    for late in [&with_token, &old] {
        site.merge(late).expect("no twin");
    }
    assert_eq!(site.handshake().desk().slots()[&1].target_clock, 1, "a second slot");
    site.merge(&with_token).expect("no twin");
    assert!(site.is_idle());
    assert_eq!(*site.own(), 5);
}

/// What is known of where a token was cached goes with the token.
#[test]
fn who_held_a_token_is_forgotten_when_it_has_been_taken() {
    let (mut site, mut near, mut client) = (Counter::new(0, 0), Counter::new(1, 1), counted(3, 2, 5));
    round_trip(&mut client, &mut site);
    let mut direct = client.clone();
    round_trip(&mut client, &mut near);
    assert!(client.may_leave_early(|&holder, &target| (holder, target) == (1, 0)));
    round_trip(&mut direct, &mut site.clone());
    round_trip(&mut client, &mut site);
    assert_eq!(client.handshake(), direct.handshake());
}

/// What a server said of an older token does not make us forget who holds the present one.
#[test]
fn late_news_of_an_older_token_is_no_news_of_the_present_one() {
    let (mut site, mut first, mut second) = (Counter::new(0, 0), Counter::new(1, 1), Counter::new(2, 1));
    let mut client = counted(3, 2, 5);
    round_trip(&mut client, &mut site);
    round_trip(&mut client, &mut first);
    let late = first.view_for(&3, 2);
    assert_eq!(late.tokens().len(), 1, "it holds the older token");
    hand_over(&mut client, &mut site);
    client.add(&1).expect("a small number");
    round_trip(&mut client, &mut site);
    round_trip(&mut client, &mut second);
    let held_by_second = |&holder: &u32, &target: &u32| (holder, target) == (2, 0);
    assert!(client.may_leave_early(held_by_second));
    client.merge(&late).expect("no twin");
    assert!(client.may_leave_early(held_by_second));
    assert!(!client.may_leave_early(|&holder, _| holder == 1), "the first has not got it");
}

/// The heir may itself be one of the servers that a notice is for.
#[test]
fn an_heir_acts_on_the_notices_that_it_inherits() {
    let (mut relay, mut heir, mut client) = (Counter::new(1, 1), Counter::new(2, 1), counted(3, 2, 5));
    heir.merge(&client.view_for(&2, 1)).expect("no twin"); // A slot whose answer never arrives.
    hand_over(&mut client, &mut relay);
    let notice = client.retire([1, 2]).expect("it has handed over").clone();
    assert!(relay.keep_notice(&notice));
    relay.stop().expect("a relay may stop");
    let estate = relay.bequeath(&2).expect("it has stopped");
    let adoption = heir.adopt(&estate).expect("it is named");
    assert_eq!(adoption.adopted_by, Some(2), "an heir of the same tier will do");
    assert!(heir.is_idle(), "the stale slot is gone");
    assert_eq!(heir.handshake().notices().count(), 0, "and so is the notice");
}

/// A relay whose estate has been adopted no longer knows what it had adopted: it does not refuse, because
/// then the same estate would go to two heirs.
#[test]
fn a_relay_that_has_bequeathed_does_not_answer_for_what_it_had_adopted() {
    let (mut first, mut second, mut heir) = (Counter::new(1, 1), Counter::new(2, 1), Counter::new(0, 0));
    first.stop().expect("a relay may stop");
    let estate = first.bequeath(&2).expect("it has stopped");
    second.adopt(&estate).expect("it is named"); // The answer is lost.
    second.stop().expect("a relay may stop");
    let both = second.bequeath(&0).expect("it has stopped");
    assert!(second.adopted(&heir.adopt(&both).expect("it is named")));
    assert_eq!(second.adopt(&estate), None);
    let answer = heir.adopt(&estate).expect("it stands for the second");
    assert_eq!(answer.adopted_by, Some(0));
    assert!(first.adopted(&answer));
}

#[test]
fn folding_says_whether_there_was_a_slot_at_any_desk() {
    let (mut relay, mut heir, mut client) = (Counter::new(1, 1), Counter::new(0, 0), counted(2, 2, 5));
    for server in [&mut relay, &mut heir] {
        server.merge(&client.view_for(server.id(), server.tier())).expect("no twin");
    }
    relay.stop().expect("a relay may stop");
    let estate = relay.bequeath(&0).expect("it has stopped");
    heir.adopt(&estate).expect("it is named");
    assert!(heir.fold(&2), "at its own desk and at the inherited one");
    assert!(!heir.fold(&2), "at none");
    hand_over(&mut client, &mut heir);
    assert_eq!(*heir.own(), 5);
}

/// States and messages of all kinds, as they come up in a random run.
fn samples(seed: u64) -> (Vec<Counter>, Vec<Vec<u8>>) {
    let mut random = Random::new(seed);
    let mut nodes: Vec<Counter> =
        [0, 0, 1, 1, 2, 2, 2].iter().zip(0..).map(|(&tier, id)| Counter::new(id, tier)).collect();
    let mut messages = Vec::new();
    for _ in 0..random.below(150) {
        let (from, to) = (random.below(nodes.len()), random.below(nodes.len()));
        if random.chance(0.3) {
            let _ = nodes[from].add(&(random.bits() % 1000));
        }
        let view = nodes[from].view_for(&u32::try_from(to).expect("few"), nodes[to].tier());
        nodes[to].merge(&view).expect("no twin");
        let reply = nodes[to].reply_to(&view);
        nodes[from].merge(&reply).expect("no twin");
        messages.push(codec::encode(&reply));
        if let Some(&source) = nodes[to].handshake().desk().slots().keys().next()
            && random.chance(0.1)
        {
            nodes[to].fold(&source);
        }
    }
    if let Ok(notice) = nodes[6].retire([2, 3]).cloned() {
        messages.push(codec::encode(&notice));
        messages.extend(nodes[2].act_on_notice(&notice).iter().map(codec::encode));
        nodes[3].keep_notice(&notice);
    }
    nodes[2].stop().expect("a relay may stop");
    let estate = nodes[2].bequeath(&3).expect("it has stopped");
    let adoption = nodes[3].adopt(&estate).expect("it is named");
    messages.extend([codec::encode(&estate), codec::encode(&adoption)]);
    (nodes, messages)
}

/// Decodes as whatever it is. True if it was one of them.
fn decodes_as_something(bytes: &[u8]) -> bool {
    codec::decode::<Counter>(bytes).is_ok()
        | codec::decode::<View<u32, u64>>(bytes).is_ok()
        | codec::decode::<Notice<u32, u64>>(bytes).is_ok()
        | codec::decode::<NoticeDone<u32>>(bytes).is_ok()
        | codec::decode::<Estate<u32, u64>>(bytes).is_ok()
        | codec::decode::<Adoption<u32>>(bytes).is_ok()
        | codec::decode::<Handshake<u32, u64>>(bytes).is_ok()
}

proptest! {
    #[test]
    fn states_and_messages_survive_the_codec(seed in any::<u64>()) {
        let (nodes, messages) = samples(seed);
        for node in nodes {
            let decoded: Counter = codec::decode(&codec::encode(&node)).expect("our own bytes");
            prop_assert_eq!(decoded, node);
        }
        for bytes in messages {
            prop_assert!(decodes_as_something(&bytes));
        }
    }

    /// No byte that is changed, cut off or added makes the decoder panic, and a state that decodes can go on.
    #[test]
    fn hostile_bytes_are_an_error_or_a_state(seed in any::<u64>()) {
        let (nodes, mut messages) = samples(seed);
        messages.extend(nodes.iter().map(codec::encode));
        let mut random = Random::new(seed);
        for bytes in &mut messages {
            let at = random.below(bytes.len());
            decodes_as_something(&bytes[..at]);
            bytes[at] = bytes[at].wrapping_add(1 + u8::try_from(random.below(255)).expect("a byte"));
            decodes_as_something(bytes);
            if let Ok(mut state) = codec::decode::<Counter>(bytes) {
                let _ = state.merge(&counted(99, 2, 1).view_for(state.id(), state.tier()));
                let _ = state.add(&1);
            }
        }
    }
}

#[test]
fn bytes_that_break_the_rules_of_a_state_are_refused() {
    let mut edge = counted(1, 1, 5);
    let bytes = codec::encode(&edge);
    assert!(matches!(codec::decode::<Counter>(&[]), Err(DecodeError::Empty)));
    assert!(matches!(codec::decode::<Counter>(&[7, 1]), Err(DecodeError::UnknownFormat { found: 7 })));
    assert!(matches!(
        codec::decode::<Counter>(&[&bytes[..], &[0]].concat()),
        Err(DecodeError::Trailing { bytes: 1 })
    ));
    assert!(matches!(codec::decode::<Counter>(&bytes[..bytes.len() - 1]), Err(DecodeError::Invalid(_))));

    // A token that claims to be of somebody else.
    let mut site = Counter::new(0, 0);
    round_trip(&mut edge, &mut site);
    let mut bytes = codec::encode(&edge);
    let id_at = bytes.iter().position(|&byte| byte == 1).expect("the format") + 3;
    bytes[id_at] = 9;
    assert!(matches!(codec::decode::<Counter>(&bytes), Err(DecodeError::Invalid(_))));
}
