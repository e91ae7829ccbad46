//! Two replicas under one name: what shows is reported, and changes nothing.

use crate::examples::{active, dot, frozen, site, state};
use quipu_crdt::algebra::Twin;
use quipu_crdt::{Borrow, BorrowState};

type State = BorrowState<&'static str, u64>;

fn assert_twin(replica: &Borrow<&'static str, u64>, theirs: &State) {
    let mut after = replica.clone();
    assert_eq!(after.merge(theirs), Err(Twin));
    assert_eq!(after, *replica, "state unchanged");
}

/// A phone that was lent site:2 and has counted 5 under it.
fn phone() -> (Borrow<&'static str, u64>, Borrow<&'static str, u64>) {
    let (mut site, mut phone) = (site("site"), Borrow::new("phone"));
    site.create(&"phone").expect("permanent");
    phone.merge(site.state()).expect("no twin");
    phone.add(&5).expect("has an active dot");
    (site, phone)
}

#[test]
fn a_dot_that_we_have_not_created() {
    let (mut original, mut copy) = (site::<u64>("a"), site("a"));
    copy.create(&"phone").expect("permanent");
    assert_twin(&original, copy.state());
    copy = original.clone();
    original.create(&"phone").expect("permanent");
    assert_eq!(original.merge(copy.state()), Ok(()), "an old state of our own is no twin");
}

#[test]
fn an_account_that_we_have_not_written() {
    let (_, phone) = phone();
    let site_account = ("site", dot("site", 1), active(0));
    let more = state(&[site_account, ("phone", dot("site", 2), active(6))], &[("site", 2)]);
    let froze = state(&[site_account, ("phone", dot("site", 2), frozen(5))], &[("site", 2)]);
    let less = state(&[site_account, ("phone", dot("site", 2), active(4))], &[("site", 2)]);
    assert_twin(&phone, &more);
    assert_twin(&phone, &froze);
    assert_eq!(phone.clone().merge(&less), Ok(()), "an old state of our own is no twin");
}

#[test]
fn a_dot_lent_to_us_under_which_somebody_has_counted() {
    let (_, original) = phone();
    let without_its_state = Borrow::new("phone");
    assert_twin(&without_its_state, original.state());

    let mut retired = original.clone();
    retired.retire();
    assert_twin(&without_its_state, retired.state());

    let mut unused = site::<u64>("site");
    unused.create(&"phone").expect("permanent");
    assert_eq!(without_its_state.clone().merge(unused.state()), Ok(()));
}

#[test]
fn an_active_dot_of_ours_that_was_taken() {
    let (mut site, phone) = phone();
    let mut copy = phone.clone();
    copy.retire();
    site.merge(copy.state()).expect("no twin of the site");
    site.transfer(&"phone").expect("fits");
    assert_twin(&phone, site.state());
    assert_eq!(copy.merge(site.state()), Ok(()), "the one that retired is told nothing new");
}

#[test]
fn a_dot_that_only_we_may_take() {
    let (mut original, mut phone) = phone();
    phone.retire();
    original.merge(phone.state()).expect("no twin");
    let mut copy = original.clone();
    copy.transfer(&"phone").expect("fits");
    // Without the amount that was moved, so that only the removal shows.
    let removed = state(&[("site", dot("site", 1), active(0))], &[("site", 2)]);
    assert_twin(&original, &removed);
    assert_twin(&original, copy.state());

    original.transfer(&"phone").expect("fits");
    assert_eq!(original.merge(copy.state()), Ok(()), "the same step, taken from the same state");
}

#[test]
fn a_taken_dot_in_an_old_state_is_no_twin() {
    let (mut site, mut phone) = phone();
    phone.retire();
    let old = phone.state().clone();
    site.merge(&old).expect("no twin");
    site.transfer(&"phone").expect("fits");
    phone.merge(site.state()).expect("no twin");
    let before = (site.clone(), phone.clone());
    assert_eq!(phone.merge(&old), Ok(()));
    assert_eq!(site.merge(&old), Ok(()));
    assert_eq!((site, phone), before);
}
