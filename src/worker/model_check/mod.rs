//! Everything that two workers, crashes, lost leases and a client who cancels can do to a run,
//! looked at one by one.
//!
//! A run's life is small: one reply with a pure, a checkable and an effectful call, then an
//! answer. What can happen to it is not: a process may die between any two statements, a lease
//! may end while its worker lives and goes on, and at any moment the client may cancel. The
//! search visits every order of these within [`state::Faults::MOST`] and holds the
//! [laws](laws::broken) against each state.
//!
//! The decisions are those of the service itself: [`crate::agent::AgentLoop`],
//! [`crate::worker::tool_round::plan::Round`], [`crate::worker::tool_round::plan::after_crash`]. The statements of the store stand here
//! by their meaning, and the order in which a driver uses them is written down a second time, in
//! `driver`: that is what has to be kept in line by hand.

mod driver;
mod laws;
mod moves;
mod rules;
mod search;
mod state;
mod store;
mod transcribe;

use rules::Rules;
use search::{Found, search};

/// Two workers in processes of their own.
const APART: [u8; 2] = [0, 1];
/// A worker that takes over what it let go itself, under the same name.
const TOGETHER: [u8; 2] = [0, 0];

fn assert_safe(processes: [u8; 2], states: usize) {
    let Found { states: seen, violation } = search(&Rules::ALL, processes);
    assert_eq!((violation, seen), (None, states));
}

/// The law that is broken when a rule does not hold.
fn broken_without(rules: Rules) -> &'static str {
    let Found { violation, .. } = search(&rules, APART);
    violation.expect("the search must notice that a rule is missing").0
}

#[test]
fn nothing_that_can_happen_to_two_processes_breaks_a_law() {
    assert_safe(APART, 131_354);
}

#[test]
fn nothing_that_can_happen_within_one_process_breaks_a_law() {
    assert_safe(TOGETHER, 126_202);
}

#[test]
fn without_the_fence_a_lost_worker_writes() {
    let rules = Rules { steps_are_fenced: false, ..Rules::ALL };
    assert_eq!(broken_without(rules), "no step is written under an old attempt");
}

#[test]
fn with_unfenced_results_a_lost_worker_writes() {
    let rules = Rules { results_are_fenced: false, ..Rules::ALL };
    assert_eq!(broken_without(rules), "no step is written under an old attempt");
}

#[test]
fn without_a_recorded_start_an_effect_happens_twice() {
    let rules = Rules { starts_are_recorded: false, ..Rules::ALL };
    assert_eq!(broken_without(rules), "an effect runs at most once");
}

#[test]
fn with_effects_repeated_after_a_crash_they_happen_twice() {
    let rules = Rules { effects_are_not_repeated: false, ..Rules::ALL };
    assert_eq!(broken_without(rules), "an effect runs at most once");
}

#[test]
fn with_reply_and_ledger_in_two_commits_they_disagree() {
    let rules = Rules { plans_come_with_the_reply: false, ..Rules::ALL };
    assert_eq!(broken_without(rules), "messages and ledger agree");
}

#[test]
fn with_takeovers_uncounted_a_poisonous_run_goes_on() {
    let rules = Rules { takeovers_are_counted: false, ..Rules::ALL };
    assert_eq!(broken_without(rules), "takeovers without progress, and they alone, end a run");
}

#[test]
fn with_takeovers_never_reset_a_sound_run_is_given_up() {
    let rules = Rules { progress_is_noticed: false, ..Rules::ALL };
    assert_eq!(broken_without(rules), "takeovers without progress, and they alone, end a run");
}

#[test]
fn with_runs_out_of_line_two_are_live() {
    let rules = Rules { runs_wait_in_line: false, ..Rules::ALL };
    assert_eq!(broken_without(rules), "a session has one live run");
}

#[test]
fn without_resuming_a_stored_reply_is_asked_for_again() {
    let rules = Rules { drivers_resume: false, ..Rules::ALL };
    assert_eq!(broken_without(rules), "the model accepts the history");
}

#[test]
fn with_open_calls_left_behind_the_model_refuses_the_history() {
    let rules = Rules { open_calls_are_closed: false, ..Rules::ALL };
    assert_eq!(broken_without(rules), "the model accepts the history");
}

#[test]
fn with_leases_that_never_end_a_run_is_stuck() {
    let rules = Rules { leases_end: false, ..Rules::ALL };
    assert_eq!(broken_without(rules), "a run is never stuck");
}
