//! Progress bars: on a terminal, and nowhere else.

use crate::interrupt;
use indicatif::{ProgressBar, ProgressStyle};
use quipu_sim::{RunError, Watch};
use std::sync::atomic::Ordering;

/// A bar is drawn in so many steps.
const STEPS: u64 = 1_000;

/// An empty bar with a label.
pub(crate) fn bar(label: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix:18} {bar:40} {percent:>3}%, {eta} left");
    ProgressBar::new(STEPS).with_style(style.expect("the template is valid")).with_prefix(label.to_owned())
}

/// Shows how much is done, from 0 to 1.
pub(crate) fn show(bar: &ProgressBar, done: f64) {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates")]
    let steps = (done * STEPS as f64) as u64;
    bar.set_position(steps);
}

/// Runs with a bar on a terminal, and nothing elsewhere; Ctrl-C stops it.
pub(crate) fn watched<T>(run: impl FnOnce(&mut Watch<'_>) -> Result<T, RunError>) -> Result<T, RunError> {
    let interrupted = interrupt::flag();
    let shown = bar("");
    let outcome = run(&mut |done| {
        show(&shown, done);
        !interrupted.load(Ordering::Relaxed)
    });
    shown.finish_and_clear();
    outcome
}
