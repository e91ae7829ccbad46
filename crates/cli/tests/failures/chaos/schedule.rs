//! What goes wrong and when, drawn from a seed before anything runs: the same seed is the same schedule.

use std::{fmt, ops::Range, time::Duration};

use crate::{
    directory::Directory,
    harness::{Cable, Cluster, random::Random},
};

/// From one trouble to the next.
const REST_MS: Range<u64> = 100..1_200;
/// A link is given up when nothing was heard for this time (`SILENCE_MAX` of the server).
const LINK_SILENCE_MS: u64 = 5_000;
const AWAY_MS: Range<u64> = 50..2_500;
const SHORT_PAUSE_MS: Range<u64> = 50..900;
/// Around what links and clients wait for.
const LONG_PAUSE_MS: Range<u64> = 2_000..7_000;
const CUT_MS: Range<u64> = 300..7_000;
/// Shorter than a link waits: nobody is told of anything.
const STALL_MS: Range<u64> = 100..LINK_SILENCE_MS - 800;
const SLOW_FOR_MS: Range<u64> = 1_000..6_000;
const SLOW_MS: Range<u64> = 10..200;
const FULL_MS: Range<u64> = 200..2_500;
/// No file of a site with a full disk grows beyond this. Its log is shorter, and what it stores longer before long.
const FULL_BYTES: u64 = 96 << 10;

/// Something that happens to the sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Kill(u16),
    Start(u16),
    Pause(u16),
    Resume(u16),
    Cut(u16, u16),
    Silence(u16, u16),
    /// What the first says to the second does not come through.
    Stall(u16, u16),
    Slow(u16, u16, u64),
    /// The two reach each other as before.
    Mend(u16, u16),
    FillDisk(u16),
    FreeDisk(u16),
}

/// All steps, by their time.
#[derive(Debug, Clone)]
pub(crate) struct Schedule(pub(crate) Vec<(u64, Step)>);

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(at_ms, step)| writeln!(f, "{at_ms:>8} ms  {step:?}"))
    }
}

fn within(random: &mut Random, range: Range<u64>) -> u64 {
    range.start + random.below(range.end - range.start)
}

fn site(random: &mut Random, sites: u16) -> u16 {
    1 + u16::try_from(random.below(sites.into())).expect("a small number")
}

impl Schedule {
    /// For so many sites and seconds.
    pub(crate) fn draw(random: &mut Random, sites: u16, seconds: u64) -> Self {
        let mut steps = Vec::new();
        let mut at_ms = within(random, REST_MS);
        while at_ms < seconds * 1_000 {
            let one = site(random, sites);
            let other =
                1 + (one - 1 + 1 + u16::try_from(random.below(u64::from(sites) - 1)).expect("small")) % sites;
            let (begin, for_ms, end) = match random.below(12) {
                0..=2 => (Step::Kill(one), within(random, AWAY_MS), Step::Start(one)),
                3 => (Step::Pause(one), within(random, SHORT_PAUSE_MS), Step::Resume(one)),
                4 => (Step::Pause(one), within(random, LONG_PAUSE_MS), Step::Resume(one)),
                5 => (Step::Cut(one, other), within(random, CUT_MS), Step::Mend(one, other)),
                6 => (Step::Silence(one, other), within(random, CUT_MS), Step::Mend(one, other)),
                7 | 8 => (Step::Stall(one, other), within(random, STALL_MS), Step::Mend(one, other)),
                9 => {
                    let slow = Step::Slow(one, other, within(random, SLOW_MS));
                    (slow, within(random, SLOW_FOR_MS), Step::Mend(one, other))
                }
                // A site that is alone for a while.
                10 => {
                    let for_ms = within(random, CUT_MS);
                    for peer in (1..=sites).filter(|peer| *peer != one) {
                        steps.push((at_ms, Step::Cut(one, peer)));
                        steps.push((at_ms + for_ms, Step::Mend(one, peer)));
                    }
                    (Step::Mend(one, one), 0, Step::Mend(one, one))
                }
                _ => (Step::FillDisk(one), within(random, FULL_MS), Step::FreeDisk(one)),
            };
            if begin != end {
                steps.push((at_ms, begin));
                steps.push((at_ms + for_ms, end));
            }
            at_ms += within(random, REST_MS);
        }
        steps.sort_by_key(|(at_ms, _)| *at_ms);
        Self(steps)
    }
}

/// The sites, and what is wrong with them now.
pub(crate) struct Sites<'a> {
    pub(crate) cluster: &'a mut Cluster,
    pub(crate) directory: &'a Directory,
}

impl Sites<'_> {
    /// Lets something happen. What cannot happen, because the site does not run or does already, is left out.
    pub(crate) fn take(&mut self, step: Step) {
        match step {
            Step::Kill(site) if self.cluster.is_running(site) => {
                self.cluster.take(site).kill();
                self.directory.remove(site);
            }
            Step::Start(site) if !self.cluster.is_running(site) => self.start(site),
            Step::Pause(site) if self.cluster.is_running(site) => self.cluster.running(site).signal("STOP"),
            Step::Resume(site) if self.cluster.is_running(site) => self.cluster.running(site).signal("CONT"),
            Step::Cut(one, other) => self.cluster.set(one, other, Cable::Cut),
            Step::Silence(one, other) => self.cluster.set(one, other, Cable::Silent),
            Step::Stall(from, to) => self.cluster.stall(from, to, true),
            Step::Slow(one, other, ms) => self.cluster.delay(one, other, Duration::from_millis(ms)),
            Step::Mend(one, other) => self.mend(one, other),
            Step::FillDisk(site) if self.cluster.is_running(site) => {
                self.cluster.running(site).limit_files(Some(FULL_BYTES));
            }
            Step::FreeDisk(site) if self.cluster.is_running(site) => {
                self.cluster.running(site).limit_files(None);
            }
            _ => {}
        }
    }

    fn start(&mut self, site: u16) {
        self.cluster.start_site(site);
        self.directory.enter(site, self.cluster.running(site));
    }

    fn mend(&self, one: u16, other: u16) {
        self.cluster.set(one, other, Cable::Whole);
        self.cluster.stall(one, other, false);
        self.cluster.stall(other, one, false);
        self.cluster.delay(one, other, Duration::ZERO);
    }

    /// Nothing is wrong any more, and all run.
    pub(crate) fn heal(&mut self) {
        let sites: Vec<u16> = self.cluster.sites.keys().copied().collect();
        for (at, one) in sites.iter().enumerate() {
            sites[at + 1..].iter().for_each(|other| self.mend(*one, *other));
        }
        for site in sites {
            for step in [Step::FreeDisk(site), Step::Resume(site), Step::Start(site)] {
                self.take(step);
            }
        }
    }

    /// All are killed and come back.
    pub(crate) fn restart_all(&mut self) {
        for site in self.cluster.sites.keys().copied().collect::<Vec<_>>() {
            self.take(Step::Kill(site));
            self.take(Step::Start(site));
        }
    }
}
