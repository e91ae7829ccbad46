//! Ctrl-C.

use crate::failure::Failure;
use indicatif::ProgressBar;
use std::io::Write;

/// The exit code of a process that was interrupted, as shells report it.
const INTERRUPTED: i32 = 130;

/// From now on Ctrl-C ends the process at once with 130, between two lines of output: whoever writes a line
/// holds the lock of the standard output until all of it is written.
pub(crate) fn end_between_lines(bar: &ProgressBar) -> Result<(), Failure> {
    let bar = bar.clone();
    let end = move || {
        let mut out = std::io::stdout().lock();
        let _ = out.flush(); // Nobody is left to be told if this fails.
        bar.finish_and_clear();
        std::process::exit(INTERRUPTED);
    };
    ctrlc::set_handler(end).map_err(|error| Failure::failed(format!("cannot wait for Ctrl-C: {error}")))
}
