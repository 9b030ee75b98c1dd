//! Drives turns and measures their latency and CPU cost.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::task::JoinSet;

use crate::client::{Connection, Turn};
use crate::proc::{cpu, family_cpu};
use crate::process::Process;
use crate::stack::Stack;

pub(crate) const TEXT: &str = "What do the notes say? Read them and tell me in one sentence.";
/// Turns per session before a new session is used, so that histories stay short.
const TURNS_OF_SESSION: usize = 10;

/// The measurements of a number of turns.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    pub(crate) turns: Vec<Turn>,
    elapsed: Duration,
    pub(crate) cost: Cost,
}

/// CPU time by component.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) server: Duration,
    pub(crate) postgres: Duration,
    pub(crate) simulator: Duration,
}

impl Cost {
    /// The CPU time used since the start of the processes.
    fn now(stack: &Stack, server: &Process) -> anyhow::Result<Self> {
        Ok(Self {
            server: cpu(server.pid)?,
            postgres: stack.postmaster.map_or(Ok(Duration::ZERO), family_cpu)?,
            simulator: stack.simulator_pid().map_or(Ok(Duration::ZERO), cpu)?,
        })
    }

    fn since(self, before: Self) -> Self {
        Self {
            server: self.server.saturating_sub(before.server),
            postgres: self.postgres.saturating_sub(before.postgres),
            simulator: self.simulator.saturating_sub(before.simulator),
        }
    }

    fn add(&mut self, other: Self) {
        self.server += other.server;
        self.postgres += other.postgres;
        self.simulator += other.simulator;
    }
}

impl Sample {
    pub(crate) fn add(&mut self, other: Self) {
        self.turns.extend(other.turns);
        self.elapsed += other.elapsed;
        self.cost.add(other.cost);
    }

    pub(crate) fn turns_a_second(&self) -> f64 {
        self.count() / self.elapsed.as_secs_f64()
    }

    /// CPU time per turn, in milliseconds.
    pub(crate) fn cost_a_turn(&self, whose: impl Fn(&Cost) -> Duration) -> f64 {
        whose(&self.cost).as_secs_f64() * 1000.0 / self.count()
    }

    /// A percentile of a duration, in milliseconds.
    pub(crate) fn percentile(&self, percent: usize, of: impl Fn(&Turn) -> Duration) -> f64 {
        let mut times: Vec<Duration> = self.turns.iter().map(of).collect();
        times.sort_unstable();
        let index = (times.len() * percent / 100).min(times.len().saturating_sub(1));
        times.get(index).map_or(0.0, Duration::as_secs_f64) * 1000.0
    }

    fn count(&self) -> f64 {
        u32::try_from(self.turns.len()).map_or(f64::NAN, f64::from)
    }
}

/// A connection and the sessions that it uses one after the other.
pub(crate) struct Client {
    pub(crate) connection: Connection,
    pub(crate) sessions: Vec<String>,
    pub(crate) turns_of_session: usize,
}

/// Drives turns with this many concurrent clients. Sessions are created before the measurement.
pub(crate) async fn drive(
    stack: &Stack,
    server: &Process,
    clients: usize,
    turns: usize,
) -> anyhow::Result<Sample> {
    let mut ready = Vec::new();
    for _ in 0..clients {
        ready.push(client(server.address, turns.div_ceil(clients)).await?);
    }
    measure(stack, server, ready).await
}

async fn client(address: SocketAddr, turns: usize) -> anyhow::Result<Client> {
    let mut connection = Connection::open(address).await?;
    let mut sessions = Vec::new();
    for _ in 0..turns.div_ceil(TURNS_OF_SESSION) {
        sessions.push(connection.create_session().await?);
    }
    Ok(Client { connection, sessions, turns_of_session: TURNS_OF_SESSION })
}

/// Runs all clients concurrently through their sessions.
pub(crate) async fn measure(
    stack: &Stack,
    server: &Process,
    clients: Vec<Client>,
) -> anyhow::Result<Sample> {
    let mut sample = Sample::default();
    let before = Cost::now(stack, server)?;
    let started = Instant::now();
    let mut talks = JoinSet::new();
    for client in clients {
        talks.spawn(talk(client));
    }
    while let Some(turns) = talks.join_next().await {
        sample.turns.extend(turns??);
    }
    sample.elapsed = started.elapsed();
    sample.cost = Cost::now(stack, server)?.since(before);
    Ok(sample)
}

async fn talk(mut client: Client) -> anyhow::Result<Vec<Turn>> {
    let mut turns = Vec::new();
    for session in &client.sessions {
        for _ in 0..client.turns_of_session {
            let turn = client.connection.turn(session, TEXT).await;
            turns.push(turn.with_context(|| format!("in session {session}"))?);
        }
    }
    Ok(turns)
}
