//! What a shard is told when it is opened, and the time.

use crate::{Rules, SiteId, handoff::Transient};

/// The time, twice. The first never goes back and is what durations are measured by; the second is only compared
/// with times that ids tell of themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moment {
    /// Since the process began.
    pub elapsed_ms: u64,
    /// Since 1970, by this machine's clock.
    pub unix_ms: u64,
}

/// How operations are recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WindowMode {
    /// What the filter is not sure of is looked up: no error in either direction.
    #[default]
    Exact,
    /// The filter alone decides, as in the paper: rarely, a new operation is taken for a repeat and not counted.
    Filter,
}

/// For how long operations are remembered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    pub(crate) length_ms: u64,
    pub(crate) mode: WindowMode,
    pub(crate) error_target: f64,
}

/// A window that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum BadWindow {
    /// Too short to be of use, or so long that its operations would fill the disk.
    #[error(
        "operations are remembered for {min} ms to {max} ms, not for {length_ms} ms",
        min = Window::LENGTH_MS_MIN,
        max = Window::LENGTH_MS_MAX
    )]
    Length {
        /// What was asked for.
        length_ms: u64,
    },
    /// No filter errs never, and one that errs often is of no use.
    #[error("the filter may err with a probability above 0 and up to {max}, not {target}", max = Window::ERROR_TARGET_MAX)]
    ErrorTarget {
        /// What was asked for.
        target: f64,
    },
}

impl Window {
    /// The shortest.
    pub const LENGTH_MS_MIN: u64 = 1_000;
    /// The longest: a week.
    pub const LENGTH_MS_MAX: u64 = 7 * 24 * 3600 * 1000;
    /// A filter that errs more often saves nothing.
    pub const ERROR_TARGET_MAX: f64 = 0.1;

    /// A window of this length; `error_target` is how often the filter may take a new operation for an old one.
    pub fn new(length_ms: u64, mode: WindowMode, error_target: f64) -> Result<Self, BadWindow> {
        if !(Self::LENGTH_MS_MIN..=Self::LENGTH_MS_MAX).contains(&length_ms) {
            return Err(BadWindow::Length { length_ms });
        }
        if !(error_target > 0.0 && error_target <= Self::ERROR_TARGET_MAX) {
            return Err(BadWindow::ErrorTarget { target: error_target });
        }
        Ok(Self { length_ms, mode, error_target })
    }

    /// How long it is.
    pub fn length_ms(&self) -> u64 {
        self.length_ms
    }

    /// A filter remembers for so much longer than it must.
    pub(crate) fn fading_ms(&self) -> u64 {
        self.length_ms / 8
    }

    /// How far ahead of this machine's clock an id may have been made.
    pub(crate) fn ahead_ms_max(&self) -> u64 {
        self.length_ms / 2
    }
}

impl Default for Window {
    /// Ten minutes, exact, one error of the filter in a million.
    fn default() -> Self {
        Self { length_ms: 600_000, mode: WindowMode::Exact, error_target: 1e-6 }
    }
}

/// What a shard is told when it is opened.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The site whose rows it writes.
    pub site: SiteId,
    /// Random, another one for each process; none, if nobody could start a copy.
    pub run: Option<u64>,
    /// For how long operations are remembered.
    pub window: Window,
    /// Counters beyond this go to disk, as soon as they can.
    pub memory_bytes: usize,
    /// Anything; another one in each process, so that nobody can choose keys that collide.
    pub seed: u64,
    /// So many operations may wait until all sites have heard of them; beyond that, operations with ids are refused.
    pub unsettled_max: usize,
    /// How sites treat each other.
    pub rules: Rules,
    /// It hands over what it counts: not a site, but a relay or an edge.
    pub transient: Option<Transient>,
    /// Slots of edges are folded after so many seconds.
    pub edge_ttl_s: u64,
}

impl Settings {
    /// How many operations of a shard may wait for other sites, unless it is told otherwise.
    pub const UNSETTLED_MAX: usize = 32 * 1024;
    /// How long a slot waits for its edge, in seconds, unless it is told otherwise: thirty days.
    pub const EDGE_TTL_S: u64 = 30 * 24 * 3600;
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            site: SiteId::FIRST,
            run: None,
            window: Window::default(),
            memory_bytes: 16 * 1024 * 1024,
            seed: 0,
            unsettled_max: Self::UNSETTLED_MAX,
            rules: Rules::default(),
            transient: None,
            edge_ttl_s: Self::EDGE_TTL_S,
        }
    }
}
