//! How a relay leaves: it takes nothing any more, hands over what it has counted, and leaves to a parent what it keeps for
//! others. All of it is stored, so that it goes on after a restart; asking again tells how far it is.

use std::{collections::BTreeSet, sync::atomic::Ordering};

use quipu_engine::{
    Reply,
    handoff::{
        Name, Open, Retirement, Server,
        exchange::{self, ESTATE_BYTES_MAX, Left, Taken},
    },
};
use quipu_storage::ShardId;

use super::Trouble;
use crate::{
    http::retire::{RetireTrouble, Retiring},
    links::Caller,
    node::{Node, mail::Mail},
};

/// How it stands with one shard.
#[derive(Debug)]
pub(in crate::node) struct Leaving {
    pub(in crate::node) shard: ShardId,
    pub(in crate::node) retirement: Retirement,
    pub(in crate::node) open: Open,
}

impl Node {
    /// Lets a relay retire, and tells how far it is.
    pub(in crate::node) async fn retire_relay(&self) -> Result<Retiring, RetireTrouble> {
        let Some(relay) = &self.shared.relay else { return Err(RetireTrouble::NoRelay) };
        if !relay.is_retiring() {
            let stored = self.shared.folder.store_retiring();
            stored.map_err(|error| RetireTrouble::NotStored(error.to_string()))?;
            relay.retiring.store(true, Ordering::Release);
            tracing::info!("this relay retires: it takes nothing any more");
        }
        let leaving = self.stop_shards().await.ok_or(RetireTrouble::Stopping)?;
        relay.news.notify_one();
        let mut retiring = Retiring { relay: relay.name.to_string(), ..Retiring::default() };
        let (mut heirs, mut missing) = (BTreeSet::new(), BTreeSet::new());
        let mut is_done = true;
        for Leaving { retirement, open, .. } in &leaving {
            retiring.counters += open.pending as u64;
            retiring.tokens += open.tokens.values().map(|counters| *counters as u64).sum::<u64>();
            missing.extend(open.tokens.keys().copied());
            retiring.estates += u64::from(retirement.heir.is_none());
            heirs.extend(retirement.heir);
            missing.extend(retirement.named);
            is_done &= retirement.may_leave;
        }
        let texts = |names: BTreeSet<Name>| names.iter().map(ToString::to_string).collect();
        retiring.is_done = is_done;
        retiring.heirs = texts(heirs);
        retiring.waits_for = texts(missing);
        retiring.trouble = relay.state().trouble.clone().filter(|_| !is_done);
        Ok(retiring)
    }

    /// Stops all shards, and tells how it stands with them. All of it is durable. `None`: the node is stopping.
    async fn stop_shards(&self) -> Option<Vec<Leaving>> {
        let mut all = Vec::new();
        for worker in 0..self.shared.workers() {
            all.extend(self.ask(worker, |answer| Mail::StopRelay { answer }).await.ok()?);
        }
        Some(all)
    }

    /// Leaves to a parent what the shards keep for others, where no other heir was named.
    pub(super) async fn leave_estates(&self, parent: &Caller, server: Server) -> Result<(), Trouble> {
        // A parent that has to tell others first says so of each shard.
        let mut refused = Ok(());
        for Leaving { shard, retirement, .. } in self.stop_shards().await.unwrap_or_default() {
            let Retirement { is_stopped, named, heir, .. } = retirement;
            if is_stopped && heir.is_none() && named.is_none_or(|named| named == server.name) {
                match self.leave_estate(parent, server, shard).await {
                    Err(Trouble::Lost(why)) => refused = Err(Trouble::Lost(why)),
                    left => left?,
                }
            }
        }
        refused
    }

    async fn leave_estate(&self, parent: &Caller, server: Server, shard: ShardId) -> Result<(), Trouble> {
        let worker = self.shared.owner(shard);
        let estate =
            match self.ask(worker, |answer| Mail::Bequeath { shard, heir: server.name, answer }).await {
                Ok(Reply::Estate(estate)) => *estate,
                // It is tried again.
                Ok(_) | Err(_) => return Ok(()),
            };
        let bytes = exchange::encode(&Left { shard: shard.0, estate });
        if bytes.len() > ESTATE_BYTES_MAX {
            return Err(Trouble::Wrong(format!(
                "shard {} leaves {} bytes, and at most {ESTATE_BYTES_MAX} can be taken over; it goes on when edges have \
                 fetched what is kept for them",
                shard.0,
                bytes.len()
            )));
        }
        match exchange::decode(&parent.bequeath(&bytes).await?)? {
            Taken::Answered(adoption) => {
                self.shared.post(worker, Mail::Adopted { shard, adoption: Box::new(adoption) });
                Ok(())
            }
            Taken::Refused(why) => Err(Trouble::Lost(format!("it does not take over: {why}"))),
        }
    }
}
