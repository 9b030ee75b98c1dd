//! Durations as they are stored.

use std::time::Instant;

/// Returns the milliseconds since `start`.
pub(in crate::worker) fn millis_since(start: Instant) -> i64 {
    i64::try_from(start.elapsed().as_millis()).unwrap_or(i64::MAX)
}
