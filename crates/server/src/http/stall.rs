//! A connection that is closed when its peer stops reading.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Sleep, sleep},
};

/// A stream whose writes fail once they have waited too long: otherwise a peer that never reads would keep its place
/// for ever.
pub(super) struct Unstalled {
    stream: TcpStream,
    time_max: Duration,
    /// Runs while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Unstalled {
    pub(super) fn new(stream: TcpStream, time_max: Duration) -> Self {
        Self { stream, time_max, waiting: None }
    }

    /// The outcome of a write, or an error if it has waited too long.
    fn limit<T>(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut TcpStream>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(outcome) = write(Pin::new(&mut self.stream), context) {
            self.waiting = None;
            return Poll::Ready(outcome);
        }
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(self.time_max)));
        ready!(waiting.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read its answer")))
    }
}

impl AsyncRead for Unstalled {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Unstalled {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.limit(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.limit(context, |stream, context| stream.poll_write_vectored(context, parts))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.limit(context, AsyncWrite::poll_flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.limit(context, AsyncWrite::poll_shutdown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{future::poll_fn, io::Read, net};

    const CHUNK_BYTES: usize = 65_536;

    fn pair() -> (net::TcpStream, net::TcpStream) {
        let listener = net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let client = net::TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        (listener.accept().expect("a client").0, client)
    }

    fn write(server: net::TcpStream, time_max: Duration, chunks: usize) -> io::Result<()> {
        server.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut stream = Unstalled::new(TcpStream::from_std(server)?, time_max);
            for _ in 0..chunks {
                poll_fn(|context| Pin::new(&mut stream).poll_write(context, &[7; CHUNK_BYTES])).await?;
            }
            Ok(())
        })
    }

    #[test]
    fn a_peer_that_never_reads_is_given_up() {
        let (server, _silent) = pair();
        let outcome = write(server, Duration::from_millis(50), 10_000);
        assert_eq!(outcome.expect_err("the buffers of a socket end").kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_peer_that_reads_slowly_is_not() {
        let (server, mut slow) = pair();
        let reading = std::thread::spawn(move || {
            let mut buffer = vec![0; 16 * CHUNK_BYTES];
            while slow.read(&mut buffer).is_ok_and(|bytes| bytes > 0) {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        write(server, Duration::from_secs(10), 200).expect("all is written");
        reading.join().expect("it does not panic");
    }
}
