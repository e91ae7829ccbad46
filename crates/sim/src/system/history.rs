//! What happened, for whoever has to find out why. The last of it is kept and printed when a check fails.

use super::calls::{Attempt, Call, Key};
use super::claims::Fate;
use crate::core::Millis;
use quipu_engine::{Added, Reply};
use std::collections::VecDeque;

/// So many happenings are kept.
const KEPT_MAX: usize = 120;

/// Something that happened.
#[derive(Debug, Clone)]
pub(crate) enum Note {
    /// A site took a call.
    Taken { attempt: usize },
    /// A site answered a call, for all to know.
    Released { attempt: usize, said: Said },
    /// A call was lost with its process.
    Lost { attempt: usize, doubt: bool },
    /// A site does not know any more what it had answered.
    Forgotten { attempt: usize, fate: Fate },
    /// Anything else.
    Text(String),
}

/// An answer in short.
#[derive(Debug, Clone)]
pub(crate) enum Said {
    Added(Added),
    Value(Option<i64>),
    Other(String),
}

impl Said {
    pub(crate) fn of(reply: &Reply) -> Self {
        match reply {
            Reply::Added(added) => Self::Added(*added),
            Reply::Value(value) => Self::Value(*value),
            other => Self::Other(format!("{other:?}")),
        }
    }
}

/// The happenings.
#[derive(Debug)]
pub(crate) struct History {
    /// What answers calls: a site, or a node.
    place: &'static str,
    last: VecDeque<(Millis, Note)>,
    /// All of them are printed as they come.
    pub(crate) aloud: bool,
}

impl History {
    pub(crate) fn of(place: &'static str, aloud: bool) -> Self {
        Self { place, last: VecDeque::new(), aloud }
    }

    pub(crate) fn note(&mut self, now: Millis, note: Note) {
        if self.last.len() == KEPT_MAX {
            self.last.pop_front();
        }
        self.last.push_back((now, note));
    }

    /// The last happenings in words.
    pub(crate) fn lines(&self, keys: &[Key], calls: &[Call], attempts: &[Attempt]) -> Vec<String> {
        self.last.iter().map(|(at, note)| line(self.place, *at, note, keys, calls, attempts)).collect()
    }

    /// The newest happening in words.
    pub(crate) fn newest(&self, keys: &[Key], calls: &[Call], attempts: &[Attempt]) -> String {
        self.last
            .back()
            .map_or(String::new(), |(at, note)| line(self.place, *at, note, keys, calls, attempts))
    }
}

fn line(place: &str, at: Millis, note: &Note, keys: &[Key], calls: &[Call], attempts: &[Attempt]) -> String {
    let call = |attempt: usize| {
        let Attempt { call, site, client, .. } = attempts[attempt];
        let call = &calls[call];
        let key = String::from_utf8_lossy(&keys[call.key].name);
        let who = client.map_or("probe".to_owned(), |client| format!("client {client}"));
        format!("{place} {} #{attempt} {who}: {key} {call}", site + 1)
    };
    let text = match note {
        Note::Taken { attempt } => format!("{} ...", call(*attempt)),
        Note::Released { attempt, said: Said::Added(Added { value, applied, repeated, .. }) } => {
            let repeated = if *repeated { ", a repeat" } else { "" };
            format!("{} -> {applied} added, now {value}{repeated}", call(*attempt))
        }
        Note::Released { attempt, said: Said::Value(value) } => format!("{} -> {value:?}", call(*attempt)),
        Note::Released { attempt, said: Said::Other(text) } => format!("{} -> {text}", call(*attempt)),
        Note::Forgotten { attempt, fate } => format!("{} is forgotten: {fate:?}", call(*attempt)),
        Note::Lost { attempt, doubt: true } => format!("{} -> perhaps stored", call(*attempt)),
        Note::Lost { attempt, doubt: false } => format!("{} -> not stored", call(*attempt)),
        Note::Text(text) => text.clone(),
    };
    format!("{at:>8} ms  {text}")
}
