//! What sites state to each other, and its bytes.

use minicbor::{Decode, Encode};

use super::{BadBytes, BadChange, Change, Config};
use crate::SiteId;

/// The format of notices and of what is stored.
const FORMAT: u8 = 1;
/// Longer notices are refused before they are read.
pub const NOTICE_BYTES_MAX: usize = 1024 * 1024;

/// A change that a site wants.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Proposal {
    /// Who wants it.
    #[n(0)]
    pub by: SiteId,
    /// Unique at the proposer, and growing.
    #[n(1)]
    pub number: u64,
    /// What.
    #[n(2)]
    pub change: Change,
}

impl Proposal {
    pub(super) fn goes_before(&self, other: &Self) -> bool {
        let (ours, theirs) = (self.change.removes().len(), other.change.removes().len());
        ours > theirs || (ours == theirs && self.by < other.by)
    }

    /// Can it be agreed to on top of the other, whose proposer is lost? A planned removal cannot: who has said that it
    /// leaves may have proposed to stay, and decided it.
    pub(super) fn overrides(&self, other: &Self) -> bool {
        !self.change.is_planned_removal() && self.removes_proposer_of(other)
    }

    pub(super) fn removes_proposer_of(&self, other: &Self) -> bool {
        let removed = self.change.removes();
        removed.contains(&other.by) && removed.is_superset(&other.change.removes())
    }
}

/// All that a site states.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Encode, Decode)]
pub struct Notice {
    #[n(0)]
    pub(super) config: Config,
    /// The number of the last own proposal.
    #[n(1)]
    pub(super) number: u64,
    /// What the site has agreed to on top of this list, each on top of the one before; an open one of its own is the last.
    #[n(2)]
    pub(super) agreed: Vec<Proposal>,
}

impl Notice {
    /// What is sent.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Reads what was sent.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadBytes> {
        let bad = |why| BadBytes { what: "notice", why };
        let notice: Self = decode(bytes).map_err(bad)?;
        notice.check().map_err(|error| bad(error.to_string()))?;
        Ok(notice)
    }

    /// The list of the site that states it.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What that site has agreed to, each on top of the one before; an open proposal of its own is the last.
    pub fn agreed(&self) -> &[Proposal] {
        &self.agreed
    }

    pub(super) fn check(&self) -> Result<(), BadChange> {
        self.config.check()?;
        self.agreed
            .iter()
            .try_for_each(|proposal| self.config.after(proposal.by, &proposal.change).map(drop))?;
        let is_chain = self.agreed.windows(2).all(|pair| pair[1].overrides(&pair[0]));
        is_chain.then_some(()).ok_or(BadChange::NoList { epoch: self.config.epoch })
    }

    /// The open proposal of the site that states this.
    pub(super) fn own(&self, site: SiteId) -> Option<&Proposal> {
        self.agreed.last().filter(|last| last.by == site)
    }
}

pub(super) fn encode<T: Encode<()>>(value: &T) -> Vec<u8> {
    let mut bytes = vec![FORMAT];
    minicbor::encode(value, &mut bytes).expect("writing to memory does not fail");
    bytes
}

pub(super) fn decode<T: for<'b> Decode<'b, ()>>(bytes: &[u8]) -> Result<T, String> {
    if bytes.len() > NOTICE_BYTES_MAX {
        return Err(format!("{} bytes, and {NOTICE_BYTES_MAX} are the most", bytes.len()));
    }
    let body = match bytes.split_first() {
        Some((&FORMAT, body)) => body,
        Some((format, _)) => return Err(format!("format {format}; this version reads {FORMAT}")),
        None => return Err("no bytes at all".into()),
    };
    let mut decoder = minicbor::Decoder::new(body);
    let value = decoder.decode().map_err(|error| error.to_string())?;
    if decoder.position() != body.len() {
        return Err("bytes follow it".into());
    }
    Ok(value)
}
