//! What waits to be sent over one link. Workers put frames in; the link's task takes them out.

use std::{
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

/// So much may wait. A peer that is further behind than this has stopped reading: its link is closed, and what it lacks
/// is sent over the next one. The engine keeps the messages on their way far below it.
pub(crate) const QUEUE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What waits to be sent over one link. One task takes from it and waits for its end.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    news: Notify,
    ended: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    /// Why nothing is sent any more.
    closed: Option<String>,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends what `write` writes. Nothing is appended to a queue that is closed.
    pub(crate) fn push(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut waiting = self.lock();
        if waiting.closed.is_some() {
            return;
        }
        write(&mut waiting.bytes);
        let bytes = waiting.bytes.len();
        if bytes > QUEUE_BYTES_MAX {
            waiting.close(format!("{bytes} bytes wait to be sent, and the peer does not read"));
            self.ended.notify_one();
        }
        self.news.notify_one();
    }

    /// Ends the link. The first reason counts.
    pub(crate) fn close(&self, why: String) {
        self.lock().close(why);
        self.ended.notify_one();
    }

    /// Waits for something to send.
    pub(crate) async fn take(&self) -> Vec<u8> {
        loop {
            let bytes = mem::take(&mut self.lock().bytes);
            if !bytes.is_empty() {
                return bytes;
            }
            self.news.notified().await;
        }
    }

    /// Waits until the link is to end, and says why.
    pub(crate) async fn closed(&self) -> String {
        loop {
            if let Some(why) = self.lock().closed.clone() {
                return why;
            }
            self.ended.notified().await;
        }
    }
}

impl Waiting {
    fn close(&mut self, why: String) {
        self.bytes = Vec::new();
        self.closed.get_or_insert(why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
    }

    #[test]
    fn what_is_put_in_comes_out_together() {
        let queue = Queue::default();
        queue.push(|bytes| bytes.extend(b"one "));
        queue.push(|bytes| bytes.extend(b"two"));
        assert_eq!(block_on(queue.take()), b"one two".to_vec());
    }

    #[test]
    fn whoever_waits_hears_of_what_comes_later() {
        let queue = Queue::default();
        let (taken, ()) = block_on(async {
            tokio::join!(queue.take(), async {
                tokio::task::yield_now().await;
                queue.push(|bytes| bytes.push(7));
            })
        });
        assert_eq!(taken, vec![7]);
    }

    #[test]
    fn a_peer_that_does_not_read_is_given_up_and_its_memory_is_free() {
        let queue = Queue::default();
        let piece = vec![0; QUEUE_BYTES_MAX / 4];
        for _ in 0..4 {
            queue.push(|bytes| bytes.extend_from_slice(&piece));
        }
        assert!(queue.lock().closed.is_none());
        queue.push(|bytes| bytes.push(0));
        assert_eq!(queue.lock().bytes.capacity(), 0);
        queue.push(|bytes| bytes.push(1));
        assert!(queue.lock().bytes.is_empty());
        let why = block_on(queue.closed());
        assert!(why.contains("does not read"), "{why}");
    }

    #[test]
    fn the_first_reason_counts() {
        let queue = Queue::default();
        queue.close("first".to_owned());
        queue.close("second".to_owned());
        assert_eq!(block_on(queue.closed()), "first");
    }
}
