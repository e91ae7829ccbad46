//! Worked examples: the paper's figure 2, refusals and their texts, names used twice, and sizes.

use super::candidate::Candidate;
use super::figure::Figure1;
use quipu_crdt::algebra::Twin;
use quipu_crdt::bounded::{
    BadDefinition, Definition, Fate, IN_FLIGHT_TRANSFERS_MAX, MergeError, OutOfRights, Refused, Right,
    Witness,
};
use quipu_crdt::{Bounded, CompactBounded, Overflow, codec};
use std::panic::{AssertUnwindSafe, catch_unwind};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Minimum 10; r1, r2 and r3 have added 30, 1 and 0; r1 has passed 10 to each of the others; the value is 20.
/// The figure's vector U did not survive in our copy of the paper. Value and text say that its sum is 21 and
/// that nobody exceeds its rights: 10, 11 and 10. We take 10, 4 and 7.
#[test]
fn figure_2_of_the_paper() -> Outcome {
    let definition = Definition::at_least(10, 10, 1)?;
    let mut full = [1, 2, 3].map(|id| Bounded::new(id, definition.clone()));
    let mut compact = [1, 2, 3].map(|id| CompactBounded::new(id, definition.clone()));
    macro_rules! play {
        ($replicas:expr) => {
            let [r1, r2, r3] = &mut $replicas;
            r1.apply(r1.prepare_add(30)?);
            r2.apply(r2.prepare_add(1)?);
            r1.apply(r1.prepare_transfer(Right::ToSubtract, 10, 2)?);
            r1.apply(r1.prepare_transfer(Right::ToSubtract, 10, 3)?);
            r2.merge(r1)?;
            r3.merge(r2)?;
            r1.apply(r1.prepare_subtract(10)?);
            r2.apply(r2.prepare_subtract(4)?);
            r3.apply(r3.prepare_subtract(7)?);
            r1.merge(r2)?;
            r1.merge(r3)?;
            assert_eq!(r1.value(), 20);
            assert_eq!([1, 2, 3].map(|id| r1.rights_to_subtract(&id)), [Some(0), Some(7), Some(3)]);
            assert_eq!(r1.rights_to_add(&1), None);
        };
    }
    play!(full);
    play!(compact);

    let figure = Figure1 {
        R: vec![vec![30, 10, 10], vec![0, 1, 0], vec![0, 0, 0]],
        U: vec![10, 4, 7],
        min: 10,
        id: 0,
    };
    assert_eq!(figure.value(), 20);
    assert_eq!([0, 1, 2].map(|id| Figure1 { id, ..figure.clone() }.localRights()), [0, 7, 3]);
    Ok(())
}

/// The figure, taken to the letter, lets a replica make rights by passing them to itself.
#[test]
fn passing_rights_to_oneself_is_refused() -> Outcome {
    let mut figure = Figure1::initial(1, 0, 0);
    figure.increment(5);
    assert!(figure.transfer(5, 0));
    assert_eq!(figure.localRights(), 10);

    let definition = Definition::at_least(0, 5, 'a')?;
    let full = Bounded::new('a', definition.clone());
    assert_eq!(full.prepare_transfer(Right::ToSubtract, 5, 'a'), Err(Refused::ToItself));
    let compact = CompactBounded::new('a', definition);
    assert_eq!(compact.prepare_transfer(Right::ToSubtract, 5, 'a'), Err(Refused::ToItself));
    Ok(())
}

#[test]
fn impossible_definitions_are_refused() {
    let unbounded = Definition::new(None, None, 0, 'a');
    assert_eq!(unbounded, Err(BadDefinition::Unbounded));
    let reversed = Definition::between(5, 4, 5, 'a').unwrap_err();
    assert_eq!(reversed, BadDefinition::Reversed { minimum: 5, maximum: 4 });
    assert_eq!(reversed.to_string(), "the minimum 5 is greater than the maximum 4; nothing was created");
    let below = Definition::at_least(5, 4, 'a');
    assert_eq!(below, Err(BadDefinition::InitialBelow { initial: 4, minimum: 5 }));
    let above = Definition::between(0, 4, 5, 'a');
    assert_eq!(above, Err(BadDefinition::InitialAbove { initial: 5, maximum: 4 }));
    let above = Definition::at_most(4, 5, 'a');
    assert_eq!(above, Err(BadDefinition::InitialAbove { initial: 5, maximum: 4 }));
}

#[test]
fn no_range_is_too_large() -> Outcome {
    let widest = Definition::between(i64::MIN, i64::MAX, i64::MAX, 'a')?;
    let mut counter = Bounded::new('a', widest.clone());
    counter.apply(counter.prepare_subtract(u64::MAX)?);
    assert_eq!(counter.value(), i128::from(i64::MIN));
    assert_eq!(counter.rights_to_add(&'a'), Some(u64::MAX.into()));
    let mut counter = CompactBounded::new('a', widest);
    counter.apply(counter.prepare_subtract(u64::MAX)?);
    assert_eq!(counter.value(), i128::from(i64::MIN));
    assert_eq!(counter.rights_to_subtract(&'a'), Some(0));
    assert_eq!(counter.rights_to_add(&'a'), Some(u64::MAX.into()));
    Ok(())
}

#[test]
fn a_refusal_says_how_many_rights_are_where() -> Outcome {
    let definition = Definition::between(0, 10, 4, 'a')?;
    let mut a = Bounded::new('a', definition.clone());
    let mut compact = CompactBounded::new('a', definition);
    a.apply(a.prepare_transfer(Right::ToSubtract, 3, 'b')?);
    compact.apply(compact.prepare_transfer(Right::ToSubtract, 3, 'b')?);
    let refused = OutOfRights { right: Right::ToSubtract, needed: 2, here: 1, elsewhere: 3 };
    assert_eq!(a.prepare_subtract(2), Err(refused.into()));
    assert_eq!(compact.prepare_subtract(2), Err(refused.into()));
    assert_eq!(a.prepare_transfer(Right::ToSubtract, 2, 'b'), Err(refused.into()));
    assert_eq!(
        refused.to_string(),
        "2 rights to subtract are needed; 1 are here and 3 are known at other replicas; nothing was changed"
    );
    let refused = OutOfRights { right: Right::ToAdd, needed: 7, here: 6, elsewhere: 0 };
    assert_eq!(a.prepare_add(7), Err(refused.into()));
    assert_eq!(compact.prepare_add(7), Err(refused.into()));
    Ok(())
}

#[test]
fn rights_that_do_not_exist_are_not_passed_on() -> Outcome {
    let definition = Definition::at_least(0, 5, 'a')?;
    let no_such_right = Err(Refused::NoSuchRight { right: Right::ToAdd });
    assert_eq!(Bounded::new('a', definition.clone()).prepare_transfer(Right::ToAdd, 1, 'b'), no_such_right);
    assert_eq!(CompactBounded::new('a', definition).prepare_transfer(Right::ToAdd, 1, 'b'), no_such_right);
    Ok(())
}

#[test]
fn a_full_total_is_refused_at_its_source() -> Outcome {
    let definition = Definition::at_least(i64::MIN, i64::MAX, 'a')?;
    macro_rules! play {
        ($a:expr) => {
            let mut a = $a;
            a.apply(a.prepare_add(u64::MAX)?);
            let before = a.clone();
            assert_eq!(a.prepare_add(1), Err(Overflow.into()));
            a.apply(a.prepare_transfer(Right::ToSubtract, u64::MAX, 'b')?);
            assert_eq!(a.prepare_transfer(Right::ToSubtract, 1, 'b'), Err(Overflow.into()));
            a.apply(a.prepare_subtract(u64::MAX)?);
            assert_eq!(a.value(), i128::from(i64::MAX));
            assert_eq!(before.value(), i128::from(i64::MAX) + i128::from(u64::MAX));
        };
    }
    play!(Bounded::new('a', definition.clone()));
    play!(CompactBounded::new('a', definition));
    Ok(())
}

/// Two givers pass so much that the receiver's total cannot hold both: the second stays a transfer, and is
/// the receiver's to use all the same.
#[test]
fn a_full_total_of_received_rights_loses_none() -> Outcome {
    let definition = Definition::at_least(i64::MIN, i64::MAX, 'a')?;
    let [mut a, mut b, mut c] = ['a', 'b', 'c'].map(|id| CompactBounded::new(id, definition.clone()));
    a.apply(a.prepare_transfer(Right::ToSubtract, u64::MAX, 'c')?);
    b.apply(b.prepare_add(u64::MAX)?);
    b.apply(b.prepare_transfer(Right::ToSubtract, u64::MAX, 'c')?);
    c.merge(&a)?;
    c.merge(&b)?;
    c.merge(&b)?;
    assert_eq!(c.rights_to_subtract(&'c'), Some(2 * u128::from(u64::MAX)));
    assert_eq!(c.ledger().in_flight().len(), 1);
    assert_eq!(c.ledger().rows()[&'a'].transfers, 1);
    assert_eq!(codec::decode::<CompactBounded<char>>(&codec::encode(&c))?, c);
    Ok(())
}

#[test]
fn nothing_comes_of_zero() -> Outcome {
    let definition = Definition::between(0, 0, 0, 'a')?;
    macro_rules! play {
        ($a:expr) => {
            let mut a = $a;
            let before = a.clone();
            a.apply(a.prepare_add(0)?);
            a.apply(a.prepare_subtract(0)?);
            a.apply(a.prepare_transfer(Right::ToAdd, 0, 'a')?);
            assert_eq!(a, before);
        };
    }
    play!(Bounded::new('b', definition.clone()));
    play!(CompactBounded::new('b', definition));
    Ok(())
}

#[test]
fn different_definitions_do_not_merge() -> Outcome {
    let (one, other) = (Definition::at_least(0, 5, 'a')?, Definition::at_least(0, 5, 'b')?);
    macro_rules! play {
        ($a:expr, $b:expr) => {
            let (mut a, mut b) = ($a, $b);
            b.apply(b.prepare_subtract(1)?);
            let before = a.clone();
            assert_eq!(a.merge(&b), Err(MergeError::DifferentDefinition));
            assert_eq!(a, before);
        };
    }
    play!(Bounded::new('a', one.clone()), Bounded::new('b', other.clone()));
    play!(CompactBounded::new('a', one), CompactBounded::new('b', other));
    Ok(())
}

/// An old copy of a replica that was started again learns that it has been overtaken, and changes nothing.
#[test]
fn a_twin_is_reported() -> Outcome {
    let definition = Definition::at_least(0, 5, 'a')?;
    macro_rules! play {
        ($a:expr, $b:expr) => {
            let (mut a, mut b) = ($a, $b);
            a.apply(a.prepare_subtract(1)?);
            let mut copy = a.clone();
            assert_eq!(a.merge(&copy), Ok(()), "a copy that is not ahead is harmless");
            a.apply(a.prepare_transfer(Right::ToSubtract, 1, 'b')?);
            b.merge(&a)?;
            let before = copy.clone();
            assert_eq!(copy.merge(&b), Err(Twin.into()));
            assert_eq!(copy, before);
        };
    }
    play!(Bounded::new('a', definition.clone()), Bounded::new('b', definition.clone()));
    play!(CompactBounded::new('a', definition.clone()), CompactBounded::new('b', definition.clone()));

    // Both copies make their first transfer: same number, other contents.
    let mut a = CompactBounded::new('a', definition.clone());
    let mut copy = a.clone();
    a.apply(a.prepare_transfer(Right::ToSubtract, 1, 'b')?);
    copy.apply(copy.prepare_transfer(Right::ToSubtract, 1, 'c')?);
    assert_eq!(a.merge(&copy), Err(Twin.into()));
    Ok(())
}

#[test]
#[should_panic(expected = "applied to another state")]
fn two_changes_prepared_on_the_same_rights_are_not_both_applied() {
    let mut a = Bounded::new('a', Definition::at_least(0, 5, 'a').expect("possible"));
    let (one, other) = (a.prepare_subtract(5).expect("5"), a.prepare_subtract(5).expect("5"));
    a.apply(one);
    a.apply(other);
}

/// Whatever the change, and whatever was changed before.
#[test]
fn of_two_changes_prepared_on_one_state_the_second_is_noticed() -> Outcome {
    let definition = Definition::between(0, 100, 50, 'a')?;
    macro_rules! play {
        ($type:ident) => {
            let changes = [
                |a: &$type<char>| a.prepare_add(1),
                |a: &$type<char>| a.prepare_subtract(1),
                |a: &$type<char>| a.prepare_transfer(Right::ToSubtract, 1, 'b'),
                |a: &$type<char>| a.prepare_transfer(Right::ToAdd, 1, 'b'),
            ];
            let new = $type::new('a', definition.clone());
            let mut used = new.clone();
            used.apply(used.prepare_add(3)?);
            for (change, state) in changes.iter().flat_map(|change| [(change, &new), (change, &used)]) {
                let mut a = state.clone();
                let (one, other) = (change(&a)?, change(&a)?);
                a.apply(one);
                let second = catch_unwind(AssertUnwindSafe(|| a.apply(other)));
                assert!(second.is_err(), "both were applied to {state:?}");
            }
        };
    }
    play!(Bounded);
    play!(CompactBounded);
    Ok(())
}

/// Two replicas of one name have made the same transfer to different receivers. Whoever hears of both keeps
/// the same one, in whatever order and by whatever version of this program.
#[test]
fn of_two_transfers_of_one_name_all_keep_the_same() -> Outcome {
    let definition = Definition::at_least(0, 5, 'a')?;
    let [mut a, mut twin] = ['a', 'a'].map(|id| CompactBounded::new(id, definition.clone()));
    a.apply(a.prepare_transfer(Right::ToSubtract, 1, 'b')?);
    twin.apply(twin.prepare_transfer(Right::ToSubtract, 1, 'c')?);
    for order in [[&a, &twin], [&twin, &a]] {
        let mut other = CompactBounded::new('d', definition.clone());
        order.into_iter().try_for_each(|state| other.merge(state))?;
        let kept: Vec<char> = other.ledger().in_flight().values().map(|transfer| transfer.to).collect();
        assert_eq!(kept, ['c']);
    }
    Ok(())
}

#[test]
fn a_giver_stops_when_too_many_transfers_are_under_way() -> Outcome {
    let definition = Definition::at_least(0, i64::MAX, 'a')?;
    let [mut a, mut b] = ['a', 'b'].map(|id| CompactBounded::new(id, definition.clone()));
    for _ in 0..IN_FLIGHT_TRANSFERS_MAX {
        a.apply(a.prepare_transfer(Right::ToSubtract, 1, 'b')?);
    }
    assert_eq!(a.prepare_transfer(Right::ToSubtract, 1, 'b'), Err(Refused::TooManyInFlight));
    a.apply(a.prepare_transfer(Right::ToSubtract, 0, 'b')?); // Nothing is not under way.
    b.merge(&a)?;
    a.merge(&b)?;
    a.apply(a.prepare_transfer(Right::ToSubtract, 1, 'b')?);
    assert_eq!(a.ledger().in_flight().len(), 1);
    Ok(())
}

/// The bytes of a replica after everybody passed rights to everybody and all was delivered.
fn bytes_with<C: Candidate + minicbor::Encode<()>>(replicas: u8) -> usize {
    let definition = Definition::at_least(0, 0, 0).expect("possible");
    let mut all: Vec<C> = (0..replicas).map(|id| C::create(id, &definition)).collect();
    for (id, replica) in (0..).zip(&mut all) {
        assert!(replica.add(replicas.into()));
        assert!((0..replicas).filter(|to| *to != id).all(|to| replica.pass(Right::ToSubtract, 1, to)));
    }
    for from in (0..all.len()).chain(0..all.len()) {
        let message = all[from].message();
        all.iter_mut().for_each(|replica| replica.receive(&message));
    }
    codec::encode(&all[0]).len()
}

#[test]
fn the_full_form_grows_with_the_square_and_the_compact_form_does_not() {
    let full = [10, 40].map(bytes_with::<Bounded<u8>>);
    let compact = [10, 40].map(bytes_with::<CompactBounded<u8>>);
    println!("bytes with 10 and 40 replicas: full {full:?}, compact {compact:?}");
    assert!(full[1] > 12 * full[0], "16 times as many pairs");
    assert!(compact[1] < 6 * compact[0], "4 times as many replicas");
}

#[test]
fn an_heir_holds_the_rights_of_who_is_gone() {
    let stock = Definition::at_least(0, 40, 1).unwrap();
    let [mut one, mut two, mut three] = [1, 2, 3].map(|id| Bounded::new(id, stock.clone()));
    one.apply(one.prepare_transfer(Right::ToSubtract, 15, 2).unwrap());
    one.apply(one.prepare_subtract(5).unwrap());
    // One is gone for good: all that it wrote is known, and two is its heir.
    two.merge(&one).unwrap();
    two.inherit(1);
    two.inherit(1);
    assert_eq!(two.rights_to_subtract(&2), Some(35));
    assert_eq!(two.rights_to_subtract(&1), Some(0));
    two.apply(two.prepare_subtract(30).unwrap());
    two.apply(two.prepare_transfer(Right::ToSubtract, 3, 3).unwrap());
    three.merge(&two).unwrap();
    assert_eq!(
        (three.value(), three.rights_to_subtract(&2), three.rights_to_subtract(&3)),
        (5, Some(2), Some(3))
    );
    // And two goes too: its heir holds what both had.
    three.inherit(2);
    assert_eq!((three.rights_to_subtract(&3), three.holder(&1)), (Some(5), &3));
    assert!(three.prepare_subtract(6).is_err());
    three.apply(three.prepare_subtract(5).unwrap());
    assert_eq!(three.value(), 0);
    let bytes = minicbor::to_vec(&three).unwrap();
    assert_eq!(minicbor::decode::<Bounded<i32>>(&bytes).unwrap(), three);
}

#[test]
fn a_row_witnesses_its_last_operations_and_a_sample() {
    let mut a = Bounded::new('a', Definition::at_least(0, 1_000, 'a').expect("possible"));
    let mut b = Bounded::new('b', a.definition().clone());
    let count = |a: &mut Bounded<char>, id: u64| {
        a.apply(a.prepare_subtract(1).expect("there are rights"));
        a.witness(Witness { id, at_s: id, fate: Fate::Counts });
    };
    let ids = |it: &Bounded<char>| -> Vec<u64> {
        it.rows()[&'a'].witnesses.iter().flatten().map(|witness| witness.id).collect()
    };
    (1..=700).for_each(|id| count(&mut a, id));
    assert_eq!(ids(&a), [448, 512, 576, 640, 697, 698, 699, 700], "one in 64, and the last");
    b.merge(&a).expect("the same counter");
    let old = a.clone();
    // One that counts in another row goes, one that counts nowhere stays.
    a.apply(a.prepare_add(1).expect("no maximum"));
    a.take_back_witness(699, false);
    a.apply(a.prepare_add(1).expect("no maximum"));
    a.take_back_witness(700, true);
    b.merge(&a).expect("the same counter");
    b.merge(&old.known_at('c')).expect("an old message");
    for it in [&a, &b] {
        assert_eq!(ids(it), [448, 512, 576, 640, 697, 698, 700]);
        assert_eq!(it.rows()[&'a'].witnesses.iter().flatten().last().map(|it| it.fate), Some(Fate::Lost));
    }
    let bytes = codec::encode(&a);
    assert_eq!(codec::decode::<Bounded<char>>(&bytes).ok(), Some(a));
}
