//! Answers of the engine as replies of the Redis protocol.

use std::time::Duration;

use quipu_engine::{Added, Inspection, Outcome, Pn, Refusal, Reply as Answer, SiteId, SiteView};

use crate::{
    resp::{Protocol, Reply},
    rights::{Rights, provisional},
};

/// Says how long ago another site was heard from.
pub(super) type Heard<'a> = &'a dyn Fn(SiteId) -> Option<Duration>;

/// How the answers to a command are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// The new value.
    Add,
    /// The new value and how much was counted.
    AddWithin,
    /// The value as text, or null.
    Get,
    /// As many as were asked for.
    GetAll,
    /// How many of them exist.
    Exists,
    /// How many of them existed.
    Delete,
    /// `string`, or `none`.
    Type,
    /// OK.
    Done,
    /// Everything.
    Inspect,
    /// How much each site may do.
    Rights,
    /// What became of an operation.
    Outcome,
    /// How many rights have moved.
    Moved,
    /// Written elsewhere.
    Bytes,
}

/// Writes the reply that a command gets for its answers.
pub(super) fn write_answer<'a>(
    form: Form,
    mut answers: impl Iterator<Item = &'a Answer> + Clone,
    protocol: Protocol,
    out: &mut Vec<u8>,
    heard: Heard<'_>,
) {
    let mut reply = Reply::new(out, protocol);
    match form {
        Form::GetAll => {
            reply.array(answers.clone().count());
            answers.for_each(|answer| write_one(Form::Get, answer, &mut reply, heard));
        }
        Form::Exists | Form::Delete => {
            let mut count = 0;
            for answer in answers {
                match answer {
                    Answer::Value(Some(_)) | Answer::Reset { aside: Some(_) } => count += 1,
                    Answer::Refused(refusal) => return write_refusal(refusal, &mut reply),
                    _ => {}
                }
            }
            reply.integer(count);
        }
        _ => match answers.next() {
            Some(answer) => write_one(form, answer, &mut reply, heard),
            None => reply.error(&"ERR the answer was lost; ask again"),
        },
    }
}

fn write_one(form: Form, answer: &Answer, reply: &mut Reply<'_>, heard: Heard<'_>) {
    match (form, answer) {
        (_, Answer::Refused(refusal)) => write_refusal(refusal, reply),
        (Form::AddWithin, Answer::Added(Added { value, applied, .. })) => {
            reply.array(2);
            reply.integer(*value);
            reply.integer(*applied);
        }
        (_, Answer::Added(added)) => reply.integer(added.value),
        (Form::Type, Answer::Value(value)) => reply.simple(if value.is_some() { "string" } else { "none" }),
        (_, Answer::Value(Some(value))) => reply.bulk_integer(*value),
        (_, Answer::Value(None)) => reply.null(),
        (_, Answer::Reset { .. } | Answer::Created) => reply.ok(),
        (Form::Rights, Answer::Inspected(Some(inspection))) => write_rights(inspection, reply),
        (_, Answer::Inspected(Some(inspection))) => write_inspection(inspection, reply, heard),
        (_, Answer::Inspected(None)) => reply.null(),
        (_, Answer::Outcome(outcome)) => write_outcome(*outcome, reply),
        (_, Answer::Moved(amount)) => reply.integer(i64::try_from(*amount).unwrap_or(i64::MAX)),
        (_, Answer::Visited(_) | Answer::Visits(_) | Answer::Estate(_) | Answer::Adopted(_)) => {
            reply.error(&"ERR edges hand over by HTTP");
        }
    }
}

/// The first word tells programs what happened, the rest tells people.
fn write_refusal(refusal: &Refusal, reply: &mut Reply<'_>) {
    let code = match refusal {
        Refusal::OutOfBounds { .. } => "OUTOFBOUNDS",
        Refusal::OtherAmount { .. } => "IDMPMISMATCH",
        Refusal::TooOld { .. } | Refusal::FromTheFuture { .. } => "IDMPTIME",
        Refusal::Exists | Refusal::UsedBefore => "EXISTS",
        Refusal::Creating { .. } => "CREATING",
        Refusal::Reserved { .. } => "RESERVED",
        Refusal::Unsettled { .. } => "UNSETTLED",
        Refusal::JoinedLately { .. } | Refusal::Joining => "JOINING",
        Refusal::BoundedReset => "BOUNDED",
        Refusal::NotBounded | Refusal::CannotMove(_) => "CANNOTMOVE",
        Refusal::NotMovedYet { .. } => "NOTMOVED",
        Refusal::OnlyAtSites
        | Refusal::BadVisit(_)
        | Refusal::OtherServer { .. }
        | Refusal::Copy { .. }
        | Refusal::CannotRetire(_)
        | Refusal::NotTold { .. } => "HANDOFF",
        Refusal::TooManyPending { .. } | Refusal::Leaving => "PENDING",
        Refusal::NoSite(_) => "NOSITE",
        Refusal::NotStored(_) => "NOTSTORED",
        Refusal::InDoubt(_) => "INDOUBT",
        Refusal::NotHere => "TRYAGAIN",
        Refusal::Removed(_) => "REMOVED",
        Refusal::OldCopy(_) => "OLDCOPY",
        Refusal::SiteLeaves => "LEAVING",
        Refusal::Overflow | Refusal::BadDefinition(_) | Refusal::BadKey { .. } => "ERR",
    };
    reply.error(&format_args!("{code} {refusal}"));
}

fn optional(value: Option<i64>, reply: &mut Reply<'_>) {
    match value {
        Some(value) => reply.integer(value),
        None => reply.null(),
    }
}

fn write_inspection(inspection: &Inspection, reply: &mut Reply<'_>, heard: Heard<'_>) {
    let Inspection { value, bounded, sites, version } = inspection;
    let parked = bounded.map(|bounded| bounded.parked).filter(|parked| *parked != Pn::default());
    reply.map(if parked.is_some() { 9 } else { 7 });
    reply.bulk(b"value");
    reply.integer(*value);
    reply.bulk(b"provisional");
    reply.bulk(provisional(sites).to_string().as_bytes());
    reply.bulk(b"kind");
    reply.bulk(if bounded.is_some() { b"bounded" } else { b"plain" });
    reply.bulk(b"min");
    optional(bounded.and_then(|bounded| bounded.minimum), reply);
    reply.bulk(b"max");
    optional(bounded.and_then(|bounded| bounded.maximum), reply);
    if let Some(Pn { added, subtracted }) = parked {
        reply.bulk(b"parked_added");
        reply.bulk(added.to_string().as_bytes());
        reply.bulk(b"parked_subtracted");
        reply.bulk(subtracted.to_string().as_bytes());
    }
    reply.bulk(b"version");
    reply.integer(i64::try_from(*version).unwrap_or(i64::MAX));
    reply.bulk(b"sites");
    reply.array(sites.len());
    for site in sites {
        write_site(site, heard(site.site), reply);
    }
}

fn write_site(site: &SiteView, heard: Option<Duration>, reply: &mut Reply<'_>) {
    reply.map(if heard.is_some() { 6 } else { 5 });
    reply.bulk(b"site");
    reply.bulk(site.site.to_string().as_bytes());
    // As text: they may be larger than an integer of the protocol.
    for (name, amount) in [
        ("added", site.added),
        ("subtracted", site.subtracted),
        ("provisional_added", site.provisional.added),
        ("provisional_subtracted", site.provisional.subtracted),
    ] {
        reply.bulk(name.as_bytes());
        reply.bulk(amount.to_string().as_bytes());
    }
    if let Some(heard) = heard {
        reply.bulk(b"heard_ms_ago");
        reply.integer(i64::try_from(heard.as_millis()).unwrap_or(i64::MAX));
    }
}

fn write_rights(inspection: &Inspection, reply: &mut Reply<'_>) {
    if inspection.bounded.is_none() {
        return reply.error(
            &"ERR this counter has no bounds, so nobody needs rights; COUNTER.CREATE makes one with bounds",
        );
    }
    let right = |right: Option<u128>, reply: &mut Reply<'_>| {
        optional(right.map(|right| i64::try_from(right).unwrap_or(i64::MAX)), reply);
    };
    reply.array(inspection.sites.len());
    for site in &inspection.sites {
        reply.map(5);
        reply.bulk(b"site");
        reply.bulk(site.site.to_string().as_bytes());
        for (name, waiting, rights) in [
            ("add", "add_waiting", Rights::to_add(site)),
            ("subtract", "subtract_waiting", Rights::to_subtract(site)),
        ] {
            reply.bulk(name.as_bytes());
            right(rights.map(|rights| rights.usable), reply);
            reply.bulk(waiting.as_bytes());
            right(rights.map(|rights| rights.waiting), reply);
        }
    }
}

fn write_counted(word: &[u8], added: Added, reply: &mut Reply<'_>) {
    reply.array(4);
    reply.bulk(word);
    reply.integer(added.value);
    reply.integer(added.applied);
    reply.bulk(added.site.to_string().as_bytes());
}

fn write_outcome(outcome: Outcome, reply: &mut Reply<'_>) {
    match outcome {
        Outcome::Counted(added) => write_counted(b"counted", added, reply),
        Outcome::Provisional(added) => write_counted(b"provisional", added, reply),
        Outcome::Cancelled { counted_at } => {
            reply.array(2);
            reply.bulk(b"cancelled");
            reply.bulk(counted_at.to_string().as_bytes());
        }
        Outcome::Unknown => {
            reply.array(1);
            reply.bulk(b"unknown");
        }
        Outcome::TooOld => {
            reply.array(1);
            reply.bulk(b"too old");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_engine::BoundedView;

    const SECOND: SiteId = SiteId { number: 2, incarnation: 1 };

    fn written(form: Form, answer: &Answer) -> String {
        let mut out = Vec::new();
        let heard = |site: SiteId| (site == SECOND).then_some(Duration::from_millis(1500));
        write_answer(form, std::iter::once(answer), Protocol::Resp3, &mut out, &heard);
        String::from_utf8(out).expect("text").replace("\r\n", " ")
    }

    fn inspection() -> Inspection {
        let site = |site, added, rights| SiteView {
            site,
            added,
            subtracted: 2,
            rights_to_add: None,
            rights_to_subtract: Some(rights),
            provisional: Default::default(),
        };
        let mut sites = vec![site(SiteId::FIRST, u64::MAX, u128::MAX), site(SECOND, 9, 7)];
        sites[1].provisional.added = 4;
        let bounded = BoundedView {
            minimum: Some(0),
            maximum: None,
            initial: 0,
            creator: SECOND,
            parked: Pn::subtracted(3),
        };
        Inspection { value: 5, bounded: Some(bounded), sites, version: 3 }
    }

    #[test]
    fn everything_about_a_counter() {
        let text = written(Form::Inspect, &Answer::Inspected(Some(Box::new(inspection()))));
        assert!(text.starts_with("%9 $5 value :5 $11 provisional $1 4 $4 kind $7 bounded"), "{text}");
        assert!(text.contains("$12 parked_added $1 0 $17 parked_subtracted $1 3 "), "{text}");
        assert!(text.contains("*2 %5 $4 site $1 1 $5 added $20 18446744073709551615 "), "{text}");
        let second = "%6 $4 site $3 2.1 $5 added $1 9 $10 subtracted $1 2 $17 provisional_added $1 4 \
                      $22 provisional_subtracted $1 0 $12 heard_ms_ago :1500 ";
        assert!(text.ends_with(second), "{text}");
    }

    #[test]
    fn rights_that_wait_are_told_apart() {
        let text = written(Form::Rights, &Answer::Inspected(Some(Box::new(inspection()))));
        let second = "%5 $4 site $3 2.1 $3 add _ $11 add_waiting _ $8 subtract :3 $16 subtract_waiting :4 ";
        assert!(text.starts_with("*2 %5 ") && text.ends_with(second), "{text}");
        assert!(text.contains(&format!("$8 subtract :{} ", i64::MAX)), "{text}");
    }

    #[test]
    fn what_became_of_an_operation() {
        let added = Added { value: 7, applied: 2, repeated: false, site: SECOND };
        for (outcome, expected) in [
            (Outcome::Counted(added), "*4 $7 counted :7 :2 $3 2.1 "),
            (Outcome::Provisional(added), "*4 $11 provisional :7 :2 $3 2.1 "),
            (Outcome::Cancelled { counted_at: SECOND }, "*2 $9 cancelled $3 2.1 "),
            (Outcome::Unknown, "*1 $7 unknown "),
            (Outcome::TooOld, "*1 $7 too old "),
        ] {
            assert_eq!(written(Form::Outcome, &Answer::Outcome(outcome)), expected);
        }
    }

    #[test]
    fn refusals_name_the_sites_they_are_about() {
        let refused = |refusal| written(Form::Add, &Answer::Refused(refusal));
        let text = refused(Refusal::Creating { missing: vec![SiteId::FIRST, SECOND] });
        assert!(text.starts_with("-CREATING ") && text.contains("sites 1, 2.1 have not answered"), "{text}");
        let elsewhere = vec![(SECOND, 30)];
        let in_all = Some(33);
        let text = refused(Refusal::OutOfBounds {
            amount: -5,
            limit: 0,
            value: 33,
            available: 3,
            elsewhere,
            in_all,
        });
        let says = "this site holds 3 of the 33 units that can be subtracted; site 2.1 holds 30";
        assert!(text.starts_with("-OUTOFBOUNDS ") && text.contains(says), "{text}");
        let text = refused(Refusal::NotMovedYet { site: SECOND, wait_ms: 9, connected: false });
        assert!(text.starts_with("-NOTMOVED site 2.1 was asked "), "{text}");
        let text = refused(Refusal::Unsettled { max: 9, waiting_for: vec![SECOND] });
        assert!(text.starts_with("-UNSETTLED ") && text.contains("site 2.1"), "{text}");
        assert!(refused(Refusal::Reserved { by: SECOND }).starts_with("-RESERVED site 2.1 "));
    }

    #[test]
    fn a_site_that_does_not_count_has_a_word_for_the_reason() {
        for (refusal, word) in [
            (Refusal::Removed("it was removed".into()), "-REMOVED "),
            (Refusal::OldCopy("it is an old copy".into()), "-OLDCOPY "),
            (Refusal::SiteLeaves, "-LEAVING "),
            (Refusal::NotStored("the disk is full".into()), "-NOTSTORED "),
        ] {
            let text = written(Form::Add, &Answer::Refused(refusal));
            assert!(text.starts_with(word), "{text}");
        }
    }
}
