//! The state of the model: the tables, the drivers, the effects outside, and the faults so far.

use super::store::Step;
use crate::domain::run_status::RunStatus;
use crate::domain::tool::CallState;

/// The calls of the one reply that has calls: one pure, one checkable, one with effects.
pub(super) const CALLS: usize = 3;
/// The position of the call that writes a file.
pub(super) const WRITE: usize = 1;
/// The position of the call whose effects cannot be checked.
pub(super) const EFFECT: usize = 2;

/// A message of the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum HistoryEntry {
    User,
    Calls,
    Results([CallState; CALLS]),
    /// A reply with one quick call without effects, in place of the reply with calls.
    Look,
    LookResult(CallState),
    Answer,
}

/// Messages in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct History([Option<HistoryEntry>; 8]);

impl History {
    pub(super) fn push(&mut self, entry: HistoryEntry) {
        let free = self.0.iter_mut().find(|entry| entry.is_none());
        *free.expect("a history of at most eight messages") = Some(entry);
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = HistoryEntry> {
        self.0.iter().flatten().copied()
    }

    pub(super) fn last(&self) -> Option<HistoryEntry> {
        self.entries().last()
    }

    pub(super) fn contains(&self, entry: HistoryEntry) -> bool {
        self.0.contains(&Some(entry))
    }
}

/// The rows of the ledger. The row of the call that writes has its hashes from its start on.
pub(super) type Ledger = [Option<CallState>; CALLS];

/// The rows of the run and its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Tables {
    pub(super) status: RunStatus,
    pub(super) is_crash_loop: bool,
    pub(super) attempt: u8,
    pub(super) owner: Option<u8>,
    /// The lease is valid, by the clock of the database.
    pub(super) is_leased: bool,
    pub(super) takeovers: i32,
    pub(super) is_cancel_requested: bool,
    pub(super) history: History,
    pub(super) ledger: Ledger,
    /// The row of the quick call.
    pub(super) look: Option<CallState>,
    /// The run after this one in the queue of the session.
    pub(super) next: RunStatus,
}

/// The next step of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Next {
    /// Read the stored messages.
    Resume,
    /// Store that the run continues.
    Announce,
    /// Ask the agent loop.
    Decide,
    /// Wait for the model, and store its reply.
    Wait,
    /// Store a reply together with the results of its calls, which have ended.
    Round,
    /// Store the rows of the calls, if that is not one commit with the reply.
    Plan,
    /// Run the call at this position.
    Run(usize),
    /// Write the file, after the lease was found valid.
    Write,
    /// End the call with effects, which have begun.
    Effect,
    /// Read the stored messages, to settle the run.
    Close(RunStatus),
    /// Settle the run.
    Settle(RunStatus),
}

/// Deaths of workers after which a run fails: fewer than in the service, so that the search gets there.
pub(super) const CRASH_LOOP_AFTER: i32 = 3;

/// A driver: the knowledge of one worker about the run that it claimed, and its next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Driver {
    pub(super) attempt: u8,
    pub(super) takeovers: i32,
    pub(super) next: Next,
    /// The messages that it has read.
    pub(super) history: History,
    pub(super) is_resumed: bool,
    /// The ledger as it was read, if it was.
    pub(super) ledger: Option<Ledger>,
    /// The results in memory, and which of them are in the ledger.
    pub(super) results: Ledger,
    pub(super) recorded: [bool; CALLS],
    /// The step that is being committed while the driver waits for the model.
    pub(super) pending: Option<Step>,
}

impl Driver {
    pub(super) fn new(attempt: u8, takeovers: i32, next: Next) -> Self {
        Self {
            attempt,
            takeovers,
            next,
            history: History::default(),
            is_resumed: false,
            ledger: None,
            results: [None; CALLS],
            recorded: [false; CALLS],
            pending: None,
        }
    }

    /// Drops the calls in memory.
    pub(super) fn forget_calls(&mut self) {
        self.is_resumed = false;
        self.ledger = None;
        self.results = [None; CALLS];
        self.recorded = [false; CALLS];
    }
}

/// The number of faults so far, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Faults {
    /// Processes that stopped, and runs that were released.
    pub(super) ends: u8,
    /// Leases that expired while their worker was running.
    pub(super) expiries: u8,
}

impl Faults {
    /// The maximum of the search.
    pub(super) const MAX: Self = Self { ends: 2, expiries: 2 };
}

/// State that the service does not have and the invariants need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Ghost {
    /// The file is as the call leaves it.
    pub(super) is_written: bool,
    /// The number of starts of the call with effects.
    pub(super) effects: u8,
    /// Deaths of workers, and failures, since the last committed step with progress.
    pub(super) deaths: i32,
    /// The newest claim came after too many of them.
    pub(super) is_stuck: bool,
    /// A driver that had lost the run has written a step.
    pub(super) stale_write: bool,
}

/// One state of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) tables: Tables,
    pub(super) drivers: [Option<Driver>; 2],
    pub(super) faults: Faults,
    pub(super) ghost: Ghost,
}

impl State {
    /// A queued run.
    pub(super) fn queued() -> Self {
        Self {
            tables: Tables {
                status: RunStatus::Queued,
                is_crash_loop: false,
                attempt: 0,
                owner: None,
                is_leased: false,
                takeovers: 0,
                is_cancel_requested: false,
                history: History::default(),
                ledger: [None; CALLS],
                look: None,
                next: RunStatus::Queued,
            },
            drivers: [None; 2],
            faults: Faults::default(),
            ghost: Ghost::default(),
        }
    }

    /// A run that began when its message was accepted, held by the first driver.
    pub(super) fn handed_over() -> Self {
        let mut state = Self::queued();
        state.tables.status = RunStatus::Running;
        state.tables.attempt = 1;
        state.tables.owner = Some(0);
        state.tables.is_leased = true;
        state.tables.history.push(HistoryEntry::User);
        let mut driver = Driver::new(1, 0, Next::Decide);
        driver.history = state.tables.history;
        state.drivers[0] = Some(driver);
        state
    }

    /// The state without values that no longer make a difference, so that equivalent states are visited
    /// once.
    pub(super) fn reduced(mut self) -> Self {
        let newest = self.tables.attempt;
        for driver in self.drivers.iter_mut().flatten() {
            // Only the latest attempt matters: an older attempt never becomes the latest.
            driver.attempt = u8::from(driver.attempt == newest && newest > 0);
            if driver.next != Next::Resume {
                driver.takeovers = 0;
            }
        }
        self.tables.attempt = newest.min(1);
        if self.tables.status.is_terminal() {
            self.tables.is_cancel_requested = false;
            self.tables.takeovers = 0;
            if !self.tables.is_crash_loop {
                self.ghost.deaths = 0;
                self.ghost.is_stuck = false;
            }
            if self.drivers == [None; 2] {
                self.faults = Faults::MAX;
            }
        }
        self
    }

    /// True if nothing remains to be done.
    pub(super) fn is_terminal(&self) -> bool {
        self.tables.status.is_terminal()
            && self.tables.next.is_terminal()
            && self.drivers.iter().all(Option::is_none)
    }
}
