//! The checks after all runs have settled.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use tokio::time::sleep;

use crate::planted::keep_metrics;
use crate::rebuild;
use crate::testbed::{Testbed, locked};

/// The limit for a run to settle after the last fault.
const SETTLED_WITHIN: Duration = Duration::from_mins(1);

impl Testbed {
    /// Waits until all runs have settled, sends one more message to every session, and checks the
    /// stored state.
    pub(crate) async fn settle_and_check(&self) -> anyhow::Result<()> {
        self.settle_within(SETTLED_WITHIN).await?;
        self.check().await
    }

    /// Waits until all runs have settled. A run that does not settle is a violation.
    pub(crate) async fn settle_within(&self, within: Duration) -> anyhow::Result<()> {
        let deadline = Instant::now() + within;
        let open = "SELECT id::text || ' ' || status || ', attempt ' || attempt || ', lease '
                        || coalesce((lease_until - now())::text, 'none') FROM runs
                    WHERE status NOT IN ('completed', 'failed', 'cancelled')";
        loop {
            let left: Vec<String> = sqlx::query_scalar(open).fetch_all(&self.pool).await?;
            if left.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                for run in left {
                    self.violation(&format!("not settled after {} s: run {run}", within.as_secs()));
                }
                return Ok(());
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    async fn check(&self) -> anyhow::Result<()> {
        self.every_session_continues().await?;
        for address in [0, 1].into_iter().filter_map(|index| self.address(index)) {
            keep_metrics(&self.http, &address).await;
        }
        self.check_always(&mut BTreeSet::new()).await;
        self.invariants_hold().await?;
        self.nothing_is_lost().await?;
        self.runs_completed().await?;
        self.effects_happened_once().await?;
        self.events_match_the_history().await?;
        self.model_refused_nothing();
        self.model_calls_match_the_database().await?;
        self.long_sessions_are_compacted().await?;
        self.no_node_wrote_without_a_claim().await?;
        self.takeovers_were_in_time().await?;
        self.connections_are_few().await?;
        self.no_files_are_left();
        self.no_children_are_left().await?;
        Ok(())
    }

    async fn every_session_continues(&self) -> anyhow::Result<()> {
        let sessions = locked(&self.sessions).clone();
        let messages = stream::iter(sessions.iter().enumerate()).map(async |(number, session)| {
            let run = self.post(number % 2, session, &format!("effect.last{number}")).await?;
            if !self.settled(&run, SETTLED_WITHIN).await {
                self.violation(&format!("{session} does not continue: {run} does not settle"));
            }
            anyhow::Ok(())
        });
        messages.buffer_unordered(8).try_collect().await
    }

    async fn invariants_hold(&self) -> anyhow::Result<()> {
        let broken: Vec<(String, String)> =
            sqlx::query_as(include_str!("../support/invariants.sql")).fetch_all(&self.pool).await?;
        self.tally.broken_invariants.add(broken.len());
        for (invariant, location) in broken {
            self.violation(&format!("broken after settling: {invariant} ({location})"));
        }
        Ok(())
    }

    /// Every accepted message is stored, with the run that the client received.
    async fn nothing_is_lost(&self) -> anyhow::Result<()> {
        let rows = "SELECT idempotency_key, 'run_' || replace(id::text, '-', '') FROM runs
                    WHERE idempotency_key IS NOT NULL";
        let rows: Vec<(String, String)> = sqlx::query_as(rows).fetch_all(&self.pool).await?;
        let accepted = locked(&self.accepted).clone();
        for (key, run) in accepted {
            if !rows.contains(&(key.clone(), run.clone())) {
                self.tally.lost.add(1);
                self.violation(&format!("{key} was accepted as {run} and is not stored"));
            }
        }
        Ok(())
    }

    async fn runs_completed(&self) -> anyhow::Result<()> {
        let rows = "SELECT id::text, coalesce(outcome ->> 'error', outcome::text, '') FROM runs
                    WHERE status <> 'completed'
                      AND NOT (status = 'cancelled' AND cancel_requested_at IS NOT NULL)";
        let mut failed: Vec<(String, String)> = sqlx::query_as(rows).fetch_all(&self.pool).await?;
        let counts = "SELECT count(*) FILTER (WHERE status = 'completed'),
                             count(*) FILTER (WHERE status = 'cancelled') FROM runs";
        let (completed, cancelled): (i64, i64) =
            sqlx::query_as(counts).fetch_one(&self.pool).await?;
        self.tally.completed.add(usize::try_from(completed)?);
        self.tally.cancelled.add(usize::try_from(cancelled)?);
        // Repeated faults at the same step end a run with this error, as designed.
        failed.retain(|(_, error)| {
            !error.contains("crash_loop") || {
                self.tally.crash_loops.add(1);
                false
            }
        });
        for (run, error) in failed {
            self.violation(&format!("run {run} did not complete: {error}"));
        }
        Ok(())
    }

    /// Compares the traces outside the database with the ledger.
    async fn effects_happened_once(&self) -> anyhow::Result<()> {
        let text = fs::read_to_string(self.folder.join("witness")).unwrap_or_default();
        let mut traces: HashMap<&str, usize> = HashMap::new();
        for line in text.lines() {
            let (id, _attempt) =
                line.split_once(' ').context("incomplete line in the file of traces")?;
            *traces.entry(id).or_default() += 1;
        }
        self.tally.effects.add(traces.len());
        for (id, times) in &traces {
            if *times > 1 {
                self.tally.doubled_effects.add(1);
                self.violation(&format!("the call {id} ran {times} times"));
            }
        }
        let calls = "SELECT tool_use_id, state FROM tool_calls WHERE name = 'witness'";
        let calls: Vec<(String, String)> = sqlx::query_as(calls).fetch_all(&self.pool).await?;
        for (id, state) in calls {
            let times = traces.remove(id.as_str()).unwrap_or(0);
            let is_right = match state.as_str() {
                "done" => times == 1,
                "interrupted" => times <= 1,
                _ => times == 0,
            };
            if !is_right {
                self.violation(&format!("the call {id} is {state} and left {times} traces"));
            }
        }
        for id in traces.keys() {
            self.violation(&format!("the call {id} left a trace and is not in the ledger"));
        }
        Ok(())
    }

    async fn events_match_the_history(&self) -> anyhow::Result<()> {
        let sessions = locked(&self.sessions).clone();
        for session in sessions {
            let events = self.list(&session, "events").await?;
            let messages = self.list(&session, "messages").await?;
            if let Some(difference) = rebuild::difference(&events, &messages) {
                self.violation(&format!(
                    "the events of {session} differ from its messages: {difference}"
                ));
            }
            let verified = self.get(&format!("/v1/sessions/{session}/verify")).await?;
            if verified["is_valid"] != true {
                self.violation(&format!("the service reports findings: {}", verified["findings"]));
            }
        }
        Ok(())
    }

    fn model_refused_nothing(&self) {
        let refusals = self.simulator.refusals();
        self.tally.refusals.add(refusals.len());
        for refusal in refusals {
            self.violation(&format!("the model refused: {refusal}"));
        }
    }

    async fn no_node_wrote_without_a_claim(&self) -> anyhow::Result<()> {
        let rows = "SELECT node, what, run_id::text FROM crash.zombies";
        let rows: Vec<(String, String, String)> =
            sqlx::query_as(rows).fetch_all(&self.pool).await?;
        self.tally.zombie_writes.add(rows.len());
        for (node, what, run) in rows {
            self.violation(&format!(
                "{node} wrote {what} for the run {run}, which it did not hold"
            ));
        }
        Ok(())
    }

    /// The number of connections is within the sizes of the pools.
    async fn connections_are_few(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(10);
        let rows = "SELECT usename::text, application_name, count(*) FROM pg_stat_activity
                    WHERE datname = current_database() AND usename LIKE 'node_%'
                    GROUP BY 1, 2";
        loop {
            let rows: Vec<(String, String, i64)> =
                sqlx::query_as(rows).fetch_all(&self.pool).await?;
            let limit = |name: &str| match name {
                "twostep api" | "twostep admission" | "twostep worker" => 8,
                "twostep bus" => 2,
                _ => 1,
            };
            let Some((node, name, count)) =
                rows.into_iter().find(|(_, name, count)| *count > limit(name))
            else {
                return Ok(());
            };
            if Instant::now() > deadline {
                self.violation(&format!("{node} has {count} connections as {name:?}"));
                return Ok(());
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    fn no_files_are_left(&self) {
        for file in temporary_files(&self.folder.join("work")) {
            self.violation(&format!("a temporary file is left: {file}"));
        }
    }

    async fn no_children_are_left(&self) -> anyhow::Result<()> {
        for node in &self.nodes {
            let Some(pid) = node.process.lock().await.as_ref().map(|process| process.pid) else {
                continue;
            };
            let path = format!("/proc/{0}/task/{0}/children", pid.as_raw_nonzero());
            let children = fs::read_to_string(path).unwrap_or_default();
            if !children.trim().is_empty() {
                self.violation(&format!("a node has children: {children}"));
            }
        }
        Ok(())
    }
}

/// Returns the temporary files under a folder.
fn temporary_files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(temporary_files(&path));
        } else if entry.file_name().to_string_lossy().starts_with(".twostep-") {
            found.push(path.display().to_string());
        }
    }
    found
}
