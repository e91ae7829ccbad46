//! What sites tell each other, and whether they know that they can.

use super::{Event, World, node};
use crate::system::history::Note;
use crate::system::site::Site;
use quipu_engine::{Envelope, Message, SiteId};
use quipu_storage::ShardId;
use std::{collections::BTreeMap, rc::Rc};

/// Two sites that can reach each other connect within this time.
const CONNECT_MS_MAX: u64 = 100;

/// A message on its way.
#[derive(Debug, Clone)]
pub(in crate::system) enum Parcel {
    /// As it is, which is faster.
    Whole(Box<Message>),
    /// As its bytes.
    Bytes(Rc<[u8]>),
}

/// A message, and between whom it is.
#[derive(Debug, Clone)]
pub(in crate::system) struct Letter {
    /// The sender, and its place.
    from: (SiteId, usize),
    /// The addressee, and its place.
    to: (SiteId, usize),
    shard: ShardId,
    parcel: Parcel,
    /// Of a stream that has two branches, the one that its sender has.
    branch: Option<usize>,
    /// Had one of the two another one beside it that went as the same site?
    is_beside: bool,
}

impl World {
    /// Sends what a site has to say. Returns whether that was something.
    pub(super) fn send(&mut self, from: usize) -> bool {
        let now = self.now();
        let mut envelopes = std::mem::take(&mut self.envelopes);
        self.sites[from].outgoing(now, &mut envelopes);
        let speaks = !envelopes.is_empty();
        for Envelope { to, shard, message } in envelopes.drain(..) {
            let (addressee, to) = (to, self.reached(from, to));
            if !self.links.carries(from, to) || self.is_kept_apart(from, to) {
                continue;
            }
            let parcel = if self.plan.encoded {
                Parcel::Bytes(message.encode().into())
            } else {
                Parcel::Whole(Box::new(message))
            };
            let (sender, branch) = ((self.sites[from].id, from), self.branch(from, shard));
            let is_beside = self.is_beside(from, to);
            let letter = Letter { from: sender, to: (addressee, to), shard, parcel, branch, is_beside };
            let event = Event::Message(Box::new(letter));
            self.between.send(&mut self.queue, node(from), node(to), event);
        }
        self.envelopes = envelopes;
        speaks
    }

    /// Those that a stall has held back arrive now, in order.
    pub(super) fn let_through(&mut self) {
        let stalled = |way: &(usize, usize)| self.links.is_stalled(way.0, way.1);
        let (held, free) = std::mem::take(&mut self.held).into_iter().partition(|(way, _)| stalled(way));
        self.held = held;
        let free: BTreeMap<(usize, usize), Vec<Letter>> = free;
        for letter in free.into_values().flatten() {
            self.queue.push(0, Event::Message(Box::new(letter)));
        }
    }

    /// A message arrives.
    pub(super) fn receive(&mut self, letter: Letter) -> Result<(), String> {
        let way = (letter.from.1, letter.to.1);
        if self.links.is_stalled(way.0, way.1) {
            self.held.entry(way).or_default().push(letter);
            return Ok(());
        }
        let Letter { from: (sender, from), to: (id, to), shard, parcel, branch, is_beside } = letter;
        // Links to one that is gone end with it.
        if is_beside && !self.is_beside(from, to) {
            return Ok(());
        }
        let site = &self.sites[to];
        // Whoever is not listed, or not any more, is not listened to.
        if !site.is_up() || site.id != id || !site.membership().members.contains(&sender) {
            return Ok(());
        }
        let message = match parcel {
            Parcel::Whole(message) => message.arrived(),
            Parcel::Bytes(bytes) => Message::decode(&bytes),
        };
        let now = self.now();
        if self.history.aloud {
            let text = message.as_ref().map_or(String::new(), |message| format!("{message:?}"));
            self.note(Note::Text(format!("site {} shard {} hears site {sender}: {text}", to + 1, shard.0)));
        }
        let before = self.known_of_fork(to, shard);
        let tells = message.as_ref().is_ok_and(|message| message.tells_of(id));
        let received = message.and_then(|message| self.sites[to].receive(shard, sender, message, now));
        if let Err(error) = received {
            if self.refused_beside(from, to, &error) {
                return Ok(());
            }
            return Err(format!("site {id} refuses a message of site {sender}: {error}"));
        }
        self.heard_beside(to, shard, branch.filter(|_| tells || self.twin(to).is_none()), before)?;
        self.schedule(to, self.plan.commit_ms);
        Ok(())
    }

    /// Something has changed about who is up and what is cut: links that are gone are noticed, and those that can be
    /// there again will be soon.
    pub(super) fn look_at_links(&mut self) {
        for (a, b) in self.links.all().filter(|(a, b)| a < b) {
            let possible = self.can_connect(a, b);
            if !possible && self.links.set_connected(a, b, false) {
                self.tell_both(a, b, false);
            } else if possible && !self.links.is_connected(a, b) {
                let wait = self.chance.bits() % CONNECT_MS_MAX;
                self.queue.push(wait, Event::Connect { a, b });
            }
        }
    }

    fn can_connect(&self, a: usize, b: usize) -> bool {
        let lists = |a: &Site, b: &Site| a.is_up() && a.membership().members.contains(&b.id);
        let (site_a, site_b) = (&self.sites[a], &self.sites[b]);
        let is_possible = lists(site_a, site_b) && lists(site_b, site_a) && self.links.seems_up(a, b);
        is_possible && !self.is_kept_apart(a, b)
    }

    pub(super) fn connect(&mut self, a: usize, b: usize) {
        if self.can_connect(a, b) && !self.links.is_connected(a, b) && self.greet(a, b) {
            self.replace_links(a, b);
            self.links.set_connected(a, b, true);
            self.tell_both(a, b, true);
        }
    }

    pub(super) fn tell_both(&mut self, a: usize, b: usize, up: bool) {
        let what = if up { "connect" } else { "are disconnected" };
        self.note(Note::Text(format!("sites {} and {} {what}", a + 1, b + 1)));
        if !up {
            // What a link has not delivered ends with it.
            self.held.retain(|way, _| *way != (a, b) && *way != (b, a));
        }
        let (id_a, id_b) = (self.sites[a].id, self.sites[b].id);
        self.sites[a].link(id_b, up);
        self.sites[b].link(id_a, up);
        for site in [a, b] {
            if self.sites[site].is_up() {
                self.schedule(site, self.plan.commit_ms);
            }
        }
    }
}
