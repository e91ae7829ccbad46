//! Ctrl-C: long runs end with complete output. A process uses one of the two ways.

use crate::failure::Failure;
use indicatif::ProgressBar;
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// What shells report for a process that Ctrl-C ended: 128 and the number of the signal.
pub(crate) const EXIT_CODE: u8 = 130;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// True from the moment somebody presses Ctrl-C, or sends SIGTERM. From the first call on, Ctrl-C does only that; pressed again,
/// it ends the process at once.
pub(crate) fn flag() -> &'static AtomicBool {
    static HANDLER: OnceLock<()> = OnceLock::new();
    HANDLER.get_or_init(|| {
        // Where no handler can be set, Ctrl-C ends the process as it always does.
        let _ = ctrlc::set_handler(|| {
            if INTERRUPTED.swap(true, Ordering::Relaxed) {
                std::process::exit(i32::from(EXIT_CODE));
            }
        });
    });
    &INTERRUPTED
}

/// Not when somebody has pressed Ctrl-C.
pub(crate) fn go_on() -> Result<(), Failure> {
    if is_wanted() { Ok(()) } else { Err(Failure::Interrupted) }
}

/// Has nobody pressed Ctrl-C?
pub(crate) fn is_wanted() -> bool {
    !flag().load(Ordering::Relaxed)
}

/// From now on Ctrl-C ends the process at once with 130, between two lines of output: whoever writes a line
/// suspends the bar and holds the lock of the standard output until all of it is written, in this order.
pub(crate) fn end_between_lines(bar: &ProgressBar) -> Result<(), Failure> {
    let bar = bar.clone();
    let end = move || {
        bar.suspend(|| {
            let mut out = std::io::stdout().lock();
            let _ = out.flush(); // Nobody is left to be told if this fails.
            std::process::exit(i32::from(EXIT_CODE))
        });
    };
    ctrlc::set_handler(end).map_err(|error| Failure::failed(format!("cannot wait for Ctrl-C: {error}")))
}
