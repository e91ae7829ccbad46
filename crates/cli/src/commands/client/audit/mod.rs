//! `quipu audit`: do the books of all sites balance?

mod books;
mod compare;
mod print;

use super::server::{Ask, Login, Server};
use crate::failure::Failure;
use books::Books;
use compare::{Findings, Verdict};

const EXAMPLES: &str = "\
Examples:
  quipu audit --server http://a:7380 --server http://b:7380 --server http://c:7380
  quipu audit --server http://a:7380,http://b:7380 --shards   shard by shard
  quipu audit --json                                          for programs

Each site keeps books: what it has told its clients that it counted (issued), what SET has put in the place of what it set
aside, what it took back because two sites had counted the same retry (cancelled). Together that is what the site has
counted. Every other site has to know of exactly that: what one has counted and another does not know of is in flight
between the two. An id is provisional until every site has heard of it. The rows of counters with limits also witness their
last operations with ids: one that is counted twice, or nowhere, is named.

Exit code 0: the books balance. 1: they do not, or not yet. 2: cannot tell, because a site did not answer or was not asked.
While clients count there is always something in flight; a difference that stays when they rest is a fault.";

/// Ask all sites for their books, and say whether these balance
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A site's server; give all of them, each with the flag or apart by commas
    #[arg(
        long = "server",
        env = "QUIPU_SERVER",
        value_name = "URL",
        value_delimiter = ',',
        default_value = "http://127.0.0.1:7380"
    )]
    servers: Vec<String>,
    #[command(flatten)]
    login: Login,
    /// Print each shard with something in flight
    #[arg(long)]
    shards: bool,
    /// Print what was found as one JSON object
    #[arg(long)]
    json: bool,
}

/// What one server has said.
struct Report {
    server: String,
    books: Result<Books, String>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut reports = Vec::new();
    for server in &args.servers {
        reports.push(Report { server: server.clone(), books: ask(server, &args.login)? });
    }
    let findings = Findings::of(&reports);
    match args.json {
        true => super::say(print::json(&findings))?,
        false => print::people(&findings, args.shards)?,
    }
    match findings.verdict() {
        Verdict::Balanced => Ok(()),
        Verdict::Unbalanced => Err(Failure::failed(
            "the books do not balance yet; ask again when nobody counts. A difference that stays is a fault",
        )),
        Verdict::Unknown => Err(Failure::CannotTell(format!(
            "it cannot be told whether the books balance: {}",
            findings.problems.join("; ")
        ))),
    }
}

/// The books of a server, or why there are none. A flag that is wrong is nobody's books.
fn ask(server: &str, login: &Login) -> Result<Result<Books, String>, Failure> {
    let server = Server::at(server, login);
    match server.ask(&Ask::get("/audit".to_owned())) {
        Ok(text) => {
            Ok(serde_json::from_str(&text).map_err(|error| format!("its books cannot be read: {error}")))
        }
        Err(trouble) => match trouble.into() {
            Failure::Failed(what) => Ok(Err(what)),
            other => Err(other),
        },
    }
}
