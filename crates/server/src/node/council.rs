//! The council of a running node: who belongs to the cluster, and what follows from it for links and workers.
//!
//! One lock holds the council and the sites with whom counts are exchanged: a step is stored, told and followed before the
//! next one begins. [`quipu_engine::council`] tells the protocol; `http/sites.rs` is how people reach it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use quipu_engine::{
    Council, Membership, SiteId,
    council::{BadChange, Change, Notice, Refused, Removed, Standing, Step},
};
use tokio::time::{MissedTickBehavior, interval};

use super::{Node, Shared, links::LinkMail, mail::Mail};
use crate::{
    http::sites::{ChangeWish, Cluster, OpenChange, Progress, SiteFacts, SiteTrouble},
    links::{Board, Identity},
    metrics::Metrics,
};

/// How often a site says again who belongs to the cluster, in case it was not heard.
const NOTICE_EVERY_TICKS: u32 = 10;
/// How often a newcomer looks whether it has everything.
const TICK: Duration = Duration::from_millis(500);

/// The council of a running node.
#[derive(Debug)]
pub(super) struct Sitting {
    state: Mutex<State>,
    /// It takes no writes, because it is about to leave. Stored, so that it stays so after a restart.
    is_leaving: AtomicBool,
    /// Where sites are found, as this one was told. It goes before what the others say.
    addresses: BTreeMap<u16, String>,
}

#[derive(Debug)]
struct State {
    council: Council,
    /// With whom counts are exchanged: there is a link, and the council has nothing against it.
    open: BTreeSet<SiteId>,
}

impl Sitting {
    pub(super) fn new(council: Council, addresses: BTreeMap<u16, String>, is_leaving: bool) -> Self {
        let state = Mutex::new(State { council, open: BTreeSet::new() });
        Self { state, is_leaving: AtomicBool::new(is_leaving), addresses }
    }

    /// Does it take no writes, because it is about to leave?
    pub(super) fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn membership(&self) -> Membership {
        self.lock().council.membership()
    }

    /// Is there no other site, and none that is looked for?
    pub(super) fn is_alone(&self) -> bool {
        self.linked_membership(&self.lock().council).members.len() == 1
    }

    pub(super) fn notice(&self) -> Vec<u8> {
        self.lock().council.notice().encode()
    }

    pub(super) fn listens_to(&self, site: SiteId) -> bool {
        self.lock().open.contains(&site)
    }

    /// What all threads are to know of the links.
    pub(super) fn board(&self, identity: Identity, metrics: &Metrics) -> Board {
        let council = &self.lock().council;
        Board::new(identity, self.linked_membership(council), &self.addresses_of(council), metrics)
    }

    /// Whom links are made to. A newcomer knows members by their numbers alone.
    fn linked_membership(&self, council: &Council) -> Membership {
        let mut membership = council.membership();
        if membership.epoch == 0 {
            let numbers = self.addresses.keys().filter(|number| **number != council.site().number);
            membership.members.extend(numbers.map(|number| SiteId { number: *number, incarnation: 0 }));
        }
        membership
    }

    fn addresses_of(&self, council: &Council) -> BTreeMap<u16, String> {
        let seats = council.config().sites.iter().filter(|(_, seat)| !seat.address.is_empty());
        let mut addresses: BTreeMap<u16, String> =
            seats.map(|(site, seat)| (site.number, seat.address.clone())).collect();
        addresses.extend(self.addresses.clone());
        addresses
    }
}

/// Why a council has not taken a step. Nothing was changed.
#[derive(Debug, thiserror::Error)]
enum NoStep {
    #[error(transparent)]
    BadChange(#[from] BadChange),
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error("it could not be stored: {0}")]
    NotStored(String),
}

impl Shared {
    /// Lets the council do something: what it then states is durable before it is told, and followed at once.
    fn take_step<E: Into<NoStep>>(
        &self,
        act: impl FnOnce(&mut Council) -> Result<Step, E>,
    ) -> Result<(), NoStep> {
        let mut state = self.council.lock();
        let mut council = state.council.clone();
        let step = act(&mut council).map_err(Into::into)?;
        if let Some(bytes) = step.persist {
            self.folder.store_council(bytes).map_err(|error| NoStep::NotStored(error.to_string()))?;
        }
        let is_news = council.config().epoch != state.council.config().epoch;
        state.council = council;
        let notice = state.council.notice().encode();
        step.tell.iter().for_each(|site| self.board.send_council(*site, &notice));
        if is_news {
            let membership = state.council.membership();
            tracing::info!(epoch = membership.epoch, sites = ?membership.members, "the sites of the cluster have changed");
            self.tell_workers(|| LinkMail::Membership(membership.clone()));
            let linked = self.council.linked_membership(&state.council);
            self.board.follow(linked, &self.council.addresses_of(&state.council));
        }
        self.open_and_close(&mut state);
        drop(state);
        self.stop_if_removed();
        Ok(())
    }

    /// Counts are exchanged with whom there is a link to, and the council has nothing against.
    fn open_and_close(&self, state: &mut State) {
        let State { council, open } = state;
        let is_listed = |site: &SiteId| council.config().sites.contains_key(site);
        let linked = self.board.linked();
        let may_be_open: BTreeSet<SiteId> =
            linked.into_iter().filter(|site| is_listed(site) && council.may_join(*site).is_ok()).collect();
        for gone in open.difference(&may_be_open) {
            self.tell_workers(|| LinkMail::Disconnected(*gone));
        }
        for come in may_be_open.difference(open) {
            self.tell_workers(|| LinkMail::Connected(*come));
        }
        *open = may_be_open;
    }

    /// There is a link: both say first who belongs to the cluster.
    pub(super) fn link_is_up(&self, peer: SiteId) {
        let mut state = self.council.lock();
        self.board.send_council(peer, &state.council.notice().encode());
        if state.open.remove(&peer) {
            self.tell_workers(|| LinkMail::Disconnected(peer));
        }
        self.open_and_close(&mut state);
    }

    pub(super) fn link_is_down(&self, peer: SiteId) {
        let mut state = self.council.lock();
        if state.open.remove(&peer) {
            self.tell_workers(|| LinkMail::Disconnected(peer));
        }
    }

    /// What another site says of who belongs to the cluster.
    pub(super) fn hear_notice(&self, from: SiteId, message: &[u8]) {
        let result = match Notice::decode(message) {
            Ok(notice) => self.take_step(|council| council.receive(from, &notice)),
            Err(bad) => return self.board.fail(from, bad.to_string()),
        };
        match result {
            Ok(()) => {}
            Err(NoStep::Refused(Refused::BeingRemoved { .. })) => {}
            Err(NoStep::NotStored(why)) => tracing::error!(%from, "a notice was not taken in: {why}"),
            Err(error) => self.board.fail(from, error.to_string()),
        }
    }

    /// A site that was removed counts no more.
    pub(super) fn stop_if_removed(&self) {
        let removal = {
            let council = &self.council.lock().council;
            let site = council.site();
            let removal = council.config().removed.get(&site);
            removal.map(|Removed { heir, epoch }| Refused::Removed { site, heir: *heir, epoch: *epoch })
        };
        if let Some(removal) = removal {
            self.stop_counting(&removal.to_string());
        }
    }

    fn say_notice(&self) {
        let state = self.council.lock();
        let notice = state.council.notice().encode();
        self.board.linked().into_iter().for_each(|site| self.board.send_council(site, &notice));
    }

    /// How it stands with the cluster, for people.
    pub(crate) fn cluster(&self) -> Cluster {
        let state = self.council.lock();
        let (council, own) = (&state.council, state.council.site());
        let facts: BTreeMap<u16, _> = self.board.facts().into_iter().map(|it| (it.number, it)).collect();
        let addresses = self.council.addresses_of(council);
        let site = |(site, seat): (&SiteId, &quipu_engine::council::Seat)| {
            let facts = facts.get(&site.number);
            SiteFacts {
                site: site.to_string(),
                state: match seat.standing {
                    Standing::Joining => "joining",
                    Standing::Member => "member",
                },
                address: addresses.get(&site.number).filter(|_| *site != own).cloned(),
                link: facts.map_or("self", |facts| if facts.is_up { "up" } else { "down" }),
                heard_seconds: facts.and_then(|facts| facts.heard_seconds),
                trouble: facts.and_then(|facts| facts.unreachable.clone().or_else(|| facts.trouble.clone())),
            }
        };
        let change = council.agreed().last().map(|proposal| OpenChange {
            what: proposal.change.to_string(),
            by: proposal.by.to_string(),
            missing: council.waiting().map(|(_, missing)| texts(&missing)),
        });
        let removed = council.config().removed.iter();
        Cluster {
            cluster: self.board.identity().cluster.clone(),
            site: own.to_string(),
            epoch: council.config().epoch,
            sites: council.config().sites.iter().map(site).collect(),
            removed: removed.map(|(site, removed)| (site.to_string(), removed.heir.to_string())).collect(),
            change,
        }
    }

    /// Brings a change about that somebody wishes. Saying it again tells how far it is.
    pub(crate) fn grant(&self, wish: &ChangeWish) -> Result<Progress, SiteTrouble> {
        let change = self.change_of(wish)?;
        let is_done = |shared: &Self| change.is_in(shared.council.lock().council.config());
        if !is_done(self) {
            let result = self.take_step(|council| council.propose(change.clone()));
            result.map_err(|error| SiteTrouble::Conflict(error.to_string()))?;
        }
        let missing = self.council.lock().council.waiting().map(|(_, missing)| texts(&missing));
        let is_done = is_done(self);
        let missing = missing.filter(|_| !is_done).unwrap_or_default();
        Ok(Progress { what: change.to_string(), is_done, missing })
    }

    fn change_of(&self, wish: &ChangeWish) -> Result<Change, SiteTrouble> {
        let state = self.council.lock();
        let config = state.council.config();
        let conflict = |text: String| Err(SiteTrouble::Conflict(text));
        let bad = |error: BadChange| SiteTrouble::Conflict(error.to_string());
        match wish {
            ChangeWish::Add { number, address } => {
                if !self.has_links {
                    return conflict(
                        "this site has no port for others; nothing was changed. Start it with --link ADDR"
                            .into(),
                    );
                }
                let site = SiteId { number: *number, incarnation: 0 };
                if config.removed.keys().any(|removed| removed.number == *number) {
                    return conflict(format!(
                        "the number {number} was used before and is never used again for a new folder; nothing was \
                         changed. Choose another number"
                    ));
                }
                Ok(Change::Add { site, name: String::new(), address: address.clone() })
            }
            ChangeWish::Remove { sites, heir, is_dead } => {
                let gone: BTreeSet<SiteId> = sites.iter().map(|site| site.in_list(config)).collect();
                let is_linked = |site: &&SiteId| self.board.linked().contains(site);
                if let Some(site) = gone.iter().find(is_linked) {
                    return conflict(format!(
                        "site {site} runs, and has a link to this one; nothing was changed. Run `quipu site drain` \
                         there, so that the others have all that it has counted, and stop it first"
                    ));
                }
                if !is_dead && !gone.iter().all(|site| config.removed.contains_key(site)) {
                    return conflict(format!(
                        "what site {} has counted and told nobody is lost when it is removed; nothing was changed. If it \
                         was drained and stopped, or will never come back, say so: --dead",
                        texts(&gone).join(", ")
                    ));
                }
                let stays = |site: &&SiteId| !gone.contains(site);
                let members = config.sites.iter().filter(|(_, seat)| seat.standing == Standing::Member);
                let heir = heir.map(|heir| heir.in_list(config));
                let heir = heir.or_else(|| members.map(|(site, _)| site).find(stays).copied());
                let heir = heir.ok_or(BadChange::Nobody).map_err(bad)?;
                Ok(Change::Remove { sites: gone, heir })
            }
            ChangeWish::Restore { new, address } => {
                let same = |site: &&SiteId| site.number == new.number && *site < new;
                let old = config.sites.keys().chain(config.removed.keys()).rfind(same);
                let old = *old.ok_or(BadChange::NotListed { site: *new }).map_err(bad)?;
                let known = config.sites.get(&old).map(|seat| seat.address.clone());
                let address = address.clone().or(known).unwrap_or_default();
                Ok(Change::Restore { old, new: *new, address })
            }
        }
    }
}

fn texts(sites: &BTreeSet<SiteId>) -> Vec<String> {
    sites.iter().map(ToString::to_string).collect()
}

impl Node {
    /// This site takes no writes any more, so that the others come to have all that it has counted. Have they?
    pub(super) async fn drain_site(&self) -> Result<Progress, SiteTrouble> {
        let members = self.shared.council.membership().members;
        let own = self.shared.board.identity().site;
        if members.len() < 2 {
            let text = "there is no other site that could go on; nothing was changed";
            return Err(SiteTrouble::Conflict(text.to_owned()));
        }
        self.shared.set_leaving(true)?;
        let others = members.len() - 1;
        let mut is_done = true;
        for worker in 0..self.shared.workers() {
            // A command that was taken in before is in a batch before this.
            let is_drained = self.ask(worker, |answer| Mail::Drained { others, answer }).await;
            is_done &= is_drained.unwrap_or(false);
        }
        let linked = self.shared.board.linked();
        let missing = members.iter().filter(|site| **site != own && !linked.contains(site) && !is_done);
        let missing = missing.map(ToString::to_string).collect();
        Ok(Progress { what: format!("tell the others all that site {own} has counted"), is_done, missing })
    }
}

impl Shared {
    pub(super) fn set_leaving(&self, is_leaving: bool) -> Result<(), SiteTrouble> {
        let failed =
            |error: super::FolderError| SiteTrouble::Conflict(format!("it could not be stored: {error}"));
        if self.council.is_leaving() != is_leaving {
            self.folder.store_leaving(is_leaving).map_err(failed)?;
            self.council.is_leaving.store(is_leaving, Ordering::Release);
        }
        Ok(())
    }
}

/// Says again and again who belongs to the cluster; a newcomer says when it has everything.
pub(super) async fn attend(node: &Node) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 0_u32.. {
        ticks.tick().await;
        if number % NOTICE_EVERY_TICKS == 0 {
            node.shared.say_notice();
        }
        let standing = node.shared.council.lock().council.standing();
        if standing == Some(Standing::Joining) && has_everything(node).await {
            // What was in the way is over before long, and then it is tried again.
            if let Err(error) = node.shared.take_step(Council::joined) {
                tracing::debug!("not a member yet: {error}");
            }
        }
    }
}

async fn has_everything(node: &Node) -> bool {
    for worker in 0..node.shared.workers() {
        if !node.ask(worker, |answer| Mail::CaughtUp { answer }).await.unwrap_or(false) {
            return false;
        }
    }
    true
}
