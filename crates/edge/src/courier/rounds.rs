//! A round of exchanges.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use quipu_engine::{
    Refusal, Shards,
    handoff::{
        Answer, Cluster, Name, Open, Server,
        exchange::{Exchange, Exchanged, ShardAnswer},
    },
};

use super::{Courier, Outcome, PRESSED};
use crate::{
    Address, SyncError,
    keeper::{Heard, Met, NotMet, Request, Said},
};

/// However little time is left, an answer has so much.
const ANSWER_TIME_MIN: Duration = Duration::from_millis(100);

/// What the shards of a server have answered.
#[derive(Debug, Default)]
struct Answers {
    visited: Vec<(u16, Box<Answer>)>,
    /// The first refusal.
    refused: Option<String>,
    /// The state is used twice.
    is_copy: bool,
}

impl Courier {
    /// One exchange with the chosen server, or with the next that answers; then with those where something is open.
    pub(super) fn round(&mut self) -> Result<Outcome, SyncError> {
        self.signals.is_woken.store(!self.pace.in_background, Ordering::Release);
        if let Some(copy) = &self.copy {
            // Whoever waits for everything to be handed over is told why it is not.
            self.trouble = Some(copy.clone());
            return Err(copy.clone());
        }
        self.trouble = None;
        let mut failed = SyncError::NoServers;
        for _ in 0..self.servers.len() {
            let server = self.servers[self.current].clone();
            match self.exchange(&server, true) {
                Ok(before) => {
                    self.back_offs.entry(server.clone()).or_default().reset();
                    self.clean(&server);
                    if let Some(copy) = &self.copy {
                        return Err(copy.clone());
                    }
                    return Ok(Outcome { has_moved: self.open != before });
                }
                Err(error) => {
                    self.trouble = Some(error.clone());
                    if error.is_final() {
                        return Err(error);
                    }
                    failed = error;
                    self.current = (self.current + 1) % self.servers.len();
                }
            }
        }
        self.trouble = Some(failed.clone());
        Err(failed)
    }

    /// Speaks to the servers with which something is open, besides the chosen one. A failure is remembered, and no more:
    /// what was counted is with the chosen one.
    fn clean(&mut self, chosen: &Address) {
        let chosen_name = self.known.get(chosen).map(|server| server.name);
        let others = self.open.tokens.keys().chain(&self.open.servers).copied();
        let mut others: BTreeSet<Name> = others.filter(|name| Some(*name) != chosen_name).collect();
        if others.is_empty() {
            return;
        }
        // Where each of them is: those that were never asked may be it.
        for address in self.servers.clone() {
            let is_placed = self.places.values().any(|place| *place == address);
            if !self.known.contains_key(&address) && !is_placed && self.may_try(&address) {
                let met = self.meet(&address);
                self.note(&address, &met);
            }
        }
        let known = self.known.iter().map(|(address, server)| (server.name, address.clone()));
        let places: BTreeMap<Name, Address> = self.places.clone().into_iter().chain(known).collect();
        while let Some(name) = others.pop_first().filter(|_| self.copy.is_none()) {
            let Some(address) = places.get(&name).filter(|address| *address != chosen) else { continue };
            if self.may_try(address) {
                let exchanged = self.exchange(address, false);
                self.note(address, &exchanged);
            }
        }
    }

    fn may_try(&self, address: &Address) -> bool {
        self.back_offs.get(address).is_none_or(|back_off| back_off.is_over(Instant::now()))
    }

    fn note<T>(&mut self, address: &Address, done: &Result<T, SyncError>) {
        let waits = if self.goals.is_empty() { self.pace.after_failure } else { PRESSED };
        let back_off = self.back_offs.entry(address.clone()).or_default();
        match done {
            Ok(_) => back_off.reset(),
            Err(error) => {
                back_off.failed(waits, Instant::now());
                self.trouble = Some(error.clone());
            }
        }
    }

    /// How long an answer may take, for those who wait.
    fn time_left(&self) -> Duration {
        let now = Instant::now();
        let left = self.goals.iter().map(|goal| goal.until.saturating_duration_since(now)).min();
        left.map_or(Duration::MAX, |left| left.max(ANSWER_TIME_MIN))
    }

    /// Asks a server who it is.
    fn meet(&mut self, address: &Address) -> Result<Server, SyncError> {
        if let Some(server) = self.known.get(address) {
            return Ok(*server);
        }
        let hello = Exchange::new(self.cluster.clone(), Vec::new());
        let exchanged = self.http.exchange(address, &hello, self.time_left())?;
        let (cluster, server) = (exchanged.home(), exchanged.server);
        let nonsense = |why: String| Err(SyncError::Nonsense { server: address.clone(), why });
        if server.tier > 1 || Shards::new(server.shards).is_none() || server.name == self.name {
            return nonsense(format!("it says that it is {server:?}"));
        }
        let met = Met {
            cluster: cluster.clone(),
            name: server.name,
            shards: server.shards,
            address: address.to_string(),
        };
        match self.ask(|reply| Request::Met { server: met, reply }) {
            None => Err(SyncError::Closed),
            Some(Err(NotMet::NotStored(error))) => Err(SyncError::NotStored(error.to_string())),
            Some(Err(NotMet::OtherCluster { ours })) => Err(other_cluster(address, &cluster, &ours)),
            Some(Err(NotMet::OtherShards { ours })) => {
                nonsense(format!("it has {} shards, and its cluster has {ours}", server.shards))
            }
            Some(Ok(())) => {
                let id = self.cluster.as_ref().and_then(|ours| ours.id).or(cluster.id);
                self.cluster = Some(Cluster { id, ..cluster });
                self.places.insert(server.name, address.clone());
                self.known.insert(address.clone(), server);
                Ok(server)
            }
        }
    }

    /// Says to a server what there is to be said, and takes in its answer. Gives how it stood before. If the server, chosen
    /// or not, has noticed that this state is used twice, nothing is said any more, to any server.
    fn exchange(&mut self, address: &Address, chosen: bool) -> Result<Open, SyncError> {
        let exchanged = self.exchange_once(address, chosen);
        if let Err(error @ SyncError::Copy { .. }) = &exchanged {
            self.copy = Some(error.clone());
            // If it cannot be stored, this process knows it, and the next one finds out again.
            let why = error.to_string();
            drop(self.ask(|reply| Request::Copied { why, reply }));
        }
        exchanged
    }

    fn exchange_once(&mut self, address: &Address, chosen: bool) -> Result<Open, SyncError> {
        let server = self.meet(address)?;
        let said = self.ask(|reply| Request::Visits { server, chosen, reply });
        let Said { visits, open: before } = said.ok_or(SyncError::Closed)?.map_err(not_stored)?;
        self.open.clone_from(&before);
        if visits.is_empty() {
            return Ok(before);
        }
        let asked: Vec<u16> = visits.iter().map(|(shard, _)| *shard).collect();
        let exchange = Exchange::new(self.cluster.clone(), visits);
        let exchanged = self.http.exchange(address, &exchange, self.time_left())?;
        let Answers { visited, refused, is_copy } = self.check(address, server, &asked, exchanged)?;
        let could_not_count = visited.iter().any(|(_, answer)| answer.refused);
        let heard = self.ask(|reply| Request::Answered { server, answers: visited, reply });
        let Heard { open, bad } = heard.ok_or(SyncError::Closed)?.map_err(not_stored)?;
        self.open = open;
        if let Some(bad) = bad {
            return Err(SyncError::bad_answer(address, bad));
        }
        let server = address.clone();
        match refused {
            _ if is_copy => {
                let why = Refusal::Copy { of: self.name };
                Err(SyncError::Copy { server, why: format!("{why}.") })
            }
            Some(why) => Err(SyncError::Refused { server, why }),
            None => {
                if could_not_count {
                    let why = "it cannot count some of this now; it stays here".to_owned();
                    self.trouble = Some(SyncError::Refused { server, why });
                }
                Ok(before)
            }
        }
    }

    /// Is it an answer to what was asked?
    fn check(
        &mut self,
        address: &Address,
        server: Server,
        asked: &[u16],
        exchanged: Exchanged,
    ) -> Result<Answers, SyncError> {
        let cluster = exchanged.home();
        let Exchanged { server: found, answers, .. } = exchanged;
        if let Some(ours) = &self.cluster {
            if ours.is_other(&cluster) {
                return Err(other_cluster(address, &cluster, ours));
            }
            if ours.id.is_none() && cluster.id.is_some() {
                // Asked again the next time, and then it is remembered.
                self.known.remove(address);
            }
        }
        if found != server {
            // Asked again the next time.
            self.known.remove(address);
            let why = format!("it was {}, and is {} now", server.name, found.name);
            return Err(SyncError::Nonsense { server: address.clone(), why });
        }
        if !answers.iter().map(|(shard, _)| shard).eq(asked) {
            let why = "it has not answered for the shards that were asked".to_owned();
            return Err(SyncError::Nonsense { server: address.clone(), why });
        }
        let mut sorted = Answers::default();
        for (shard, answer) in answers {
            match answer {
                ShardAnswer::Visited(answer) => sorted.visited.push((shard, answer)),
                ShardAnswer::Refused(why) => sorted.refused = sorted.refused.or(Some(why)),
                ShardAnswer::Copy => sorted.is_copy = true,
            }
        }
        Ok(sorted)
    }
}

fn other_cluster(server: &Address, found: &Cluster, ours: &Cluster) -> SyncError {
    SyncError::OtherCluster { server: server.clone(), found: found.beside(ours), ours: ours.beside(found) }
}

/// The state could not be written.
fn not_stored(refusal: Refusal) -> SyncError {
    match refusal {
        Refusal::NotStored(why) | Refusal::InDoubt(why) => SyncError::NotStored(why),
        other => SyncError::NotStored(other.to_string()),
    }
}
