//! What a way of counting with transient clients has to do, so that all of them run on the same workload.

use crate::core::{Millis, Node};

/// What is to be sent, and to whom.
pub(super) type Outbox<M> = Vec<(Node, M)>;

/// A message that has arrived.
#[derive(Debug)]
pub(super) struct Heard<'a, M> {
    pub(super) from: Node,
    pub(super) from_client: bool,
    pub(super) message: &'a M,
    pub(super) now: Millis,
}

/// What a permanent node keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Kept {
    /// Everything that is kept for a node or a client, the nodes' own counts included.
    pub(super) entries: u64,
    /// Slots of which only a bit is left.
    pub(super) folded: u64,
    /// The whole replica as it is stored.
    pub(super) bytes: u64,
}

/// What is known of a client from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Fate {
    /// What it counted.
    pub(super) counted: u64,
    /// The most that one of its messages brought to a node, by [`Design::brings`].
    pub(super) brought: u64,
}

/// A way of counting. An error is a violation of what it promises.
pub(super) trait Design {
    /// A permanent node.
    type Server;
    /// A transient one.
    type Client;
    /// What they send.
    type Message: Clone;

    fn server(&self, id: Node) -> Result<Self::Server, String>;
    fn client(&self, id: Node, server: Node) -> Self::Client;

    /// The client counts one.
    fn count(&self, client: &mut Self::Client) -> Result<(), String>;
    /// Can it count, or has it to wait for something first?
    fn can_count(&self, client: &Self::Client) -> bool;
    /// It does not hear from its server and goes on with this one.
    fn change_server(&self, client: &mut Self::Client, server: Node);
    /// It will count no more.
    fn begin_to_leave(&self, client: &mut Self::Client);
    /// Does it know that permanent nodes have all that it counted?
    fn is_held(&self, client: &Self::Client) -> bool;
    /// May it disappear?
    fn may_leave(&self, client: &Self::Client) -> bool;
    /// It is the client's turn to send.
    fn client_turn(&self, client: &mut Self::Client, out: &mut Outbox<Self::Message>) -> Result<(), String>;
    /// True if the client has something to say now that it could not say before.
    fn client_hears(
        &self,
        client: &mut Self::Client,
        heard: &Heard<'_, Self::Message>,
    ) -> Result<bool, String>;
    /// What the client takes for the value, if it has an idea of it.
    fn client_reports(&self, client: &Self::Client) -> Option<u64>;

    /// It is the server's turn to send to all the others, which are named.
    fn server_turn(
        &self,
        server: &mut Self::Server,
        others: &[Node],
        now: Millis,
        out: &mut Outbox<Self::Message>,
    );
    fn server_hears(
        &self,
        server: &mut Self::Server,
        heard: &Heard<'_, Self::Message>,
        out: &mut Outbox<Self::Message>,
    ) -> Result<(), String>;
    fn server_reports(&self, server: &Self::Server) -> u64;
    fn kept(&self, server: &Self::Server) -> Kept;

    fn size(&self, message: &Self::Message) -> u64;
    /// How much of what its sender has counted is with the receiver for good once it has this message.
    fn brings(&self, from: Node, message: &Self::Message) -> u64;
    /// What of the counts of a client that vanished nobody else has.
    fn lost(&self, client: &Self::Client, fate: Fate, servers: &[Self::Server]) -> u64;
}
