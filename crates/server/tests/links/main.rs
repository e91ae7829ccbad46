//! A real server and peers made of raw sockets: whom it talks to, what it refuses, and that one bad peer is nobody else's
//! trouble.

mod branches;
mod bytes;
mod check;
mod conversation;
mod hostile;
mod refusals;
mod relays;
mod strangers;
mod support;
mod two_links;
mod vectors;
