//! The trace that a request belongs to (W3C Trace Context): by its id one finds what several
//! services did for the same cause.

use std::fmt;
use std::num::{NonZeroU64, NonZeroU128};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The only flag of the version that is spoken here: somebody keeps the trace.
const SAMPLED: u8 = 1;

/// A place in a trace, as the header `traceparent` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trace {
    id: NonZeroU128,
    /// Whose doing caused this.
    parent: NonZeroU64,
    flags: u8,
}

/// A text that is not a `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not a traceparent")]
pub struct BadTrace;

impl Trace {
    /// A trace that begins here.
    pub fn begin() -> Self {
        let id = NonZeroU128::MIN.saturating_add(fastrand::u128(..));
        Self { id, parent: somebody(), flags: 0 }
    }

    /// The place of what is caused here, for those who are asked to do it.
    #[must_use]
    pub fn next(self) -> Self {
        Self { parent: somebody(), ..self }
    }

    /// A place in a trace, by its numbers; none if one of them is zero, which names nothing.
    pub fn at(id: u128, place: u64, is_sampled: bool) -> Option<Self> {
        let (id, parent) = (NonZeroU128::new(id)?, NonZeroU64::new(place)?);
        Some(Self { id, parent, flags: if is_sampled { SAMPLED } else { 0 } })
    }

    /// The trace, the place in it, and whether somebody keeps the trace.
    pub const fn parts(self) -> (u128, u64, bool) {
        (self.id.get(), self.parent.get(), self.flags & SAMPLED != 0)
    }

    /// The trace's id, for logs.
    pub fn id(&self) -> String {
        format!("{:032x}", self.id)
    }
}

fn somebody() -> NonZeroU64 {
    NonZeroU64::MIN.saturating_add(fastrand::u64(..))
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.id, self.parent, self.flags)
    }
}

impl FromStr for Trace {
    type Err = BadTrace;

    /// Later versions begin as this one does, and may say more behind it.
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
        let (id, place, is_sampled) = trace.parts();
        assert_eq!(Trace::at(id, place, is_sampled), Some(trace));
        assert_eq!((Trace::at(0, place, true), Trace::at(id, 0, true)), (None, None));
        let begun = Trace::begin();
        assert_eq!(begun.to_string().parse(), Ok(begun));
    }

    #[test]
    fn what_is_caused_belongs_to_the_same_trace_at_another_place() {
        let trace: Trace = GIVEN.parse().unwrap();
        let next = trace.next();
        assert_eq!((next.id, next.flags), (trace.id, trace.flags));
        assert_ne!(next.parent, trace.parent);
    }

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_known() {
        let later = GIVEN.replacen("00-", "cc-", 1).replace("-01", "-ff-what-the-future-brings");
        assert_eq!(later.parse(), GIVEN.parse::<Trace>());
    }

    #[test]
    fn what_is_malformed_is_no_trace() {
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
