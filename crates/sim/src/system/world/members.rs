//! Sites that come and go. The council of the sites is not simulated: a change is decided here when all who stay could have
//! agreed, which is when they are up and know of the last one, and they hear of it one after the other.

use super::{Event, World};
use crate::core::Millis;
use crate::system::history::Note;
use crate::system::site::Standing;
use crate::system::trouble::Trouble;
use quipu_engine::{Membership, Rule, Unfinished};
use std::rc::Rc;

/// How far a change has come is looked at so often.
const LOOK_MS: Millis = 100;
/// All have heard of a change after this time.
const FOLLOW_MS_MAX: Millis = 500;

/// A change of who belongs to the cluster. There is one at a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnderWay {
    pub(super) site: usize,
    pub(super) step: Step,
}

/// What comes next.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// The site leaves when the others have all that it wrote.
    Drain { heir: usize },
    /// The others remove it.
    Remove { heir: usize },
    /// It dies now, and is to come back from its copy.
    Die { away_ms: Millis },
    /// Its copy is started beside it.
    StartBeside { away_ms: Millis },
    /// The two run until one has noticed it.
    Beside { away_ms: Millis },
    /// The copy takes the place of its disk.
    PutBack,
    /// The others list it.
    List,
    /// It becomes a member when it has what the others have.
    Gather,
    /// Everybody hears of the last decision.
    Settle,
}

impl World {
    /// Begins a change, if it can be now.
    pub(super) fn begin_change(&mut self, trouble: Trouble) -> Result<(), String> {
        let is = |site: usize, standing: Standing| self.sites[site].standing == standing;
        let others = |site: usize| (0..self.sites.len()).any(|it| it != site && is(it, Standing::Member));
        if self.change.is_some() {
            return Ok(());
        }
        let (site, step, wait) = match trouble {
            Trouble::Join { site } if is(site, Standing::Outside) && self.has_neighbour(site) => {
                (site, Step::List, 0)
            }
            Trouble::Leave { site, heir } if is(site, Standing::Member) && others(site) => {
                (site, Step::Drain { heir }, 0)
            }
            Trouble::Lose { site, heir, after_ms } if is(site, Standing::Member) && others(site) => {
                (site, Step::Remove { heir }, after_ms)
            }
            Trouble::LoseTwo { site, other, heir, after_ms }
                if is(site, Standing::Member) && is(other, Standing::Member) && self.members().len() > 2 =>
            {
                self.die_for_good(other, Standing::Gone);
                self.also_lost = Some((other, heir));
                (site, Step::Remove { heir }, after_ms)
            }
            Trouble::Restore { site, age_ms, away_ms } if is(site, Standing::Member) => {
                (site, Step::Die { away_ms }, age_ms)
            }
            Trouble::Beside { site, age_ms, away_ms } if is(site, Standing::Member) && others(site) => {
                (site, Step::StartBeside { away_ms }, age_ms)
            }
            _ => return Ok(()),
        };
        self.next(UnderWay { site, step }, wait);
        match step {
            Step::List => {
                self.sites[site].standing = Standing::Joining;
                self.start_site(site)?;
            }
            Step::Drain { .. } => self.sites[site].standing = Standing::Leaving,
            Step::Remove { .. } => self.die_for_good(site, Standing::Gone),
            _ => {
                let now = self.now();
                self.sites[site].make_copy(now);
            }
        }
        Ok(())
    }

    /// Is somebody there who has a link to this site?
    fn has_neighbour(&self, site: usize) -> bool {
        self.members().into_iter().any(|other| self.plan.topology.links(site, other))
    }

    /// Is who belongs to the cluster about to change?
    pub(in crate::system) fn is_changing(&self) -> bool {
        self.change.is_some()
    }

    /// A relay that has named its heir, which was lost before it answered, waits for ever, and a site that keeps something for
    /// that relay with it: a person takes the removal of that site back (`quipu site stay`).
    pub(in crate::system) fn let_stay(&mut self) {
        let Some(UnderWay { site, step: Step::Drain { .. } }) = self.change else { return };
        let only_keeps = |it: Unfinished| Unfinished { kept: 0, ..it.clone() }.is_nothing() && it.kept > 0;
        if self.has_orphans() && self.sites[site].unfinished().is_some_and(only_keeps) {
            self.note(Note::Text(format!("site {} is told to stay", site + 1)));
            self.sites[site].standing = Standing::Member;
            self.change = None;
        }
    }

    /// Which site would leave, and what is in the way.
    pub(in crate::system) fn not_drained(&self) -> String {
        let leaving = self.sites.iter().filter(|site| site.standing == Standing::Leaving);
        leaving.map(|site| format!("; site {} would leave: {:?}", site.id, site.unfinished())).collect()
    }

    pub(super) fn next(&mut self, change: UnderWay, wait: Millis) {
        self.change = Some(change);
        self.queue.push(wait, Event::Council);
    }

    /// Looks how far the change under way has come.
    pub(super) fn advance(&mut self) -> Result<(), String> {
        let Some(UnderWay { site, step }) = self.change else { return Ok(()) };
        let next = match step {
            Step::Drain { heir } => self.drain(site, heir),
            Step::Remove { heir } => self.remove(site, heir),
            Step::Die { away_ms } => {
                self.die_for_good(site, Standing::Away);
                self.next(UnderWay { site, step: Step::PutBack }, away_ms);
                return Ok(());
            }
            Step::StartBeside { away_ms } => return self.start_beside(site, away_ms),
            Step::Beside { away_ms } => {
                if self.look_beside(site, away_ms)?.is_some() {
                    return Ok(());
                }
                None
            }
            Step::PutBack => return self.put_back(site),
            Step::List => self.list(site),
            Step::Gather => self.gather(site),
            Step::Settle if self.all_have_heard() => {
                self.change = None;
                if let Some((site, heir)) = self.also_lost.take() {
                    self.next(UnderWay { site, step: Step::Remove { heir } }, 0);
                }
                return Ok(());
            }
            Step::Settle => None,
        };
        self.next(UnderWay { site, step: next.unwrap_or(step) }, LOOK_MS);
        Ok(())
    }

    /// Could everybody who stays have agreed to a change?
    fn all_have_heard(&self) -> bool {
        let epoch = self.membership.epoch;
        let has_heard =
            |site: usize| self.sites[site].is_up() && self.sites[site].membership().epoch == epoch;
        let listed = |site: &usize| self.membership.members.contains(&self.sites[*site].id);
        self.members().into_iter().filter(listed).all(has_heard)
    }

    fn drain(&mut self, site: usize, heir: usize) -> Option<Step> {
        if !self.sites[site].is_drained() || !self.all_have_heard() {
            return None;
        }
        self.die_for_good(site, Standing::Gone);
        self.remove(site, heir)
    }

    fn remove(&mut self, site: usize, heir: usize) -> Option<Step> {
        if !self.all_have_heard() {
            return None;
        }
        let is_member = |at: &usize| *at != site && self.sites[*at].standing == Standing::Member;
        let heir = Some(heir).filter(is_member).or_else(|| (0..self.sites.len()).find(is_member))?;
        let (old, heir_id) = (self.sites[site].id, self.sites[heir].id);
        self.decide(|membership| {
            membership.members.remove(&old);
            membership.removed.insert(old, heir_id);
        });
        self.clients_move(site, heir);
        Some(Step::Settle)
    }

    /// The copy of a lost disk goes on in its place.
    fn put_back(&mut self, site: usize) -> Result<(), String> {
        let now = self.now();
        let old = self.sites[site].id;
        self.sites[site].put_back(now)?;
        let is_new = self.plan.wrong.rules.keep(Rule::NewIncarnation);
        self.sites[site].standing = if is_new { Standing::Joining } else { Standing::Member };
        let id = self.sites[site].id;
        self.note(Note::Text(format!("site {old} goes on from a copy, as {id}")));
        self.start_site(site)?;
        if is_new {
            self.next(UnderWay { site, step: Step::List }, 0);
        } else {
            self.dead.remove(&old);
            self.goes_on_as_before(site);
            self.change = None;
        }
        Ok(())
    }

    fn list(&mut self, site: usize) -> Option<Step> {
        if !self.all_have_heard() {
            return None;
        }
        let new = self.sites[site].id;
        let old = self.membership.members.iter().find(|old| old.number == new.number).copied();
        self.decide(|membership| {
            membership.members.insert(new);
            membership.joining.insert(new);
            if let Some(old) = old {
                membership.members.remove(&old);
                membership.removed.insert(old, new);
            }
        });
        Some(Step::Gather)
    }

    fn gather(&mut self, site: usize) -> Option<Step> {
        if !self.all_have_heard() || !self.sites[site].is_caught_up() {
            return None;
        }
        let id = self.sites[site].id;
        self.decide(|membership| {
            membership.joining.remove(&id);
        });
        self.sites[site].standing = Standing::Member;
        self.clients_come(site);
        Some(Step::Settle)
    }

    /// All who stay have agreed.
    fn decide(&mut self, change: impl FnOnce(&mut Membership)) {
        let mut membership = Membership::clone(&self.membership);
        membership.epoch += 1;
        change(&mut membership);
        self.note(Note::Text(format!("it is decided: {membership:?}")));
        self.membership = Rc::new(membership);
        for site in self.members() {
            let wait = self.chance.bits() % FOLLOW_MS_MAX;
            self.queue.push(wait, Event::Follow { site, membership: Rc::clone(&self.membership) });
        }
    }

    /// A site hears of a decision.
    pub(super) fn follow(&mut self, site: usize, membership: Rc<Membership>) {
        let it = &mut self.sites[site];
        if !membership.members.contains(&it.id) || it.membership().epoch >= membership.epoch {
            return;
        }
        if !it.is_up() {
            return self.queue.push(LOOK_MS, Event::Follow { site, membership });
        }
        it.follow(&membership);
        self.note(Note::Text(format!("site {} hears of epoch {}", site + 1, membership.epoch)));
        self.look_at_links();
        self.schedule(site, self.plan.commit_ms);
    }
}
