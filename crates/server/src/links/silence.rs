//! A site that was silent for so long that others may have removed it asks them before it counts.
//!
//! ```text
//!             it starts, or its links have not run for SILENT_MAX
//!   counts ────────────────────────────────────────────────────────▶ asks: all links are closed and made anew
//!      ▲                                                               │
//!      └───────────────────────────────────────────────────────────────┘
//!        each peer has said over a new link that this site is a member,
//!        or cannot be dialled; or ASK_MAX has passed
//! ```
//!
//! While it asks, what would count waits. A peer that has removed it says so, and then it counts no more.

use std::{
    collections::BTreeSet,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use quipu_engine::Moment;

use super::wire::{BEAT_EVERY, SILENCE_MAX};

/// Peers give a link up after [`SILENCE_MAX`], counted from the last beat. From then on a person can have the site removed
/// as lost; it asks earlier than that.
pub(crate) const SILENT_MAX: Duration = Duration::from_secs(3);
const _: () = assert!(SILENT_MAX.as_millis() + BEAT_EVERY.as_millis() < SILENCE_MAX.as_millis());
/// For so long it asks. Every site is always writable, also one that reaches nobody.
pub(crate) const ASK_MAX: Duration = Duration::from_secs(3);
/// How often the links say that they run.
pub(super) const RUN_EVERY: Duration = Duration::from_millis(250);

/// Whether this site was silent, and has asked its peers since.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// Does it ask at all? Nodes that share a site have a store to ask.
    is_watched: AtomicBool,
    /// When the links last ran, by the clock of the process and by that of the machine: the first stands still while a
    /// machine is suspended.
    ran_elapsed_ms: AtomicU64,
    ran_unix_ms: AtomicU64,
    is_asking: AtomicBool,
    /// Grows when it begins to ask. What was said over a connection of before proves nothing.
    round: AtomicU64,
    asking: Mutex<Option<Asking>>,
}

#[derive(Debug)]
struct Asking {
    /// From the first time on that the links run.
    until_ms: Option<u64>,
    /// Peers that have not answered.
    missing: BTreeSet<u16>,
}

impl Silence {
    fn asking(&self) -> MutexGuard<'_, Option<Asking>> {
        self.asking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on it is noticed if this site is silent. It was until now.
    pub(super) fn watch(&self, now: Moment, peers: BTreeSet<u16>) {
        self.note_run(now);
        self.begin(peers, None);
        self.is_watched.store(true, Ordering::Release);
    }

    fn note_run(&self, now: Moment) {
        self.ran_elapsed_ms.store(now.elapsed_ms, Ordering::Release);
        self.ran_unix_ms.store(now.unix_ms, Ordering::Release);
    }

    fn begin(&self, peers: BTreeSet<u16>, until_ms: Option<u64>) {
        let mut asking = self.asking();
        self.round.fetch_add(1, Ordering::AcqRel);
        self.is_asking.store(true, Ordering::Release);
        *asking = Some(Asking { until_ms, missing: peers });
        self.end_if_answered(&mut asking);
    }

    fn end_if_answered(&self, asking: &mut Option<Asking>) {
        if asking.as_ref().is_some_and(|it| it.missing.is_empty()) {
            *asking = None;
            self.is_asking.store(false, Ordering::Release);
        }
    }

    /// The links have not run for a long time.
    fn has_slept(&self, now: Moment) -> bool {
        let slept = |now_ms: u64, ran_ms: &AtomicU64| {
            let ran_ms = ran_ms.load(Ordering::Acquire);
            u128::from(now_ms.saturating_sub(ran_ms)) > SILENT_MAX.as_millis()
        };
        slept(now.elapsed_ms, &self.ran_elapsed_ms) || slept(now.unix_ms, &self.ran_unix_ms)
    }

    pub(super) fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Acquire)
    }

    /// Must this site ask before it counts? Also true before the links have noticed it themselves.
    pub(super) fn must_ask(&self, now: Moment) -> bool {
        self.is_watched() && (self.is_asking.load(Ordering::Acquire) || self.has_slept(now))
    }

    /// The links run. Returns whether they have to be made anew.
    pub(super) fn run(&self, now: Moment, peers: impl FnOnce() -> BTreeSet<u16>) -> bool {
        if !self.is_watched() {
            return false;
        }
        let until_ms = now.elapsed_ms + u64::try_from(ASK_MAX.as_millis()).unwrap_or(u64::MAX);
        let has_slept = self.has_slept(now);
        if has_slept {
            self.begin(peers(), Some(until_ms));
        } else if let Some(asking) = &mut *self.asking()
            && *asking.until_ms.get_or_insert(until_ms) <= now.elapsed_ms
        {
            tracing::warn!(sites = ?asking.missing, "not asked whether this site is still a member: no answer");
            asking.missing.clear();
        }
        self.end_if_answered(&mut self.asking());
        // Last: until then workers see that it has slept.
        self.note_run(now);
        has_slept
    }

    /// Which round of asking it is. A connection belongs to the round in which it was made.
    pub(super) fn round(&self) -> u64 {
        self.round.load(Ordering::Acquire)
    }

    /// A peer has said over a link of this round that this site is a member, or cannot be asked.
    pub(super) fn answered(&self, peer: u16) {
        let mut asking = self.asking();
        if let Some(asking) = &mut *asking {
            asking.missing.remove(&peer);
        }
        self.end_if_answered(&mut asking);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(elapsed_ms: u64) -> Moment {
        Moment { elapsed_ms, unix_ms: 1_000_000 + elapsed_ms }
    }

    fn peers() -> BTreeSet<u16> {
        BTreeSet::from([2, 3])
    }

    /// One that has asked at its start.
    fn counting() -> Silence {
        let silence = Silence::default();
        silence.watch(at(0), peers());
        assert!(silence.must_ask(at(0)));
        silence.answered(2);
        assert!(silence.must_ask(at(0)));
        silence.answered(3);
        assert!(!silence.must_ask(at(0)));
        silence
    }

    #[test]
    fn who_runs_all_the_time_never_asks() {
        let silence = counting();
        let round = silence.round();
        for at_ms in (0..60_000).step_by(250) {
            assert!(!silence.run(at(at_ms), peers) && !silence.must_ask(at(at_ms + 249)));
        }
        assert_eq!(silence.round(), round);
    }

    #[test]
    fn who_has_slept_asks_and_workers_see_it_before_the_links_do() {
        let silence = counting();
        let round = silence.round();
        assert!(!silence.run(at(1_000), peers));
        assert!(!silence.must_ask(at(4_000)) && silence.must_ask(at(4_001)));
        assert!(silence.run(at(9_000), peers) && silence.must_ask(at(9_000)));
        assert_eq!(silence.round(), round + 1);
        silence.answered(3);
        assert!(!silence.run(at(9_250), peers) && silence.must_ask(at(9_250)));
        silence.answered(2);
        assert!(!silence.must_ask(at(9_250)));
    }

    #[test]
    fn a_machine_that_was_suspended_has_slept() {
        let silence = counting();
        silence.run(at(1_000), peers);
        assert!(silence.must_ask(Moment { unix_ms: 2_000_000, ..at(1_100) }));
    }

    #[test]
    fn nobody_is_asked_for_ever() {
        let silence = counting();
        assert!(silence.run(at(10_000), peers));
        for at_ms in (10_250..13_000).step_by(250) {
            assert!(!silence.run(at(at_ms), peers) && silence.must_ask(at(at_ms)));
        }
        assert!(!silence.run(at(13_000), peers) && !silence.must_ask(at(13_000)));
    }

    #[test]
    fn who_is_alone_has_nobody_to_ask() {
        let silence = Silence::default();
        assert!(!silence.must_ask(at(100_000)));
        silence.watch(at(0), BTreeSet::new());
        assert!(!silence.must_ask(at(0)));
        assert!(silence.run(at(10_000), BTreeSet::new));
        assert!(!silence.must_ask(at(10_000)));
    }
}
