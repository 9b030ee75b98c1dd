//! All that can happen next.

use super::driver::Work;
use super::rules::Rules;
use super::state::{Doing, Driver, EFFECT, Entry, Faults, State};
use super::store::Processes;
use crate::domain::run::RunStatus;

/// What happened, and what came of it.
pub(super) type Move = (&'static str, State);

/// Every state that may follow this one.
pub(super) fn moves(state: &State, rules: &Rules, processes: Processes) -> Vec<Move> {
    let mut found = Vec::new();
    for (slot, process) in processes.into_iter().enumerate() {
        match state.drivers[slot] {
            None => claim(state, rules, slot, process, &mut found),
            Some(driver) => {
                go_on(state, rules, (slot, process, driver), &mut found);
                lose(state, (slot, process, driver), &mut found);
                let_go(state, (slot, process, driver), &mut found);
            }
        }
    }
    crash(state, processes, &mut found);
    expire(state, rules, processes, &mut found);
    cancel(state, &mut found);
    run_next(state, rules, &mut found);
    found
}

type Seat = (usize, u8, Driver);

fn claim(state: &State, rules: &Rules, slot: usize, process: u8, found: &mut Vec<Move>) {
    let mut after = *state;
    if let Some(driver) = after.claim(rules, process) {
        after.drivers[slot] = Some(driver);
        found.push(("a worker takes the run up", after));
    }
}

fn go_on(state: &State, rules: &Rules, seat: Seat, found: &mut Vec<Move>) {
    let (slot, process, driver) = seat;
    let mut work = Work { rules, process, driver, state: *state };
    let is_there = work.go_on();
    let mut after = work.state;
    after.drivers[slot] = is_there.then_some(work.driver);
    found.push(("a driver goes on", after));
    // A run hears of its cancellation where it waits for something.
    let waits = matches!(driver.doing, Doing::Wait | Doing::Run(EFFECT) | Doing::Effect);
    if waits && state.tables.is_cancel_requested {
        let mut after = *state;
        after.drivers[slot] = Some(Driver { doing: Doing::Close(RunStatus::Cancelled), ..driver });
        found.push(("a driver hears that its run is cancelled", after));
    }
}

/// The heartbeat, and the worker's own clock.
fn lose(state: &State, (slot, process, _): Seat, found: &mut Vec<Move>) {
    let mut renewed = *state;
    if renewed.renew(process) {
        if renewed != *state {
            found.push(("a lease is renewed", renewed));
        }
    } else {
        renewed.drivers[slot] = None;
        found.push(("a driver hears that its lease is lost", renewed));
    }
    if !state.tables.is_leased {
        let mut after = *state;
        after.drivers[slot] = None;
        found.push(("a worker finds its lease stale", after));
    }
}

/// The process stops, or the database fails the run.
fn let_go(state: &State, (slot, process, driver): Seat, found: &mut Vec<Move>) {
    if state.faults.ends >= Faults::MOST.ends {
        return;
    }
    for has_failed in [false, true] {
        let mut after = *state;
        after.faults.ends += 1;
        after.release(&driver, process, has_failed);
        after.drivers[slot] = None;
        found.push(("a driver lets its run go", after));
    }
}

fn crash(state: &State, processes: Processes, found: &mut Vec<Move>) {
    if state.faults.ends >= Faults::MOST.ends {
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
            found.push(("a process dies", after));
        }
    }
}

/// A lease ends by the database's clock: of a worker that is gone, or of one that only sleeps.
fn expire(state: &State, rules: &Rules, processes: Processes, found: &mut Vec<Move>) {
    if state.tables.status != RunStatus::Running || !state.tables.is_leased {
        return;
    }
    let mut seats = state.drivers.iter().zip(processes);
    let mut after = *state;
    after.tables.is_leased = false;
    let is_held =
        seats.any(|(driver, process)| driver.is_some_and(|driver| state.holds(&driver, process)));
    if !is_held && rules.leases_end {
        found.push(("the lease of a dead worker ends", after));
    } else if is_held && state.faults.expiries < Faults::MOST.expiries {
        after.faults.expiries += 1;
        found.push(("the lease of a living worker ends", after));
    }
}

/// The client asks, at any time.
fn cancel(state: &State, found: &mut Vec<Move>) {
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

/// The session's next run, which needs no more than a turn.
fn run_next(state: &State, rules: &Rules, found: &mut Vec<Move>) {
    let mut after = *state;
    let is_its_turn = state.tables.status.is_terminal() || !rules.runs_wait_in_line;
    let (status, entry) = match state.tables.next {
        RunStatus::Queued if is_its_turn => (RunStatus::Running, Entry::User),
        RunStatus::Running => (RunStatus::Completed, Entry::Answer),
        RunStatus::Queued
        | RunStatus::RequiresAction
        | RunStatus::Completed
        | RunStatus::Failed
        | RunStatus::Cancelled => return,
    };
    after.tables.next = status;
    after.tables.history.push(entry);
    found.push(("the session's next run goes on", after));
}
