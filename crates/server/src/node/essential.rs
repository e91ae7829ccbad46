//! Threads and tasks that a node cannot do without.
//!
//! If one of them panics the process ends: a node that goes on without a worker looks alive, and its clients wait for ever;
//! what the panic has left behind in memory must not be counted on. What was acknowledged is stored.

use std::{
    future::Future,
    io, process,
    thread::{self, JoinHandle},
};

/// What a process ends with whose main thread has panicked.
const EXIT_CODE: i32 = 101;

/// Ends the process when it is dropped by a panic.
struct Vital;

impl Drop for Vital {
    fn drop(&mut self) {
        if thread::panicking() {
            // The panic itself stands on the standard error by now.
            let name = thread::current().name().unwrap_or("a thread").to_owned();
            tracing::error!("{name} has panicked, and the server cannot go on without it; it ends at once");
            process::exit(EXIT_CODE);
        }
    }
}

/// Starts a thread that the node cannot do without.
pub(crate) fn essential<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        let _vital = Vital;
        work()
    })
}

/// The same for a task: its runtime would go on without it.
pub(crate) async fn vital<T>(task: impl Future<Output = T>) -> T {
    let _vital = Vital;
    task.await
}

#[cfg(test)]
mod tests;
