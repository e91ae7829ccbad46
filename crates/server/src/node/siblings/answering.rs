//! Questions of other nodes of this site, answered. Nothing is passed on a second time.

use minicbor::bytes::ByteVec;
use quipu_engine::{Listing, OwnedCommand, Refusal, Reply, SiteId, call};
use quipu_storage::ShardId;

use super::question::{Question, Told, decode, encode};
use crate::{
    links::NODE_KEY_BYTES,
    node::{
        Node,
        acks::Written,
        mail::{Cleared, ListShard, Mail},
    },
};

impl Node {
    /// Tells another node of this site, which shows this key, who is here.
    pub(in crate::node) fn welcome_node(&self, key: &[u8; NODE_KEY_BYTES]) -> Result<Vec<u8>, String> {
        match &self.shared.siblings {
            Some(siblings) if siblings.knows(key) => Ok(self.introduction()),
            _ => Err("it is no node of this site; nothing was done".to_owned()),
        }
    }

    /// Answers another node of this site. The error is for it, and ends the connection.
    pub(in crate::node) async fn answer_node(&self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        let question: Question = decode(bytes)?;
        let told = match question {
            Question::Commands { shard, commands } => self.do_commands(ShardId(shard), &commands).await?,
            Question::Page { shard, prefix, after, limit, clear } => {
                let limit = usize::try_from(limit).unwrap_or(usize::MAX);
                let (prefix, after) = (prefix.into(), after.map(Into::into));
                let request = ListShard { shard: ShardId(shard), prefix, after, limit };
                if clear { self.clear_for(request).await } else { self.list_for(request).await }
            }
            Question::Count => {
                let counts = self.count_here().await.into_iter();
                Told::Count(counts.map(|(shard, count)| (shard.0, count)).collect())
            }
            Question::Audit => match self.audit_here().await {
                Ok(audits) => Told::Audit(audits),
                Err(refusal) => Told::Refused(refusal),
            },
            Question::Visit { shard, leaf, visit } => {
                let shard = ShardId(shard);
                let worker = self.shared.owner(shard);
                match self.ask(worker, |answer| Mail::Visit { shard, visit, leaf, answer }).await {
                    Ok(Reply::Visited(answer)) => Told::Visited(answer),
                    Ok(Reply::Refused(refusal)) | Err(refusal) => refused(refusal),
                    Ok(_) => Told::Refused(Refusal::InDoubt("it has answered something else".to_owned())),
                }
            }
            Question::Adopt { shard, estate } if self.is_here(ShardId(shard)) => {
                Told::Adopted(self.take_estate(&estate).await?.into())
            }
            Question::Adopt { .. } => Told::NotHere,
            Question::Look => {
                if let Some(siblings) = &self.shared.siblings {
                    siblings.look_now();
                }
                Told::Done
            }
            Question::Links { run, links } => {
                self.shared.hear_links(run, &links);
                Told::Done
            }
            Question::Inward { from, epoch, message } => self.take_inward(from, epoch, message).await,
            Question::Outward { to, messages } => self.send_outward(to, &messages),
            Question::Fault { from, why, is_old_copy } => self.hear_fault(from, why, is_old_copy),
            Question::Positions { of } => Told::Positions(self.positions_for(of).await),
            Question::Acks { shard, position } => {
                let written = Written { shard: ShardId(shard), position };
                match self.acks_here(written).await {
                    Ok((position, sites)) => Told::Acks { position, sites: sites.into_iter().collect() },
                    Err(refusal) => refused(refusal),
                }
            }
        };
        Ok(encode(&told))
    }

    async fn positions_for(&self, of: SiteId) -> Vec<(u16, u64)> {
        let here = self.positions_here(of).await.into_iter();
        here.filter_map(|(shard, position)| Some((shard.0, position?))).collect()
    }

    pub(super) fn is_here(&self, shard: ShardId) -> bool {
        self.shared.siblings.as_ref().is_none_or(|siblings| siblings.is_here(shard))
    }

    async fn do_commands(&self, shard: ShardId, commands: &[ByteVec]) -> Result<Told, String> {
        if !self.is_here(shard) {
            return Ok(Told::NotHere);
        }
        let decoded = commands.iter().map(|bytes| call::decode_command(bytes));
        let commands: Vec<OwnedCommand> =
            decoded.collect::<Result<_, _>>().map_err(|bad| format!("{bad}; nothing was done"))?;
        if commands.iter().any(|command| self.shared.shards.of(command.get().key) != shard) {
            return Err("a command for a counter of another shard; nothing was done".to_owned());
        }
        let worker = self.shared.owner(shard);
        Ok(match self.ask(worker, |answer| Mail::Group { shard, commands, answer }).await {
            Ok(replies) => {
                Told::Replies(replies.into_iter().map(|reply| call::encode_reply(reply).into()).collect())
            }
            Err(refusal) => Told::Refused(refusal),
        })
    }

    async fn list_for(&self, request: ListShard) -> Told {
        let worker = self.shared.owner(request.shard);
        match self.ask(worker, |answer| Mail::List { request, answer }).await {
            Ok(Ok(Listing { counters, next })) => {
                let counters = counters.into_iter().map(|(key, value)| (key.into(), value)).collect();
                Told::Listing { counters, next: next.map(Into::into) }
            }
            Ok(Err(refusal)) | Err(refusal) => refused(refusal),
        }
    }

    async fn clear_for(&self, request: ListShard) -> Told {
        let worker = self.shared.owner(request.shard);
        match self.ask(worker, |answer| Mail::Clear { request, answer }).await {
            Ok(Ok(Cleared { next, kept })) => Told::Cleared { next: next.map(Into::into), kept },
            Ok(Err(refusal)) | Err(refusal) => refused(refusal),
        }
    }
}

fn refused(refusal: Refusal) -> Told {
    match refusal {
        Refusal::NotHere => Told::NotHere,
        refusal => Told::Refused(refusal),
    }
}
