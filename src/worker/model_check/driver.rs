//! The next step of a driver: the order of statements as in `run::driver` and `tool_round::execute`,
//! the decisions by the code that these call.

use super::mapping::{calls, file, next_step, rows};
use super::rules::Rules;
use super::state::{
    CALLS, CRASH_LOOP_AFTER, Driver, EFFECT, HistoryEntry, Ledger, Next, State, WRITE,
};
use super::store::Step;
use crate::agent;
use crate::domain::call_end::RunEnd;
use crate::domain::run_status::RunStatus;
use crate::domain::tool::CallState;
use crate::worker::tool_round::ledger::{AfterCrash, after_crash};
use crate::worker::tool_round::plan::{Closing, ToolRound};

/// The end of a call without a result when its run ends.
const INTERRUPTED: CallState = CallState::Interrupted;

/// A driver, and the state that it changes.
pub(super) struct Work<'a> {
    pub(super) rules: &'a Rules,
    pub(super) process: u8,
    pub(super) driver: Driver,
    pub(super) state: State,
}

impl Work<'_> {
    /// Takes the next step. Returns false if the driver has ended.
    pub(super) fn advance(&mut self) -> bool {
        match self.driver.next {
            Next::Resume => self.resume(),
            Next::Announce => self.announce(),
            Next::Decide => self.decide(),
            Next::Wait => self.end_request(),
            Next::Round => self.store_round(),
            Next::Plan => self.plan(),
            Next::Run(WRITE) => self.check_lease(),
            Next::Run(_) => self.begin_effect(),
            Next::Write => self.write(),
            Next::Effect => self.end_call(EFFECT, CallState::Done),
            Next::Close(status) => self.close(status),
            Next::Settle(status) => self.settle(status),
        }
    }

    fn next(&mut self, next: Next) -> bool {
        self.driver.next = next;
        true
    }

    fn commit(&mut self, step: Step) -> bool {
        self.state.commit(self.rules, &self.driver, self.process, step)
    }

    fn resume(&mut self) -> bool {
        if self.rules.drivers_resume {
            self.driver.history = self.state.tables.history;
        }
        self.driver.is_resumed = self.driver.history.contains(HistoryEntry::User);
        if self.driver.takeovers >= CRASH_LOOP_AFTER {
            return self.next(Next::Close(RunStatus::Failed));
        }
        self.next(Next::Announce)
    }

    fn announce(&mut self) -> bool {
        let message = (!self.driver.is_resumed).then_some(HistoryEntry::User);
        if let Some(message) = message {
            self.driver.history.push(message);
        }
        let step = Step { message, is_progress: message.is_some(), ..Step::default() };
        self.commit(step) && self.next(Next::Decide)
    }

    fn decide(&mut self) -> bool {
        match next_step(&self.driver.history) {
            agent::Step::CallModel { .. } | agent::Step::Exhausted(_) => self.next(Next::Wait),
            agent::Step::CallTools(_) => self.call_tools(),
            agent::Step::Finish(_) => unreachable!("a run settles with its last reply"),
        }
    }

    /// The step that is being committed comes before the reply.
    fn end_request(&mut self) -> bool {
        if self.driver.pending.is_none() || !self.rules.replies_wait_for_results {
            return self.store_reply();
        }
        self.finish()
    }

    /// Commits the step that is being committed, if there is one. Returns false if it is refused.
    pub(super) fn finish(&mut self) -> bool {
        self.driver.pending.take().is_none_or(|step| self.commit(step))
    }

    /// Runs the calls of a reply that is not stored yet, if the model can reply with such calls.
    pub(super) fn run_early(&mut self) -> bool {
        let is_waiting = self.driver.next == Next::Wait && self.driver.pending.is_none();
        if !is_waiting || self.has_called() {
            return false;
        }
        if !self.rules.early_calls_are_pure {
            self.state.ghost.is_written = true;
            self.state.ghost.effects += 1;
        }
        self.next(Next::Round)
    }

    /// Stores a reply whose calls have ended, with their results.
    fn store_round(&mut self) -> bool {
        let done = CallState::Done;
        let step = if self.rules.early_calls_are_pure {
            let (reply, results) = (HistoryEntry::Look, HistoryEntry::LookResult(done));
            let look = Some(done);
            Step { message: Some(reply), results: Some(results), look, ..Step::default() }
        } else {
            let (reply, results) = (HistoryEntry::Calls, HistoryEntry::Results([done; CALLS]));
            let records = [Some(done); CALLS];
            Step { message: Some(reply), results: Some(results), records, ..Step::default() }
        };
        for message in step.message.into_iter().chain(step.results) {
            self.driver.history.push(message);
        }
        self.commit(Step { is_progress: true, ..step }) && self.next(Next::Decide)
    }

    /// Stores the reply with one quick call, which has not ended in time.
    pub(super) fn store_look(&mut self) -> bool {
        if self.driver.next != Next::Round || !self.rules.early_calls_are_pure {
            return false;
        }
        let (message, look) = (Some(HistoryEntry::Look), Some(CallState::Planned));
        self.driver.history.push(HistoryEntry::Look);
        self.commit(Step { message, look, is_progress: true, ..Step::default() })
            && self.next(Next::Decide)
    }

    fn has_called(&self) -> bool {
        let history = &self.driver.history;
        history.contains(HistoryEntry::Calls) || history.contains(HistoryEntry::Look)
    }

    fn store_reply(&mut self) -> bool {
        let has_called = self.has_called();
        let reply = if has_called { HistoryEntry::Answer } else { HistoryEntry::Calls };
        let is_planned = !has_called && self.rules.plans_come_with_the_reply;
        let step = Step {
            message: Some(reply),
            records: if is_planned { [Some(CallState::Planned); CALLS] } else { [None; CALLS] },
            is_progress: true,
            settles: has_called.then_some(RunStatus::Completed),
            ..Step::default()
        };
        self.driver.history.push(reply);
        let is_stored = self.commit(step);
        let next = if is_planned || has_called { Next::Decide } else { Next::Plan };
        is_stored && !has_called && self.next(next)
    }

    fn plan(&mut self) -> bool {
        let records = [Some(CallState::Planned); CALLS];
        self.commit(Step { records, is_progress: true, ..Step::default() })
            && self.next(Next::Decide)
    }

    /// The next of the calls, or their results if all have ended.
    fn call_tools(&mut self) -> bool {
        if self.driver.history.last() == Some(HistoryEntry::Look) {
            return self.answer_look();
        }
        if self.driver.is_resumed && self.driver.ledger.is_none() {
            self.read_ledger();
        }
        let Some(position) = self.driver.results.iter().position(Option::is_none) else {
            return self.answer();
        };
        if position < WRITE {
            // The time at which a call without effects runs makes no difference.
            self.driver.results[position] = Some(CallState::Done);
            return self.call_tools();
        }
        let calls = calls();
        let round = ToolRound::new(&calls, rows(self.driver.ledger));
        let row = round.open(position).expect("a call without a result");
        let now = (position == WRITE).then(|| Some(file(self.state.ghost.is_written)));
        match after_crash(row, now.as_ref()) {
            AfterCrash::Done(_) => self.end_call(position, CallState::Done),
            AfterCrash::Unknown if self.rules.effects_are_not_repeated || position != EFFECT => {
                self.end_call(position, CallState::Interrupted)
            }
            AfterCrash::Unknown | AfterCrash::Run => self.start(position),
        }
    }

    fn read_ledger(&mut self) {
        let ledger = self.state.tables.ledger;
        let calls = calls();
        let recorded = ToolRound::new(&calls, rows(Some(ledger))).into_results().results;
        for (position, call) in calls.iter().enumerate() {
            let result = recorded.iter().find(|result| result.tool_use_id == call.tool_use_id);
            self.driver.results[position] = result.map(|result| result.state);
            self.driver.recorded[position] = result.is_some();
        }
        self.driver.ledger = Some(ledger);
    }

    fn end_call(&mut self, position: usize, state: CallState) -> bool {
        self.driver.results[position] = Some(state);
        self.next(Next::Decide)
    }

    /// Records the earlier results first, then the start of this call.
    fn start(&mut self, position: usize) -> bool {
        let records = self.unrecorded();
        if records != [None; CALLS] {
            self.driver.recorded = self.driver.results.map(|result| result.is_some());
            return self.commit(Step { records, is_progress: true, ..Step::default() });
        }
        if !self.rules.starts_are_recorded {
            return self.next(Next::Run(position));
        }
        let mut records = [None; CALLS];
        records[position] = Some(CallState::Started);
        self.commit(Step { records, is_progress: true, ..Step::default() })
            && self.next(Next::Run(position))
    }

    fn unrecorded(&self) -> Ledger {
        let mut records = self.driver.results;
        for (record, is_recorded) in records.iter_mut().zip(self.driver.recorded) {
            *record = record.filter(|_| !is_recorded);
        }
        records
    }

    /// The tool checks the lease right before it moves the file into place.
    fn check_lease(&mut self) -> bool {
        let is_fresh = self.state.tables.is_leased || self.state.tables.status.is_terminal();
        is_fresh && self.next(Next::Write)
    }

    fn write(&mut self) -> bool {
        self.state.ghost.is_written = true;
        self.end_call(WRITE, CallState::Done)
    }

    fn begin_effect(&mut self) -> bool {
        self.state.ghost.effects += 1;
        self.next(Next::Effect)
    }

    fn answer(&mut self) -> bool {
        let results =
            HistoryEntry::Results(self.driver.results.map(|result| result.expect("ended")));
        let step = Step {
            message: Some(results),
            records: self.unrecorded(),
            is_progress: true,
            ..Step::default()
        };
        self.driver.pending = Some(step);
        self.driver.history.push(results);
        self.driver.forget_calls();
        self.next(Next::Decide)
    }

    fn answer_look(&mut self) -> bool {
        let result = HistoryEntry::LookResult(CallState::Done);
        let (message, look) = (Some(result), Some(CallState::Done));
        self.driver.pending = Some(Step { message, look, is_progress: true, ..Step::default() });
        self.driver.history.push(result);
        self.driver.forget_calls();
        self.next(Next::Decide)
    }

    /// The state in memory may differ from the stored one: the calls are closed by the ledger.
    fn close(&mut self, status: RunStatus) -> bool {
        self.driver.forget_calls();
        self.driver.history = self.state.tables.history;
        let is_begun = self.driver.history.contains(HistoryEntry::User);
        let closes = is_begun && self.rules.open_calls_are_closed;
        let is_looking = self.driver.history.last() == Some(HistoryEntry::Look);
        if closes
            && !is_looking
            && matches!(next_step(&self.driver.history), agent::Step::CallTools(_))
        {
            let ledger = self.state.tables.ledger;
            let calls = calls();
            let mut round = ToolRound::new(&calls, rows(Some(ledger)));
            let end = if status == RunStatus::Failed { RunEnd::Failure } else { RunEnd::Client };
            round.close(Closing { end, is_driven: true });
            for (position, result) in round.into_results().results.iter().enumerate() {
                self.driver.results[position] = Some(result.state);
            }
        }
        self.next(Next::Settle(status))
    }

    fn settle(&mut self, status: RunStatus) -> bool {
        let results = self.driver.results;
        let message = results[0].map(|_| {
            HistoryEntry::Results(
                results.map(|result| result.expect("all calls are closed together")),
            )
        });
        let is_looking = self.driver.history.last() == Some(HistoryEntry::Look);
        let look = (is_looking && self.rules.open_calls_are_closed).then_some(INTERRUPTED);
        let step = Step {
            message: message.or(look.map(HistoryEntry::LookResult)),
            records: results,
            look,
            is_progress: true,
            settles: Some(status),
            ..Step::default()
        };
        if self.commit(step) && status == RunStatus::Failed {
            self.state.tables.is_crash_loop = true;
        }
        false
    }
}
