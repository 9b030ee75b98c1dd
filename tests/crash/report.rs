//! The last lines.

use std::time::Duration;

use crate::args::Phase;
use crate::output::say;
use crate::points::{CASES, MISSING};
use crate::tally::Longest;
use crate::world::World;

/// Says everything that was counted; false if something is not what it must be.
pub(crate) fn report(world: &World) -> bool {
    let tally = &world.tally;
    let mut known: Vec<&str> = CASES.iter().map(|case| case.point).collect();
    known.dedup();
    let hit = tally.points();
    if world.args.wants(Phase::Points) && world.args.case.is_empty() {
        for point in known.iter().filter(|point| !hit.contains(*point)) {
            tally.red(point, "never reached");
        }
    }
    if world.is_untouched() {
        tally.red("nothing was played", &format!("no case has {:?} in its name", world.args.case));
    }
    for (point, what) in MISSING {
        say(&format!("{point}: not there yet ({what})"));
    }
    let line = |name: &str, value: String| say(&format!("{name:<28}{value}"));
    let count = |name: &str, count: &crate::tally::Count| line(name, count.get().to_string());
    count("accepted", &tally.accepted);
    count("lost", &tally.lost);
    count("completed", &tally.completed);
    count("cancelled by clients", &tally.cancelled);
    count("given up as crash loops", &tally.crash_loops);
    count("effects", &tally.effects);
    count("doubled effects", &tally.doubled_effects);
    line("takeover, same node", longest(&tally.same_node));
    line("takeover, other node", longest(&tally.other_node));
    line("going on after Postgres", longest(&tally.after_postgres));
    count("false takeovers", &tally.false_takeovers);
    count("zombie writes", &tally.zombie_writes);
    count("broken invariants", &tally.broken_invariants);
    count("model refusals", &tally.refusals);
    count("model calls", &tally.model_calls);
    count("model calls made again", &tally.paid_twice);
    count("events followed", &tally.events_followed);
    count("kills", &tally.kills);
    count("restarts of Postgres", &tally.restarts);
    count("stops", &tally.stops);
    count("wrong clocks", &tally.wrong_clocks);
    count("terminated connections", &tally.terminations);
    count("commits cut", &tally.cuts);
    line("points hit / known", format!("{} / {}", hit.len(), known.len()));
    line("seed", world.seed.to_string());
    let reds = tally.reds();
    for red in &reds {
        say(&format!("RED {red}"));
    }
    say(if reds.is_empty() { "all is well" } else { "NOT ALL IS WELL" });
    reds.is_empty()
}

fn longest(times: &Longest) -> String {
    match times.get() {
        (_, 0) => "not measured".to_owned(),
        (time, count) => format!("{:.1} s at most, of {count}", seconds(time)),
    }
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}
