//! Measuring how often filters err.

use crate::run::{Refused, RunError, Watch, go_on, within};
use quipu_crdt::bloom::ElementHash;
use quipu_crdt::testing::Random;

/// How long to look for errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Errors after which a rate is known well enough: 100 tell it to about a tenth.
    pub found_enough: u64,
    /// Elements after which to give up, or a few more.
    pub probes_max: u64,
    /// Threads that look. The result does not depend on their number.
    pub threads: usize,
}

/// The most elements that are looked up for one rate.
pub const PROBES_MAX: u64 = 1_000_000_000_000;

/// The most threads.
pub const THREADS_MAX: usize = 64;

impl Default for Effort {
    fn default() -> Self {
        Effort { found_enough: 100, probes_max: 1_000_000_000, threads: 2 }
    }
}

impl Effort {
    /// Where another experiment has the other core.
    pub fn one_thread() -> Self {
        Effort { threads: 1, ..Effort::default() }
    }

    pub(super) fn check(&self) -> Result<(), Refused> {
        within("--found", &self.found_enough, &(1..=PROBES_MAX))?;
        within("--probes-max", &self.probes_max, &(1..=PROBES_MAX))?;
        within("--threads", &self.threads, &(1..=THREADS_MAX))
    }

    /// Is a rate like this one likely to show? With ten errors it is known to about a third.
    pub(super) fn can_show(&self, rate: f64) -> bool {
        rate * self.probes_max as f64 >= 10.0
    }
}

/// How many of the elements looked up were found, though none was inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Measured {
    /// Elements looked up.
    pub probes: u64,
    /// Those that were found.
    pub found: u64,
}

impl Measured {
    /// The share that was found.
    pub fn rate(&self) -> f64 {
        self.found as f64 / self.probes as f64
    }
}

/// Chunks of one round, after which the errors are counted. More than one, so that threads can share them.
const ROUND_CHUNKS: u64 = 16;

/// The size of a chunk in the first round; it doubles until it has grown to the largest.
const CHUNK_PROBES_MIN: u64 = 1 << 10;
const CHUNK_PROBES_MAX: u64 = 1 << 18;

/// Asks the subjects in turn for random elements until enough are found, or none is worth trying any more.
///
/// Each subject is the same filter with other elements in it: a single one may by chance have more bits set
/// than another.
pub(super) fn measure<T: Sync>(
    subjects: &[T],
    seed: u64,
    effort: &Effort,
    finds: impl Fn(&T, ElementHash) -> bool + Sync,
    watch: &mut Watch<'_>,
) -> Result<Measured, RunError> {
    let mut total = Measured::default();
    let (mut first_chunk, mut chunk_probes) = (0, CHUNK_PROBES_MIN);
    while total.found < effort.found_enough && total.probes < effort.probes_max {
        let by_found = total.found as f64 / effort.found_enough as f64;
        let by_probes = total.probes as f64 / effort.probes_max as f64;
        go_on(watch, by_found.max(by_probes))?;

        let left = (effort.probes_max - total.probes).div_ceil(ROUND_CHUNKS);
        chunk_probes = chunk_probes.min(left);
        total.found += round(first_chunk, effort.threads, |chunk| {
            let index = usize::try_from(chunk).expect("fewer chunks than addresses") % subjects.len();
            let mut random = Random::stream(seed, &format!("probes, chunk {chunk}"));
            let found = (0..chunk_probes).filter(|_| finds(&subjects[index], stranger(&mut random)));
            u64::try_from(found.count()).expect("64 bits")
        });
        total.probes += ROUND_CHUNKS * chunk_probes;
        first_chunk += ROUND_CHUNKS;
        chunk_probes = (2 * chunk_probes).min(CHUNK_PROBES_MAX);
    }
    Ok(total)
}

/// An element that nobody has inserted.
fn stranger(random: &mut Random) -> ElementHash {
    ElementHash::from((u128::from(random.bits()) << 64) | u128::from(random.bits()))
}

/// The sum over the chunks of a round, shared out among the threads.
fn round(first_chunk: u64, threads: usize, count: impl Fn(u64) -> u64 + Sync) -> u64 {
    let chunks = first_chunk..first_chunk + ROUND_CHUNKS;
    if threads == 1 {
        return chunks.map(count).sum();
    }
    let count = &count;
    std::thread::scope(|scope| {
        let share = |thread| chunks.clone().skip(thread).step_by(threads);
        let workers: Vec<_> =
            (0..threads).map(share).map(|share| scope.spawn(move || share.map(count).sum::<u64>())).collect();
        workers.into_iter().map(|worker| worker.join().expect("counting does not fail")).sum()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_crdt::bloom::Bloom;

    /// Errs on one in a hundred.
    fn crowded() -> Bloom {
        let mut bloom = Bloom::new(10_000, 1).expect("a valid size");
        (0u8..100).for_each(|number| bloom.insert(ElementHash::of(&[number])));
        bloom
    }

    #[test]
    fn stops_at_enough_or_at_the_most() {
        let effort = Effort { found_enough: 100, probes_max: 1_000_000, threads: 1 };
        let measured =
            measure(&[crowded()], 1, &effort, Bloom::contains, &mut |_| true).expect("not stopped");
        assert!(measured.found >= 100 && measured.probes < 100_000, "{measured:?}");
        assert!((0.007..0.013).contains(&measured.rate()), "{measured:?}");
        let never = measure(&[()], 1, &effort, |(), _| false, &mut |_| true).expect("not stopped");
        assert_eq!(never, Measured { probes: 1_000_000, found: 0 });
        assert_eq!(measure(&[()], 1, &effort, |(), _| false, &mut |_| false), Err(RunError::Stopped));
    }

    #[test]
    fn the_number_of_threads_makes_no_difference() {
        let with = |threads| {
            let effort = Effort { found_enough: 5_000, probes_max: 300_000, threads };
            measure(&[crowded(), crowded()], 7, &effort, Bloom::contains, &mut |_| true)
        };
        assert_eq!(with(1), with(2));
        assert_eq!(with(1), with(5));
    }
}
