//! What sites tell each other, and whether they know that they can.

use super::{Event, World, node};
use crate::system::history::Note;
use crate::system::site::Site;
use quipu_engine::{Envelope, Message};
use quipu_storage::ShardId;
use std::rc::Rc;

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

impl World {
    /// Sends what a site has to say. Returns whether that was something.
    pub(super) fn send(&mut self, from: usize) -> bool {
        let now = self.now();
        let mut envelopes = std::mem::take(&mut self.envelopes);
        self.sites[from].outgoing(now, &mut envelopes);
        let speaks = !envelopes.is_empty();
        for Envelope { to, shard, message } in envelopes.drain(..) {
            let to = Site::index_of(to);
            if !self.links.carries(from, to) {
                continue;
            }
            let parcel = if self.plan.encoded {
                Parcel::Bytes(message.encode().into())
            } else {
                Parcel::Whole(Box::new(message))
            };
            let event = Event::Message { from, to, shard, parcel };
            self.between.send(&mut self.queue, node(from), node(to), event);
        }
        self.envelopes = envelopes;
        speaks
    }

    /// A message arrives.
    pub(super) fn receive(
        &mut self,
        from: usize,
        to: usize,
        shard: ShardId,
        parcel: Parcel,
    ) -> Result<(), String> {
        if !self.sites[to].is_up() {
            return Ok(());
        }
        let message = match parcel {
            Parcel::Whole(message) => Ok(*message),
            Parcel::Bytes(bytes) => Message::decode(&bytes),
        };
        let (now, sender) = (self.now(), self.sites[from].id);
        if self.history.aloud {
            let text = message.as_ref().map_or(String::new(), |message| format!("{message:?}"));
            self.note(Note::Text(format!("site {} shard {} hears site {sender}: {text}", to + 1, shard.0)));
        }
        let received = message.and_then(|message| self.sites[to].receive(shard, sender, message, now));
        if let Err(error) = received {
            // One that has left is not heard any more, whatever was under way.
            return match self.sites[from].gone {
                true => Ok(()),
                false => Err(format!("site {} refuses a message of site {sender}: {error}", to + 1)),
            };
        }
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
        self.sites[a].is_up() && self.sites[b].is_up() && self.links.seems_up(a, b)
    }

    pub(super) fn connect(&mut self, a: usize, b: usize) {
        if self.can_connect(a, b) && self.links.set_connected(a, b, true) {
            self.tell_both(a, b, true);
        }
    }

    fn tell_both(&mut self, a: usize, b: usize, up: bool) {
        let what = if up { "connect" } else { "are disconnected" };
        self.note(Note::Text(format!("sites {} and {} {what}", a + 1, b + 1)));
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
