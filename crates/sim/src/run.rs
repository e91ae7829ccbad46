//! What all experiments have in common: how they are watched, and how they end early.

use std::fmt::Display;
use std::ops::RangeInclusive;

/// Told how much of a run is done, from 0 to 1; says whether to go on.
pub type Watch<'a> = dyn FnMut(f64) -> bool + 'a;

/// A parameter that cannot be. Nothing ran.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{flag}: {problem}")]
pub struct Refused {
    /// The parameter as the command line spells it.
    pub flag: &'static str,
    /// The value given and what is allowed.
    pub problem: String,
}

/// Why an experiment has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// It was not begun.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Its watcher did not want to go on.
    #[error("stopped before the end")]
    Stopped,
    /// Something that is checked while it runs does not hold.
    #[error("{0}")]
    Failed(String),
}

/// Is the value in the range?
pub(crate) fn within<T: PartialOrd + Display>(
    flag: &'static str,
    value: &T,
    range: &RangeInclusive<T>,
) -> Result<(), Refused> {
    if range.contains(value) {
        return Ok(());
    }
    Err(Refused { flag, problem: format!("{value} is not in {}..={}", range.start(), range.end()) })
}

/// Is there at least one value, and is each in the range?
pub(crate) fn all_within<T: PartialOrd + Display>(
    flag: &'static str,
    values: &[T],
    range: &RangeInclusive<T>,
) -> Result<(), Refused> {
    if values.is_empty() {
        return Err(Refused { flag, problem: "at least one value is needed".to_owned() });
    }
    values.iter().try_for_each(|value| within(flag, value, range))
}

/// Goes on, or ends with [`RunError::Stopped`].
pub(crate) fn go_on(watch: &mut Watch<'_>, done: f64) -> Result<(), RunError> {
    if watch(done) { Ok(()) } else { Err(RunError::Stopped) }
}
