//! Answers of the engine as replies of the Redis protocol.

use quipu_engine::{Added, Inspection, Outcome, Refusal, Reply as Answer, SiteView};

use crate::resp::{Protocol, Reply};

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
    /// Written elsewhere.
    Bytes,
}

/// Writes the reply that a command gets for its answers.
pub(super) fn write_answer<'a>(
    form: Form,
    mut answers: impl Iterator<Item = &'a Answer> + Clone,
    protocol: Protocol,
    out: &mut Vec<u8>,
) {
    let mut reply = Reply::new(out, protocol);
    match form {
        Form::GetAll => {
            reply.array(answers.clone().count());
            answers.for_each(|answer| write_one(Form::Get, answer, &mut reply));
        }
        Form::Exists | Form::Delete => {
            let mut count = 0;
            for answer in answers {
                match answer {
                    Answer::Value(Some(_)) | Answer::Reset { existed: true } => count += 1,
                    Answer::Refused(refusal) => return write_refusal(refusal, &mut reply),
                    _ => {}
                }
            }
            reply.integer(count);
        }
        _ => match answers.next() {
            Some(answer) => write_one(form, answer, &mut reply),
            None => reply.error(&"ERR the answer was lost; ask again"),
        },
    }
}

fn write_one(form: Form, answer: &Answer, reply: &mut Reply<'_>) {
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
        (_, Answer::Inspected(Some(inspection))) => write_inspection(inspection, reply),
        (_, Answer::Inspected(None)) => reply.null(),
        (_, Answer::Outcome(outcome)) => write_outcome(*outcome, reply),
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
        Refusal::NotStored(_) => "NOTSTORED",
        Refusal::InDoubt(_) => "INDOUBT",
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

fn write_inspection(inspection: &Inspection, reply: &mut Reply<'_>) {
    let Inspection { value, bounded, sites, version } = inspection;
    reply.map(6);
    reply.bulk(b"value");
    reply.integer(*value);
    reply.bulk(b"kind");
    reply.bulk(if bounded.is_some() { b"bounded" } else { b"plain" });
    reply.bulk(b"min");
    optional(bounded.and_then(|bounded| bounded.minimum), reply);
    reply.bulk(b"max");
    optional(bounded.and_then(|bounded| bounded.maximum), reply);
    reply.bulk(b"version");
    reply.integer(i64::try_from(*version).unwrap_or(i64::MAX));
    reply.bulk(b"sites");
    reply.array(sites.len());
    for site in sites {
        write_site(site, reply);
    }
}

fn write_site(site: &SiteView, reply: &mut Reply<'_>) {
    reply.map(3);
    reply.bulk(b"site");
    reply.bulk(site.site.to_string().as_bytes());
    // As text: they may be larger than an integer of the protocol.
    reply.bulk(b"added");
    reply.bulk(site.added.to_string().as_bytes());
    reply.bulk(b"subtracted");
    reply.bulk(site.subtracted.to_string().as_bytes());
}

fn write_rights(inspection: &Inspection, reply: &mut Reply<'_>) {
    if inspection.bounded.is_none() {
        return reply.error(
            &"ERR this counter has no bounds, so nobody needs rights; COUNTER.CREATE makes one with bounds",
        );
    }
    let right = |right: Option<u128>, reply: &mut Reply<'_>| match right {
        Some(right) => reply.integer(i64::try_from(right).unwrap_or(i64::MAX)),
        None => reply.null(),
    };
    reply.array(inspection.sites.len());
    for site in &inspection.sites {
        reply.map(3);
        reply.bulk(b"site");
        reply.bulk(site.site.to_string().as_bytes());
        reply.bulk(b"add");
        right(site.rights_to_add, reply);
        reply.bulk(b"subtract");
        right(site.rights_to_subtract, reply);
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
