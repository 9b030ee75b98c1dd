//! A request to the model is sent while the message, or the step with the results, before it is being
//! committed. Nothing of it is shown before the commit, and it counts only with the commit.

use std::pin::pin;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};
use tokio::time::{sleep, timeout};
use twostep::domain::budget::Budget;
use twostep::domain::ids::TenantId;
use twostep::store::budgets::{Period, set};

use crate::support::machine::HUNG;
use crate::support::{EventStream, Setup, TestApp, calls, replies, says};

/// The time in which a request or an event would arrive that must not.
const ABSENCE: Duration = Duration::from_millis(300);

/// Commits of rows that are held back, until the connection is closed.
struct HeldCommits {
    conn: PgConnection,
}

impl HeldCommits {
    /// Holds the commits of the messages with this condition. The first of them fails afterwards if
    /// `refusals` is 1.
    async fn of(app: &TestApp, condition: &str, refusals: u32) -> Self {
        let mut conn = PgConnection::connect_with(&app.database.options()).await.unwrap();
        let setup = format!(
            "DROP TRIGGER IF EXISTS hold ON messages;
             DROP FUNCTION IF EXISTS hold;
             DROP SEQUENCE IF EXISTS refused;
             CREATE SEQUENCE refused;
             GRANT USAGE ON SEQUENCE refused TO PUBLIC;
             CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 PERFORM pg_advisory_xact_lock_shared(1);
                 IF nextval('refused') <= {refusals} THEN RAISE EXCEPTION 'refused'; END IF;
                 RETURN NULL;
             END $$;
             CREATE CONSTRAINT TRIGGER hold AFTER INSERT ON messages DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW WHEN ({condition}) EXECUTE FUNCTION hold();
             SELECT pg_advisory_lock(1)"
        );
        conn.execute(AssertSqlSafe(setup)).await.unwrap();
        Self { conn }
    }

    /// As [`Self::of`], for messages with results.
    async fn of_results(app: &TestApp, refusals: u32) -> Self {
        Self::of(app, "NEW.content::text LIKE '%tool_result%'", refusals).await
    }

    /// Waits until a commit is held back.
    async fn reached(&mut self) {
        let deadline = Instant::now() + HUNG;
        let is_held =
            "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                                      AND database = (SELECT oid FROM pg_database
                                                      WHERE datname = current_database()))";
        while !sqlx::query_scalar::<_, bool>(is_held).fetch_one(&mut self.conn).await.unwrap() {
            assert!(Instant::now() < deadline, "no commit is held back");
            sleep(Duration::from_millis(5)).await;
        }
    }

    async fn release(mut self) {
        self.conn.execute("SELECT pg_advisory_unlock(1)").await.unwrap();
    }
}

/// Waits until the model has received this number of requests.
async fn requested(app: &TestApp, requests: usize) {
    let deadline = Instant::now() + HUNG;
    while app.upstream().len() < requests {
        assert!(Instant::now() < deadline, "the model did not receive {requests} requests");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Reads the events that arrive before a pause.
async fn events_before_pause(stream: &mut EventStream) -> Vec<String> {
    let mut events = Vec::new();
    while let Ok(event) = timeout(ABSENCE, stream.next()).await {
        events.push(event.expect("the run has not ended").data.to_string());
    }
    events
}

/// A service whose model writes a file and answers. The results of calls that only read would be stored
/// with the reply that requests them.
async fn writing_app() -> TestApp {
    let write = calls("write_file", json!({ "path": "clock.txt", "content": "12:00" }));
    TestApp::start(replies(&[write, says("It is noon.")])).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_is_asked_while_results_are_committed_and_nothing_is_shown_before() {
    let app = writing_app().await;
    let mut held = HeldCommits::of_results(&app, 0).await;
    let session = app.session().await;
    let mut stream = session.stream("What time is it?").await;
    held.reached().await;
    requested(&app, 2).await;
    let before = events_before_pause(&mut stream).await;
    let shows = |event: &String| event.contains("tool_result") || event.contains("noon");
    assert!(!before.iter().any(shows), "{before:?}");
    held.release().await;
    let after: Vec<String> = stream.rest().await.into_iter().map(|event| event.name).collect();
    let position = |name: &str| after.iter().position(|found| found == name).unwrap();
    assert!(position("agent.tool_result") < position("event_delta"), "{after:?}");
    assert_eq!(app.upstream().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_results_are_not_committed_is_aborted_and_counts_for_nothing() {
    let app = writing_app().await;
    let mut held = HeldCommits::of_results(&app, 1).await;
    let session = app.session().await;
    let mut stream = session.stream("What time is it?").await;
    held.reached().await;
    requested(&app, 2).await;
    held.release().await;
    let run = stream.until("session.status_idle").await;
    let run = session.settled(&json!({ "id": run.data["run_id"] })).await;
    assert_eq!((&run["status"], &run["model_requests"]), (&json!("completed"), &json!(2)));
    // The next attempt has sent the second request again.
    assert_eq!(app.upstream().len(), 3);
    let path = session.path(&format!("/runs/{}/requests", run["id"].as_str().unwrap()));
    let requests: Value = app.get(&path).send().await.unwrap().json().await.unwrap();
    assert_eq!(requests["data"].as_array().unwrap().len(), 2, "{requests}");
    // The first request does not continue the second one.
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_cancels_during_the_commit_of_results_cancels_the_run() {
    let app = writing_app().await;
    let mut held = HeldCommits::of_results(&app, 0).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "What time is it?" })).await;
    held.reached().await;
    requested(&app, 2).await;
    let cancel = session.cancel(&run);
    let release = async {
        sleep(ABSENCE).await;
        held.release().await;
    };
    tokio::join!(cancel, release);
    let run = session.settled(&run).await;
    assert!(["completed", "cancelled"].contains(&run["status"].as_str().unwrap()), "{run}");
    let history = session.history().await;
    assert_eq!(history[2]["message"]["content"][0]["type"], "tool_result", "{history:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_budget_the_model_is_asked_after_the_commit() {
    let app = writing_app().await;
    let mut conn = app.database.pool(1).acquire().await.unwrap();
    let budget = Budget { tokens: Some(1_000_000), cost: None };
    set(&mut conn, TenantId::DEFAULT, Period::Total, budget).await.unwrap();
    let mut held = HeldCommits::of_results(&app, 0).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "What time is it?" })).await;
    held.reached().await;
    sleep(ABSENCE).await;
    assert_eq!(app.upstream().len(), 1);
    held.release().await;
    assert_eq!(session.settled(&run).await["status"], "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_that_is_set_during_a_reply_applies_to_the_next_request() {
    let slow = json!({ "content": [
        { "type": "text", "text": "Let me look at the clock." },
        { "type": "tool_use", "name": "get_time", "input": {} },
    ], "chunk": 5, "pace_ms": 100 });
    let app = TestApp::start(replies(&[slow, says("It is noon.")])).await;
    let mut conn = app.database.pool(1).acquire().await.unwrap();
    let session = app.session().await;
    let mut stream = session.stream("What time is it?").await;
    let delta = stream.until("event_delta").await;
    let run = json!({ "id": delta.data["run_id"] });
    // The first request has used less, and the next one could use more.
    let budget = Budget { tokens: Some(10_000), cost: None };
    set(&mut conn, TenantId::DEFAULT, Period::Total, budget).await.unwrap();
    let run = session.settled(&run).await;
    assert_eq!(
        (&run["status"], &run["error"]["type"]),
        (&json!("failed"), &json!("budget_exceeded"))
    );
    assert!(!session.history().await.iter().any(|item| item.to_string().contains("It is noon.")));
}

/// A service that has accepted a message, so that it knows that its tenant has no budget.
async fn ready_app() -> TestApp {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    app.session().await.ask("Hello").await;
    app
}

/// Holds the commits of messages that begin with `Hold`.
async fn hold_accepts(app: &TestApp, refusals: u32) -> HeldCommits {
    HeldCommits::of(app, "NEW.content::text LIKE '%Hold%'", refusals).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_is_asked_while_a_message_is_accepted_and_nothing_is_shown_before() {
    let app = ready_app().await;
    let (new, used) = (app.session().await, app.session().await);
    used.ask("Hello").await;
    for session in [&new, &used] {
        let mut held = hold_accepts(&app, 0).await;
        let requests = app.upstream().len();
        let body = json!({ "content": "Hold this" });
        let mut post = pin!(session.message(&body).header("accept", "text/event-stream").send());
        let early = async {
            held.reached().await;
            requested(&app, requests + 1).await;
            sleep(ABSENCE).await;
            let events = session.events().await;
            assert!(!events.iter().any(|event| event.to_string().contains("Hold")), "{events:?}");
        };
        tokio::select! {
            response = &mut post => panic!("a response before the commit: {response:?}"),
            () = early => {}
        }
        held.release().await;
        let events = EventStream::new(post.await.unwrap()).rest().await;
        let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
        let position = |name: &str| names.iter().position(|found| *found == name).unwrap();
        assert!(position("user.message") < position("event_delta"), "{names:?}");
        assert_eq!(events.last().unwrap().data["stop_reason"]["type"], "end_turn");
        assert_eq!(app.upstream().len(), requests + 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_not_committed_leaves_no_run_and_no_usage() {
    let app = ready_app().await;
    let session = app.session().await;
    session.ask("Hello").await;
    let used = |session: Value| session["usage"].clone();
    let before: Value = app.get(&session.path("")).send().await.unwrap().json().await.unwrap();
    let events = session.events().await.len();
    let requests = app.upstream().len();
    let mut held = hold_accepts(&app, 1).await;
    let body = json!({ "content": "Hold this" });
    let mut post = pin!(session.message(&body).send());
    let early = async {
        held.reached().await;
        requested(&app, requests + 1).await;
    };
    tokio::select! {
        response = &mut post => panic!("a response before the commit: {response:?}"),
        () = early => {}
    }
    held.release().await;
    assert_eq!(post.await.unwrap().status(), 500);
    let after: Value = app.get(&session.path("")).send().await.unwrap().json().await.unwrap();
    assert_eq!(used(after), used(before));
    assert_eq!(session.events().await.len(), events);
    app.has_settled("completed", 2).await;
    assert_eq!(session.ask("Hold this").await["status"], "completed");
    assert_eq!(session.history().await.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_with_a_budget_asks_the_model_after_its_message_is_accepted() {
    let app = ready_app().await;
    let session = app.session().await;
    let mut conn = app.database.pool(1).acquire().await.unwrap();
    let budget = Budget { tokens: Some(1_000_000), cost: None };
    set(&mut conn, TenantId::DEFAULT, Period::Total, budget).await.unwrap();
    session.ask("Hello").await;
    let mut held = hold_accepts(&app, 0).await;
    let requests = app.upstream().len();
    let body = json!({ "content": "Hold this" });
    let mut post = pin!(session.message(&body).header("prefer", "wait=60").send());
    let held_back = async {
        held.reached().await;
        sleep(ABSENCE).await;
    };
    tokio::select! {
        response = &mut post => panic!("a response before the commit: {response:?}"),
        () = held_back => {}
    }
    assert_eq!(app.upstream().len(), requests);
    held.release().await;
    let run: Value = post.await.unwrap().json().await.unwrap();
    assert_eq!(run["status"], "completed");
}

/// Another process has added to the history, and has stopped.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_started_with_an_old_history_starts_again_with_the_new_one() {
    let app = ready_app().await;
    let session = app.session().await;
    session.ask("First").await;
    let second = app.second_service(Setup::default()).await;
    let message = second.message(&session, &json!({ "content": "Second" }));
    let run: Value =
        message.header("prefer", "wait=60").send().await.unwrap().json().await.unwrap();
    assert_eq!(run["status"], "completed");
    second.stop().await;
    assert_eq!(session.ask("Third").await["status"], "completed");
    let last = app.upstream().len() - 1;
    assert_eq!(app.upstream().roles(last).len(), 5);
    // A request with the old history may have been sent, and then aborted.
    app.end_refused(&[]);
}
