//! Usage and cost: all resources report the same sums.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Session, Setup, TestApp, calls, problem, replies, says};
use twostep::domain::price::{LongPrice, Price};

/// Prices at which every request costs a fraction of a micro-dollar.
const ODD: Price = Price {
    input: 333_333,
    output: 777_777,
    cache_write: 400_001,
    cache_write_1h: Some(600_007),
    cache_read: 33_333,
    web_search: 10_000,
    long: Some(LongPrice {
        above: 1000,
        input: 999_999,
        output: 2_000_003,
        cache_write: 1_200_001,
        cache_write_1h: None,
        cache_read: 99_999,
    }),
};

/// A service whose model calls a tool on a short prompt and then answers a long one.
async fn start() -> TestApp {
    let mut reads = calls("get_time", json!({}));
    reads["usage"] = json!({
        "input_tokens": 10, "output_tokens": 7,
        "cache_creation_input_tokens": 100, "cache_read_input_tokens": 5,
        "cache_creation": { "ephemeral_5m_input_tokens": 60, "ephemeral_1h_input_tokens": 40 },
        "server_tool_use": { "web_search_requests": 2 },
    });
    let mut answer = says("Noon.");
    answer["usage"] = json!({ "input_tokens": 901, "output_tokens": 3,
                              "cache_read_input_tokens": 100 });
    let prices = [("simulator".to_owned(), ODD)].into();
    let setup = Setup { prices, ..Setup::default() };
    TestApp::start_with(replies(&[reads, answer]), setup).await
}

/// The cost of one run of that script. The cost of each request is rounded up.
fn cost_of_run() -> i64 {
    let millionths = |parts: &[(i64, i64)]| parts.iter().map(|(n, price)| n * price).sum::<i64>();
    let first = [(10, 333_333), (7, 777_777), (60, 400_001), (40, 600_007), (5, 33_333)];
    let second = [(901, 999_999), (3, 2_000_003), (100, 99_999)];
    let rounded_up = |sum: i64| (sum + 999_999) / 1_000_000;
    rounded_up(millionths(&first)) + 20_000 + rounded_up(millionths(&second))
}

/// The usage of this number of runs.
fn usage_of(runs: i64) -> Value {
    json!({
        "requests": 2 * runs,
        "usage": {
            "input_tokens": 911 * runs, "cache_creation_input_tokens": 100 * runs,
            "cache_read_input_tokens": 105 * runs, "output_tokens": 10 * runs,
            "cache_creation_1h_input_tokens": 40 * runs, "web_search_requests": 2 * runs,
        },
        "cost": cost_of_run() * runs,
    })
}

fn with(mut value: Value, members: &Value) -> Value {
    value.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    value
}

async fn get(app: &TestApp, path: &str) -> Value {
    let response = app.get(path).send().await.unwrap();
    assert_eq!(response.status(), 200, "{path}");
    response.json().await.unwrap()
}

async fn execute(app: &TestApp, statement: &'static str) {
    sqlx::query(statement).execute(&app.database.pool(1)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_usage_of_a_session_is_the_sum_of_its_runs() {
    let app = start().await;
    let session = app.session_with(json!({ "budget": { "tokens": 1_000_000 } })).await;
    let runs = [session.ask("What time is it?").await, session.ask("And now?").await];
    let usage = get(&app, &session.path("/usage")).await;
    let by_run: Vec<Value> =
        runs.iter().map(|run| with(json!({ "run_id": run["id"] }), &usage_of(1))).collect();
    let expected = json!({
        "type": "session_usage", "session_id": session.id, "total": usage_of(2),
        "budget": { "tokens": 1_000_000 },
        "by_model": [with(json!({ "key": "simulator" }), &usage_of(2))],
        "by_run": { "data": by_run, "has_more": false },
    });
    assert_eq!(usage, expected);

    let first = get(&app, &session.path("/usage?limit=1")).await;
    assert_eq!(first["by_run"]["data"], json!([by_run[0]]));
    let cursor = first["by_run"]["next_cursor"].as_str().unwrap();
    let second = get(&app, &session.path(&format!("/usage?limit=1&after={cursor}"))).await;
    assert_eq!(second["by_run"], json!({ "data": [by_run[1]], "has_more": false }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cost_is_reported_with_the_run_the_session_and_the_usage_event() {
    let app = start().await;
    let session = app.session().await;
    let run = session.ask("What time is it?").await;
    assert_eq!(run["cost"], cost_of_run());
    let read = get(&app, &session.path("")).await;
    assert_eq!(read["cost"], cost_of_run());
    let events = session.events().await;
    let event = events.iter().find(|event| event["type"] == "session.usage").unwrap();
    assert_eq!((&event["cost"], &event["usage"]), (&run["cost"], &run["usage"]));

    let unpriced = app.session_with(json!({ "model": "simulator-2" })).await;
    let run = unpriced.ask("How late is it?").await;
    assert_eq!(run["cost"], Value::Null);
    assert_eq!(get(&app, &unpriced.path("/usage")).await["total"]["cost"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_usage_of_a_tenant_is_grouped_by_day_by_model_or_by_session() {
    let app = start().await;
    let (first, second) = (app.session().await, app.session().await);
    first.ask("What time is it?").await;
    // Move the first request to the end of one day and the second to the start of the next.
    execute(&app, "UPDATE requests SET created_at = '2026-03-01 23:59:59.999999Z' WHERE n = 1")
        .await;
    execute(&app, "UPDATE requests SET created_at = '2026-03-02 00:00:00Z' WHERE n = 2").await;
    second.ask("And elsewhere?").await;
    execute(
        &app,
        "UPDATE requests SET created_at = '2026-03-02 12:00:00Z' WHERE created_at > '2026-04-01'",
    )
    .await;

    let days = "/v1/usage?from=2026-03-01&to=2026-03-02";
    let all = get(&app, days).await;
    assert_eq!(all["total"], usage_of(2));
    let keys: Vec<&Value> =
        all["data"].as_array().unwrap().iter().map(|group| &group["key"]).collect();
    assert_eq!(keys, ["2026-03-01", "2026-03-02"]);
    let requests: Vec<&Value> =
        all["data"].as_array().unwrap().iter().map(|group| &group["requests"]).collect();
    assert_eq!(requests, [1, 3]);

    let models = get(&app, &format!("{days}&group_by=model")).await;
    assert_eq!(models["data"], json!([with(json!({ "key": "simulator" }), &usage_of(2))]));

    let mut ids = [first.id.clone(), second.id.clone()];
    ids.sort();
    let page = get(&app, &format!("{days}&group_by=session&limit=1")).await;
    assert_eq!(page["data"], json!([with(json!({ "key": ids[0] }), &usage_of(1))]));
    let cursor = page["next_cursor"].as_str().unwrap();
    let mut rest = get(&app, &format!("{days}&group_by=session&limit=1&after={cursor}")).await;
    rest.as_object_mut().unwrap().remove("quotas");
    let expected = json!({
        "type": "usage", "from": "2026-03-01", "to": "2026-03-02", "total": usage_of(2),
        "group_by": "session", "data": [with(json!({ "key": ids[1] }), &usage_of(1))],
        "has_more": false,
    });
    assert_eq!(rest, expected);

    let before = get(&app, "/v1/usage?from=2026-02-01&to=2026-02-28").await;
    assert_eq!((&before["data"], &before["total"]["requests"]), (&json!([]), &json!(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_query_is_refused() {
    let app = start().await;
    for query in [
        "from=2026-03-02&to=2026-03-01",
        "from=2025-01-01&to=2026-03-01",
        "from=yesterday",
        "group_by=tenant",
        "limit=0",
        "tenant=other",
    ] {
        let response = app.get(&format!("/v1/usage?{query}")).send().await.unwrap();
        problem(response, 400, "invalid_query").await;
    }
    let response = app.get("/v1/usage?group_by=session&after=x").send().await.unwrap();
    problem(response, 400, "invalid_cursor").await;
}

/// Inserts a session of another tenant with the same request. Returns the ids of session and run.
async fn insert_session_of_another_tenant(app: &TestApp, like: &Session<'_>) -> (String, String) {
    let (tenant, session) = (Uuid::now_v7(), Uuid::now_v7());
    let pool = app.database.pool(1);
    sqlx::query("INSERT INTO tenants (id, name) VALUES ($1, 'other')")
        .bind(tenant)
        .execute(&pool)
        .await
        .unwrap();
    for statement in [
        "INSERT INTO sessions (id, tenant_id, model, settings)
         SELECT $1, $2, model, settings FROM sessions WHERE id = $3",
        "INSERT INTO runs (id, session_id, tenant_id, accepted_seq, message_id, input, fingerprint)
         SELECT $1, $1, $2, 1, message_id, input, fingerprint FROM runs WHERE session_id = $3",
        "INSERT INTO requests SELECT (jsonb_populate_record(r, jsonb_build_object(
             'session_id', $1::uuid, 'run_id', $1::uuid, 'tenant_id', $2::uuid))).*
         FROM requests r WHERE session_id = $3",
    ] {
        sqlx::query(statement)
            .bind(session)
            .bind(tenant)
            .bind(like.uuid())
            .execute(&pool)
            .await
            .unwrap();
    }
    (format!("ses_{}", session.simple()), format!("run_{}", session.simple()))
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_and_requests_of_another_tenant_are_not_visible() {
    let app = start().await;
    let session = app.session().await;
    session.ask("What time is it?").await;
    let (other, run) = insert_session_of_another_tenant(&app, &session).await;
    for path in
        ["/usage".to_owned(), format!("/runs/{run}/requests"), format!("/runs/{run}/requests/1")]
    {
        let response = app.get(&format!("/v1/sessions/{other}{path}")).send().await.unwrap();
        problem(response, 404, "session_not_found").await;
    }
    for by in ["day", "model", "session"] {
        let usage = get(&app, &format!("/v1/usage?group_by={by}")).await;
        assert_eq!(usage["total"], usage_of(1), "{by}");
        assert_eq!(usage["data"].as_array().unwrap().len(), 1, "{by}");
    }
    // The inserted session of the other tenant is not complete.
    app.stop_unchecked().await;
}
