//! The checks of the chaos runs have teeth: each violation that they claim to find is reported when a history contains it,
//! and histories that are in order pass.

use std::collections::BTreeMap;

use super::{
    books::{Heard, Kind, Operation, Plain, Told},
    checks::{self, Outcomes, Watched},
    clients::BOUNDED_MAX,
};

const COUNTED: Told = Told::Counted { value: 5, amount: 5, site: 1 };
const ELSEWHERE: Told = Told::Counted { value: 9, amount: 5, site: 2 };
const ACKNOWLEDGED: Heard = Heard::Acknowledged { value: 5 };

fn unanswered() -> Heard {
    Heard::Unknown { why: "the connection was closed".to_owned() }
}

/// What a client sees of one add of 5, in this order.
enum Event {
    Heard(u16, Heard),
    Told(u16, Told),
}

use Event::{Heard as H, Told as T};

/// An add with this history, and what the checks have to say of it.
fn operation(events: Vec<Event>) -> (Operation, Result<(), String>) {
    let mut operation = Operation::new("ids:0".to_owned(), "client-0".to_owned(), 7, 5, 0);
    let mut held = Ok(());
    for event in events {
        held = held.and(match event {
            H(site, heard) => operation.heard(site, &heard, 0),
            T(site, told) => operation.told(site, &told, 0),
        });
    }
    (operation, held)
}

fn acknowledged() -> Operation {
    operation(vec![H(1, ACKNOWLEDGED)]).0
}

/// The check reports this and nothing else.
#[track_caller]
fn finds<T: std::fmt::Debug>(held: Result<T, String>, part: &str) {
    let found = held.expect_err("a violation");
    assert!(found.contains(part), "{part:?} in {found:?}");
}

fn values<const N: usize>(values: [i64; N]) -> BTreeMap<u16, i64> {
    (1..).zip(values).collect()
}

pub(crate) fn histories_in_order_pass() {
    let provisional = Told::Provisional { amount: 5, site: 1 };
    for events in [
        vec![],
        vec![H(1, ACKNOWLEDGED), T(1, provisional.clone()), T(1, COUNTED), T(2, COUNTED), H(2, ACKNOWLEDGED)],
        // Not answered, counted elsewhere, and the first attempt was taken back.
        vec![H(2, unanswered()), H(1, ACKNOWLEDGED), T(2, Told::Cancelled { site: 1 }), T(1, COUNTED)],
        vec![H(1, Heard::Refused { why: "OUTOFBOUNDS".to_owned() }), T(1, Told::Unknown)],
        // A site that has not heard of it yet.
        vec![H(1, ACKNOWLEDGED), T(2, Told::Unknown), T(2, provisional), T(2, COUNTED)],
    ] {
        assert_eq!(operation(events).1, Ok(()));
    }
    let everywhere = [Some(COUNTED), Some(COUNTED), Some(Told::Cancelled { site: 1 })];
    assert_eq!(checks::agreed(&everywhere, &acknowledged()), Ok(Some(COUNTED)));
    let (open, _) = operation(vec![H(1, unanswered())]);
    assert_eq!(checks::agreed(&[Some(Told::Unknown), Some(Told::Unknown)], &open), Ok(None));
    assert_eq!(
        (open.counts(Some(&COUNTED)), open.counts(Some(&Told::Unknown)), open.counts(None)),
        (5, 0, 0)
    );
    assert_eq!(acknowledged().counts(None), 5);

    let outcomes = Outcomes::from([(("client-0".to_owned(), 7), Some(COUNTED))]);
    assert_eq!(checks::unchanged(&outcomes, &outcomes), [""; 0]);
    assert_eq!(checks::ends_with("ids:0", &values([5, 5]), 5), [""; 0]);
    let plain = Plain { acknowledged: 10, unknown: vec![3, 4] };
    for value in [10, 13, 14, 17] {
        assert_eq!(checks::ends_within("plain:0", &values([value, value]), &plain), Ok(()));
    }
    for value in [0, BOUNDED_MAX] {
        assert_eq!(checks::bounds(1, "stock:0", value), Ok(()));
    }
    assert_eq!(checks::rises(1, "plain:0", 5, 5), Ok(()));
    assert_eq!(checks::falls("rising", 5, 5), Ok(()));
}

pub(crate) fn a_lost_add_is_found() {
    finds(checks::agreed(&[Some(Told::Unknown), Some(Told::Unknown)], &acknowledged()), "no site knows");
    finds(
        operation(vec![H(1, ACKNOWLEDGED), T(1, Told::Unknown)]).1,
        "does not know what it has acknowledged",
    );
    finds(
        operation(vec![H(1, ACKNOWLEDGED), H(1, Heard::Refused { why: "OUTOFBOUNDS".to_owned() })]).1,
        "refuses what it has acknowledged",
    );
    // Its outcome is told, and its amount is missing from the value.
    let expected = acknowledged().counts(Some(&COUNTED));
    assert_eq!(checks::ends_with("ids:0", &values([0, 0]), expected).len(), 2);
    let plain = Plain { acknowledged: 10, unknown: vec![3, 4] };
    finds(checks::ends_within("plain:0", &values([9, 9]), &plain), "sites end with");
}

pub(crate) fn a_double_count_is_found() {
    let expected = acknowledged().counts(Some(&COUNTED));
    assert_eq!(checks::ends_with("ids:0", &values([10, 10]), expected).len(), 2);
    // Two sites have each counted it.
    finds(checks::agreed(&[Some(COUNTED), Some(ELSEWHERE)], &acknowledged()), "sites differ");
    let sent_twice = || vec![H(2, unanswered()), H(1, ACKNOWLEDGED), T(1, COUNTED)];
    let then = |event| operation(sent_twice().into_iter().chain([event]).collect()).1;
    finds(then(T(2, ELSEWHERE)), "has changed");
    finds(then(T(2, Told::Cancelled { site: 2 })), "another one is named");
    finds(then(H(2, Heard::Acknowledged { value: 10 })), "another value");
    // Neither a sum of what was not answered, nor what was counted by an operation that was refused.
    let plain = Plain { acknowledged: 10, unknown: vec![3, 4] };
    for value in [11, 18, 20] {
        finds(checks::ends_within("plain:0", &values([value, value]), &plain), "sites end with");
    }
    let (refused, _) = operation(vec![H(1, Heard::Refused { why: "OUTOFBOUNDS".to_owned() })]);
    assert_eq!(checks::ends_with("stock:0", &values([5]), refused.counts(None)).len(), 1);
}

pub(crate) fn an_outcome_that_changes_is_found() {
    let name = || ("client-0".to_owned(), 7);
    let before = Outcomes::from([(name(), Some(COUNTED))]);
    for after in
        [Outcomes::from([(name(), Some(ELSEWHERE))]), Outcomes::from([(name(), None)]), Outcomes::new()]
    {
        assert_eq!(checks::unchanged(&before, &after).len(), 1, "{after:?}");
    }
    // What was not counted must not be counted later, when nobody sends it.
    assert_eq!(checks::unchanged(&Outcomes::from([(name(), None)]), &before).len(), 1);
    let settled = || vec![H(1, ACKNOWLEDGED), T(1, COUNTED)];
    let then = |event| operation(settled().into_iter().chain([event]).collect()).1;
    finds(then(T(1, Told::Counted { value: 6, amount: 5, site: 1 })), "has changed");
    finds(then(T(1, Told::Provisional { amount: 5, site: 1 })), "as provisional");
    finds(then(T(2, Told::Unknown)), "nothing is known");
    finds(then(H(1, Heard::Refused { why: "IDMPMISMATCH".to_owned() })), "one amount always");
    finds(then(T(1, Told::of("[too old]"))), "an outcome that is none");
    // Of another amount, or at a site that it was never sent to.
    finds(operation(vec![H(1, unanswered()), T(1, Told::of("[counted 4 4 1]"))]).1, "not sent so");
    finds(operation(vec![H(1, unanswered()), T(1, Told::of("[provisional 5 5 3]"))]).1, "not sent so");
}

/// What a client sees of one add of 5 that may count less, in this order.
fn saturating(events: Vec<Event>) -> Result<(), String> {
    let mut operation = Operation::new("stock:0".to_owned(), "client-0".to_owned(), 7, 5, 0);
    operation.kind = Kind::Saturate;
    events.into_iter().try_for_each(|event| match event {
        H(site, heard) => operation.heard(site, &heard, 0),
        T(site, told) => operation.told(site, &told, 0),
    })
}

pub(crate) fn an_attempt_that_counted_nothing_is_no_outcome() {
    let applied = |amount| Heard::Applied { value: amount, amount };
    let counted = |amount| Told::Counted { value: amount, amount, site: 1 };
    // Nothing at one site, some at another; and not answered where it was counted.
    for events in [
        vec![H(2, Heard::Nothing), H(1, applied(3)), T(2, Told::Unknown), T(2, counted(3)), T(1, counted(3))],
        vec![H(1, unanswered()), H(2, Heard::Nothing), T(2, counted(2))],
        vec![H(2, applied(5)), H(1, applied(3)), T(2, Told::Cancelled { site: 1 }), T(1, counted(3))],
    ] {
        assert_eq!(saturating(events), Ok(()));
    }
    finds(saturating(vec![H(1, unanswered()), T(2, counted(0))]), "not sent so");
    finds(saturating(vec![H(1, applied(3)), T(1, counted(4))]), "not sent so");
    finds(saturating(vec![H(1, applied(6))]), "not asked for");
    finds(
        saturating(vec![H(1, applied(3)), T(1, counted(3)), H(2, Heard::Nothing)]),
        "nothing of what is settled",
    );
    finds(saturating(vec![H(1, applied(3)), H(1, Heard::Nothing)]), "nothing of what it has acknowledged");
    finds(saturating(vec![H(1, applied(3)), T(1, Told::Unknown)]), "does not know what it has acknowledged");
    let (_, held) = operation(vec![H(1, Heard::Nothing)]);
    finds(held, "has to count");
}

pub(crate) fn a_crossed_bound_is_found() {
    for value in [-1, BOUNDED_MAX + 1] {
        finds(checks::bounds(2, "stock:0", value), "site 2 shows");
    }
}

pub(crate) fn a_value_that_goes_back_is_found() {
    finds(checks::rises(1, "plain:0", 6, 5), "had told 6 before");
    let watch = |may_fall, told_before| {
        let mut watched = Watched::default();
        watched.at_least(told_before);
        let seen = [3, 3, 8, 6, 9].map(|value| watched.sees(1, "plain:0", value, may_fall));
        (watched, seen.into_iter().filter_map(Result::err).collect::<Vec<_>>())
    };
    let (watched, found) = watch(false, 0);
    assert_eq!((watched.events, watched.down), (5, 2));
    assert!(found.len() == 1 && found[0].contains("sees 6 after 8"), "{found:?}");
    // A new connection begins with less than the site had told before.
    assert_eq!(watch(false, 4).1.len(), 2);
    // A counter of which something can be taken back may go down by that, and by no more.
    let (watched, found) = watch(true, 0);
    assert_eq!(found, [""; 0]);
    assert_eq!(checks::falls("rising", watched.down, 2), Ok(()));
    finds(checks::falls("rising", watched.down, 1), "went down by 2");
}

pub(crate) fn sites_that_differ_are_found() {
    assert_eq!(checks::ends_with("ids:0", &values([5, 4, 5]), 5).len(), 1);
    let plain = Plain { acknowledged: 10, unknown: vec![3] };
    finds(checks::ends_within("plain:0", &values([10, 13]), &plain), "sites end with");
    let (open, _) = operation(vec![H(1, unanswered())]);
    finds(checks::agreed(&[Some(COUNTED), Some(Told::Unknown)], &open), "sites differ");
    // A site that does not answer, or has something provisional, has not agreed.
    finds(checks::agreed(&[Some(COUNTED), None], &acknowledged()), "not every site");
    let provisional = Told::Provisional { amount: 5, site: 1 };
    finds(checks::agreed(&[Some(COUNTED), Some(provisional)], &acknowledged()), "not every site");
}
