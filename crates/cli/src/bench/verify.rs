//! After a run on fresh keys: is what the server has counted what it has acknowledged?

use super::commands::Commands;
use super::error::BenchError;
use super::load::Contestant;
use super::replies::Reply;

/// Reads that are sent together.
const READS_AT_ONCE: u32 = 500;

/// What was found on the keys of one contestant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verified {
    pub(super) label: String,
    pub(super) acknowledged: u64,
    pub(super) counted: i128,
}

impl Verified {
    pub(super) fn holds(&self) -> bool {
        self.counted == i128::from(self.acknowledged)
    }
}

/// Adds up the first `keys` keys of a contestant.
pub(super) fn verify(contestant: &Contestant, keys: u32, acknowledged: u64) -> Result<Verified, BenchError> {
    let Contestant { endpoint, prefix, label, .. } = contestant;
    let commands = Commands::new(prefix, None);
    let mut conversation = endpoint.open()?;
    let mut counted = 0i128;
    let mut out = Vec::new();
    let mut first = 0;
    while first < keys {
        let end = first.saturating_add(READS_AT_ONCE).min(keys);
        out.clear();
        (first..end).for_each(|key| commands.read(u64::from(key), &mut out));
        conversation.send(&out)?;
        for key in first..end {
            let reply = conversation.receive((end - key) as usize)?;
            let value = match reply {
                Reply::Nil => Some(0),
                Reply::Bulk(text) => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()),
                _ => None,
            };
            counted += value.ok_or_else(|| {
                let (address, text) = (endpoint.name.clone(), reply.text());
                if matches!(reply, Reply::Error(_)) {
                    return BenchError::Answer { address, text, remedy: "" };
                }
                let expected = format!("the number in {prefix}{key:012}");
                BenchError::Unexpected { address, got: text, expected }
            })?;
        }
        first = end;
    }
    Ok(Verified { label: label.clone(), acknowledged, counted })
}
