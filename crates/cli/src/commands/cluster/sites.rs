//! All sites of a cluster and the lines between them.

use super::{
    cable::{Cable, Line},
    order::Order,
    site::{Site, folder_name},
};
use crate::failure::Failure;
use std::{collections::BTreeMap, path::Path};

#[derive(Debug)]
pub(super) struct Sites {
    /// By their numbers, from 1.
    pub(super) all: Vec<Site>,
    /// From whom to whom.
    lines: BTreeMap<(u16, u16), Line>,
}

impl Sites {
    /// Starts so many sites with their folders in this one.
    pub(super) fn start(folder: &Path, count: u16) -> Result<Self, Failure> {
        check_folder(folder, count)?;
        let mut sites = Self { all: Vec::new(), lines: BTreeMap::new() };
        for number in 1..=count {
            let mut peers = Vec::new();
            for other in (1..=count).filter(|other| *other != number) {
                let line = Line::new().map_err(|error| Failure::failed(format!("cannot listen: {error}")))?;
                peers.push(format!("{other}@{}", line.address));
                sites.lines.insert((number, other), line);
            }
            sites.all.push(Site::new(number, folder.to_owned(), peers.join(",")));
        }
        (1..=count).try_for_each(|number| sites.start_site(number)).map_err(Failure::failed)?;
        Ok(sites)
    }

    fn start_site(&mut self, number: u16) -> Result<(), String> {
        let link = self.site(number).start().map_err(|error| error.to_string())?;
        self.lines.iter().filter(|((_, to), _)| *to == number).for_each(|(_, line)| line.aim(link));
        Ok(())
    }

    fn site(&mut self, number: u16) -> &mut Site {
        &mut self.all[usize::from(number) - 1]
    }

    /// Every two sites, with what is between them and how many bytes have come through.
    pub(super) fn links(&self) -> impl Iterator<Item = (u16, u16, Cable, u64)> {
        let pairs = self.lines.iter().filter(|((one, other), _)| one < other);
        pairs.map(|((one, other), line)| {
            let back = self.lines.get(&(*other, *one)).map_or(0, Line::passed);
            (*one, *other, line.cable(), line.passed() + back)
        })
    }

    /// Does it, and says what it did.
    pub(super) fn obey(&mut self, order: &Order) -> Result<String, String> {
        match order {
            Order::Link { one, other, cable } => {
                for way in [(*one, *other), (*other, *one)] {
                    self.lines.get(&way).into_iter().for_each(|line| line.set(*cable));
                }
                let now = match cable {
                    Cable::Whole => "healed",
                    Cable::Cut => "cut",
                    Cable::Silent => "silent: nothing comes through, and nobody is told",
                };
                Ok(format!("the link between {one} and {other} is {now}"))
            }
            Order::Add { site, key, amount } => {
                let api = self.site(*site).api();
                let api = api.ok_or_else(|| format!("site {site} does not run; nothing was counted"))?;
                let value = api.add(key, *amount).map_err(|error| format!("site {site}: {error}"))?;
                Ok(format!("{key} is {value} at site {site}"))
            }
            Order::Kill { site } if self.site(*site).kill() => Ok(format!("site {site} is killed")),
            Order::Kill { site } => Err(format!("site {site} does not run")),
            Order::Start { site } if self.site(*site).process().is_some() => {
                Err(format!("site {site} runs already"))
            }
            Order::Start { site } => self.start_site(*site).map(|()| format!("site {site} is started again")),
            Order::Quit => Ok("stopping".to_owned()),
        }
    }

    /// Stops all in an orderly way.
    pub(super) fn stop(mut self) -> Result<(), Failure> {
        self.all.iter().for_each(Site::ask_to_stop);
        let failed: Vec<String> = self.all.iter_mut().filter_map(|site| site.wait().err()).collect();
        if failed.is_empty() { Ok(()) } else { Err(Failure::failed(failed.join("; "))) }
    }
}

/// Who belongs to a cluster is fixed by its first start.
fn check_folder(folder: &Path, count: u16) -> Result<(), Failure> {
    let made = (1..=u16::MAX).take_while(|number| folder.join(folder_name(*number)).exists()).count();
    if made == 0 || made == usize::from(count) {
        return Ok(());
    }
    let problem = format!(
        "{} holds a cluster of {made} sites, not of {count}; say --sites {made}, or name another folder",
        folder.display()
    );
    Err(Failure::Usage { flag: "--data", problem })
}
