//! Durations in the form `30d`.

use std::time::Duration;

use jiff::{Span, SpanRelativeTo};

/// Ten years, the longest lifetime of a key. Without a lifetime a key does not expire.
const MAX: Duration = Duration::from_hours(24 * 3660);

/// Parses a duration such as `30d`, `12h` or `90s`.
pub(super) fn length(text: &str) -> anyhow::Result<Duration> {
    let expected = || anyhow::anyhow!("expected a duration such as 30d, 12h, 15m or 90s");
    let span: Span = text.parse().map_err(|_| expected())?;
    let days = SpanRelativeTo::days_are_24_hours();
    let length = span.to_duration(days).map_err(|_| expected())?;
    let length = Duration::try_from(length).map_err(|_| expected())?;
    anyhow::ensure!(length <= MAX, "a duration may be at most ten years");
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed() {
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
