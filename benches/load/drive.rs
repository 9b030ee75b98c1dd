//! Drives turns and measures their latency and CPU cost.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::task::JoinSet;

use crate::client::Connection;
use crate::proc::{cpu, family_cpu};
use crate::process::Process;
use crate::report::sample::{Cost, Sample, Turn};
use crate::stack::Stack;

pub(crate) const TEXT: &str = "What do the notes say? Read them and tell me in one sentence.";
/// Turns per session before a new session is used, so that histories stay short.
const TURNS_OF_SESSION: usize = 10;

/// The CPU time used since the start of the processes.
fn cost(stack: &Stack, server: &Process) -> anyhow::Result<Cost> {
    Ok(Cost {
        server: cpu(server.pid)?,
        postgres: stack.postmaster.map_or(Ok(Duration::ZERO), family_cpu)?,
        simulator: stack.simulator_pid().map_or(Ok(Duration::ZERO), cpu)?,
    })
}

fn difference(before: Cost, after: Cost) -> Cost {
    Cost {
        server: after.server.saturating_sub(before.server),
        postgres: after.postgres.saturating_sub(before.postgres),
        simulator: after.simulator.saturating_sub(before.simulator),
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
    let before = cost(stack, server)?;
    let started = Instant::now();
    let mut talks = JoinSet::new();
    for client in clients {
        talks.spawn(talk(client));
    }
    while let Some(turns) = talks.join_next().await {
        sample.turns.extend(turns??);
    }
    sample.elapsed = started.elapsed();
    sample.cost = difference(before, cost(stack, server)?);
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
