//! What cannot be done is refused, and for its own reason: or for now, because of the store, or because the site does not take
//! such calls.

use super::{Check, Seen};
use crate::system::calls::{Act, Mistake};
use quipu_engine::{Refusal, Reply};

/// The check. It keeps nothing.
pub(in crate::system) struct Mistakes;

impl Mistake {
    fn is_refused_with(self, refusal: &Refusal) -> bool {
        match self {
            Self::NoName => matches!(refusal, Refusal::BadKey { .. }),
            Self::ResetOfBounded => matches!(refusal, Refusal::BoundedReset),
            Self::TooMuch => matches!(refusal, Refusal::Overflow),
            Self::LateBounds => matches!(refusal, Refusal::Exists | Refusal::UsedBefore),
            Self::OtherAmount(_) => matches!(refusal, Refusal::OtherAmount { .. }),
        }
    }
}

/// Is nothing said about the call itself?
fn is_for_now(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::NotStored(_)
            | Refusal::InDoubt(_)
            | Refusal::NotHere
            | Refusal::Joining
            | Refusal::JoinedLately { .. }
            | Refusal::Reserved { .. }
            | Refusal::Creating { .. }
            // Its clock was set.
            | Refusal::FromTheFuture { .. }
            | Refusal::TooOld { .. }
    )
}

impl Check for Mistakes {
    fn released(&mut self, seen: Seen<'_>, reply: &Reply) -> Result<(), String> {
        let Act::Mistake(mistake) = seen.call.act else { return Ok(()) };
        match reply {
            Reply::Refused(refusal) if mistake.is_refused_with(refusal) || is_for_now(refusal) => Ok(()),
            other => {
                Err(format!("site {} answers {mistake:?} of {} with {other:?}", seen.site + 1, seen.name()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::calls::{Call, Key, Kind};
    use quipu_engine::SiteId;

    fn check(mistake: Mistake, reply: &Reply) -> Result<(), String> {
        let key = Key::new(Kind::Bounded, 0, 1, 10);
        let call = Call { key: 0, act: Act::Mistake(mistake), id: None, producer: 0, since_ms: 0 };
        let seen = Seen { now: 0, order: 1, site: 0, id: SiteId::FIRST, key: &key, call: &call, attempt: 0 };
        Mistakes.released(seen, reply)
    }

    #[test]
    fn what_is_not_refused_or_for_another_reason_is_told() {
        let refused = |refusal| Reply::Refused(refusal);
        assert_eq!(check(Mistake::TooMuch, &refused(Refusal::Overflow)), Ok(()));
        assert_eq!(check(Mistake::TooMuch, &refused(Refusal::Joining)), Ok(()));
        assert!(check(Mistake::TooMuch, &refused(Refusal::BoundedReset)).is_err());
        assert!(check(Mistake::LateBounds, &Reply::Created).is_err());
        assert!(check(Mistake::NoName, &Reply::Value(None)).is_err());
    }
}
