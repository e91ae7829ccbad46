//! Handoff counters and what no honest replica writes: it is refused, or does no harm.

use minicbor::{Decode, Encode};
use quipu_crdt::codec;
use quipu_crdt::handoff::{Desk, Estate, Handoff, Handshake, Rules, Slot, Token, View};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

type Counter = Handoff<u32, u64>;

/// More handoffs than a replica may claim to have seen.
const CLOCK_MAX: u64 = 1 << 62;

/// The distances between folded clocks, and the floor.
type WrittenArchive = (Vec<u64>, u64);
/// Its target clock, its slots by source, and what was folded.
type WrittenDesk = (u64, BTreeMap<u32, Slot>, Option<WrittenArchive>);

/// What these bytes are as a `T`, if they are one.
fn read<T: for<'b> Decode<'b, ()>>(written: impl Encode<()>) -> Option<T> {
    codec::decode(&codec::encode(&written)).ok()
}

/// A desk with one slot, which has this target clock.
fn desk(target_clock: u64, slot_clock: u64, archive: Option<WrittenArchive>) -> WrittenDesk {
    let slot = Slot { source_clock: 0, target_clock: slot_clock };
    (target_clock, BTreeMap::from([(7, slot)]), archive)
}

#[test]
fn a_desk_has_opened_what_it_has_folded_and_holds() {
    let sound = |written| read::<Desk<u32>>(written).is_some();
    assert!(sound(desk(5, 4, None)));
    assert!(sound(desk(5, 4, Some((vec![0, 1], 3)))), "0 and 2 were folded");
    assert!(sound(desk(5, 4, Some((vec![2], 5)))), "all may have been folded");
    assert!(!sound(desk(5, 5, None)), "a slot that it has not opened yet");
    assert!(!sound(desk(5, 4, Some((vec![0], 6)))), "a floor above what was opened");
    assert!(!sound(desk(5, 4, Some((vec![0, 2], 3)))), "3 is not below the floor");
    assert!(sound(desk(CLOCK_MAX - 1, 4, None)));
    assert!(!sound(desk(CLOCK_MAX, 4, None)), "more slots than anybody opens");
}

/// Model checks tell states apart by their hash.
#[test]
fn desks_that_have_folded_different_slots_have_different_hashes() {
    let hash = |distances: Vec<u64>| {
        let desk: Desk<u32> = read(desk(5, 4, Some((distances, 3)))).expect("a sound desk");
        let mut hasher = DefaultHasher::new();
        desk.hash(&mut hasher);
        hasher.finish()
    };
    assert_ne!(hash(vec![0]), hash(vec![1]));
    assert_eq!(hash(vec![1]), hash(vec![1]));
}

fn token(target: u32, source_clock: u64) -> Token<u32, u64> {
    Token { source: 1, target, slot: Slot { source_clock, target_clock: 0 }, value: 5 }
}

/// Replica 1, which has made so many tokens and still has these.
fn handshake(source_clock: u64, tokens: Vec<Token<u32, u64>>) -> Option<Handshake<u32, u64>> {
    let nothing: Option<u8> = None;
    let active = (0u8, [0u8; 0]);
    read((1u32, 1u8, Rules::Quipu, source_clock, desk(1, 0, None), tokens, nothing, active))
}

#[test]
fn a_handshake_has_made_the_tokens_that_it_has() {
    assert!(handshake(2, vec![token(3, 0), token(4, 1)]).is_some());
    assert!(handshake(2, vec![token(3, 0), token(4, 2)]).is_none(), "a token that it has not made yet");
    assert!(handshake(2, vec![token(4, 0), token(3, 1)]).is_none(), "out of order");
    assert!(handshake(2, vec![token(3, 0), token(3, 1)]).is_none(), "two for one target");
    assert!(handshake(2, vec![token(1, 0)]).is_none(), "one for itself");
    assert!(handshake(CLOCK_MAX - 1, vec![]).is_some());
    assert!(handshake(CLOCK_MAX, vec![]).is_none(), "more tokens than anybody makes");
}

/// The estate of `from` with the desks of these relays, for `heir`.
fn estate(from: u32, heir: u32, desks: &[u32]) -> Estate<u32, u64> {
    let desks: BTreeMap<u32, WrittenDesk> = desks.iter().map(|&name| (name, desk(1, 0, None))).collect();
    let (tokens, notices): (Vec<u8>, BTreeMap<u32, u8>) = Default::default();
    read((from, heir, desks, tokens, notices, 1u8)).expect("estates are checked when they are adopted")
}

#[test]
fn an_estate_that_no_relay_writes_is_not_adopted() {
    let mut heir = Counter::new(0, 0);
    let before = heir.clone();
    assert_eq!(heir.adopt(&estate(1, 0, &[])), None, "without the desk of the relay");
    assert_eq!(heir.adopt(&estate(1, 0, &[0, 1])), None, "with our own desk");
    assert_eq!(heir.adopt(&estate(0, 0, &[0])), None, "our own estate");
    assert_eq!(heir, before);
    assert!(heir.adopt(&estate(1, 0, &[1])).is_some());
}

/// An edge that claims to know the values of sites is not believed: only sites tell each other.
#[test]
fn an_edge_cannot_write_the_values_of_sites() {
    let (mut lima, mut cusco) = (Counter::new(2, 0), Counter::new(3, 0));
    lima.add(&7).expect("a small number");
    let mut bytes = codec::encode(&lima.view_for(&3, 0));
    let tier_at = 3; // After the format, the head of the array and the name.
    assert_eq!(&bytes[tier_at - 1..=tier_at], [2, 0]);
    bytes[tier_at] = 1;
    let forged: View<u32, u64> = codec::decode(&bytes).expect("a view");
    assert_eq!(forged.tier(), 1);
    cusco.merge(&forged).expect("no twin");
    assert_eq!((cusco.others().count(), *cusco.fetch()), (0, 0));
}
