//! Trace context of a request (W3C Trace Context), which connects the work of several services for
//! one cause.

use std::fmt;
use std::num::{NonZeroU64, NonZeroU128};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The only flag of this version: the trace is recorded.
const SAMPLED: u8 = 1;

/// A position in a trace, as in the header `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trace {
    id: NonZeroU128,
    /// The id of the parent span.
    parent: NonZeroU64,
    flags: u8,
}

/// A text that is not a `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not a traceparent")]
pub struct BadTrace;

/// The ids of a trace context.
#[derive(Debug, Clone, Copy)]
pub struct TraceParts {
    /// The id of the trace.
    pub trace_id: u128,
    /// The id of the span.
    pub span_id: u64,
    /// True if the trace is recorded.
    pub is_sampled: bool,
}

impl Trace {
    /// Starts a new trace.
    pub fn begin() -> Self {
        let id = NonZeroU128::MIN.saturating_add(fastrand::u128(..));
        Self { id, parent: span_id(), flags: 0 }
    }

    /// Returns the context for a request to another service: the same trace with a new span id.
    #[must_use]
    pub fn next(self) -> Self {
        Self { parent: span_id(), ..self }
    }

    /// Creates a context from its ids; none if one of them is zero, which is invalid.
    pub fn at(id: u128, place: u64, is_sampled: bool) -> Option<Self> {
        let (id, parent) = (NonZeroU128::new(id)?, NonZeroU64::new(place)?);
        Some(Self { id, parent, flags: if is_sampled { SAMPLED } else { 0 } })
    }

    /// Returns the ids of the context.
    pub const fn parts(self) -> TraceParts {
        TraceParts {
            trace_id: self.id.get(),
            span_id: self.parent.get(),
            is_sampled: self.flags & SAMPLED != 0,
        }
    }

    /// Returns the trace id, for logs.
    pub fn id(&self) -> String {
        format!("{:032x}", self.id)
    }
}

fn span_id() -> NonZeroU64 {
    NonZeroU64::MIN.saturating_add(fastrand::u64(..))
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.id, self.parent, self.flags)
    }
}

impl FromStr for Trace {
    type Err = BadTrace;

    /// Later versions begin in the same format and may append fields.
    fn from_str(text: &str) -> Result<Self, BadTrace> {
        let mut parts = text.split('-');
        let mut digits = |count: usize| {
            let is_plain = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            let part = parts.next().filter(|part| part.len() == count);
            let number = part.filter(|part| part.bytes().all(is_plain)).ok_or(BadTrace)?;
            u128::from_str_radix(number, 16).map_err(|_| BadTrace)
        };
        let [version, id, parent, flags] = [digits(2)?, digits(32)?, digits(16)?, digits(2)?];
        let says_more = parts.next().is_some();
        if version == 0xff || (version == 0 && says_more) {
            return Err(BadTrace);
        }
        let parent = u64::try_from(parent).map_err(|_| BadTrace)?;
        let flags = u8::try_from(flags).map_err(|_| BadTrace)? & SAMPLED;
        Ok(Self {
            id: NonZeroU128::new(id).ok_or(BadTrace)?,
            parent: NonZeroU64::new(parent).ok_or(BadTrace)?,
            flags,
        })
    }
}

impl Serialize for Trace {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Trace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_trace_survives_the_wire_and_the_database() {
        let trace: Trace = GIVEN.parse().unwrap();
        assert_eq!(trace.to_string(), GIVEN);
        assert_eq!(trace.id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        let stored = serde_json::to_string(&trace).unwrap();
        assert_eq!(serde_json::from_str::<Trace>(&stored).unwrap(), trace);
        let TraceParts { trace_id: id, span_id: place, is_sampled } = trace.parts();
        assert_eq!(Trace::at(id, place, is_sampled), Some(trace));
        assert_eq!((Trace::at(0, place, true), Trace::at(id, 0, true)), (None, None));
        let begun = Trace::begin();
        assert_eq!(begun.to_string().parse(), Ok(begun));
    }

    #[test]
    fn the_next_context_is_another_span_of_the_same_trace() {
        let trace: Trace = GIVEN.parse().unwrap();
        let next = trace.next();
        assert_eq!((next.id, next.flags), (trace.id, trace.flags));
        assert_ne!(next.parent, trace.parent);
    }

    #[test]
    fn a_later_version_is_parsed_as_far_as_it_is_known() {
        let later = GIVEN.replacen("00-", "cc-", 1).replace("-01", "-ff-what-the-future-brings");
        assert_eq!(later.parse(), GIVEN.parse::<Trace>());
    }

    #[test]
    fn a_malformed_header_is_refused() {
        for text in [
            String::new(),
            GIVEN.replace('-', "_"),
            GIVEN.to_uppercase(),
            format!("{GIVEN}-more"),
            format!(" {GIVEN}"),
            GIVEN.replacen("00-", "ff-", 1),
            GIVEN.replace("-01", ""),
            GIVEN.replace("-01", "-1"),
            GIVEN.replace("-01", "-+1"),
            GIVEN.replace("00f067aa0ba902b7", "0000000000000000"),
            GIVEN.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            GIVEN.replace("4bf92f", "4bf92"),
        ] {
            assert_eq!(text.parse::<Trace>(), Err(BadTrace), "{text:?}");
        }
    }
}
