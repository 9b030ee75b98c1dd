//! Content negotiation by the `Accept` header (RFC 9110, section 12.5.1).

use http::HeaderMap;
use http::header::ACCEPT;

use crate::http::error::ApiError;
use crate::http::stream::format::StreamFormat;

const JSON: &str = "application/json";
const WITHOUT_JSON: &str = "text/event-stream, application/jsonl or application/x-ndjson";
const WITH_JSON: &str =
    "application/json, text/event-stream, application/jsonl or application/x-ndjson";

/// The requested format of the response to a posted message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum ResponseFormat {
    /// A JSON document.
    Json,
    /// A stream.
    Stream(StreamFormat),
}

impl ResponseFormat {
    /// Without `Accept`, or with `*/*`, the response is JSON. An explicitly named stream type wins over
    /// JSON whatever its quality: clients that accept both name both.
    pub(in crate::http) fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        let ranges = ranges(headers);
        let named = |format: &StreamFormat| exactly(&ranges, format.media_type());
        if let Some(format) = best(named) {
            return Ok(Self::Stream(format));
        }
        if quality(&ranges, JSON) > 0 {
            return Ok(Self::Json);
        }
        let stream = best(|format| quality(&ranges, format.media_type()));
        stream.map(Self::Stream).ok_or(ApiError::NotAcceptable(WITH_JSON))
    }
}

impl StreamFormat {
    /// The requested format of a stream; server-sent events by default.
    pub(in crate::http) fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        let ranges = ranges(headers);
        let wanted = best(|format| quality(&ranges, format.media_type()));
        wanted.ok_or(ApiError::NotAcceptable(WITHOUT_JSON))
    }
}

/// The media type with the highest quality, the first of several; none if none is acceptable.
pub(in crate::http) fn preferred<'a>(headers: &HeaderMap, kinds: &[&'a str]) -> Option<&'a str> {
    let ranges = ranges(headers);
    let best = kinds.iter().copied().rev().max_by_key(|kind| quality(&ranges, kind));
    best.filter(|kind| quality(&ranges, kind) > 0)
}

/// A media range, and its quality in thousandths.
type Range = (String, u16);

/// The first of the formats with the highest quality.
fn best(wanted: impl Fn(&StreamFormat) -> u16) -> Option<StreamFormat> {
    let forms = StreamFormat::ALL.into_iter().rev();
    forms.max_by_key(&wanted).filter(|format| wanted(format) > 0)
}

/// The ranges of all `Accept` headers; `*/*` without one.
fn ranges(headers: &HeaderMap) -> Vec<Range> {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let named = values.flat_map(|value| value.split(',')).map(range);
    let named: Vec<Range> = named.filter(|(kind, _)| !kind.is_empty()).collect();
    if named.is_empty() { vec![("*/*".to_owned(), 1000)] } else { named }
}

fn range(text: &str) -> Range {
    let mut parts = text.split(';').map(str::trim);
    let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
    let weight = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.trim().eq_ignore_ascii_case("q").then(|| thousandths(value.trim()))
    });
    (kind, weight.unwrap_or(1000))
}

/// Parses a weight of 0 to 1 with at most three decimals. An invalid weight counts as 1.
fn thousandths(weight: &str) -> u16 {
    let (whole, decimals) = weight.split_once('.').unwrap_or((weight, ""));
    let is_short = decimals.len() <= 3 && decimals.bytes().all(|byte| byte.is_ascii_digit());
    match whole {
        "0" if is_short => format!("{decimals:0<3}").parse().unwrap_or(1000),
        _ => 1000,
    }
}

/// The quality of a media type: that of the most specific range that matches.
fn quality(ranges: &[Range], kind: &str) -> u16 {
    let family = kind.split('/').next().unwrap_or_default();
    let of = |name: &str| ranges.iter().filter(|(range, _)| range == name).map(|(_, q)| *q).max();
    of(kind).or_else(|| of(&format!("{family}/*"))).or_else(|| of("*/*")).unwrap_or(0)
}

/// The quality of a media type that is named exactly.
fn exactly(ranges: &[Range], kind: &str) -> u16 {
    ranges.iter().filter(|(range, _)| range == kind).map(|(_, q)| *q).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn headers(accept: Option<&str>) -> HeaderMap {
        let value = accept.map(|accept| (ACCEPT, HeaderValue::from_str(accept).unwrap()));
        value.into_iter().collect()
    }

    #[test]
    fn the_accept_header_chooses_the_form_of_an_answer_to_a_post() {
        let stream = |format| Some(ResponseFormat::Stream(format));
        for (accept, format) in [
            (None, Some(ResponseFormat::Json)),
            (Some(""), Some(ResponseFormat::Json)),
            (Some("*/*"), Some(ResponseFormat::Json)),
            (Some("APPLICATION/JSON"), Some(ResponseFormat::Json)),
            (Some("text/event-stream"), stream(StreamFormat::EventStream)),
            (Some("application/json, text/event-stream;q=0.9"), stream(StreamFormat::EventStream)),
            (Some("application/jsonl, */*;q=0.1"), stream(StreamFormat::JsonLines)),
            (Some("application/x-ndjson; q=0.5"), stream(StreamFormat::NdJson)),
            (Some("text/event-stream;q=0, */*"), Some(ResponseFormat::Json)),
            (Some("text/*"), stream(StreamFormat::EventStream)),
            (Some("text/html"), None),
            (Some("application/json;q=0"), None),
        ] {
            assert_eq!(ResponseFormat::of(&headers(accept)).ok(), format, "{accept:?}");
        }
    }

    #[test]
    fn the_accept_header_chooses_the_form_of_a_stream() {
        for (accept, format) in [
            (None, Some(StreamFormat::EventStream)),
            (Some("*/*"), Some(StreamFormat::EventStream)),
            (Some("text/*, application/*"), Some(StreamFormat::EventStream)),
            (Some("application/*"), Some(StreamFormat::JsonLines)),
            (Some("application/jsonl"), Some(StreamFormat::JsonLines)),
            (
                Some("application/jsonl;q=0.8, text/event-stream;q=0.75"),
                Some(StreamFormat::JsonLines),
            ),
            (Some("text/event-stream;Q=0.0, */*;q=0.001"), Some(StreamFormat::JsonLines)),
            (Some("application/x-ndjson;q=nonsense"), Some(StreamFormat::NdJson)),
            (Some("application/json"), None),
            (Some("text/event-stream;q=0"), None),
            (Some("text/html, image/*;q=0.8"), None),
        ] {
            assert_eq!(StreamFormat::of(&headers(accept)).ok(), format, "{accept:?}");
        }
    }
}
