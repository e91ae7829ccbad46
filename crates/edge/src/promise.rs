//! One value for one who waits: a thread, or a future of any executor.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

/// The end that gives the value. Dropped without it, the other end hears that nothing will come.
#[derive(Debug)]
pub(crate) struct Promise<T>(Arc<Cell<T>>);

/// The end that waits.
#[derive(Debug)]
pub(crate) struct Pending<T>(Arc<Cell<T>>);

#[derive(Debug)]
struct Cell<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

#[derive(Debug)]
enum State<T> {
    Waiting(Option<Waker>),
    Kept(T),
    /// Given, or never to be.
    Over,
}

impl<T> Cell<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, end: State<T>) {
        let mut state = self.lock();
        let State::Waiting(waker) = &mut *state else { return };
        let waker = waker.take();
        *state = end;
        drop(state);
        self.changed.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Both ends.
pub(crate) fn promise<T>() -> (Promise<T>, Pending<T>) {
    let cell = Arc::new(Cell { state: Mutex::new(State::Waiting(None)), changed: Condvar::new() });
    (Promise(Arc::clone(&cell)), Pending(cell))
}

impl<T> Promise<T> {
    /// Gives the value.
    pub(crate) fn keep(self, value: T) {
        self.0.end(State::Kept(value));
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        self.0.end(State::Over);
    }
}

fn take<T>(state: &mut State<T>) -> Option<T> {
    match std::mem::replace(state, State::Over) {
        State::Kept(value) => Some(value),
        State::Waiting(_) | State::Over => None,
    }
}

impl<T> Pending<T> {
    /// Blocks until the value is there. `None`: it never will be.
    pub(crate) fn wait(self) -> Option<T> {
        let mut state = self.0.lock();
        while matches!(*state, State::Waiting(_)) {
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        take(&mut state)
    }
}

impl<T> Future for Pending<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut state = self.0.lock();
        if let State::Waiting(waker) = &mut *state {
            *waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(take(&mut state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{pin::pin, task::Wake, time::Duration};

    struct Unpark(std::thread::Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    fn block_on<F: Future>(future: F) -> F::Output {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut future = pin!(future);
        loop {
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(value) => return value,
                Poll::Pending => std::thread::park(),
            }
        }
    }

    #[test]
    fn a_value_comes_once_to_a_thread_or_to_a_future() {
        for is_future in [false, true] {
            let (promise, pending) = promise();
            let giver = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                promise.keep(7);
            });
            let got = if is_future { block_on(pending) } else { pending.wait() };
            assert_eq!(got, Some(7));
            giver.join().unwrap();
        }
    }

    #[test]
    fn a_promise_that_is_dropped_is_told() {
        let (kept, pending) = promise::<u8>();
        let other = std::thread::spawn(move || drop(kept));
        assert_eq!(block_on(pending), None);
        other.join().unwrap();
        let (kept, pending) = promise::<u8>();
        drop(kept);
        assert_eq!(pending.wait(), None);
    }
}
