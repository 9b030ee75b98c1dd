//! The rows of the table, with their goals.

use std::time::Duration;

use super::figures::{Figures, Held, Live, Loads, Starts, Stored};
use super::goal::Goal::{self, AtMost, RatioAtLeast, RatioAtMost};
use super::median::percentile;
use super::row::{HEAD, Pair, Row};
use super::sample::{Cost, Sample};

/// Formats all figures as a Markdown table.
pub(crate) fn table(figures: &Figures) -> Vec<String> {
    HEAD.into_iter().map(str::to_owned).chain(rows(figures).iter().map(Row::line)).collect()
}

/// The figures that have goals, in one line for a commit message.
pub(crate) fn summary(figures: &Figures) -> String {
    let rows = rows(figures);
    let goals = rows.iter().filter(|row| row.goal != Goal::None);
    let figures: Vec<String> = goals.map(Row::short).collect();
    let missed = rows.iter().filter(|row| row.is_missed()).count();
    format!("{}; {missed} of {} goals missed", figures.join(", "), figures.len())
}

fn rows(figures: &Figures) -> Vec<Row> {
    let mut rows = Vec::new();
    if !figures.loads.is_empty() {
        rows.extend(load_rows(&figures.loads));
    }
    rows.extend(history_rows(&figures.histories));
    rows.extend(figures.held.iter().map(held_row));
    rows.extend(figures.live.iter().flat_map(live_rows));
    rows.extend(figures.stored.iter().flat_map(stored_rows));
    rows.extend(figures.starts.iter().flat_map(start_rows));
    rows
}

fn load_rows(loads: &[Pair<Loads>]) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = |name: &str, goal, read: fn(&Loads) -> f64| {
        let rounds = loads.iter().map(|pair| pair.of(read)).collect();
        rows.push(Row { name: name.to_owned(), rounds, goal });
    };
    row("turns/s, 32 at a time", RatioAtLeast(1.0), |loads| loads.many.turns_a_second());
    row("turns/s, 1 at a time", RatioAtLeast(0.7), |loads| loads.one.turns_a_second());
    row("first token of the answer p50, 1 at a time, ms", RatioAtMost(1.3), |loads| {
        loads.one.percentile(50, |turn| turn.answer)
    });
    row("first token of the answer p99, 1 at a time, ms", Goal::None, |loads| {
        loads.one.percentile(99, |turn| turn.answer)
    });
    row("first output of the model p50, 1 at a time, ms", Goal::None, |loads| {
        loads.one.percentile(50, |turn| turn.first)
    });
    row("first output of the model p50, 32 at a time, ms", Goal::None, |loads| {
        loads.many.percentile(50, |turn| turn.first)
    });
    row("whole turn p50, 1 at a time, ms", RatioAtMost(1.4), |loads| {
        loads.one.percentile(50, |turn| turn.whole)
    });
    row("whole turn p99, 1 at a time, ms", Goal::None, |loads| {
        loads.one.percentile(99, |turn| turn.whole)
    });
    row("whole turn p50, 32 at a time, ms", Goal::None, |loads| {
        loads.many.percentile(50, |turn| turn.whole)
    });
    row("whole turn p99, 32 at a time, ms", Goal::None, |loads| {
        loads.many.percentile(99, |turn| turn.whole)
    });
    row("whole turn p99 divided by p50, 32 at a time", AtMost(3.0), |loads| {
        let percentile = |percent| loads.many.percentile(percent, |turn| turn.whole);
        percentile(99) / percentile(50)
    });
    row("server CPU a turn, 32 at a time, ms", AtMost(0.45), |loads| {
        loads.many.cost_a_turn(|cost| cost.server)
    });
    row("server CPU a turn, 1 at a time, ms", Goal::None, |loads| {
        loads.one.cost_a_turn(|cost| cost.server)
    });
    row("Postgres CPU a turn, 32 at a time, ms", AtMost(0.6), |loads| {
        loads.many.cost_a_turn(|cost| cost.postgres)
    });
    row("Postgres CPU a turn, 1 at a time, ms", Goal::None, |loads| {
        loads.one.cost_a_turn(|cost| cost.postgres)
    });
    row("simulator CPU a turn, 32 at a time, ms", Goal::None, |loads| {
        loads.many.cost_a_turn(|cost| cost.simulator)
    });
    rows
}

/// Compares each length with the first one, of the same round.
fn history_rows(rounds: &[Vec<(i32, Sample)>]) -> Vec<Row> {
    let lengths = rounds.first().map_or(&[][..], Vec::as_slice);
    let cost = |sample: &Sample| sample.cost_a_turn(|cost| cost.server);
    let rows = lengths.iter().enumerate().map(|(index, (length, _))| {
        let costs = rounds.iter().filter_map(|round| {
            let (_, shortest) = round.first()?;
            let (_, sample) = round.get(index)?;
            let reference = (index > 0).then(|| cost(shortest));
            Some(Pair { service: cost(sample), reference })
        });
        Row {
            name: match lengths.first() {
                Some((first, _)) if index > 0 => format!(
                    "server CPU a turn after {} messages, ms (reference: after {first})",
                    grouped(length.unsigned_abs())
                ),
                _ => format!("server CPU a turn after {length} messages, ms"),
            },
            rounds: costs.collect(),
            goal: match length {
                1_000 => RatioAtMost(1.5),
                5_000 => RatioAtMost(4.0),
                _ => Goal::None,
            },
        }
    });
    rows.collect()
}

fn held_row(held: &Held) -> Row {
    Row {
        name: format!("memory a held stream with {} of them, kB", grouped(held.streams)),
        rounds: vec![held.bytes.of(|bytes| bytes / 1000.0)],
        goal: AtMost(90.0),
    }
}

fn live_rows(live: &Live) -> Vec<Row> {
    let title = format!("{} live runs of {} s", grouped(live.runs), live.seconds);
    let row =
        |name: &str, goal, pair| Row { name: format!("{title}, {name}"), rounds: vec![pair], goal };
    let first = |percent| {
        live.outcome.of(move |runs| percentile(percent, runs.completed.iter().map(|it| it.first)))
    };
    let whole = live.outcome.of(|runs| percentile(99, runs.completed.iter().map(|it| it.whole)));
    vec![
        row("errors", AtMost(0.0), live.outcome.of(|runs| f64::from(runs.errors))),
        row("first token p50, ms", RatioAtMost(2.0), first(50)),
        row("first token p99, ms", RatioAtMost(2.0), first(99)),
        row("whole run p99, ms", Goal::None, whole),
        row("memory a live run, kB", Goal::None, live.outcome.of(|runs| runs.bytes / 1000.0)),
    ]
}

fn stored_rows(stored: &Stored) -> Vec<Row> {
    let sessions = grouped(stored.sessions);
    let row = |name: &str, goal, read: &dyn Fn(&Sample) -> f64| Row {
        name: format!("{name} with {sessions} stored sessions, ms (reference: an empty database)"),
        rounds: stored.rounds.iter().map(|pair| pair.of(read)).collect(),
        goal,
    };
    let both = |cost: &Cost| -> Duration { cost.server + cost.postgres };
    vec![
        row("server and Postgres CPU a turn", RatioAtMost(1.2), &|sample| sample.cost_a_turn(both)),
        row("whole turn p50, 32 at a time,", Goal::None, &|sample| {
            sample.percentile(50, |turn| turn.whole)
        }),
    ]
}

fn start_rows(starts: &Starts) -> Vec<Row> {
    let row = |name: &str, value| Row {
        name: name.to_owned(),
        rounds: vec![Pair { service: value, reference: None }],
        goal: Goal::None,
    };
    vec![
        row("start to ready on a running Postgres, ms", starts.warm),
        row("first start with its own Postgres, ms", starts.first_private_postgres),
        row("later start with its own Postgres, ms", starts.later_private_postgres),
    ]
}

/// Formats a number with separators of thousands.
pub(crate) fn grouped(number: u32) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
