//! Every state that a few handoff replicas can get into, over a network that does what it likes.
//!
//! The network is a set of messages that never shrinks: each may be delivered never, once or many times, in
//! any order. In every state that is reached: nothing is lost and nothing over-counted, and from it, once the
//! network behaves, everything is accounted for with no slot and no token left. (In the large runs that last
//! one is checked from one state in sixteen, chosen by its fingerprint.)
//!
//! The bounds of each setting are in `Bounds`; the number of distinct states is printed:
//! `cargo test --release -p quipu-crdt --test model_handoff -- --nocapture`
//! `QUIPU_MODEL=large cargo test --release -p quipu-crdt --test model_handoff -- --nocapture --test-threads 1`
#![allow(clippy::disallowed_methods, reason = "a test may read how far it shall go")]

use quipu_crdt::handoff::{Handoff, View};
use stateright::{Checker, HasDiscoveries, Model, Property};
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

type Replica = Handoff<u8, u64>;

/// How far a setting is explored.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    roots: u8,
    servers: u8,
    clients: u8,
    /// Increments of one, by each client.
    adds: u64,
    /// Different messages sent.
    messages: usize,
    /// Slots opened by each replica.
    slots: u64,
    /// May a server fold any slot at any time?
    fold: bool,
    /// May a client leave as soon as its tokens are cached, and are cached tokens delivered?
    leave_early: bool,
    /// From one state in so many it is tried whether everything gets accounted for.
    rest_every: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    /// By name; `None` for one that has left.
    replicas: Vec<Option<Replica>>,
    network: BTreeSet<(u8, Envelope)>,
    added: Vec<u64>,
}

/// A message, shared between the states that have it; equal when its bytes are.
#[derive(Clone)]
struct Envelope {
    bytes: Arc<[u8]>,
    view: Arc<View<u8, u64>>,
}

impl Envelope {
    fn new(view: View<u8, u64>) -> Self {
        Envelope { bytes: quipu_crdt::codec::encode(&view).into(), view: Arc::new(view) }
    }
}

impl std::fmt::Debug for Envelope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.view.fmt(f)
    }
}

impl PartialEq for Envelope {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Envelope {}

impl Hash for Envelope {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes.hash(state);
    }
}

impl PartialOrd for Envelope {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Envelope {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.bytes.cmp(&other.bytes)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Action {
    Add(u8),
    Send {
        from: u8,
        to: u8,
    },
    /// Delivers a message; the receiver may answer.
    Deliver {
        message: (u8, Envelope),
        answer: bool,
    },
    Fold {
        server: u8,
        source: u8,
    },
    Leave(u8),
}

struct Handoffs {
    bounds: Bounds,
}

impl Handoffs {
    fn tier(&self, id: u8) -> u8 {
        let Bounds { roots, servers, .. } = self.bounds;
        u8::from(id >= roots) + u8::from(id >= roots + servers)
    }

    fn count(&self) -> u8 {
        self.bounds.roots + self.bounds.servers + self.bounds.clients
    }

    /// Clients talk to servers, servers to everybody.
    fn linked(&self, a: u8, b: u8) -> bool {
        let tiers = (self.tier(a).min(self.tier(b)), self.tier(a).max(self.tier(b)));
        a != b && !matches!(tiers, (2, 2) | (0, 2))
    }

    fn pairs(&self) -> impl Iterator<Item = (u8, u8)> + '_ {
        let count = self.count();
        (0..count).flat_map(move |a| (0..count).map(move |b| (a, b))).filter(|&(a, b)| self.linked(a, b))
    }

    fn send(&self, state: &mut State, to: u8, view: View<u8, u64>) -> bool {
        state.network.insert((to, Envelope::new(view))) && state.network.len() <= self.bounds.messages
    }

    /// A message without a slot, a token, a wish for a slot, or a larger value changes nothing, now or later,
    /// unless the receiver has a token for the sender.
    fn says_something(from: &Replica, to: &Replica, view: &View<u8, u64>) -> bool {
        view.wants_slot() && to.tier() < from.tier()
            || view.has_slot_for(to.id())
            || !view.tokens().is_empty()
            || to.handshake().tokens().iter().any(|token| token.target == *from.id())
            || from.fetch() > to.fetch()
    }

    /// Lets the network behave: does everything get accounted for, and nothing stay behind?
    fn comes_to_rest(&self, state: &State) -> bool {
        if !fingerprint(state).is_multiple_of(self.bounds.rest_every) {
            return true;
        }
        let mut replicas = state.replicas.clone();
        let issued: u64 = state.added.iter().sum();
        for _ in 0..12 {
            for (a, b) in self.pairs() {
                let (Some(from), Some(to)) = (&replicas[usize::from(a)], &replicas[usize::from(b)]) else {
                    continue;
                };
                let view = from.view_for(&b, to.tier());
                let mut receiver = to.clone();
                receiver.merge(&view).expect("no twin");
                let reply = receiver.reply_to(&view);
                replicas[usize::from(b)] = Some(receiver);
                let sender = replicas[usize::from(a)].as_mut().expect("it was there");
                sender.merge(&reply).expect("no twin");
            }
            let rested = |replica: &Replica| {
                let handshake = replica.handshake();
                let gone = |source: &u8| replicas[usize::from(*source)].is_none();
                *replica.fetch() == issued
                    && !(replica.tier() > 0 && replica.must_hand_off())
                    && handshake.cached().next().is_none()
                    // A slot that an old message opened for one that has left stays until it is folded.
                    && handshake.desk().slots().keys().all(gone)
            };
            if replicas.iter().flatten().all(rested) {
                return true;
            }
        }
        false
    }
}

fn fingerprint(state: &State) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}

fn issued(state: &State) -> u64 {
    state.added.iter().sum()
}

/// What replicas hold, plus every enabled token once.
fn accounted(state: &State) -> u64 {
    let mut enabled = BTreeSet::new();
    let mut sum = 0;
    for replica in state.replicas.iter().flatten() {
        sum += replica.own();
        for token in replica.handshake().tokens().iter().chain(replica.handshake().cached()) {
            let target = state.replicas[usize::from(token.target)].as_ref().expect("servers stay");
            let open = target.handshake().desk().is_open(&token.source, token.slot.target_clock);
            if open && enabled.insert((token.target, token.slot.target_clock)) {
                sum += token.value;
            }
        }
    }
    sum
}

impl Model for Handoffs {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let replicas = (0..self.count()).map(|id| Some(Handoff::new(id, self.tier(id)))).collect();
        vec![State { replicas, network: BTreeSet::new(), added: vec![0; self.bounds.clients.into()] }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let first_client = self.bounds.roots + self.bounds.servers;
        for (client, added) in (first_client..).zip(&state.added) {
            let here = state.replicas[usize::from(client)].as_ref();
            if here.is_some() && *added < self.bounds.adds {
                actions.push(Action::Add(client));
            }
            if self.bounds.leave_early && here.is_some_and(|client| client.may_leave_early(|_, _| true)) {
                actions.push(Action::Leave(client));
            }
        }
        for (from, to) in self.pairs() {
            actions.push(Action::Send { from, to });
        }
        for message in &state.network {
            actions.push(Action::Deliver { message: message.clone(), answer: false });
            if self.bounds.fold || self.bounds.leave_early {
                actions.push(Action::Deliver { message: message.clone(), answer: true });
            }
        }
        if self.bounds.fold {
            for replica in state.replicas.iter().flatten() {
                let server = *replica.id();
                let slots = replica.handshake().desk().slots().keys();
                actions.extend(slots.map(|&source| Action::Fold { server, source }));
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Add(client) => {
                state.replicas[usize::from(client)].as_mut()?.add(&1).ok()?;
                state.added[usize::from(client - self.bounds.roots - self.bounds.servers)] += 1;
            }
            Action::Send { from, to } => {
                let (sender, receiver) =
                    (state.replicas[usize::from(from)].as_ref()?, state.replicas[usize::from(to)].as_ref()?);
                let view = sender.view_for(&to, receiver.tier());
                if !Self::says_something(sender, receiver, &view) || !self.send(&mut state, to, view) {
                    return None;
                }
            }
            Action::Deliver { message: (to, Envelope { view, .. }), answer } => {
                let receiver = state.replicas[usize::from(to)].as_mut()?;
                receiver.merge(&view).expect("no twin");
                if answer {
                    let reply = receiver.reply_to(&view);
                    if !self.send(&mut state, *view.id(), reply) {
                        return None;
                    }
                }
            }
            Action::Fold { server, source } => {
                state.replicas[usize::from(server)].as_mut()?.fold(&source);
            }
            Action::Leave(client) => state.replicas[usize::from(client)] = None,
        }
        (state != *last).then_some(state)
    }

    fn within_boundary(&self, state: &State) -> bool {
        let opened = |replica: &Replica| replica.handshake().desk().target_clock();
        state.replicas.iter().flatten().all(|replica| opened(replica) <= self.bounds.slots)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("conservation", |_, state| accounted(state) == issued(state)),
            Property::always("no over-count", |_, state: &State| {
                state.replicas.iter().flatten().all(|replica| *replica.fetch() <= issued(state))
            }),
            Property::always("full accounting is reachable", Self::comes_to_rest),
            Property::sometimes("everything handed over", |model: &Self, state: &State| {
                let below: u64 =
                    state.replicas.iter().flatten().filter(|r| r.tier() < 2).map(Replica::own).sum();
                below == model.bounds.adds * u64::from(model.bounds.clients)
            }),
        ]
    }
}

fn large() -> bool {
    std::env::var("QUIPU_MODEL").is_ok_and(|size| size == "large")
}

fn explore(name: &str, small: Bounds, large_messages: usize) {
    let bounds = if large() { Bounds { messages: large_messages, rest_every: 16, ..small } } else { small };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let checker = Handoffs { bounds }
        .checker()
        .threads(threads)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_dfs()
        .join();
    println!("{name}: {} distinct states within {bounds:?}", checker.unique_state_count());
    checker.assert_properties();
}

const PLAIN: Bounds = Bounds {
    roots: 1,
    servers: 2,
    clients: 2,
    adds: 1,
    messages: 7,
    slots: 2,
    fold: false,
    leave_early: false,
    rest_every: 1,
};

#[test]
fn two_clients_two_servers_one_root() {
    explore("plain", PLAIN, 9);
}

#[test]
fn a_client_that_leaves_early() {
    explore("early", Bounds { clients: 1, leave_early: true, messages: 8, ..PLAIN }, 9);
}

#[test]
fn slots_that_are_folded() {
    explore(
        "fold",
        Bounds { servers: 1, clients: 1, adds: 2, slots: 3, fold: true, messages: 6, ..PLAIN },
        7,
    );
}
