//! Times on the wire: RFC 3339 in UTC with exactly six decimals, the precision of the database. A
//! client can therefore compare times as texts, and use a time that it has read as a filter.

use jiff::Timestamp;
use serde::{Deserialize as _, Deserializer, Serializer, de};

/// A time as text.
pub fn text(time: Timestamp) -> String {
    format!("{time:.6}")
}

/// Serializes a time.
pub fn time<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{time:.6}"))
}

/// Serializes an optional time.
pub fn optional_time<S: Serializer>(
    time: &Option<Timestamp>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match time {
        Some(known) => self::time(known, serializer),
        None => serializer.serialize_none(),
    }
}

/// Deserializes a time of a request.
pub fn parse<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| de::Error::custom(NO_TIME))
}

/// Deserializes an optional time of a request.
pub fn parse_optional<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| text.parse().map_err(|_| de::Error::custom(NO_TIME))).transpose()
}

const NO_TIME: &str = "is not a time in the form of RFC 3339, such as `2026-11-22T14:00:00Z`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_six_decimals_whatever_they_are() {
        for (time, expected) in [
            ("2026-11-22T14:00:00Z", "2026-11-22T14:00:00.000000Z"),
            ("2026-11-22T14:00:00.5Z", "2026-11-22T14:00:00.500000Z"),
            ("2026-11-22T14:00:00.123456Z", "2026-11-22T14:00:00.123456Z"),
            ("2026-11-22T15:00:00.123456789+01:00", "2026-11-22T14:00:00.123456Z"),
        ] {
            assert_eq!(text(time.parse().unwrap()), expected);
        }
    }
}
