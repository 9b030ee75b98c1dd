//! A client that never gives up: it posts again, with the same key, to whoever answers.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::arena::{Arena, locked};
use crate::planted::refusal;

/// How long a client tries.
const PATIENCE: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(60);
/// A node that stands still answers nobody.
const ANSWER_WITHIN: Duration = Duration::from_secs(4);

impl Arena {
    /// Makes a session.
    pub(crate) async fn session(&self) -> anyhow::Result<String> {
        self.session_for("").await
    }

    /// Makes a session for conversations of a kind.
    pub(crate) async fn session_for(&self, kind: &str) -> anyhow::Result<String> {
        let body = match kind {
            "ask" => json!({ "permissions": [{ "tool": "witness", "decision": "ask" }] }),
            "long" => json!({ "context": { "compact_at": 1000 }, "system": "Wait. ".repeat(1000) }),
            // So that some of the longer conversations are summed up as well.
            _ => json!({ "context": { "compact_at": 4000 } }),
        };
        let session = self.insist(0, "/v1/sessions", &body, None).await?;
        let id = session["id"].as_str().context("a session without an id")?.to_owned();
        locked(&self.sessions).push(id.clone());
        Ok(id)
    }

    /// Posts a message until it is accepted, first to this node; gives the run's id.
    pub(crate) async fn post(
        &self,
        first: usize,
        session: &str,
        text: &str,
    ) -> anyhow::Result<String> {
        self.post_as(first, session, &json!({ "content": text })).await
    }

    /// Posts a message that stops what the session is doing.
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
        let text = body["content"].as_str().context("a message without a text")?;
        let path = format!("/v1/sessions/{session}/messages");
        let run = self.insist(first, &path, body, Some(text)).await?;
        let run = run["id"].as_str().context("a run without an id")?.to_owned();
        locked(&self.accepted).push((text.to_owned(), run.clone()));
        self.tally.accepted.add(1);
        Ok(run)
    }

    /// Asks for a run to be cancelled until somebody has heard it.
    pub(crate) async fn cancel(
        &self,
        first: usize,
        session: &str,
        run: &str,
    ) -> anyhow::Result<()> {
        let path = format!("/v1/sessions/{session}/runs/{run}/cancel");
        self.insist(first, &path, &json!({}), None).await?;
        Ok(())
    }

    /// Allows a call until somebody has heard it.
    pub(crate) async fn allow(&self, session: &str, call: &str) -> anyhow::Result<()> {
        let path = format!("/v1/sessions/{session}/approvals/{call}");
        self.insist(0, &path, &json!({ "decision": "allow" }), None).await?;
        Ok(())
    }

    async fn insist(
        &self,
        first: usize,
        path: &str,
        body: &Value,
        key: Option<&str>,
    ) -> anyhow::Result<Value> {
        let deadline = Instant::now() + PATIENCE;
        let mut seat = first;
        loop {
            match self.try_post(seat, path, body, key).await? {
                Some(answer) => return Ok(answer),
                None if Instant::now() > deadline => bail!("nobody took a post to {path}"),
                None => sleep(PAUSE).await,
            }
            seat = 1 - seat;
        }
    }

    /// One try; none if it may be tried again.
    async fn try_post(
        &self,
        seat: usize,
        path: &str,
        body: &Value,
        key: Option<&str>,
    ) -> anyhow::Result<Option<Value>> {
        let Some(address) = self.address(seat) else { return Ok(None) };
        let mut request = self.http.post(format!("{address}{path}")).timeout(ANSWER_WITHIN);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let Ok(response) = request.json(body).send().await else { return Ok(None) };
        match response.status() {
            status if status.is_success() => Ok(response.json().await.ok()),
            status => {
                let text = refusal(response).await;
                // The queue of the session may be full.
                let is_busy =
                    [StatusCode::CONFLICT, StatusCode::TOO_MANY_REQUESTS].contains(&status);
                ensure!(is_busy || status.is_server_error(), "{path}: {status}: {text}");
                Ok(None)
            }
        }
    }

    /// Reads a whole list.
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

    /// Reads one thing, from whoever answers.
    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            for address in [0, 1].into_iter().filter_map(|seat| self.address(seat)) {
                let response = self.http.get(format!("{address}{path}")).send().await;
                let Ok(response) = response else { continue };
                if !response.status().is_success() {
                    refusal(response).await;
                } else if let Ok(body) = response.json().await {
                    return Ok(body);
                }
            }
            if Instant::now() > deadline {
                bail!("nobody answers {path}");
            }
            sleep(PAUSE).await;
        }
    }

    /// Waits until a run has settled, or until it is time to give up; says whether it has.
    pub(crate) async fn settled(&self, run: &str, within: Duration) -> bool {
        let id = run.trim_start_matches("run_");
        let deadline = Instant::now() + within;
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
            sleep(PAUSE).await;
        }
    }
}
