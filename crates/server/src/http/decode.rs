//! What arrives in a request, read byte by byte: paths, queries, cursors, the header of operation ids, bodies.
//!
//! Nothing here waits or looks anything up, so that all of it can be fed with random bytes. What is wrong is said as
//! a sentence for the client.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use percent_encoding::percent_decode;
use quipu_engine::{Add, Beyond, KEY_BYTES_MAX, Limits, Move, Right, SiteId, Spread};
use serde::{Deserialize, de};
use std::collections::BTreeMap;

use crate::{CREATE_WAIT_MS, SITES_WAIT_MS_MAX};

pub use quipu_engine::OPERATION_ID_BYTES_MAX;
/// Counters in an answer, if the client does not say.
pub const LIST_LIMIT_DEFAULT: usize = 100;
/// Counters in an answer, at most.
pub const LIST_LIMIT_MAX: usize = 1_000;
/// The digits of the largest number.
const INTEGER_DIGITS_MAX: usize = 19;
/// The largest integer that no other one is rounded to in a floating point number: 2^53 - 1.
const EXACT_FLOAT_MAX: f64 = 9_007_199_254_740_991.0;

/// A part of a path, with its percent-encoding undone. Any bytes are allowed.
pub fn segment(text: &str) -> Vec<u8> {
    percent_decode(text.as_bytes()).collect()
}

/// The parameter of this name in a query, with its encoding undone.
pub fn parameter(query: &str, name: &str) -> Result<Option<Vec<u8>>, String> {
    let mut found = None;
    for pair in query.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if form(key) != name.as_bytes() {
            continue;
        }
        if found.is_some() {
            return Err(format!("the parameter `{name}` is given twice; give it once"));
        }
        found = Some(form(value));
    }
    Ok(found)
}

/// In queries, as in forms, a plus is a space.
fn form(text: &str) -> Vec<u8> {
    let spaced: Vec<u8> = text.bytes().map(|byte| if byte == b'+' { b' ' } else { byte }).collect();
    percent_decode(&spaced).collect()
}

/// How numbers are written in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Numbers {
    /// As JSON numbers, exact to any reader that does not turn them into floating point.
    #[default]
    Number,
    /// As strings, for readers such as JavaScript whose numbers end at 2^53.
    Text,
}

impl Numbers {
    /// As `values=string` or `values=number` asks for.
    pub fn of_query(query: &str) -> Result<Self, String> {
        match parameter(query, "values")?.as_deref() {
            None | Some(b"number") => Ok(Self::Number),
            Some(b"string") => Ok(Self::Text),
            Some(other) => Err(format!(
                "the parameter `values` is `{}`; give `number` or `string`",
                String::from_utf8_lossy(other)
            )),
        }
    }
}

/// What a listing is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListRequest {
    /// Keys that begin so.
    pub prefix: Vec<u8>,
    /// And come after this one.
    pub after: Option<Vec<u8>>,
    /// At most this many.
    pub limit: usize,
}

impl ListRequest {
    /// As `prefix`, `cursor` and `limit` ask for.
    pub fn of_query(query: &str) -> Result<Self, String> {
        let prefix = parameter(query, "prefix")?.unwrap_or_default();
        if prefix.len() > KEY_BYTES_MAX {
            return Err(format!(
                "the prefix has {} bytes, and no key has more than {KEY_BYTES_MAX}",
                prefix.len()
            ));
        }
        let after = parameter(query, "cursor")?.map(|cursor| read_cursor(&cursor)).transpose()?;
        let limit = parameter(query, "limit")?.map_or(Ok(LIST_LIMIT_DEFAULT), |limit| read_limit(&limit))?;
        Ok(Self { prefix, after, limit })
    }
}

fn read_limit(text: &[u8]) -> Result<usize, String> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.filter(|limit| (1..=LIST_LIMIT_MAX).contains(limit)).ok_or_else(|| {
        format!(
            "the limit is `{}`; give a whole number from 1 to {LIST_LIMIT_MAX}",
            String::from_utf8_lossy(text)
        )
    })
}

/// The cursor that goes on after a key.
pub fn write_cursor(after: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(after)
}

fn read_cursor(cursor: &[u8]) -> Result<Vec<u8>, String> {
    let key = URL_SAFE_NO_PAD.decode(cursor).ok();
    key.filter(|key| (1..=KEY_BYTES_MAX).contains(&key.len())).ok_or_else(|| {
        "the cursor is not one that this server gave; begin again without it, or send `next` as it came"
            .to_owned()
    })
}

/// The id in the header `Idempotency-Key`: a quoted string as the draft of the header has it, or the bare text, which
/// is the same id.
pub fn operation_id(header: &[u8]) -> Result<Vec<u8>, String> {
    let id = match header.strip_prefix(b"\"") {
        Some(quoted) => unquote(quoted),
        None => header.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'"').then(|| header.to_vec()),
    };
    let id =
        id.ok_or("the header `Idempotency-Key` is neither a quoted string nor plain visible ASCII text")?;
    if !(1..=OPERATION_ID_BYTES_MAX).contains(&id.len()) {
        return Err(format!(
            "the header `Idempotency-Key` has {} bytes; give 1 to {OPERATION_ID_BYTES_MAX}, such as a UUID",
            id.len()
        ));
    }
    Ok(id)
}

/// What stands before the closing quote, if that is the end.
fn unquote(text: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    loop {
        match *bytes.next()? {
            b'"' => return bytes.as_slice().is_empty().then_some(plain),
            b'\\' => plain.push(*bytes.next().filter(|byte| matches!(byte, b'"' | b'\\'))?),
            byte @ 0x20..=0x7e => plain.push(byte),
            _ => return None,
        }
    }
}

/// A whole number within 64 bits, as a JSON number or, for JavaScript, as a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Integer(i64);

impl<'de> Deserialize<'de> for Integer {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IntegerVisitor)
    }
}

struct IntegerVisitor;

impl de::Visitor<'_> for IntegerVisitor {
    type Value = Integer;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a whole number from {} to {}, as a number or a string", i64::MIN, i64::MAX)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Integer, E> {
        Ok(Integer(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Integer, E> {
        let narrow =
            i64::try_from(number).map_err(|_| E::invalid_value(de::Unexpected::Unsigned(number), &self))?;
        Ok(Integer(narrow))
    }

    /// `2.0` and `1e3` are whole numbers too. From 2^53 on it is not known which one was meant.
    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Integer, E> {
        if number.fract() != 0.0 || number.abs() > EXACT_FLOAT_MAX {
            return Err(E::invalid_value(de::Unexpected::Float(number), &self));
        }
        #[expect(clippy::cast_possible_truncation, reason = "whole, and far within the range")]
        Ok(Integer(number as i64))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Integer, E> {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let plain = digits.len() <= INTEGER_DIGITS_MAX && digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|_| plain);
        number.map(Integer).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum BeyondWord {
    Refuse,
    Skip,
    Saturate,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AddBody {
    amount: Integer,
    lower: Option<Integer>,
    upper: Option<Integer>,
    beyond: Option<BeyondWord>,
    remote_ms: Option<Integer>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CreateBody {
    min: Option<Integer>,
    max: Option<Integer>,
    value: Option<Integer>,
    spread: Option<SpreadBody>,
    wait_ms: Option<Integer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum SpreadName {
    Creator,
    Even,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "`spread` is \"creator\", \"even\", or shares by site, such as {\"1\": 300, \"2\": 200}"
)]
enum SpreadBody {
    Name(SpreadName),
    Shares(BTreeMap<String, Integer>),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum RightWord {
    Subtract,
    Add,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MoveBody {
    amount: Integer,
    from: String,
    to: String,
    right: Option<RightWord>,
    wait_ms: Option<Integer>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResetBody {
    to: Integer,
}

/// The body of an add.
pub fn add(body: &[u8]) -> Result<Add, String> {
    let body: AddBody = json(body)?;
    let (lower, upper) = (body.lower.map(|it| it.0), body.upper.map(|it| it.0));
    let beyond = match body.beyond {
        None | Some(BeyondWord::Refuse) => Beyond::Refuse,
        Some(BeyondWord::Skip) => Beyond::Skip,
        Some(BeyondWord::Saturate) => Beyond::Saturate,
    };
    let remote_ms = wait_ms("remote_ms", body.remote_ms)?.unwrap_or(0);
    Ok(Add { amount: body.amount.0, lower, upper, beyond, remote_ms })
}

/// For how long a command waits for other sites, if that was said.
fn wait_ms(name: &str, given: Option<Integer>) -> Result<Option<u64>, String> {
    let Some(Integer(given)) = given else { return Ok(None) };
    let wait_ms = u64::try_from(given).ok().filter(|wait_ms| *wait_ms <= SITES_WAIT_MS_MAX);
    wait_ms.map(Some).ok_or_else(|| {
        format!("`{name}` is {given}; give a whole number of milliseconds from 0 to {SITES_WAIT_MS_MAX}")
    })
}

/// What a creation is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateRequest {
    /// The bounds and the first value.
    pub limits: Limits,
    /// Who holds the rights in the beginning.
    pub spread: OwnedSpread,
    /// How long to wait until all sites have it.
    pub wait_ms: u64,
}

/// As [`Spread`], out of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnedSpread {
    /// The site that creates it.
    Creator,
    /// All sites, the same.
    Even,
    /// These sites, by shares.
    Shares(Vec<(SiteId, u64)>),
}

impl OwnedSpread {
    /// For a command.
    pub fn get(&self) -> Spread<'_> {
        match self {
            Self::Creator => Spread::Creator,
            Self::Even => Spread::Even,
            Self::Shares(shares) => Spread::Shares(shares),
        }
    }
}

fn site(text: &str) -> Result<SiteId, String> {
    text.parse().map_err(|error: quipu_engine::BadSiteId| error.to_string())
}

fn spread(body: Option<SpreadBody>) -> Result<OwnedSpread, String> {
    let share = |(name, Integer(share)): (String, Integer)| {
        let share = u64::try_from(share)
            .map_err(|_| format!("the share of site {name} is {share}; give 0 or more"))?;
        Ok((site(&name)?, share))
    };
    Ok(match body {
        None | Some(SpreadBody::Name(SpreadName::Creator)) => OwnedSpread::Creator,
        Some(SpreadBody::Name(SpreadName::Even)) => OwnedSpread::Even,
        Some(SpreadBody::Shares(shares)) => {
            OwnedSpread::Shares(shares.into_iter().map(share).collect::<Result<_, String>>()?)
        }
    })
}

/// The body of a creation.
pub fn create(body: &[u8]) -> Result<CreateRequest, String> {
    let body: CreateBody = json(body)?;
    let limits = Limits {
        minimum: body.min.map(|it| it.0),
        maximum: body.max.map(|it| it.0),
        initial: body.value.map_or(0, |it| it.0),
    };
    let wait_ms = wait_ms("wait_ms", body.wait_ms)?.unwrap_or(CREATE_WAIT_MS);
    Ok(CreateRequest { limits, spread: spread(body.spread)?, wait_ms })
}

/// The body of a move of rights.
pub fn move_rights(body: &[u8]) -> Result<Move, String> {
    let body: MoveBody = json(body)?;
    let amount = u64::try_from(body.amount.0)
        .map_err(|_| format!("`amount` is {}; give how many rights are to be moved", body.amount.0))?;
    let right = body.right.map(|right| match right {
        RightWord::Subtract => Right::ToSubtract,
        RightWord::Add => Right::ToAdd,
    });
    let wait_ms = wait_ms("wait_ms", body.wait_ms)?.unwrap_or(CREATE_WAIT_MS);
    Ok(Move { amount, right, from: site(&body.from)?, to: site(&body.to)?, wait_ms })
}

/// The body of a reset: what to go on from.
pub fn reset(body: &[u8]) -> Result<i64, String> {
    json::<ResetBody>(body).map(|body| body.to.0)
}

fn json<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, String> {
    if body.is_empty() {
        return Err("the body is empty; send a JSON object".to_owned());
    }
    // An array would be taken for an object without names.
    if body.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err("the body is not a JSON object".to_owned());
    }
    serde_json::from_slice(body).map_err(|error| format!("the body is not what is asked for: {error}"))
}

#[cfg(test)]
mod tests;
