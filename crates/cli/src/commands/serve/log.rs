//! Where the log goes: to the standard error, as text or as JSON.

use crate::failure::Failure;
use quipu_server::config::{Config, LogFormat, LogLevel};
use std::io::IsTerminal;
use tracing_subscriber::{filter::LevelFilter, fmt};

/// From now on what the node says is written. Once in a process.
pub(super) fn start(config: &Config) -> Result<(), Failure> {
    let level = match config.log_level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    // That a line could not be written would be said on the standard error, too, and end the process.
    let log = fmt().with_max_level(level).with_writer(std::io::stderr).log_internal_errors(false);
    let started = match config.log_format {
        LogFormat::Text => log.with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| Failure::failed(format!("cannot start the log: {error}")))
}
