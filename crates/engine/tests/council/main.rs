//! Who belongs to the cluster: each rule on its own, random lives of clusters, and every behaviour of small ones.

mod checks;
mod lives;
mod model;
mod rules;

use std::collections::{BTreeMap, BTreeSet};

use quipu_engine::{
    Council, SiteId,
    council::{Change, Seat},
};

fn site(number: u16) -> SiteId {
    SiteId { number, incarnation: 0 }
}

fn sites(numbers: &[u16]) -> BTreeSet<SiteId> {
    numbers.iter().copied().map(site).collect()
}

/// The sites of a cluster that begins.
fn cluster(numbers: &[u16]) -> Vec<Council> {
    let seats: BTreeMap<_, _> = numbers
        .iter()
        .map(|number| (site(*number), Seat::member(format!("s{number}"), format!("host{number}:7381"))))
        .collect();
    let first = |number: &u16| Council::first(site(*number), seats.clone()).expect("a list");
    numbers.iter().map(first).collect()
}

fn add(number: u16) -> Change {
    Change::Add { site: site(number), name: format!("s{number}"), address: format!("host{number}:7381") }
}

fn remove(numbers: &[u16], heir: u16) -> Change {
    Change::Remove { sites: sites(numbers), heir: site(heir), drained: false }
}

/// They have said themselves that they leave.
fn remove_drained(numbers: &[u16], heir: u16) -> Change {
    Change::Remove { sites: sites(numbers), heir: site(heir), drained: true }
}
