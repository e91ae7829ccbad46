//! Which run of a site has written which part of its stream. Two copies of a site's data that are started number their
//! changes alike; whoever has a change of one of them knows by this that the other one's stream is not the same.

use minicbor::{Decode, Encode};

/// The runs that have written a stream, from the first that matters on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(transparent)]
pub(crate) struct Runs(Vec<Run>);

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
struct Run {
    /// Random.
    #[n(0)]
    nonce: u64,
    /// It has written what comes after this, until the next one begins.
    #[n(1)]
    after: u64,
}

impl Runs {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A run goes on where the stream ends. What has written nothing is forgotten.
    pub(crate) fn begin(&mut self, nonce: u64, position: u64) {
        self.cut(position);
        // It may have been read again from what was stored.
        if self.0.last().is_none_or(|last| last.nonce != nonce) {
            self.0.push(Run { nonce, after: position });
        }
    }

    /// The stream ends here.
    pub(crate) fn cut(&mut self, position: u64) {
        self.0.retain(|run| run.after < position);
    }

    /// Who has written the change with this number, if that is known.
    pub(crate) fn writer(&self, number: u64) -> Option<u64> {
        self.0.iter().rev().find(|run| run.after < number).map(|run| run.nonce)
    }

    /// Has somebody else written the change with this number, as others know it?
    pub(crate) fn contradict(&self, number: u64, theirs: Option<u64>) -> bool {
        matches!((self.writer(number), theirs), (Some(ours), Some(theirs)) if ours != theirs)
    }

    /// The stream, which was known up to one position, goes on up to another, as somebody else knows it.
    pub(crate) fn go_on(&mut self, from: u64, to: u64, theirs: &Self) {
        self.cut(from);
        for run in theirs.0.iter().filter(|run| run.after < to) {
            let is_over = theirs.0.iter().any(|next| next.after > run.after && next.after <= from);
            if !is_over && self.0.last().is_none_or(|last| last.nonce != run.nonce) {
                self.0.push(*run);
            }
        }
    }

    /// Nobody has less of the stream than this.
    pub(crate) fn trim(&mut self, position: u64) {
        let over = self.0.iter().filter(|run| run.after < position).count().saturating_sub(1);
        self.0.drain(..over);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_tell_streams_apart_that_have_branched_off() {
        let mut original = Runs::default();
        original.begin(1, 0);
        original.begin(2, 0);
        original.begin(3, 10);
        assert_eq!([0, 1, 10, 11].map(|number| original.writer(number)), [None, Some(2), Some(2), Some(3)]);
        let mut copy = original.clone();
        copy.begin(4, 15);
        original.begin(5, 18);
        // Up to where the copy was made they are the same.
        assert!(!copy.contradict(15, original.writer(15)));
        assert!(copy.contradict(16, original.writer(16)) && copy.contradict(30, original.writer(30)));
    }

    #[test]
    fn what_others_are_told_is_what_there_is() {
        let mut here = Runs::default();
        here.begin(2, 0);
        here.begin(3, 10);
        here.begin(4, 20);
        let mut there = Runs::default();
        there.go_on(0, 12, &here);
        assert_eq!((there.writer(10), there.writer(12)), (Some(2), Some(3)));
        there.go_on(12, 25, &here);
        assert_eq!(there, here);
        there.trim(15);
        assert_eq!((there.writer(5), there.writer(15), there.writer(21)), (None, Some(3), Some(4)));
        there.cut(20);
        assert_eq!(there.writer(30), Some(3));
    }
}
