//! What clients have sent and were told, and what may be told after that.

use std::{collections::BTreeSet, fmt, sync::Mutex};

/// What is wrong, as it is found. The run goes on, and fails in the end with all of it.
#[derive(Debug, Default)]
pub(crate) struct Violations(Mutex<Vec<String>>);

impl Violations {
    pub(crate) fn add(&self, what: String) {
        println!("VIOLATION: {what}");
        self.0.lock().expect("no client fails here").push(what);
    }

    pub(crate) fn holds(&self, held: Result<(), String>) {
        if let Err(what) = held {
            self.add(what);
        }
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().expect("no client fails here").clone()
    }
}

/// What an attempt was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Counted, now or before; the value is that after the count.
    Acknowledged { value: i64 },
    /// The same of an attempt that may count less than was asked for: so much was counted, which is not zero.
    Applied { value: i64, amount: i64 },
    /// It had to stay within bounds, and counted nothing.
    Nothing,
    /// It was not counted by this attempt.
    Refused { why: String },
    /// No answer, or that it is not known.
    Unknown { why: String },
}

/// An outcome as a site tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    Counted { value: i64, amount: i64, site: u16 },
    Provisional { amount: i64, site: u16 },
    Cancelled { site: u16 },
    Unknown,
    Other(String),
}

impl Told {
    /// Of the answer to `COUNTER.OUTCOME` as text.
    pub(crate) fn of(text: &str) -> Self {
        let words: Vec<&str> = text.trim_matches(['[', ']']).split(' ').collect();
        let number = |word: &str| word.parse::<i64>().ok();
        let site = |word: &str| word.parse::<u16>().ok();
        let read = match words[..] {
            ["counted", value, amount, at] => {
                (|| Some(Self::Counted { value: number(value)?, amount: number(amount)?, site: site(at)? }))()
            }
            ["provisional", _, amount, at] => {
                (|| Some(Self::Provisional { amount: number(amount)?, site: site(at)? }))()
            }
            ["cancelled", at] => site(at).map(|site| Self::Cancelled { site }),
            ["unknown"] => Some(Self::Unknown),
            _ => None,
        };
        read.unwrap_or_else(|| Self::Other(text.to_owned()))
    }
}

/// How much of its amount an operation may count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// All, or it is refused.
    All,
    /// As much as fits between the bounds.
    Saturate,
    /// All or nothing: the value may not go below this.
    NotBelow(i64),
}

/// One add with an id. Its client alone sends it and asks for it, one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) key: String,
    pub(crate) producer: String,
    pub(crate) id: u64,
    pub(crate) amount: i64,
    pub(crate) kind: Kind,
    /// How long a site may wait for rights of others.
    pub(crate) remote_ms: u64,
    pub(crate) sent_to: BTreeSet<u16>,
    /// Sites that have acknowledged it.
    pub(crate) acknowledged_by: BTreeSet<u16>,
    /// The amounts that were acknowledged, if it may count less than was asked for.
    applied: BTreeSet<i64>,
    /// An attempt was not answered, at some time.
    was_open: bool,
    /// The last attempt, or one before, was not answered.
    pub(crate) is_open: bool,
    /// What was first told as settled, and by whom since then.
    settled: Option<Told>,
    settled_by: BTreeSet<u16>,
    history: Vec<String>,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, producer, id, amount, history, .. } = self;
        write!(f, "{key} {amount} IDMP {producer} {id}\n    {}", history.join("\n    "))
    }
}

impl Operation {
    pub(crate) fn new(key: String, producer: String, id: u64, amount: i64, remote_ms: u64) -> Self {
        Self {
            key,
            producer,
            id,
            amount,
            kind: Kind::All,
            remote_ms,
            sent_to: BTreeSet::new(),
            acknowledged_by: BTreeSet::new(),
            applied: BTreeSet::new(),
            was_open: false,
            is_open: false,
            settled: None,
            settled_by: BTreeSet::new(),
            history: Vec::new(),
        }
    }

    pub(crate) fn command(&self) -> String {
        let Self { key, producer, id, amount, kind, remote_ms, .. } = self;
        match kind {
            Kind::All => {}
            Kind::Saturate => return format!("INCREX {key} BYINT {amount} SATURATE IDMP {producer} {id}"),
            Kind::NotBelow(bound) => {
                return format!("INCREX {key} BYINT {amount} LBOUND {bound} IDMP {producer} {id}");
            }
        }
        let remote = if *remote_ms > 0 { format!(" REMOTE {remote_ms}") } else { String::new() };
        let (word, amount) = if *amount < 0 { ("DECRBY", -amount) } else { ("INCRBY", *amount) };
        format!("{word} {key} {amount}{remote} IDMP {producer} {id}")
    }

    pub(crate) fn question(&self) -> String {
        format!("COUNTER.OUTCOME {} {} {}", self.key, self.producer, self.id)
    }

    /// Was it counted, as far as its client knows?
    pub(crate) fn is_acknowledged(&self) -> bool {
        !self.acknowledged_by.is_empty()
    }

    /// Must an outcome be asked for, before it is known how much of it counts?
    pub(crate) fn is_in_doubt(&self) -> bool {
        match self.kind {
            Kind::All => self.is_open && !self.is_acknowledged(),
            // Two sites that did not hear of each other may have acknowledged different amounts, of which one stays.
            Kind::Saturate | Kind::NotBelow(_) => self.is_open || self.is_acknowledged(),
        }
    }

    /// May it have counted so much?
    fn may_count(&self, amount: i64) -> bool {
        let is_known = self.was_open || self.applied.contains(&amount);
        match self.kind {
            Kind::All => amount == self.amount,
            Kind::NotBelow(_) => amount == self.amount && is_known,
            Kind::Saturate => {
                amount.signum() == self.amount.signum() && amount.abs() <= self.amount.abs() && is_known
            }
        }
    }

    /// How much of it the counter must show in the end, when this is told of it. An operation that was refused in the end
    /// may have been counted by an attempt that was not answered.
    pub(crate) fn counts(&self, told: Option<&Told>) -> i64 {
        if self.kind != Kind::All {
            return match told {
                Some(Told::Counted { amount, .. }) => *amount,
                _ => 0,
            };
        }
        let is_found = self.is_open && matches!(told, Some(Told::Counted { .. }));
        if self.is_acknowledged() || is_found { self.amount } else { 0 }
    }

    fn note(&mut self, at_ms: u64, what: &str) {
        self.history.push(format!("{at_ms:>8} ms  {what}"));
    }

    fn wrong(&self, what: &str) -> Result<(), String> {
        Err(format!("{what}: {self}"))
    }

    /// An attempt at a site was answered, or not.
    pub(crate) fn heard(&mut self, site: u16, heard: &Heard, at_ms: u64) -> Result<(), String> {
        self.sent_to.insert(site);
        self.note(at_ms, &format!("site {site}: {heard:?}"));
        match heard {
            Heard::Unknown { .. } => (self.is_open, self.was_open) = (true, true),
            Heard::Nothing if self.kind == Kind::All => {
                return self.wrong("it has to count, or to be refused");
            }
            Heard::Nothing if self.acknowledged_by.contains(&site) => {
                return self.wrong("a site counts nothing of what it has acknowledged");
            }
            Heard::Nothing if self.settled.is_some() => {
                return self.wrong("a site counts nothing of what is settled");
            }
            Heard::Nothing => {}
            Heard::Refused { why } if why.starts_with("IDMPMISMATCH") => {
                return self.wrong("it has had one amount always");
            }
            // Not if the store fails, which nobody can look into then.
            Heard::Refused { why }
                if why.starts_with("OUTOFBOUNDS") && self.acknowledged_by.contains(&site) =>
            {
                return self.wrong("a site refuses what it has acknowledged");
            }
            Heard::Refused { .. } => {}
            Heard::Acknowledged { value } | Heard::Applied { value, .. } => {
                if let Heard::Applied { amount, .. } = heard {
                    self.applied.insert(*amount);
                    if !self.may_count(*amount) {
                        return self.wrong("it counts what was not asked for");
                    }
                }
                self.acknowledged_by.insert(site);
                self.is_open = false;
                if let Some(Told::Counted { value: settled, .. }) = self.settled
                    && settled != *value
                {
                    return self.wrong("a repeat of what is settled is answered with another value");
                }
            }
        }
        Ok(())
    }

    /// A site has told what became of it.
    pub(crate) fn told(&mut self, asked: u16, told: &Told, at_ms: u64) -> Result<(), String> {
        self.note(at_ms, &format!("site {asked} tells {told:?}"));
        match told {
            Told::Counted { amount, site, .. } => {
                if !self.may_count(*amount) || !self.sent_to.contains(site) {
                    return self.wrong("an outcome of something that was not sent so");
                }
                if self.settled.as_ref().is_some_and(|settled| settled != told) {
                    return self.wrong("an outcome that was settled has changed");
                }
                self.settled = Some(told.clone());
                self.settled_by.insert(asked);
                Ok(())
            }
            Told::Provisional { amount, site } => {
                if !self.may_count(*amount) || !self.sent_to.contains(site) {
                    return self.wrong("an outcome of something that was not sent so");
                }
                if self.settled_by.contains(&asked) {
                    return self.wrong("a site tells as provisional what it had told as settled");
                }
                self.agrees_with_settled(*site)
            }
            Told::Cancelled { site } => self.agrees_with_settled(*site),
            Told::Unknown => {
                if self.settled.is_some() {
                    return self.wrong("nothing is known of an operation that was settled");
                }
                if self.acknowledged_by.contains(&asked) {
                    return self.wrong("a site does not know what it has acknowledged");
                }
                Ok(())
            }
            Told::Other(_) => self.wrong("an outcome that is none"),
        }
    }

    /// What is settled is counted at one site, and nobody names another one after that.
    fn agrees_with_settled(&self, at: u16) -> Result<(), String> {
        match self.settled {
            Some(Told::Counted { site, .. }) if site != at => {
                self.wrong("after it was settled at one site another one is named")
            }
            _ => Ok(()),
        }
    }
}

/// Adds without ids to one counter, which only grows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Plain {
    pub(crate) acknowledged: i64,
    /// Those of which nobody knows.
    pub(crate) unknown: Vec<i64>,
}

impl Plain {
    /// Is this what was acknowledged, and some of what is not known?
    pub(crate) fn allows(&self, value: i64) -> bool {
        let Ok(rest) = usize::try_from(value - self.acknowledged) else { return false };
        let sum = usize::try_from(self.unknown.iter().sum::<i64>()).expect("few");
        let mut possible = vec![false; sum + 1];
        possible[0] = true;
        for amount in &self.unknown {
            let amount = usize::try_from(*amount).expect("more than nothing");
            for at in (amount..=sum).rev() {
                possible[at] |= possible[at - amount];
            }
        }
        possible.get(rest).copied().unwrap_or(false)
    }
}
