//! Edges and relays that hand over: each visit goes to the worker of its shard, and the answers come when all is durable.

use quipu_engine::{
    Refusal, Reply,
    handoff::exchange::{self, EXCHANGE_MESSAGE_BYTES_MAX, Exchange, Exchanged, ShardAnswer, Taken},
};
use quipu_storage::ShardId;

use super::{Node, mail::Mail};
use crate::http::ExchangeTrouble;

impl Node {
    /// Takes in what an edge or a relay says. A `leaf` is not trusted to speak for others.
    pub(super) async fn take_exchange(
        &self,
        exchange: Exchange,
        leaf: bool,
    ) -> Result<Exchanged, ExchangeTrouble> {
        self.check_home(&exchange)?;
        let (ours, shards) = (self.shared.board().cluster(), self.shared.shards);
        let Exchange { visits, .. } = exchange;
        if let Some(why) = self.shared.board().stopped().filter(|_| !visits.is_empty()) {
            return Err(ExchangeTrouble::NotNow(format!("{why}; nothing was handed over")));
        }
        let is_sound = visits.iter().all(|(shard, visit)| {
            *shard < shards.count() && visit.speaks_only_of(|key| shards.of(key) == ShardId(*shard))
        });
        if !is_sound || !visits.is_sorted_by(|(one, _), (next, _)| one < next) {
            let text = "it names a shard that does not exist, or twice, or counters of another shard";
            return Err(ExchangeTrouble::Impossible(text.to_owned()));
        }
        let mut asked = Vec::with_capacity(visits.len());
        for (shard, visit) in visits {
            let node = self.clone();
            // Side by side: shards of one worker share a batch.
            let answered = tokio::spawn(async move { node.visit(ShardId(shard), visit, leaf).await });
            asked.push((shard, answered));
        }
        let mut answers = Vec::with_capacity(asked.len());
        for (shard, answered) in asked {
            let answer = match answered.await {
                Ok(Reply::Visited(answer)) => ShardAnswer::Visited(answer),
                Ok(Reply::Refused(refusal)) => refusal.into(),
                Ok(_) => ShardAnswer::Refused("the server has answered something else".to_owned()),
                Err(_) => Refusal::NotStored("the server is stopping; ask again".to_owned()).into(),
            };
            answers.push((shard, answer));
        }
        Ok(Exchanged::new(ours, self.shared.server(), answers))
    }

    /// Does whoever says this belong to the same cluster, as far as it knows?
    fn check_home(&self, exchange: &Exchange) -> Result<(), ExchangeTrouble> {
        let ours = self.shared.board().cluster();
        match exchange.home().filter(|theirs| ours.is_other(theirs)) {
            None => Ok(()),
            Some(theirs) => {
                let (theirs, ours) = (theirs.beside(&ours), ours.beside(&theirs));
                Err(ExchangeTrouble::OtherCluster { theirs, ours })
            }
        }
    }

    /// Tells a relay that introduces itself who is here.
    pub(super) fn welcome_relay(&self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        let hello: Exchange = exchange::decode(bytes).map_err(|bad| format!("{bad}; nothing was done"))?;
        self.check_home(&hello).map_err(|trouble| trouble.to_string())?;
        if !hello.visits.is_empty() {
            return Err("a relay hands over before it has said who it is; nothing was done".to_owned());
        }
        Ok(self.introduction())
    }

    /// Who is here, for relays and other nodes of this site.
    pub(super) fn introduction(&self) -> Vec<u8> {
        let ours = self.shared.board().cluster();
        exchange::encode(&Exchanged::new(ours, self.shared.server(), Vec::new()))
    }

    /// The same, of bytes that a relay has sent, and in bytes.
    pub(super) async fn answer_relay(&self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        let exchange: Exchange = exchange::decode(bytes).map_err(|bad| format!("{bad}; nothing was done"))?;
        let exchanged = self.take_exchange(exchange, false).await;
        let mut exchanged = exchanged.map_err(|trouble| trouble.to_string())?;
        loop {
            let bytes = exchange::encode(&exchanged);
            if bytes.len() <= EXCHANGE_MESSAGE_BYTES_MAX {
                return Ok(bytes);
            }
            // The rest is as if it was lost on its way: the relay says it again.
            exchanged.answers.truncate(exchanged.answers.len() / 2);
        }
    }

    /// Takes over what a relay leaves of a shard.
    pub(super) async fn take_estate(&self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        let left = exchange::decode_left(bytes).map_err(|bad| format!("{bad}; nothing was done"))?;
        let (shards, shard) = (self.shared.shards, ShardId(left.shard));
        if left.shard >= shards.count() || !left.speaks_only_of(|key| shards.of(key) == shard) {
            return Err(
                "it speaks of a shard that does not exist, or of counters of another; nothing was done"
                    .into(),
            );
        }
        if let Some(why) = self.shared.why_not_taking(true) {
            return Ok(exchange::encode(&Taken::Refused(why.to_string())));
        }
        let here = || async {
            let (worker, estate) = (self.shared.owner(shard), Box::new(left.estate.clone()));
            let taken = match self.ask(worker, |answer| Mail::Adopt { shard, estate, answer }).await? {
                Reply::Adopted(adoption) => Taken::Answered(*adoption),
                Reply::Refused(refusal @ Refusal::NotHere) => return Err(refusal),
                Reply::Refused(refusal) => Taken::Refused(refusal.to_string()),
                _ => Taken::Refused("the server has answered something else".to_owned()),
            };
            Ok(exchange::encode(&taken))
        };
        Ok(self.adopt_where_it_is(shard, bytes, here).await)
    }
}
