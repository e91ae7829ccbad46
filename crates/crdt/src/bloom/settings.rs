//! What a forgetful filter is made to.

use super::SizeError;
use super::filter::check_size;

/// The most past filters.
pub const PAST_MAX: usize = 28;

/// The most filters in all: future, present and [`PAST_MAX`] past ones.
pub const FILTERS_MAX: usize = PAST_MAX + 2;

/// The size of a [`Forgetful`](super::Forgetful) filter and how long it remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, minicbor::Encode, minicbor::Decode)]
pub struct Settings {
    /// m: bits of each filter.
    #[n(0)]
    pub bits: u64,
    /// k: hash functions.
    #[n(1)]
    pub hashes: u8,
    /// N: past filters.
    #[n(2)]
    pub past: usize,
    /// t: how long elements go into the same filters.
    #[n(3)]
    pub period_ms: u64,
    /// For how long an element must be remembered; not longer than (N + 1)·t.
    #[n(4)]
    pub window_ms: u64,
}

/// A filter with these settings cannot be. State unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The filters are too small or too large.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// Elements would be forgotten while they are being inserted, or the filters would be too many.
    #[error("a forgetful filter has 1 to {PAST_MAX} past filters, not {past}; nothing was changed")]
    Past {
        /// How many were asked for.
        past: usize,
    },
    /// A refresh would always be due.
    #[error("the refresh period must be at least 1 ms; nothing was changed")]
    PeriodZero,
    /// Elements would be kept for several times as long as they are needed.
    #[error(
        "the window of {window_ms} ms is shorter than the refresh period of {period_ms} ms; nothing was changed"
    )]
    WindowShort {
        /// The window asked for.
        window_ms: u64,
        /// The period asked for.
        period_ms: u64,
    },
    /// Elements would be forgotten before the window has passed.
    #[error(
        "{past} past filters refreshed every {period_ms} ms remember for less than the window of {window_ms} ms; nothing was changed"
    )]
    WindowNotCovered {
        /// The past filters asked for.
        past: usize,
        /// The period asked for.
        period_ms: u64,
        /// The window asked for.
        window_ms: u64,
    },
}

impl Settings {
    /// (N + 1)·t: everything younger is remembered.
    pub fn interval_ms(&self) -> u64 {
        let periods = u64::try_from(self.past).unwrap_or(u64::MAX).saturating_add(1);
        periods.saturating_mul(self.period_ms)
    }

    /// Are these settings that a filter can have?
    pub fn check(&self) -> Result<(), SettingsError> {
        let Settings { bits, hashes, past, period_ms, window_ms } = *self;
        check_size(bits, hashes)?;
        if !(1..=PAST_MAX).contains(&past) {
            return Err(SettingsError::Past { past });
        }
        if period_ms == 0 {
            return Err(SettingsError::PeriodZero);
        }
        if window_ms < period_ms {
            return Err(SettingsError::WindowShort { window_ms, period_ms });
        }
        if self.interval_ms() < window_ms {
            return Err(SettingsError::WindowNotCovered { past, period_ms, window_ms });
        }
        Ok(())
    }
}
