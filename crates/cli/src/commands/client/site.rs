//! `quipu site`: who belongs to the cluster, and changes of it.

use super::{
    say,
    server::{Ask, Server, parse},
};
use crate::failure::Failure;
use serde_json::{Value, json};
use std::{
    thread,
    time::{Duration, Instant},
};
use ureq::http::Method;

/// How often it is asked how far a change is.
const ASK_EVERY: Duration = Duration::from_millis(200);

const EXAMPLES: &str = "\
Examples:
  quipu site list                              who belongs to the cluster, and what an open change waits for
  quipu site add 4@10.0.0.4:7381               then, on the new machine, with an empty folder:
  quipu serve --site 4 --link 10.0.0.4:7381 --join 1@10.0.0.1:7381 --requirepass SECRET
  quipu site remove 3                          site 3 leaves in order: it takes no more writes, the others come to have all
                                               that it has counted, and it is removed
  quipu site stay 3                            it stays, after all
  quipu site remove 3 --dead                   its machine is lost
  quipu site remove 3,4 --dead --heir 2        two at once: nobody waits for them
  quipu site restore 2.1                       after `quipu restore` on a copy of site 2's folder
  quipu site withdraw                          takes back what the site that is asked has proposed

A change is in force when all sites that stay have agreed; the same command again tells how far it is.";

/// Who belongs to the cluster: list, add, remove, restore
#[derive(clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// List the sites: state, link, address, when last heard
    List(ListArgs),
    /// Add a site; it takes writes once it has everything that the others have
    Add {
        /// Its number and where the others reach it: 4@10.0.0.4:7381
        #[arg(value_name = "NUMBER@HOST:PORT")]
        site: String,
        #[command(flatten)]
        common: Common,
    },
    /// Remove sites, in order or because they are lost: what they counted stays counted, and they are refused for ever
    Remove {
        /// Their numbers, apart by commas. All that are lost, at once: nobody waits for those who are removed
        #[arg(value_name = "SITES")]
        sites: String,
        /// Who takes over their rights [default: the lowest member that stays]
        #[arg(long, value_name = "SITE")]
        heir: Option<String>,
        /// They are lost. What they counted and told nobody is lost with them
        #[arg(long)]
        dead: bool,
        /// For how many seconds to wait until they have left
        #[arg(long, value_name = "SECONDS", default_value_t = 60, alias = "wait")]
        deadline: u64,
        #[command(flatten)]
        server: Server,
    },
    /// Let a site take no writes and tell the others all that it has counted; `remove` does that by itself
    Drain {
        /// Which [default: the one that is asked]
        #[arg(value_name = "SITE")]
        site: Option<String>,
        #[command(flatten)]
        common: Common,
    },
    /// Let a site that was to leave take writes again
    Stay {
        /// Which [default: the one that is asked]
        #[arg(value_name = "SITE")]
        site: Option<String>,
        #[command(flatten)]
        common: Common,
    },
    /// Take back the change that the site that is asked has proposed, if it is not in force yet
    Withdraw {
        #[command(flatten)]
        server: Server,
    },
    /// Let a restored folder go on in the place of the site that it is a copy of
    Restore {
        /// The id that `quipu restore` has told, such as 2.1
        #[arg(value_name = "ID")]
        site: String,
        /// Where the others reach it [default: where they reached the old one]
        #[arg(long, value_name = "HOST:PORT")]
        address: Option<String>,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    server: Server,
}

#[derive(clap::Args)]
pub(crate) struct Common {
    /// For how many seconds to wait until the change is in force
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    wait: u64,
    #[command(flatten)]
    server: Server,
}

pub(crate) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::List(args) => list(&args.server),
        Command::Add { site, common } => {
            let wrong = || {
                Failure::failed(format!(
                    "{site:?} is no site to add; give NUMBER@HOST:PORT such as 4@10.0.0.4:7381"
                ))
            };
            let (number, address) = site.split_once('@').ok_or_else(wrong)?;
            let number: u16 = number.parse().map_err(|_| wrong())?;
            let body = json!({ "add": { "site": number, "address": address } });
            common.change(&Method::POST, "/sites", Some(&body))?;
            say(format_args!(
                "site {number} belongs to the cluster; it takes writes once it has joined. Start it, if it does not run, with \
                 an empty folder: quipu serve --site {number} --link ADDR --join N@HOST:PORT"
            ))
        }
        Command::Remove { sites, heir, dead, deadline, server } => {
            let heir = heir.as_ref().map_or_else(String::new, |heir| format!("&heir={heir}"));
            let path = format!("/sites/{sites}?dead={dead}{heir}");
            wait_for(server, &Method::DELETE, &path, None, *deadline)?;
            say(format_args!("removed: {sites}. What was counted there stays counted"))
        }
        Command::Drain { site, common } => {
            let body = json!({ "drain": { "site": site } });
            common.change(&Method::POST, "/sites", Some(&body))?;
            let name = site.as_deref().unwrap_or("N");
            say(format_args!(
                "the others have all that it has counted, and it takes no writes. `quipu site remove {name}` at another site \
                 removes it, `quipu site stay {name}` takes it back"
            ))
        }
        Command::Stay { site, common } => {
            let body = json!({ "stay": { "site": site } });
            common.change(&Method::POST, "/sites", Some(&body))?;
            say("it takes writes")
        }
        Command::Withdraw { server } => {
            let body = json!("withdraw");
            let answer = ask(server, &Method::POST, "/sites", Some(&body))?;
            say(format_args!("done: {}", answer["change"].as_str().unwrap_or_default()))
        }
        Command::Restore { site, address, common } => {
            let body = json!({ "restore": { "site": site, "address": address } });
            common.change(&Method::POST, "/sites", Some(&body))?;
            say(format_args!(
                "site {site} belongs to the cluster in the place of the one before; it takes writes once it has joined"
            ))
        }
    }
}

impl Common {
    fn change(&self, method: &Method, path: &str, body: Option<&Value>) -> Result<(), Failure> {
        wait_for(&self.server, method, path, body, self.wait)
    }
}

fn ask(server: &Server, method: &Method, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
    let (method, path) = (method.clone(), path.to_owned());
    parse(&server.ask(&Ask { method, path, body, id: None, sites_time: Duration::ZERO })?)
}

/// Says what is wanted again and again until it is in force: if a change that goes before came between, it is proposed
/// anew. What it waits for is said whenever that changes.
fn wait_for(
    server: &Server,
    method: &Method,
    path: &str,
    body: Option<&Value>,
    seconds: u64,
) -> Result<(), Failure> {
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut said = Vec::new();
    loop {
        let answer = ask(server, method, path, body)?;
        if answer["status"] == "done" {
            return Ok(());
        }
        let waits = waits_for(&answer);
        if Instant::now() >= until {
            return Err(Failure::failed(too_late(&answer, &waits)));
        }
        if said != waits {
            for line in &waits {
                say(line)?;
            }
            said = waits;
        }
        thread::sleep(ASK_EVERY);
    }
}

/// What a change waits for, for people.
fn waits_for(answer: &Value) -> Vec<String> {
    let draining: Vec<String> = elements(&answer["draining"]).map(what_is_open).collect();
    if !draining.is_empty() {
        return draining;
    }
    let missing = names(&answer["missing"]);
    let what = answer["change"].as_str().unwrap_or_default();
    vec![if missing.is_empty() {
        format!("{what}: under way")
    } else {
        format!("{what}: waits for sites {missing}")
    }]
}

/// What must come to its end before a site can leave.
fn what_is_open(draining: &Value) -> String {
    let number = |it: &Value| it.as_u64().unwrap_or(0);
    let behind = elements(&draining["behind"]).map(|it| {
        format!("site {} lacks up to {} changes", it["site"].as_str().unwrap_or("?"), number(&it["changes"]))
    });
    let mut open: Vec<String> = behind.collect();
    for (name, what) in [
        ("operations", "operations are not settled"),
        ("commands", "commands wait for other sites"),
        ("kept", "tokens or last words of edges and relays have not arrived"),
    ] {
        let count = number(&draining[name]);
        if count > 0 {
            open.push(format!("{count} {what}"));
        }
    }
    let open = if open.is_empty() { "nothing is open".to_owned() } else { open.join(", ") };
    format!("site {} takes no writes: {open}", draining["site"].as_str().unwrap_or("?"))
}

fn too_late(answer: &Value, waits: &[String]) -> String {
    let waits = waits.join("; ");
    match elements(&answer["draining"]).next().and_then(|draining| draining["site"].as_str()) {
        Some(site) => format!(
            "not done in time: {waits}. Site {site} is still a member and takes no writes. The same command goes on; \
             `quipu site stay {site}` lets it take writes again; sites that are lost are removed with --dead"
        ),
        None => format!(
            "not in force yet: {waits}. It goes on by itself when these are reached; the same command tells how far it \
             is, `quipu site withdraw` takes it back. Sites that are lost must be removed together in one `quipu site \
             remove --dead`"
        ),
    }
}

fn elements(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn names(value: &Value) -> String {
    elements(value).filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
}

fn list(server: &Server) -> Result<(), Failure> {
    let ask = Ask::get("/sites".to_owned());
    let text = server.ask(&ask)?;
    if server.json {
        return say(text);
    }
    let cluster = parse(&text)?;
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    say(format_args!(
        "cluster {}, epoch {}, as site {} sees it",
        text(&cluster["cluster"]),
        cluster["epoch"],
        text(&cluster["site"])
    ))?;
    say(format_args!("{:<8} {:<8} {:<6} {:<10} {}", "SITE", "STATE", "LINK", "HEARD", "ADDRESS"))?;
    for site in elements(&cluster["sites"]) {
        let heard = site["heard_seconds"].as_u64().map_or_else(|| "-".to_owned(), |it| format!("{it} s ago"));
        let [id, state, link, address] = ["site", "state", "link", "address"].map(|name| text(&site[name]));
        say(format_args!("{id:<8} {state:<8} {link:<6} {heard:<10} {address}"))?;
        if let (Some(trouble), "down") = (site["trouble"].as_str(), link.as_str()) {
            say(format_args!("         {trouble}"))?;
        }
    }
    for draining in elements(&cluster["draining"]) {
        say(what_is_open(draining))?;
    }
    for why in elements(&cluster["waits_for"]) {
        say(format_args!("site {} joins and waits: {}", text(&cluster["site"]), text(why)))?;
    }
    for pair in elements(&cluster["differing"]) {
        say(format_args!(
            "differing: two copies of the folder of site {of} have run, and site {at} has changes of the other one than site \
             {own}; their counts differ until somebody corrects them",
            of = text(&pair[0]),
            at = text(&pair[1]),
            own = text(&cluster["site"]),
        ))?;
    }
    for pair in elements(&cluster["removed"]) {
        say(format_args!("{:<8} removed; its heir is site {}", text(&pair[0]), text(&pair[1])))?;
    }
    if let Some(what) = cluster["change"]["what"].as_str() {
        let by = text(&cluster["change"]["by"]);
        let missing = match names(&cluster["change"]["missing"]) {
            missing if missing.is_empty() => "all have agreed".to_owned(),
            missing => format!("sites {missing} have not agreed yet"),
        };
        say(format_args!("under way: {what}, proposed by site {by}; {missing}"))?;
    }
    Ok(())
}
