//! What sites and relays do with what edges and relays tell them.

use super::{Band, Happening, Station, Visited};
use crate::system::fleet::{Answered, Content, Letter, Said, Stage, TokenKey};
use crate::system::history::Note;
use crate::system::site::Standing;
use crate::system::world::World;
use quipu_engine::handoff::{
    Server,
    exchange::{Exchange, Exchanged, Left, ShardAnswer, Taken},
};
use quipu_engine::{Refusal, Reply, Shards};
use quipu_storage::ShardId;

impl World {
    /// Who answers there, if anybody does.
    pub(super) fn server_at(&self, station: Station) -> Option<Server> {
        match station {
            Station::Site(site) => {
                let site = &self.sites[site];
                (site.is_up() && site.is_there()).then(|| site.server())
            }
            Station::Relay(relay) => {
                let relay = &self.fleet.replicas[relay];
                (relay.is_up() && self.now() >= relay.cut_until).then(|| relay.server())
            }
        }
    }

    pub(super) fn letter_arrives(&mut self, to: Station, letter: Letter) -> Result<(), String> {
        let Some(server) = self.server_at(to) else { return Ok(()) };
        let Letter { number, from, run, said } = letter;
        let is_repeated = !self.fleet.arrived.insert(number);
        match said {
            Said::Exchange(content) => {
                let Exchange { visits, .. } = content.unpack()?;
                if visits.is_empty() {
                    let exchanged =
                        Exchanged { cluster: String::new(), cluster_id: None, server, answers: Vec::new() };
                    let answered = Answered::Exchange(Content::pack(exchanged, self.plan.encoded));
                    self.send_answer(to, from, run, number, answered);
                    return Ok(());
                }
                self.take_visits(to, server, (number, from, run), is_repeated, visits)
            }
            Said::Estate(content) => {
                self.take_estate(to, server, (number, from, run), &content.unpack()?);
                Ok(())
            }
        }
    }

    fn take_visits(
        &mut self,
        at: Station,
        server: Server,
        (number, from, run): (u64, usize, u32),
        is_repeated: bool,
        visits: Vec<(u16, quipu_engine::handoff::Visit)>,
    ) -> Result<(), String> {
        let now = self.now();
        let sender = &self.fleet.replicas[from];
        let leaf = sender.is_edge();
        // What it has said after this, its last words too, may have been acted on.
        let is_late = is_repeated || sender.run != run || sender.stage == Stage::Gone || sender.has_retired;
        let shards = Shards::new(self.plan.shards).expect("a power of two");
        let leaves = matches!(at, Station::Site(site) if self.sites[site].standing == Standing::Leaving);
        if leaves && !visits.iter().all(|(_, visit)| visit.ends_something(leaf)) {
            let refused = |(shard, _)| (shard, Refusal::SiteLeaves.into());
            let answers = visits.into_iter().map(refused).collect();
            let exchanged = Exchanged { cluster: String::new(), cluster_id: None, server, answers };
            let answered = Answered::Exchange(Content::pack(exchanged, self.plan.encoded));
            self.send_answer(at, from, run, number, answered);
            return Ok(());
        }
        self.fleet.next_visit += 1;
        let id = self.fleet.next_visit;
        let (wanted, mut tokens): (usize, Vec<TokenKey>) = (visits.len(), Vec::new());
        for (shard, visit) in &visits {
            if !visit.speaks_only_of(|key| shards.of(key) == ShardId(*shard)) {
                let who = sender.who;
                return Err(format!("{who} speaks to shard {shard} of counters of another"));
            }
            let source = *visit.view.id();
            // Of two that overtake each other the answers may, too, and the sender hears the wrong one last.
            let newest = self.fleet.newest.entry((from, at, *shard)).or_default();
            let is_overtaken = number < *newest;
            *newest = number.max(*newest);
            if (is_late || is_overtaken) && visit.view.wants_slot() {
                self.fleet.ledger.may_stay(server.name, *shard, source);
            }
            let own = visit.view.tokens().iter().filter(|token| token.source == source);
            tokens.extend(own.map(|token| (source, *shard, token.target, token.slot.target_clock)));
        }
        let visited = Visited { number, from, run, at, server, wanted, answers: Vec::new(), tokens };
        self.fleet.visits.insert(id, visited);
        for (shard, visit) in visits {
            match at {
                Station::Site(site) => {
                    self.sites[site].visit(shard, Band::ticket(id, shard), visit, leaf, now);
                }
                Station::Relay(relay) => self.fleet.replicas[relay].visit(id, shard, visit, leaf, now),
            }
        }
        match at {
            Station::Site(site) => {
                self.schedule(site, self.plan.commit_ms);
                Ok(())
            }
            Station::Relay(relay) => self.commit_replica(relay).map(drop),
        }
    }

    fn take_estate(
        &mut self,
        at: Station,
        server: Server,
        (number, from, run): (u64, usize, u32),
        left: &Left,
    ) {
        let now = self.now();
        let Station::Site(site) = at else { return };
        if !matches!(self.sites[site].standing, Standing::Member | Standing::Leaving) {
            let taken = Content::pack(Taken::Refused("not now".to_owned()), self.plan.encoded);
            let answered = Answered::Estate { shard: left.shard, taken };
            return self.send_answer(at, from, run, number, answered);
        }
        self.fleet.next_visit += 1;
        let id = self.fleet.next_visit;
        let visited =
            Visited { number, from, run, at, server, wanted: 1, answers: Vec::new(), tokens: Vec::new() };
        self.fleet.visits.insert(id, visited);
        self.sites[site].adopt(left.shard, Band::ticket(id, left.shard), &left.estate, now);
        self.schedule(site, self.plan.commit_ms);
    }

    /// A shard has answered: what it says is durable.
    pub(in crate::system::world) fn visited(&mut self, id: u64, shard: u16, reply: Reply) {
        let Some(visited) = self.fleet.visits.get_mut(&id) else { return };
        let (at, server) = (visited.at, visited.server);
        let (number, from, run) = (visited.number, visited.from, visited.run);
        let tokens: Vec<TokenKey> = visited.tokens.iter().copied().filter(|token| token.1 == shard).collect();
        let answer = match reply {
            Reply::Adopted(adoption) => {
                self.fleet.visits.remove(&id);
                let taken = Content::pack(Taken::Answered(*adoption), self.plan.encoded);
                return self.send_answer(at, from, run, number, Answered::Estate { shard, taken });
            }
            Reply::Refused(refusal @ Refusal::NotTold { .. }) => {
                self.fleet.visits.remove(&id);
                let taken = Content::pack(Taken::Refused(refusal.to_string()), self.plan.encoded);
                return self.send_answer(at, from, run, number, Answered::Estate { shard, taken });
            }
            Reply::Visited(answer) => {
                let position = match at {
                    Station::Site(site) => {
                        let site = &self.sites[site];
                        site.got_to(ShardId(shard), site.id)
                    }
                    Station::Relay(_) => 0,
                };
                for token in tokens {
                    // Something was refused; the visitor sees which of its own tokens was taken all the same.
                    let (source, _, target, clock) = token;
                    let is_told = (source, target) == (*answer.view.to(), server.name)
                        && answer.view.says_taken(&source, clock);
                    if answer.refused && !is_told {
                        self.fleet.ledger.may_have_arrived(token);
                    } else {
                        self.fleet.ledger.arrived(token, server.name, position);
                    }
                }
                ShardAnswer::Visited(answer)
            }
            Reply::Refused(refusal) => {
                if matches!(refusal, Refusal::InDoubt(_)) {
                    tokens.into_iter().for_each(|token| self.fleet.ledger.may_have_arrived(token));
                }
                ShardAnswer::from(refusal)
            }
            other => ShardAnswer::Refused(format!("{other:?}")),
        };
        let Some(visited) = self.fleet.visits.get_mut(&id) else { return };
        visited.answers.push((shard, answer));
        if visited.answers.len() < visited.wanted {
            return;
        }
        let Some(Visited { mut answers, .. }) = self.fleet.visits.remove(&id) else { return };
        answers.sort_by_key(|(shard, _)| *shard);
        let exchanged = Exchanged { cluster: String::new(), cluster_id: None, server, answers };
        let answered = Answered::Exchange(Content::pack(exchanged, self.plan.encoded));
        self.send_answer(at, from, run, number, answered);
    }

    fn send_answer(&mut self, at: Station, to: usize, run: u32, number: u64, answered: Answered) {
        let place = match at {
            Station::Site(site) => self.fleet.replicas.len() + site,
            Station::Relay(relay) => relay,
        };
        if matches!(at, Station::Relay(relay) if self.now() < self.fleet.replicas[relay].cut_until) {
            return;
        }
        self.send_in_fleet(place, to, Happening::Answer { to, run, number, answered });
    }

    /// A server dies with visits that it has not answered.
    pub(in crate::system::world) fn die_with_visits(&mut self, at: Station) {
        let dies: Vec<u64> =
            self.fleet.visits.iter().filter(|(_, visited)| visited.at == at).map(|(id, _)| *id).collect();
        for id in dies {
            let Some(visited) = self.fleet.visits.remove(&id) else { continue };
            visited.tokens.into_iter().for_each(|token| self.fleet.ledger.may_have_arrived(token));
            self.note(Note::Text(format!("letter {} is not answered", visited.number)));
        }
    }
}
