//! Handoff as a [`Design`]: permanent nodes are of tier 0, clients of tier 1 and hand over to any of them.

use super::design::{Design, Fate, Heard, Kept, Outbox};
use crate::core::{Millis, Node};
use quipu_crdt::codec::encode;
use quipu_crdt::handoff::{Handoff, Notice, NoticeDone, View};
use std::collections::{BTreeMap, BTreeSet};

/// Handoff with folding.
#[derive(Debug, Clone, Copy)]
pub(super) struct Handing {
    /// A slot is folded when its client has been silent for so long.
    pub(super) fold_after_ms: Millis,
    /// When a client that used one server takes itself for done. Tests put in wrong ones.
    pub(super) is_done: fn(&Replica) -> bool,
}

type Replica = Handoff<u32, u64>;

#[derive(Debug)]
pub(super) struct Server {
    replica: Replica,
    /// When each client was heard last, for as long as it may have a slot here.
    heard: BTreeMap<Node, Millis>,
}

#[derive(Debug)]
pub(super) struct Client {
    replica: Replica,
    server: Node,
    /// All servers it has used, each of which may hold a slot for it.
    used: BTreeSet<Node>,
    leaving: Leaving,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaving {
    No,
    Yes,
    /// A server keeps its notice.
    Noted,
}

#[derive(Debug, Clone)]
pub(super) enum Message {
    View(View<u32, u64>),
    /// From a client that used several servers: keep this until all have acted on it.
    Keep(Notice<u32, u64>),
    /// The answer: the client may go.
    Kept,
    /// From the server that keeps a notice to those that it names.
    Pass(Notice<u32, u64>),
    /// The answer.
    Done(Vec<NoticeDone<u32>>),
}

impl Handing {
    pub(super) fn new(fold_after_ms: Millis) -> Self {
        Handing { fold_after_ms, is_done: |replica| !replica.must_hand_off() }
    }
}

impl Design for Handing {
    type Server = Server;
    type Client = Client;
    type Message = Message;

    fn server(&self, id: Node) -> Result<Server, String> {
        Ok(Server { replica: Replica::new(id, 0), heard: BTreeMap::new() })
    }

    fn client(&self, id: Node, server: Node) -> Client {
        Client { replica: Replica::new(id, 1), server, used: BTreeSet::from([server]), leaving: Leaving::No }
    }

    fn count(&self, client: &mut Client) -> Result<(), String> {
        client.replica.add(&1).map_err(|refused| format!("client {}: {refused}", client.replica.id()))
    }

    fn can_count(&self, _: &Client) -> bool {
        true
    }

    fn change_server(&self, client: &mut Client, server: Node) {
        client.server = server;
        client.used.insert(server);
    }

    fn begin_to_leave(&self, client: &mut Client) {
        client.leaving = Leaving::Yes;
    }

    fn is_held(&self, client: &Client) -> bool {
        self.may_leave(client)
    }

    fn may_leave(&self, client: &Client) -> bool {
        match client.leaving {
            Leaving::No => false,
            Leaving::Yes => client.used.len() == 1 && (self.is_done)(&client.replica),
            Leaving::Noted => true,
        }
    }

    fn client_turn(&self, client: &mut Client, out: &mut Outbox<Message>) -> Result<(), String> {
        let Client { replica, server, used, leaving } = client;
        if *leaving == Leaving::Yes && used.len() > 1 && *replica.own() == 0 {
            let id = *replica.id();
            let notice = replica.retire(used.iter().copied());
            let notice = notice.map_err(|refused| format!("client {id}: {refused}"))?;
            out.push((*server, Message::Keep(notice.clone())));
            return Ok(());
        }
        out.push((*server, Message::View(replica.view_for(server, 0))));
        for token in replica.handshake().tokens().iter().filter(|token| token.target != *server) {
            out.push((token.target, Message::View(replica.cleaning_view(&token.target, 0))));
        }
        Ok(())
    }

    fn client_hears(&self, client: &mut Client, heard: &Heard<'_, Message>) -> Result<bool, String> {
        match heard.message {
            Message::View(view) => {
                let Client { replica, leaving, .. } = client;
                let open = |replica: &Replica| (*replica.own(), replica.handshake().tokens().len());
                let before = open(replica);
                merge(replica, view)?;
                Ok(*leaving == Leaving::Yes && open(replica) != before)
            }
            Message::Kept => {
                client.leaving = Leaving::Noted;
                Ok(false)
            }
            Message::Keep(_) | Message::Pass(_) | Message::Done(_) => Err("sent to a client".to_owned()),
        }
    }

    fn client_reports(&self, client: &Client) -> Option<u64> {
        Some(*client.replica.fetch())
    }

    fn server_turn(&self, server: &mut Server, others: &[Node], now: Millis, out: &mut Outbox<Message>) {
        let Server { replica, heard } = server;
        heard.retain(|client, last| {
            let silent = now - *last >= self.fold_after_ms;
            if silent {
                replica.fold(client);
            }
            !silent
        });
        out.extend(others.iter().map(|other| (*other, Message::View(replica.view_for(other, 0)))));
        for (notice, pending) in replica.handshake().notices() {
            out.extend(pending.iter().map(|other| (*other, Message::Pass(notice.clone()))));
        }
    }

    fn server_hears(
        &self,
        server: &mut Server,
        heard: &Heard<'_, Message>,
        out: &mut Outbox<Message>,
    ) -> Result<(), String> {
        let Server { replica, heard: last_heard } = server;
        match heard.message {
            Message::View(view) => {
                merge(replica, view)?;
                if heard.from_client {
                    last_heard.insert(heard.from, heard.now);
                }
                // Another server is answered only where that closes something.
                if heard.from_client || view.tokens().iter().any(|token| token.target == *replica.id()) {
                    out.push((heard.from, Message::View(replica.reply_to(view))));
                }
            }
            Message::Keep(notice) => {
                if replica.keep_notice(notice) {
                    out.push((heard.from, Message::Kept));
                }
            }
            Message::Pass(notice) => {
                out.push((heard.from, Message::Done(replica.act_on_notice(notice))));
            }
            Message::Done(all) => all.iter().for_each(|done| replica.notice_done(done)),
            Message::Kept => return Err("sent to a server".to_owned()),
        }
        Ok(())
    }

    fn server_reports(&self, server: &Server) -> u64 {
        *server.replica.fetch()
    }

    fn kept(&self, server: &Server) -> Kept {
        let handshake = server.replica.handshake();
        let permanent = 1 + server.replica.others().count();
        let for_others = handshake.cached().count() + handshake.notices().count();
        Kept {
            entries: (permanent + handshake.desk().slots().len() + for_others) as u64,
            folded: handshake.desk().folded_len(),
            bytes: encode(&server.replica).len() as u64,
        }
    }

    fn size(&self, message: &Message) -> u64 {
        let size = match message {
            Message::View(view) => encode(view).len(),
            Message::Keep(notice) | Message::Pass(notice) => encode(notice).len(),
            Message::Kept => 1,
            Message::Done(done) => encode(done).len(),
        };
        size as u64
    }

    fn brings(&self, _: Node, _: &Message) -> u64 {
        0 // A token may find no slot; what became of it is asked of its target.
    }

    fn lost(&self, client: &Client, _: Fate, servers: &[Server]) -> u64 {
        let is_open = |target: Node, source: &Node, target_clock| {
            let desk = usize::try_from(target).ok().and_then(|target| servers.get(target));
            desk.is_some_and(|server| server.replica.handshake().desk().is_open(source, target_clock))
        };
        let tokens = client.replica.handshake().tokens().iter();
        let open = tokens.filter(|token| is_open(token.target, &token.source, token.slot.target_clock));
        client.replica.own() + open.map(|token| token.value).sum::<u64>()
    }
}

fn merge(replica: &mut Replica, view: &View<u32, u64>) -> Result<(), String> {
    replica.merge(view).map_err(|refused| format!("node {}: {refused}", replica.id()))
}
