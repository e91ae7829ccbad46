//! `quipu import`: counts once what an old copy of a site's folder has counted and nobody else knew of.

use super::{
    say,
    server::{Ask, Server, parse},
    shown,
};
use crate::failure::Failure;
use quipu_server::uncounted::{FORMAT, Header, Line, write_lines};
use serde_json::json;
use std::{
    fmt::Display,
    fs,
    path::PathBuf,
    time::{Duration, SystemTime},
};
use ureq::http::Method;

const EXAMPLES: &str = "\
Examples:
  quipu import two/uncounted-2.1.jsonl --server http://10.0.0.1:7380

Every line is counted with an id, so that importing a file again, or at another site, counts nothing more for as long as ids
are remembered; after that, a file whose import was begun is refused. A file that was imported whole is renamed, and gets the ending .imported.";

/// Count what an old copy of a site's folder had counted, and `quipu restore` has written to a file
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    server: Server,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let name = args.file.display();
    let cannot = |what: &str, why: &dyn Display| Failure::failed(format!("{name}: {what}: {why}"));
    let text = fs::read_to_string(&args.file).map_err(|error| cannot("it cannot be read", &error))?;
    let mut lines = text.lines();
    let mut header: Header = serde_json::from_str(lines.next().unwrap_or_default())
        .map_err(|error| cannot("it is no file of `quipu restore`", &error))?;
    if header.format != FORMAT {
        let why = format!("it has the form {}, and this version reads {FORMAT}", header.format);
        return Err(cannot("nothing was imported", &why));
    }
    let lines: Result<Vec<Line>, _> = lines.map(serde_json::from_str).collect();
    let lines = lines.map_err(|error| cannot("a line cannot be read; nothing was imported", &error))?;
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let begun = header.begin(u64::try_from(unix.as_millis()).unwrap_or(u64::MAX)).map(str::to_owned);
    let begun = begun.ok_or_else(|| cannot("nothing was imported", &"its first line has no `export`"))?;
    // Before anything is counted.
    write_lines(&args.file, &header, &lines).map_err(|error| cannot("it cannot be written", &error))?;
    let (mut counted, mut repeated) = (0, 0);
    for line in &lines {
        let key = shown(&line.key_bytes().unwrap_or_default());
        let body = json!({ "export": header.export, "begun": begun, "line": line });
        let ask = Ask {
            method: Method::POST,
            path: "/import".to_owned(),
            body: Some(&body),
            id: None,
            sites_time: Duration::ZERO,
        };
        let answer = args.server.ask(&ask).map_err(|trouble| match Failure::from(trouble) {
            Failure::Failed(why) => {
                let remedy = "The same command again goes on, and counts nothing twice";
                cannot(&format!("{key} was not counted"), &format!("{why}. {remedy}"))
            }
            other => other,
        })?;
        let answer = parse(&answer)?;
        counted += answer["counted"].as_u64().unwrap_or(0);
        repeated += answer["repeated"].as_u64().unwrap_or(0);
        if line.reset {
            say(format_args!("{key} was set or deleted at the copy; that is not repeated here"))?;
        }
    }
    let done = args.file.with_extension("jsonl.imported");
    fs::rename(&args.file, &done).map_err(|error| cannot("it cannot be renamed", &error))?;
    say(format_args!(
        "what site {} had counted is counted: {counted} amounts now, {repeated} before. The file is {} now",
        header.site,
        done.display()
    ))
}
