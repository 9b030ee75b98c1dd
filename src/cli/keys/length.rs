//! Lengths of time, as people write them.

use std::time::Duration;

use jiff::{Span, SpanRelativeTo};

/// Ten years, the longest life of a key. Who wants more names none.
const MAX: Duration = Duration::from_hours(24 * 3660);

/// Reads a length such as `30d`, `12h` or `90s`.
pub(super) fn length(text: &str) -> anyhow::Result<Duration> {
    let expected = || anyhow::anyhow!("a length of time is written as 30d, 12h, 15m or 90s");
    let span: Span = text.parse().map_err(|_| expected())?;
    let days = SpanRelativeTo::days_are_24_hours();
    let length = span.to_duration(days).map_err(|_| expected())?;
    let length = Duration::try_from(length).map_err(|_| expected())?;
    anyhow::ensure!(length <= MAX, "a length of time is ten years at most");
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_as_people_write_them() {
        for (text, seconds) in
            [("30d", 30 * 86_400), ("12h", 43_200), ("15m", 900), ("90s", 90), ("1h 30m", 5400)]
        {
            assert_eq!(length(text).unwrap(), Duration::from_secs(seconds), "{text}");
        }
        assert_eq!(length("0s").unwrap(), Duration::ZERO);
        for text in ["", "30", "-1h", "1 month", "20y", "soon", "3661d"] {
            assert!(length(text).is_err(), "{text}");
        }
    }
}
