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
  quipu serve --site 4 --link 10.0.0.4:7381 --join 1@10.0.0.1:7381
  quipu site drain --server URL-OF-3           site 3 is to leave: the others come to have all that it has counted
  quipu site remove 3 --dead                   it was drained and stopped; or its machine is lost
  quipu site remove 3,4 --dead --heir 2        two at once: nobody waits for them
  quipu site restore 2.1                       after `quipu restore` on a copy of site 2's folder

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
    /// Remove sites that are lost or stopped: what they counted stays counted, and they are refused for ever
    Remove {
        /// Their numbers, apart by commas. All that are lost, at once: nobody waits for those who are removed
        #[arg(value_name = "SITES")]
        sites: String,
        /// Who takes over their rights [default: the lowest member that stays]
        #[arg(long, value_name = "SITE")]
        heir: Option<String>,
        /// They do not come back. What they counted and told nobody is lost
        #[arg(long)]
        dead: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Let the site that is asked take no writes and tell the others all that it has counted, before it is removed
    Drain {
        #[command(flatten)]
        common: Common,
    },
    /// Let a site that was to leave take writes again
    Stay {
        #[command(flatten)]
        common: Common,
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
        Command::Remove { sites, heir, dead, common } => {
            let heir = heir.as_ref().map_or_else(String::new, |heir| format!("&heir={heir}"));
            common.change(&Method::DELETE, &format!("/sites/{sites}?dead={dead}{heir}"), None)?;
            say(format_args!("removed: {sites}. What was counted there stays counted"))
        }
        Command::Drain { common } => {
            common.change(&Method::POST, "/sites", Some(&json!("drain")))?;
            say(
                "the others have all that this site has counted, and it takes no writes. Stop it, and run `quipu site remove N \
                 --dead` at another one; `quipu site stay` takes it back",
            )
        }
        Command::Stay { common } => {
            common.change(&Method::POST, "/sites", Some(&json!("stay")))?;
            say("this site takes writes")
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
    /// Says what is wanted again and again until it is in force: if a change that goes before came between, it is proposed
    /// anew.
    fn change(&self, method: &Method, path: &str, body: Option<&Value>) -> Result<(), Failure> {
        let until = Instant::now() + Duration::from_secs(self.wait);
        loop {
            let ask = Ask {
                method: method.clone(),
                path: path.to_owned(),
                body,
                id: None,
                sites_time: Duration::ZERO,
            };
            let answer = parse(&self.server.ask(&ask)?)?;
            if answer["status"] == "done" {
                return Ok(());
            }
            if Instant::now() >= until {
                let names = |it: &Value| {
                    it.as_array().map_or(String::new(), |them| {
                        them.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
                    })
                };
                return Err(Failure::failed(format!(
                    "not in force yet: {} waits for sites {}. It goes on by itself when these are reached; the same command \
                     tells how far it is. Sites that are lost must be removed together in one `quipu site remove --dead`",
                    answer["change"].as_str().unwrap_or_default(),
                    names(&answer["missing"])
                )));
            }
            thread::sleep(ASK_EVERY);
        }
    }
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
    for site in cluster["sites"].as_array().into_iter().flatten() {
        let heard = site["heard_seconds"].as_u64().map_or_else(|| "-".to_owned(), |it| format!("{it} s ago"));
        let [id, state, link, address] = ["site", "state", "link", "address"].map(|name| text(&site[name]));
        say(format_args!("{id:<8} {state:<8} {link:<6} {heard:<10} {address}"))?;
        if let (Some(trouble), "down") = (site["trouble"].as_str(), link.as_str()) {
            say(format_args!("         {trouble}"))?;
        }
    }
    for pair in cluster["removed"].as_array().into_iter().flatten() {
        say(format_args!("{:<8} removed; its heir is site {}", text(&pair[0]), text(&pair[1])))?;
    }
    if let Some(what) = cluster["change"]["what"].as_str() {
        let by = text(&cluster["change"]["by"]);
        let missing = cluster["change"]["missing"].as_array().map(|missing| {
            let names: Vec<&str> = missing.iter().filter_map(Value::as_str).collect();
            format!("; it waits for sites {}", names.join(", "))
        });
        let missing = missing.unwrap_or_else(|| format!("; site {by} knows whom it waits for"));
        say(format_args!("under way: {what}, proposed by site {by}{missing}"))?;
    }
    Ok(())
}
