//! Ctrl-C: long runs look at a flag and end with complete output.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// True from the moment somebody presses Ctrl-C. From the first call on, Ctrl-C does only that; pressed again,
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

/// What shells report for a process that Ctrl-C ended: 128 and the number of the signal.
pub(crate) const EXIT_CODE: u8 = 130;
