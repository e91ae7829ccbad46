//! A site that leaves in order: it takes no writes, lets the others come to have all that it has counted, and then says so
//! in the council. Only who has said that can be removed as planned ([`quipu_engine::council`]).
//!
//! What people want is stored: it is so after a restart, too. Any site can be asked, and passes it on to the one that is
//! meant; that one tells all others how far it is.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use quipu_engine::{
    Council, SiteId, Unfinished,
    council::{BadChange, Standing, Step},
};
use tokio::sync::Notify;

use super::{
    FolderError, Node, Shared,
    council::{NoStep, texts},
    mail::Mail,
};
use crate::{
    http::sites::{DrainingFacts, Progress, SiteName, SiteTrouble},
    links::{Behind, Draining, Frame},
};

/// Whether this site is to leave.
#[derive(Debug)]
pub(super) struct Leaving {
    /// As people want it, and as is stored. Changed under the council's lock.
    wanted: AtomicBool,
    /// How often that has changed.
    changes: AtomicU64,
    /// It is to leave, or has said so and not taken it back yet.
    takes_no_writes: AtomicBool,
    /// It has said that it leaves.
    has_said: AtomicBool,
    changed: Notify,
}

impl Leaving {
    pub(super) fn new(wanted: bool) -> Self {
        Self {
            wanted: AtomicBool::new(wanted),
            changes: AtomicU64::new(0),
            takes_no_writes: AtomicBool::new(wanted),
            has_said: AtomicBool::new(false),
            changed: Notify::new(),
        }
    }

    /// The council, whose lock is held, may have changed.
    pub(super) fn follow(&self, council: &Council) {
        let has_said = council.is_about_to_leave();
        self.has_said.store(has_said, Ordering::Release);
        let takes_no_writes = self.wanted.load(Ordering::Acquire) || has_said;
        self.takes_no_writes.store(takes_no_writes, Ordering::Release);
    }

    /// Does this site take no writes, because it is about to leave?
    pub(super) fn takes_no_writes(&self) -> bool {
        self.takes_no_writes.load(Ordering::Acquire)
    }

    /// Has this site said that it leaves? What it told its peers is all then: its heir goes by that.
    pub(super) fn has_said(&self) -> bool {
        self.has_said.load(Ordering::Acquire)
    }

    /// People want this. The council's lock is held, and [`Self::follow`] comes next. Is it news?
    pub(super) fn set_wanted(&self, leaves: bool) -> bool {
        let is_news = self.wanted.swap(leaves, Ordering::AcqRel) != leaves;
        if is_news {
            self.changes.fetch_add(1, Ordering::AcqRel);
        }
        is_news
    }

    fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    /// Waits until somebody wants something else.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}

fn conflict<T>(text: String) -> Result<T, SiteTrouble> {
    Err(SiteTrouble::Conflict(text))
}

impl Shared {
    /// This site is to leave, or to stay. Stored when it returns.
    fn set_leaving(&self, leaves: bool) -> Result<(), FolderError> {
        let state = self.council.lock();
        let leaving = &self.council.leaving;
        if leaving.is_wanted() != leaves {
            self.folder.store_leaving(leaves)?;
            leaving.set_wanted(leaves);
            leaving.follow(&state.council);
            tracing::info!(leaves, "this site is told to leave the cluster, or to stay");
        }
        drop(state);
        if !leaves {
            self.tell_draining(Draining::default());
        }
        leaving.changed.notify_one();
        Ok(())
    }

    /// Another node has stored whether this site is to leave.
    pub(super) fn follow_wish(&self, leaves: bool) {
        let state = self.council.lock();
        if self.council.leaving.set_wanted(leaves) {
            self.council.leaving.follow(&state.council);
        }
    }

    /// Another site passes on what somebody wants of this one.
    pub(super) fn hear_wish(&self, from: SiteId, leaves: bool) {
        if !self.council.listens_to(from) {
            return;
        }
        if let Err(error) = self.set_leaving(leaves) {
            tracing::error!(%from, leaves, "a wish to leave or to stay was not stored: {error}");
        }
    }

    /// How far another site is that leaves.
    pub(super) fn hear_draining(&self, from: SiteId, draining: Draining) {
        let mut state = self.council.lock();
        if draining.leaves && state.open.contains_key(&from) {
            state.draining.insert(from, draining);
        } else {
            state.draining.remove(&from);
        }
    }

    fn tell_draining(&self, draining: Draining) {
        let mut state = self.council.lock();
        let own = state.council.site();
        let frame = Frame::Draining(draining.clone());
        state.open.keys().for_each(|site| self.board().send_frame(*site, &frame));
        if draining.leaves {
            state.draining.insert(own, draining);
        } else {
            state.draining.remove(&own);
        }
    }

    /// Somebody wants a site, this one if none is named, to take no writes, or to take them again.
    pub(super) fn leave_or_stay(
        &self,
        name: Option<SiteName>,
        leaves: bool,
    ) -> Result<Progress, SiteTrouble> {
        let (own, site, standing) = {
            let state = self.council.lock();
            let (own, config) = (state.council.site(), state.council.config());
            let site = name.map_or(own, |name| name.in_list(config));
            let others = config.sites.iter().filter(|(other, _)| **other != site);
            if leaves && !others.into_iter().any(|(_, seat)| seat.standing == Standing::Member) {
                return conflict(BadChange::NobodyStays { site }.to_string());
            }
            let Some(standing) = config.standing(site) else {
                return conflict(BadChange::NotListed { site }.to_string());
            };
            (own, site, standing)
        };
        if standing == Standing::Joining {
            return conflict(format!("site {site} is still joining; nothing was changed"));
        }
        if site == own {
            let stored = self.set_leaving(leaves);
            stored.map_err(|error| SiteTrouble::Conflict(format!("it could not be stored: {error}")))?;
        } else if standing == Standing::Member || !leaves {
            self.pass_on(site, leaves)?;
        }
        let what = match leaves {
            true => {
                format!("let site {site} take no more writes, and tell the others all that it has counted")
            }
            false => format!("let site {site} take writes again"),
        };
        let state = self.council.lock();
        let standing = state.council.config().standing(site);
        let is_done = match leaves {
            true => standing == Some(Standing::Leaving),
            false if site == own => !self.council.leaving.takes_no_writes(),
            false => standing == Some(Standing::Member) && !state.draining.contains_key(&site),
        };
        drop(state);
        Ok(self.how_far(&BTreeSet::from([site]), what, is_done))
    }

    /// Passes a wish on to the site that is meant.
    fn pass_on(&self, site: SiteId, leaves: bool) -> Result<(), SiteTrouble> {
        if self.council.listens_to(site) {
            self.board().send_frame(site, &Frame::Leave { leaves });
            return Ok(());
        }
        let facts = self.board().facts().into_iter().find(|facts| facts.number == site.number);
        let why = facts.and_then(|facts| facts.unreachable.or(facts.trouble));
        let why = why.map_or_else(String::new, |why| format!(" ({why})"));
        conflict(match leaves {
            true => format!(
                "site {site} cannot be reached from this one{why}, and was not removed. Start it, or ask another site that has \
                 a link to it. If it is lost for ever, and with it what it has counted and told nobody, say so: --dead"
            ),
            false => format!("site {site} cannot be reached from this one{why}. Ask another site, or itself"),
        })
    }

    /// Lets sites leave that are to be removed as planned. `None`: all of them have said that they do.
    pub(super) fn let_leave(&self, sites: &BTreeSet<SiteId>) -> Result<Option<Progress>, SiteTrouble> {
        let standings: Vec<_> = {
            let state = self.council.lock();
            let (own, config) = (state.council.site(), state.council.config());
            if sites.contains(&own) {
                return conflict(BadChange::RemovesItself { site: own }.to_string());
            }
            sites.iter().map(|site| (*site, config.standing(*site))).collect()
        };
        let mut is_ready = true;
        for (site, standing) in standings {
            match standing {
                // Who is not listed is named by the council.
                None | Some(Standing::Leaving) => {}
                Some(Standing::Member) => {
                    self.pass_on(site, true)?;
                    is_ready = false;
                }
                Some(Standing::Joining) => {
                    return conflict(format!(
                        "site {site} is still joining, and has counted nothing; nothing was changed. Stop it, and remove it \
                         with --dead"
                    ));
                }
            }
        }
        let names = texts(sites).join(", ");
        let what = format!("let site {names} leave in order");
        Ok((!is_ready).then(|| self.how_far(sites, what, false)))
    }

    fn how_far(&self, sites: &BTreeSet<SiteId>, what: String, is_done: bool) -> Progress {
        let state = self.council.lock();
        let draining = state.draining.iter().filter(|(site, _)| sites.contains(site) && !is_done);
        let draining: Vec<_> = draining.map(|(site, it)| DrainingFacts::of(*site, it)).collect();
        let missing: BTreeSet<String> =
            draining.iter().flat_map(|it| it.behind.iter().map(|behind| behind.site.clone())).collect();
        Progress { what, is_done, missing: missing.into_iter().collect(), draining }
    }
}

/// Does what is to be done next so that this site leaves, or stays, as people want it.
pub(super) async fn attend(node: &Node) {
    let shared = &node.shared;
    let leaving = &shared.council.leaving;
    if !leaving.takes_no_writes() {
        return;
    }
    // Looked at before what is unfinished: whoever wants something else in between begins anew.
    let changes = leaving.changes.load(Ordering::Acquire);
    if !leaving.is_wanted() {
        return log(shared.take_step(Council::stay));
    }
    if shared.council.lock().council.standing() != Some(Standing::Member) {
        return;
    }
    let Some(unfinished) = node.unfinished().await else { return };
    let is_drained = unfinished.is_nothing();
    let Unfinished { commands, operations, behind, kept } = unfinished;
    let behind = behind.into_iter().map(|(site, changes)| Behind { site, changes }).collect();
    shared.tell_draining(Draining { leaves: true, commands, operations, behind, kept, slots: 0 });
    if is_drained {
        log(shared.take_step(|council| match leaving.changes.load(Ordering::Acquire) == changes {
            true => council.leave(),
            false => Ok(Step::default()),
        }));
    }
}

/// What was in the way is over before long, and then it is tried again.
fn log(step: Result<(), NoStep>) {
    if let Err(error) = step {
        tracing::debug!("neither left nor stayed yet: {error}");
    }
}

impl Node {
    /// What of this site's own has yet to come to its end. A command that was taken in before is in a batch before this.
    async fn unfinished(&self) -> Option<Unfinished> {
        let mut sum = Unfinished::default();
        for worker in 0..self.shared.workers() {
            let part = self.ask(worker, |answer| Mail::Unfinished { answer }).await.ok()??;
            sum.commands += part.commands;
            sum.operations += part.operations;
            sum.kept += part.kept;
            for (site, changes) in part.behind {
                *sum.behind.entry(site).or_default() += changes;
            }
        }
        Some(sum)
    }
}
