//! Answers as JSON.

use std::time::Duration;

use axum::{
    http::header,
    response::{IntoResponse, Response},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use quipu_engine::{Added, BoundedView, Inspection, Move, Outcome, Refusal, SiteId, SiteView};
use serde::{Serialize, Serializer};

use super::decode::Numbers;
use crate::rights::{Rights, provisional};

/// A body in JSON. Numbers of 128 bits are written out, which a tree of JSON values could not hold.
pub(super) struct Json<T>(pub(super) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
            Err(_) => super::problem::Problem::unexpected_reply().into_response(),
        }
    }
}

/// A number, written as the client asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Number {
    value: i128,
    numbers: Numbers,
}

impl Numbers {
    pub(super) fn show(self, value: impl Into<i128>) -> Number {
        Number { value: value.into(), numbers: self }
    }

    pub(super) fn show_rights(self, rights: u128) -> Number {
        self.show(i128::try_from(rights).unwrap_or(i128::MAX))
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.numbers {
            Numbers::Number => serializer.serialize_i128(self.value),
            Numbers::Text => serializer.collect_str(&self.value),
        }
    }
}

/// A key: as text if it is text, else in base64 under another name.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum KeyText {
    Key(String),
    KeyBase64(String),
}

impl KeyText {
    pub(super) fn of(key: &[u8]) -> Self {
        match std::str::from_utf8(key) {
            Ok(text) => Self::Key(text.to_owned()),
            Err(_) => Self::KeyBase64(STANDARD.encode(key)),
        }
    }
}

/// A counter and its value; in a watch, no value where there is no counter.
#[derive(Debug, Serialize)]
pub(super) struct CounterBody {
    #[serde(flatten)]
    pub(super) key: KeyText,
    pub(super) value: Option<Number>,
}

impl CounterBody {
    pub(super) fn of(key: &[u8], value: Option<i64>, numbers: Numbers) -> Self {
        Self { key: KeyText::of(key), value: value.map(|value| numbers.show(value)) }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct AddedBody {
    #[serde(flatten)]
    key: KeyText,
    value: Number,
    applied: Number,
    site: String,
}

impl AddedBody {
    /// A repeated operation has the very body of the first answer; only a header tells.
    pub(super) fn of(key: &[u8], added: Added, numbers: Numbers) -> Self {
        Self {
            key: KeyText::of(key),
            value: numbers.show(added.value),
            applied: numbers.show(added.applied),
            site: added.site.to_string(),
        }
    }
}

/// A counter that is being made.
#[derive(Debug, Serialize)]
pub(super) struct CreatingBody {
    #[serde(flatten)]
    key: KeyText,
    missing: Vec<String>,
    detail: String,
}

impl CreatingBody {
    pub(super) fn of(key: &[u8], refusal: &Refusal) -> Self {
        let missing = match refusal {
            Refusal::Creating { missing } => missing.iter().map(SiteId::to_string).collect(),
            _ => Vec::new(),
        };
        Self { key: KeyText::of(key), missing, detail: refusal.to_string() }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct ResetBody {
    #[serde(flatten)]
    pub(super) key: KeyText,
    pub(super) value: Number,
    pub(super) existed: bool,
    /// The value that is gone, as this site knew it.
    pub(super) set_aside: Option<Number>,
}

#[derive(Debug, Serialize)]
pub(super) struct MovedBody {
    #[serde(flatten)]
    key: KeyText,
    /// How many rights have moved; fewer than were asked for, if the giver had fewer.
    moved: Number,
    from: String,
    to: String,
}

impl MovedBody {
    pub(super) fn of(key: &[u8], rights: Move, moved: u64, numbers: Numbers) -> Self {
        let Move { from, to, .. } = rights;
        Self { key: KeyText::of(key), moved: numbers.show(moved), from: from.to_string(), to: to.to_string() }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct ListBody {
    pub(super) counters: Vec<CounterBody>,
    /// Send it as `cursor` for the next ones; none after the last.
    pub(super) next: Option<String>,
    /// All counters of this server, whatever the prefix.
    pub(super) total: Number,
}

#[derive(Debug, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub(super) enum OutcomeBody {
    Counted { value: Number, applied: Number, site: String },
    Provisional { value: Number, applied: Number, site: String },
    Cancelled { counted_at: String },
    Unknown,
    TooOld,
}

impl OutcomeBody {
    pub(super) fn of(outcome: Outcome, numbers: Numbers) -> Self {
        match outcome {
            Outcome::Counted(Added { value, applied, site, .. }) => Self::Counted {
                value: numbers.show(value),
                applied: numbers.show(applied),
                site: site.to_string(),
            },
            Outcome::Provisional(Added { value, applied, site, .. }) => Self::Provisional {
                value: numbers.show(value),
                applied: numbers.show(applied),
                site: site.to_string(),
            },
            Outcome::Cancelled { counted_at } => Self::Cancelled { counted_at: counted_at.to_string() },
            Outcome::Unknown => Self::Unknown,
            Outcome::TooOld => Self::TooOld,
        }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct InfoBody {
    #[serde(flatten)]
    key: KeyText,
    value: Number,
    /// How much of the value may be taken back.
    provisional: Number,
    bounds: Option<BoundsBody>,
    sites: Vec<SiteBody>,
    version: Number,
}

#[derive(Debug, Serialize)]
struct BoundsBody {
    min: Option<Number>,
    max: Option<Number>,
    initial: Number,
    creator: String,
    /// What was handed over and waits for rights.
    parked_added: Number,
    parked_subtracted: Number,
}

#[derive(Debug, Serialize)]
struct SiteBody {
    site: String,
    added: Number,
    subtracted: Number,
    provisional_added: Number,
    provisional_subtracted: Number,
    rights_to_add: Option<Number>,
    rights_to_add_waiting: Option<Number>,
    rights_to_subtract: Option<Number>,
    rights_to_subtract_waiting: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    heard_ms_ago: Option<Number>,
}

impl InfoBody {
    pub(super) fn of(
        key: &[u8],
        inspection: &Inspection,
        numbers: Numbers,
        heard: impl Fn(SiteId) -> Option<Duration>,
    ) -> Self {
        let show = |site: &SiteView| SiteBody::of(site, numbers, heard(site.site));
        Self {
            key: KeyText::of(key),
            value: numbers.show(inspection.value),
            provisional: numbers.show(provisional(&inspection.sites)),
            bounds: inspection.bounded.map(|bounds| BoundsBody::of(bounds, numbers)),
            sites: inspection.sites.iter().map(show).collect(),
            version: numbers.show(inspection.version),
        }
    }
}

impl BoundsBody {
    fn of(bounds: BoundedView, numbers: Numbers) -> Self {
        Self {
            min: bounds.minimum.map(|it| numbers.show(it)),
            max: bounds.maximum.map(|it| numbers.show(it)),
            initial: numbers.show(bounds.initial),
            creator: bounds.creator.to_string(),
            parked_added: numbers.show(bounds.parked.added),
            parked_subtracted: numbers.show(bounds.parked.subtracted),
        }
    }
}

impl SiteBody {
    fn of(site: &SiteView, numbers: Numbers, heard: Option<Duration>) -> Self {
        let (add, subtract) = (Rights::to_add(site), Rights::to_subtract(site));
        let usable = |rights: Option<Rights>| rights.map(|rights| numbers.show_rights(rights.usable));
        let waiting = |rights: Option<Rights>| rights.map(|rights| numbers.show_rights(rights.waiting));
        Self {
            site: site.site.to_string(),
            added: numbers.show(site.added),
            subtracted: numbers.show(site.subtracted),
            provisional_added: numbers.show(site.provisional.added),
            provisional_subtracted: numbers.show(site.provisional.subtracted),
            rights_to_add: usable(add),
            rights_to_add_waiting: waiting(add),
            rights_to_subtract: usable(subtract),
            rights_to_subtract_waiting: waiting(subtract),
            heard_ms_ago: heard
                .map(|heard| numbers.show(i64::try_from(heard.as_millis()).unwrap_or(i64::MAX))),
        }
    }
}
