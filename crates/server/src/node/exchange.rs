//! Edges that hand over: each visit goes to the worker of its shard, and the answers come when all is durable.

use quipu_engine::{
    Refusal, Reply,
    handoff::{
        Name, Server,
        exchange::{Exchange, Exchanged, ShardAnswer},
    },
};
use quipu_storage::ShardId;
use tokio::sync::oneshot;

use super::{Node, mail::Mail};
use crate::http::ExchangeTrouble;

impl Node {
    pub(super) async fn take_exchange(&self, exchange: Exchange) -> Result<Exchanged, ExchangeTrouble> {
        let Exchange { cluster, mut visits } = exchange;
        let (ours, shards) = (self.shared.board().identity().cluster.clone(), self.shared.shards);
        if let Some(theirs) = cluster.filter(|theirs| *theirs != ours) {
            return Err(ExchangeTrouble::OtherCluster { theirs, ours });
        }
        if let Some(why) = self.shared.board().stopped().filter(|_| !visits.is_empty()) {
            return Err(ExchangeTrouble::NotNow(format!("{why}; nothing was handed over")));
        }
        if self.shared.council.leaving.takes_no_writes() {
            // What has a slot here is taken. For the rest there are other sites.
            visits.iter_mut().for_each(|(_, visit)| visit.view.want_no_slot());
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
            let (answer, answered) = oneshot::channel();
            let worker = self.shared.owner(ShardId(shard));
            self.shared.post(worker, Mail::Visit { shard: ShardId(shard), visit: Box::new(visit), answer });
            asked.push((shard, answered));
        }
        let mut answers = Vec::with_capacity(asked.len());
        for (shard, answered) in asked {
            let answer = match answered.await {
                Ok(Reply::Visited(answer)) => ShardAnswer::Visited(answer),
                Ok(Reply::Refused(refusal)) => ShardAnswer::Refused(refusal.to_string()),
                Ok(_) => ShardAnswer::Refused("the server has answered something else".to_owned()),
                Err(_) => {
                    let why = Refusal::NotStored("the server is stopping; ask again".to_owned());
                    ShardAnswer::Refused(why.to_string())
                }
            };
            answers.push((shard, answer));
        }
        let server = Server { name: Name::of_site(self.shared.site()), tier: 0, shards: shards.count() };
        Ok(Exchanged { cluster: ours, server, answers })
    }
}
