//! Every behaviour of small clusters over a network that loses, repeats and reorders.
//!
//! The network is a set of notices that never shrinks: whatever was once stated may be heard by anybody at any time, any
//! number of times, or never. Proposals and withdrawals happen at any time, each at most once. A crash loses nothing that
//! was stated, so that it is the same as notices that were not heard. If a site is lost, it hears nothing any more, and
//! what it had stated is only known to those who heard it before.
//!
//! The largest model begins by default when its first proposal is decided, and at the beginning in the large size (minutes):
//!
//! ```text
//! QUIPU_MODEL=large cargo test -p quipu-engine --test council model -- --nocapture --test-threads 1
//! ```

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use quipu_engine::{
    Council, SiteId,
    council::{Change, Flaw, Notice},
};
use stateright::{Checker, HasDiscoveries, Model, Property};

use Event::{Lost, Propose, Withdraw};

use crate::{
    add,
    checks::{self, ALL_REFUSE, History, LEAVERS_ARE_SILENT, ONE_LIST, WRITERS_ARE_LISTED},
    cluster, remove, remove_drained, site,
};

const PROGRESS: &str =
    "when everything was heard, the sites that are left have one list, and nothing is open";

/// What happens at a site, once.
#[derive(Debug, Clone, PartialEq)]
enum Event {
    Propose(Change),
    Withdraw,
    /// It does nothing any more.
    Lost,
}

#[derive(Clone)]
struct Cluster {
    numbers: Vec<u16>,
    newcomers: Vec<u16>,
    events: Vec<(u16, Event)>,
    flaw: Option<Flaw>,
    /// Does it begin when the first event, a proposal, is decided, and only the proposer knows?
    is_decided: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct World {
    councils: Vec<Arc<Council>>,
    /// By their hash: an order that is always the same.
    network: BTreeMap<u64, Arc<(SiteId, Notice)>>,
    happened: Vec<bool>,
    lost: Vec<SiteId>,
    history: History,
}

impl Hash for World {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.councils.hash(hasher);
        self.network.keys().for_each(|notice| notice.hash(hasher));
        (&self.happened, &self.lost, &self.history).hash(hasher);
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Act {
    Happen { event: usize },
    Hear { at: usize, notice: Arc<(SiteId, Notice)> },
}

impl World {
    fn councils(&self) -> impl Iterator<Item = &Council> + Clone {
        self.councils.iter().map(|council| &**council)
    }

    fn left(&self) -> impl Iterator<Item = &Council> + Clone {
        self.councils().filter(|council| !self.lost.contains(&council.site()))
    }

    fn state(&mut self, at: usize) {
        let council = &self.councils[at];
        self.history.note(council);
        let stated = (council.site(), council.notice().clone());
        let mut hasher = DefaultHasher::new();
        stated.hash(&mut hasher);
        self.network.entry(hasher.finish()).or_insert_with(|| Arc::new(stated));
    }

    fn hear(&self, at: usize, notice: &Arc<(SiteId, Notice)>) -> Option<Self> {
        let mut council = (*self.councils[at]).clone();
        let heard = council.receive(notice.0, &notice.1);
        if heard.is_err() || council == *self.councils[at] {
            return None;
        }
        let mut next = self.clone();
        next.councils[at] = Arc::new(council);
        next.state(at);
        Some(next)
    }

    fn everything_was_heard(&self) -> bool {
        let mut heard = (0..self.councils.len())
            .filter(|at| !self.lost.contains(&self.councils[*at].site()))
            .flat_map(|at| self.network.values().map(move |notice| (at, notice)));
        heard.all(|(at, notice)| self.hear(at, notice).is_none())
    }
}

impl Cluster {
    /// What was stated before is heard no more.
    fn decided(&self, world: World) -> World {
        let proposer = site(self.events[0].0);
        let step = |world: World, act| self.next_state(&world, act).expect("it is open");
        let hear = |world: World, from: SiteId, to: SiteId| {
            let at = |site| world.councils().position(|council| council.site() == site).expect("a site");
            let notice = Arc::new((from, world.councils[at(from)].notice().clone()));
            step(world.clone(), Act::Hear { at: at(to), notice })
        };
        let others = || self.numbers.iter().map(|number| site(*number)).filter(|site| *site != proposer);
        let world = step(world, Act::Happen { event: 0 });
        let world = others().fold(world, |world, other| hear(world, proposer, other));
        let mut world = others().fold(world, |world, other| hear(world, other, proposer));
        world.network.clear();
        (0..world.councils.len()).for_each(|at| world.state(at));
        world
    }
}

impl Model for Cluster {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        let newcomers = self.newcomers.iter().map(|number| Council::newcomer(site(*number)));
        let councils = cluster(&self.numbers).into_iter().chain(newcomers);
        let councils: Vec<_> = councils.map(|council| Arc::new(council.with_flaw(self.flaw))).collect();
        let happened = vec![false; self.events.len()];
        let mut world = World {
            councils,
            network: BTreeMap::new(),
            happened,
            lost: Vec::new(),
            history: History::default(),
        };
        world.councils.clone().iter().for_each(|council| world.history.note(council));
        if self.is_decided {
            world = self.decided(world);
        }
        vec![world]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Act>) {
        let mut events: Vec<usize> = (0..self.events.len()).filter(|event| !world.happened[*event]).collect();
        // What is listed after a loss happens after it.
        let loss = events.iter().position(|event| self.events[*event].1 == Lost);
        events.truncate(loss.map_or(events.len(), |loss| loss + 1));
        actions.extend(events.into_iter().map(|event| Act::Happen { event }));
        for (at, council) in world.councils().enumerate() {
            if !world.lost.contains(&council.site()) {
                let notices = world.network.values().filter(|notice| notice.0 != council.site());
                actions.extend(notices.map(|notice| Act::Hear { at, notice: notice.clone() }));
            }
        }
    }

    fn next_state(&self, world: &World, act: Act) -> Option<World> {
        let event = match act {
            Act::Hear { at, notice } => return world.hear(at, &notice),
            Act::Happen { event } => event,
        };
        let (number, what) = &self.events[event];
        let at = world.councils().position(|council| council.site() == site(*number))?;
        let mut next = world.clone();
        next.happened[event] = true;
        let mut council = (*next.councils[at]).clone();
        match what {
            // Refused, or nothing to withdraw: that changes nothing. (The person who asked for it may try later.)
            Propose(change) => {
                if world.lost.contains(&site(*number)) || council.propose(change.clone()).is_err() {
                    return None;
                }
            }
            Withdraw => {
                council.waiting()?;
                let _told = council.withdraw();
            }
            Lost => {
                next.lost.push(site(*number));
                next.network.retain(|_, notice| notice.0 != site(*number));
                return Some(next);
            }
        }
        next.councils[at] = Arc::new(council);
        next.state(at);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_LIST, |_: &Self, world: &World| world.history.one_list()),
            Property::always(ALL_REFUSE, |_: &Self, world: &World| {
                world.history.all_refuse(&world.councils())
            }),
            Property::always(WRITERS_ARE_LISTED, |_: &Self, world: &World| {
                checks::writers_are_listed(&world.councils())
            }),
            Property::always(LEAVERS_ARE_SILENT, |model: &Self, world: &World| {
                let is_unplanned =
                    |event: &Event| matches!(event, Propose(Change::Remove { drained: false, .. }));
                model.events.iter().any(|(_, event)| is_unplanned(event))
                    || world.history.leavers_are_silent(world.councils())
            }),
            Property::always(PROGRESS, |model: &Self, world: &World| {
                // A removal that is withdrawn may leave a lost site behind.
                model.events.iter().any(|(_, event)| *event == Withdraw)
                    || world.happened.contains(&false)
                    || !world.everything_was_heard()
                    || checks::settled(&world.left())
            }),
        ]
    }
}

fn of(numbers: &[u16], newcomers: &[u16], events: &[(u16, Event)]) -> Cluster {
    Cluster {
        numbers: numbers.into(),
        newcomers: newcomers.into(),
        events: events.into(),
        flaw: None,
        is_decided: false,
    }
}

fn check(name: &str, cluster: Cluster) {
    let checker = cluster.checker().spawn_bfs().join();
    println!("{name}: {} distinct states", checker.unique_state_count());
    assert!(checker.is_done(), "the search is exhaustive");
    checker.assert_properties();
}

fn joining() -> Cluster {
    let joined = Propose(Change::Joined { site: site(4) });
    of(&[1, 2, 3], &[4], &[(1, Propose(add(4))), (4, joined)])
}

fn removal() -> Cluster {
    of(&[1, 2, 3, 4], &[], &[(1, Propose(remove(&[4], 1)))])
}

fn removal_of_each_other() -> Cluster {
    of(&[1, 2, 3], &[], &[(1, Propose(remove(&[3], 1))), (3, Propose(remove(&[1], 2)))])
}

/// Site 3 may have decided, though nobody else knows.
fn removal_of_a_proposer() -> Cluster {
    of(&[1, 2, 3], &[4], &[(3, Propose(add(4))), (2, Propose(remove(&[3], 1)))])
}

/// The same twice over: who removes 3, which removes 4, must not listen to 4 again.
fn removal_of_who_removes() -> Cluster {
    let removals = [(4, Propose(add(5))), (3, Propose(remove(&[4], 1))), (2, Propose(remove(&[3], 1)))];
    of(&[1, 2, 3, 4], &[5], &removals)
}

/// Nor when that is withdrawn.
#[allow(clippy::disallowed_methods, reason = "the size of a test is not configuration of the engine")]
fn removal_that_is_withdrawn() -> Cluster {
    let events = [
        (4, Propose(add(5))),
        (3, Propose(remove(&[4], 1))),
        (2, Propose(remove(&[3, 4], 1))),
        (2, Withdraw),
    ];
    let is_large = std::env::var("QUIPU_MODEL").is_ok_and(|size| size == "large");
    Cluster { is_decided: !is_large, ..of(&[1, 2, 3, 4], &[], &events) }
}

/// Site 3 says that it leaves, and thinks better of it, while another one removes it.
fn planned_removal() -> Cluster {
    let [leave, stay] = [Change::Leave { site: site(3) }, Change::Stay { site: site(3) }];
    of(&[1, 2, 3], &[], &[(3, Propose(leave)), (3, Propose(stay)), (1, Propose(remove_drained(&[3], 1)))])
}

#[test]
fn one_change() {
    check("one joins", joining());
    check("one is removed", removal());
}

#[test]
fn two_changes_at_once() {
    let two = |first, second| [(1, Propose(first)), (3, Propose(second))];
    check("two additions", of(&[1, 2, 3], &[4, 5], &two(add(4), add(5))));
    check("an addition and a removal", of(&[1, 2, 3], &[4], &two(add(4), remove(&[2], 3))));
    check("two removals", of(&[1, 2, 3, 4], &[], &two(remove(&[2], 1), remove(&[4], 1))));
    check("each other's removal", removal_of_each_other());
    let joined = (3, Propose(Change::Joined { site: site(3) }));
    let events = [(1, Propose(add(3))), joined, (2, Propose(remove(&[1], 2)))];
    check("one joins while another is removed", of(&[1, 2], &[3], &events));
    let events = [(1, Propose(add(4))), (1, Withdraw), (3, Propose(remove(&[2], 1)))];
    check("one is withdrawn", of(&[1, 2, 3], &[4], &events));
}

#[test]
fn a_planned_removal() {
    check("it may stay", planned_removal());
    let leave = |number| (number, Propose(Change::Leave { site: site(number) }));
    let events = [leave(3), leave(2), (1, Propose(remove_drained(&[2, 3], 1)))];
    check("two leave", of(&[1, 2, 3], &[], &events));
    let events = [leave(3), (1, Propose(remove_drained(&[3], 1))), (1, Withdraw)];
    check("it is withdrawn", of(&[1, 2, 3], &[], &events));
    let events = [leave(3), (1, Propose(remove_drained(&[3], 1))), (2, Propose(remove(&[3], 2)))];
    check("another one takes it for lost", of(&[1, 2, 3], &[], &events));
}

/// It is lost before or after anybody, or everybody, has heard of its proposal and agreed.
#[test]
fn a_lost_proposer() {
    let events = [(4, Propose(add(5))), (4, Lost), (2, Propose(remove(&[4], 1)))];
    check("it wanted to add one", of(&[1, 2, 4], &[5], &events));
    let events = [(4, Propose(remove(&[3], 4))), (4, Lost), (2, Propose(remove(&[3, 4], 1)))];
    check("it wanted to remove one", of(&[1, 2, 3, 4], &[], &events));
    let first = (1, Propose(remove(&[4], 2)));
    let events = [(4, Propose(add(5))), (4, Lost), (2, Propose(remove(&[4], 1))), first];
    check("two remove it at once", of(&[1, 2, 4], &[5], &events));
    check("it is not lost at all", removal_of_a_proposer());
    check("who removes it is removed", removal_of_who_removes());
    check("who removes it is nearly removed", removal_that_is_withdrawn());
}

/// How many steps a way to break this property has.
fn steps_to_break(flaw: Flaw, property: &'static str, cluster: Cluster) -> usize {
    let only = HasDiscoveries::AnyOf([property].into_iter().collect());
    let wrong = Cluster { flaw: Some(flaw), ..cluster };
    let checker = wrong.checker().finish_when(only).spawn_bfs().join();
    let path = checker.discovery(property).expect("a wrong variant has a counterexample");
    path.into_actions().len()
}

/// The right ones are checked above, on the same clusters.
#[test]
fn wrong_ones_have_a_counterexample() {
    let steps = [
        steps_to_break(Flaw::Majority, WRITERS_ARE_LISTED, joining()),
        steps_to_break(Flaw::Majority, ALL_REFUSE, removal()),
        steps_to_break(Flaw::Revokes, ALL_REFUSE, removal_of_each_other()),
        steps_to_break(Flaw::ListensToLeavers, ONE_LIST, removal_of_a_proposer()),
        steps_to_break(Flaw::OverridesMore, ONE_LIST, removal_of_who_removes()),
        steps_to_break(Flaw::OverridesStay, LEAVERS_ARE_SILENT, planned_removal()),
        steps_to_break(Flaw::ForgetsUnderneath, ONE_LIST, removal_that_is_withdrawn()),
    ];
    println!("steps to a counterexample: {steps:?}");
}
