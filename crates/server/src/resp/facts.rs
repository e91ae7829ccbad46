//! What the commands about the connection need to know from outside of it.

use super::{Endpoint, Mode, Protocol, SlotMap};

/// The user that a connection has before it names another one.
pub const DEFAULT_USER: &str = "default";

/// The server, as its connections see it. Calls must not block: they are made between two commands of a client.
pub trait ServerFacts {
    /// The version of this server.
    fn version(&self) -> &str;
    /// Must a client authenticate before it may do anything?
    fn password_required(&self) -> bool;
    /// May this user come in with this password? Where no password is required, [`DEFAULT_USER`] may with any.
    fn authenticate(&self, user: &[u8], password: &[u8]) -> bool;
    /// What `CONFIG GET` shows. `redis-benchmark` asks for `save` and `appendonly`.
    fn settings(&self) -> Vec<Setting>;
    /// All that are connected, for `CLIENT LIST`.
    fn clients(&self) -> Vec<ClientFacts>;
    /// One that is connected, for `CLIENT INFO`.
    fn client(&self, id: u64) -> Option<ClientFacts> {
        self.clients().into_iter().find(|client| client.id == id)
    }
    /// What `INFO` says in these sections (in lower case, as sent); without any, in those that everybody wants. A
    /// section that there is not says nothing.
    fn info(&self, sections: &[&str], mode: Mode) -> String;
    /// `CONFIG RESETSTAT`: what `INFO` counts begins again at zero.
    fn reset_statistics(&self);
    /// Who has which hash slots. Asked by connections in [`Mode::Cluster`] alone.
    fn slot_map(&self) -> SlotMap;
    /// Where clients of a cluster should go for this hash slot; `None`: nowhere else, its commands are taken here.
    fn redirect(&self, slot: u16) -> Option<Endpoint>;
}

/// A setting and its value, as in the configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its name, in lower case.
    pub name: &'static str,
    /// Its value.
    pub value: String,
}

/// One connection, as the server sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFacts {
    /// Its number; never used twice while the server runs.
    pub id: u64,
    /// Where it comes from.
    pub address: String,
    /// Where it arrived.
    pub local_address: String,
    /// How long it has been there.
    pub age_seconds: u64,
    /// How long it has said nothing.
    pub idle_seconds: u64,
    /// What it says of itself ([`Session::identity`](super::Session::identity)).
    pub identity: Identity,
}

/// What a client says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The user it has authenticated as.
    pub user: String,
    /// The name it gave itself; may be empty.
    pub name: String,
    /// The library it uses; may be empty.
    pub library_name: String,
    /// That library's version; may be empty.
    pub library_version: String,
    /// The version of the protocol it speaks.
    pub protocol: Protocol,
}

impl Default for Identity {
    fn default() -> Self {
        Self {
            user: DEFAULT_USER.to_owned(),
            name: String::new(),
            library_name: String::new(),
            library_version: String::new(),
            protocol: Protocol::Resp2,
        }
    }
}
