//! The transitions from one state to the next.

use super::driver::Work;
use super::rules::Rules;
use super::state::{Driver, EFFECT, Faults, HistoryEntry, Next, State};
use super::store::Processes;
use crate::domain::run_status::RunStatus;

/// The name of a transition, and the state after it.
pub(super) type Transition = (&'static str, State);

/// Every transition from this state.
pub(super) fn transitions(state: &State, rules: &Rules, processes: Processes) -> Vec<Transition> {
    let mut found = Vec::new();
    for (slot, process) in processes.into_iter().enumerate() {
        match state.drivers[slot] {
            None => claim(state, rules, slot, process, &mut found),
            Some(driver) => {
                let driver_slot = DriverSlot { slot, process, driver };
                advance(state, rules, driver_slot, &mut found);
                lose(state, rules, driver_slot, &mut found);
                release(state, driver_slot, &mut found);
            }
        }
    }
    crash(state, processes, &mut found);
    expire(state, rules, processes, &mut found);
    cancel(state, &mut found);
    run_next(state, rules, &mut found);
    found
}

/// A driver, its slot in the state and the process in which it runs.
#[derive(Clone, Copy)]
struct DriverSlot {
    slot: usize,
    process: u8,
    driver: Driver,
}

fn claim(state: &State, rules: &Rules, slot: usize, process: u8, found: &mut Vec<Transition>) {
    let mut after = *state;
    if let Some(driver) = after.claim(rules, process) {
        after.drivers[slot] = Some(driver);
        found.push(("a worker claims the run", after));
    }
}

/// The next step of a driver: which calls the model requests, and how long they take, is open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    Next,
    RunEarly,
    TooSlow,
}

fn advance(state: &State, rules: &Rules, driver_slot: DriverSlot, found: &mut Vec<Transition>) {
    let DriverSlot { slot, process, driver } = driver_slot;
    for choice in [Choice::Next, Choice::RunEarly, Choice::TooSlow] {
        let mut work = Work { rules, process, driver, state: *state };
        let (name, is_there) = match choice {
            Choice::Next => ("a driver takes its next step", work.advance()),
            Choice::RunEarly => ("the calls of a reply run before it is stored", work.run_early()),
            Choice::TooSlow => ("a quick call does not end in time", work.store_look()),
        };
        let mut after = work.state;
        after.drivers[slot] = is_there.then_some(work.driver);
        if is_there || choice == Choice::Next {
            found.push((name, after));
        }
    }
    // A driver notices a cancellation where it waits.
    let waits =
        matches!(driver.next, Next::Wait | Next::Run(EFFECT) | Next::Effect) || is_looking(&driver);
    if waits && state.tables.is_cancel_requested {
        let mut work = Work { rules, process, driver, state: *state };
        let is_there = work.finish();
        let closing = Driver { next: Next::Close(RunStatus::Cancelled), ..work.driver };
        let mut after = work.state;
        after.drivers[slot] = is_there.then_some(closing);
        found.push(("a driver notices that its run is cancelled", after));
    }
}

/// True while a driver executes the quick call of a stored reply.
fn is_looking(driver: &Driver) -> bool {
    driver.next == Next::Decide && driver.history.last() == Some(HistoryEntry::Look)
}

/// The heartbeat, and the worker's own clock.
fn lose(
    state: &State,
    rules: &Rules,
    DriverSlot { slot, process, driver }: DriverSlot,
    found: &mut Vec<Transition>,
) {
    let mut renewed = *state;
    if renewed.renew(process) {
        if renewed != *state {
            found.push(("a lease is renewed", renewed));
        }
    } else {
        renewed.drivers[slot] = None;
        renewed.take_back_takeover(rules, &driver, process);
        found.push(("a driver notices that its lease is lost", renewed));
    }
    if !state.tables.is_leased {
        let mut after = *state;
        after.drivers[slot] = None;
        after.take_back_takeover(rules, &driver, process);
        found.push(("a worker finds its lease stale", after));
    }
}

/// The process stops, or the database fails the run.
fn release(
    state: &State,
    DriverSlot { slot, process, driver }: DriverSlot,
    found: &mut Vec<Transition>,
) {
    if state.faults.ends >= Faults::MAX.ends {
        return;
    }
    for has_failed in [false, true] {
        let mut after = *state;
        after.faults.ends += 1;
        after.release(&driver, process, has_failed);
        after.drivers[slot] = None;
        found.push(("a driver releases its run", after));
    }
}

fn crash(state: &State, processes: Processes, found: &mut Vec<Transition>) {
    if state.faults.ends >= Faults::MAX.ends {
        return;
    }
    for process in 0..2 {
        let mut after = *state;
        for (slot, runs_in) in processes.into_iter().enumerate() {
            if runs_in == process {
                after.drivers[slot] = None;
            }
        }
        if after != *state {
            after.faults.ends += 1;
            found.push(("a process stops", after));
        }
    }
}

/// A lease expires by the clock of the database: of a stopped worker, or of a paused one.
fn expire(state: &State, rules: &Rules, processes: Processes, found: &mut Vec<Transition>) {
    if state.tables.status != RunStatus::Running || !state.tables.is_leased {
        return;
    }
    let mut seats = state.drivers.iter().zip(processes);
    let mut after = *state;
    after.tables.is_leased = false;
    let is_held =
        seats.any(|(driver, process)| driver.is_some_and(|driver| state.holds(&driver, process)));
    if !is_held && rules.leases_end {
        found.push(("the lease of a stopped worker expires", after));
    } else if is_held && state.faults.expiries < Faults::MAX.expiries {
        after.faults.expiries += 1;
        found.push(("the lease of a running worker expires", after));
    }
}

/// The client cancels, at any time.
fn cancel(state: &State, found: &mut Vec<Transition>) {
    let mut after = *state;
    match state.tables.status {
        RunStatus::Queued => after.tables.status = RunStatus::Cancelled,
        RunStatus::Running => after.tables.is_cancel_requested = true,
        RunStatus::RequiresAction
        | RunStatus::Completed
        | RunStatus::Failed
        | RunStatus::Cancelled => {}
    }
    if after != *state {
        found.push(("the client cancels", after));
    }
}

/// The session's next run, which has no calls.
fn run_next(state: &State, rules: &Rules, found: &mut Vec<Transition>) {
    let mut after = *state;
    let is_its_turn = state.tables.status.is_terminal() || !rules.runs_wait_in_line;
    let (status, entry) = match state.tables.next {
        RunStatus::Queued if is_its_turn => (RunStatus::Running, HistoryEntry::User),
        RunStatus::Running => (RunStatus::Completed, HistoryEntry::Answer),
        RunStatus::Queued
        | RunStatus::RequiresAction
        | RunStatus::Completed
        | RunStatus::Failed
        | RunStatus::Cancelled => return,
    };
    after.tables.next = status;
    after.tables.history.push(entry);
    found.push(("the next run of the session advances", after));
}
