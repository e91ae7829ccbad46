//! A counter's value as it changes.

use std::{
    future::poll_fn,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
    time::{Duration, Instant},
};

use crate::Reading;

/// The readings of one counter, the newest of which is there to be taken. Nothing piles up: what changes faster than it
/// is taken is left out, never the last.
#[derive(Debug)]
pub struct Watch {
    cell: Arc<WatchCell>,
}

/// Where the keeper puts what a watcher takes.
#[derive(Debug, Default)]
pub(crate) struct WatchCell {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    next: Option<Reading>,
    last_value: Option<i64>,
    waker: Option<Waker>,
    is_over: bool,
}

impl WatchCell {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new reading, if it is one.
    pub(crate) fn show(&self, reading: Reading) {
        let mut state = self.lock();
        if state.last_value == Some(reading.value) {
            return;
        }
        state.last_value = Some(reading.value);
        state.next = Some(reading);
        self.wake(state);
    }

    /// Nothing more will come.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.is_over = true;
        self.wake(state);
    }

    fn wake(&self, mut state: MutexGuard<'_, State>) {
        let waker = state.waker.take();
        drop(state);
        self.changed.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Watch {
    pub(crate) fn new(cell: Arc<WatchCell>) -> Self {
        Self { cell }
    }

    /// The next value; the first is the one when the watch began. Blocks at most so long. `None`: there was none in
    /// this time, or the edge was closed.
    pub fn next(&mut self, within: Duration) -> Option<Reading> {
        let until = Instant::now() + within;
        let mut state = self.cell.lock();
        loop {
            if let Some(reading) = state.next.take() {
                return Some(reading);
            }
            let left = until.saturating_duration_since(Instant::now());
            if state.is_over || left.is_zero() {
                return None;
            }
            let waited = self.cell.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The next value, for any executor. `None`: the edge was closed.
    pub async fn changed(&mut self) -> Option<Reading> {
        poll_fn(|context| {
            let mut state = self.cell.lock();
            match state.next.take() {
                Some(reading) => Poll::Ready(Some(reading)),
                None if state.is_over => Poll::Ready(None),
                None => {
                    state.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}
