//! The measurements as a Markdown table, compared with the goals.

use crate::drive::Sample;
use crate::history::LENGTHS;
use crate::start::Starts;

/// All measurements.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) service: Loads,
    pub(crate) floor: Option<Loads>,
    /// Samples by length of history.
    pub(crate) histories: Vec<Sample>,
    /// The number of held streams and the memory per stream, in bytes.
    pub(crate) held: Option<(u32, f64)>,
    pub(crate) starts: Option<Starts>,
}

/// The samples of one server under load.
#[derive(Debug, Default)]
pub(crate) struct Loads {
    pub(crate) one: Sample,
    pub(crate) many: Sample,
}

/// The goal of a figure.
#[derive(Debug, Clone, Copy)]
enum Goal {
    /// A lower limit of the ratio to the floor.
    RatioAtLeast(f64),
    RatioAtMost(f64),
    AtMost(f64),
    None,
}

impl Goal {
    fn text(self) -> String {
        match self {
            Self::RatioAtLeast(limit) => format!("≥ {limit:.2} ×"),
            Self::RatioAtMost(limit) => format!("≤ {limit:.2} ×"),
            Self::AtMost(limit) => format!("≤ {limit}"),
            Self::None => String::new(),
        }
    }

    fn verdict(self, value: f64, ratio: Option<f64>) -> &'static str {
        let is_met = match self {
            Self::RatioAtLeast(limit) => ratio.map(|ratio| ratio >= limit),
            Self::RatioAtMost(limit) => ratio.map(|ratio| ratio <= limit),
            Self::AtMost(limit) => Some(value <= limit),
            Self::None => None,
        };
        match is_met {
            Some(true) => "met",
            Some(false) => "missed",
            None => "",
        }
    }
}

/// Formats all figures as a table.
pub(crate) fn table(figures: &Figures) -> Vec<String> {
    let mut rows = vec![
        "| figure | service | floor | ratio | goal | |".to_owned(),
        "| --- | ---: | ---: | ---: | --- | --- |".to_owned(),
    ];
    for figure in loads() {
        let service = (figure.read)(&figures.service);
        let floor = figures.floor.as_ref().map(figure.read);
        rows.push(row(figure.name, service, floor, figure.goal));
    }
    let alone = |name: &str, value, goal| row(name, value, None, goal);
    let mut short = None;
    for (length, sample) in LENGTHS.iter().zip(&figures.histories) {
        let cost = sample.cost_a_turn(|cost| cost.server);
        let most = match length {
            1_000 => Some(2.0),
            5_000 => Some(5.0),
            _ => None,
        };
        let goal =
            most.zip(short).map_or(Goal::None, |_| most.map_or(Goal::None, Goal::RatioAtMost));
        let name = format!("CPU a turn after {length} messages, ms (floor: after 10)");
        rows.push(row(&name, cost, short, goal));
        short = short.or(Some(cost));
    }
    if let Some((streams, bytes)) = figures.held {
        let name = format!("memory a held stream with {streams} of them, kB");
        rows.push(alone(&name, bytes / 1000.0, Goal::AtMost(100.0)));
    }
    if let Some(starts) = &figures.starts {
        for (name, value) in [
            ("start to ready on a running Postgres, ms", starts.warm),
            ("first start with its own Postgres, ms", starts.first_private_postgres),
            ("later start with its own Postgres, ms", starts.later_private_postgres),
        ] {
            rows.push(alone(name, value, Goal::None));
        }
    }
    rows
}

struct Figure {
    name: &'static str,
    goal: Goal,
    read: fn(&Loads) -> f64,
}

fn loads() -> Vec<Figure> {
    let figure = |name, goal, read: fn(&Loads) -> f64| Figure { name, goal, read };
    vec![
        figure("turns/s, 1 at a time", Goal::None, |loads| loads.one.turns_a_second()),
        figure("turns/s, 32 at a time", Goal::RatioAtLeast(0.6), |loads| {
            loads.many.turns_a_second()
        }),
        figure("first token p50, 1 at a time, ms", Goal::RatioAtMost(1.5), |loads| {
            loads.one.percentile(50, |turn| turn.first)
        }),
        figure("first token p99, 1 at a time, ms", Goal::None, |loads| {
            loads.one.percentile(99, |turn| turn.first)
        }),
        figure("first token p50, 32 at a time, ms", Goal::None, |loads| {
            loads.many.percentile(50, |turn| turn.first)
        }),
        figure("first token p99, 32 at a time, ms", Goal::None, |loads| {
            loads.many.percentile(99, |turn| turn.first)
        }),
        figure("whole turn p50, 1 at a time, ms", Goal::RatioAtMost(1.5), |loads| {
            loads.one.percentile(50, |turn| turn.whole)
        }),
        figure("whole turn p99, 1 at a time, ms", Goal::None, |loads| {
            loads.one.percentile(99, |turn| turn.whole)
        }),
        figure("whole turn p50, 32 at a time, ms", Goal::None, |loads| {
            loads.many.percentile(50, |turn| turn.whole)
        }),
        figure("whole turn p99, 32 at a time, ms", Goal::None, |loads| {
            loads.many.percentile(99, |turn| turn.whole)
        }),
        figure("server CPU a turn, 32 at a time, ms", Goal::AtMost(0.5), |loads| {
            loads.many.cost_a_turn(|cost| cost.server)
        }),
        figure("server CPU a turn, 1 at a time, ms", Goal::None, |loads| {
            loads.one.cost_a_turn(|cost| cost.server)
        }),
        figure("Postgres CPU a turn, 32 at a time, ms", Goal::None, |loads| {
            loads.many.cost_a_turn(|cost| cost.postgres)
        }),
        figure("simulator CPU a turn, 32 at a time, ms", Goal::None, |loads| {
            loads.many.cost_a_turn(|cost| cost.simulator)
        }),
    ]
}

fn row(name: &str, service: f64, floor: Option<f64>, goal: Goal) -> String {
    let ratio = floor.map(|floor| service / floor);
    let floor = floor.map_or_else(String::new, number);
    let times = ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
    format!(
        "| {name} | {} | {floor} | {times} | {} | {} |",
        number(service),
        goal.text(),
        goal.verdict(service, ratio)
    )
}

fn number(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}
