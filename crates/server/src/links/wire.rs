//! One connection, frame by frame: what is read is bounded in length, and both directions in time.

use std::{future::poll_fn, io, pin::Pin, time::Duration};

use tokio::{
    io::AsyncWrite,
    net::TcpStream,
    time::{Interval, MissedTickBehavior, interval, timeout},
};

use super::{Frame, Inbox, frame::BadFrame, queue::Queue};

/// A link over which nothing has come for so long, or over which nothing could be sent, is closed.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(5);
/// How often each side says that it is there.
pub(super) const BEAT_EVERY: Duration = Duration::from_secs(1);
/// How much is read at once; then it is the other links' turn.
const READ_BYTES: usize = 64 * 1024;
/// How long a closing connection waits for the other side, so that it can read the last words.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Why a connection is of no use any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    #[error("{0}")]
    Frame(#[from] BadFrame),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the other side has closed the connection")]
    Closed,
    #[error("the other side has closed the connection in the middle of a frame")]
    Torn,
    #[error("nothing was heard for {} s", SILENCE_MAX.as_secs())]
    Silent,
    #[error("nothing could be sent for {} s: the other side does not read", SILENCE_MAX.as_secs())]
    Stuck,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) stream: TcpStream,
    pub(crate) reader: Reader,
}

/// What has arrived.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) inbox: Inbox,
    buffer: Box<[u8]>,
}

impl Reader {
    /// Waits for more bytes, and tells how many have come.
    pub(crate) async fn fill(&mut self, stream: &TcpStream) -> Result<usize, Broken> {
        loop {
            timeout(SILENCE_MAX, stream.readable()).await.map_err(|_| Broken::Silent)??;
            match stream.try_read(&mut self.buffer) {
                Ok(0) if self.inbox.is_within_a_frame() => return Err(Broken::Torn),
                Ok(0) => return Err(Broken::Closed),
                Ok(bytes) => {
                    self.inbox.push(&self.buffer[..bytes]);
                    // All links share one thread: one that always has more to read must not keep it.
                    tokio::task::yield_now().await;
                    return Ok(bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Sends all bytes. The other side may read slowly, as long as it reads.
async fn send_all(stream: &TcpStream, mut bytes: &[u8]) -> Result<(), Broken> {
    while !bytes.is_empty() {
        timeout(SILENCE_MAX, stream.writable()).await.map_err(|_| Broken::Stuck)??;
        match stream.try_write(bytes) {
            Ok(sent) => {
                bytes = &bytes[sent..];
                tokio::task::yield_now().await;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// What is to be sent next takes the place of what is in the buffer: what waits, or a beat.
async fn next(queue: &Queue, beats: &mut Interval, bytes: &mut Vec<u8>) {
    // If the beat is looked at first, nobody else empties it, and what was sent last would be sent again.
    bytes.clear();
    tokio::select! {
        () = queue.take(bytes) => return,
        _ = beats.tick() => {}
    }
    Frame::Beat.encode(bytes);
}

/// Writes what waits, and a beat every second, until something is wrong, and says what. `sent` hears how many bytes.
pub(crate) async fn write(stream: &TcpStream, queue: &Queue, sent: impl Fn(usize)) -> String {
    let mut beats = interval(BEAT_EVERY);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut bytes = Vec::new();
    loop {
        next(queue, &mut beats, &mut bytes).await;
        if let Err(broken) = send_all(stream, &bytes).await {
            return broken.to_string();
        }
        sent(bytes.len());
    }
}

impl Wire {
    pub(crate) fn new(stream: TcpStream) -> Self {
        // Without it, small messages wait for acknowledgements.
        let _ = stream.set_nodelay(true);
        let reader = Reader { inbox: Inbox::default(), buffer: vec![0; READ_BYTES].into_boxed_slice() };
        Self { stream, reader }
    }

    pub(crate) async fn send(&self, frame: &Frame<'_>) -> Result<(), Broken> {
        send_all(&self.stream, &frame.to_bytes()).await
    }

    /// Waits for the next frame and looks at it. It may have `bytes_max` bytes.
    pub(crate) async fn receive<T>(
        &mut self,
        bytes_max: usize,
        look: impl FnOnce(Frame<'_>) -> T,
    ) -> Result<T, Broken> {
        loop {
            if let Some(frame) = self.reader.inbox.next(bytes_max)? {
                return Ok(look(frame));
            }
            self.reader.fill(&self.stream).await?;
        }
    }

    /// Closes so that what was sent last can still be read: a connection that is dropped with unread bytes is reset, and
    /// the other side may lose what it has not read yet.
    pub(crate) async fn close(mut self) {
        let words = async {
            let shut = poll_fn(|context| Pin::new(&mut self.stream).poll_shutdown(context)).await;
            if shut.is_err() {
                return;
            }
            let mut rest = [0; 1024];
            while self.stream.readable().await.is_ok() {
                match self.stream.try_read(&mut rest) {
                    Ok(0) => return,
                    Err(error) if error.kind() != io::ErrorKind::WouldBlock => return,
                    _ => tokio::task::yield_now().await,
                }
            }
        };
        // It had its time.
        let _ = timeout(LAST_WORDS, words).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_sent_twice_when_a_beat_is_due() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let queue = Queue::default();
            // Which of the two is looked at first is drawn.
            for _ in 0..100 {
                let mut sent = b"what was sent last".to_vec();
                // The first beat is due at once; a moment later the runtime knows it.
                let mut beats = interval(BEAT_EVERY);
                tokio::time::sleep(Duration::from_millis(2)).await;
                next(&queue, &mut beats, &mut sent).await;
                assert_eq!(sent, Frame::Beat.to_bytes());
            }
        });
    }
}
