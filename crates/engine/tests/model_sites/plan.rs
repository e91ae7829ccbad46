//! What is looked through: how many sites, what clients may ask, how often, and what may go wrong.

use quipu_engine::{Action, Add, Command, Limits, OperationId, Settings, Spread};

/// So many counters with the longest keys that their rows do not fit into one message.
const FILLERS: usize = 124;

/// An operation with an id. Clients may ask for it again and again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation {
    pub(crate) key: &'static [u8],
    pub(crate) id: &'static [u8],
    /// Each operation of a plan on the same key has an amount of its own, a power of 16, so that one that is lost cannot
    /// make up for another that is counted twice.
    pub(crate) amount: i64,
}

impl Operation {
    pub(crate) fn name(&self) -> OperationId<'static> {
        OperationId { producer: b"p", id: self.id }
    }
}

/// Something that a client may ask.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ask {
    /// The operation of this number.
    Once(usize),
    /// Count without an id.
    Plain {
        key: &'static [u8],
        amount: i64,
        remote_ms: u64,
    },
    Delete {
        key: &'static [u8],
    },
    /// Make a counter that does not go below zero.
    Create {
        key: &'static [u8],
        initial: i64,
    },
    /// Count on many other counters.
    Fill,
}

/// A client's wish, and how often it may come to which sites (counted from zero).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Client {
    pub(crate) ask: Ask,
    pub(crate) times: u8,
    pub(crate) sites: &'static [usize],
}

/// How often what may happen, besides messages that are lost, delayed and overtaken, which may always.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Trouble {
    /// A site waits until its next timer is due.
    pub(crate) timers: u8,
    /// A site loses its memory and begins again from what it has stored.
    pub(crate) restarts: u8,
    /// A message is delivered and stays under way.
    pub(crate) repeats: u8,
    /// The window passes at a site that has heard of an operation which is not settled.
    pub(crate) ages: u8,
}

/// What is looked through.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) name: &'static str,
    pub(crate) sites: usize,
    pub(crate) operations: &'static [Operation],
    pub(crate) clients: Vec<Client>,
    /// What happens before, at which site: after each everything is delivered.
    pub(crate) before: &'static [(usize, Ask)],
    /// Pairs of sites between which everything is lost, until all is delivered in the end.
    pub(crate) cut: &'static [[usize; 2]],
    /// Pairs of sites that have no link, and know it: others pass on what they say.
    pub(crate) unlinked: &'static [[usize; 2]],
    pub(crate) trouble: Trouble,
    pub(crate) settings: Settings,
}

impl Plan {
    /// Whom a site has links to.
    pub(crate) fn linked(&self, at: usize) -> impl Iterator<Item = usize> {
        let is_linked = move |other: usize| {
            other != at && !self.unlinked.iter().any(|pair| pair.contains(&at) && pair.contains(&other))
        };
        (0..self.sites).filter(move |other| is_linked(*other))
    }

    /// The counters that are looked at.
    pub(crate) fn keys(&self) -> Vec<&'static [u8]> {
        let before = self.before.iter().map(|(_, ask)| *ask);
        let asks = self.clients.iter().map(|client| client.ask).chain(before);
        let mut keys: Vec<_> = asks.filter_map(|ask| self.key(ask)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    fn key(&self, ask: Ask) -> Option<&'static [u8]> {
        match ask {
            Ask::Once(operation) => Some(self.operations[operation].key),
            Ask::Plain { key, .. } | Ask::Delete { key } | Ask::Create { key, .. } => Some(key),
            Ask::Fill => None,
        }
    }

    /// The commands of a client's wish.
    pub(crate) fn commands(&self, ask: Ask, submit: &mut dyn FnMut(Command<'_>)) {
        if let Some(key) = self.key(ask) {
            return submit(Command { key, action: self.action(ask) });
        }
        for number in 0..FILLERS {
            let mut key = format!("filler {number} ");
            key.extend(std::iter::repeat_n('.', quipu_engine::KEY_BYTES_MAX - key.len()));
            let action = Action::Add { add: Add::of(1), operation: None };
            submit(Command { key: key.as_bytes(), action });
        }
    }

    fn action(&self, ask: Ask) -> Action<'static> {
        match ask {
            Ask::Once(operation) => {
                let operation = &self.operations[operation];
                Action::Add { add: Add::of(operation.amount), operation: Some(operation.name()) }
            }
            Ask::Plain { amount, remote_ms, .. } => {
                Action::Add { add: Add { remote_ms, ..Add::of(amount) }, operation: None }
            }
            Ask::Delete { .. } => Action::Reset { to: None },
            Ask::Create { initial, .. } => Action::Create {
                limits: Limits { minimum: Some(0), maximum: None, initial },
                spread: Spread::Creator,
                wait_ms: 0,
            },
            Ask::Fill => Action::Get,
        }
    }
}
