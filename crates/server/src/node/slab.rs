//! Things that are known by a small number; the number of one that has gone is given to a later one.

#[derive(Debug)]
pub(super) struct Slab<T> {
    places: Vec<Option<T>>,
    /// Empty places. One whose thing is only lent is not among them.
    free: Vec<usize>,
}

impl<T> Slab<T> {
    pub(super) const fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }

    /// The number that the next thing gets.
    pub(super) fn next(&self) -> usize {
        self.free.last().copied().unwrap_or(self.places.len())
    }

    pub(super) fn insert(&mut self, thing: T) -> usize {
        if let Some(index) = self.free.pop() {
            self.places[index] = Some(thing);
            return index;
        }
        self.places.push(Some(thing));
        self.places.len() - 1
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.places.get_mut(index)?.as_mut()
    }

    /// Takes a thing out for good; its number may be given again.
    pub(super) fn remove(&mut self, index: usize) -> Option<T> {
        let thing = self.lend(index)?;
        self.free.push(index);
        Some(thing)
    }

    /// Takes a thing out for a moment: its owner can then be borrowed beside it, and its number stays taken.
    pub(super) fn lend(&mut self, index: usize) -> Option<T> {
        self.places.get_mut(index)?.take()
    }

    /// Puts back what was lent.
    pub(super) fn give_back(&mut self, index: usize, thing: T) {
        self.places[index] = Some(thing);
    }

    /// Every number that was ever given.
    pub(super) fn indices(&self) -> std::ops::Range<usize> {
        0..self.places.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_given_again_only_when_its_thing_has_gone() {
        let mut slab = Slab::new();
        assert_eq!((slab.next(), slab.insert("a")), (0, 0));
        assert_eq!((slab.next(), slab.insert("b")), (1, 1));
        assert_eq!(slab.lend(0), Some("a"));
        assert_eq!((slab.remove(0), slab.get_mut(0)), (None, None), "it is lent");
        assert_eq!((slab.next(), slab.insert("c")), (2, 2), "its number stays taken");
        slab.give_back(0, "a");
        assert_eq!(slab.remove(1), Some("b"));
        assert_eq!(slab.remove(1), None, "it frees its number once");
        assert_eq!((slab.next(), slab.insert("d")), (1, 1));
        assert_eq!((slab.next(), slab.insert("e")), (3, 3));
        assert_eq!(slab.iter().copied().collect::<Vec<_>>(), ["a", "d", "c", "e"]);
        assert_eq!(slab.indices(), 0..4);
        assert_eq!((slab.lend(9), slab.remove(9), slab.get_mut(9)), (None, None, None));
    }
}
