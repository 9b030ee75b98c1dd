//! Budgets: a request is only sent if its maximum use fits the remaining budget, so no budget is
//! ever exceeded.

use futures::future::join_all;
use serde_json::{Value, json};
use twostep::domain::budget::Budget;
use twostep::domain::ids::TenantId;
use twostep::domain::price::Price;
use twostep::store::budgets::{Period, remove, set};

use crate::support::{
    Session, Setup, TestApp, asked, binary, calls, hangs_first, outcome, problem, replies, says,
};

const PRICE: Price = Price {
    input: 1_000_000,
    output: 2_000_000,
    cache_write: 1_000_000,
    cache_write_1h: None,
    cache_read: 1_000_000,
    web_search: 0,
    long: None,
};

fn priced() -> Setup {
    Setup { prices: [("simulator".to_owned(), PRICE)].into(), ..Setup::default() }
}

/// A reply with this usage.
fn answer(input: i64, output: i64) -> Value {
    let mut answer = says("Well.");
    answer["usage"] = json!({ "input_tokens": input, "output_tokens": output });
    answer
}

async fn set_budget(app: &TestApp, period: Period, budget: Budget) {
    let mut conn = app.database.pool(1).acquire().await.unwrap();
    set(&mut conn, TenantId::DEFAULT, period, budget).await.unwrap();
}

fn token_budget(tokens: i64) -> Budget {
    Budget { tokens: Some(tokens), cost: None }
}

/// A session without tools, so that its requests are small.
async fn small_session(app: &TestApp) -> Session<'_> {
    app.session_with(json!({ "tools": [] })).await
}

async fn reservations(app: &TestApp) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM reservations WHERE spent_at IS NULL")
        .fetch_one(&app.database.pool(1))
        .await
        .unwrap()
}

async fn get(app: &TestApp, path: &str) -> Value {
    app.get(path).send().await.unwrap().json().await.unwrap()
}

fn assert_refused(run: &Value, scope: &str, unit: &str) {
    assert_eq!(run["status"], "failed", "{run}");
    let expected = json!({ "type": "budget_exceeded", "scope": scope, "unit": unit });
    assert_eq!(run["stop_reason"], expected);
    assert_eq!(run["error"]["type"], "budget_exceeded");
}

/// Every request uses nearly all of its reservation. If two requests reserved the same remainder,
/// the budget would be exceeded.
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_concurrent_runs_never_exceed_their_budget() {
    let setup = Setup { slots: Some(64), ..priced() };
    let app = TestApp::start_with(replies(&[answer(1000, 1000)]), setup).await;
    let budget = Budget { tokens: Some(100_000), cost: Some(200_000) };
    set_budget(&app, Period::Day, budget).await;
    set_budget(&app, Period::Total, Budget { tokens: Some(90_000), cost: None }).await;
    let sessions = join_all((0..100).map(|_| small_session(&app))).await;
    let texts: Vec<String> = (0..100).map(|number| format!("Question {number}")).collect();
    let runs = join_all(sessions.iter().zip(&texts).map(|(session, text)| session.ask(text))).await;

    let (done, refused): (Vec<&Value>, Vec<&Value>) =
        runs.iter().partition(|run| run["status"] == "completed");
    for run in refused {
        assert_refused(run, "tenant_total", "tokens");
    }
    let spent = 2000 * i64::try_from(done.len()).unwrap();
    assert!((70_000..=90_000).contains(&spent), "{spent}");
    assert_eq!(app.upstream().len(), done.len(), "only requests that fit the budget are sent");
    let usage = get(&app, "/v1/usage").await;
    assert_eq!(usage["total"]["cost"], 3000 * i64::try_from(done.len()).unwrap());
    assert_eq!(reservations(&app).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_budget_of_a_session_covers_all_its_runs() {
    let mut round = calls("get_time", json!({}));
    round["usage"] = json!({ "input_tokens": 1500, "output_tokens": 500 });
    let app = TestApp::start_with(replies(&[round, answer(2000, 500)]), priced()).await;
    let session = app
        .session_with(
            json!({ "tools": ["get_time"], "budget": { "tokens": 11_000, "cost": 1_000_000 } }),
        )
        .await;
    let first = session.ask("What time is it?").await;
    assert_eq!(first["status"], "completed");
    let second = session.ask("And now?").await;
    assert_eq!(second["status"], "completed");
    let third = session.ask("And now again?").await;
    assert_refused(&third, "session", "tokens");
    let message = third["error"]["message"].as_str().unwrap();
    let start = "the session's budget is 11000 tokens, of which 9000 are spent or reserved; the \
                 next request can use up to ";
    assert!(message.starts_with(start), "{message}");
    assert_eq!(app.upstream().len(), 4);
    let read = get(&app, &session.path("")).await;
    assert_eq!(read["budget"], json!({ "tokens": 11_000, "cost": 1_000_000 }));

    let costly = app.session_with(json!({ "tools": [], "budget": { "cost": 3000 } })).await;
    assert_refused(&costly.ask("What does it cost?").await, "session", "cost");
    let events = costly.events().await;
    let last: Vec<&Value> = events.iter().rev().take(2).map(|event| &event["type"]).collect();
    assert_eq!(last, ["session.status_idle", "session.error"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_that_cannot_be_enforced_is_refused() {
    let app = TestApp::start_with(replies(&[]), priced()).await;
    for (body, pointer, message) in [
        (json!({ "budget": { "tokens": 0 } }), "/budget/tokens", "is less than 1"),
        (json!({ "budget": { "cost": -1 } }), "/budget/cost", "is less than 1"),
        (
            json!({ "model": "simulator-2", "budget": { "cost": 5 } }),
            "/budget/cost",
            "cannot be enforced: the operator has set no price for simulator-2; prices are set with --prices",
        ),
    ] {
        let response = app.post("/v1/sessions").json(&body).send().await.unwrap();
        let problem = problem(response, 422, "validation_failed").await;
        assert_eq!(problem["errors"], json!([{ "pointer": pointer, "message": message }]));
    }
    // The budget of a tenant may be set after the session was created.
    let unpriced = app.session_with(json!({ "model": "simulator-2" })).await;
    set_budget(&app, Period::Total, Budget { tokens: None, cost: Some(1_000_000_000) }).await;
    let run = unpriced.ask("Hi").await;
    assert_refused(&run, "tenant_total", "cost");
    assert!(run["error"]["message"].as_str().unwrap().ends_with("its model has no price"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_is_released_when_the_request_fails_or_is_cancelled() {
    let refuses = json!({ "status": 400 });
    let script = json!({ "conversations": [
        { "when": "fail", "replies": [refuses] },
        { "when": "hang", "replies": [{ "content": [], "hang_after": 0 }] },
        { "replies": [answer(1000, 10)] },
    ]});
    let app = TestApp::start(script).await;
    // The budget is enough for one request at a time.
    set_budget(&app, Period::Day, token_budget(3000)).await;
    let failing = small_session(&app).await;
    assert_eq!(failing.ask("fail").await["error"]["type"], "model_request_failed_error");
    assert_eq!(reservations(&app).await, 0);

    let hanging = small_session(&app).await;
    let run = hanging.post(json!({ "content": "hang" })).await;
    asked(&app, 2).await;
    assert_eq!(reservations(&app).await, 1);
    assert_refused(&small_session(&app).await.ask("Does it fit?").await, "tenant_day", "tokens");
    hanging.cancel(&run).await;
    hanging.settled(&run).await;
    assert_eq!(reservations(&app).await, 0);
    assert_eq!(small_session(&app).await.ask("Does it fit now?").await["status"], "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reservation_of_a_dead_worker_is_released_at_the_takeover() {
    let mut reply = answer(1000, 10);
    reply["fail_first"] = json!([{ "hang_after": 0 }]);
    let app = TestApp::start(replies(&[reply])).await;
    set_budget(&app, Period::Total, token_budget(6000)).await;
    // A run that continues, and one that fails because too many workers died with it.
    for (takeovers, status, times) in [(0, "completed", 1), (99, "failed", 3)] {
        let session = small_session(&app).await;
        let run = session.post(json!({ "content": status })).await;
        asked(&app, times).await;
        assert_eq!(reservations(&app).await, 1);
        sqlx::query(
            "UPDATE runs SET attempt = attempt + 1, takeovers = $1, lease_owner = gen_random_uuid(),
                    lease_until = now() - interval '1 second'
             WHERE status = 'running'",
        )
        .bind(takeovers)
        .execute(&app.database.pool(1))
        .await
        .unwrap();
        assert_eq!(session.settled(&run).await["status"], status);
        assert_eq!(reservations(&app).await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_budget_applies_to_the_next_request() {
    let app = TestApp::start(hangs_first()).await;
    let session = small_session(&app).await;
    let run = session.post(json!({ "content": "hang" })).await;
    asked(&app, 1).await;
    set_budget(&app, Period::Day, token_budget(1)).await;
    session.cancel(&run).await;
    session.settled(&run).await;
    assert_refused(&session.ask("And now?").await, "tenant_day", "tokens");
    let mut conn = app.database.pool(1).acquire().await.unwrap();
    assert!(remove(&mut conn, TenantId::DEFAULT, Period::Day).await.unwrap());
    assert_eq!(session.ask("And without it?").await["status"], "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daily_budget_starts_again_on_the_next_day() {
    let app = TestApp::start(replies(&[answer(1000, 500)])).await;
    set_budget(&app, Period::Day, token_budget(4000)).await;
    let session = small_session(&app).await;
    assert_eq!(session.ask("Today").await["status"], "completed");
    assert_refused(&session.ask("Today again").await, "tenant_day", "tokens");
    let pool = app.database.pool(1);
    for table in
        ["budgets SET day = day - 1", "requests SET created_at = created_at - interval '1 day'"]
    {
        let statement = sqlx::AssertSqlSafe(format!("UPDATE {table}"));
        sqlx::query(statement).execute(&pool).await.unwrap();
    }
    assert_eq!(session.ask("Tomorrow").await["status"], "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_sets_lists_and_removes_budgets() {
    let app = TestApp::start_with(replies(&[answer(2000, 100)]), priced()).await;
    small_session(&app).await.ask("Before there is a budget").await;
    let url = app.database.url();
    let budget = async |args: &[&str]| {
        outcome(binary(&[&["budget", "--database-url", &url], args].concat())).await
    };
    let success = |text: &str| (Some(0), text.to_owned(), String::new());
    assert_eq!(budget(&["list"]).await, success("no budgets\n"));
    let set = budget(&["set", "day", "--tokens", "50000"]).await;
    assert_eq!(set, success("day: 2100 of 50000 tokens\n"));
    small_session(&app).await.ask("With a budget").await;
    let set = budget(&["set", "total", "--tokens", "90000", "--cost", "500000"]).await;
    let both = "day: 4200 of 50000 tokens\n\
                total: 4200 of 90000 tokens, 4400 of 500000 micro-dollars\n";
    assert_eq!(set, success(both));
    small_session(&app).await.ask("With two").await;
    let set = budget(&["set", "day", "--cost", "1000"]).await;
    let both = "day: 6600 of 1000 micro-dollars\n\
                total: 6300 of 90000 tokens, 6600 of 500000 micro-dollars\n";
    assert_eq!(set, success(both));
    assert_refused(&small_session(&app).await.ask("Too late").await, "tenant_day", "cost");
    let removed = budget(&["remove", "day"]).await;
    assert_eq!(removed, success("total: 6300 of 90000 tokens, 6600 of 500000 micro-dollars\n"));

    let again = budget(&["remove", "day"]).await;
    assert_eq!(
        again,
        (Some(1), String::new(), "twostep: the tenant has no such budget\n".to_owned())
    );
    let unknown = budget(&["--tenant", "missing", "list"]).await;
    let sentence = "twostep: tenant \"missing\" does not exist\n".to_owned();
    assert_eq!(unknown, (Some(1), String::new(), sentence));
    assert_eq!(budget(&["set", "day"]).await.0, Some(2));
}
