//! `Escrow`: what is sold never exceeds what there is, and in the end all of it can be sold.

use crate::harness::{IDS, NODES, found_out, isolate, network};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use quipu_crdt::algebra::Twin;
use quipu_crdt::classic::{OutOfQuota, Pass, Refused, Slots, Spend, Transfer, TransferRefused, UnknownPeer};
use quipu_crdt::testing::Partition;
use quipu_crdt::{Escrow, Overflow, Pn, PnCounter, codec};
use std::collections::BTreeMap;
use std::fmt::Debug;

const LIMIT: u64 = 100;

/// A replica of a limited stock, right or wrong, as the property drives it.
trait Stock: Sized {
    type Message: Clone + Debug;

    /// The replicas that share [`LIMIT`].
    fn split() -> Vec<Self>;
    /// Sells this much, or refuses.
    fn spend(&mut self, amount: u64) -> bool;
    fn pass(&mut self, to: u8, amount: u64) -> Option<Self::Message>;
    /// What to send again.
    fn message_for(&self, peer: u8) -> Option<Self::Message>;
    fn receive(&mut self, from: u8, message: &Self::Message);
    /// What holds over all replicas at any instant, if the type can tell.
    fn is_conserved(_: &[Self]) -> bool {
        true
    }
    fn restart(&mut self) {}
}

fn in_flight(replicas: &[Escrow<u8>]) -> u64 {
    let on_its_way =
        |from: &Escrow<u8>, to: &Escrow<u8>| from.passed_to(to.id()) - to.received_from(from.id());
    replicas.iter().flat_map(|from| replicas.iter().map(move |to| on_its_way(from, to))).sum()
}

impl Stock for Escrow<u8> {
    type Message = Transfer<u8>;

    fn split() -> Vec<Self> {
        Escrow::split(LIMIT, &IDS).expect("different names").into()
    }
    fn spend(&mut self, amount: u64) -> bool {
        self.prepare_spend(amount).map(Spend::apply).is_ok()
    }
    fn pass(&mut self, to: u8, amount: u64) -> Option<Self::Message> {
        self.prepare_transfer(&to, amount).ok().map(Pass::apply)
    }
    fn message_for(&self, peer: u8) -> Option<Self::Message> {
        self.transfer_for(&peer).expect("a peer")
    }
    fn receive(&mut self, _: u8, message: &Self::Message) {
        self.receive(message).expect("from a peer");
    }
    fn is_conserved(replicas: &[Self]) -> bool {
        replicas.iter().map(|replica| replica.quota() + replica.sold()).sum::<u64>() + in_flight(replicas)
            == LIMIT
    }
    fn restart(&mut self) {
        *self = codec::decode(&codec::encode(self)).expect("own bytes");
    }
}

/// Spends as long as the total that it knows of allows it, as with a plain counter.
struct SpendsTheKnownTotal(PnCounter<u8>);

impl Stock for SpendsTheKnownTotal {
    type Message = Slots<u8, Pn>;

    fn split() -> Vec<Self> {
        let mut creator = PnCounter::new(IDS[0]);
        creator.inc(LIMIT).expect("a small number");
        let mut replicas: Vec<_> = IDS.into_iter().map(PnCounter::new).collect();
        replicas.iter_mut().for_each(|replica| replica.merge(creator.slots()));
        replicas.into_iter().map(SpendsTheKnownTotal).collect()
    }
    fn spend(&mut self, amount: u64) -> bool {
        i128::from(amount) <= self.0.value() && self.0.dec(amount).is_ok()
    }
    fn pass(&mut self, to: u8, _: u64) -> Option<Self::Message> {
        self.message_for(to)
    }
    fn message_for(&self, _: u8) -> Option<Self::Message> {
        Some(self.0.slots().clone())
    }
    fn receive(&mut self, _: u8, message: &Self::Message) {
        self.0.merge(message);
    }
}

/// An escrow whose transfers are given: so that wrong ones can be tried.
struct WithTransfers<const VARIANT: u8> {
    quota: u64,
    passed: BTreeMap<u8, u64>,
    received: BTreeMap<u8, u64>,
}

const ADDED_ON_EACH_DELIVERY: u8 = 0;
const SENT_ONCE: u8 = 1;
const NEWEST_TO_ARRIVE: u8 = 2;
const NOT_TAKEN_FROM_THE_GIVER: u8 = 3;
const RIGHT: u8 = u8::MAX;

impl<const VARIANT: u8> Stock for WithTransfers<VARIANT> {
    type Message = u64;

    fn split() -> Vec<Self> {
        let escrows = <Escrow<u8> as Stock>::split();
        let quotas = escrows.iter().map(Escrow::quota);
        quotas
            .map(|quota| WithTransfers { quota, passed: BTreeMap::new(), received: BTreeMap::new() })
            .collect()
    }
    fn spend(&mut self, amount: u64) -> bool {
        let allowed = amount <= self.quota;
        self.quota -= if allowed { amount } else { 0 };
        allowed
    }
    fn pass(&mut self, to: u8, amount: u64) -> Option<Self::Message> {
        if amount > self.quota {
            return None;
        }
        self.quota -= if VARIANT == NOT_TAKEN_FROM_THE_GIVER { 0 } else { amount };
        let total = self.passed.entry(to).or_default();
        *total += amount;
        Some(if VARIANT == ADDED_ON_EACH_DELIVERY { amount } else { *total })
    }
    fn message_for(&self, peer: u8) -> Option<Self::Message> {
        if matches!(VARIANT, ADDED_ON_EACH_DELIVERY | SENT_ONCE) {
            return None;
        }
        self.passed.get(&peer).copied()
    }
    fn receive(&mut self, from: u8, &message: &Self::Message) {
        let received = self.received.entry(from).or_default();
        match VARIANT {
            ADDED_ON_EACH_DELIVERY => self.quota += message,
            NEWEST_TO_ARRIVE => {
                self.quota += message.saturating_sub(*received);
                *received = message;
            }
            _ => {
                self.quota += message.saturating_sub(*received);
                *received = message.max(*received);
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Spend { node: usize, amount: u64 },
    Pass { from: usize, to: usize, amount: u64 },
    Send { from: usize, to: usize },
    Deliver { messages: usize },
    Restart { node: usize },
    Isolate { node: usize },
    Heal,
}

type Trace = (u64, Vec<Step>);

fn traces() -> impl Strategy<Value = Trace> {
    let node = || 0..NODES;
    let step = prop_oneof![
        4 => (node(), 0..20u64).prop_map(|(node, amount)| Step::Spend { node, amount }),
        4 => (node(), node(), 0..30u64).prop_map(|(from, to, amount)| Step::Pass { from, to, amount }),
        2 => (node(), node()).prop_map(|(from, to)| Step::Send { from, to }),
        4 => (1..4usize).prop_map(|messages| Step::Deliver { messages }),
        1 => node().prop_map(|node| Step::Restart { node }),
        1 => node().prop_map(|node| Step::Isolate { node }),
        1 => Just(Step::Heal),
    ];
    (any::<u64>(), prop::collection::vec(step, 0..60))
}

/// At any instant no more than the limit is sold; and once everything has arrived, all that is left can be
/// sold, and no more.
fn sells_the_limit<S: Stock>((seed, steps): &Trace) -> Result<(), TestCaseError> {
    let mut replicas = S::split();
    let mut network = network(*seed);
    let mut sold = 0;
    for step in steps {
        match *step {
            Step::Spend { node, amount } => sold += if replicas[node].spend(amount) { amount } else { 0 },
            Step::Pass { from, to, amount } if from != to => {
                let message = replicas[from].pass(IDS[to], amount);
                message.into_iter().for_each(|message| network.send(from, to, message));
            }
            Step::Send { from, to } if from != to => {
                let message = replicas[from].message_for(IDS[to]);
                message.into_iter().for_each(|message| network.send(from, to, message));
            }
            Step::Pass { .. } | Step::Send { .. } => {}
            Step::Deliver { messages } => {
                for (from, to, message) in (0..messages).map_while(|_| network.deliver()) {
                    replicas[to].receive(IDS[from], &message);
                }
            }
            Step::Restart { node } => replicas[node].restart(),
            Step::Isolate { node } => network.split(isolate(node)),
            Step::Heal => network.split(Partition::none()),
        }
        prop_assert!(sold <= LIMIT);
        prop_assert!(S::is_conserved(&replicas));
    }
    network.split(Partition::none());
    while let Some((from, to, message)) = network.deliver() {
        replicas[to].receive(IDS[from], &message);
    }
    for (from, to) in (0..NODES).flat_map(|from| (0..NODES).map(move |to| (from, to))) {
        if let Some(message) = (from != to).then(|| replicas[from].message_for(IDS[to])).flatten() {
            replicas[to].receive(IDS[from], &message);
        }
    }
    for replica in &mut replicas {
        sold += (0..=LIMIT).take_while(|_| replica.spend(1)).count() as u64;
    }
    prop_assert_eq!(sold, LIMIT);
    Ok(())
}

fn config() -> Config {
    Config { cases: 500, failure_persistence: None, max_shrink_iters: 256, ..Config::default() }
}

fn is_caught<S: Stock>() -> bool {
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config(), random);
    found_out(&runner.run(&traces(), |trace| sells_the_limit::<S>(&trace)))
}

#[test]
fn all_of_the_limit_is_sold_and_no_more() {
    let outcome = TestRunner::new(config()).run(&traces(), |trace| sells_the_limit::<Escrow<u8>>(&trace));
    assert_eq!(outcome, Ok(()));
}

#[test]
fn wrong_escrows_are_caught() {
    assert!(is_caught::<SpendsTheKnownTotal>());
    assert!(is_caught::<WithTransfers<ADDED_ON_EACH_DELIVERY>>());
    assert!(is_caught::<WithTransfers<SENT_ONCE>>());
    assert!(is_caught::<WithTransfers<NEWEST_TO_ARRIVE>>());
    assert!(is_caught::<WithTransfers<NOT_TAKEN_FROM_THE_GIVER>>());
    assert!(!is_caught::<WithTransfers<RIGHT>>(), "the right one passes");
}

#[test]
fn a_split_loses_nothing() {
    for limit in [0, 1, 2, 3, 100, u64::MAX] {
        let replicas = Escrow::split(limit, &["A", "B", "C"]).unwrap();
        assert_eq!(replicas.iter().map(|replica| u128::from(replica.quota())).sum::<u128>(), limit.into());
        assert!(replicas[0].quota() - replicas[2].quota() <= 1);
    }
    assert_eq!(Escrow::split(7, &["A", "A"]), Err(Twin));
    let nobody: [Escrow<u8>; 0] = Escrow::split(7, &[]).unwrap();
    assert!(nobody.is_empty());
}

#[test]
fn a_refusal_says_what_is_left_and_changes_nothing() {
    let [mut a, _] = Escrow::split(100, &["A", "B"]).unwrap();
    let before = a.clone();
    assert_eq!(a.prepare_spend(51).err(), Some(OutOfQuota { asked: 51, left: 50 }));
    let refused = a.prepare_transfer(&"B", 51).err();
    assert_eq!(refused, Some(TransferRefused::OutOfQuota(OutOfQuota { asked: 51, left: 50 })));
    assert_eq!(a.prepare_transfer(&"C", 1).err(), Some(TransferRefused::UnknownPeer(UnknownPeer)));
    assert_eq!(a.prepare_transfer(&"A", 1).err(), Some(TransferRefused::UnknownPeer(UnknownPeer)));
    drop(a.prepare_spend(50).unwrap()); // Prepared and not applied.
    assert_eq!(a, before);
    a.prepare_spend(0).unwrap().apply();
    let nothing = a.prepare_transfer(&"B", 0).unwrap().apply();
    assert_eq!((a, nothing.total), (before, 0));
}

#[test]
fn messages_of_strangers_and_for_others_are_refused() {
    let [mut a, mut b, mut c] = Escrow::split(90, &["A", "B", "C"]).unwrap();
    let message = a.prepare_transfer(&"B", 10).unwrap().apply();
    assert_eq!(c.receive(&message), Err(Refused::NotForUs));
    let from_stranger = Transfer { from: "D", to: "B", total: 10 };
    assert_eq!(b.receive(&from_stranger), Err(Refused::UnknownPeer(UnknownPeer)));
    assert_eq!((b.quota(), c.quota()), (30, 30));
    assert_eq!(b.add_peer("B"), Err(Twin));
    b.add_peer("A").expect("declared already");
    b.receive(&message).unwrap();
    assert_eq!((b.quota(), b.received_from(&"A"), a.passed_to(&"B")), (40, 10, 10));
    assert_eq!(a.transfer_for(&"B"), Ok(Some(message)));
    assert_eq!(a.transfer_for(&"C"), Ok(None));
    assert_eq!(a.transfer_for(&"D"), Err(UnknownPeer));
}

#[test]
fn sums_beyond_64_bits_are_refused() {
    let [mut a, mut b] = Escrow::split(u64::MAX, &["A", "B"]).unwrap();
    let half = a.quota();
    let too_much = Transfer { from: "B", to: "A", total: u64::MAX };
    assert_eq!(a.receive(&too_much), Err(Refused::Overflow(Overflow)));
    assert_eq!(a.quota(), half);
    // To and fro until the sum of all that was ever passed is full: refused, and nothing is lost.
    let there = a.prepare_transfer(&"B", half).unwrap().apply();
    b.receive(&there).unwrap();
    let back = b.prepare_transfer(&"A", u64::MAX).unwrap().apply();
    a.receive(&back).unwrap();
    let refused = a.prepare_transfer(&"B", u64::MAX).err();
    assert_eq!(refused, Some(TransferRefused::Overflow(Overflow)));
    assert_eq!((a.quota(), b.quota()), (u64::MAX, 0));
}
