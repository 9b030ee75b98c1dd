//! A client that repeats each request, with the same idempotency key, alternately to both nodes
//! until one accepts it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::planted::keep_refusal;
use crate::testbed::{Testbed, locked};

/// How long a client repeats a request.
const RETRY_FOR: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(60);
/// The longest pause between two reads of the state of a run. Hundreds of clients read it.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// A paused node does not answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(4);

impl Testbed {
    /// Creates a session.
    pub(crate) async fn session(&self) -> anyhow::Result<String> {
        self.session_for("").await
    }

    /// Creates a session for conversations of a kind.
    pub(crate) async fn session_for(&self, kind: &str) -> anyhow::Result<String> {
        let body = match kind {
            "ask" => json!({ "permissions": [{ "tool": "witness", "decision": "ask" }] }),
            "long" => json!({ "context": { "compact_at": 1000 }, "system": "Wait. ".repeat(1000) }),
            // So that some of the longer conversations are compacted as well.
            _ => json!({ "context": { "compact_at": 4000 } }),
        };
        let session = self.post_until_accepted(0, "/v1/sessions", &body, None).await?;
        let id = session["id"].as_str().context("the session has no id")?.to_owned();
        locked(&self.sessions).push(id.clone());
        Ok(id)
    }

    /// Posts a message until it is accepted, first to the node `first`. Returns the id of the run.
    pub(crate) async fn post(
        &self,
        first: usize,
        session: &str,
        text: &str,
    ) -> anyhow::Result<String> {
        self.post_as(first, session, &json!({ "content": text })).await
    }

    /// Posts a message that interrupts the active run of the session.
    pub(crate) async fn interrupt(
        &self,
        first: usize,
        session: &str,
        text: &str,
    ) -> anyhow::Result<String> {
        let body = json!({ "content": text, "on_busy": "interrupt" });
        self.post_as(first, session, &body).await
    }

    async fn post_as(&self, first: usize, session: &str, body: &Value) -> anyhow::Result<String> {
        let text = body["content"].as_str().context("the message has no text")?;
        let path = format!("/v1/sessions/{session}/messages");
        let run = self.post_until_accepted(first, &path, body, Some(text)).await?;
        let run = run["id"].as_str().context("the run has no id")?.to_owned();
        locked(&self.accepted).push((text.to_owned(), run.clone()));
        self.tally.accepted.add(1);
        Ok(run)
    }

    /// Requests the cancellation of a run until a node accepts it.
    pub(crate) async fn cancel(
        &self,
        first: usize,
        session: &str,
        run: &str,
    ) -> anyhow::Result<()> {
        let path = format!("/v1/sessions/{session}/runs/{run}/cancel");
        self.post_until_accepted(first, &path, &json!({}), None).await?;
        Ok(())
    }

    /// Allows a call until a node accepts the decision.
    pub(crate) async fn allow(&self, session: &str, call: &str) -> anyhow::Result<()> {
        let path = format!("/v1/sessions/{session}/approvals/{call}");
        self.post_until_accepted(0, &path, &json!({ "decision": "allow" }), None).await?;
        Ok(())
    }

    async fn post_until_accepted(
        &self,
        first: usize,
        path: &str,
        body: &Value,
        key: Option<&str>,
    ) -> anyhow::Result<Value> {
        let deadline = Instant::now() + RETRY_FOR;
        let mut index = first;
        loop {
            match self.try_post(index, path, body, key).await? {
                Some(answer) => return Ok(answer),
                None if Instant::now() > deadline => bail!("no node accepted a request to {path}"),
                None => sleep(PAUSE).await,
            }
            index = 1 - index;
        }
    }

    /// Sends a request once. Returns `None` if it may be repeated.
    async fn try_post(
        &self,
        index: usize,
        path: &str,
        body: &Value,
        key: Option<&str>,
    ) -> anyhow::Result<Option<Value>> {
        let Some(address) = self.address(index) else { return Ok(None) };
        let mut request = self.http.post(format!("{address}{path}")).timeout(ANSWER_WITHIN);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let Ok(response) = request.json(body).send().await else {
            self.count_unanswered(key);
            return Ok(None);
        };
        match response.status() {
            status if status.is_success() => Ok(response.json().await.ok()),
            status => {
                let text = keep_refusal(response).await;
                // The queue of the session may be full.
                let is_busy =
                    [StatusCode::CONFLICT, StatusCode::TOO_MANY_REQUESTS].contains(&status);
                let is_unavailable = status == StatusCode::SERVICE_UNAVAILABLE;
                ensure!(is_busy || is_unavailable, "{path}: {status}: {text}");
                if is_unavailable {
                    self.count_unanswered(key);
                }
                Ok(None)
            }
        }
    }

    /// Counts a try to post a message whose commit may have failed.
    fn count_unanswered(&self, key: Option<&str>) {
        if let Some(key) = key {
            *locked(&self.unanswered).entry(key.to_owned()).or_default() += 1;
        }
    }

    /// Reads all pages of a list.
    pub(crate) async fn list(&self, session: &str, resource: &str) -> anyhow::Result<Vec<Value>> {
        let mut all = Vec::new();
        let mut after = "0".to_owned();
        loop {
            let path = format!("/v1/sessions/{session}/{resource}?limit=200&after={after}");
            let mut page = self.get(&path).await?;
            if let Some(data) = page["data"].as_array_mut() {
                all.append(data);
            }
            match page["next_cursor"].as_str() {
                Some(cursor) => cursor.clone_into(&mut after),
                None => return Ok(all),
            }
        }
    }

    /// Reads a resource from the first node that answers.
    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        let deadline = Instant::now() + RETRY_FOR;
        loop {
            for address in [0, 1].into_iter().filter_map(|index| self.address(index)) {
                let response = self.http.get(format!("{address}{path}")).send().await;
                let Ok(response) = response else { continue };
                if !response.status().is_success() {
                    self.check_refusal(path, response).await;
                } else if let Ok(body) = response.json().await {
                    return Ok(body);
                }
            }
            if Instant::now() > deadline {
                bail!("no node answers {path}");
            }
            sleep(PAUSE).await;
        }
    }

    /// Checks that a refused read may be repeated.
    async fn check_refusal(&self, path: &str, response: Response) {
        let status = response.status();
        let text = keep_refusal(response).await;
        if status != StatusCode::SERVICE_UNAVAILABLE {
            self.violation(&format!("{path}: {status}: {text}"));
        }
    }

    /// Waits until a run has settled; returns false if it has not after `within`.
    pub(crate) async fn settled(&self, run: &str, within: Duration) -> bool {
        let id = run.trim_start_matches("run_");
        let deadline = Instant::now() + within;
        let mut pause = PAUSE;
        loop {
            let status: Result<String, _> =
                sqlx::query_scalar("SELECT status FROM runs WHERE id = $1::uuid")
                    .bind(id)
                    .fetch_one(&self.pool)
                    .await;
            let is_live =
                |status: String| matches!(&*status, "queued" | "running" | "requires_action");
            if status.is_ok_and(|status| !is_live(status)) {
                return true;
            }
            if Instant::now() > deadline {
                return false;
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}
