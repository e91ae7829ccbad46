//! States survive their encoding; other bytes are refused or are a valid state.

use crate::counter::Name;
use crate::trace::{run, traces};
use proptest::prelude::*;
use quipu_crdt::borrow::Account;
use quipu_crdt::causal::DotStore;
use quipu_crdt::testing::Random;
use quipu_crdt::{Borrow, BorrowState, Merge, Pn, codec};
use std::collections::BTreeMap;

type State = BorrowState<Name, u64>;

/// Any state that traces lead to.
fn states() -> impl Strategy<Value = State> {
    (traces(), any::<prop::sample::Index>()).prop_map(|(trace, pick)| {
        let states = run::<Borrow<Name, u64>>(&trace).expect("passes").states;
        if states.is_empty() { State::default() } else { pick.get(&states).clone() }
    })
}

/// The invariants that decoding promises.
fn assert_valid(state: &State) {
    assert!(state.store().dots().all(|dot| state.context().contains(dot)));
    assert!(state.store().iter().all(|(_, dots)| !dots.is_empty()));
    let mut joined = state.clone();
    joined.merge(state);
    assert_eq!(joined, *state);
}

proptest! {
    #[test]
    fn states_come_back(state in states()) {
        let bytes = codec::encode(&state);
        prop_assert_eq!(codec::decode::<State>(&bytes).expect("decodes"), state);
    }

    #[test]
    fn other_bytes_are_refused_or_valid(state in states(), seed in any::<u64>()) {
        let bytes = codec::encode(&state);
        for end in 0..bytes.len() {
            prop_assert!(codec::decode::<State>(&bytes[..end]).is_err());
        }
        let mut random = Random::new(seed);
        for _ in 0..64 {
            let mut corrupt = bytes.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(corrupt.len());
                corrupt[at] = random.bits().to_le_bytes()[0];
            }
            if let Ok(state) = codec::decode::<State>(&corrupt) {
                assert_valid(&state);
            }
        }
    }
}

#[test]
fn replicas_come_back() {
    let mut site = Borrow::new("site".to_owned());
    site.create(&"site".to_owned()).expect("may always");
    site.create(&"phone".to_owned()).expect("permanent");
    site.add(&Pn::subtracted(7)).expect("has an active dot");
    let bytes = codec::encode(&site);
    assert_eq!(codec::decode::<Borrow<String, Pn>>(&bytes).expect("decodes"), site);
}

/// owner → (dot → account), as it is written.
type Accounts = BTreeMap<Name, BTreeMap<(Name, u64), Account<u64>>>;
/// creator → (end of the run, dots beyond it), as it is written.
type Context = BTreeMap<Name, (u64, Vec<u64>)>;

fn decodes(accounts: &Accounts, context: &Context) -> bool {
    codec::decode::<State>(&codec::encode(&(accounts, context))).is_ok()
}

#[test]
fn inconsistent_states_are_refused() {
    let account = Account { frozen: false, amount: 5 };
    let one = |number| BTreeMap::from([((0, number), account)]);
    let heard_of = |up_to, beyond: &[u64]| Context::from([(0, (up_to, beyond.to_vec()))]);

    assert!(decodes(&Accounts::from([(0, one(1))]), &heard_of(1, &[])));
    assert!(!decodes(&Accounts::from([(0, one(2))]), &heard_of(1, &[])), "not heard of");
    assert!(!decodes(&Accounts::from([(0, one(0))]), &heard_of(1, &[])), "dots start at 1");
    assert!(!decodes(&Accounts::from([(0, one(1)), (1, one(1))]), &heard_of(1, &[])), "two owners");
    assert!(!decodes(&Accounts::from([(0, BTreeMap::new())]), &heard_of(1, &[])), "an owner of nothing");

    let none = Accounts::new();
    assert!(decodes(&none, &heard_of(0, &[2])));
    assert!(decodes(&none, &heard_of(1, &[3, u64::MAX])));
    assert!(decodes(&none, &heard_of(u64::MAX, &[])));
    assert!(!decodes(&none, &heard_of(0, &[])), "a creator of nothing");
    assert!(!decodes(&none, &heard_of(0, &[0])), "dots start at 1");
    assert!(!decodes(&none, &heard_of(0, &[1])), "belongs into the run");
    assert!(!decodes(&none, &heard_of(3, &[2])), "is in the run");
    assert!(!decodes(&none, &heard_of(3, &[4, 9])), "belongs into the run");
    assert!(!decodes(&none, &heard_of(u64::MAX, &[u64::MAX])), "is in the run");
}
