//! The experiments of "Idempotent Distributed Counters Using a Forgetful Bloom Filter" (Subramanyam, Gupta,
//! Leslie and Wang, section VI), with the filters of `quipu_crdt::bloom`.
//!
//! One module for each: its parameters (by default the paper's, and where the paper is silent the ones that
//! the field's comment gives), its rows and `run`. Rates are measured by looking up elements that were never
//! inserted, in several filters of the same kind ([`FILTERS`]), until enough are found.
//!
//! | module | figure | question |
//! |---|---|---|
//! | [`membership`] | 8 | What does asking pairs of neighbours gain over asking all filters? |
//! | [`model`] | 9, 10 | Does the equation tell how often a filter errs? |
//! | [`refresh`] | 11 | What does a shorter period gain? |
//! | [`number`] | 12 | What do more filters gain? |
//! | [`adapt`] | 13 | Does resizing hold a target? |
//! | [`retries`] | 14 | What is a counter worth when acknowledgements are lost? |
//! | [`recyclable`] | 16 | What does a single filter of the same memory do? |

pub mod adapt;
mod load;
pub mod membership;
pub mod model;
pub mod number;
mod printed;
mod probe;
pub mod recyclable;
pub mod refresh;
pub mod retries;
mod rising;

pub use load::{LOAD_POINTS_MAX, LoadPoint, RATE_MAX};
pub use probe::{Effort, Measured, PROBES_MAX, THREADS_MAX};
pub use rising::{Moment, Reading};

use crate::report::Cell;
use crate::run::{Refused, within};
use quipu_crdt::bloom::{BITS_MAX, ElementHash, HASHES_MAX, PAST_MAX, Settings};
use quipu_crdt::testing::Random;

/// So many filters of the same kind with different elements are measured together.
pub const FILTERS: usize = 16;

/// The most elements or operations of a run.
pub const ELEMENTS_MAX: u64 = 10_000_000;

/// The longest period or window: a day.
pub const PERIOD_MS_MAX: u64 = 86_400_000;

/// Elements that differ from one stream to another.
struct Elements {
    random: Random,
}

impl Elements {
    fn new(seed: u64, stream: usize) -> Self {
        Elements { random: Random::stream(seed, &format!("elements, stream {stream}")) }
    }

    fn next(&mut self) -> ElementHash {
        let id = [self.random.bits(), self.random.bits()];
        ElementHash::of(&id.map(u64::to_le_bytes).concat())
    }
}

/// Checks each field of the settings by itself, then all of them together.
fn check_settings(settings: &Settings) -> Result<(), Refused> {
    let Settings { bits, hashes, past, period_ms, window_ms } = settings;
    within("--bits", bits, &(1..=BITS_MAX))?;
    within("--hashes", hashes, &(1..=HASHES_MAX))?;
    within("--past", past, &(1..=PAST_MAX))?;
    within("--period-ms", period_ms, &(1..=PERIOD_MS_MAX))?;
    // What remains is that the window lies between the period and what is remembered.
    within("--window-ms", window_ms, &(*period_ms..=settings.interval_ms()))
}

fn rate(measured: Option<Measured>) -> Cell {
    measured.map_or(Cell::Missing, |measured| Cell::Rate(measured.rate()))
}
