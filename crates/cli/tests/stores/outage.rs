//! The store goes away for a while and comes back: whoever waits is told in time, nothing that was acknowledged is lost,
//! nothing is counted of which it was said that it was not, and all goes on by itself.

use std::{thread, time::Duration};

use crate::{
    database::{Database, Found},
    harness::{Running, Site, cluster},
    workload::{PLAIN, Report, Told, count_while, sum},
};

/// How long clients wait.
const DEADLINE: Duration = Duration::from_secs(2);
/// So much longer may an answer take on a machine with much else to do, where a request to the store takes up to two
/// seconds until it is given up and the worker can look around.
const SLACK: Duration = Duration::from_secs(4);
/// For so long all is well before and after.
const CALM: Duration = Duration::from_secs(2);
/// Several times as long as clients wait.
const SILENCE: Duration = Duration::from_secs(9);

pub(crate) fn silent_for_a_while(database: Found) {
    let database = database.get();
    let (site, server) = start(&database);
    let report = count_while(server.resp, server.http, || {
        thread::sleep(CALM);
        database.pause();
        thread::sleep(SILENCE);
        database.resume();
        recovers(&server);
    });
    check("paused for a while", &site, server, &report);
}

pub(crate) fn killed_and_started_again(database: Found) {
    let mut database = database.get();
    let (site, server) = start(&database);
    let report = count_while(server.resp, server.http, || {
        thread::sleep(CALM);
        database.kill();
        thread::sleep(DEADLINE * 2);
        database.start_again();
        recovers(&server);
    });
    check("killed and started again", &site, server, &report);
}

fn start(database: &Database) -> (Site, Running) {
    let site = database.site(&format!("--storage-deadline {}s", DEADLINE.as_secs()));
    let server = site.start();
    (site, server)
}

/// Waits until counting goes on, and lets it go on for a while.
fn recovers(server: &Running) {
    let mut client = server.client();
    cluster::wait("counting goes on", || !client.call("INCR recovered").is_error());
    thread::sleep(CALM);
}

fn check(what: &str, site: &Site, server: Running, report: &Report) {
    println!("{what}: {report:?}");
    let said = site.said();
    assert!(said.contains("the store does not answer") && said.contains("the store answers again"), "{said}");
    let Report { with_ids, without, http } = report;
    for told in [with_ids, without, http] {
        let Told { acknowledged, not_stored, in_doubt, slowest } = told;
        assert!(*acknowledged > 0 && not_stored + in_doubt > 0, "it was not disturbed: {told:?}");
        assert!(*slowest < DEADLINE + SLACK, "an answer took {slowest:?}");
    }
    assert!(without.not_stored > 0, "nothing was taken back: {without:?}");
    assert!(with_ids.in_doubt > 0, "no commit was under way: {with_ids:?}");
    let is_exact = |server: &Running| {
        let mut client = server.client();
        assert_eq!(sum(&mut client), with_ids.acknowledged + http.acknowledged, "each id once");
        let plain = client.call(&format!("GET {PLAIN}")).count();
        let possible = without.acknowledged..=without.acknowledged + without.in_doubt;
        assert!(possible.contains(&plain), "{plain} is not within {possible:?}");
        plain
    };
    let plain = is_exact(&server);
    // And the store has it.
    server.kill();
    let server = site.start();
    assert_eq!(is_exact(&server), plain);
    server.stop();
}
