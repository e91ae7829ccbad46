//! What is said to servers, what they answer, and how it stands with them.

use std::time::Instant;

use quipu_engine::{
    Refusal,
    handoff::{Answer, Server},
};
use quipu_storage::{StorageError, embedded::Disk};

use super::{EDGE, Heard, Keeper, Met, NotMet, Said, moment};
use crate::{InFlight, Status, promise::Promise};

impl<D: Disk> Keeper<D> {
    pub(super) fn meet(&mut self, server: Met) -> Result<(), NotMet> {
        let Met { cluster, name, shards, address } = server;
        let mut met = self.identity.clone();
        if let Some(ours) = met.home().filter(|ours| ours.is_other(&cluster)) {
            return Err(NotMet::OtherCluster { ours });
        }
        met.settle(cluster);
        match met.shards {
            Some(ours) if ours != shards => return Err(NotMet::OtherShards { ours }),
            _ => met.shards = Some(shards),
        }
        met.servers.insert(name, address);
        if met == self.identity {
            return Ok(());
        }
        met.write(&self.table).map_err(NotMet::NotStored)?;
        self.identity = met;
        Ok(())
    }

    /// The opening is counted before the first word.
    fn count_opening(&mut self) -> Result<(), StorageError> {
        if self.is_counted {
            return Ok(());
        }
        let mut counted = self.identity.clone();
        counted.openings = counted.openings.saturating_add(1);
        counted.write(&self.table)?;
        self.identity = counted;
        self.is_counted = true;
        Ok(())
    }

    pub(super) fn visits(&mut self, server: Server, chosen: bool, reply: Promise<Result<Said, Refusal>>) {
        if let Err(error) = self.count_opening() {
            return reply.keep(Err(Refusal::NotStored(error.to_string())));
        }
        self.forget_asked();
        let Some(open) = self.host.not_handed_over(EDGE) else { return reply.keep(Err(unavailable())) };
        let mut visits = self.host.visits(EDGE, server, chosen);
        visits.sort_by_key(|(shard, _)| *shard);
        self.after_batch(move |stored| reply.keep(stored.map(|()| Said { visits, open })));
    }

    pub(super) fn answered(
        &mut self,
        server: Server,
        answers: &[(u16, Box<Answer>)],
        reply: Promise<Result<Heard, Refusal>>,
    ) {
        let now = Instant::now();
        let mut bad = None;
        for (shard, answer) in answers {
            match self.host.answered(EDGE, *shard, server, answer, moment(self.began)) {
                Ok(()) => {
                    for (key, _) in answer.view.report() {
                        if let Some(asked) = self.asked.get_mut(key.bytes()) {
                            asked.heard_at = Some(now);
                        }
                    }
                }
                Err(error) => bad = bad.or(Some(error)),
            }
        }
        let Some(open) = self.host.not_handed_over(EDGE) else { return reply.keep(Err(unavailable())) };
        self.after_batch(move |stored| reply.keep(stored.map(|()| Heard { open, bad })));
    }

    pub(super) fn status(&mut self) -> Status {
        let open = self.host.not_handed_over(EDGE);
        let trouble = open.is_none().then(|| unavailable().to_string());
        let open = open.unwrap_or_default();
        let in_flight = self.host.in_flight(EDGE).into_iter().map(|(name, deltas)| InFlight {
            server: name.to_string(),
            address: self.identity.servers.get(&name).cloned(),
            counters: deltas.len(),
            amounts: deltas.iter().map(|(key, delta)| (key.bytes().to_vec(), delta.value())).collect(),
            is_for_relay: name.site().is_none(),
        });
        Status {
            name: self.identity.name.to_string(),
            cluster: self.identity.cluster.clone(),
            openings: self.identity.openings,
            waiting: open.pending,
            in_flight: in_flight.collect(),
            last_words: open.last_words,
            is_retiring: self.is_retiring(),
            copy: self.identity.copy.clone(),
            asks: self.asked.len(),
            trouble,
        }
    }
}

/// The state cannot be read or written until its disk works again.
fn unavailable() -> Refusal {
    Refusal::NotStored(
        "the disk has failed, and what the state says is not known until it works again".to_owned(),
    )
}
