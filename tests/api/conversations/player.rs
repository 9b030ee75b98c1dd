//! A client that plays a conversation: it posts, watches, answers calls, and does what is planned.

use std::collections::HashSet;
use std::time::Duration;

use fastrand::Rng;
use reqwest::{Response, StatusCode};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::house::{House, count};
use super::plan::{Deed, Move, Plan};
use super::words::{odd, short, unreadable};
use crate::support::EventStream;
use crate::support::media::pixel;

/// How long a run may take, with all that is done to it.
const PATIENCE: Duration = Duration::from_mins(2);

/// How long a run says nothing that has no more to say.
const QUIET: Duration = Duration::from_millis(600);

/// What is waited before a run is looked at again.
const BREATH: Duration = Duration::from_millis(20);

/// A client in its session.
pub(super) struct Player<'a> {
    house: &'a House,
    pub(super) session: String,
}

impl<'a> Player<'a> {
    /// Plays a conversation to its end, and says how its runs ended.
    pub(super) async fn play(house: &'a House, plan: &Plan) -> (Self, Vec<Value>) {
        let made =
            house.send(|client, url| client.post(format!("{url}/v1/sessions")).json(&plan.session));
        let made = made.await;
        let status = made.status();
        let body: Value = made.json().await.unwrap();
        assert_eq!(status, StatusCode::CREATED, "{}: {body}", plan.name);
        let session = body["id"].as_str().unwrap().to_owned();
        let mut player = Self { house, session };
        let mut runs = Vec::new();
        let mut posted = None;
        for (at, one) in plan.moves.iter().enumerate() {
            let run = if let Some(run) = posted.take() {
                run
            } else {
                if one.is_forked {
                    player.fork(at).await;
                }
                player.post(one, "queue").await
            };
            if one.deed != Deed::Watch {
                player.watch(&run, one.after).await;
            }
            match one.deed {
                Deed::Watch => {}
                Deed::Cancel => player.cancel(&run).await,
                Deed::Kill => player.restart(Signal::KILL).await,
                Deed::Stop => player.restart(Signal::TERM).await,
                Deed::Crowd(on_busy) => {
                    posted = Some(player.post(&plan.moves[at + 1], on_busy).await);
                }
            }
            runs.push(player.settle(&run, &mut Rng::with_seed(one.seed)).await);
        }
        (player, runs)
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/sessions/{}{rest}", self.session)
    }

    async fn get(&self, rest: &str) -> Response {
        let path = self.path(rest);
        self.house.send(|client, url| client.get(format!("{url}{path}"))).await
    }

    async fn send(&self, rest: &str, body: &Value) -> (StatusCode, Value) {
        let path = self.path(rest);
        let post =
            |client: &reqwest::Client, url: &str| client.post(format!("{url}{path}")).json(body);
        let response = self.house.send(post).await;
        (response.status(), response.json().await.unwrap_or_default())
    }

    /// Posts a message and gives the id of its run. It may be sent twice, and has one run.
    async fn post(&self, one: &Move, on_busy: &str) -> String {
        let mut body = one.body.clone();
        body["id"] = format!("m{}", one.seed).into();
        body["on_busy"] = on_busy.into();
        let (status, run) = self.send("/messages", &body).await;
        assert!(status.is_success(), "{status}: {run}: {body}");
        count(&self.house.counts.messages);
        if on_busy == "interrupt" {
            count(&self.house.counts.interrupts);
        }
        run["id"].as_str().unwrap().to_owned()
    }

    /// Goes on in a fork of its session. It may be asked for twice, and there is one.
    async fn fork(&mut self, at: usize) {
        let path = self.path("/forks");
        let key = format!("fork-{at}");
        let post = |client: &reqwest::Client, url: &str| {
            client.post(format!("{url}{path}")).header("idempotency-key", &key)
        };
        let response = self.house.send(post).await;
        let status = response.status();
        let fork: Value = response.json().await.unwrap();
        assert_eq!(status, StatusCode::CREATED, "{fork}");
        count(&self.house.counts.forks);
        self.session = fork["id"].as_str().unwrap().to_owned();
    }

    async fn cancel(&self, run: &str) {
        let (status, answer) = self.send(&format!("/runs/{run}/cancel"), &json!({})).await;
        assert!(status.is_success(), "{status}: {answer}");
        count(&self.house.counts.cancels);
    }

    async fn restart(&self, signal: Signal) {
        let counts = &self.house.counts;
        count(if signal == Signal::KILL { &counts.kills } else { &counts.stops });
        self.house.restart(signal).await;
    }

    /// Reads so many events of a run, or as many as there are until it rests or says nothing more.
    async fn watch(&self, run: &str, events: usize) {
        let response = self.get(&format!("/runs/{run}/stream")).await;
        if response.status() != StatusCode::OK {
            return;
        }
        let mut stream = EventStream::new(response);
        for _ in 0..events {
            // A stream is torn when somebody ends the service.
            let Ok(Ok(Some(_))) = timeout(QUIET, stream.try_next()).await else { return };
        }
    }

    /// Waits until a run has settled, and answers the calls that it waits for.
    async fn settle(&self, run: &str, rng: &mut Rng) -> Value {
        let deadline = Instant::now() + PATIENCE;
        let mut met = HashSet::new();
        loop {
            let at = format!("/runs/{run}");
            let shown: Value = self.get(&at).await.json().await.unwrap_or_default();
            match shown["status"].as_str() {
                Some("completed" | "failed" | "cancelled") => return shown,
                Some("requires_action") => self.answer(&shown["pending"], rng, &mut met).await,
                _ => self.watch(run, usize::MAX).await,
            }
            assert!(Instant::now() < deadline, "the run did not settle: {shown}");
            sleep(BREATH).await;
        }
    }

    /// Answers the calls that wait and were not met before, but for some whose time runs out.
    async fn answer(&self, pending: &Value, rng: &mut Rng, met: &mut HashSet<String>) {
        for call in pending.as_array().into_iter().flatten() {
            let id = call["tool_use_id"].as_str().unwrap();
            if !met.insert(id.to_owned()) {
                continue;
            }
            if rng.u8(..12) == 0 {
                count(&self.house.counts.silences);
                continue;
            }
            let (status, answer) = if call["awaits"] == "client" {
                let result = json!({ "tool_use_id": id, "content": result(rng) });
                self.send("/tool_results", &json!({ "results": [result] })).await
            } else {
                self.send(&format!("/approvals/{id}"), &decision(rng)).await
            };
            // It may have been too late.
            let is_fine = status.is_success() || matches!(status.as_u16(), 404 | 409 | 410);
            assert!(is_fine, "{status}: {answer}");
            count(&self.house.counts.answers);
        }
    }

    /// What the service finds wrong with the session.
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
            // What does not show is refused here.
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
