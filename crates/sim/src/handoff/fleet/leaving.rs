//! How clients leave: when all is handed off, with a notice, or without a word.

use super::{Client, Event, Fleet, Message, index};
use crate::core::Node;
use crate::handoff::setup::Cleanup;
use quipu_crdt::handoff::{Notice, NoticeDone};
use std::collections::BTreeSet;

/// How a client that does not count any more goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaving {
    /// As before, until it has nothing to hand off.
    Gracefully,
    /// It cannot reach its former server any more: it hands over to another and leaves with a notice.
    CutOff { from: Node },
}

/// What is sent about clients that leave with a notice.
#[derive(Debug, Clone)]
pub(in crate::handoff) struct Letter {
    from: Node,
    to: Node,
    text: Text,
}

#[derive(Debug, Clone)]
enum Text {
    /// From the client to its new server: keep this until all have acted on it.
    Keep(Notice<u32, u64>),
    /// The answer: the client may go.
    Kept,
    /// From the server that keeps a notice to those that it names.
    Pass(Notice<u32, u64>),
    /// The answer.
    Done(Vec<NoticeDone<u32>>),
}

impl Client {
    pub(super) fn is_cut_off_from(&self, server: Node) -> bool {
        self.leaving == Some(Leaving::CutOff { from: server })
    }
}

impl Fleet {
    pub(super) fn cleanup(&self) -> Option<Cleanup> {
        self.setup.retirement.map(|retirement| retirement.cleanup)
    }

    /// A random client begins to retire.
    pub(super) fn retire_any(&mut self) -> Result<(), String> {
        let retirement = self.setup.retirement.expect("scheduled only if clients retire");
        self.queue.push(retirement.every_ms, Event::Retire);
        if self.staying.is_empty() {
            return Ok(());
        }
        let id = self.staying.swap_remove(self.departures.below(self.staying.len()));
        let cut_off = self.departures.below(100) < index(retirement.partition_percent);
        self.active -= 1;
        if !cut_off {
            self.client_mut(id).expect("it stayed").leaving = Some(Leaving::Gracefully);
            return Ok(());
        }
        match retirement.cleanup {
            Cleanup::Off | Cleanup::Fold => {
                self.abandoned += 1;
                let first = self.first_client();
                let client = self.clients[index(id - first)].take().expect("it stayed");
                self.vanished.push(client.replica);
                self.present -= 1;
            }
            Cleanup::On => self.change_server(id),
        }
        Ok(())
    }

    fn change_server(&mut self, id: Node) {
        let from = self.client(id).expect("it stayed").server;
        let server = loop {
            let server = self.choose_server();
            if server != from {
                break server;
            }
        };
        let client = self.client_mut(id).expect("it stayed");
        client.leaving = Some(Leaving::CutOff { from });
        (client.server, client.introduced) = (server, false);
    }

    pub(super) fn leave(&mut self, id: Node) {
        let first = self.first_client();
        self.clients[index(id - first)] = None;
        self.present -= 1;
    }

    // Notices.

    /// A client that has lost its server and has nothing of its own left: asks its new server to keep a notice.
    pub(super) fn send_notice(&mut self, id: Node) -> Result<(), String> {
        let client = self.client_mut(id).expect("it has not left");
        let Some(Leaving::CutOff { from }) = client.leaving else { return Ok(()) };
        let server = client.server;
        let notice = client.replica.retire([from, server]);
        let notice = notice.map_err(|refused| format!("client {id}: {refused}"))?.clone();
        self.post(id, server, Text::Keep(notice));
        Ok(())
    }

    /// A server delivers the tokens that it cached, and the notices that it keeps.
    pub(super) fn pass_on(&mut self, node: Node) {
        let handshake = self.fixed[index(node)].replica.handshake();
        let cached_for: BTreeSet<Node> = handshake.cached().map(|token| token.target).collect();
        let pending = |(notice, servers): (&Notice<u32, u64>, &BTreeSet<u32>)| {
            let notice = notice.clone();
            servers.iter().map(move |&server| (server, notice.clone())).collect::<Vec<_>>()
        };
        let notices: Vec<(Node, Notice<u32, u64>)> = handshake.notices().flat_map(pending).collect();
        for to in cached_for {
            let view = self.fixed[index(node)].replica.view_for(&to, 1);
            self.send_fixed(to, view);
        }
        for (to, notice) in notices {
            self.post(node, to, Text::Pass(notice));
        }
    }

    fn post(&mut self, from: Node, to: Node, text: Text) {
        let letter = Event::Letter(Box::new(Letter { from, to, text }));
        self.network.send(&mut self.queue, from, to, letter);
    }

    pub(super) fn read(&mut self, letter: &Letter) {
        let &Letter { from, to, ref text } = letter;
        match text {
            Text::Keep(notice) => {
                if self.fixed[index(to)].replica.keep_notice(notice) {
                    self.post(to, from, Text::Kept);
                }
            }
            Text::Kept => {
                if self.client(to).is_some() {
                    self.leave(to);
                }
            }
            Text::Pass(notice) => {
                let done = self.fixed[index(to)].replica.act_on_notice(notice);
                self.post(to, from, Text::Done(done));
            }
            Text::Done(all) => {
                let keeper = &mut self.fixed[index(to)].replica;
                all.iter().for_each(|done| keeper.notice_done(done));
            }
        }
    }

    // Folding.

    pub(super) fn note_heard(&mut self, message: &Message) {
        let from = *message.view.id();
        if self.cleanup() == Some(Cleanup::Fold) && self.is_client(from) {
            let now = self.queue.now();
            self.fixed[index(message.to)].heard.insert(from, now);
        }
    }

    /// Folds the slots of clients that have been silent for long, and forgets them.
    pub(super) fn fold_silent(&mut self, node: Node) {
        let Some(retirement) = self.setup.retirement else { return };
        if retirement.cleanup != Cleanup::Fold {
            return;
        }
        let now = self.queue.now();
        let fixed = &mut self.fixed[index(node)];
        fixed.heard.retain(|client, &mut heard| {
            let silent = now - heard >= retirement.fold_after_ms;
            if silent {
                fixed.replica.fold(client);
            }
            !silent
        });
    }
}
