//! Medians and percentiles.

use std::time::Duration;

/// The median; of an even number of values, the mean of the two in the middle. It is `None` for no
/// values.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let upper = values.get(values.len() / 2)?;
    let lower = values.get(values.len().checked_sub(1)? / 2)?;
    Some(f64::midpoint(*lower, *upper))
}

/// The smallest and the largest value.
pub(crate) fn range(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    values.into_iter().fold(None, |range, value| {
        let (least, most) = range.unwrap_or((value, value));
        Some((value.min(least), value.max(most)))
    })
}

/// The nearest-rank percentile of durations, in milliseconds: at least `percent` percent of them are
/// not longer. It is NaN for no durations.
pub(crate) fn percentile(percent: usize, durations: impl IntoIterator<Item = Duration>) -> f64 {
    let mut durations: Vec<Duration> = durations.into_iter().collect();
    durations.sort_unstable();
    let rank = (durations.len() * percent).div_ceil(100);
    let at_rank = durations.get(rank.saturating_sub(1));
    at_rank.map_or(f64::NAN, |duration| duration.as_secs_f64() * 1000.0)
}
