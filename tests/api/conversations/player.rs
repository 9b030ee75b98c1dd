//! A client that plays a conversation: it posts messages, reads events, answers calls, and acts.

use std::collections::HashSet;
use std::time::Duration;

use fastrand::Rng;
use reqwest::{Response, StatusCode};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::plan::{Action, Plan, PlannedMessage};
use super::test_service::{TestService, count};
use super::texts::{odd, short, unreadable};
use crate::support::EventStream;
use crate::support::media::pixel;

/// The time limit of a run, including the actions during it.
const RUN_TIMEOUT: Duration = Duration::from_mins(2);

/// The time without events after which a client stops reading.
const QUIET: Duration = Duration::from_millis(600);

/// The pause between two requests for the state of a run.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A client of one session.
pub(super) struct Player<'a> {
    service: &'a TestService,
    pub(super) session: String,
}

impl<'a> Player<'a> {
    /// Plays a conversation and returns its settled runs.
    pub(super) async fn play(service: &'a TestService, plan: &Plan) -> (Self, Vec<Value>) {
        let created = service
            .send(|client, url| client.post(format!("{url}/v1/sessions")).json(&plan.session));
        let created = created.await;
        let status = created.status();
        let body: Value = created.json().await.unwrap();
        assert_eq!(status, StatusCode::CREATED, "{}: {body}", plan.name);
        let session = body["id"].as_str().unwrap().to_owned();
        let mut player = Self { service, session };
        let mut runs = Vec::new();
        let mut posted = None;
        for (index, message) in plan.messages.iter().enumerate() {
            let run = if let Some(run) = posted.take() {
                run
            } else {
                if message.is_forked {
                    player.fork(index).await;
                }
                player.post(message, "queue").await
            };
            if message.action != Action::Follow {
                player.read_events(&run, message.after).await;
            }
            match message.action {
                Action::Follow => {}
                Action::Cancel => player.cancel(&run).await,
                Action::Kill => player.restart(Signal::KILL).await,
                Action::Stop => player.restart(Signal::TERM).await,
                Action::PostNext(on_busy) => {
                    posted = Some(player.post(&plan.messages[index + 1], on_busy).await);
                }
            }
            runs.push(player.settle(&run, &mut Rng::with_seed(message.seed)).await);
        }
        (player, runs)
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/sessions/{}{rest}", self.session)
    }

    async fn get(&self, rest: &str) -> Response {
        let path = self.path(rest);
        self.service.send(|client, url| client.get(format!("{url}{path}"))).await
    }

    async fn send(&self, rest: &str, body: &Value) -> (StatusCode, Value) {
        let path = self.path(rest);
        let post =
            |client: &reqwest::Client, url: &str| client.post(format!("{url}{path}")).json(body);
        let response = self.service.send(post).await;
        (response.status(), response.json().await.unwrap_or_default())
    }

    /// Posts a message and returns the id of its run. Repeated requests have the same run.
    async fn post(&self, message: &PlannedMessage, on_busy: &str) -> String {
        let mut body = message.body.clone();
        body["id"] = format!("m{}", message.seed).into();
        body["on_busy"] = on_busy.into();
        let (status, run) = self.send("/messages", &body).await;
        assert!(status.is_success(), "{status}: {run}: {body}");
        count(&self.service.counts.messages);
        if on_busy == "interrupt" {
            count(&self.service.counts.interrupts);
        }
        run["id"].as_str().unwrap().to_owned()
    }

    /// Continues in a fork of its session. Repeated requests create one fork.
    async fn fork(&mut self, index: usize) {
        let path = self.path("/forks");
        let key = format!("fork-{index}");
        let post = |client: &reqwest::Client, url: &str| {
            client.post(format!("{url}{path}")).header("idempotency-key", &key)
        };
        let response = self.service.send(post).await;
        let status = response.status();
        let fork: Value = response.json().await.unwrap();
        assert_eq!(status, StatusCode::CREATED, "{fork}");
        count(&self.service.counts.forks);
        self.session = fork["id"].as_str().unwrap().to_owned();
    }

    async fn cancel(&self, run: &str) {
        let (status, answer) = self.send(&format!("/runs/{run}/cancel"), &json!({})).await;
        assert!(status.is_success(), "{status}: {answer}");
        count(&self.service.counts.cancels);
    }

    async fn restart(&self, signal: Signal) {
        let counts = &self.service.counts;
        count(if signal == Signal::KILL { &counts.kills } else { &counts.stops });
        self.service.restart(signal).await;
    }

    /// Reads at most this number of events of a run, until its stream ends or pauses.
    async fn read_events(&self, run: &str, events: usize) {
        let response = self.get(&format!("/runs/{run}/stream")).await;
        if response.status() != StatusCode::OK {
            return;
        }
        let mut stream = EventStream::new(response);
        for _ in 0..events {
            // The stream is aborted when the service stops.
            let Ok(Ok(Some(_))) = timeout(QUIET, stream.try_next()).await else { return };
        }
    }

    /// Waits until a run settles, and answers the calls that it waits for.
    async fn settle(&self, run: &str, rng: &mut Rng) -> Value {
        let deadline = Instant::now() + RUN_TIMEOUT;
        let mut known = HashSet::new();
        loop {
            let path = format!("/runs/{run}");
            let shown: Value = self.get(&path).await.json().await.unwrap_or_default();
            match shown["status"].as_str() {
                Some("completed" | "failed" | "cancelled") => return shown,
                Some("requires_action") => self.answer(&shown["pending"], rng, &mut known).await,
                _ => self.read_events(run, usize::MAX).await,
            }
            assert!(Instant::now() < deadline, "the run did not settle: {shown}");
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Answers the waiting calls that are new, except some that reach their deadline.
    async fn answer(&self, pending: &Value, rng: &mut Rng, known: &mut HashSet<String>) {
        for call in pending.as_array().into_iter().flatten() {
            let id = call["tool_use_id"].as_str().unwrap();
            if !known.insert(id.to_owned()) {
                continue;
            }
            if rng.u8(..12) == 0 {
                count(&self.service.counts.unanswered);
                continue;
            }
            let (status, answer) = if call["awaits"] == "client" {
                let result = json!({ "tool_use_id": id, "content": result(rng) });
                self.send("/tool_results", &json!({ "results": [result] })).await
            } else {
                self.send(&format!("/approvals/{id}"), &decision(rng)).await
            };
            // The call may have been answered by its deadline or cancelled before.
            let is_expected = status.is_success() || matches!(status.as_u16(), 404 | 409 | 410);
            assert!(is_expected, "{status}: {answer}");
            count(&self.service.counts.answers);
        }
    }

    /// The findings of the verification of the session.
    pub(super) async fn verify(&self) -> Value {
        let found: Value = self.get("/verify").await.json().await.unwrap();
        found["findings"].clone()
    }

    /// The pages of the history, as text.
    pub(super) async fn history(&self) -> Vec<String> {
        let mut pages = Vec::new();
        let mut after = "0".to_owned();
        loop {
            let page = self.get(&format!("/messages?limit=200&after={after}")).await;
            let page = page.text().await.unwrap();
            let read: Value = serde_json::from_str(&page).unwrap();
            pages.push(page);
            match read["next_cursor"].as_str() {
                Some(cursor) => cursor.clone_into(&mut after),
                None => return pages,
            }
        }
    }
}

fn decision(rng: &mut Rng) -> Value {
    match rng.u8(..3) {
        0 => json!({ "decision": "allow" }),
        1 => {
            // Invisible characters are refused in the reason of a denial.
            let why = short(rng).replace(|c: char| !c.is_ascii_graphic(), " ");
            json!({ "decision": "deny", "message": format!("No: {why}") })
        }
        _ => {
            let input = json!({ "path": "asked-x.txt", "content": odd(rng) });
            json!({ "decision": "allow", "input": input })
        }
    }
}

fn result(rng: &mut Rng) -> Value {
    match rng.u8(..4) {
        0 => odd(rng).into(),
        3 => json!([unreadable(), { "type": "text", "text": odd(rng) }]),
        1 => json!([{ "type": "text", "text": odd(rng) }, pixel()]),
        _ => json!([{ "type": "text", "text": odd(rng) }]),
    }
}
