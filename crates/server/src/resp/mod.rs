//! The Redis protocol (RESP 2 and 3) without sockets and without counters: bytes in, typed requests out.
//!
//! ```text
//! bytes ──Parser──▶ Arguments ──Session──▶ Step::Run(Request)      to the shard that holds the key
//!                                  └─────▶ bytes of a reply        everything about the connection itself
//! ```
//!
//! [`Parser`] finds commands in a receive buffer. [`Session`] is one connection: who is at the other end, which
//! version of the protocol it speaks, and the commands it has queued after `MULTI`. [`Reply`] writes answers.
//! The grammar of each command is in a small file of its own under `commands`.
//!
//! ```
//! use quipu_server::resp::{Parsed, Parser, Protocol, Reply, Request, ServerFacts, Session, Step};
//! # use quipu_server::resp::{ClientFacts, ClusterNode, Endpoint, Mode, Setting, SlotMap};
//! # struct Server;
//! # impl ServerFacts for Server {
//! #     fn version(&self) -> &str { "0.1.0" }
//! #     fn password_required(&self) -> bool { false }
//! #     fn authenticate(&self, _user: &[u8], _password: &[u8]) -> bool { true }
//! #     fn settings(&self) -> Vec<Setting> { Vec::new() }
//! #     fn clients(&self) -> Vec<ClientFacts> { Vec::new() }
//! #     fn info(&self, _sections: &[&str], _mode: Mode) -> String { String::new() }
//! #     fn slot_map(&self) -> SlotMap {
//! #         let endpoint = Endpoint { host: "127.0.0.1".to_owned(), port: 7379 };
//! #         SlotMap { own: ClusterNode::new(1, endpoint), others: Vec::new() }
//! #     }
//! #     fn redirect(&self, _slot: u16) -> Option<Endpoint> { None }
//! #     fn reset_statistics(&self) {}
//! # }
//! # let server = Server;
//! let (mut parser, mut session, mut out) = (Parser::new(), Session::new(1, &server), Vec::new());
//! let received = b"*2\r\n$4\r\nINCR\r\n$4\r\nhits\r\nPING\r\n";
//! let mut at = 0;
//! while let Parsed::Command { arguments, consumed } = parser.parse(&received[at..], session.peer())? {
//!     match session.step(arguments, &mut out, &server) {
//!         Step::Run(Request::Add { key: b"hits", amount, .. }) => {
//!             Reply::new(&mut out, session.protocol()).integer(amount); // the engine's answer
//!         }
//!         Step::Replied => {}
//!         other => panic!("{other:?}"),
//!     }
//!     at += consumed;
//! }
//! assert_eq!(out, b":1\r\n+PONG\r\n");
//! # Ok::<(), quipu_server::resp::ProtocolError>(())
//! ```

mod arguments;
mod cluster;
mod commands;
mod error;
mod facts;
pub mod glob;
mod inline;
pub mod integer;
mod limits;
mod reply;
mod request;
mod session;
mod transaction;
mod wire;

pub use arguments::{Arguments, OwnedArguments};
pub use cluster::{ClusterNode, Endpoint, Mode, SLOTS, SlotMap, slot_of};
pub use error::{ProtocolError, RequestError};
pub use facts::{ClientFacts, DEFAULT_USER, Identity, ServerFacts, Setting};
pub use limits::*;
pub use quipu_engine::OperationId;
pub use reply::{Protocol, Reply};
pub use request::{Excess, Keys, Request, SpreadWord, read_shares};
pub use session::{Session, Step};
pub use transaction::{OwnedRequest, Queued};
pub use wire::{Parsed, Parser, Peer};
