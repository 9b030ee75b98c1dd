//! One moment of everything: the tables, the drivers, the world outside, and what has gone wrong.

use crate::domain::run::RunStatus;
use crate::domain::tool::CallState;

/// The calls of the one reply that has calls: one pure, one checkable, one with effects.
pub(super) const CALLS: usize = 3;
/// The place of the call that writes a file.
pub(super) const WRITE: usize = 1;
/// The place of the call whose effects nobody can look at.
pub(super) const EFFECT: usize = 2;

/// A message of the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Entry {
    User,
    Calls,
    Results([CallState; CALLS]),
    Answer,
}

/// Messages in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct History([Option<Entry>; 8]);

impl History {
    pub(super) fn push(&mut self, entry: Entry) {
        let free = self.0.iter_mut().find(|place| place.is_none());
        *free.expect("a history of at most eight messages") = Some(entry);
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = Entry> {
        self.0.iter().flatten().copied()
    }

    pub(super) fn contains(&self, entry: Entry) -> bool {
        self.0.contains(&Some(entry))
    }
}

/// A row of the ledger. A row of the call that writes has its hashes from its beginning on.
pub(super) type Ledger = [Option<CallState>; CALLS];

/// What the database holds of the run and its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Tables {
    pub(super) status: RunStatus,
    pub(super) is_crash_loop: bool,
    pub(super) attempt: u8,
    pub(super) owner: Option<u8>,
    /// Whether the lease runs, by the database's clock.
    pub(super) is_leased: bool,
    pub(super) takeovers: i32,
    pub(super) is_cancel_requested: bool,
    pub(super) history: History,
    pub(super) ledger: Ledger,
    /// The run behind this one in the session's queue.
    pub(super) next: RunStatus,
}

/// What a driver is about to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Doing {
    /// Read what is stored.
    Resume,
    /// Store that it goes on.
    Announce,
    /// Ask the loop.
    Decide,
    /// Wait for the model, and store its reply.
    Wait,
    /// Store the rows of the reply's calls; only if that is not one commit with it.
    Plan,
    /// Call the tool at this place.
    Run(usize),
    /// Write the file: the lease was good a moment ago.
    Write,
    /// Come to the end of the call with effects, which have begun.
    Effect,
    /// Read what is stored, to settle the run.
    Close(RunStatus),
    /// Settle it.
    Settle(RunStatus),
}

/// A driver: what one worker knows of the run that it took up, and what it does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Driver {
    pub(super) attempt: u8,
    pub(super) takeovers: i32,
    pub(super) doing: Doing,
    /// The messages that it has seen.
    pub(super) history: History,
    pub(super) is_resumed: bool,
    /// The ledger as it read it, if it did.
    pub(super) ledger: Option<Ledger>,
    /// The results in its hands, and which of them the ledger has.
    pub(super) results: Ledger,
    pub(super) recorded: [bool; CALLS],
}

impl Driver {
    pub(super) fn new(attempt: u8, takeovers: i32, doing: Doing) -> Self {
        Self {
            attempt,
            takeovers,
            doing,
            history: History::default(),
            is_resumed: false,
            ledger: None,
            results: [None; CALLS],
            recorded: [false; CALLS],
        }
    }

    /// Has no calls in its hands any more.
    pub(super) fn forget_calls(&mut self) {
        self.is_resumed = false;
        self.ledger = None;
        self.results = [None; CALLS];
        self.recorded = [false; CALLS];
    }
}

/// What has gone wrong so far; each kind may happen so often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Faults {
    /// Processes that died, and runs that were let go.
    pub(super) ends: u8,
    /// Leases that ended while their worker lived.
    pub(super) expiries: u8,
}

impl Faults {
    /// The most that the search looks at.
    pub(super) const MOST: Self = Self { ends: 2, expiries: 2 };
}

/// What nobody in the service sees, and the laws speak of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Witness {
    /// Whether the file is as the call leaves it.
    pub(super) is_written: bool,
    /// How often the call with effects has begun.
    pub(super) effects: u8,
    /// Claims since a step was committed that got the run further.
    pub(super) claims_in_vain: i32,
    /// Whether a step was written by a driver that had lost the run.
    pub(super) stale_write: bool,
}

/// One moment of everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) tables: Tables,
    pub(super) drivers: [Option<Driver>; 2],
    pub(super) faults: Faults,
    pub(super) witness: Witness,
}

impl State {
    /// A run that waits in the queue.
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
                next: RunStatus::Queued,
            },
            drivers: [None; 2],
            faults: Faults::default(),
            witness: Witness::default(),
        }
    }

    /// A run that began when its message was accepted, in the hands of the first driver.
    pub(super) fn handed_over() -> Self {
        let mut state = Self::queued();
        state.tables.status = RunStatus::Running;
        state.tables.attempt = 1;
        state.tables.owner = Some(0);
        state.tables.is_leased = true;
        state.tables.history.push(Entry::User);
        let mut driver = Driver::new(1, 0, Doing::Decide);
        driver.history = state.tables.history;
        state.drivers[0] = Some(driver);
        state
    }

    /// The same moment without what makes no difference any more, so that it is looked at once.
    pub(super) fn reduced(mut self) -> Self {
        let newest = self.tables.attempt;
        for driver in self.drivers.iter_mut().flatten() {
            // Only whether it is the newest counts: an attempt that is not will never be.
            driver.attempt = u8::from(driver.attempt == newest && newest > 0);
            if driver.doing != Doing::Resume {
                driver.takeovers = 0;
            }
        }
        self.tables.attempt = newest.min(1);
        if self.tables.status.is_terminal() {
            self.tables.is_cancel_requested = false;
            self.tables.takeovers = 0;
            if !self.tables.is_crash_loop {
                self.witness.claims_in_vain = 0;
            }
            if self.drivers == [None; 2] {
                self.faults = Faults::MOST;
            }
        }
        self
    }

    /// Whether nothing is left to do.
    pub(super) fn is_at_rest(&self) -> bool {
        self.tables.status.is_terminal()
            && self.tables.next.is_terminal()
            && self.drivers.iter().all(Option::is_none)
    }
}
