//! Rights that a client moves from one site to another.
//!
//! The giver writes them into its row, like rights that it is asked for. Asked elsewhere, a site tells the giver, again and
//! again, how many it is to have passed on to the receiver *in all*, and answers its client when the giver's row says so. A
//! request that is lost, repeated or late therefore moves nothing twice.

use quipu_crdt::{Bounded, bounded::Right};

use super::{Shard, rights::ASK_EVERY_MS, room::usable};
use crate::{
    Move, Refusal, Reply, Rule, SiteId, command::describe_rights, counter::Counter, counters::Index,
    links::MoveAsk,
};

/// Rights of one kind, on their way from one site to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Route {
    right: Right,
    from: SiteId,
    to: SiteId,
}

impl Route {
    /// All that the giver has ever passed on to the receiver.
    fn passed_on(&self, bounded: &Bounded<SiteId>) -> u64 {
        let row = bounded.rows().get(&self.from);
        row.and_then(|row| row.passed_on.get(&self.to)).map_or(0, |rights| rights.get(self.right))
    }
}

/// What a command that waits has asked the giver for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moving {
    route: Route,
    /// What the giver had passed on to the receiver in all, before.
    base: u64,
    /// And is to have passed on.
    total: u64,
    pub(super) asked_ms: Option<u64>,
}

/// The kind of rights that is meant: a counter with one bound has only one.
fn right_of(bounded: &Bounded<SiteId>, asked: Option<Right>) -> Result<Right, Refusal> {
    let definition = bounded.definition();
    let bounds = (definition.limits(Right::ToSubtract), definition.limits(Right::ToAdd));
    match (asked, bounds) {
        (Some(Right::ToSubtract) | None, (true, false)) => Ok(Right::ToSubtract),
        (Some(Right::ToAdd) | None, (false, true)) => Ok(Right::ToAdd),
        (Some(right), (true, true)) => Ok(right),
        (None, _) => {
            let text = "the counter has rights to subtract and rights to add: say which are to be moved";
            Err(Refusal::CannotMove(text.to_owned()))
        }
        (Some(right), _) => {
            let text = format!("the counter has no {right}, because no bound limits them");
            Err(Refusal::CannotMove(text))
        }
    }
}

impl Shard {
    /// The site that is meant: `2` is whichever incarnation belongs to the cluster, `2.1` this one.
    pub(super) fn member(&self, named: SiteId) -> Result<SiteId, String> {
        let members = &self.links.membership.members;
        let mut candidates = members.iter().filter(|site| site.number == named.number);
        let is_any = named.incarnation == 0;
        candidates.find(|site| is_any || **site == named).copied().ok_or_else(|| {
            let names: Vec<_> = members.iter().map(SiteId::to_string).collect();
            format!("site {named} does not belong to the cluster; its sites are {}", names.join(", "))
        })
    }

    /// `None`: the giver is another site, which has to be asked.
    pub(super) fn move_rights(&mut self, key: &[u8], it: Move) -> Result<Option<Reply>, Refusal> {
        let Some(index) = self.find(key) else { return Err(Refusal::NotBounded) };
        self.inherit(index);
        let Route { right, from, to } = self.route(key, it)?;
        if from == self.settings.site {
            self.count_parked_here(index);
            return self.pass_on_here(index, right, to, it.amount).map(|moved| Some(Reply::Moved(moved)));
        }
        if self.bounded(key).and_then(|bounded| bounded.rights(right, &from)) == Some(0) {
            return Err(self.holds_none(key, right, from));
        }
        if it.wait_ms == 0 {
            let text =
                format!("site {from} holds the rights and has to be asked, for which there is no time");
            return Err(Refusal::CannotMove(text));
        }
        self.links.restless = true;
        Ok(None)
    }

    /// Who passes on what to whom.
    fn route(&self, key: &[u8], it: Move) -> Result<Route, Refusal> {
        let bounded = self.bounded(key).ok_or(Refusal::NotBounded)?;
        let from = self.member(it.from).map_err(Refusal::CannotMove)?;
        let to = self.member(it.to).map_err(Refusal::CannotMove)?;
        if from == to || it.amount == 0 {
            let text = "rights are moved from one site to another, at least one of them";
            return Err(Refusal::CannotMove(text.to_owned()));
        }
        Ok(Route { right: right_of(bounded, it.right)?, from, to })
    }

    /// Passes on rights of this site, as many as there are. Returns how many.
    fn pass_on_here(&mut self, index: Index, right: Right, to: SiteId, amount: u64) -> Result<u64, Refusal> {
        let (own, key) = (self.settings.site, self.counters.get(index).key.clone());
        let Some(bounded) = self.bounded(&key) else { return Err(Refusal::NotBounded) };
        let here = usable(bounded, right, own, self.waiting_rights(&key)).unwrap_or(0);
        let moved = u64::try_from(here).unwrap_or(u64::MAX).min(amount);
        if moved == 0 {
            return Err(self.holds_none(&key, right, own));
        }
        let prepared = bounded.prepare_transfer(right, moved, to).map_err(|_| Refusal::Overflow)?;
        self.counters.change(index, |entry| {
            if let Some(Counter::Bounded(bounded)) = &mut entry.counter {
                bounded.apply(prepared);
            }
        });
        self.touch(index, true);
        Ok(moved)
    }

    /// Who holds the rights that the giver does not.
    fn holds_none(&self, key: &[u8], right: Right, from: SiteId) -> Refusal {
        let own = self.settings.site;
        let in_all = self.rights_in_all(key, right).unwrap_or(0);
        let mut others = self.rights_elsewhere(key, right);
        let here = self.bounded(key).and_then(|it| usable(it, right, own, self.waiting_rights(key)));
        others.extend(here.filter(|here| *here > 0).map(|here| (own, here)));
        others.retain(|(site, _)| *site != from);
        let text = match in_all {
            0 => format!("there are no {right} of this counter at any site"),
            _ => format!(
                "site {from} holds 0 of the {in_all} {right}; {}",
                describe_rights(&others, 0, in_all)
            ),
        };
        Refusal::CannotMove(text)
    }

    /// What the giver is to be asked for. Other commands that wait for the same come first.
    pub(super) fn moving(&self, key: &[u8], it: Move) -> Option<Moving> {
        let route = self.route(key, it).ok()?;
        let asked = self.waiting.commands.iter().filter_map(|waiter| {
            let moving = waiter.moving.as_ref()?;
            (waiter.command.get().key == key && moving.route == route).then_some(moving.total)
        });
        let base = asked.max().unwrap_or(0).max(route.passed_on(self.bounded(key)?));
        Some(Moving { route, base, total: base.saturating_add(it.amount), asked_ms: None })
    }

    /// Looks at a command that waits: has the giver passed on what it was asked for?
    pub(super) fn moved(
        &self,
        key: &[u8],
        it: Move,
        moving: Moving,
        is_late: bool,
    ) -> Result<Option<Reply>, Refusal> {
        let Moving { route, base, .. } = moving;
        self.member(route.from).map_err(Refusal::CannotMove)?;
        let bounded = self.bounded(key).ok_or(Refusal::NotBounded)?;
        let moved = route.passed_on(bounded).saturating_sub(base).min(it.amount);
        let has_more = bounded.rights(route.right, &route.from) != Some(0);
        match moved {
            0 if is_late => Err(self.not_moved_yet(it)),
            moved if moved < it.amount && !is_late && (moved == 0 || has_more) => Ok(None),
            moved => Ok(Some(Reply::Moved(moved))),
        }
    }

    pub(super) fn not_moved_yet(&self, it: Move) -> Refusal {
        let site = self.member(it.from).unwrap_or(it.from);
        let connected = self.links.peers.get(&site).is_some_and(|peer| peer.connected);
        Refusal::NotMovedYet { site, wait_ms: it.wait_ms, connected }
    }

    /// What a peer is to be asked to pass on now.
    pub(super) fn moves(&mut self, peer: SiteId, now_ms: u64) -> Option<Vec<MoveAsk>> {
        let mut asks = Vec::new();
        for waiter in &mut self.waiting.commands {
            let Some(moving) = waiter.moving.as_mut().filter(|moving| moving.route.from == peer) else {
                continue;
            };
            if moving.asked_ms.is_none_or(|asked_ms| now_ms >= asked_ms + ASK_EVERY_MS) {
                moving.asked_ms = Some(now_ms);
                let Moving { route: Route { right, to, .. }, total, .. } = *moving;
                asks.push(MoveAsk { key: waiter.command.get().key.into(), right, to, total });
            }
        }
        (!asks.is_empty()).then_some(asks)
    }

    /// Passes on rights because a client of another site wants it.
    pub(super) fn give_moved(&mut self, ask: &MoveAsk) {
        let own = self.settings.site;
        let is_member = self.links.membership.members.contains(&ask.to) && ask.to != own;
        let Some(index) = self.counters.find(&ask.key).filter(|_| is_member) else { return };
        self.inherit(index);
        self.count_parked_here(index);
        let Some(bounded) = self.bounded(&ask.key) else { return };
        let before = Route { right: ask.right, from: own, to: ask.to }.passed_on(bounded);
        let before = if self.settings.rules.keep(Rule::MovesNameTotals) { before } else { 0 };
        // What is not here is not moved; whoever has asked sees it in the row.
        drop(self.pass_on_here(index, ask.right, ask.to, ask.total.saturating_sub(before)));
    }
}
