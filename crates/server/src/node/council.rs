//! The council of a running node: who belongs to the cluster, and what follows from it for links and workers.
//!
//! One lock holds the council and the sites with whom counts are exchanged: a step is stored, told and followed before the
//! next one begins. [`quipu_engine::council`] tells the protocol; `http/sites.rs` is how people reach it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use quipu_engine::{
    Council, Membership, SiteId, WaitsFor,
    council::{BadChange, Change, Config, Notice, Proposal, Refused, Removed, Standing, Step},
    handoff::ClusterId,
};
use tokio::time::{MissedTickBehavior, interval};

use super::{
    FolderError, Node, Shared,
    leaving::{self, Leaving},
    links::LinkMail,
    mail::Mail,
};
use crate::{
    http::sites::{ChangeWish, Progress, SiteTrouble},
    links::{Board, Draining, Halt, Identity},
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
    /// Whether this site is to leave.
    pub(super) leaving: Leaving,
    /// Where sites are found, as this one was told. It goes before what the others say.
    addresses: BTreeMap<u16, String>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) council: Council,
    /// With whom counts are exchanged: there is a link, and the council has nothing against it.
    pub(super) open: BTreeMap<SiteId, Opening>,
    /// How many links there were.
    openings: u64,
    /// What others have agreed to, as they last said, each on top of the list of that epoch. For people only.
    pub(super) heard: BTreeMap<SiteId, (u64, Vec<Proposal>)>,
    /// How far those are that leave, as they last said. For people only.
    pub(super) draining: BTreeMap<SiteId, Draining>,
    /// What this site, which joins, waited for when it last looked. For people only.
    waits_for: BTreeSet<WaitsFor>,
}

impl State {
    /// What this site waits for, which joins, for people.
    pub(super) fn waits_for(&self) -> Vec<String> {
        self.waits_for.iter().map(ToString::to_string).collect()
    }
}

/// A link over which counts are exchanged. After each loss of one there is another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Opening {
    /// Of the node that has it, in its run of this number.
    pub(super) run: u64,
    pub(super) number: u64,
}

impl Sitting {
    pub(super) fn new(council: Council, addresses: BTreeMap<u16, String>, leaves: bool) -> Self {
        let leaving = Leaving::new(leaves);
        leaving.follow(&council);
        let state = State {
            council,
            open: BTreeMap::new(),
            openings: 0,
            heard: BTreeMap::new(),
            draining: BTreeMap::new(),
            waits_for: BTreeSet::new(),
        };
        Self { state: Mutex::new(state), leaving, addresses }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn membership(&self) -> Membership {
        self.lock().council.membership()
    }

    /// Is there no other site, and none that is looked for?
    pub(super) fn is_alone(&self) -> bool {
        self.linked_membership(&self.lock().council).members.len() == 1
    }

    /// Do the shards of a site of many nodes belong together at the one that speaks? It must know of all of them that they
    /// have everything, or that nothing is left.
    pub(super) fn is_together(&self) -> bool {
        let standing = self.lock().council.standing();
        standing != Some(Standing::Member) || self.leaving.takes_no_writes()
    }

    /// What this site waits for, which joins, for people.
    pub(super) fn waits_for(&self) -> Vec<String> {
        self.lock().waits_for()
    }

    /// Notes what this site waits for, which joins. What does not come by itself is logged.
    fn note_waits(&self, waits_for: BTreeSet<WaitsFor>) {
        let mut state = self.lock();
        let branches =
            waits_for.difference(&state.waits_for).filter(|it| matches!(it, WaitsFor::Branch { .. }));
        branches.for_each(|why| tracing::error!("this site does not become a member: {why}"));
        state.waits_for = waits_for;
    }

    pub(super) fn notice(&self) -> Vec<u8> {
        self.lock().council.notice().encode()
    }

    pub(super) fn listens_to(&self, site: SiteId) -> bool {
        self.lock().open.contains_key(&site)
    }

    /// What all threads are to know of the links.
    pub(super) fn board(&self, identity: Identity, metrics: &Metrics) -> Board {
        let council = &self.lock().council;
        let board =
            Board::new(identity, self.linked_membership(council), &self.addresses_of(council), metrics);
        board.bid_farewell(farewells(council.config(), &self.addresses));
        board
    }

    /// Whom links are made to. A newcomer knows members by their numbers alone.
    pub(super) fn linked_membership(&self, council: &Council) -> Membership {
        let mut membership = council.membership();
        if membership.epoch == 0 {
            let numbers = self.addresses.keys().filter(|number| **number != council.site().number);
            membership.members.extend(numbers.map(|number| SiteId { number: *number, incarnation: 0 }));
        }
        membership
    }

    pub(super) fn addresses_of(&self, council: &Council) -> BTreeMap<u16, String> {
        let seats = council.config().sites.iter().filter(|(_, seat)| !seat.address.is_empty());
        let mut addresses: BTreeMap<u16, String> =
            seats.map(|(site, seat)| (site.number, seat.address.clone())).collect();
        addresses.extend(self.addresses.clone());
        addresses
    }
}

/// Where sites that were removed may still be found, if nobody else is listed under their number.
fn farewells(config: &Config, addresses: &BTreeMap<u16, String>) -> Vec<(SiteId, String)> {
    let is_free = |number| !config.sites.keys().any(|listed| listed.number == number);
    let gone = config.removed.keys().filter(|site| is_free(site.number));
    gone.filter_map(|site| Some((*site, addresses.get(&site.number)?.clone()))).collect()
}

/// Why a council has not taken a step. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoStep {
    #[error(transparent)]
    BadChange(#[from] BadChange),
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error("it could not be stored: {0}")]
    NotStored(String),
}

impl Shared {
    /// Lets the council do something: what it then states is durable before it is told, and followed at once.
    pub(super) fn take_step<E: Into<NoStep>>(
        &self,
        act: impl FnOnce(&mut Council) -> Result<Step, E>,
    ) -> Result<(), NoStep> {
        let mut state = self.council.lock();
        let mut council = state.council.clone();
        let step = act(&mut council).map_err(Into::into)?;
        if let Some(bytes) = step.persist {
            self.store_council(bytes).map_err(NoStep::NotStored)?;
        }
        let is_news = council.config().epoch != state.council.config().epoch;
        let before = std::mem::replace(&mut state.council, council);
        self.council.leaving.follow(&state.council);
        let notice = state.council.notice().encode();
        step.tell.iter().for_each(|site| self.board.send_council(*site, &notice));
        if is_news {
            let membership = state.council.membership();
            tracing::info!(epoch = membership.epoch, sites = ?membership.members, "the sites of the cluster have changed");
            // First: workers resume what waits when they hear of it.
            self.stop_if_without(&state.council);
            self.tell_workers(|| LinkMail::Membership(membership.clone()));
            let linked = self.council.linked_membership(&state.council);
            let addresses = self.council.addresses_of(&state.council);
            self.board.follow(linked, &addresses);
            let state = &mut *state;
            let now = state.council.config();
            state.heard.retain(|site, _| now.sites.contains_key(site));
            let mut farewells = farewells(now, &self.council.addresses_of(&before));
            farewells.retain(|(site, _)| before.config().sites.contains_key(site));
            self.board.bid_farewell(farewells);
        }
        self.open_and_close(&mut state);
        Ok(())
    }

    /// Another council takes the place of this one, at a node that does not speak for the site, or begins to.
    pub(super) fn follow_council(&self, state: &mut State, council: Council) {
        let membership = council.membership();
        self.stop_if_without(&council);
        self.council.leaving.follow(&council);
        self.board.follow(self.council.linked_membership(&council), &self.council.addresses_of(&council));
        state.council = council;
        self.tell_workers(|| LinkMail::Membership(membership.clone()));
    }

    /// Counts are exchanged with whom there is a link to, and the council has nothing against.
    fn open_and_close(&self, state: &mut State) {
        let is_open = |site: &SiteId| {
            state.council.config().sites.contains_key(site) && state.council.may_join(*site).is_ok()
        };
        let linked: Vec<SiteId> = self.board.linked().into_iter().filter(is_open).collect();
        let run = self.board.identity().run.number;
        let mut open = BTreeMap::new();
        for site in linked {
            let opening = state.open.get(&site).copied().unwrap_or_else(|| {
                state.openings += 1;
                Opening { run, number: state.openings }
            });
            open.insert(site, opening);
        }
        self.open_instead(state, open);
    }

    /// Counts are exchanged over these links from now on.
    pub(super) fn open_instead(&self, state: &mut State, open: BTreeMap<SiteId, Opening>) {
        let before = std::mem::replace(&mut state.open, open);
        let open = &state.open;
        for (gone, _) in before.iter().filter(|(site, opening)| open.get(*site) != Some(*opening)) {
            self.tell_workers(|| LinkMail::Disconnected(*gone));
        }
        for (come, _) in open.iter().filter(|(site, opening)| before.get(*site) != Some(*opening)) {
            self.tell_workers(|| LinkMail::Connected(*come));
        }
        if before != *open {
            self.links_have_changed();
        }
    }

    /// There is a link: both say first who belongs to the cluster.
    pub(super) fn link_is_up(&self, peer: SiteId) {
        let mut state = self.council.lock();
        self.board.send_council(peer, &state.council.notice().encode());
        self.close(&mut state, peer);
        self.open_and_close(&mut state);
    }

    /// Another one of this cluster has told its id, which is remembered if it is not known here.
    pub(super) fn adopt_cluster_id(&self, id: ClusterId) -> Result<(), FolderError> {
        if self.board.cluster_id().is_none() {
            self.folder.store_cluster_id(id)?;
            self.board.set_cluster_id(id);
        }
        Ok(())
    }

    /// The same, of what members have said when they introduced themselves. (A newcomer does not know who they are until
    /// it is listed.)
    fn adopt_heard_cluster_id(&self) {
        let heard = self.board.heard_cluster_id();
        if let Some(Err(error)) = heard.map(|id| self.adopt_cluster_id(id)) {
            tracing::warn!(%error, "the id of the cluster is not stored yet");
        }
    }

    pub(super) fn link_is_down(&self, peer: SiteId) {
        let mut state = self.council.lock();
        state.draining.remove(&peer);
        self.close(&mut state, peer);
    }

    fn close(&self, state: &mut State, peer: SiteId) {
        let mut open = state.open.clone();
        open.remove(&peer);
        self.open_instead(state, open);
    }

    /// What another site says of who belongs to the cluster.
    pub(super) fn hear_notice(&self, from: SiteId, message: &[u8]) {
        let result = match Notice::decode(message) {
            Ok(notice) => {
                let mut state = self.council.lock();
                if state.council.config().sites.contains_key(&from) {
                    state.heard.insert(from, (notice.config().epoch, notice.agreed().to_vec()));
                }
                let own = state.council.site();
                drop(state);
                let result = self.take_step(|council| council.receive(from, &notice));
                if result.is_ok() && is_member(own, &notice) {
                    self.board.confirmed_by(from);
                }
                result
            }
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
        self.stop_if_without(&self.council.lock().council);
    }

    fn stop_if_without(&self, council: &Council) {
        let site = council.site();
        if let Some(Removed { heir, epoch }) = council.config().removed.get(&site) {
            let removal = Refused::Removed { site, heir: *heir, epoch: *epoch };
            self.stop_counting(Halt::Removed, &removal.to_string());
        }
    }

    fn say_notice(&self) {
        let state = self.council.lock();
        let notice = state.council.notice().encode();
        self.board.linked().into_iter().for_each(|site| self.board.send_council(site, &notice));
    }

    /// Brings a change about that somebody wishes. Saying it again tells how far it is.
    pub(crate) fn grant(&self, wish: &ChangeWish) -> Result<Progress, SiteTrouble> {
        let change = self.change_of(wish)?;
        let is_done = |shared: &Self| change.is_in(shared.council.lock().council.config());
        if let Change::Remove { sites, drained: true, .. } = &change
            && !is_done(self)
            && let Some(draining) = self.let_leave(sites)?
        {
            return Ok(draining);
        }
        if !is_done(self) {
            let result = self.take_step(|council| council.propose(change.clone()));
            result.map_err(|error| SiteTrouble::Conflict(error.to_string()))?;
        }
        let missing = self.council.lock().council.waiting().map(|(_, missing)| texts(&missing));
        let is_done = is_done(self);
        let missing = missing.filter(|_| !is_done).unwrap_or_default();
        Ok(Progress { what: change.to_string(), is_done, missing, draining: Vec::new() })
    }

    /// Takes the own open proposal back.
    pub(crate) fn withdraw(&self) -> Result<Progress, SiteTrouble> {
        let (own, other) = {
            let state = self.council.lock();
            let own = state.council.waiting().map(|(own, _)| own.change.clone());
            (own, super::overview::open_proposal(&state))
        };
        let conflict = |text: String| Err(SiteTrouble::Conflict(text));
        match (own, other) {
            (Some(own @ (Change::Joined { .. } | Change::Leave { .. } | Change::Stay { .. })), _) => {
                conflict(format!(
                    "this site itself wants to {own}, and would propose it again; nothing was changed. `quipu site stay` and \
                     `quipu site drain` say whether it is to leave"
                ))
            }
            (Some(own), _) => {
                let withdrawn = self.take_step(|council| Ok::<_, NoStep>(council.withdraw()));
                withdrawn.map_err(|error| SiteTrouble::Conflict(error.to_string()))?;
                let what = format!("take back to {own}");
                Ok(Progress { what, is_done: true, missing: Vec::new(), draining: Vec::new() })
            }
            (None, Some(Proposal { by, change, .. })) => conflict(format!(
                "site {by} has proposed to {change}, and it alone can take that back; nothing was changed. Run the command \
                 there; if site {by} is lost for ever, remove it: `quipu site remove {by} --dead`"
            )),
            (None, None) => conflict("no change is under way; nothing was changed".to_owned()),
        }
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
                if let Some(site) = gone.iter().find(is_linked).filter(|_| *is_dead) {
                    return conflict(format!(
                        "site {site} is not dead: it has a link to this one; nothing was changed. Without --dead it leaves \
                         in order, and takes nothing with it; to remove it all the same, stop it first"
                    ));
                }
                let stays = |site: &&SiteId| !gone.contains(site);
                let members = config.sites.iter().filter(|(_, seat)| seat.standing == Standing::Member);
                let heir = heir.map(|heir| heir.in_list(config));
                let heir = heir.or_else(|| members.map(|(site, _)| site).find(stays).copied());
                let heir = heir.ok_or(BadChange::Nobody).map_err(bad)?;
                Ok(Change::Remove { sites: gone, heir, drained: !is_dead })
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

/// Is this site listed, and has whoever says so not agreed to its removal?
fn is_member(own: SiteId, notice: &Notice) -> bool {
    let removes = |proposal: &Proposal| match &proposal.change {
        Change::Remove { sites, .. } => sites.contains(&own),
        Change::Restore { old, .. } => *old == own,
        _ => false,
    };
    notice.config().sites.contains_key(&own) && !notice.agreed().iter().any(removes)
}

pub(super) fn texts(sites: &BTreeSet<SiteId>) -> Vec<String> {
    sites.iter().map(ToString::to_string).collect()
}

/// Says again and again who belongs to the cluster; a newcomer says when it has everything.
pub(super) async fn attend(node: &Node) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 0_u32.. {
        tokio::select! {
            _ = ticks.tick() => {}
            () = node.shared.council.leaving.changed() => {}
        }
        if !node.shared.speaks() {
            continue;
        }
        leaving::attend(node).await;
        node.shared.adopt_heard_cluster_id();
        if number % NOTICE_EVERY_TICKS == 0 {
            node.shared.say_notice();
        }
        let standing = node.shared.council.lock().council.standing();
        let is_joining = standing == Some(Standing::Joining);
        let waits_for = if is_joining { waits_for(node).await } else { Some(BTreeSet::new()) };
        let Some(waits_for) = waits_for else { continue };
        let has_everything = waits_for.is_empty();
        node.shared.council.note_waits(waits_for);
        if is_joining && has_everything {
            // What was in the way is over before long, and then it is tried again.
            if let Err(error) = node.shared.take_step(Council::joined) {
                tracing::debug!("not a member yet: {error}");
            }
        }
    }
}

/// What this site lacks of what the others had when they listed it; `None`: that is not known now.
async fn waits_for(node: &Node) -> Option<BTreeSet<WaitsFor>> {
    if !node.shared.has_all_shards() {
        return None;
    }
    let mut all = BTreeSet::new();
    for worker in 0..node.shared.workers() {
        all.extend(node.ask(worker, |answer| Mail::WaitsFor { answer }).await.ok()?);
    }
    Some(all)
}
