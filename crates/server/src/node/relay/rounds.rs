//! One round of what a relay says to a parent: shard by shard from the workers, in messages that are not too long, and the
//! answers back to the workers.

use quipu_engine::{
    Refusal, Reply,
    handoff::{
        RELAY_TIER, Round, Server, Visit,
        exchange::{self, EXCHANGE_MESSAGE_BYTES_MAX, Exchange, Exchanged, ShardAnswer},
    },
};
use quipu_storage::ShardId;
use tokio::sync::oneshot;

use super::Trouble;
use crate::{
    links::Caller,
    node::{Node, mail::Mail},
};

/// An answer to a visit may have so many bytes, so that no more visits go out together than can be answered together.
const ANSWER_BYTES_MAX: usize = 512 * 1024;
/// So many shards speak in one message.
const VISITS_MAX: usize = EXCHANGE_MESSAGE_BYTES_MAX / ANSWER_BYTES_MAX;

/// A message is full when it has so many bytes. One visit has less than what then is left.
const MESSAGE_BYTES_FULL: usize = EXCHANGE_MESSAGE_BYTES_MAX / 4;

/// Divides what is to be said into messages that are not too long, and whose answers are not either.
fn in_messages(visits: Vec<(u16, Visit)>) -> Vec<Vec<(u16, Visit)>> {
    let mut messages: Vec<Vec<(u16, Visit)>> = Vec::new();
    let mut bytes = 0;
    for visit in visits {
        let is_full =
            bytes > MESSAGE_BYTES_FULL || messages.last().is_none_or(|last| last.len() >= VISITS_MAX);
        bytes = if is_full { 0 } else { bytes } + exchange::encode(&visit).len();
        match messages.last_mut().filter(|_| !is_full) {
            Some(last) => last.push(visit),
            None => messages.push(vec![visit]),
        }
    }
    messages
}

/// What became of a round.
#[derive(Debug)]
pub(super) enum Outcome {
    /// All was taken in.
    Done,
    /// A shard there could not, or not all of it, for this reason.
    Refused(String),
}

impl Node {
    /// Asks a server who it is, and checks that it is a parent.
    pub(super) async fn introduce_to(&self, parent: &Caller) -> Result<Server, Trouble> {
        let board = self.shared.board();
        let (ours, shards) = (board.cluster(), board.identity().shards);
        let hello = Exchange::new(Some(ours.clone()), Vec::new());
        let answer = parent.exchange(&exchange::encode(&hello)).await?;
        let exchanged: Exchanged = exchange::decode(&answer)?;
        let (theirs, server) = (exchanged.home(), exchanged.server);
        if ours.is_other(&theirs) {
            return Err(Trouble::Wrong(format!(
                "it belongs to the cluster {:?}, and this relay to {:?}; nothing was handed over. Correct --parents, or make \
                 this relay's folder anew with --cluster {}",
                theirs.beside(&ours),
                ours.beside(&theirs),
                theirs.name,
            )));
        }
        if server.tier >= RELAY_TIER {
            return Err(Trouble::Wrong(
                "it is no site; nothing was handed over. Name sites in --parents".to_owned(),
            ));
        }
        if server.shards != shards {
            return Err(Trouble::Wrong(format!(
                "{} has {theirs} shards, and this relay has {shards}; nothing was handed over. Make this relay's folder anew \
                 with --shards {theirs}",
                server.name,
                theirs = server.shards
            )));
        }
        if let Some(id) = theirs.id {
            self.shared.adopt_cluster_id(id).map_err(|error| Trouble::Lost(error.to_string()))?;
        }
        Ok(server)
    }

    /// Says to a parent what there is to say, and takes in its answers.
    pub(super) async fn hand_over(
        &self,
        parent: &Caller,
        server: Server,
        round: Round,
    ) -> Result<Outcome, Trouble> {
        let mut outcome = Outcome::Done;
        for visits in in_messages(self.speak(server, round).await) {
            if let Some(why) = self.send(parent, server, visits).await? {
                outcome = Outcome::Refused(why);
            }
        }
        Ok(outcome)
    }

    /// What the shards have to say, durably. One that cannot store anything now says nothing.
    async fn speak(&self, server: Server, round: Round) -> Vec<(u16, Visit)> {
        let asked: Vec<_> = self
            .shared
            .shards
            .all()
            .map(|shard| {
                let (answer, answered) = oneshot::channel();
                let worker = self.shared.owner(shard);
                self.shared.post(worker, Mail::Speak { shard, server, round, answer });
                answered
            })
            .collect();
        let mut visits = Vec::new();
        for answered in asked {
            match answered.await {
                Ok(Reply::Visits(said)) => visits.extend(said),
                Ok(Reply::Refused(refusal)) => tracing::warn!("a shard hands nothing over: {refusal}"),
                _ => {}
            }
        }
        visits
    }

    /// Sends visits, and takes in the answers. Returns why something was refused, if it was.
    async fn send(
        &self,
        parent: &Caller,
        server: Server,
        visits: Vec<(u16, Visit)>,
    ) -> Result<Option<String>, Trouble> {
        let asked: Vec<u16> = visits.iter().map(|(shard, _)| *shard).collect();
        let bytes = exchange::encode(&Exchange::new(Some(self.shared.board().cluster()), visits));
        let exchanged: Exchanged = exchange::decode(&parent.exchange(&bytes).await?)?;
        if exchanged.server != server {
            return Err(Trouble::Wrong(format!("{} answers for {}", exchanged.server.name, server.name)));
        }
        let shards = self.shared.shards;
        let mut refused = None;
        for (shard, answer) in exchanged.answers {
            let answer = match answer {
                ShardAnswer::Visited(answer) => answer,
                ShardAnswer::Refused(why) => {
                    refused = Some(why);
                    continue;
                }
                ShardAnswer::Copy => {
                    let of = self.shared.server().name;
                    refused = Some(Refusal::Copy { of }.to_string());
                    continue;
                }
            };
            let is_sound =
                asked.contains(&shard) && answer.speaks_only_of(|key| shards.of(key) == ShardId(shard));
            if !is_sound {
                return Err(Trouble::Wrong("an answer to what was not asked".to_owned()));
            }
            if answer.refused {
                refused = Some("some of it cannot be counted there yet; it stays here until then".to_owned());
            }
            let shard = ShardId(shard);
            self.shared.post(self.shared.owner(shard), Mail::Answered { shard, server, answer });
        }
        Ok(refused)
    }
}
