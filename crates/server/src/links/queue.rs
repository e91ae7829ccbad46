//! What waits to be sent over one link. Workers put frames in; the link's task takes them out.

use std::{
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

/// So much may wait. A peer that is further behind than this has stopped reading: its link is closed, and what it lacks
/// is sent over the next one. What is on its way to one that reads is far below it.
pub(crate) const QUEUE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A buffer that has become larger than this is not kept as it is.
const BUFFER_BYTES_KEPT: usize = 1024 * 1024;

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

    /// Appends these bytes and leaves an empty buffer, mostly another one. Nothing is appended to a queue that is closed.
    pub(crate) fn push(&self, frames: &mut Vec<u8>) {
        let mut waiting = self.lock();
        if waiting.closed.is_some() {
            return frames.clear();
        }
        if waiting.bytes.is_empty() {
            mem::swap(&mut waiting.bytes, frames);
        } else {
            waiting.bytes.append(frames);
        }
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

    /// Waits for something to send, which takes the place of what is in the buffer; the buffer is used again.
    pub(crate) async fn take(&self, buffer: &mut Vec<u8>) {
        buffer.clear();
        buffer.shrink_to(BUFFER_BYTES_KEPT);
        loop {
            mem::swap(&mut self.lock().bytes, buffer);
            if !buffer.is_empty() {
                return;
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
        queue.push(&mut b"one ".to_vec());
        queue.push(&mut b"two".to_vec());
        assert_eq!(taken_from(&queue), b"one two");
    }

    fn taken_from(queue: &Queue) -> Vec<u8> {
        let mut buffer = Vec::new();
        block_on(queue.take(&mut buffer));
        buffer
    }

    #[test]
    fn buffers_go_round() {
        let queue = Queue::default();
        let mut frames = Vec::with_capacity(100);
        frames.push(1);
        queue.push(&mut frames);
        let mut taken = Vec::with_capacity(2 * BUFFER_BYTES_KEPT);
        block_on(queue.take(&mut taken));
        assert_eq!((taken.as_slice(), taken.capacity()), (&[1][..], 100));
        queue.push(&mut frames);
        assert_eq!(frames.capacity(), BUFFER_BYTES_KEPT, "what was larger is not kept");
    }

    #[test]
    fn whoever_waits_hears_of_what_comes_later() {
        let queue = Queue::default();
        let mut taken = Vec::new();
        block_on(async {
            tokio::join!(queue.take(&mut taken), async {
                tokio::task::yield_now().await;
                queue.push(&mut vec![7]);
            })
        });
        assert_eq!(taken, vec![7]);
    }

    #[test]
    fn a_peer_that_does_not_read_is_given_up_and_its_memory_is_free() {
        let queue = Queue::default();
        let piece = vec![0; QUEUE_BYTES_MAX / 4];
        for _ in 0..4 {
            queue.push(&mut piece.clone());
        }
        assert!(queue.lock().closed.is_none());
        queue.push(&mut vec![0]);
        assert_eq!(queue.lock().bytes.capacity(), 0);
        let mut frames = vec![1];
        queue.push(&mut frames);
        assert!(frames.is_empty());
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
