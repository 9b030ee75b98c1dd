//! Model checking of a run: an exhaustive search through all interleavings of two workers, crashes,
//! lost leases and cancellation.
//!
//! The modelled run is small: one reply with a pure, a checkable and an effectful call, or with a
//! quick one, whose result may be stored in the same step; then an answer. Its environment is not: a
//! process can stop between any two statements, a lease can end while its worker continues, and the
//! client can cancel at any time. The search visits every order of these events within [`state::Faults::MAX`] and checks the
//! [invariants](invariants::violated) in each state.
//!
//! The decisions are made by the code of the service: [`crate::agent::AgentLoop`],
//! [`crate::worker::tool_round::plan::ToolRound`],
//! [`crate::worker::tool_round::ledger::after_crash`]. The statements of the store are modelled by
//! their effect, and the order in which a driver executes them is written a second time in `driver`:
//! both must be kept equal to the service by hand.

mod driver;
mod invariants;
mod mapping;
mod rules;
mod search;
mod state;
mod store;
mod transitions;

use rules::Rules;
use search::{Found, search};

/// Two workers in processes of their own.
const APART: [u8; 2] = [0, 1];
/// A worker that claims a run that it has released itself, with the same id.
const TOGETHER: [u8; 2] = [0, 0];

fn assert_safe(processes: [u8; 2], states: usize) {
    let Found { states: seen, violation } = search(&Rules::ALL, processes);
    assert_eq!((violation, seen), (None, states));
}

/// The invariant that is violated without a rule.
fn violated_without(rules: Rules) -> &'static str {
    let Found { violation, .. } = search(&rules, APART);
    violation.expect("the search must find that a rule is missing").0
}

#[test]
fn no_interleaving_of_two_processes_violates_an_invariant() {
    assert_safe(APART, 210_991);
}

#[test]
fn no_interleaving_within_one_process_violates_an_invariant() {
    assert_safe(TOGETHER, 191_545);
}

#[test]
fn without_fencing_a_stale_worker_writes() {
    let rules = Rules { steps_are_fenced: false, ..Rules::ALL };
    assert_eq!(violated_without(rules), "no step is written under an old attempt");
}

#[test]
fn with_unfenced_results_a_stale_worker_writes() {
    let rules = Rules { results_are_fenced: false, ..Rules::ALL };
    assert_eq!(violated_without(rules), "no step is written under an old attempt");
}

#[test]
fn without_a_recorded_start_an_effect_happens_twice() {
    let rules = Rules { starts_are_recorded: false, ..Rules::ALL };
    assert_eq!(violated_without(rules), "an effect runs at most once");
}

#[test]
fn with_effects_before_their_reply_is_stored_they_happen_twice() {
    let rules = Rules { early_calls_are_pure: false, ..Rules::ALL };
    assert_eq!(violated_without(rules), "an effect runs at most once");
}

#[test]
fn with_effects_repeated_after_a_crash_they_happen_twice() {
    let rules = Rules { effects_are_not_repeated: false, ..Rules::ALL };
    assert_eq!(violated_without(rules), "an effect runs at most once");
}

#[test]
fn with_reply_and_ledger_in_two_commits_they_disagree() {
    let rules = Rules { plans_come_with_the_reply: false, ..Rules::ALL };
    assert_eq!(violated_without(rules), "messages and ledger agree");
}

#[test]
fn with_uncounted_takeovers_a_crash_loop_never_ends() {
    let rules = Rules { takeovers_are_counted: false, ..Rules::ALL };
    assert_eq!(
        violated_without(rules),
        "deaths of workers without progress, and they alone, end a run"
    );
}

#[test]
fn with_takeovers_never_reset_a_healthy_run_is_given_up() {
    let rules = Rules { progress_is_noticed: false, ..Rules::ALL };
    assert_eq!(
        violated_without(rules),
        "deaths of workers without progress, and they alone, end a run"
    );
}

#[test]
fn with_lost_leases_counted_as_deaths_a_healthy_run_is_given_up() {
    let rules = Rules { lost_leases_are_taken_back: false, ..Rules::ALL };
    assert_eq!(
        violated_without(rules),
        "deaths of workers without progress, and they alone, end a run"
    );
}

#[test]
fn with_runs_out_of_order_two_are_live() {
    let rules = Rules { runs_wait_in_line: false, ..Rules::ALL };
    assert_eq!(violated_without(rules), "a session has one active run");
}

#[test]
fn without_resuming_a_stored_reply_is_requested_again() {
    let rules = Rules { drivers_resume: false, ..Rules::ALL };
    assert_eq!(violated_without(rules), "the model accepts the history");
}

#[test]
fn with_replies_stored_before_results_the_model_refuses_the_history() {
    let rules = Rules { replies_wait_for_results: false, ..Rules::ALL };
    assert_eq!(violated_without(rules), "the model accepts the history");
}

#[test]
fn with_open_calls_unanswered_the_model_refuses_the_history() {
    let rules = Rules { open_calls_are_closed: false, ..Rules::ALL };
    assert_eq!(violated_without(rules), "the model accepts the history");
}

#[test]
fn with_leases_that_never_end_a_run_is_stuck() {
    let rules = Rules { leases_end: false, ..Rules::ALL };
    assert_eq!(violated_without(rules), "a run is never stuck");
}
