//! The Borrow-Counter as a [`Design`]: permanent nodes lend an identity to each client and take over what was counted
//! under it.
//!
//! A client that has no identity asks its server for one, and what it counts until then waits. When it has let go of its
//! identity, it may leave once that is gone, which only the lender can bring about.

use super::design::{Design, Fate, Heard, Kept, Outbox};
use crate::core::{Millis, Node};
use quipu_crdt::borrow::Account;
use quipu_crdt::causal::{Causal, CausalContext, Dot, DotFun, DotMap};
use quipu_crdt::codec::encode;
use quipu_crdt::{Borrow, BorrowState};

/// What clients and servers send each other. Servers among themselves always send whole states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Messages {
    /// Whole states, as in the paper.
    Whole,
    /// Only what is about the client. That is safe because a client's account contains nothing of others: nobody transfers
    /// to it. The client then does not know the value of the counter.
    OwnPart,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Lending {
    pub(super) messages: Messages,
    /// When a client that has let go of its identity takes itself for done. Tests put in wrong ones.
    pub(super) is_done: fn(&Replica) -> bool,
}

type Replica = Borrow<u32, u64>;
type State = BorrowState<u32, u64>;

#[derive(Debug)]
pub(super) struct Client {
    replica: Replica,
    server: Node,
    /// Counted before there was an identity to count under.
    waiting: u64,
    leaving: bool,
    held: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Message {
    /// From a client: lend me an identity.
    wants_identity: bool,
    state: State,
}

impl Lending {
    pub(super) fn new(messages: Messages) -> Self {
        Lending { messages, is_done: Replica::is_settled }
    }

    /// What a server sends to a client.
    fn state_for(&self, client: Node, server: &Replica, asked: &State) -> State {
        match self.messages {
            Messages::Whole => server.state().clone(),
            Messages::OwnPart => part_about(client, server.state(), asked),
        }
    }
}

impl Design for Lending {
    type Server = Replica;
    type Client = Client;
    type Message = Message;

    fn server(&self, id: Node) -> Result<Replica, String> {
        let mut server = Replica::new(id);
        server.create(&id).map_err(|refused| format!("node {id}: {refused}"))?;
        Ok(server)
    }

    fn client(&self, id: Node, server: Node) -> Client {
        Client { replica: Replica::new(id), server, waiting: 0, leaving: false, held: false }
    }

    fn count(&self, client: &mut Client) -> Result<(), String> {
        client.waiting += 1;
        count_what_waits(client)
    }

    fn can_count(&self, client: &Client) -> bool {
        has_identity(&client.replica)
    }

    fn change_server(&self, client: &mut Client, server: Node) {
        client.server = server;
    }

    fn begin_to_leave(&self, client: &mut Client) {
        client.leaving = true;
        let_go(client);
    }

    fn is_held(&self, client: &Client) -> bool {
        client.held || self.may_leave(client)
    }

    fn may_leave(&self, client: &Client) -> bool {
        client.leaving && client.waiting == 0 && (self.is_done)(&client.replica)
    }

    fn client_turn(&self, client: &mut Client, out: &mut Outbox<Message>) -> Result<(), String> {
        let Client { replica, server, waiting, leaving, .. } = client;
        let wants_identity = !has_identity(replica) && (!*leaving || *waiting > 0);
        let state = match self.messages {
            Messages::Whole => replica.state().clone(),
            Messages::OwnPart => part_about(*replica.id(), replica.state(), replica.state()),
        };
        out.push((*server, Message { wants_identity, state }));
        Ok(())
    }

    fn client_hears(&self, client: &mut Client, heard: &Heard<'_, Message>) -> Result<bool, String> {
        let state = &heard.message.state;
        client.held |= client.leaving && client.waiting == 0 && holds_all_of(&client.replica, state);
        let had_identity = has_identity(&client.replica);
        merge(&mut client.replica, state)?;
        let news = !had_identity && has_identity(&client.replica);
        count_what_waits(client)?;
        let_go(client);
        Ok(news)
    }

    fn client_reports(&self, client: &Client) -> Option<u64> {
        (self.messages == Messages::Whole).then(|| client.replica.value())
    }

    fn server_turn(&self, server: &mut Replica, others: &[Node], _: Millis, out: &mut Outbox<Message>) {
        let message = Message { wants_identity: false, state: server.state().clone() };
        out.extend(others.iter().map(|other| (*other, message.clone())));
    }

    fn server_hears(
        &self,
        server: &mut Replica,
        heard: &Heard<'_, Message>,
        out: &mut Outbox<Message>,
    ) -> Result<(), String> {
        let Message { wants_identity, state } = heard.message;
        let from = heard.from;
        merge(server, state)?;
        let id = *server.id();
        if *wants_identity && !has_lent_to(server, from) {
            server.create(&from).map_err(|refused| format!("node {id}: {refused}"))?;
        }
        let due: Vec<Node> = server.transferable().copied().collect();
        for client in due {
            server.transfer(&client).map_err(|refused| format!("node {id}: {refused}"))?;
        }
        if heard.from_client {
            let state = self.state_for(from, server, state);
            out.push((from, Message { wants_identity: false, state }));
        }
        Ok(())
    }

    fn server_reports(&self, server: &Replica) -> u64 {
        server.value()
    }

    fn kept(&self, server: &Replica) -> Kept {
        let entries = server.state().store().iter().map(|(_, dots)| dots.iter().count() as u64).sum();
        Kept { entries, folded: 0, bytes: encode(server).len() as u64 }
    }

    fn size(&self, message: &Message) -> u64 {
        1 + encode(&message.state).len() as u64
    }

    fn brings(&self, from: Node, message: &Message) -> u64 {
        accounts_of(from, &message.state).map(|(_, account)| account.amount).sum()
    }

    fn lost(&self, _: &Client, fate: Fate, _: &[Replica]) -> u64 {
        fate.counted.saturating_sub(fate.brought)
    }
}

fn accounts_of(owner: Node, state: &State) -> impl Iterator<Item = (&Dot<u32>, &Account<u64>)> {
    state.store().get(&owner).into_iter().flat_map(DotFun::iter)
}

fn has_identity(client: &Replica) -> bool {
    accounts_of(*client.id(), client.state()).any(|(_, account)| !account.frozen)
}

fn has_lent_to(server: &Replica, client: Node) -> bool {
    let mut accounts = accounts_of(client, server.state());
    accounts.any(|(dot, account)| dot.creator == *server.id() && !account.frozen)
}

/// Everything about one client, in a state that says nothing of anybody else: its accounts, and of the dots that the other
/// side has asked about those that are known, so that it learns what was removed.
fn part_about(client: Node, state: &State, asked: &State) -> State {
    let held = || accounts_of(client, state);
    let known = accounts_of(client, asked).filter(|(dot, _)| state.context().contains(dot));
    let context = CausalContext::from_iter(held().chain(known).map(|(dot, _)| *dot));
    let accounts = DotFun::from_iter(held().map(|(dot, account)| (*dot, *account)));
    Causal::new(DotMap::from_iter([(client, accounts)]), context)
        .expect("the context has all dots of the store")
}

/// Has whoever sent this state everything that the client has counted, and knows that it will not become more?
fn holds_all_of(client: &Replica, theirs: &State) -> bool {
    accounts_of(*client.id(), client.state()).all(|(dot, ours)| {
        let their_account = theirs.store().get(client.id()).and_then(|dots| dots.get(dot));
        ours.frozen && theirs.context().contains(dot) && their_account.is_none_or(|theirs| theirs == ours)
    })
}

fn count_what_waits(client: &mut Client) -> Result<(), String> {
    if client.waiting > 0 && has_identity(&client.replica) {
        let id = *client.replica.id();
        client.replica.add(&client.waiting).map_err(|refused| format!("client {id}: {refused}"))?;
        client.waiting = 0;
    }
    Ok(())
}

/// A client that leaves keeps no identity that it does not need, not even one that arrives late.
fn let_go(client: &mut Client) {
    if client.leaving && client.waiting == 0 {
        client.replica.retire();
    }
}

fn merge(replica: &mut Replica, state: &State) -> Result<(), String> {
    replica.merge(state).map_err(|refused| format!("node {}: {refused}", replica.id()))
}
