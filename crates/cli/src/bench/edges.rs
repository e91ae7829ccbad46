//! `quipu bench edges`: very many edges that come, count, hand over and go, against one real server.
//!
//! An edge here is what it is everywhere, a shard that hands over, in memory and without a thread of its own, so that a
//! million of them fit into some minutes.

mod args;
mod edge;
mod server;

pub(crate) use args::Args;

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use self::edge::Edge;
use self::server::{Server, Standing};
use crate::commands::sim::output::print;
use crate::commands::sim::progress;
use crate::failure::Failure;
use crate::interrupt;

/// How often the progress is shown.
const SHOW_EVERY: Duration = Duration::from_millis(200);

/// What all edges together have done.
#[derive(Debug, Clone, Copy, Default)]
struct Done {
    requests: u64,
    sent_bytes: u64,
    received_bytes: u64,
}

impl Done {
    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let _ = interrupt::flag();
    let folder = args.folder()?;
    let mut server = Server::start(folder.path())?;
    // Some edges before the first look: what a server has of its first edges it keeps.
    lives(args, &server, 0, args.warm(), false)?;
    let before = server.standing()?;
    let begun = Instant::now();
    let done = lives(args, &server, args.warm(), args.edges, args.vanish)?;
    let seconds = begun.elapsed().as_secs_f64();
    let after = server.settled()?;
    let counted = server.counted()?;
    let expected = args.warm() + if args.vanish { 0 } else { args.edges };
    let mut text = report(args, done, seconds, before, after);
    if args.vanish {
        text += &vanished(args, &mut server, before, after)?;
    }
    server.stop()?;
    print(&text)?;
    if counted != expected {
        return Err(Failure::failed(format!(
            "{expected} were handed over, and the server has counted {counted}"
        )));
    }
    Ok(())
}

/// So many edges, the first with this number; each adds 1.
fn lives(args: &Args, server: &Server, first: u64, count: u64, vanish: bool) -> Result<Done, Failure> {
    let (next, ended) = (AtomicU64::new(first), AtomicU64::new(0));
    let bar = progress::bar(if vanish { "edges that vanish" } else { "edges" });
    let live = || -> Result<Done, Failure> {
        let agent = server.agent()?;
        let mut done = Done::default();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= first + count || interrupt::flag().load(Ordering::Relaxed) {
                return Ok(done);
            }
            let key = format!("edges:{}", number % args.keys);
            let mut edge = Edge::new(args.seed, number);
            edge.add(key.as_bytes());
            done.add(if vanish { edge.visit(&agent)? } else { edge.hand_over(&agent)? });
            ended.fetch_add(1, Ordering::Relaxed);
        }
    };
    let done = thread::scope(|scope| {
        let lives: Vec<_> = (0..args.clients).map(|_| scope.spawn(live)).collect();
        while lives.iter().any(|life| !life.is_finished()) {
            thread::sleep(SHOW_EVERY);
            progress::show(&bar, ended.load(Ordering::Relaxed) as f64 / count.max(1) as f64);
        }
        let mut all = Done::default();
        for life in lives {
            all.add(life.join().map_err(|_| Failure::failed("a thread has panicked"))??);
        }
        Ok::<_, Failure>(all)
    });
    bar.finish_and_clear();
    let done = done?;
    if interrupt::flag().load(Ordering::Relaxed) { Err(Failure::Interrupted) } else { Ok(done) }
}

fn report(args: &Args, done: Done, seconds: f64, before: Standing, after: Standing) -> String {
    let edges = args.edges as f64;
    let what =
        if args.vanish { "edges that got a slot and vanished" } else { "edges that handed over and retired" };
    let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
    format!(
        "{} {what}, {} at a time\n\
         per second                 {:.0}\n\
         requests for each          {:.2}\n\
         bytes sent for each        {:.0}\n\
         bytes received for each    {:.0}\n\
         server's memory before     {:.1} MiB\n\
         server's memory after      {:.1} MiB ({:+.1} bytes for each)\n\
         slots, folded, tokens      {} {} {}\n",
        args.edges,
        args.clients,
        edges / seconds,
        done.requests as f64 / edges,
        done.sent_bytes as f64 / edges,
        done.received_bytes as f64 / edges,
        mib(before.resident_bytes),
        mib(after.resident_bytes),
        (after.resident_bytes as f64 - before.resident_bytes as f64) / edges,
        after.slots,
        after.folded,
        after.tokens,
    )
}

/// Starts the server again so that it folds slots at once, and says what is left of each edge.
fn vanished(args: &Args, server: &mut Server, before: Standing, open: Standing) -> Result<String, Failure> {
    server.restart_with_ttl("1s")?;
    let folded = server.folded(open.slots)?;
    let edges = open.slots.max(1) as f64;
    Ok(format!(
        "an open slot               {:.1} bytes of memory\n\
         a folded slot              {:.3} bytes of memory\n",
        (open.resident_bytes as f64 - before.resident_bytes as f64) / args.edges as f64,
        folded.folded_bytes as f64 / edges,
    ))
}
