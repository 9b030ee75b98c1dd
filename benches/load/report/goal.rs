//! Goals of figures.

/// The goal of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Goal {
    /// A lower limit of the ratio to the reference.
    RatioAtLeast(f64),
    /// An upper limit of the ratio to the reference.
    RatioAtMost(f64),
    /// An upper limit of the figure itself.
    AtMost(f64),
    None,
}

impl Goal {
    pub(crate) fn text(self) -> String {
        match self {
            Self::RatioAtLeast(limit) => format!("≥ {limit} ×"),
            Self::RatioAtMost(limit) => format!("≤ {limit} ×"),
            Self::AtMost(limit) => format!("≤ {limit}"),
            Self::None => String::new(),
        }
    }

    /// Returns whether the goal is met. It is `None` without a goal, or without the reference that
    /// the goal refers to. A figure that is not a number misses its goal.
    pub(crate) fn is_met(self, value: f64, ratio: Option<f64>) -> Option<bool> {
        match self {
            Self::RatioAtLeast(limit) => ratio.map(|ratio| ratio >= limit),
            Self::RatioAtMost(limit) => ratio.map(|ratio| ratio <= limit),
            Self::AtMost(limit) => Some(value <= limit),
            Self::None => None,
        }
    }

    pub(crate) fn verdict(self, value: f64, ratio: Option<f64>) -> &'static str {
        match self.is_met(value, ratio) {
            Some(true) => "met",
            Some(false) => "missed",
            None => "",
        }
    }

    /// True if the goal refers to the ratio.
    pub(crate) fn is_ratio(self) -> bool {
        matches!(self, Self::RatioAtLeast(_) | Self::RatioAtMost(_))
    }
}
