//! The invariants that every state must satisfy.

use super::state::{CALLS, Driver, History, HistoryEntry, Next, State};
use crate::domain::run_status::RunStatus;
use crate::domain::tool::CallState;

/// The name of an invariant, and its check.
type Invariant = (&'static str, fn(&State) -> bool);

/// The first invariant that a state violates.
pub(super) fn violated(state: &State) -> Option<&'static str> {
    let invariants: [Invariant; 7] = [
        ("an effect runs at most once", |state| state.ghost.effects <= 1),
        ("no step is written under an old attempt", |state| !state.ghost.stale_write),
        ("the model accepts the history", is_history_valid),
        ("messages and ledger agree", does_ledger_agree),
        ("a reply that is stored is not asked for again", is_reply_kept),
        ("deaths of workers without progress, and they alone, end a run", is_poison_stopped),
        ("a session has one active run", is_one_live),
    ];
    invariants.into_iter().find(|(_, holds)| !holds(state)).map(|(name, _)| name)
}

/// Calls are answered by the next message, or are the last message of an active run. No two
/// assistant messages are adjacent, and no run has its user message twice.
fn is_history_valid(state: &State) -> bool {
    let entries: Vec<HistoryEntry> = state.tables.history.entries().collect();
    let is_live = state.tables.status == RunStatus::Running;
    let is_pair_valid = |pair: &[HistoryEntry]| {
        matches!(
            pair,
            [
                HistoryEntry::User,
                HistoryEntry::Calls | HistoryEntry::Answer | HistoryEntry::Look
            ] | [HistoryEntry::Calls, HistoryEntry::Results(_)]
                | [HistoryEntry::Look, HistoryEntry::LookResult(_)]
                | [HistoryEntry::Results(_) | HistoryEntry::LookResult(_), HistoryEntry::Answer]
                // A run that settled without an answer is followed by the next one's message.
                | [
                    HistoryEntry::User
                        | HistoryEntry::Results(_)
                        | HistoryEntry::LookResult(_)
                        | HistoryEntry::Answer,
                    HistoryEntry::User,
                ]
        )
    };
    let users = entries.iter().filter(|entry| **entry == HistoryEntry::User).count();
    let begun = usize::from(state.tables.next != RunStatus::Queued);
    matches!(entries.first(), None | Some(HistoryEntry::User))
        && entries.windows(2).all(is_pair_valid)
        && (is_live || !matches!(entries.last(), Some(HistoryEntry::Calls | HistoryEntry::Look)))
        && users <= 1 + begun
}

/// Every call in the history has its ledger row. When the results are in the history, the rows have
/// ended with the same states.
fn does_ledger_agree(state: &State) -> bool {
    let ledger = state.tables.ledger;
    let is_open = |state: &CallState| matches!(state, CallState::Planned | CallState::Started);
    let look = state.tables.history.entries().find_map(|entry| match entry {
        HistoryEntry::LookResult(state) => Some(state),
        HistoryEntry::User
        | HistoryEntry::Calls
        | HistoryEntry::Results(_)
        | HistoryEntry::Look
        | HistoryEntry::Answer => None,
    });
    let does_look_agree = match look {
        None => state.tables.look.is_some() == state.tables.history.contains(HistoryEntry::Look),
        Some(look) => state.tables.look == Some(look) && !is_open(&look),
    };
    if !does_look_agree {
        return false;
    }
    if !state.tables.history.contains(HistoryEntry::Calls) {
        return ledger == [None; CALLS];
    }
    let results = state.tables.history.entries().find_map(|entry| match entry {
        HistoryEntry::Results(states) => Some(states.map(Some)),
        HistoryEntry::User
        | HistoryEntry::Calls
        | HistoryEntry::Look
        | HistoryEntry::LookResult(_)
        | HistoryEntry::Answer => None,
    });
    match results {
        None => ledger.iter().all(Option::is_some),
        Some(results) => results == ledger && !ledger.iter().flatten().any(is_open),
    }
}

/// Holds if a fault repeats at most one request: the one in flight.
fn is_reply_kept(state: &State) -> bool {
    let mut drivers = state.drivers.iter().flatten();
    !drivers.any(|driver| {
        driver.attempt == state.tables.attempt
            && driver.next == Next::Wait
            && state.tables.status == RunStatus::Running
            && driver.history != stored_with_pending(state, driver)
    })
}

/// The stored history and the message that a driver is committing.
fn stored_with_pending(state: &State, driver: &Driver) -> History {
    let mut history = state.tables.history;
    if let Some(message) = driver.pending.and_then(|step| step.message) {
        history.push(message);
    }
    history
}

fn is_poison_stopped(state: &State) -> bool {
    let is_stuck = state.ghost.is_stuck;
    let mut drivers = state.drivers.iter().flatten();
    let goes_on =
        drivers.any(|driver| driver.attempt == state.tables.attempt && driver.next == Next::Wait);
    (is_stuck || !state.tables.is_crash_loop) && !(is_stuck && goes_on)
}

fn is_one_live(state: &State) -> bool {
    !(state.tables.status == RunStatus::Running && state.tables.next == RunStatus::Running)
}
