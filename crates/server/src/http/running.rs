//! Operations that are being done right now, so that a second one with the same id is told to wait.
//!
//! Exactness does not depend on it: the engine recognises repeats by itself. It spares the client an answer that may
//! still change.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::http::StatusCode;

use super::problem::Problem;

/// An operation by its full name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Name {
    pub(super) producer: Arc<str>,
    pub(super) key: Vec<u8>,
    pub(super) id: Vec<u8>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Running(Arc<Mutex<HashSet<Name>>>);

/// The operation runs until this is dropped.
#[derive(Debug)]
pub(super) struct Ticket {
    running: Running,
    name: Name,
}

impl Running {
    pub(super) fn begin(&self, name: Name) -> Result<Ticket, Problem> {
        if self.names().insert(name.clone()) {
            return Ok(Ticket { running: self.clone(), name });
        }
        let detail = "an operation with this `Idempotency-Key` is still running; ask again for its answer";
        Err(Problem::new(StatusCode::CONFLICT, "still-running", "The operation is still running", detail)
            .with_header("retry-after", "1"))
    }

    /// A set of names is whole whatever happened to the thread that changed it.
    fn names(&self) -> MutexGuard<'_, HashSet<Name>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.running.names().remove(&self.name);
    }
}
