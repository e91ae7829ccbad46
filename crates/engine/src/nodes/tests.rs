use std::cell::Cell;

use proptest::prelude::*;
use quipu_storage::{Log, memory::Memory};

use super::*;

fn nodes(numbers: impl IntoIterator<Item = u128>) -> BTreeSet<NodeId> {
    numbers.into_iter().map(NodeId).collect()
}

fn shares(shared: &[Option<NodeId>]) -> BTreeMap<NodeId, usize> {
    let mut shares = BTreeMap::new();
    for owner in shared.iter().flatten() {
        *shares.entry(*owner).or_default() += 1;
    }
    shares
}

fn moved(before: &[Option<NodeId>], after: &[Option<NodeId>]) -> usize {
    before.iter().zip(after).filter(|(before, after)| before != after).count()
}

proptest! {
    #[test]
    fn shares_are_even_and_only_what_must_move_moves(
        owners in prop::collection::vec(prop::option::of(0u128..6), 1..80),
        present in prop::collection::btree_set(0u128..6, 1..6),
    ) {
        let owners: Vec<Option<NodeId>> = owners.into_iter().map(|owner| owner.map(NodeId)).collect();
        let present = nodes(present);
        let shared = share_out(&owners, &present);
        prop_assert_eq!(shared.len(), owners.len());
        prop_assert!(shared.iter().all(|owner| owner.is_some_and(|owner| present.contains(&owner))));
        let (least, more) = (owners.len() / present.len(), owners.len() % present.len());
        let shares = shares(&shared);
        let share = |node: &NodeId| shares.get(node).copied().unwrap_or(0);
        prop_assert!(present.iter().all(|node| (least..=least + 1).contains(&share(node))));
        prop_assert_eq!(present.iter().filter(|node| share(node) > least).count(), more);
        // No even sharing keeps more: each node keeps what it has up to its limit, and the higher limits go to those who
        // have most.
        let mut held: Vec<usize> = present
            .iter()
            .map(|node| owners.iter().filter(|owner| **owner == Some(*node)).count())
            .collect();
        held.sort_unstable_by(|one, other| other.cmp(one));
        let kept: usize = held.iter().enumerate().map(|(at, held)| (*held).min(least + usize::from(at < more))).sum();
        prop_assert_eq!(moved(&owners, &shared), owners.len() - kept);
        // And it is a rest: shared out again, nothing moves.
        prop_assert_eq!(share_out(&shared, &present), shared);
    }
}

#[test]
fn with_nobody_there_nobody_has_anything() {
    assert_eq!(share_out(&[Some(NodeId(1)), None], &BTreeSet::new()), vec![None, None]);
}

/// A node over a memory that others share.
struct Place {
    keeper: Keeper,
    log: quipu_storage::memory::MemoryLog,
    open: BTreeSet<ShardId>,
    sits: bool,
    together: bool,
    drains: bool,
}

const SEAT: ShardId = ShardId(u16::MAX);

impl Place {
    fn new(memory: &Memory, number: u128) -> Self {
        let registry = Arc::new(memory.registry(NodeId(number)));
        let keeper = Keeper::new(registry, (0..4).map(ShardId).collect(), SEAT, 5_000, Vec::new());
        let log = memory.log_of(NodeId(number));
        Self { keeper, log, open: BTreeSet::new(), sits: false, together: false, drains: false }
    }

    fn beat(&mut self, now_ms: u64) -> Trust {
        self.keeper.beat(|| now_ms, self.drains).unwrap()
    }

    fn look(&mut self, now_ms: u64) -> Advice {
        let holding = Holding { shards: self.open.clone(), seat: self.sits, together: self.together };
        self.keeper.look(|| now_ms, || holding).unwrap()
    }

    /// Does what it is advised to. Returns how many it has taken and released.
    fn follow(&mut self, advice: &Advice) -> (usize, usize) {
        let mut taken = 0;
        for (shard, seen) in &advice.take {
            if self.log.take_seen(*shard, *seen).unwrap().is_some() {
                self.open.insert(*shard);
                taken += 1;
            }
        }
        if let Some(seen) = advice.seat.take {
            self.sits = self.log.take_seen(SEAT, seen).unwrap().is_some();
        }
        if advice.seat.release {
            self.log.release(SEAT).unwrap();
            self.sits = false;
        }
        for shard in &advice.release {
            self.log.release(*shard).unwrap();
            self.open.remove(shard);
        }
        (taken, advice.release.len())
    }

    fn turn(&mut self, now_ms: u64) -> (usize, usize) {
        self.beat(now_ms);
        let advice = self.look(now_ms);
        self.follow(&advice)
    }
}

#[test]
fn a_node_alone_takes_everything_and_shares_it_with_the_next() {
    let memory = Memory::new();
    let (mut first, mut second) = (Place::new(&memory, 1), Place::new(&memory, 2));
    assert_eq!(first.turn(0), (4, 0));
    assert_eq!(second.turn(100), (0, 0), "they are not free yet");
    assert!(!second.look(100).is_certain, "the other one may have been gone for long");
    assert_eq!(second.look(100).routes[&ShardId(3)], NodeId(1));
    assert_eq!(first.turn(500), (0, 2));
    assert_eq!(first.turn(550), (0, 0), "what is for another is not taken back");
    assert_eq!(second.turn(600), (2, 0));
    assert!(second.look(600).is_certain);
    assert_eq!((first.turn(1_000), second.turn(1_100)), ((0, 0), (0, 0)));
    assert_eq!(first.look(1_200).routes, second.look(1_200).routes);
}

#[test]
fn what_a_silent_node_has_is_taken_and_one_that_counts_keeps_its_own() {
    let memory = Memory::new();
    let (mut first, mut second) = (Place::new(&memory, 1), Place::new(&memory, 2));
    second.turn(0);
    first.turn(0);
    second.turn(1);
    first.turn(1);
    assert_eq!((first.open.len(), second.open.len()), (2, 2));
    assert_eq!(first.turn(5_000), (0, 0));
    assert_eq!(first.turn(5_001), (2, 0), "the other one was last new here at 1");
    // It was only slow: its fences are gone, as it can see, and it gets others.
    assert_eq!(second.look(5_900).doubtful.len(), 2);
    second.open.clear();
    assert_eq!(second.turn(6_000), (0, 0));
    assert_eq!(first.turn(6_500), (0, 2));
    assert_eq!(second.turn(7_000), (2, 0));
    // One whose row has gone is gone at once.
    memory.registry(NodeId(9)).remove(NodeId(2)).unwrap();
    assert_eq!(first.turn(7_500), (2, 0));
    assert!(matches!(second.keeper.look(|| 7_600, Holding::default), Err(LookError::Removed(Removed))));
}

#[test]
fn a_shard_whose_owner_is_at_work_again_is_not_taken() {
    let memory = Memory::new();
    let (mut first, mut second) = (Place::new(&memory, 1), Place::new(&memory, 2));
    assert_eq!(first.turn(0), (4, 0));
    second.turn(0);
    second.beat(5_000);
    let advice = second.look(5_000);
    assert_eq!(advice.take.len(), 4, "it was silent");
    let batch = quipu_storage::Batch { shard: ShardId(2), record: Vec::new() };
    first.log.commit(&[batch], quipu_storage::Flush::Now);
    assert_eq!(second.follow(&advice), (3, 0), "and then it was not, in one of them");
}

#[test]
fn a_node_that_drains_gives_all_away_unless_it_is_the_last() {
    let memory = Memory::new();
    let (mut first, mut second) = (Place::new(&memory, 1), Place::new(&memory, 2));
    first.drains = true;
    assert_eq!(first.turn(0), (4, 0), "there is nobody else");
    second.turn(0);
    assert_eq!(first.turn(100), (0, 4));
    assert_eq!(second.turn(200), (4, 0));
    assert_eq!(first.turn(300), (0, 0));
}

/// What is asked of the store can be done and not be heard of.
#[test]
fn what_a_node_has_taken_unheard_it_opens_or_gives_away() {
    let memory = Memory::new();
    let (mut first, mut second) = (Place::new(&memory, 1), Place::new(&memory, 2));
    first.turn(0);
    second.turn(0);
    assert_eq!((first.turn(100), second.turn(100)), ((0, 2), (2, 0)));
    let theirs = *second.open.first().unwrap();
    // The first has all it should have, and has taken one more of which it knows nothing.
    second.log.release(theirs).unwrap();
    second.open.remove(&theirs);
    first.log.take(theirs).unwrap();
    assert_eq!(second.turn(200), (0, 0), "it has an owner that is there");
    let advice = first.look(200);
    assert_eq!((advice.take.len(), advice.release.len()), (0, 0));
    assert_eq!(advice.free.iter().map(|(shard, _)| *shard).collect::<Vec<_>>(), [theirs]);
    first.log.release(theirs).unwrap();
    assert_eq!(second.turn(300), (1, 0));
    assert_eq!(first.look(400).routes, second.look(400).routes);
    // One that it should have it takes, however often it was taken before.
    let own = *first.open.first().unwrap();
    first.open.remove(&own);
    assert_eq!(second.turn(500), (0, 0));
    assert_eq!(first.turn(500), (1, 0));
}

#[test]
fn one_speaks_and_has_all_shards_while_they_are_together() {
    let memory = Memory::new();
    let mut places: Vec<Place> = (1..=3).map(|number| Place::new(&memory, number)).collect();
    let turns = |places: &mut Vec<Place>, now_ms: u64| {
        for round in 0..4 {
            places.iter_mut().for_each(|place| _ = place.turn(now_ms + round));
        }
    };
    turns(&mut places, 0);
    assert_eq!(places.iter().filter(|place| place.sits).count(), 1);
    assert!(places.iter().all(|place| (1..=2).contains(&place.open.len())));
    places.iter_mut().for_each(|place| place.together = true);
    turns(&mut places, 100);
    let speaker = places.iter().position(|place| place.sits).unwrap();
    assert_eq!(places[speaker].open.len(), 4);
    assert!(places.iter_mut().all(|place| place.look(200).seat.speaker == Some(NodeId(speaker as u128 + 1))));
    // When it is to give its shards away it gives the seat, too.
    places[speaker].drains = true;
    turns(&mut places, 300);
    assert!(!places[speaker].sits && places[speaker].open.is_empty());
    assert_eq!(places.iter().map(|place| place.open.len()).sum::<usize>(), 4);
}

#[test]
fn trust_lapses_before_others_find_silence_and_comes_back_as_another() {
    let memory = Memory::new();
    let mut place = Place::new(&memory, 1);
    let first = place.beat(1_000);
    assert_eq!(first.until_ms, 5_000, "a fifth of the silence is for clocks");
    let second = place.beat(4_999);
    assert_eq!((second.epoch, second.until_ms), (first.epoch, 8_999));
    let third = place.beat(8_999);
    assert_eq!((third.epoch, third.until_ms), (first.epoch + 1, 12_999));
    // Begun in time, and seen by others too late.
    let now_ms = Cell::new(12_000);
    let slow = || now_ms.replace(13_000);
    assert_eq!(place.keeper.beat(slow, false).unwrap(), Trust { epoch: first.epoch + 2, until_ms: 16_000 });
}
