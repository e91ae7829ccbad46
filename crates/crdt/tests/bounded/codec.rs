//! The binary form: states survive it, broken bytes are refused, forged states too.

use super::trace::{history, traces};
use proptest::prelude::*;
use proptest::sample::Index;
use quipu_crdt::bounded::{
    BadDefinition, Definition, Ledger, Right, Rights, Row, Summary, Transfer, TransferId,
};
use quipu_crdt::codec::{DecodeError, decode, encode};
use quipu_crdt::{Bounded, CompactBounded, Pn};
use std::collections::BTreeMap;

proptest! {
    /// A replica's state is also its message, so these are all messages there are.
    #[test]
    fn states_survive_the_codec_and_broken_bytes_are_no_harm(
        trace in traces(),
        pick in any::<Index>(),
        damage in proptest::collection::vec(any::<(Index, u8)>(), 1..4),
    ) {
        let states = history::<Bounded<u8>>(&trace);
        let state = pick.get(&states);
        prop_assert_eq!(&decode::<Bounded<u8>>(&encode(state))?, state);
        break_bytes::<Bounded<u8>>(encode(state), &damage);
        for row in state.rows().values() {
            prop_assert_eq!(&decode::<Row<u8>>(&encode(row))?, row);
            break_bytes::<Row<u8>>(encode(row), &damage);
        }

        let states = history::<CompactBounded<u8>>(&trace);
        let state = pick.get(&states);
        prop_assert_eq!(&decode::<CompactBounded<u8>>(&encode(state))?, state);
        break_bytes::<CompactBounded<u8>>(encode(state), &damage);
        prop_assert_eq!(&decode::<Ledger<u8>>(&encode(state.ledger()))?, state.ledger());
        break_bytes::<Ledger<u8>>(encode(state.ledger()), &damage);

        prop_assert_eq!(&decode::<Definition<u8>>(&encode(state.definition()))?, state.definition());
        break_bytes::<Definition<u8>>(encode(state.definition()), &damage);
    }
}

/// Cut anywhere it is refused; with bytes changed it is refused or something else, and the process lives.
fn break_bytes<T: for<'b> minicbor::Decode<'b, ()>>(mut bytes: Vec<u8>, damage: &[(Index, u8)]) {
    for end in 0..bytes.len() {
        assert!(decode::<T>(&bytes[..end]).is_err());
    }
    for (at, byte) in damage {
        *at.get_mut(&mut bytes) ^= byte;
        drop(decode::<T>(&bytes));
    }
}

/// The parts of a state, as a forger would put them together: arrays encode like structs with numbered
/// fields.
fn forged<T: minicbor::Encode<()>>(definition: &Definition<u8>, state: T) -> Vec<u8> {
    encode(&(0u8, definition, state))
}

fn refusal<T: for<'b> minicbor::Decode<'b, ()>>(bytes: &[u8]) -> String {
    match decode::<T>(bytes) {
        Err(DecodeError::Invalid(error)) => error.to_string(),
        Err(other) => panic!("refused, but as {other}"),
        Ok(_) => panic!("accepted"),
    }
}

#[test]
fn an_impossible_definition_is_refused() {
    let bytes = encode(&(Some(5i64), Some(4i64), 5i64, 0u8));
    assert!(refusal::<Definition<u8>>(&bytes).contains("the minimum 5 is greater than the maximum 4"));
}

/// What the version before shares reads: it must not give all rights to the creator.
#[derive(Debug, minicbor::Decode)]
#[expect(dead_code, reason = "only read")]
struct WithoutShares {
    #[n(0)]
    minimum: Option<i64>,
    #[n(1)]
    maximum: Option<i64>,
    #[n(2)]
    initial: i64,
    #[n(3)]
    creator: u8,
}

#[test]
fn a_definition_with_shares_is_unreadable_to_who_does_not_know_of_them() -> Result<(), BadDefinition> {
    let plain = Definition::at_least(0, 5, 1u8)?;
    assert_eq!(encode(&plain), encode(&(Some(0i64), None::<i64>, 5i64, 1u8)), "the bytes of before");
    assert!(decode::<WithoutShares>(&encode(&plain)).is_ok());
    let spread = plain.clone().spread([(1, 1), (2, 1)])?;
    assert!(decode::<WithoutShares>(&encode(&spread)).is_err());
    assert_eq!(decode::<Definition<u8>>(&encode(&spread)).ok(), Some(spread));
    assert_eq!(plain.clone().spread([(1, 7), (2, 0)])?, plain, "all of it at the creator");
    assert_eq!(plain.spread([(2, 0)]), Err(BadDefinition::NoShares));
    Ok(())
}

#[test]
fn forged_full_states_are_refused() -> Result<(), BadDefinition> {
    let definition = Definition::at_least(0, 5, 0u8)?;
    let rows = |owner: u8, counted, passed_on: &[(u8, Rights)]| {
        BTreeMap::from([(
            owner,
            Row {
                counted,
                passed_on: passed_on.iter().copied().collect(),
                heir_of: None,
                parked: None,
                witnesses: None,
            },
        )])
    };
    let refusal = |rows| refusal::<Bounded<u8>>(&forged(&definition, rows));
    let pass = |amount| Rights::of(Right::ToSubtract, amount);

    assert!(decode::<Bounded<u8>>(&forged(&definition, rows(0, Pn::subtracted(5), &[]))).is_ok());
    let mut both = rows(0, Pn::default(), &[(1, pass(2))]);
    both.extend(rows(1, Pn::subtracted(2), &[]));
    assert!(decode::<Bounded<u8>>(&forged(&definition, both)).is_ok(), "used what was passed to it");
    let without = "a replica has used rights that it did not have";
    assert!(refusal(rows(0, Pn::subtracted(6), &[])).contains(without));
    assert!(refusal(rows(1, Pn::subtracted(1), &[])).contains(without), "a row that came alone");
    assert!(refusal(rows(1, Pn::default(), &[(0, pass(1))])).contains(without));
    let nobody = "a row that nobody writes";
    assert!(refusal(rows(0, Pn::default(), &[])).contains(nobody));
    assert!(refusal(rows(0, Pn::default(), &[(0, pass(1))])).contains(nobody));
    assert!(refusal(rows(0, Pn::default(), &[(1, pass(0))])).contains(nobody));
    let no_such = rows(0, Pn::default(), &[(1, Rights::of(Right::ToAdd, 1))]);
    assert!(refusal(no_such).contains("rights that the counter does not have"));
    Ok(())
}

#[test]
fn forged_compact_states_are_refused() -> Result<(), BadDefinition> {
    let definition = Definition::at_least(0, 5, 0u8)?;
    let given = |right| Summary { transfers: 1, passed_on: Rights::of(right, 2), ..Summary::default() };
    let state = |summaries: &[(u8, Summary)], transfer: Option<(u64, u8, u64)>| {
        let rows: BTreeMap<u8, Summary> = summaries.iter().copied().collect();
        let in_flight = transfer.map(|(number, to, amount)| {
            (TransferId { giver: 0u8, number }, Transfer { to, right: Right::ToSubtract, amount })
        });
        forged(&definition, (rows, in_flight.into_iter().collect::<BTreeMap<_, _>>()))
    };
    let given_some = (0, given(Right::ToSubtract));
    assert!(decode::<CompactBounded<u8>>(&state(&[given_some], Some((1, 1, 2)))).is_ok());
    let used = (1, Summary { counted: Pn::subtracted(2), ..Summary::default() });
    let used_on_the_way = state(&[given_some, used], Some((1, 1, 2)));
    assert!(decode::<CompactBounded<u8>>(&used_on_the_way).is_ok(), "they are the receiver's already");

    let refusal = |bytes: Vec<u8>| refusal::<CompactBounded<u8>>(&bytes);
    let nobody = "a transfer that nobody makes";
    assert!(refusal(state(&[given_some], Some((2, 1, 2)))).contains(nobody), "not made yet");
    assert!(refusal(state(&[given_some], Some((0, 1, 2)))).contains(nobody));
    assert!(refusal(state(&[given_some], Some((1, 0, 2)))).contains(nobody), "to itself");
    assert!(refusal(state(&[given_some], Some((1, 1, 0)))).contains(nobody));
    let unbalanced = "rights received are not rights passed on";
    assert!(refusal(state(&[given_some], None)).contains(unbalanced));
    assert!(refusal(state(&[given_some], Some((1, 1, 3)))).contains(unbalanced));
    assert!(refusal(state(&[(1, Summary::default())], None)).contains("a row that nobody writes"));
    let spent = Summary { counted: Pn::subtracted(1), ..Summary::default() };
    assert!(refusal(state(&[(1, spent)], None)).contains("rights that it did not have"));
    let added = Summary { received: Rights::of(Right::ToAdd, 2), ..Summary::default() };
    let no_such = state(&[(0, given(Right::ToAdd)), (1, added)], None);
    assert!(refusal(no_such).contains("rights that the counter does not have"));
    Ok(())
}
