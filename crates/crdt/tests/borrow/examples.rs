//! The paper's worked example, and each rule by itself.

use crate::counter::{Counter, Name};
use crate::literal::{Literal, RIGHT, TAKES_ANOTHERS_DOT};
use quipu_crdt::causal::{Causal, CausalContext, Dot, DotFun, DotMap, DotStore};
use quipu_crdt::{Borrow, BorrowError, BorrowState, Merge, Overflow, Pn, Tally, borrow::Account, codec};

pub(crate) fn dot(creator: &'static str, number: u64) -> Dot<&'static str> {
    Dot::new(creator, number).expect("not zero")
}

pub(crate) fn active<T>(amount: T) -> Account<T> {
    Account { frozen: false, amount }
}

pub(crate) fn frozen<T>(amount: T) -> Account<T> {
    Account { frozen: true, amount }
}

type Accounts<'a, T> = &'a [(&'static str, Dot<&'static str>, Account<T>)];

/// The state with these accounts that has heard of these runs of dots.
pub(crate) fn state<T: Tally>(
    accounts: Accounts<'_, T>,
    heard_of: &[(&'static str, u64)],
) -> BorrowState<&'static str, T> {
    let mut owners: Vec<&str> = accounts.iter().map(|(owner, ..)| *owner).collect();
    owners.dedup();
    let dots_of = |of| {
        let own = accounts.iter().filter(move |(owner, ..)| *owner == of);
        own.map(|(_, dot, account)| (*dot, account.clone())).collect::<DotFun<_, _>>()
    };
    let store: DotMap<_, _> = owners.into_iter().map(|owner| (owner, dots_of(owner))).collect();
    let runs = heard_of.iter().flat_map(|&(creator, end)| (1..=end).map(move |number| dot(creator, number)));
    Causal::new(store, runs.collect::<CausalContext<_>>()).expect("consistent")
}

/// A permanent replica.
pub(crate) fn site<T: Tally>(name: &'static str) -> Borrow<&'static str, T> {
    let mut site = Borrow::new(name);
    site.create(&name).expect("a node may always create a dot for itself");
    site
}

#[test]
fn the_worked_example_state_by_state() {
    let (mut a, mut b) = (Borrow::<_, u64>::new("a"), Borrow::new("b"));
    assert_eq!(*a.state(), state(&[], &[]));

    assert_eq!(a.create(&"a"), Ok(dot("a", 1)));
    assert_eq!(*a.state(), state(&[("a", dot("a", 1), active(0))], &[("a", 1)]));

    assert_eq!(a.create(&"b"), Ok(dot("a", 2)));
    assert_eq!(
        *a.state(),
        state(&[("a", dot("a", 1), active(0)), ("b", dot("a", 2), active(0))], &[("a", 2)])
    );

    a.add(&9).expect("has an active dot");
    b.merge(a.state()).expect("no twin");
    b.add(&8).expect("was lent a dot");
    assert_eq!(
        *b.state(),
        state(&[("a", dot("a", 1), active(9)), ("b", dot("a", 2), active(8))], &[("a", 2)])
    );

    b.retire();
    assert_eq!(
        *b.state(),
        state(&[("a", dot("a", 1), active(9)), ("b", dot("a", 2), frozen(8))], &[("a", 2)])
    );

    a.merge(b.state()).expect("no twin");
    assert_eq!(a.transferable().collect::<Vec<_>>(), [&"b"]);
    assert_eq!(a.transfer(&"b"), Ok(8));
    assert_eq!(*a.state(), state(&[("a", dot("a", 1), active(17))], &[("a", 2)]));
    assert_eq!(a.value(), 17);
}

/// Two lenders have both lent to one client, which has counted 5 and retired; both have heard of it, take
/// over what they may, and meet.
fn lent_twice<C: Counter>() -> u64 {
    let [a, b, client]: [Name; 3] = [0, 1, 2];
    let mut counters = [a, b, client].map(C::new);
    for lender in [a, b] {
        let counter = &mut counters[usize::from(lender)];
        assert!(counter.create(lender) && counter.create(client));
        let lent = counter.state();
        assert!(counters[2].merge(&lent));
    }
    assert!(counters[2].add(5));
    counters[2].retire();
    let retired = counters[2].state();
    for counter in &mut counters[..2] {
        assert!(counter.merge(&retired) && counter.transfer(client));
    }
    let taken_by_b = counters[1].state();
    assert!(counters[0].merge(&taken_by_b));
    counters[0].value()
}

#[test]
fn a_dot_is_taken_by_its_creator_alone() {
    assert_eq!(lent_twice::<Literal<TAKES_ANOTHERS_DOT>>(), 10, "the paper as printed counts 5 twice");
    assert_eq!(lent_twice::<Literal<RIGHT>>(), 5);
    assert_eq!(lent_twice::<Borrow<Name, u64>>(), 5);
}

#[test]
fn without_an_identity_nothing_is_counted() {
    let mut node = Borrow::new("a");
    let before = node.clone();
    assert_eq!(node.add(&1u64), Err(BorrowError::NoIdentity));
    assert_eq!(node.transfer(&"b"), Err(BorrowError::NoIdentity));
    assert_eq!(node.create(&"b"), Err(BorrowError::NotPermanent));
    assert_eq!(node.add(&0), Ok(()), "nothing needs no identity");
    node.retire();
    assert_eq!(node, before);
    assert!(BorrowError::NoIdentity.to_string().contains("ask a permanent node"));
}

#[test]
fn who_has_borrowed_does_not_lend() {
    let (mut site, mut phone) = (site::<u64>("site"), Borrow::new("phone"));
    site.create(&"phone").expect("permanent");
    phone.merge(site.state()).expect("no twin");
    assert!(site.is_permanent() && !phone.is_permanent());
    assert_eq!(phone.create(&"tablet"), Err(BorrowError::NotPermanent));
}

#[test]
fn active_dots_are_not_taken() {
    let mut site = site::<u64>("site");
    site.create(&"phone").expect("permanent");
    let before = site.clone();
    assert_eq!(site.transferable().count(), 0);
    assert_eq!(site.transfer(&"phone"), Ok(0));
    assert_eq!(site.transfer(&"site"), Ok(0));
    assert_eq!(site.transfer(&"nobody"), Ok(0));
    assert_eq!(site, before);
}

#[test]
fn who_has_retired_counts_again_under_a_new_identity() {
    let (mut site, mut phone) = (site::<u64>("site"), Borrow::new("phone"));
    site.create(&"phone").expect("permanent");
    phone.merge(site.state()).expect("no twin");
    let long_ago = phone.state().clone();
    phone.add(&5).expect("has an active dot");
    phone.retire();
    assert_eq!(phone.add(&1), Err(BorrowError::NoIdentity));
    assert!(!phone.is_settled());

    // A state of old, in which the dot is active, does not thaw it, and does not bring it back once taken.
    phone.merge(&long_ago).expect("no twin");
    assert_eq!(phone.add(&1), Err(BorrowError::NoIdentity));
    site.merge(phone.state()).expect("no twin");
    assert_eq!(site.transfer(&"phone"), Ok(5));
    phone.merge(site.state()).expect("no twin");
    phone.merge(&long_ago).expect("no twin");
    assert!(phone.is_settled());
    assert_eq!(phone.add(&1), Err(BorrowError::NoIdentity));

    assert_eq!(site.create(&"phone"), Ok(dot("site", 3)), "the number of a removed dot is not used again");
    phone.merge(site.state()).expect("no twin");
    phone.add(&2).expect("has an active dot");
    assert_eq!(phone.value(), 7);
}

#[test]
fn an_overflow_is_refused_and_changes_nothing() {
    let (mut site, mut phone) = (site::<u64>("site"), Borrow::new("phone"));
    for _ in 0..2 {
        site.create(&"phone").expect("permanent");
    }
    phone.merge(site.state()).expect("no twin");
    phone.add(&u64::MAX).expect("fits");
    let before = phone.clone();
    assert_eq!(phone.add(&1), Err(BorrowError::Overflow(Overflow)));
    assert_eq!(phone, before);

    phone.retire();
    site.add(&1).expect("has an active dot");
    site.merge(phone.state()).expect("no twin");
    assert_eq!(site.value(), u64::MAX, "a report stops at the largest number");
    let before = site.clone();
    assert_eq!(site.transfer(&"phone"), Err(BorrowError::Overflow(Overflow)));
    assert_eq!(site, before);

    // A fresh account holds it.
    site.retire();
    site.create(&"site").expect("may always");
    assert_eq!(site.transfer(&"phone"), Ok(u64::MAX));
}

#[test]
fn the_last_dot_number_is_an_error() {
    let mut site = Borrow::<_, u64>::new("site");
    let heard_of = CausalContext::from_iter([dot("site", u64::MAX)]);
    let last = Causal::new(DotMap::<&str, DotFun<_, Account<u64>>>::default(), heard_of).expect("consistent");
    assert!(site.merge(&last).is_err(), "nobody else makes our dots");

    let bytes = codec::encode(&("site", &last));
    let mut restored: Borrow<&str, u64> = codec::decode(&bytes).expect("a replica is its name and its state");
    let before = restored.clone();
    assert!(matches!(restored.create(&"site"), Err(BorrowError::OutOfDots(_))));
    assert_eq!(restored, before);
}

#[test]
fn pairs_also_subtract() {
    let (mut site, mut phone) = (site::<Pn>("site"), Borrow::new("phone"));
    site.create(&"phone").expect("permanent");
    phone.merge(site.state()).expect("no twin");
    phone.add(&Pn::added(10)).expect("has an active dot");
    phone.add(&Pn::subtracted(3)).expect("has an active dot");
    phone.retire();
    site.add(&Pn::subtracted(9)).expect("has an active dot");
    site.merge(phone.state()).expect("no twin");
    assert_eq!(site.transfer(&"phone"), Ok(Pn { added: 10, subtracted: 3 }));
    assert_eq!(site.value().value(), -2);
    assert_eq!(site.state().store().dots().count(), 1);
}

#[test]
fn a_permanent_node_can_leave_too() {
    let (mut a, mut b) = (site::<u64>("a"), site("b"));
    a.add(&5).expect("has an active dot");
    a.retire();
    assert_eq!(a.transfer(&"a"), Err(BorrowError::NoIdentity));

    b.create(&"a").expect("permanent");
    a.merge(b.state()).expect("no twin");
    assert_eq!(a.transfer(&"a"), Ok(5), "from the dot it made itself to the one it was lent");
    a.retire();
    b.merge(a.state()).expect("no twin");
    assert_eq!(b.transfer(&"a"), Ok(5));
    assert_eq!(*b.state(), state(&[("b", dot("b", 1), active(5))], &[("a", 1), ("b", 2)]));
}

#[test]
fn what_remains_is_proportional_to_the_permanent_nodes() {
    const SITES: usize = 3;
    const CLIENTS: u64 = 1_000;
    let mut sites = [0, 1, 2].map(Borrow::<u64, u64>::new);
    for (id, site) in (0..).zip(&mut sites) {
        site.create(&id).expect("may always");
    }
    for (client, amount) in (100..).zip(0..CLIENTS) {
        let mut phone = Borrow::new(client);
        for site in &mut sites {
            site.create(&client).expect("permanent");
            phone.merge(site.state()).expect("no twin");
        }
        phone.add(&amount).expect("has active dots");
        phone.retire();
        for site in &mut sites {
            site.merge(phone.state()).expect("no twin");
            site.transfer(&client).expect("fits");
            phone.merge(site.state()).expect("no twin");
        }
        assert!(phone.is_settled());
    }
    for (from, to) in [(0, 2), (1, 2), (2, 0), (2, 1)] {
        let state = sites[from].state().clone();
        sites[to].merge(&state).expect("no twin");
    }
    for site in &sites {
        assert_eq!(site.value(), (0..CLIENTS).sum());
        assert_eq!(site.state().store().dots().count(), SITES);
        assert_eq!(site.state().context().vector_len(), SITES);
        assert_eq!(site.state().context().cloud_len(), 0);
        let bytes = codec::encode(site.state()).len();
        assert!(bytes <= 20 * SITES, "{bytes} bytes are left of {CLIENTS} clients");
    }
}

/// Why messages are whole states: the account after a transfer, sent without the removal that belongs to it.
#[test]
fn a_part_of_a_state_that_runs_ahead_counts_twice() {
    let mut elsewhere = state(&[("a", dot("a", 1), active(9)), ("b", dot("a", 2), frozen(8))], &[("a", 2)]);
    let changed_since_the_transfer = state(&[("a", dot("a", 1), active(18))], &[("a", 1)]);
    elsewhere.merge(&changed_since_the_transfer);
    let accounts = elsewhere.store().iter().flat_map(|(_, dots)| dots.iter());
    assert_eq!(accounts.map(|(_, account)| account.amount).sum::<u64>(), 26, "18 were issued");
}
