//! All measurements of a run.

use super::row::Pair;
use super::sample::{Sample, Turn};

/// All measurements.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// The samples of both servers under load, by round.
    pub(crate) loads: Vec<Pair<Loads>>,
    /// Samples of the service by length of history, for each round.
    pub(crate) histories: Vec<Vec<(i32, Sample)>>,
    pub(crate) held: Option<Held>,
    pub(crate) live: Vec<Live>,
    pub(crate) stored: Option<Stored>,
    pub(crate) starts: Option<Starts>,
}

/// The samples of one server under load.
#[derive(Debug, Default, Clone)]
pub(crate) struct Loads {
    pub(crate) one: Sample,
    pub(crate) many: Sample,
}

/// The memory of the servers per idle held stream, in bytes.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) streams: u32,
    pub(crate) bytes: Pair<f64>,
}

/// Many runs at the same time, each with a slow reply.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) runs: u32,
    /// The duration of a reply.
    pub(crate) seconds: u32,
    pub(crate) outcome: Pair<LiveRuns>,
}

/// The outcome of live runs on one server.
#[derive(Debug, Default)]
pub(crate) struct LiveRuns {
    pub(crate) completed: Vec<Turn>,
    /// The number of runs that failed or did not complete in time.
    pub(crate) errors: u32,
    /// The memory of the server per live run, in bytes, while all are live.
    pub(crate) bytes: f64,
}

/// Turns of the service on a database with many stored sessions, and, as reference, on an empty one.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) sessions: u32,
    pub(crate) rounds: Vec<Pair<Sample>>,
}

/// Times from start to ready, in milliseconds.
#[derive(Debug)]
pub(crate) struct Starts {
    /// On a running database.
    pub(crate) warm: f64,
    /// With a private database server that must be created.
    pub(crate) first_private_postgres: f64,
    /// With a private database server that exists already.
    pub(crate) later_private_postgres: f64,
}
