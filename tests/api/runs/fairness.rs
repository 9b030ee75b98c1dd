//! Fairness between tenants and between runs: the queue and the slots are shared, and clients see the
//! real order.

use std::time::{Duration, Instant};

use futures::future::join_all;
use reqwest::{Client, Response};
use serde_json::{Value, json};
use twostep::domain::api_key::Scope;
use twostep::domain::ids::TenantId;

use crate::support::{
    EventStream, Setup, TestApp, calls, calls_as, client_with, hangs_first, keys_needed, problem,
    says,
};

fn limited(slots: usize, max_queued: u32) -> Setup {
    Setup {
        slots: Some(slots),
        max_queued: Some(max_queued),
        // A run that hangs keeps its slot, however long it takes to fill the queue.
        model_idle_timeout: Some(Duration::from_mins(2)),
        ..keys_needed()
    }
}

/// Replies that last a moment, and none to a message that says "hang".
fn hangs_on_request() -> Value {
    let mut reply = says("Done.");
    reply["delay_ms"] = 50.into();
    json!({ "conversations": [
        { "when": "hang", "replies": [{ "content": [], "hang_after": 0 }] },
        { "replies": [reply] },
    ]})
}

/// A tenant with a key of its own.
struct Tenant<'a> {
    app: &'a TestApp,
    id: TenantId,
    client: Client,
}

impl<'a> Tenant<'a> {
    async fn new(app: &'a TestApp, name: &str) -> Self {
        let id = app.database.tenant(name).await;
        let key = app.database.key(id, Scope::Write).await;
        Self { app, id, client: client_with(Some(&key)) }
    }

    async fn session(&self) -> String {
        self.session_with(json!({})).await
    }

    async fn session_with(&self, settings: Value) -> String {
        let url = self.app.url("/v1/sessions");
        let response = self.client.post(url).json(&settings).send().await.unwrap();
        let session: Value = response.json().await.unwrap();
        format!("/v1/sessions/{}", session["id"].as_str().unwrap())
    }

    async fn sessions(&self, count: usize) -> Vec<String> {
        join_all((0..count).map(|_| self.session())).await
    }

    /// Posts a message that differs from those of other sessions: the check of the requests at the end
    /// tells sessions apart by their first message.
    async fn post(&self, session: &str, text: &str) -> Response {
        let url = self.app.url(&format!("{session}/messages"));
        let body = json!({ "content": format!("{text} ({session})") });
        self.client.post(url).json(&body).send().await.unwrap()
    }

    async fn accepted(&self, session: &str, text: &str) -> Value {
        let response = self.post(session, text).await;
        assert_eq!(response.status(), 202);
        response.json().await.unwrap()
    }

    async fn get(&self, path: &str) -> Value {
        self.client.get(self.app.url(path)).send().await.unwrap().json().await.unwrap()
    }

    async fn settled(&self, session: &str, run: &Value) -> Value {
        let deadline = Instant::now() + Duration::from_mins(2);
        loop {
            let run = self.get(&format!("{session}/runs/{}", run["id"].as_str().unwrap())).await;
            if run["finished_at"].is_string() {
                return run;
            }
            assert!(Instant::now() < deadline, "the run did not settle: {run}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn cancel_all(&self, sessions: &[String]) {
        for session in sessions {
            let url = self.app.url(&format!("{session}/cancel"));
            assert!(self.client.post(url).send().await.unwrap().status().is_success());
        }
    }
}

/// The tenants of the runs that started, in the order of their starts.
async fn starts(app: &TestApp) -> Vec<TenantId> {
    let query = "SELECT tenant_id FROM runs WHERE started_at IS NOT NULL ORDER BY started_at, id";
    let ids: Vec<uuid::Uuid> =
        sqlx::query_scalar(query).fetch_all(&app.database.pool(1)).await.unwrap();
    ids.into_iter().map(TenantId::from).collect()
}

/// Counts the runs of other tenants that started while the run of the quiet tenant was queued.
const OVERTAKING: &str = "SELECT count(*) FROM runs o, runs mine
    WHERE mine.tenant_id = (SELECT id FROM tenants WHERE name = 'quiet')
      AND o.tenant_id <> mine.tenant_id
      AND o.started_at > mine.created_at AND o.started_at < mine.started_at";

async fn count(app: &TestApp, query: &'static str) -> i64 {
    sqlx::query_scalar(query).fetch_one(&app.database.pool(1)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_fills_its_share_of_the_queue_keeps_no_other_tenant_out() {
    let app = TestApp::start_with(hangs_first(), limited(1, 10)).await;
    let (loud, quiet) = (Tenant::new(&app, "loud").await, Tenant::new(&app, "quiet").await);
    let sessions = loud.sessions(2).await;
    let session = quiet.session().await;
    let hanging = loud.accepted(&sessions[0], "hang").await;
    let mut accepted = 0;
    // Some runs are counted twice for a moment.
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until {
        let response = loud.post(&sessions[1], "More").await;
        if response.status() == 202 {
            accepted += 1;
            continue;
        }
        let seconds: u64 = response.headers()["retry-after"].to_str().unwrap().parse().unwrap();
        assert!((1..=60).contains(&seconds), "{seconds}");
        let problem = problem(response, 429, "overloaded").await;
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("runs of this tenant are queued"), "{detail}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(accepted, 5, "half of the queue, because no other tenant has queued runs");
    let run = quiet.accepted(&session, "Hello").await;
    loud.cancel_all(&sessions).await;
    assert_eq!(quiet.settled(&session, &run).await["status"], "completed");
    assert_eq!(loud.settled(&sessions[0], &hanging).await["status"], "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_a_quiet_tenant_starts_before_four_hundred_runs_of_another() {
    let app = TestApp::start_with(hangs_on_request(), limited(2, 1000)).await;
    let (loud, quiet) = (Tenant::new(&app, "loud").await, Tenant::new(&app, "quiet").await);
    let session = quiet.session().await;
    let blockers = loud.sessions(2).await;
    for session in &blockers {
        loud.accepted(session, "hang").await;
    }
    let sessions = loud.sessions(28).await;
    for _ in 0..15 {
        join_all(sessions.iter().map(|session| loud.accepted(session, "More"))).await;
    }
    let run = quiet.accepted(&session, "Hello").await;
    loud.cancel_all(&blockers).await;
    assert_eq!(quiet.settled(&session, &run).await["status"], "completed");
    let starts = starts(&app).await.split_off(2);
    let starts_before = starts.iter().position(|tenant| *tenant == quiet.id).unwrap();
    assert!(starts_before <= 1, "{starts_before} runs of the other tenant started before");
    loud.cancel_all(&sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_a_quiet_tenant_starts_before_the_queued_sub_agents_of_another() {
    let ids: Vec<String> = (1..=8).map(|n| format!("toolu_{n}")).collect();
    let task = |id: &String| json!({ "description": "Count", "prompt": format!("count {id}") });
    let tasks: Vec<_> = ids.iter().map(|id| (id.as_str(), "Task", task(id))).collect();
    let mut reply = says("Three.");
    reply["delay_ms"] = 500.into();
    let script = json!({ "conversations": [
        { "when": "all birds", "replies": [calls_as(&tasks), says("Done.")] },
        { "when": "count", "replies": [reply] },
        { "replies": [says("At once.")] },
    ]});
    let app = TestApp::start_with(script, limited(1, 100)).await;
    let (loud, quiet) = (Tenant::new(&app, "loud").await, Tenant::new(&app, "quiet").await);
    let session = quiet.session().await;
    let parents = loud.session_with(json!({ "tools": ["Task"] })).await;
    let parent = loud.accepted(&parents, "all birds").await;
    let deadline = Instant::now() + Duration::from_mins(1);
    while count(&app, "SELECT count(*) FROM runs WHERE status = 'queued'").await < 5 {
        assert!(Instant::now() < deadline, "the sub-agents are not queued");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let run = quiet.accepted(&session, "Hello").await;
    assert_eq!(run["status"], "queued");
    assert_eq!(quiet.settled(&session, &run).await["output_text"], "At once.");
    let starts_before = count(&app, OVERTAKING).await;
    assert!(starts_before <= 1, "{starts_before} sub-agents of the other tenant started before");
    assert_eq!(loud.settled(&parents, &parent).await["output_text"], "Done.");
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_with_equal_load_get_equal_shares_of_the_slots() {
    let app = TestApp::start_with(hangs_on_request(), limited(2, 1000)).await;
    let (one, other) = (Tenant::new(&app, "one").await, Tenant::new(&app, "other").await);
    let blockers = [one.session().await, one.session().await];
    for session in &blockers {
        one.accepted(session, "hang").await;
    }
    let mut last = Vec::new();
    // All runs of one tenant are accepted before those of the other.
    for tenant in [&one, &other] {
        let sessions = tenant.sessions(20).await;
        let runs = join_all(sessions.iter().map(|session| tenant.accepted(session, "Go"))).await;
        last.push((tenant, sessions, runs));
    }
    one.cancel_all(&blockers).await;
    for (tenant, sessions, runs) in &last {
        for (session, run) in sessions.iter().zip(runs) {
            tenant.settled(session, run).await;
        }
    }
    let starts: Vec<TenantId> = starts(&app).await.split_off(2);
    assert_eq!(starts.len(), 40);
    for taken in [10, 20, 30, 40] {
        let ones = starts[..taken].iter().filter(|tenant| **tenant == one.id).count();
        assert!(ones.abs_diff(taken / 2) <= 2, "{ones} of the first {taken} starts");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_positions_that_clients_see_are_the_order_in_which_runs_start() {
    let app = TestApp::start_with(hangs_first(), limited(1, 100)).await;
    let (loud, quiet) = (Tenant::new(&app, "loud").await, Tenant::new(&app, "quiet").await);
    // The first run starts with its request or from the queue; only the latter counts as a turn.
    let turn = "UPDATE tenants SET served_at = now() WHERE name = 'loud'";
    sqlx::query(turn).execute(&app.database.pool(1)).await.unwrap();
    let blocker = loud.session().await;
    let hanging = loud.accepted(&blocker, "hang").await;
    let mut queued = Vec::new();
    for tenant in [&loud, &loud, &loud, &quiet, &quiet] {
        let session = tenant.session().await;
        let run = tenant.accepted(&session, "Next").await;
        assert_eq!(run["status"], "queued");
        queued.push((tenant, session, run));
    }
    let mut order = Vec::new();
    for (tenant, session, run) in &queued {
        let path = format!("{session}/runs/{}/explain", run["id"].as_str().unwrap());
        let explanation = tenant.get(&path).await;
        assert_eq!(explanation["queue"]["length"], 5, "{explanation}");
        let position = explanation["queue"]["position"].as_i64().unwrap();
        let sentence = explanation["sentence"].as_str().unwrap();
        assert!(sentence.contains(&format!("number {position} of 5")), "{sentence}");
        order.push((position, run["id"].as_str().unwrap().to_owned()));
    }
    let positions: Vec<i64> = order.iter().map(|(position, _)| *position).collect();
    // The other tenant has a run that is executed, and had a turn.
    assert_eq!(positions, [3, 4, 5, 1, 2]);

    // The stream of a waiting run has its position, also for a reader that comes later.
    let (tenant, session, run) = &queued[1];
    let path = format!("{session}/runs/{}/stream", run["id"].as_str().unwrap());
    let open = async || EventStream::new(tenant.client.get(app.url(&path)).send().await.unwrap());
    let mut stream = open().await;
    let mut late = None;
    for expected in [4, 3] {
        let event = stream.until("queue_position").await;
        let data = &event.data;
        assert_eq!((event.id, &data["run_id"]), (None, &run["id"]));
        assert_eq!(data["position"], expected, "{data}");
        if expected == 4 {
            late = Some(open().await.until("queue_position").await.data["position"].clone());
            // The first in the queue leaves it.
            quiet.cancel_all(std::slice::from_ref(&queued[3].1)).await;
        }
    }
    assert_eq!(late, Some(json!(4)));
    let metrics = app.get("/metrics").send().await.unwrap().text().await.unwrap();
    assert!(metrics.lines().any(|line| line == "twostep_runs_queued 4"), "{metrics}");

    loud.cancel_all(std::slice::from_ref(&blocker)).await;
    loud.settled(&blocker, &hanging).await;
    for (tenant, session, run) in &queued {
        tenant.settled(session, run).await;
    }
    let started = "SELECT 'run_' || replace(id::text, '-', '') FROM runs
                   WHERE started_at IS NOT NULL ORDER BY started_at OFFSET 1";
    let started: Vec<String> =
        sqlx::query_scalar(started).fetch_all(&app.database.pool(1)).await.unwrap();
    order.sort();
    let expected: Vec<String> = order.into_iter().skip(1).map(|(_, run)| run).collect();
    assert_eq!(started, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_run_does_not_wait_for_the_end_of_a_long_one() {
    let mut round = calls("get_time", json!({}));
    (round["delay_ms"], round["repeat"]) = (2500.into(), 7.into());
    let script = json!({ "conversations": [
        { "when": "long", "replies": [round, says("Done.")] },
        { "replies": [says("At once.")] },
    ]});
    let setup = Setup { slots: Some(1), ..Setup::default() };
    let app = TestApp::start_with(script, setup).await;
    let (long, short) = (app.session().await, app.session().await);
    let long_run = long.post(json!({ "content": "long" })).await;
    long.reached(&long_run, "agent.tool_result").await;
    let short_run = short.post(json!({ "content": "short" })).await;
    assert_eq!(short_run["status"], "queued");
    assert_eq!(short.settled(&short_run).await["output_text"], "At once.");
    assert_eq!(long.run(&long_run).await["status"], "running", "it is not at its end");
    let long_run = long.settled(&long_run).await;
    assert_eq!(
        (&long_run["status"], &long_run["output_text"]),
        (&json!("completed"), &json!("Done."))
    );
}
