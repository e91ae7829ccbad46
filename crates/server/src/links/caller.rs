//! A connection on which questions go out and answers come in: a relay's to a site that it hands over to, or a node's to
//! another node of its site.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{net::TcpStream, sync::oneshot, time::timeout};

use super::{
    Frame, NODE_KEY_BYTES,
    frame::RELAY_FRAME_BYTES_MAX,
    queue::Queue,
    wire::{Reader, Wire, write},
};

/// An answer that takes longer is not waited for.
const ANSWER_MAX: Duration = Duration::from_secs(15);

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unanswered {
    /// It was not sent.
    #[error("{0}")]
    NotSent(String),
    /// The other side may have taken it in, and nobody knows.
    #[error("{0}")]
    NoAnswer(String),
    /// The other side does not want it.
    #[error("{0}")]
    Refused(String),
}

/// Such a connection. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Caller {
    queue: Arc<Queue>,
    waiting: Arc<Mutex<Waiting>>,
}

/// Who waits for an answer.
#[derive(Debug, Default)]
struct Waiting {
    /// Why there will be none.
    ended: Option<String>,
    /// The other side has said why.
    is_refused: bool,
    exchange: Option<oneshot::Sender<Vec<u8>>>,
    estate: Option<oneshot::Sender<Vec<u8>>>,
    /// By their numbers.
    calls: BTreeMap<u64, oneshot::Sender<Vec<u8>>>,
    /// The last number.
    called: u64,
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Caller {
    /// Dials a server's link.
    pub(crate) async fn dial(address: &str) -> std::io::Result<Self> {
        let (stream, _) = super::connect(address).await?;
        let Wire { stream, reader } = Wire::new(stream);
        let (queue, waiting) = (Arc::new(Queue::default()), Arc::new(Mutex::new(Waiting::default())));
        let parent = Self { queue: Arc::clone(&queue), waiting: Arc::clone(&waiting) };
        tokio::spawn(async move {
            let why = tokio::select! {
                why = read(&stream, reader, &waiting) => why,
                why = write(&stream, &queue, |_| ()) => why,
                why = queue.closed() => why,
            };
            let mut waiting = lock(&waiting);
            let is_refused = waiting.is_refused;
            *waiting = Waiting { ended: Some(why), is_refused, ..Waiting::default() };
        });
        Ok(parent)
    }

    /// Hands over, and gives the answer. One at a time.
    pub(crate) async fn exchange(&self, body: &[u8]) -> Result<Vec<u8>, Unanswered> {
        self.ask(&Frame::Exchange(body), |waiting| &mut waiting.exchange).await
    }

    /// Shows another node of the same site its key, and gives the answer.
    pub(crate) async fn greet(&self, key: [u8; NODE_KEY_BYTES]) -> Result<Vec<u8>, Unanswered> {
        self.ask(&Frame::Node { key }, |waiting| &mut waiting.exchange).await
    }

    /// Leaves what a retiring relay has kept for others. One at a time.
    pub(crate) async fn bequeath(&self, body: &[u8]) -> Result<Vec<u8>, Unanswered> {
        self.ask(&Frame::Estate(body), |waiting| &mut waiting.estate).await
    }

    /// Lets the parent do a command. Many at a time.
    pub(crate) async fn call(&self, command: &[u8], within: Duration) -> Result<Vec<u8>, Unanswered> {
        self.ask_numbered(within, |number| Frame::Call { number, command }).await
    }

    /// Asks another node of the same site. Many at a time.
    pub(crate) async fn question(&self, question: &[u8], within: Duration) -> Result<Vec<u8>, Unanswered> {
        self.ask_numbered(within, |number| Frame::Ask { number, question }).await
    }

    /// Has it ended?
    pub(crate) fn is_over(&self) -> bool {
        lock(&self.waiting).ended.is_some()
    }

    async fn ask_numbered<'a>(
        &self,
        within: Duration,
        frame: impl FnOnce(u64) -> Frame<'a>,
    ) -> Result<Vec<u8>, Unanswered> {
        let (answer, answered) = oneshot::channel();
        let number = self.send(|waiting| {
            waiting.called += 1;
            let number = waiting.called;
            waiting.calls.insert(number, answer);
            self.queue.push(&mut frame(number).to_bytes());
            number
        })?;
        let answer = self.wait(answered, within).await;
        lock(&self.waiting).calls.remove(&number);
        answer
    }

    async fn ask(
        &self,
        frame: &Frame<'_>,
        place: impl FnOnce(&mut Waiting) -> &mut Option<oneshot::Sender<Vec<u8>>>,
    ) -> Result<Vec<u8>, Unanswered> {
        let (answer, answered) = oneshot::channel();
        self.send(|waiting| {
            *place(waiting) = Some(answer);
            self.queue.push(&mut frame.to_bytes());
        })?;
        self.wait(answered, ANSWER_MAX).await
    }

    /// Sends something, unless the connection has ended.
    fn send<T>(&self, send: impl FnOnce(&mut Waiting) -> T) -> Result<T, Unanswered> {
        let mut waiting = lock(&self.waiting);
        match &waiting.ended {
            Some(why) => Err(Unanswered::NotSent(why.clone())),
            None => Ok(send(&mut waiting)),
        }
    }

    async fn wait(
        &self,
        answered: oneshot::Receiver<Vec<u8>>,
        within: Duration,
    ) -> Result<Vec<u8>, Unanswered> {
        match timeout(within, answered).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => {
                let waiting = lock(&self.waiting);
                let why = waiting.ended.clone().unwrap_or_default();
                Err(if waiting.is_refused { Unanswered::Refused(why) } else { Unanswered::NoAnswer(why) })
            }
            Err(_) => Err(Unanswered::NoAnswer(format!("no answer within {} ms", within.as_millis()))),
        }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.queue.close("it is not needed any more".to_owned());
    }
}

/// Reads until something is wrong, and says what.
async fn read(stream: &TcpStream, mut reader: Reader, waiting: &Mutex<Waiting>) -> String {
    loop {
        loop {
            let frame = match reader.inbox.next(RELAY_FRAME_BYTES_MAX) {
                Ok(None) => break,
                Ok(Some(frame)) => frame,
                Err(error) => return error.to_string(),
            };
            let mut waiting = lock(waiting);
            let answer = match frame {
                Frame::Beat => continue,
                Frame::Exchanged(answer) => waiting.exchange.take().map(|asked| (asked, answer)),
                Frame::Adopted(answer) => waiting.estate.take().map(|asked| (asked, answer)),
                Frame::Called { number, reply: answer } | Frame::Told { number, answer } => {
                    waiting.calls.remove(&number).map(|asked| (asked, answer))
                }
                Frame::Refused(refused) => {
                    waiting.is_refused = true;
                    return refused.text;
                }
                other => return format!("{} from a server", other.name()),
            };
            if let Some((asked, answer)) = answer {
                // Whoever has asked may have given up.
                let _ = asked.send(answer.to_vec());
            }
        }
        if let Err(broken) = reader.fill(stream).await {
            return broken.to_string();
        }
    }
}
