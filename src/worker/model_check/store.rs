//! The effects of the statements of the store: `claim`, `renew`, `release`, `step`.

use super::rules::Rules;
use super::state::{CRASH_LOOP_AFTER, Driver, HistoryEntry, Ledger, Next, State};
use crate::domain::run_status::RunStatus;
use crate::domain::tool::CallState;

/// The changes of a step, a model of [`crate::store::step::StepCommit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Step {
    pub(super) message: Option<HistoryEntry>,
    /// The results, if they are stored together with their reply.
    pub(super) results: Option<HistoryEntry>,
    pub(super) records: Ledger,
    pub(super) look: Option<CallState>,
    pub(super) is_progress: bool,
    pub(super) settles: Option<RunStatus>,
}

/// Two drivers, and the processes that they run in.
pub(super) type Processes = [u8; 2];

impl State {
    /// True if the fence of a driver is valid.
    pub(super) fn holds(&self, driver: &Driver, process: u8) -> bool {
        self.tables.status == RunStatus::Running
            && self.tables.attempt == driver.attempt
            && self.tables.owner == Some(process)
    }

    /// Commits a step. Returns false if it is refused; the driver must stop then.
    pub(super) fn commit(
        &mut self,
        rules: &Rules,
        driver: &Driver,
        process: u8,
        step: Step,
    ) -> bool {
        let holds = self.holds(driver, process);
        let is_result =
            matches!(step.message, Some(HistoryEntry::Results(_) | HistoryEntry::LookResult(_)));
        let is_fenced = rules.steps_are_fenced && (rules.results_are_fenced || !is_result);
        if !holds && is_fenced {
            return false;
        }
        self.ghost.stale_write |= !holds;
        for message in step.message.into_iter().chain(step.results) {
            self.tables.history.push(message);
        }
        self.tables.look = step.look.or(self.tables.look);
        for (row, record) in self.tables.ledger.iter_mut().zip(step.records) {
            *row = record.or(*row);
        }
        if step.is_progress && step.settles.is_none() {
            self.ghost.deaths = 0;
        }
        if step.is_progress && rules.progress_is_noticed {
            self.tables.takeovers = 0;
        }
        if let Some(status) = step.settles {
            self.tables.status = status;
            self.tables.owner = None;
            self.tables.is_leased = false;
        }
        true
    }

    /// Claims the run, from the queue or from a worker whose lease expired.
    pub(super) fn claim(&mut self, rules: &Rules, process: u8) -> Option<Driver> {
        let tables = &mut self.tables;
        let is_expired = tables.status == RunStatus::Running && !tables.is_leased;
        if tables.status != RunStatus::Queued && !is_expired {
            return None;
        }
        let is_takeover = tables.owner.is_some();
        tables.status = RunStatus::Running;
        tables.attempt += 1;
        tables.takeovers += i32::from(is_takeover && rules.takeovers_are_counted);
        tables.owner = Some(process);
        tables.is_leased = true;
        self.ghost.deaths += i32::from(is_takeover);
        self.ghost.is_stuck = self.ghost.deaths >= CRASH_LOOP_AFTER;
        Some(Driver::new(tables.attempt, tables.takeovers, Next::Resume))
    }

    /// Renews the lease if the process still holds it.
    pub(super) fn renew(&mut self, process: u8) -> bool {
        let tables = &mut self.tables;
        let has_it = tables.status == RunStatus::Running && tables.owner == Some(process);
        tables.is_leased |= has_it;
        has_it
    }

    /// Releases the run.
    pub(super) fn release(&mut self, driver: &Driver, process: u8, has_failed: bool) {
        if !self.holds(driver, process) {
            return;
        }
        self.tables.is_leased = false;
        self.tables.owner = None;
        self.tables.takeovers += i32::from(has_failed);
        self.ghost.deaths += i32::from(has_failed);
    }

    /// Takes back the takeover from a driver that lost its lease, or the run from its owner if there
    /// was none yet.
    pub(super) fn take_back_takeover(&mut self, rules: &Rules, driver: &Driver, process: u8) {
        if self.tables.status != RunStatus::Running {
            return;
        }
        if self.holds(driver, process) {
            self.tables.owner = None;
        } else if self.tables.attempt > driver.attempt {
            self.ghost.deaths = (self.ghost.deaths - 1).max(0);
            if rules.lost_leases_are_taken_back {
                self.tables.takeovers = (self.tables.takeovers - 1).max(0);
            }
        }
    }
}
