//! What edges and relays say to servers, and what they make of the answers.

use super::{Happening, Station};
use crate::core::Millis;
use crate::system::fleet::{Answered, Asked, Content, Letter, Purpose, Said, Stage, Waiting};
use crate::system::history::Note;
use crate::system::site::Site;
use crate::system::world::World;
use quipu_engine::handoff::{
    BadAnswer, Estate, Name, Notice, Round, Server, Visit,
    exchange::{Exchange, Exchanged, Left, ShardAnswer, Taken},
};
use quipu_storage::ShardId;
use std::collections::BTreeSet;

/// A relay speaks to all of its parents, also for shards that have nothing to say, this often.
const LOOK_MS: Millis = 1_500;

impl World {
    /// Those whom it can hand over to.
    fn stations(&self, at: usize) -> Vec<Station> {
        let sites = (0..self.sites.len()).map(Station::Site);
        let relays = (self.plan.fleet.edges..self.fleet.replicas.len()).map(Station::Relay);
        if self.fleet.replicas[at].is_edge() { sites.chain(relays).collect() } else { sites.collect() }
    }

    /// Goes to another server.
    fn switch(&mut self, at: usize) {
        let stations = self.stations(at).len();
        let replica = &mut self.fleet.replicas[at];
        replica.current = (replica.current + 1 + replica.random.below(stations)) % stations;
    }

    /// Says what there is to be said, if it is time.
    pub(super) fn speak(&mut self, at: usize) {
        let now = self.now();
        let replica = &mut self.fleet.replicas[at];
        if let Some(waiting) = replica.waiting {
            if now < waiting.until {
                return;
            }
            replica.waiting = None;
            replica.speaks_at = now;
            self.switch(at);
        }
        if now < self.fleet.replicas[at].speaks_at {
            return;
        }
        self.fleet.replicas[at].speaks_at = now + self.plan.fleet.sync_ms;
        let stations = self.stations(at);
        let wanted = self.fleet.replicas[at].dies_of_answer.map(|(station, _)| station);
        let wanted = wanted.filter(|station| self.server_at(*station).is_some());
        let replica = &mut self.fleet.replicas[at];
        let station = wanted.unwrap_or_else(|| stations[replica.current % stations.len()]);
        match replica.known.get(&station).copied() {
            None => self.send_visits(at, station, None, Vec::new(), true),
            Some(server) if replica.is_edge() => self.edge_speaks(at, station, server),
            Some(server) => self.relay_speaks(at, station, server),
        }
    }

    fn edge_speaks(&mut self, at: usize, station: Station, server: Server) {
        let now = self.now();
        self.edge_may_retire(at);
        let replica = &mut self.fleet.replicas[at];
        let open = replica.open();
        let visits = replica.visits(server, true);
        if !visits.is_empty() {
            replica
                .after_batch(Purpose::Send { to: station, server: Some(server), visits, waits: true }, now);
        }
        // What was begun with others is ended there.
        let mut others: BTreeSet<Name> = open.tokens.into_keys().chain(open.servers).collect();
        others.remove(&server.name);
        for (to, server) in replica.known.clone() {
            if others.remove(&server.name) {
                let visits = replica.visits(server, false);
                if !visits.is_empty() {
                    replica
                        .after_batch(Purpose::Send { to, server: Some(server), visits, waits: false }, now);
                }
            }
        }
        if !others.is_empty() {
            self.ask_who_is_there(at);
        }
    }

    /// Asks one of those who they are that it does not know, or not any more.
    fn ask_who_is_there(&mut self, at: usize) {
        let stations = self.stations(at);
        let replica = &mut self.fleet.replicas[at];
        let any = *replica.random.pick(&stations);
        self.send_visits(at, any, None, Vec::new(), false);
    }

    fn relay_speaks(&mut self, at: usize, station: Station, server: Server) {
        let now = self.now();
        let replica = &mut self.fleet.replicas[at];
        let all = now >= replica.looks_at;
        replica.speak(station, server, Round { chosen: true, all }, now);
        if all {
            replica.looks_at = now + LOOK_MS;
            for (to, server) in replica.known.clone() {
                if to != station {
                    replica.speak(to, server, Round { chosen: false, all: true }, now);
                }
            }
            // The heir that was named may be another one than the one that it hands over to now.
            for (to, server) in self.fleet.replicas[at].known.clone() {
                self.relay_may_leave(at, to, server);
            }
            self.ask_who_is_there(at);
        }
        self.relay_may_leave(at, station, server);
    }

    /// Sends visits, or without any only asks who is there.
    pub(super) fn send_visits(
        &mut self,
        at: usize,
        to: Station,
        server: Option<Server>,
        visits: Vec<(u16, Visit)>,
        waits: bool,
    ) {
        let name = self.fleet.replicas[at].name;
        for (shard, visit) in &visits {
            for token in visit.view.tokens().iter().filter(|token| token.source == name) {
                let key = (token.source, *shard, token.target, token.slot.target_clock);
                let after = self.position_of(token.target, *shard);
                self.fleet.ledger.sent(key, &token.value, after);
            }
            let tokens = visit.notice.iter().flat_map(Notice::tokens);
            let keys = tokens.map(|token| (token.source, *shard, token.target, token.slot.target_clock));
            self.fleet.replicas[at].last_words.extend(keys);
            if visit.view.wants_slot() {
                self.fleet.ledger.asks(*visit.view.to(), *shard, name);
            }
        }
        let exchange = Exchange { cluster: None, cluster_id: None, visits };
        let said = Said::Exchange(Content::pack(exchange, self.plan.encoded));
        self.send_letter(at, to, server, said, waits);
    }

    /// How far a site's stream is, if the target is one.
    fn position_of(&self, target: Name, shard: u16) -> u64 {
        let site =
            target.site().and_then(|id| self.sites.get(Site::index_of(id)).filter(|site| site.id == id));
        site.map_or(0, |site| site.got_to(ShardId(shard), site.id))
    }

    pub(super) fn send_estate(&mut self, at: usize, to: Station, server: Server, shard: u16, estate: Estate) {
        let said = Said::Estate(Content::pack(Left { shard, estate }, self.plan.encoded));
        self.send_letter(at, to, Some(server), said, false);
    }

    fn send_letter(&mut self, at: usize, to: Station, server: Option<Server>, said: Said, waits: bool) {
        let now = self.now();
        let timeout_ms = self.plan.fleet.timeout_ms;
        self.fleet.letters += 1;
        let number = self.fleet.letters;
        let replica = &mut self.fleet.replicas[at];
        replica.unanswered.insert(number, Asked { to, server });
        if waits && replica.waiting.is_none() {
            replica.waiting = Some(Waiting { number, until: now + timeout_ms });
        }
        if now < replica.cut_until {
            return;
        }
        let letter = Letter { number, from: at, run: replica.run, said };
        let place = match to {
            Station::Site(site) => self.fleet.replicas.len() + site,
            Station::Relay(relay) => relay,
        };
        self.send_in_fleet(at, place, Happening::Letter { to, letter });
    }

    /// An answer reaches whoever has written.
    pub(super) fn answer_arrives(
        &mut self,
        at: usize,
        run: u32,
        number: u64,
        answered: Answered,
    ) -> Result<(), String> {
        let now = self.now();
        let replica = &mut self.fleet.replicas[at];
        if replica.run != run || !replica.is_up() || now < replica.cut_until {
            return Ok(());
        }
        // Whoever has heard an answer does not hear it again.
        let Some(asked) = replica.unanswered.remove(&number) else { return Ok(()) };
        if let Some((station, away_ms)) = replica.dies_of_answer
            && asked.to == station
            && asked.server.is_some_and(|server| replica.open().tokens.contains_key(&server.name))
        {
            replica.dies_of_answer = None;
            self.crash_replica(at, away_ms);
            return Ok(());
        }
        if replica.waiting.is_some_and(|waiting| waiting.number == number) {
            replica.waiting = None;
        }
        let goes_on = match answered {
            Answered::Exchange(content) => self.hear_exchange(at, asked, content.unpack()?)?,
            Answered::Estate { shard, taken } => self.hear_adoption(at, shard, taken.unpack()?),
        };
        if !self.commit_replica(at)? {
            return Ok(());
        }
        let sync_ms = self.plan.fleet.sync_ms;
        let replica = &mut self.fleet.replicas[at];
        let open = replica.open();
        let has_moved = open != replica.last_open;
        replica.last_open = open;
        replica.still = if has_moved { 0 } else { replica.still + 1 };
        replica.speaks_at = if has_moved || goes_on == GoesOn::AtOnce { now + 1 } else { now + sync_ms };
        if goes_on == GoesOn::Elsewhere || replica.random.chance(self.plan.fleet.switch) {
            self.switch(at);
        }
        self.leaves_if_it_may(at);
        if self.fleet.replicas[at].is_up() {
            self.plan_replica(at);
        }
        Ok(())
    }

    fn hear_exchange(&mut self, at: usize, asked: Asked, exchanged: Exchanged) -> Result<GoesOn, String> {
        let now = self.now();
        let Exchanged { server: found, answers, .. } = exchanged;
        let replica = &mut self.fleet.replicas[at];
        if asked.server != Some(found) {
            // It did not know who that is, or it is another one than it was.
            replica.known.insert(asked.to, found);
            return Ok(GoesOn::AtOnce);
        }
        let mut goes_on = GoesOn::Later;
        let mut refusals = Vec::new();
        for (shard, answer) in answers {
            let problem = match answer {
                ShardAnswer::Visited(answer) => match replica.answered(shard, found, &answer, now) {
                    Ok(()) => {
                        let tokens = replica.last_words.iter().filter(|token| token.1 == shard);
                        if answer.keeps_notice && found.tier == 0 {
                            tokens.for_each(|token| self.fleet.ledger.left(*token));
                        }
                        continue;
                    }
                    Err(bad @ (BadAnswer::Copy | BadAnswer::OtherServer)) => bad.to_string(),
                },
                ShardAnswer::Copy => BadAnswer::Copy.to_string(),
                ShardAnswer::Refused(why) => {
                    refusals.push(format!(
                        "{} is refused by {} for shard {shard}: {why}",
                        replica.who, found.name
                    ));
                    goes_on = GoesOn::Elsewhere;
                    continue;
                }
            };
            return Err(format!(
                "{} and {} do not agree about shard {shard}: {problem}",
                replica.who, found.name
            ));
        }
        if self.history.aloud {
            refusals.into_iter().for_each(|text| self.note(Note::Text(text)));
            let replica = &mut self.fleet.replicas[at];
            let open = replica.open();
            let text = format!("{} has heard {}: {open:?}", replica.who, found.name);
            self.note(Note::Text(text));
        }
        Ok(goes_on)
    }

    fn hear_adoption(&mut self, at: usize, shard: u16, taken: Taken) -> GoesOn {
        match taken {
            Taken::Answered(adoption) => {
                self.fleet.replicas[at].adopted(shard, &adoption);
                GoesOn::Later
            }
            Taken::Refused(_) => GoesOn::Elsewhere,
        }
    }

    /// An edge that is to leave says so when everything is on its way.
    fn edge_may_retire(&mut self, at: usize) {
        let now = self.now();
        let replica = &mut self.fleet.replicas[at];
        let Stage::Leaving { early } = replica.stage else { return };
        let open = replica.open();
        // If nothing moves any more, others that have copies go on with it.
        let is_ready = open.tokens.is_empty() || early || replica.still >= STILL_MAX;
        if !replica.has_retired && open.pending == 0 && is_ready && replica.retire_edge().is_ok() {
            replica.after_batch(Purpose::Retire, now);
        }
    }
}

/// After so many answers by which nothing has changed, an edge that is to leave does not wait for more.
const STILL_MAX: u32 = 4;

/// What follows from an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GoesOn {
    AtOnce,
    Later,
    Elsewhere,
}
