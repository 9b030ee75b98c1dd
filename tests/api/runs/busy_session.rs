//! Messages to a busy session: each one is queued, refused, or interrupts the active run.

use std::time::{Duration, Instant};

use futures::future::join_all;
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use twostep::domain::run_options::OnBusy;

use crate::runs::cancelling;
use crate::support::{
    HALF_OF_RENEWAL_INTERVAL, Session, Setup, TestApp, assert_notified, hangs_first, problem,
};

/// Starts a run whose model request hangs, and waits for the request.
async fn hanging(session: &Session<'_>) -> Value {
    let run = session.post(json!({ "content": "hang" })).await;
    session.reached(&run, "span.model_request_start").await;
    run
}

async fn send(session: &Session<'_>, body: Value) -> Response {
    session.message(&body).send().await.unwrap()
}

fn with(on_busy: &str, content: &str) -> Value {
    json!({ "content": content, "on_busy": on_busy })
}

/// The texts of the history, in order, without those of interrupted replies.
async fn texts(session: &Session<'_>) -> Vec<String> {
    let mut history = session.history().await;
    history.retain(|item| item["message"]["interrupted"] != true);
    let text = |item: &Value| item["message"]["content"][0]["text"].as_str().unwrap().to_owned();
    history.iter().map(text).collect()
}

/// Checks that a response is a refusal that names the active run.
async fn assert_busy(response: Response, run: &Value) {
    assert_eq!(response.headers()["retry-after"], "1");
    assert_eq!(response.headers()["x-should-retry"], "false");
    let problem = problem(response, 409, "session_busy").await;
    assert_eq!(problem["active_run_id"], run["id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_may_not_be_queued_is_refused_by_a_busy_session() {
    let app = TestApp::start(hangs_first()).await;
    let session = app.session().await;
    let live = hanging(&session).await;
    let events = session.events().await;
    assert_busy(send(&session, with("reject", "Now or never")).await, &live).await;
    assert_eq!(session.events().await, events);

    session.cancel(&live).await;
    session.settled(&live).await;
    let response = send(&session, with("reject", "Now")).await;
    let run: Value = response.json().await.unwrap();
    assert_eq!(run["status"], "running", "an idle session starts it at once");
    assert_eq!(session.settled(&run).await["output_text"], "You said Now.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_with_a_message_queued_for_a_worker_is_busy() {
    let app =
        TestApp::start_with(hangs_first(), Setup { slots: Some(1), ..Setup::default() }).await;
    let (blocker, session) = (app.session().await, app.session().await);
    let blocking = hanging(&blocker).await;
    let response = send(&session, with("reject", "First")).await;
    assert_eq!(response.status(), StatusCode::ACCEPTED, "it waits for a worker, not for a run");
    let first: Value = response.json().await.unwrap();
    assert_eq!(first["status"], "queued");
    assert_busy(send(&session, with("reject", "Second")).await, &first).await;
    blocker.cancel(&blocking).await;
    assert_eq!(session.settled(&first).await["output_text"], "You said First.");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_many_messages_that_may_not_be_queued_is_accepted() {
    let app = TestApp::start(hangs_first()).await;
    let other = app.second_service(Setup::default()).await;
    let session = app.session().await;
    let body = with("reject", "hang");
    let posts = (0..40).map(|number| {
        let is_first = number % 2 == 0;
        let post = if is_first { session.message(&body) } else { other.message(&session, &body) };
        async { post.send().await.unwrap() }
    });
    let (accepted, refused): (Vec<_>, Vec<_>) =
        join_all(posts).await.into_iter().partition(|answer| answer.status() == 202);
    let [accepted] = <[Response; 1]>::try_from(accepted).unwrap();
    let run: Value = accepted.json().await.unwrap();
    for answer in refused {
        assert_busy(answer, &run).await;
    }
    session.cancel(&run).await;
    session.settled(&run).await;
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_default_of_the_operator_applies_to_messages_without_on_busy() {
    let setup = Setup { on_busy: OnBusy::Reject, ..Setup::default() };
    let app = TestApp::start_with(hangs_first(), setup).await;
    let session = app.session().await;
    let live = hanging(&session).await;
    assert_busy(send(&session, json!({ "content": "Hello?" })).await, &live).await;
    let next = session.post(with("queue", "Next")).await;
    assert_eq!((&next["status"], &next["queue_position"]), (&json!("queued"), &json!(1)));
    session.cancel(&live).await;
    assert_eq!(session.settled(&next).await["output_text"], "You said Next.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_interrupts_an_idle_session_starts_at_once() {
    let app = TestApp::start(hangs_first()).await;
    let session = app.session().await;
    // A worker that has just started may not be ready to start a run at once.
    session.ask("Ready?").await;
    let run = session.post(with("interrupt", "Hello")).await;
    assert_eq!(run["status"], "running");
    assert_eq!(session.settled(&run).await["output_text"], "You said Hello.");
    let events = session.events().await;
    assert!(events.iter().all(|event| event["type"] != "user.interrupt"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_interrupts_while_the_reply_streams() {
    let app = TestApp::start(hangs_first()).await;
    assert_notified(HALF_OF_RENEWAL_INTERVAL, async |round| {
        let session = app.session().await;
        let message = format!("hang {round}");
        let live = session.post(json!({ "content": message })).await;
        session.reached(&live, "span.model_request_start").await;
        let asked = Instant::now();
        let next = session.post(with("interrupt", "Instead")).await;
        let position = (&next["status"], &next["queue_position"]);
        assert_eq!(position, (&json!("queued"), &json!(1)));
        let stopped = session.settled(&live).await;
        let took = asked.elapsed();
        assert_eq!(stopped["stop_reason"], json!({ "type": "cancelled" }));
        assert_eq!(session.settled(&next).await["output_text"], "You said Instead.");
        assert_eq!(texts(&session).await, [&*message, "Instead", "You said Instead."]);
        let of_clients = |event: &Value| {
            let is_client = event["type"].as_str().unwrap().starts_with("user.");
            is_client.then(|| (event["type"].clone(), event["run_id"].clone()))
        };
        let client_events: Vec<_> = session.events().await.iter().filter_map(of_clients).collect();
        let expected = [
            (json!("user.message"), live["id"].clone()),
            (json!("user.interrupt"), live["id"].clone()),
            (json!("user.message"), next["id"].clone()),
        ];
        assert_eq!(client_events, expected);
        took
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_with_effects_is_answered_before_the_message_that_interrupts_it() {
    let launch = json!({ "content": [{ "type": "tool_use", "name": "launch", "input": {} }] });
    let app = cancelling::start(cancelling::first(&launch)).await;
    let session = app.session().await;
    let live = session.post(json!({ "content": "go" })).await;
    cancelling::started(&session, "launch").await;
    let next = session.post(with("interrupt", "Instead")).await;
    assert_eq!(session.settled(&next).await["output_text"], "Still here.");
    assert_eq!(session.run(&live).await["status"], "cancelled");
    let history = session.history().await;
    let roles: Vec<&Value> = history.iter().map(|item| &item["type"]).collect();
    assert_eq!(roles, ["user", "assistant", "user", "user", "assistant"]);
    let result = &history[2]["message"]["content"][0];
    assert_eq!((&result["type"], &result["is_error"]), (&json!("tool_result"), &json!(true)));
    assert!(result["content"].as_str().unwrap().starts_with("Interrupted:"), "{result}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_interrupts_does_not_overtake_queued_messages() {
    let app = TestApp::start(hangs_first()).await;
    let session = app.session().await;
    hanging(&session).await;
    for number in 1..=3 {
        session.post(json!({ "content": format!("number {number}") })).await;
    }
    let last = session.post(with("interrupt", "number 4")).await;
    assert_eq!(last["queue_position"], 4);
    session.settled(&last).await;
    let mut expected = vec!["hang".to_owned()];
    for number in 1..=4 {
        expected.push(format!("number {number}"));
        expected.push(format!("You said number {number}."));
    }
    assert_eq!(texts(&session).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_to_a_full_queue_interrupts_nothing() {
    let app = TestApp::start(hangs_first()).await;
    let session = app.session().await;
    let live = hanging(&session).await;
    for number in 1..=16 {
        session.post(json!({ "content": format!("number {number}") })).await;
    }
    let events = session.events().await;
    problem(send(&session, with("interrupt", "One more")).await, 409, "queue_full").await;
    assert_eq!(session.events().await, events);
    assert_eq!(session.run(&live).await["status"], "running");
    let response = app.post(&session.path("/cancel")).send().await.unwrap();
    assert!(response.status().is_success());
    session.settled(&live).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn messages_that_interrupt_each_other_are_all_in_the_history() {
    let app = TestApp::start(hangs_first()).await;
    let session = app.session().await;
    let live = hanging(&session).await;
    let posts = (0..12).map(|number| session.post(with("interrupt", &format!("number {number}"))));
    let mut runs = join_all(posts).await;
    for run in &mut runs {
        *run = session.settled(run).await;
    }
    assert_eq!(session.run(&live).await["status"], "cancelled");
    let interrupts =
        |event: &&Value| event["type"] == "user.interrupt" && event["run_id"] == live["id"];
    assert_eq!(session.events().await.iter().filter(interrupts).count(), 1);
    let listed = runs_of(&session).await;
    assert_eq!(listed.last().unwrap()["status"], "completed", "no message followed it");
    assert_order(&session, &listed).await;
}

async fn runs_of(session: &Session<'_>) -> Vec<Value> {
    let path = session.path("/runs?limit=200");
    let page: Value = session.app.get(&path).send().await.unwrap().json().await.unwrap();
    page["data"].as_array().unwrap().clone()
}

/// Checks that the history has the messages of all runs, in the order of their acceptance.
async fn assert_order(session: &Session<'_>, runs: &[Value]) {
    let accepted: Vec<&Value> = runs.iter().map(|run| &run["message_id"]).collect();
    let history = session.history().await;
    let users = history.iter().filter(|item| item["type"] == "user");
    let stored: Vec<&Value> = users.map(|item| &item["message"]["id"]).collect();
    assert_eq!(stored, accepted);
}

/// Checks during `work` that no session has two active runs.
async fn assert_one_active_run_during<T>(app: &TestApp, work: impl Future<Output = T>) -> T {
    let pool = app.database.pool(1);
    let check = async {
        loop {
            let double: Vec<String> = sqlx::query_scalar(
                "SELECT session_id::text FROM runs WHERE status IN ('running', 'requires_action')
                 GROUP BY session_id HAVING count(*) > 1",
            )
            .fetch_all(&pool)
            .await
            .unwrap();
            assert_eq!(double, Vec::<String>::new());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        never = check => never,
        done = work => done,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_hundred_messages_with_all_values_of_on_busy_keep_their_order() {
    let reply = json!({ "content": [{ "type": "text", "text": "You said {{user}}." }],
                        "delay_ms": 20 });
    let app = TestApp::start(json!({ "conversations": [{ "replies": [reply] }] })).await;
    let other = app.second_service(Setup::default()).await;
    let sessions = join_all((0..20).map(|_| app.session())).await;
    let modes = ["queue", "reject", "interrupt"];
    let posts = (0..200).map(|number: usize| {
        let session = &sessions[number % 20];
        let body = with(modes[number / 20 % 3], &format!("number {number}"));
        let is_first = (number / 20).is_multiple_of(2);
        let post = if is_first { session.message(&body) } else { other.message(session, &body) };
        async { post.send().await.unwrap() }
    });
    let settled = async {
        let mut accepted = 0;
        for answer in join_all(posts).await {
            if answer.status() == 202 {
                accepted += 1;
            } else {
                problem(answer, 409, "session_busy").await;
            }
        }
        let mut found = 0;
        for session in &sessions {
            let mut runs = runs_of(session).await;
            for run in &mut runs {
                *run = session.settled(run).await;
                let status = run["status"].as_str().unwrap();
                assert!(["completed", "cancelled"].contains(&status), "{run}");
            }
            assert_order(session, &runs).await;
            found += runs.len();
        }
        assert_eq!(found, accepted);
    };
    assert_one_active_run_during(&app, settled).await;
    other.stop().await;
}
