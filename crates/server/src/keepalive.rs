//! Clients that vanish without a word (a cable, a router that forgot) would keep their place for ever. After some
//! silence the system asks whether they are there, and closes the connection if nobody answers.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use rustix::net::sockopt;

/// So many questions without an answer, a third of the silence apart, and the client counts as gone.
const QUESTIONS: u32 = 3;

/// From now on a silent client is asked after this time, and given up after twice as long. `None`: never.
pub(crate) fn keep_alive(socket: impl AsFd, silence: Option<Duration>) {
    if let Some(silence) = silence
        && let Err(error) = set(socket.as_fd(), silence)
    {
        // It is served all the same.
        tracing::debug!(%error, "a client is not asked whether it is still there");
    }
}

fn set(socket: BorrowedFd<'_>, silence: Duration) -> io::Result<()> {
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, silence)?;
    let apart_seconds = (silence.as_secs() / u64::from(QUESTIONS)).max(1);
    sockopt::set_tcp_keepintvl(socket, Duration::from_secs(apart_seconds))?;
    sockopt::set_tcp_keepcnt(socket, QUESTIONS)?;
    Ok(())
}
