//! The oracle: the paper's Figure 1, line by line, and what the paper says about other bounds.

use quipu_crdt::bounded::{Definition, Right};

/// "Bounded Counter for invariant greater or equal to K", with the names of the figure. `id` is the answer
/// of its `repId()`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(non_snake_case, reason = "the names of the figure")]
pub(crate) struct Figure1 {
    pub(crate) R: Vec<Vec<i128>>,
    pub(crate) U: Vec<i128>,
    pub(crate) min: i128,
    pub(crate) id: usize,
}

#[allow(non_snake_case, reason = "the names of the figure")]
impl Figure1 {
    pub(crate) fn initial(n: usize, K: i128, id: usize) -> Self {
        Figure1 { R: vec![vec![0; n]; n], U: vec![0; n], min: K, id }
    }

    pub(crate) fn value(&self) -> i128 {
        self.min + (0..self.U.len()).map(|i| self.R[i][i]).sum::<i128>() - self.U.iter().sum::<i128>()
    }

    pub(crate) fn localRights(&self) -> i128 {
        let id = self.id;
        let others = || (0..self.U.len()).filter(move |i| *i != id);
        self.R[id][id] + others().map(|i| self.R[i][id]).sum::<i128>()
            - others().map(|i| self.R[id][i]).sum::<i128>()
            - self.U[id]
    }

    pub(crate) fn increment(&mut self, n: i128) {
        let id = self.id;
        self.R[id][id] += n;
    }

    pub(crate) fn decrement(&mut self, n: i128) -> bool {
        if self.localRights() < n {
            return false;
        }
        self.U[self.id] += n;
        true
    }

    pub(crate) fn transfer(&mut self, n: i128, to: usize) -> bool {
        let b = self.localRights() >= n;
        if b {
            let from = self.id;
            self.R[from][to] += n;
        }
        b
    }

    pub(crate) fn merge(&mut self, S: &Self) {
        for i in 0..self.U.len() {
            for j in 0..self.U.len() {
                self.R[i][j] = self.R[i][j].max(S.R[i][j]);
            }
            self.U[i] = self.U[i].max(S.U[i]);
        }
    }
}

/// Any bounds, by Figure 1 alone. "x at most K" is "−x at least −K", the mirror image; two bounds are two
/// such counters in one object. The figure's counter starts at its bound, so an initial value is an increment
/// by the creator that everybody knows of; where the first rights are spread, the creator has passed them on.
#[derive(Debug, Clone)]
pub(crate) struct Oracle {
    low: Option<Figure1>,
    high: Option<Figure1>,
}

impl Oracle {
    pub(crate) fn create(n: usize, id: usize, definition: &Definition<u8>) -> Self {
        let from = |bound: i128, initial: i128| {
            let mut figure = Figure1::initial(n, bound, usize::from(*definition.creator()));
            figure.increment(initial - bound);
            for to in (0..n).filter(|to| *to != usize::from(*definition.creator())) {
                assert!(figure.transfer(first_rights(definition, initial - bound, to), to), "it has them");
            }
            Figure1 { id, ..figure }
        };
        let initial = i128::from(definition.initial());
        Oracle {
            low: definition.minimum().map(|minimum| from(minimum.into(), initial)),
            high: definition.maximum().map(|maximum| from(-i128::from(maximum), -initial)),
        }
    }

    pub(crate) fn add(&mut self, amount: u64) -> bool {
        count(&mut self.low, &mut self.high, amount.into())
    }

    pub(crate) fn subtract(&mut self, amount: u64) -> bool {
        count(&mut self.high, &mut self.low, amount.into())
    }

    pub(crate) fn pass(&mut self, right: Right, amount: u64, to: usize) -> bool {
        self.side(right).as_mut().expect("only of rights that exist").transfer(amount.into(), to)
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (ours, theirs) in [(&mut self.low, &other.low), (&mut self.high, &other.high)] {
            if let (Some(ours), Some(theirs)) = (ours, theirs) {
                ours.merge(theirs);
            }
        }
    }

    pub(crate) fn value(&self) -> i128 {
        let values = [self.low.as_ref().map(Figure1::value), self.high.as_ref().map(|high| -high.value())];
        let mut values = values.into_iter().flatten();
        let value = values.next().expect("one bound at least");
        assert!(values.all(|other| other == value), "both sides count the same");
        value
    }

    pub(crate) fn rights(&self, right: Right, id: usize) -> Option<i128> {
        let side = if right == Right::ToSubtract { &self.low } else { &self.high };
        side.clone().map(|figure| Figure1 { id, ..figure }.localRights())
    }

    fn side(&mut self, right: Right) -> &mut Option<Figure1> {
        if right == Right::ToSubtract { &mut self.low } else { &mut self.high }
    }
}

/// The rights that a replica begins with, of so many: one after the other, a share at a time, and what does not divide
/// to the first.
pub(crate) fn first_rights(definition: &Definition<u8>, all: i128, id: usize) -> i128 {
    let shares = definition.shares();
    if shares.is_empty() {
        return if id == usize::from(*definition.creator()) { all } else { 0 };
    }
    let whole: i128 = shares.values().map(|share| i128::from(*share)).sum();
    let portion = |share: u64| all * i128::from(share) / whole;
    let rest = all - shares.values().map(|share| portion(*share)).sum::<i128>();
    let place = shares.keys().position(|holder| usize::from(*holder) == id);
    let extra = |place: usize| i128::from(i128::try_from(place).expect("few") < rest);
    place.map_or(0, |place| portion(shares[&u8::try_from(id).expect("few")]) + extra(place))
}

/// Away from one bound, towards the other.
fn count(away: &mut Option<Figure1>, towards: &mut Option<Figure1>, n: i128) -> bool {
    if towards.as_mut().is_some_and(|figure| !figure.decrement(n)) {
        return false;
    }
    if let Some(figure) = away {
        figure.increment(n);
    }
    true
}
