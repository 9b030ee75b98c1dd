//! One message and its run.

use std::pin::pin;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::{Interval, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::run::{Approval, Run};
use crate::cli::client::{Client, Failure, Following, Update};
use crate::cli::json::non_empty_string;
use crate::domain::permission::Decision;
use crate::domain::run_status::RunStatus;

/// A run that a command follows.
#[derive(Debug)]
pub(in crate::cli) struct Turn {
    client: Client,
    session: String,
    run: String,
    following: Following,
    /// The times at which the caller is notified that the run still waits.
    seconds: Interval,
    /// Cancelled when the run must be stopped.
    stop: CancellationToken,
    /// True after the service was asked to stop the run.
    is_stopped: bool,
}

/// Creates a session and returns its id.
pub(in crate::cli) async fn new_session(client: &Client, body: &Value) -> Result<String, Failure> {
    // Not retried: a second session would appear in the list.
    let session = client.post(&["sessions"]).json(body).once().send().await?;
    match non_empty_string(&session, "id") {
        Some(id) => Ok(id.to_owned()),
        None => Err(Failure::unexpected(client, "the body is not a session")),
    }
}

impl Turn {
    /// Posts a message. It is retried with the same idempotency key, so it is accepted once.
    pub(in crate::cli) async fn begin(
        client: &Client,
        session: &str,
        message: &Value,
        stop: CancellationToken,
    ) -> Result<Self, Failure> {
        let key = Uuid::now_v7().to_string();
        let post = client.post(&["sessions", session, "messages"]).header("idempotency-key", &key);
        let run = Run::read(client, post.json(message).send().await?)?;
        Ok(Self::of(client, session, &run.id, stop))
    }

    /// Follows a run that already exists.
    pub(in crate::cli) fn of(
        client: &Client,
        session: &str,
        run: &str,
        stop: CancellationToken,
    ) -> Self {
        let mut seconds = interval(Duration::from_secs(1));
        seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            seconds,
            client: client.clone(),
            session: session.to_owned(),
            run: run.to_owned(),
            following: Following::new(client, session, run),
            stop,
            is_stopped: false,
        }
    }

    /// Follows the run until it settles or waits for an action. A run that must be stopped is
    /// followed until it settles.
    pub(in crate::cli) async fn follow(
        &mut self,
        mut see: impl FnMut(&Update),
    ) -> Result<Run, Failure> {
        loop {
            let update = tokio::select! {
                biased;
                () = self.stop.cancelled(), if !self.is_stopped => {
                    self.cancel().await?;
                    self.is_stopped = true;
                    continue;
                }
                update = reporting_waits(&mut self.seconds, self.following.next(), || see(&Update::Waiting)) => update?,
            };
            if let Some(update) = update {
                see(&update);
                continue;
            }
            let run = self.read().await?;
            let is_waiting = run.status == RunStatus::RequiresAction;
            let must_settle = self.is_stopped || self.stop.is_cancelled();
            if run.status.is_terminal() || (is_waiting && !must_settle) {
                return Ok(run);
            }
            self.following.resume();
        }
    }

    /// Returns the calls that wait for an approval.
    pub(in crate::cli) async fn approvals(&self) -> Result<Vec<Approval>, Failure> {
        Approval::list(&self.client, &self.session).await
    }

    /// Decides on a call. An earlier decision of another client stays in force.
    pub(in crate::cli) async fn decide(
        &mut self,
        tool_use_id: &str,
        decision: Decision,
        mut more: Map<String, Value>,
    ) -> Result<(), Failure> {
        more.insert("decision".to_owned(), json!(decision));
        let path = ["sessions", &*self.session, "approvals", tool_use_id];
        let decided = self.client.post(&path).json(&more.into()).send().await;
        self.following.resume();
        match decided {
            Err(failure) if !is_decided(&failure) => Err(failure),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    async fn cancel(&self) -> Result<(), Failure> {
        let path = ["sessions", &*self.session, "runs", &*self.run, "cancel"];
        self.client.post(&path).send().await.map(|_| ())
    }

    async fn read(&self) -> Result<Run, Failure> {
        let path = ["sessions", &*self.session, "runs", &*self.run];
        Run::read(&self.client, self.client.get(&path).send().await?)
    }
}

/// Calls `waits` every second until the work is done. The work is never dropped, because a reconnect
/// would start again.
async fn reporting_waits<T>(
    seconds: &mut Interval,
    work: impl Future<Output = T>,
    mut waits: impl FnMut(),
) -> T {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            _ = seconds.tick() => waits(),
        }
    }
}

/// Returns true if a decision was rejected because the call no longer waits.
fn is_decided(failure: &Failure) -> bool {
    let codes = ["approval_not_found", "already_resolved", "call_not_waiting", "approval_expired"];
    failure.code().is_some_and(|code| codes.contains(&code))
}
