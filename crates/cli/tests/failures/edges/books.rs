//! What the processes of an edge have reported, and what counters must show for it.
//!
//! Each add is a digit of its own in the value of a counter that ten edges share: a value tells of every single add
//! whether it was counted never, once or more often.

use std::collections::BTreeMap;

/// So many edges count on the same counter.
const EDGES_OF_KEY: usize = 10;
/// And each of them so many times.
const ADDS_OF_KEY: usize = 3;
/// A digit is of this base: an add could be counted three times and be found out.
const BASE_BITS: usize = 2;

/// What is known of an add.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// A process has said that it is counted.
    Reported,
    /// Its process was killed before it said anything.
    InDoubt,
}

/// Where the add with this number is counted, and as how much.
pub(crate) fn place(edge: usize, add: usize) -> (String, i64) {
    let (group, key) = (edge / EDGES_OF_KEY, add / ADDS_OF_KEY);
    let digit = (edge % EDGES_OF_KEY) * ADDS_OF_KEY + add % ADDS_OF_KEY;
    let amount = 1 << (BASE_BITS * digit);
    // On every other counter all is subtracted.
    (format!("shared:{group}:{key}"), if key % 2 == 0 { amount } else { -amount })
}

/// The adds of one edge, by their numbers.
#[derive(Debug)]
pub(crate) struct Books {
    edge: usize,
    adds: Vec<Fate>,
}

impl Books {
    pub(crate) fn new(edge: usize) -> Self {
        Self { edge, adds: Vec::new() }
    }

    /// The number of the next add: one in doubt is never made again.
    pub(crate) fn next(&self) -> usize {
        self.adds.len()
    }

    pub(crate) fn note(&mut self, fate: Fate) {
        self.adds.push(fate);
    }

    pub(crate) fn reported(&self) -> u64 {
        self.count(Fate::Reported)
    }

    pub(crate) fn in_doubt(&self) -> u64 {
        self.count(Fate::InDoubt)
    }

    fn count(&self, fate: Fate) -> u64 {
        self.adds.iter().filter(|found| **found == fate).count() as u64
    }
}

/// The adds of all edges, by counter and place in its value.
pub(crate) fn by_key<'a>(books: impl Iterator<Item = &'a Books>) -> BTreeMap<String, BTreeMap<u32, Fate>> {
    let mut keys: BTreeMap<String, BTreeMap<u32, Fate>> = BTreeMap::new();
    for Books { edge, adds } in books {
        for (add, fate) in adds.iter().enumerate() {
            let (key, amount) = place(*edge, add);
            keys.entry(key).or_default().insert(amount.trailing_zeros(), *fate);
        }
    }
    keys
}

/// How many of the adds in doubt a value contains; an error if it is not a value that these adds can have.
pub(crate) fn read(key: &str, value: i64, adds: &BTreeMap<u32, Fate>) -> Result<u64, String> {
    let (mut left, mut in_doubt) = (value.unsigned_abs(), 0);
    for (bit, fate) in adds {
        let times = (left >> bit) & ((1 << BASE_BITS) - 1);
        left -= times << bit;
        match (fate, times) {
            (Fate::Reported, 1) | (Fate::InDoubt, 0) => {}
            (Fate::InDoubt, 1) => in_doubt += 1,
            _ => return Err(format!("{key} is {value}: the add at bit {bit}, {fate:?}, {times} times")),
        }
    }
    match left {
        0 => Ok(in_doubt),
        _ => Err(format!("{key} is {value}: nobody has ever begun to add {left} of it")),
    }
}

/// A value tells what is wrong with it.
pub(crate) fn a_value_tells_of_every_add() {
    let mut books = [Books::new(0), Books::new(9)];
    for fate in [Fate::Reported, Fate::InDoubt, Fate::Reported] {
        books[0].note(fate);
    }
    books[1].note(Fate::Reported);
    let keys = by_key(books.iter());
    let (key, adds) = keys.first_key_value().expect("all are on one counter");
    assert_eq!(keys.len(), 1);
    let amount = |edge, add| place(edge, add).1;
    let exact = amount(0, 0) + amount(0, 2) + amount(9, 0);
    assert_eq!(read(key, exact, adds), Ok(0));
    assert_eq!(read(key, exact + amount(0, 1), adds), Ok(1), "the one in doubt may be there");
    for by in [-amount(0, 0), amount(0, 2), 2 * amount(0, 1), amount(9, 0), -amount(9, 0), amount(9, 1)] {
        read(key, exact + by, adds).expect_err("it must be noticed");
    }
}
