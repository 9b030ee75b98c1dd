//! The measurements of a number of turns.

use std::time::Duration;

use super::median::percentile;

/// The durations of one turn, each from sending the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    /// To the first output of the model, which may be a tool call.
    pub(crate) first: Duration,
    /// To the first output of the model after the result of the tool. Without a tool it is `first`.
    pub(crate) answer: Duration,
    /// To the end of the stream.
    pub(crate) whole: Duration,
}

/// CPU time by component.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) server: Duration,
    pub(crate) postgres: Duration,
    pub(crate) simulator: Duration,
}

/// The measurements of a number of turns.
#[derive(Debug, Default, Clone)]
pub(crate) struct Sample {
    pub(crate) turns: Vec<Turn>,
    pub(crate) elapsed: Duration,
    pub(crate) cost: Cost,
}

impl Sample {
    pub(crate) fn turns_a_second(&self) -> f64 {
        self.count() / self.elapsed.as_secs_f64()
    }

    /// CPU time per turn, in milliseconds.
    pub(crate) fn cost_a_turn(&self, whose: impl Fn(&Cost) -> Duration) -> f64 {
        whose(&self.cost).as_secs_f64() * 1000.0 / self.count()
    }

    /// A percentile of a duration, in milliseconds.
    pub(crate) fn percentile(&self, percent: usize, of: impl Fn(&Turn) -> Duration) -> f64 {
        percentile(percent, self.turns.iter().map(of))
    }

    fn count(&self) -> f64 {
        u32::try_from(self.turns.len()).map_or(f64::NAN, f64::from)
    }
}
