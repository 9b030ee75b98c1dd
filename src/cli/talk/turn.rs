//! One message and the run that it starts, to the end.

use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::run::{Approval, Run};
use crate::cli::client::{Came, Client, Failure, Following};
use crate::cli::json::some_word;
use crate::domain::permission::Decision;
use crate::domain::run::RunStatus;

/// A run that somebody waits for.
#[derive(Debug)]
pub(in crate::cli) struct Turn {
    client: Client,
    session: String,
    run: String,
    following: Following,
    /// Fires when the run is to be stopped.
    stop: CancellationToken,
    /// Whether the service has been asked to stop it.
    is_stopped: bool,
}

/// Makes a session, and tells its id.
pub(in crate::cli) async fn new_session(client: &Client, body: &Value) -> Result<String, Failure> {
    // A second one would be in nobody's way, and in everybody's list.
    let session = client.post(&["sessions"]).json(body).once().send().await?;
    match some_word(&session, "id") {
        Some(id) => Ok(id.to_owned()),
        None => Err(Failure::strange(client, "with something that is no session")),
    }
}

impl Turn {
    /// Posts a message. Should the answer be lost it is posted again, and is one message.
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

    /// Takes part in a run that is under way.
    pub(in crate::cli) fn of(
        client: &Client,
        session: &str,
        run: &str,
        stop: CancellationToken,
    ) -> Self {
        Self {
            client: client.clone(),
            session: session.to_owned(),
            run: run.to_owned(),
            following: Following::new(client, session, run),
            stop,
            is_stopped: false,
        }
    }

    /// Follows the run until it rests. One that is to be stopped rests when it has settled.
    pub(in crate::cli) async fn rest(
        &mut self,
        mut see: impl FnMut(&Came),
    ) -> Result<Run, Failure> {
        loop {
            let came = tokio::select! {
                biased;
                () = self.stop.cancelled(), if !self.is_stopped => {
                    self.cancel().await?;
                    self.is_stopped = true;
                    continue;
                }
                came = self.following.next() => came?,
            };
            if let Some(came) = came {
                see(&came);
                continue;
            }
            let run = self.read().await?;
            let is_waiting = run.status == RunStatus::RequiresAction;
            let must_settle = self.is_stopped || self.stop.is_cancelled();
            if run.status.is_terminal() || (is_waiting && !must_settle) {
                return Ok(run);
            }
            self.following.go_on();
        }
    }

    /// The calls that wait for a decision.
    pub(in crate::cli) async fn approvals(&self) -> Result<Vec<Approval>, Failure> {
        Approval::list(&self.client, &self.session).await
    }

    /// Decides on a call. Where somebody else was quicker, that holds.
    pub(in crate::cli) async fn decide(
        &mut self,
        tool_use_id: &str,
        decision: Decision,
        mut more: Map<String, Value>,
    ) -> Result<(), Failure> {
        more.insert("decision".to_owned(), json!(decision));
        let path = ["sessions", &*self.session, "approvals", tool_use_id];
        let decided = self.client.post(&path).json(&more.into()).send().await;
        self.following.go_on();
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

/// Whether a decision was refused because there is nothing to decide any more.
fn is_decided(failure: &Failure) -> bool {
    let words = ["approval_not_found", "already_resolved", "call_not_waiting", "approval_expired"];
    failure.code().is_some_and(|code| words.contains(&code))
}
