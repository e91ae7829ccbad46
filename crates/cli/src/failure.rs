//! How a command ends when it does not end well.

use std::fmt::Display;
use std::process::ExitCode;

/// What went wrong, and with which exit code the process says so.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something that was checked does not hold, or could not be done: exit code 1.
    Failed(String),
    /// It cannot be told whether something holds: exit code 2.
    CannotTell(String),
    /// A flag has a value that cannot be: exit code 2, as for flags that do not parse.
    Usage {
        /// The flag, with its dashes.
        flag: &'static str,
        /// The value given, what is allowed, and the remedy.
        problem: String,
    },
    /// Somebody pressed Ctrl-C: exit code 130.
    Interrupted,
}

impl Failure {
    pub(crate) fn failed(what: impl Display) -> Self {
        Failure::Failed(what.to_string())
    }

    pub(crate) fn report(self) -> ExitCode {
        match self {
            Failure::Failed(what) => {
                eprintln!("error: {what}");
                ExitCode::from(1)
            }
            Failure::CannotTell(why) => {
                eprintln!("error: {why}");
                ExitCode::from(2)
            }
            Failure::Usage { flag, problem } => {
                eprintln!("error: {flag}: {problem}\n\nFor more information, try '--help'.");
                ExitCode::from(2)
            }
            Failure::Interrupted => ExitCode::from(crate::interrupt::EXIT_CODE),
        }
    }
}
