//! The stored form of a forgetful filter, and what is refused of it.

use super::forgetful::{Forgetful, Part, check_doublings};
use super::{FILTERS_MAX, Settings};
use minicbor::decode::{Decoder, Error};
use minicbor::encode::{Encoder, Write};
use minicbor::{Decode, Encode};
use std::collections::VecDeque;

#[derive(Decode)]
struct Wire {
    #[n(0)]
    settings: Settings,
    #[n(1)]
    doublings: u32,
    #[n(2)]
    latest_ms: u64,
    #[cbor(n(3), decode_with = "few_parts")]
    parts: VecDeque<Part>,
}

#[derive(Encode)]
struct WireRef<'a> {
    #[n(0)]
    settings: &'a Settings,
    #[n(1)]
    doublings: u32,
    #[n(2)]
    latest_ms: u64,
    #[n(3)]
    parts: &'a VecDeque<Part>,
}

/// Stops at [`FILTERS_MAX`], whatever length the array claims.
fn few_parts<C>(decoder: &mut Decoder<'_>, context: &mut C) -> Result<VecDeque<Part>, Error> {
    let mut parts = VecDeque::new();
    for part in decoder.array_iter_with(context)? {
        if parts.len() == FILTERS_MAX {
            return Err(Error::message("a forgetful filter with too many filters"));
        }
        parts.push_back(part?);
    }
    Ok(parts)
}

impl<C> Encode<C> for Forgetful {
    fn encode<W: Write>(
        &self,
        encoder: &mut Encoder<W>,
        context: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        let Forgetful { settings, doublings, parts, latest_ms } = self;
        WireRef { settings, doublings: *doublings, latest_ms: *latest_ms, parts }.encode(encoder, context)
    }
}

impl<'b, C> Decode<'b, C> for Forgetful {
    fn decode(decoder: &mut Decoder<'b>, context: &mut C) -> Result<Self, Error> {
        let Wire { settings, doublings, latest_ms, parts } = Wire::decode(decoder, context)?;
        settings.check().map_err(Error::message)?;
        check_doublings(settings.bits, doublings).map_err(Error::message)?;
        if parts.len() < 3 {
            return Err(Error::message("a forgetful filter without future, present or past"));
        }
        if !parts.iter().all(|part| fits(part, &settings)) {
            return Err(Error::message("a forgetful filter with a filter of another size"));
        }
        let newest_first = parts.iter().map(|part| part.created_ms);
        if latest_ms < parts[0].created_ms || !newest_first.rev().is_sorted() {
            return Err(Error::message("a forgetful filter with its filters out of order"));
        }
        Ok(Forgetful { settings, doublings, parts, latest_ms })
    }
}

/// Is it of a size that filters of these settings can have?
fn fits(part: &Part, settings: &Settings) -> bool {
    let times = part.bloom.bits() / settings.bits;
    part.bloom.hashes() == settings.hashes
        && part.bloom.bits().is_multiple_of(settings.bits)
        && times.is_power_of_two()
}
