//! Causal contexts and dot stores: against plain sets, by the laws, and through the codec.

use proptest::collection::vec;
use proptest::prelude::*;
use quipu_crdt::causal::{Causal, CausalContext, Dot, DotFun, DotMap, DotStore, Inconsistent, OutOfDots};
use quipu_crdt::testing::{Random, laws};
use quipu_crdt::{Merge, codec};
use std::collections::{BTreeMap, BTreeSet};

type Name = u8;

fn dot(creator: Name, number: u64) -> Dot<Name> {
    Dot::new(creator, number).expect("not zero")
}

/// Few creators and numbers, so that gaps arise and close; and the largest numbers.
fn dots() -> impl Strategy<Value = Dot<Name>> {
    let numbers = prop_oneof![20 => 1..12u64, 1 => u64::MAX - 2..=u64::MAX];
    (0..3 as Name, numbers).prop_map(|(creator, number)| dot(creator, number))
}

/// Two contexts grow apart and meet.
#[derive(Debug, Clone)]
enum Step {
    Add { to: usize, dot: Dot<Name> },
    Merge { to: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let add = (0..2usize, dots()).prop_map(|(to, dot)| Step::Add { to, dot });
    vec(prop_oneof![6 => add, 1 => (0..2usize).prop_map(|to| Step::Merge { to })], 0..60)
}

/// A set of dots, as far as these tests need it.
trait DotSet: Default + Clone {
    fn add(&mut self, dot: Dot<Name>) -> bool;
    fn merge(&mut self, other: &Self);
    fn contains(&self, dot: Dot<Name>) -> bool;
    fn max(&self, creator: Name) -> u64;
}

impl DotSet for CausalContext<Name> {
    fn add(&mut self, dot: Dot<Name>) -> bool {
        self.add(dot)
    }

    fn merge(&mut self, other: &Self) {
        Merge::merge(self, other);
    }

    fn contains(&self, dot: Dot<Name>) -> bool {
        self.contains(&dot)
    }

    fn max(&self, creator: Name) -> u64 {
        self.max(&creator)
    }
}

/// Runs the steps on the set and on a plain one; false as soon as they differ.
fn agrees<S: DotSet>(steps: &[Step]) -> bool {
    let mut sets = [S::default(), S::default()];
    let mut oracles = [BTreeSet::new(), BTreeSet::new()];
    steps.iter().all(|step| {
        let changed = match *step {
            Step::Add { to, dot } => sets[to].add(dot) == oracles[to].insert(dot),
            Step::Merge { to } => {
                let (set, oracle) = (sets[1 - to].clone(), oracles[1 - to].clone());
                sets[to].merge(&set);
                oracles[to].extend(oracle);
                true
            }
        };
        changed && sets.iter().zip(&oracles).all(|(set, oracle)| same(set, oracle))
    })
}

fn same<S: DotSet>(set: &S, oracle: &BTreeSet<Dot<Name>>) -> bool {
    let numbers = || (1..15).chain(u64::MAX - 3..=u64::MAX);
    (0..4).all(|creator| {
        let own = oracle.iter().filter(|dot| dot.creator == creator);
        set.max(creator) == own.map(|dot| dot.number.get()).max().unwrap_or(0)
            && numbers()
                .all(|number| set.contains(dot(creator, number)) == oracle.contains(&dot(creator, number)))
    })
}

proptest! {
    #[test]
    fn a_context_is_a_set_of_dots(steps in steps()) {
        prop_assert!(agrees::<CausalContext<Name>>(&steps));
    }

    #[test]
    fn equal_sets_are_equal_contexts(dots in vec(dots(), 0..40), seed in any::<u64>()) {
        let mut shuffled = dots.clone();
        Random::new(seed).shuffle(&mut shuffled);
        let context = CausalContext::from_iter(dots.iter().copied());
        prop_assert_eq!(&context, &CausalContext::from_iter(shuffled.iter().copied()));

        let (left, right) = shuffled.split_at(shuffled.len() / 2);
        let mut merged = CausalContext::from_iter(left.iter().copied());
        Merge::merge(&mut merged, &CausalContext::from_iter(right.iter().copied()));
        prop_assert_eq!(&context, &merged);
    }

    #[test]
    fn contexts_are_a_semilattice(x in vec(dots(), 0..20), y in vec(dots(), 0..20), z in vec(dots(), 0..20)) {
        let [x, y, z] = [x, y, z].map(CausalContext::from_iter);
        prop_assert_eq!(laws::check_merge(&x, &y, &z), Ok(()));
    }

    #[test]
    fn contexts_come_back(dots in vec(dots(), 0..40), seed in any::<u64>()) {
        let context = CausalContext::from_iter(dots);
        let bytes = codec::encode(&context);
        prop_assert_eq!(codec::decode::<CausalContext<Name>>(&bytes).expect("decodes"), context);
        for end in 0..bytes.len() {
            prop_assert!(codec::decode::<CausalContext<Name>>(&bytes[..end]).is_err());
        }
        let mut random = Random::new(seed);
        for _ in 0..32 {
            let mut corrupt = bytes.clone();
            let at = random.below(corrupt.len());
            corrupt[at] = random.bits().to_le_bytes()[0];
            if let Ok(context) = codec::decode::<CausalContext<Name>>(&corrupt) {
                prop_assert_eq!(laws::check_merge(&context, &context, &context), Ok(()));
            }
        }
    }
}

#[test]
fn the_next_dot_is_beyond_all_others() {
    let mut context = CausalContext::new();
    assert!(context.is_empty());
    assert_eq!(context.next(&1), Ok(dot(1, 1)));
    context.add(dot(1, 5));
    assert!(!context.is_empty());
    assert_eq!(context.next(&1), Ok(dot(1, 6)));
    assert_eq!(context.next(&2), Ok(dot(2, 1)));
    context.add(dot(1, u64::MAX));
    assert_eq!(context.next(&1), Err(OutOfDots));
    assert_eq!((context.vector_len(), context.cloud_len()), (1, 2));
}

/// A context that gets one thing wrong.
#[derive(Debug, Clone, Default)]
struct Wrong<const VARIANT: u8> {
    vector: BTreeMap<Name, u64>,
    cloud: BTreeSet<Dot<Name>>,
}

const SKIPS_GAPS: u8 = 0;
const DROPS_THE_CLOUD_IN_MERGE: u8 = 1;
const SUMS_VECTORS: u8 = 2;
const IGNORES_THE_CLOUD_IN_MAX: u8 = 3;
const RIGHT: u8 = 4;

impl<const VARIANT: u8> Wrong<VARIANT> {
    fn compact(&mut self) {
        for dot in std::mem::take(&mut self.cloud) {
            let end = self.vector.entry(dot.creator).or_default();
            if VARIANT == SKIPS_GAPS || dot.number.get() - 1 == *end {
                *end = (*end).max(dot.number.get());
            } else if dot.number.get() > *end {
                self.cloud.insert(dot);
            }
        }
    }
}

impl<const VARIANT: u8> DotSet for Wrong<VARIANT> {
    fn add(&mut self, dot: Dot<Name>) -> bool {
        let new = !self.contains(dot);
        self.cloud.insert(dot);
        self.compact();
        new
    }

    fn merge(&mut self, other: &Self) {
        for (creator, theirs) in &other.vector {
            let ours = self.vector.entry(*creator).or_default();
            *ours = if VARIANT == SUMS_VECTORS { ours.saturating_add(*theirs) } else { (*ours).max(*theirs) };
        }
        if VARIANT != DROPS_THE_CLOUD_IN_MERGE {
            self.cloud.extend(&other.cloud);
        }
        self.compact();
    }

    fn contains(&self, dot: Dot<Name>) -> bool {
        let end = self.vector.get(&dot.creator).copied().unwrap_or(0);
        dot.number.get() <= end || self.cloud.contains(&dot)
    }

    fn max(&self, creator: Name) -> u64 {
        let cloud = self.cloud.iter().filter(|dot| dot.creator == creator).map(|dot| dot.number.get());
        let cloud = if VARIANT == IGNORES_THE_CLOUD_IN_MAX { 0 } else { cloud.max().unwrap_or(0) };
        cloud.max(self.vector.get(&creator).copied().unwrap_or(0))
    }
}

#[test]
fn wrong_contexts_are_caught() {
    let gap = |number| Step::Add { to: 0, dot: dot(0, number) };
    let steps = [gap(1), gap(3), Step::Merge { to: 1 }, gap(2), Step::Merge { to: 1 }];
    assert!(agrees::<CausalContext<Name>>(&steps));
    assert!(agrees::<Wrong<RIGHT>>(&steps));
    assert!(!agrees::<Wrong<SKIPS_GAPS>>(&steps));
    assert!(!agrees::<Wrong<DROPS_THE_CLOUD_IN_MERGE>>(&steps));
    assert!(!agrees::<Wrong<SUMS_VECTORS>>(&steps));
    assert!(!agrees::<Wrong<IGNORES_THE_CLOUD_IN_MAX>>(&steps));
}

/// One number for each key and dot, which grows: enough to reach every kind of state of a store.
type State = Causal<DotMap<Name, DotFun<Name, u64>>>;

/// What one of three replicas does.
#[derive(Debug, Clone)]
enum Change {
    /// Makes a dot and holds 0 under it.
    Insert { at: usize, key: Name },
    /// Raises what it holds under its `which`-th dot.
    Raise { at: usize, which: usize },
    /// Removes its `which`-th dot.
    Remove { at: usize, which: usize },
    /// Takes in all that another has, or only what the other holds under its `which`-th dot: so contexts
    /// with gaps arise.
    Merge { at: usize, from: usize, which: Option<usize> },
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let (replica, which) = (0..3usize, 0..6usize);
    vec(
        prop_oneof![
            (replica.clone(), 0..3 as Name).prop_map(|(at, key)| Change::Insert { at, key }),
            (replica.clone(), which.clone()).prop_map(|(at, which)| Change::Raise { at, which }),
            (replica.clone(), which.clone()).prop_map(|(at, which)| Change::Remove { at, which }),
            (replica.clone(), replica, proptest::option::of(which))
                .prop_map(|(at, from, which)| Change::Merge { at, from, which }),
        ],
        0..40,
    )
}

/// The key, dot and number that stand at this place.
fn entry(state: &State, which: usize) -> Option<(Name, Dot<Name>, u64)> {
    let entries = state
        .store()
        .iter()
        .flat_map(|(key, dots)| dots.iter().map(move |(dot, number)| (*key, *dot, *number)));
    entries.into_iter().nth(which)
}

/// The state that holds this and has heard of nothing else.
fn only((key, dot, number): (Name, Dot<Name>, u64)) -> State {
    let store = DotMap::from_iter([(key, DotFun::from_iter([(dot, number)]))]);
    Causal::new(store, CausalContext::from_iter([dot])).expect("consistent")
}

fn reach(changes: &[Change]) -> [State; 3] {
    let mut states = [State::default(), State::default(), State::default()];
    for change in changes {
        let (at, delta) = match *change {
            Change::Insert { at, key } => {
                let creator = Name::try_from(at).expect("small");
                let dot = states[at].context().next(&creator).expect("far from the last");
                (at, Some(only((key, dot, 0))))
            }
            Change::Raise { at, which } => {
                let raised = entry(&states[at], which).map(|(key, dot, number)| only((key, dot, number + 1)));
                (at, raised)
            }
            Change::Remove { at, which } => {
                let removed = entry(&states[at], which).map(|(_, dot, _)| {
                    Causal::new(DotMap::default(), CausalContext::from_iter([dot])).expect("consistent")
                });
                (at, removed)
            }
            Change::Merge { at, from, which: None } => (at, Some(states[from].clone())),
            Change::Merge { at, from, which: Some(which) } => (at, entry(&states[from], which).map(only)),
        };
        if let Some(delta) = delta {
            states[at].merge(&delta);
        }
    }
    states
}

/// The join written down as it stands in the paper, over plain sets.
fn literal_join(x: &State, y: &State) -> BTreeMap<(Name, Dot<Name>), u64> {
    let written = |state: &State| -> BTreeMap<(Name, Dot<Name>), u64> {
        (0..).map_while(|which| entry(state, which)).map(|(key, dot, number)| ((key, dot), number)).collect()
    };
    let (ours, theirs) = (written(x), written(y));
    let both = ours.iter().filter_map(|(at, n)| theirs.get(at).map(|m| (*at, *n.max(m))));
    let only_ours = ours.iter().filter(|((_, dot), _)| !y.context().contains(dot));
    let only_theirs = theirs.iter().filter(|((_, dot), _)| !x.context().contains(dot));
    both.chain(only_ours.chain(only_theirs).map(|(at, n)| (*at, *n))).collect()
}

proptest! {
    #[test]
    fn reachable_pairs_are_a_semilattice(changes in changes()) {
        let [x, y, z] = reach(&changes);
        prop_assert_eq!(laws::check_merge(&x, &y, &z), Ok(()));
    }

    #[test]
    fn the_join_is_that_of_the_paper(changes in changes()) {
        let [x, y, _] = reach(&changes);
        let mut joined = x.clone();
        joined.merge(&y);
        let expected = literal_join(&x, &y);
        prop_assert_eq!(joined.store().dots().count(), expected.len());
        for ((key, dot), number) in expected {
            prop_assert_eq!(joined.store().get(&key).and_then(|dots| dots.get(&dot)), Some(&number));
        }
        prop_assert!(joined.store().iter().all(|(_, dots)| !dots.is_empty()));
    }

    #[test]
    fn pairs_come_back(changes in changes()) {
        for state in reach(&changes) {
            let bytes = codec::encode(&state);
            prop_assert_eq!(codec::decode::<State>(&bytes).expect("decodes"), state);
        }
    }
}

#[test]
fn a_store_must_agree_with_its_context() {
    let one = DotFun::from_iter([(dot(0, 1), 5u64)]);
    let heard_of = CausalContext::from_iter([dot(0, 1)]);
    assert!(Causal::new(one.clone(), heard_of.clone()).is_ok());
    assert_eq!(Causal::new(one.clone(), CausalContext::new()), Err(Inconsistent));
    let twice = DotMap::from_iter([(0, one.clone()), (1, one)]);
    assert_eq!(Causal::new(twice, heard_of), Err(Inconsistent));
}
