//! All measurements, one after the other.

use crate::MANY;
use crate::drive::drive;
use crate::held::held;
use crate::history::{LENGTHS, by_history};
use crate::live::live;
use crate::output::note;
use crate::plan::Plan;
use crate::process::Process;
use crate::profile::profile;
use crate::report::figures::{Figures, Held, Live, LiveRuns, Loads};
use crate::report::row::Pair;
use crate::report::sample::Sample;
use crate::report::statements::Profile;
use crate::stack::Stack;
use crate::start::starts;
use crate::stored::stored;

/// The divisor for the number of sequential turns, relative to those under load.
const ONE_IN: u32 = 4;
/// Turns before the first measurement.
const WARM_UP: usize = 128;
/// The largest number of rounds of measurements that take long.
const FEW_ROUNDS: u32 = 3;

pub(crate) async fn measure(plan: &Plan, stack: &Stack) -> anyhow::Result<(Figures, Vec<Profile>)> {
    let mut figures = Figures::default();
    let service = stack.start_service().await?;
    let reference = if plan.has_reference { Some(stack.start_reference().await?) } else { None };
    let servers = Pair { service, reference };
    for server in servers.reference.iter().chain([&servers.service]) {
        drive(stack, server, MANY, WARM_UP).await?;
    }
    for round in 1..=plan.rounds {
        note(&format!("round {round} of {}", plan.rounds));
        figures.loads.push(loads(plan, stack, &servers).await?);
    }
    let profiles = profiles(plan, stack, &servers).await?;
    if plan.has_history {
        figures.histories = histories(plan, stack, &servers.service).await?;
    }
    servers.service.stop().await?;
    if let Some(reference) = servers.reference {
        reference.stop().await?;
    }
    figures.held = held_streams(plan, stack).await?;
    for runs in &plan.live {
        figures.live.push(live_runs(plan, stack, *runs).await?);
    }
    if let Some(sessions) = plan.stored {
        let turns = usize::try_from(plan.turns_of_round())?;
        let rounds = plan.rounds.min(FEW_ROUNDS);
        figures.stored = Some(Box::pin(stored(stack, sessions, rounds, turns)).await?);
    }
    if plan.has_starts {
        note("starts");
        figures.starts = Some(starts(stack).await?);
    }
    Ok((figures, profiles))
}

/// Measures both servers in one round.
async fn loads(plan: &Plan, stack: &Stack, servers: &Pair<Process>) -> anyhow::Result<Pair<Loads>> {
    let reference = match &servers.reference {
        Some(reference) => Some(load(plan, stack, reference).await?),
        None => None,
    };
    Ok(Pair { reference, service: load(plan, stack, &servers.service).await? })
}

async fn load(plan: &Plan, stack: &Stack, server: &Process) -> anyhow::Result<Loads> {
    let turns = plan.turns_of_round();
    let one = drive(stack, server, 1, usize::try_from(turns / ONE_IN)?).await?;
    let many = drive(stack, server, MANY, usize::try_from(turns)?).await?;
    Ok(Loads { one, many })
}

/// Measures the time of each statement. It takes time itself, so these turns are not used elsewhere.
async fn profiles(
    plan: &Plan,
    stack: &Stack,
    servers: &Pair<Process>,
) -> anyhow::Result<Vec<Profile>> {
    let mut profiles = Vec::new();
    if !plan.has_statements {
        return Ok(profiles);
    }
    if !stack.has_statements {
        note("no time of each statement: the server has no pg_stat_statements");
        return Ok(profiles);
    }
    note("statements");
    let turns = plan.turns_of_round();
    for (clients, turns) in [(MANY, turns), (1, turns / ONE_IN)] {
        let name = "service";
        profiles.push(profile(stack, &servers.service, name, clients, turns).await?);
        if let Some(reference) = &servers.reference {
            profiles.push(profile(stack, reference, "reference", clients, turns).await?);
        }
    }
    Ok(profiles)
}

async fn histories(
    plan: &Plan,
    stack: &Stack,
    service: &Process,
) -> anyhow::Result<Vec<Vec<(i32, Sample)>>> {
    let mut rounds = Vec::new();
    for round in 1..=plan.rounds.min(FEW_ROUNDS) {
        note(&format!("long histories, round {round}"));
        let mut samples = Vec::new();
        for length in LENGTHS {
            let sessions = if length > 1_000 { 3 } else { 8 };
            samples.push((length, by_history(stack, service, length, sessions).await?));
        }
        rounds.push(samples);
    }
    Ok(rounds)
}

/// Measures held streams, each server in a new process.
async fn held_streams(plan: &Plan, stack: &Stack) -> anyhow::Result<Option<Held>> {
    let streams = plan.streams;
    if streams == 0 {
        return Ok(None);
    }
    note(&format!("{streams} held streams"));
    let server = stack.start_service().await?;
    let service = held(stack, &server, streams).await?;
    server.stop().await?;
    let mut reference = None;
    if plan.has_reference {
        let server = stack.start_reference().await?;
        reference = Some(held(stack, &server, streams).await?);
        server.stop().await?;
    }
    Ok(Some(Held { streams, bytes: Pair { service, reference } }))
}

/// Measures live runs, each server in a new process and the service on a new database: runs that
/// failed must not disturb a later measurement.
async fn live_runs(plan: &Plan, stack: &Stack, runs: u32) -> anyhow::Result<Live> {
    let seconds = u32::try_from(plan.slow_reply.as_secs())?;
    note(&format!("{runs} live runs of {seconds} s"));
    let server = stack.start_service_on(&stack.create_database().await?).await?;
    let service = outcome(plan, stack, server, runs).await?;
    let mut reference = None;
    if plan.has_reference {
        let server = stack.start_reference().await?;
        reference = Some(outcome(plan, stack, server, runs).await?);
    }
    Ok(Live { runs, seconds, outcome: Pair { service, reference } })
}

async fn outcome(
    plan: &Plan,
    stack: &Stack,
    server: Process,
    runs: u32,
) -> anyhow::Result<LiveRuns> {
    let outcome = live(stack, &server, runs, plan.slow_reply).await?;
    if outcome.errors == 0 {
        server.stop().await?;
    } else {
        server.kill().await?;
    }
    Ok(outcome)
}
