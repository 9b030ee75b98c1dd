//! The last lines of the output.

use std::time::Duration;

use crate::args::Phase;
use crate::output::say;
use crate::points::{CASES, MISSING};
use crate::suite::Suite;
use crate::tally::Longest;

/// Prints all counters and violations. Returns whether there was no violation.
pub(crate) fn report(suite: &Suite) -> bool {
    let tally = &suite.tally;
    let mut known: Vec<&str> = CASES.iter().map(|case| case.point).collect();
    known.dedup();
    let hit = tally.points();
    if suite.args.includes(Phase::Points) && suite.args.case.is_empty() {
        for point in known.iter().filter(|point| !hit.contains(*point)) {
            tally.violation(point, "never reached");
        }
    }
    if suite.has_run_nothing() {
        tally.violation("no case was run", &format!("no case name contains {:?}", suite.args.case));
    }
    for (point, what) in MISSING {
        say(&format!("{point}: not implemented yet ({what})"));
    }
    let line = |name: &str, value: String| say(&format!("{name:<28}{value}"));
    let count = |name: &str, count: &crate::tally::Count| line(name, count.get().to_string());
    count("accepted", &tally.accepted);
    count("lost", &tally.lost);
    count("completed", &tally.completed);
    count("cancelled by clients", &tally.cancelled);
    count("failed as crash loops", &tally.crash_loops);
    count("effects", &tally.effects);
    count("doubled effects", &tally.doubled_effects);
    line("takeover, same node", longest(&tally.same_node));
    line("takeover, other node", longest(&tally.other_node));
    line("recovery after Postgres", longest(&tally.after_postgres));
    count("false takeovers", &tally.false_takeovers);
    count("zombie writes", &tally.zombie_writes);
    count("broken invariants", &tally.broken_invariants);
    count("model refusals", &tally.refusals);
    count("model calls", &tally.model_calls);
    count("repeated model calls", &tally.repeated_model_calls);
    count("events followed", &tally.events_followed);
    count("kills", &tally.kills);
    count("restarts of Postgres", &tally.restarts);
    count("stops", &tally.stops);
    count("wrong clocks", &tally.wrong_clocks);
    count("terminated connections", &tally.terminations);
    count("commits cut", &tally.cuts);
    line("points hit / known", format!("{} / {}", hit.len(), known.len()));
    line("seed", suite.seed.to_string());
    let violations = tally.violations();
    for violation in &violations {
        say(&format!("RED {violation}"));
    }
    say(if violations.is_empty() { "no violations" } else { "THERE ARE VIOLATIONS" });
    violations.is_empty()
}

fn longest(times: &Longest) -> String {
    match times.get() {
        (_, 0) => "not measured".to_owned(),
        (time, count) => format!("at most {:.1} s, of {count}", seconds(time)),
    }
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}
