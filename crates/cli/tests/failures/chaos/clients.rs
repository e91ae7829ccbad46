//! Clients that count, go to another site in the middle of a retry, and ask what became of what they have sent.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, AtomicI64, Ordering},
    thread,
    time::{Duration, Instant},
};

use super::{
    books::{Heard, Kind, Operation, Plain, Told, Violations},
    checks,
};
use crate::{
    directory::Directory,
    harness::{Client, Value, random::Random},
};

/// Whoever gets no answer within this time does not know.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// When everything has healed, whoever is asked answers.
const LONG_PATIENCE: Duration = Duration::from_secs(30);
const THINK_MS: u64 = 12;
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Rights of other sites are waited for so long, by some.
const REMOTE_MS: [u64; 4] = [0, 0, 50, 600];

/// Counters with ids, whose adds are of both signs.
pub(crate) const WITH_IDS: [&str; 4] = ["ids:0", "ids:1", "ids:2", "ids:3"];
/// The same, and they only grow, but for what is taken back.
pub(crate) const RISING: &str = "rising";
/// Without ids; they only grow.
pub(crate) const PLAIN: [&str; 2] = ["plain:0", "plain:1"];
pub(crate) const BOUNDED: [&str; 2] = ["stock:0", "stock:1"];
pub(crate) const BOUNDED_MAX: i64 = 400;
pub(crate) const BOUNDED_INITIAL: i64 = 200;

/// What all clients share.
pub(crate) struct Shared<'a> {
    pub(crate) sites: u16,
    pub(crate) directory: &'a Directory,
    pub(crate) violations: &'a Violations,
    pub(crate) began: Instant,
    /// The highest value of each plain counter that each site has told.
    pub(crate) floors: BTreeMap<(u16, &'static str), AtomicI64>,
    pub(crate) stop: AtomicBool,
}

impl Shared<'_> {
    pub(crate) fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).expect("not that long")
    }

    /// Enters what is wrong, with the time.
    pub(crate) fn holds(&self, held: Result<(), String>) {
        self.violations.holds(held.map_err(|what| format!("{} ms: {what}", self.now_ms())));
    }

    /// A site tells this value of a plain counter, and had told at least that before it was asked.
    pub(crate) fn rises(&self, site: u16, key: &'static str, floor: i64, value: i64) {
        self.holds(checks::rises(site, key, floor, value));
        self.floors[&(site, key)].fetch_max(value, Ordering::SeqCst);
    }

    pub(crate) fn floor(&self, site: u16, key: &'static str) -> i64 {
        self.floors[&(site, key)].load(Ordering::SeqCst)
    }
}

/// One of them. It remembers all that it has sent.
pub(crate) struct Worker<'a> {
    shared: &'a Shared<'a>,
    name: String,
    random: Random,
    home: u16,
    connections: BTreeMap<u16, Client>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) plain: BTreeMap<&'static str, Plain>,
    pub(crate) refused: u64,
    pub(crate) unknown: u64,
    /// Attempts that had to stay within bounds, and counted nothing.
    pub(crate) nothing: u64,
    patience: Duration,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(shared: &'a Shared<'a>, number: u64, random: Random) -> Self {
        let home = 1 + u16::try_from(number % u64::from(shared.sites)).expect("a small number");
        let plain = PLAIN.into_iter().map(|key| (key, Plain::default())).collect();
        Self {
            shared,
            name: format!("client-{number}"),
            random,
            home,
            connections: BTreeMap::new(),
            operations: Vec::new(),
            plain,
            refused: 0,
            unknown: 0,
            nothing: 0,
            patience: PATIENCE,
        }
    }

    pub(crate) fn work(&mut self) {
        while !self.shared.stop.load(Ordering::Relaxed) {
            if self.random.below(20) == 0 || self.shared.directory.find(self.home).is_none() {
                self.home = self.any_site();
            }
            match self.random.below(20) {
                0..=5 => self.count_with_id(),
                6 | 7 => self.count_within_bounds(),
                8..=10 => self.count_plainly(),
                11..=13 => self.spend(),
                14..=16 => self.send_again(),
                17 | 18 => self.ask(),
                _ => self.read_plain(),
            }
            thread::sleep(Duration::from_millis(self.random.below(THINK_MS)));
        }
    }

    fn any_site(&mut self) -> u16 {
        1 + u16::try_from(self.random.below(self.shared.sites.into())).expect("a small number")
    }

    fn pick(&mut self, of: &[&'static str]) -> &'static str {
        of[usize::try_from(self.random.below(of.len() as u64)).expect("an index")]
    }

    fn below(&mut self, end: u64) -> i64 {
        i64::try_from(self.random.below(end)).expect("a small number")
    }

    /// Asks a site. The error is why there is no answer.
    fn call(&mut self, site: u16, command: &str) -> Result<Value, String> {
        let Some(addresses) = self.shared.directory.find(site) else {
            thread::sleep(LOOK_EVERY);
            return Err("it does not run".to_owned());
        };
        // A connection of another life is of no use, nor one of which an answer is outstanding.
        let kept = self.connections.remove(&site);
        let kept = kept.filter(|client| client.stream().peer_addr().is_ok_and(|it| it == addresses.resp));
        let client = match kept {
            Some(client) => Ok(client),
            None => Client::connect_within(addresses.resp, self.patience),
        };
        let mut client = client.map_err(|error| error.to_string())?;
        let answer = client.ask(command).map_err(|error| error.to_string())?;
        self.connections.insert(site, client);
        Ok(answer)
    }

    /// Sends an operation, and writes down what is heard.
    fn attempt(&mut self, at: usize, site: u16) -> Heard {
        let command = self.operations[at].command();
        // Before it is sent: it may be counted without an answer.
        self.operations[at].sent_to.insert(site);
        let heard = heard(self.call(site, &command));
        match &heard {
            Heard::Refused { .. } => self.refused += 1,
            Heard::Unknown { .. } => self.unknown += 1,
            Heard::Acknowledged { .. } | Heard::Applied { .. } => {}
            Heard::Nothing => self.nothing += 1,
        }
        let at_ms = self.shared.now_ms();
        let held = self.operations[at].heard(site, &heard, at_ms);
        self.shared.violations.holds(held);
        heard
    }

    fn begin(&mut self, key: &str, amount: i64, remote_ms: u64) {
        self.begin_as(Kind::All, key, amount, remote_ms);
    }

    fn begin_as(&mut self, kind: Kind, key: &str, amount: i64, remote_ms: u64) {
        let id = self.operations.len() as u64;
        let mut operation = Operation::new(key.to_owned(), self.name.clone(), id, amount, remote_ms);
        operation.kind = kind;
        self.operations.push(operation);
        self.attempt(self.operations.len() - 1, self.home);
    }

    fn count_with_id(&mut self) {
        if self.random.below(3) == 0 {
            let amount = 1 + self.below(9);
            return self.begin(RISING, amount, 0);
        }
        let key = self.pick(&WITH_IDS);
        let amount = match self.below(14) - 4 {
            0 => 10,
            other => other,
        };
        self.begin(key, amount, 0);
    }

    fn spend(&mut self) {
        let key = self.pick(&BOUNDED);
        let amount = 1 + self.below(20);
        let amount = if self.random.below(2) == 0 { amount } else { -amount };
        let remote_ms = REMOTE_MS[usize::try_from(self.random.below(4)).expect("an index")];
        self.begin(key, amount, remote_ms);
    }

    /// Counts as much as bounds allow: those of the counter, or one that comes with the command.
    fn count_within_bounds(&mut self) {
        let amount = 1 + self.below(60);
        match self.random.below(4) {
            0 => {
                let key = self.pick(&WITH_IDS);
                self.begin_as(Kind::NotBelow(0), key, -amount, 0);
            }
            1 => {
                let key = self.pick(&BOUNDED);
                self.begin_as(Kind::NotBelow(BOUNDED_INITIAL / 2), key, -amount, 0);
            }
            sign => {
                let key = self.pick(&BOUNDED);
                self.begin_as(Kind::Saturate, key, if sign == 2 { amount } else { -amount }, 0);
            }
        }
    }

    fn count_plainly(&mut self) {
        let (key, amount, site) = (self.pick(&PLAIN), 1 + self.below(9), self.home);
        let floor = self.shared.floor(site, key);
        let heard = heard(self.call(site, &format!("INCRBY {key} {amount}")));
        let plain = self.plain.get_mut(key).expect("it is one of them");
        match heard {
            Heard::Acknowledged { value } => {
                plain.acknowledged += amount;
                self.shared.rises(site, key, floor + amount, value);
            }
            Heard::Refused { .. } => self.refused += 1,
            Heard::Applied { .. } | Heard::Nothing => unreachable!("it is an INCRBY"),
            Heard::Unknown { .. } => {
                plain.unknown.push(amount);
                self.unknown += 1;
            }
        }
    }

    fn read_plain(&mut self) {
        let (key, site) = (self.pick(&PLAIN), self.home);
        let floor = self.shared.floor(site, key);
        match self.call(site, &format!("GET {key}")) {
            Ok(Value::Error(_)) | Err(_) => {}
            Ok(value) => self.shared.rises(site, key, floor, value.count()),
        }
    }

    /// An operation that is open, at another site; or one that was answered, as if its answer had been lost.
    fn send_again(&mut self) {
        let site = self.any_site();
        let Some(at) =
            self.recent(|operation| operation.is_open).or_else(|| self.recent(Operation::is_acknowledged))
        else {
            return;
        };
        self.attempt(at, site);
    }

    fn ask(&mut self) {
        let site = self.any_site();
        if let Some(at) = self.recent(|_| true) {
            self.ask_for(at, site);
        }
    }

    /// Asks a site what became of an operation. `None` if it does not say.
    pub(crate) fn ask_for(&mut self, at: usize, site: u16) -> Option<Told> {
        let question = self.operations[at].question();
        let told = match self.call(site, &question) {
            Err(_) | Ok(Value::Error(_)) => return None,
            Ok(answer) => Told::of(&answer.text()),
        };
        let at_ms = self.shared.now_ms();
        let held = self.operations[at].told(site, &told, at_ms);
        self.shared.violations.holds(held);
        Some(told)
    }

    /// One of the last, mostly; sometimes an old one.
    fn recent(&mut self, is: impl Fn(&Operation) -> bool) -> Option<usize> {
        let all = self.operations.len() as u64;
        if all == 0 {
            return None;
        }
        let back = if self.random.below(4) == 0 { all } else { all.min(30) };
        let from = all - 1 - self.random.below(back);
        (0..=usize::try_from(from).expect("an index")).rev().take(50).find(|at| is(&self.operations[*at]))
    }

    /// Everything has healed: sends again what is open until it is answered.
    pub(crate) fn finish(&mut self) {
        self.connections.clear();
        self.patience = LONG_PATIENCE;
        let open: Vec<usize> = (0..self.operations.len()).filter(|at| self.operations[*at].is_open).collect();
        for at in open {
            let until = Instant::now() + LONG_PATIENCE;
            loop {
                let site = self.any_site();
                match self.attempt(at, site) {
                    Heard::Acknowledged { .. } | Heard::Applied { .. } | Heard::Nothing => break,
                    // Nobody has counted it, then, or it would be a repeat.
                    Heard::Refused { why } if why.starts_with("OUTOFBOUNDS") => break,
                    _ if Instant::now() > until => {
                        let operation = &self.operations[at];
                        self.shared
                            .violations
                            .add(format!("it is not answered for {LONG_PATIENCE:?}: {operation}"));
                        break;
                    }
                    _ => thread::sleep(LOOK_EVERY),
                }
            }
        }
    }

    /// Sites have been started again.
    pub(crate) fn connect_anew(&mut self) {
        self.connections.clear();
    }
}

/// What an answer to an add means.
fn heard(answer: Result<Value, String>) -> Heard {
    match answer {
        Ok(Value::Integer(value)) => Heard::Acknowledged { value },
        Ok(Value::Array(parts)) => match &parts[..] {
            [_, amount] if amount.integer() == 0 => Heard::Nothing,
            [value, amount] => Heard::Applied { value: value.integer(), amount: amount.integer() },
            _ => Heard::Unknown { why: format!("{parts:?}") },
        },
        Ok(Value::Error(why)) if why.starts_with("INDOUBT") => Heard::Unknown { why },
        // "A refused command has changed nothing" (docs/commands.md).
        Ok(Value::Error(why)) => Heard::Refused { why },
        Ok(other) => Heard::Unknown { why: format!("{other:?}") },
        Err(why) => Heard::Unknown { why },
    }
}
