//! Connections: accepted, limited in number and in time, and ended.

use std::{future::Future, io, net::TcpListener, pin::pin, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use prometheus_client::metrics::gauge::Gauge;
use tokio::{net::TcpStream, sync::watch, task::JoinSet, time::timeout};

use super::{Counters, HttpLimits, router, stall::Unstalled};
use crate::{auth::Users, keepalive::keep_alive, metrics::Metrics};

/// The longest head of a request.
const HEAD_BYTES_MAX: usize = 32 * 1024;
/// How long requests that run may go on after the order to stop.
const STOP_TIME_MAX: Duration = Duration::from_secs(1);
/// How long to wait before accepting again where no more files may be opened.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// What a client is told that finds no place.
const TOO_MANY: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n\
    content-length: 152\r\nretry-after: 1\r\nconnection: close\r\n\r\n\
    {\"type\":\"urn:quipu:problem:too-many-connections\",\"title\":\"Too many connections\",\"status\":503,\
    \"detail\":\"too many clients are connected; come back later\"}";

/// Answers HTTP clients until `shutdown` is done. For a runtime with one thread.
pub async fn serve_http<C: Counters>(
    listener: TcpListener,
    counters: C,
    users: Users,
    metrics: Metrics,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    serve_http_within(HttpLimits::default(), listener, counters, users, metrics, shutdown).await
}

/// As [`serve_http`], within other limits.
pub async fn serve_http_within<C: Counters>(
    limits: HttpLimits,
    listener: TcpListener,
    counters: C,
    users: Users,
    metrics: Metrics,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let router = router(counters, users, metrics.clone(), limits);
    let (stop, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        // Those that have ended take no place.
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, _)) if connections.len() >= limits.connections => {
                metrics.connections_refused.inc();
                turn_away(&stream);
            }
            Ok((stream, _)) => {
                let place = Place::taken(&metrics.http_connections);
                connections.spawn(converse(stream, limits, router.clone(), stopped.clone(), place));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept an HTTP connection");
                tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
            }
        }
    }
    drop(listener);
    // Fails only if nobody is connected, and then nobody needs to know.
    let _ = stop.send(true);
    let _ = timeout(STOP_TIME_MAX, async { while connections.join_next().await.is_some() {} }).await;
    connections.shutdown().await;
    Ok(())
}

/// Counts a connection as long as it lives, however it ends.
struct Place(Gauge);

impl Place {
    fn taken(connections: &Gauge) -> Self {
        connections.inc();
        Self(connections.clone())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.dec();
    }
}

async fn converse(
    stream: TcpStream,
    limits: HttpLimits,
    router: Router,
    mut stopped: watch::Receiver<bool>,
    _place: Place,
) {
    // Small answers should not wait for more; if that cannot be set, they are only slower.
    let _ = stream.set_nodelay(true);
    keep_alive(&stream, limits.keepalive);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(
            TokioIo::new(Unstalled::new(stream, limits.stall_time)),
            TowerToHyperService::new(router),
        );
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        _ = stopped.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an HTTP connection broke");
    }
}

/// A client that has no place is told so, as far as that needs no waiting.
fn turn_away(stream: &TcpStream) {
    let _ = stream.try_write(TOO_MANY.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_without_a_place_is_whole() {
        let (head, body) = TOO_MANY.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{} bytes", body.len());
        let problem: serde_json::Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(problem["status"], 503);
    }
}
