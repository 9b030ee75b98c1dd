//! A line of the table: one figure of both servers in all rounds.

use super::goal::Goal;
use super::median::{median, range};

/// A value of the service, and of the reference in the same round.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Pair<T> {
    pub(crate) service: T,
    pub(crate) reference: Option<T>,
}

impl<T> Pair<T> {
    pub(crate) fn of<'a>(&'a self, read: impl Fn(&'a T) -> f64) -> Pair<f64> {
        Pair { service: read(&self.service), reference: self.reference.as_ref().map(read) }
    }
}

impl Pair<f64> {
    fn ratio(self) -> Option<f64> {
        let reference = self.reference.filter(|reference| *reference != 0.0)?;
        Some(self.service / reference)
    }
}

/// A figure with its values in all rounds.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) rounds: Vec<Pair<f64>>,
    pub(crate) goal: Goal,
}

/// The head of the table.
pub(crate) const HEAD: [&str; 2] = [
    "| figure | service | reference | ratio | of the rounds | goal | |",
    "| --- | ---: | ---: | ---: | --- | --- | --- |",
];

impl Row {
    /// The row as a line of a Markdown table: the medians of the rounds. The ratio is the median of
    /// the ratios of the rounds.
    pub(crate) fn line(&self) -> String {
        let (service, ratio) = (self.service(), self.ratio());
        let reference = median(self.rounds.iter().filter_map(|pair| pair.reference));
        let spread = match range(self.rounds.iter().filter_map(|pair| pair.ratio())) {
            Some((least, most)) if self.rounds.len() > 1 => format!("{least:.2} to {most:.2}"),
            _ => String::new(),
        };
        format!(
            "| {} | {} | {} | {} | {spread} | {} | {} |",
            self.name,
            number(service),
            reference.map_or_else(String::new, number),
            ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
            self.goal.text(),
            self.goal.verdict(service, ratio)
        )
    }

    /// The name and the figure that its goal refers to, for a commit message.
    pub(crate) fn short(&self) -> String {
        let (service, ratio) = (self.service(), self.ratio());
        let figure = match ratio.filter(|_| self.goal.is_ratio()) {
            Some(ratio) => format!("{ratio:.2} ×"),
            None => number(service),
        };
        format!("{} {figure} ({})", self.name, self.goal.text())
    }

    /// Returns whether the figure has a goal and misses it.
    pub(crate) fn is_missed(&self) -> bool {
        self.goal.is_met(self.service(), self.ratio()) == Some(false)
    }

    fn service(&self) -> f64 {
        median(self.rounds.iter().map(|pair| pair.service)).unwrap_or(f64::NAN)
    }

    fn ratio(&self) -> Option<f64> {
        median(self.rounds.iter().filter_map(|pair| pair.ratio()))
    }
}

/// Formats a number with three significant digits.
pub(crate) fn number(value: f64) -> String {
    if value.is_nan() {
        "–".to_owned()
    } else if value >= 100.0 || value == 0.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else if value >= 0.1 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}
