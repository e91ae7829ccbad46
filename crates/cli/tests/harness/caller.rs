//! A client that adds with ids, and remembers what it has sent and what it was told.

use std::{collections::VecDeque, io, net::SocketAddr};

use super::{Client, Value, client::encode, random::Random};

/// At most so many commands are sent before the first of them is answered.
const PIPELINE_MAX: u64 = 16;
/// So many of the first adds are sent before their answers are read.
const FILL_AT_ONCE: usize = 200;
/// So many adds are sent again before their answers are read.
const REPEAT_AT_ONCE: usize = 64;
/// So many of the last answers are asked for again.
const REMEMBERED: usize = 32;
/// One add in so many carries no id.
const PLAIN_ONE_IN: u64 = 8;

/// What a server on another life may have done with the adds of the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// What is acknowledged is stored.
    Always,
    /// The last acknowledged adds may be lost with the process, so they are sent again too.
    Interval,
}

/// The counters that are added to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keys {
    /// A few that everybody adds to.
    pub(crate) hot: usize,
    /// And many more, each of which gets little.
    pub(crate) cold: usize,
}

impl Keys {
    pub(crate) fn count(self) -> usize {
        self.hot + self.cold
    }

    pub(crate) fn name(self, key: usize) -> String {
        // The many have long names, so that fewer of them fill the memory.
        if key < self.hot { format!("hot:{key}") } else { format!("cold:{key:0>480}") }
    }

    fn choose(self, random: &mut Random) -> usize {
        let among = if self.cold == 0 || random.below(4) == 0 { 0..self.hot } else { self.hot..self.count() };
        let offset = random.below(among.len() as u64);
        among.start + usize::try_from(offset).expect("an index")
    }
}

/// Adds without ids go here.
pub(crate) const PLAIN_KEY: &str = "plain";

/// One add with an id.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Operation {
    key: usize,
    amount: i64,
    id: u64,
}

/// What was sent, and not yet answered.
#[derive(Debug)]
enum Sent {
    New(Operation),
    Plain { amount: i64 },
}

/// How much was sent to a counter and how much of it was acknowledged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) issued: i64,
    pub(crate) acknowledged: i64,
}

#[derive(Debug)]
pub(crate) struct Caller {
    name: String,
    keys: Keys,
    durability: Durability,
    random: Random,
    last_id: u64,
    /// Sent, and nothing heard.
    unanswered: Vec<Operation>,
    /// Acknowledged in this life of the server, where that may be lost.
    at_risk: Vec<Operation>,
    /// The last answers, each of which must stay what it was.
    answered: VecDeque<(Operation, i64)>,
    pub(crate) sums: Vec<Sum>,
    pub(crate) plain: Sum,
    /// How often an add was sent again because it was not answered.
    pub(crate) repeats: u64,
}

impl Caller {
    pub(crate) fn new(number: u64, keys: Keys, durability: Durability, seed: u64) -> Self {
        Self {
            name: format!("caller-{number}"),
            keys,
            durability,
            random: Random::new(seed),
            last_id: 0,
            unanswered: Vec::new(),
            at_risk: Vec::new(),
            answered: VecDeque::new(),
            sums: vec![Sum::default(); keys.count()],
            plain: Sum::default(),
            repeats: 0,
        }
    }

    /// Adds until the connection breaks.
    pub(crate) fn work(&mut self, server: SocketAddr) {
        let Ok(mut client) = Client::connect(server) else { return };
        // Sometimes what is unanswered is sent again at once, and the server killed again meanwhile.
        if self.random.below(2) == 0 && self.repeat(&mut client).is_err() {
            return;
        }
        while self.add(&mut client).is_ok() {}
    }

    /// Comes to a server after another one did not answer: everything unanswered is sent again here, and what was answered
    /// last, too, as if the answers had been lost. Then some adds; it goes without waiting for the last answers.
    pub(crate) fn visit(&mut self, server: SocketAddr, adds: u64) -> io::Result<()> {
        let mut client = Client::connect(server)?;
        self.repeat(&mut client)?;
        self.doubt(&mut client)?;
        for _ in 0..adds {
            self.add(&mut client)?;
        }
        let (bytes, sent) = self.new_adds();
        let written = client.write(&bytes);
        self.not_heard(sent);
        written
    }

    /// One add to each of the many counters, so that there are more than fit into memory.
    pub(crate) fn fill(&mut self, client: &mut Client) {
        let mut sent = VecDeque::new();
        for key in self.keys.hot..self.keys.count() {
            let operation = self.new_operation(key, 1);
            client.write(&self.command(&operation)).expect("sent");
            sent.push_back(Sent::New(operation));
            if sent.len() == FILL_AT_ONCE {
                self.hear(client, &mut sent).expect("answers");
            }
        }
        self.hear(client, &mut sent).expect("answers");
    }

    fn new_operation(&mut self, key: usize, amount: i64) -> Operation {
        self.last_id += 1;
        self.sums[key].issued += amount;
        Operation { key, amount, id: self.last_id }
    }

    fn command(&self, operation: &Operation) -> Vec<u8> {
        let (key, amount, id) =
            (self.keys.name(operation.key), operation.amount.to_string(), operation.id.to_string());
        encode(&["INCRBY", &key, &amount, "IDMP", &self.name, &id])
    }

    fn add(&mut self, client: &mut Client) -> io::Result<()> {
        let (bytes, sent) = self.new_adds();
        self.send(client, &bytes, sent)
    }

    /// Some adds for one write; each is noted before it is sent.
    fn new_adds(&mut self) -> (Vec<u8>, VecDeque<Sent>) {
        let (mut bytes, mut sent) = (Vec::new(), VecDeque::new());
        for _ in 0..=self.random.below(PIPELINE_MAX) {
            let amount = 1 + i64::try_from(self.random.below(9)).expect("a digit");
            if self.random.below(PLAIN_ONE_IN) == 0 {
                self.plain.issued += amount;
                bytes.extend(encode(&["INCRBY", PLAIN_KEY, &amount.to_string()]));
                sent.push_back(Sent::Plain { amount });
                continue;
            }
            let key = self.keys.choose(&mut self.random);
            let operation = self.new_operation(key, amount);
            bytes.extend(self.command(&operation));
            sent.push_back(Sent::New(operation));
        }
        (bytes, sent)
    }

    /// Sends, and hears what is answered; the rest stays unanswered.
    fn send(&mut self, client: &mut Client, bytes: &[u8], mut sent: VecDeque<Sent>) -> io::Result<()> {
        let result = client.write(bytes).and_then(|()| self.hear(client, &mut sent));
        self.not_heard(sent);
        result
    }

    fn not_heard(&mut self, sent: VecDeque<Sent>) {
        self.unanswered.extend(sent.into_iter().filter_map(|sent| match sent {
            Sent::New(operation) => Some(operation),
            Sent::Plain { .. } => None,
        }));
    }

    fn hear(&mut self, client: &mut Client, sent: &mut VecDeque<Sent>) -> io::Result<()> {
        while !sent.is_empty() {
            let value = answer(client)?;
            match sent.pop_front() {
                Some(Sent::New(operation)) => self.acknowledge(operation, value),
                Some(Sent::Plain { amount }) => self.plain.acknowledged += amount,
                None => {}
            }
        }
        Ok(())
    }

    fn acknowledge(&mut self, operation: Operation, value: i64) {
        self.sums[operation.key].acknowledged += operation.amount;
        match self.durability {
            Durability::Always => {
                self.answered.push_back((operation, value));
                if self.answered.len() > REMEMBERED {
                    self.answered.pop_front();
                }
            }
            Durability::Interval => self.at_risk.push(operation),
        }
    }

    /// The server has been killed: what it acknowledged and may not have stored counts as not answered.
    pub(crate) fn server_was_killed(&mut self) {
        for operation in self.at_risk.drain(..) {
            self.sums[operation.key].acknowledged -= operation.amount;
            self.unanswered.push(operation);
        }
        if self.durability == Durability::Interval {
            self.plain.acknowledged = 0;
        }
    }

    /// Sends everything again that was not answered, under the same ids.
    pub(crate) fn repeat(&mut self, client: &mut Client) -> io::Result<()> {
        while !self.unanswered.is_empty() {
            let from = self.unanswered.len().saturating_sub(REPEAT_AT_ONCE);
            let operations: Vec<Operation> = self.unanswered.drain(from..).collect();
            let bytes: Vec<u8> = operations.iter().flat_map(|operation| self.command(operation)).collect();
            self.repeats += operations.len() as u64;
            self.send(client, &bytes, operations.into_iter().map(Sent::New).collect())?;
        }
        Ok(())
    }

    /// Sends again what was answered last. Another site, which has not heard of it, may give another answer.
    fn doubt(&self, client: &mut Client) -> io::Result<()> {
        let bytes: Vec<u8> =
            self.answered.iter().flat_map(|(operation, _)| self.command(operation)).collect();
        client.write(&bytes)?;
        self.answered.iter().try_for_each(|_| answer(client).map(drop))
    }

    /// What was answered once is answered in the same way again, and what is another add under the same id is refused.
    pub(crate) fn check_answers(&self, client: &mut Client) {
        for (operation, value) in &self.answered {
            client.write(&self.command(operation)).expect("sent");
            assert_eq!(
                client.read().expect("an answer"),
                Value::Integer(*value),
                "{} {operation:?}",
                self.name
            );
        }
        if let Some((operation, _)) = self.answered.back() {
            let other = Operation { amount: operation.amount + 1, ..operation.clone() };
            client.write(&self.command(&other)).expect("sent");
            let refused = client.read().expect("an answer");
            assert!(
                matches!(&refused, Value::Error(text) if text.starts_with("IDMPMISMATCH")),
                "{refused:?}"
            );
        }
    }
}

/// The value after an add.
fn answer(client: &mut Client) -> io::Result<i64> {
    match client.read()? {
        Value::Integer(value) => Ok(value),
        other => panic!("an add was answered with {other:?}"),
    }
}
