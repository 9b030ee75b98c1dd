//! What must hold at every moment.

use super::state::{CALLS, Doing, Entry, State};
use crate::domain::run::RunStatus;
use crate::domain::tool::CallState;
use crate::store::claim::MAX_TAKEOVERS;

/// A law's name, and whether a state keeps it.
type Law = (&'static str, fn(&State) -> bool);

/// The first law that a state breaks.
pub(super) fn broken(state: &State) -> Option<&'static str> {
    let laws: [Law; 7] = [
        ("an effect runs at most once", |state| state.witness.effects <= 1),
        ("no step is written under an old attempt", |state| !state.witness.stale_write),
        ("the model accepts the history", is_history_valid),
        ("messages and ledger agree", does_ledger_agree),
        ("a reply that is stored is not asked for again", is_reply_kept),
        ("takeovers without progress, and they alone, end a run", is_poison_stopped),
        ("a session has one live run", is_one_live),
    ];
    laws.into_iter().find(|(_, holds)| !holds(state)).map(|(law, _)| law)
}

/// Calls are answered by the next message, or are the last message of a live run. Assistant
/// messages do not follow each other, and no run says its message twice.
fn is_history_valid(state: &State) -> bool {
    let entries: Vec<Entry> = state.tables.history.entries().collect();
    let is_live = state.tables.status == RunStatus::Running;
    let is_pair_valid = |pair: &[Entry]| {
        matches!(
            pair,
            [Entry::User, Entry::Calls | Entry::Answer]
                | [Entry::Calls, Entry::Results(_)]
                | [Entry::Results(_), Entry::Answer]
                // A run that settled without an answer is followed by the next one's message.
                | [Entry::User | Entry::Results(_) | Entry::Answer, Entry::User]
        )
    };
    let users = entries.iter().filter(|entry| **entry == Entry::User).count();
    let begun = usize::from(state.tables.next != RunStatus::Queued);
    matches!(entries.first(), None | Some(Entry::User))
        && entries.windows(2).all(is_pair_valid)
        && (is_live || entries.last() != Some(&Entry::Calls))
        && users <= 1 + begun
}

/// Every call has its row from the moment it is in the history; rows have ended when the results
/// are there, and in the way that the model was told.
fn does_ledger_agree(state: &State) -> bool {
    let ledger = state.tables.ledger;
    if !state.tables.history.contains(Entry::Calls) {
        return ledger == [None; CALLS];
    }
    let results = state.tables.history.entries().find_map(|entry| match entry {
        Entry::Results(states) => Some(states.map(Some)),
        Entry::User | Entry::Calls | Entry::Answer => None,
    });
    let is_open = |state: &CallState| matches!(state, CallState::Planned | CallState::Started);
    match results {
        None => ledger.iter().all(Option::is_some),
        Some(results) => results == ledger && !ledger.iter().flatten().any(is_open),
    }
}

/// So a fault costs at most one request: the one in flight.
fn is_reply_kept(state: &State) -> bool {
    let mut drivers = state.drivers.iter().flatten();
    !drivers.any(|driver| {
        driver.attempt == state.tables.attempt
            && driver.doing == Doing::Wait
            && state.tables.status == RunStatus::Running
            && driver.history != state.tables.history
    })
}

fn is_poison_stopped(state: &State) -> bool {
    let is_stuck = state.witness.claims_in_vain > MAX_TAKEOVERS;
    let mut drivers = state.drivers.iter().flatten();
    let goes_on =
        drivers.any(|driver| driver.attempt == state.tables.attempt && driver.doing == Doing::Wait);
    (is_stuck || !state.tables.is_crash_loop) && !(is_stuck && goes_on)
}

fn is_one_live(state: &State) -> bool {
    !(state.tables.status == RunStatus::Running && state.tables.next == RunStatus::Running)
}
