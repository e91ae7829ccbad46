//! The edge as programs use it: values, watches, threads, futures.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use quipu_edge::Edge;

use crate::{LONG, in_memory, network::wait_for, options, site};

#[test]
fn values_are_what_servers_told_and_what_was_counted_since() {
    let site = site();
    site.add("hits", 10);
    let edge = in_memory(&[&site]);
    edge.add("hits", 2).unwrap();
    let here = edge.value("hits").unwrap();
    assert_eq!((here.value, here.heard), (2, None), "nobody has told");
    edge.sync().unwrap();
    let told = edge.value("hits").unwrap();
    assert_eq!(told.value, 12);
    assert!(told.heard.is_some_and(|ago| ago < LONG));
    edge.subtract("hits", 5).unwrap();
    assert_eq!(edge.value("hits").unwrap().value, 7);
    edge.flush(LONG).unwrap();
    assert_eq!((edge.value("hits").unwrap().value, site.value("hits")), (7, 7));
    site.add("hits", 100);
    edge.sync().unwrap();
    assert_eq!(edge.value("hits").unwrap().value, 107);
    assert_eq!(edge.value("nothing").unwrap().value, 0);
}

#[test]
fn a_watch_shows_the_last_value_and_ends_with_the_edge() {
    let site = site();
    site.add("hits", 10);
    let edge = Edge::options().sync_every(Duration::from_millis(10)).in_memory([site.url()]).unwrap();
    let mut watch = edge.watch("hits").unwrap();
    assert_eq!(watch.next(LONG).unwrap().value, 0);
    assert_eq!(watch.next(LONG).unwrap().value, 10, "a server has told");
    edge.add("hits", 1).unwrap();
    assert_eq!(watch.next(LONG).unwrap().value, 11);
    site.add("hits", 5);
    assert_eq!(watch.next(LONG).unwrap().value, 16);
    assert_eq!(watch.next(Duration::from_millis(50)), None, "nothing has changed");
    for _ in 0..100 {
        edge.add("hits", 1).unwrap();
    }
    let mut last = 0;
    while let Some(reading) = watch.next(Duration::from_millis(300)) {
        assert!(reading.value > last);
        last = reading.value;
    }
    assert_eq!(last, 116);
    edge.retire(LONG).unwrap();
    assert_eq!(watch.next(LONG), None, "at once");
}

#[test]
fn who_reads_no_more_asks_no_more() {
    let site = site();
    let edge = Edge::options().sync_every(Duration::from_millis(10)).in_memory([site.url()]).unwrap();
    let watch = edge.watch("hits").unwrap();
    wait_for(|| site.requests() > 3);
    assert_eq!(edge.status().unwrap().asks, 1);
    drop(watch);
    // It is asked for a minute more, as after reading it.
    assert_eq!(edge.status().unwrap().asks, 1);
}

/// Servers are asked for so many counters at once, besides those that are watched.
const ASKED_MAX: usize = 16 * 1024;

#[test]
fn an_edge_forgets_the_counter_that_was_read_longest_ago() {
    let site = site();
    site.add("aaa", 10);
    site.add("aab", 20);
    let edge = in_memory(&[&site]);
    edge.value("aaa").unwrap();
    let mut watch = edge.watch("aab").unwrap();
    edge.sync().unwrap();
    assert_eq!(edge.value("aaa").unwrap().value, 10);
    for round in 0..2 {
        for number in 1..ASKED_MAX {
            edge.value(format!("key-{round}-{number}")).unwrap();
        }
        let here = edge.value("aaa").unwrap();
        assert!(here.value == 10 && here.heard.is_some(), "it is among the last that were read: {here:?}");
    }
    assert_eq!(edge.status().unwrap().asks, ASKED_MAX + 1);
    site.add("aab", 1);
    let mut last = None;
    // Many are asked for, in turn.
    for _ in 0..40 {
        edge.sync().unwrap();
        last = watch.next(Duration::from_millis(1)).or(last);
    }
    assert_eq!(last.map(|reading| reading.value), Some(21), "it is watched");
}

#[test]
fn threads_share_an_edge() {
    let site = site();
    let folder = tempfile::tempdir().unwrap();
    let edge = Edge::options().sync_every(Duration::from_millis(5));
    let edge = edge.open(folder.path().join("state"), [site.url()]).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let edge = &edge;
            scope.spawn(move || {
                for n in 0..100 {
                    edge.add(format!("key-{}", (thread + n) % 5), 1).unwrap();
                }
            });
        }
    });
    edge.flush(LONG).unwrap();
    let sum: i64 = (0..5).map(|key| site.value(format!("key-{key}"))).sum();
    assert_eq!(sum, 800);
}

#[test]
fn what_is_counted_while_it_retires_is_handed_over_or_refused() {
    for round in 0..20 {
        let site = site();
        let edge = Edge::options().sync_every(Duration::from_millis(1));
        let edge = edge.in_memory([site.url()]).unwrap();
        let counted = std::thread::scope(|scope| {
            let adding = scope.spawn(|| (0..).take_while(|_| edge.add("hits", 1).is_ok()).count());
            std::thread::sleep(Duration::from_millis(round / 2));
            edge.retire(LONG).unwrap();
            adding.join().unwrap()
        });
        assert_eq!(site.value("hits"), i64::try_from(counted).unwrap());
    }
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// An executor, the smallest.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn futures_run_in_any_executor() {
    let site = site();
    let edge = options().in_memory([site.url()]).unwrap().asynchronous();
    block_on(async {
        edge.add("hits", 3).await.unwrap();
        edge.subtract("hits", 1).await.unwrap();
        assert_eq!(edge.value("hits").await.unwrap().value, 2);
        let mut watch = edge.watch("hits").await.unwrap();
        assert_eq!(watch.changed().await.unwrap().value, 2);
        edge.sync().await.unwrap();
        edge.flush(LONG).await.unwrap();
        assert_eq!(edge.status().await.unwrap().waiting, 0);
        edge.use_server(&site.url()).await.unwrap();
        assert!(edge.use_server("nonsense").await.is_err());
        edge.add("hits", 1).await.unwrap();
        assert_eq!(watch.changed().await.unwrap().value, 3);
        edge.retire(LONG).await.unwrap();
        assert!(edge.add("hits", 1).await.is_err());
        assert!(edge.flush(LONG).await.is_err());
    });
    assert_eq!(site.value("hits"), 3);
}
