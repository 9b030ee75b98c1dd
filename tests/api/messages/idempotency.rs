//! A repeated message returns the run of the first one, in every process and with every `on_busy`.

use std::time::Duration;

use futures::future::join_all;
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::support::machine::HUNG;
use crate::support::{
    Program, Setup, TestApp, binary, database, hangs_first, problem, replies, says,
};

/// Adds an idempotency key to a request, unless its body has an id.
fn keyed(request: RequestBuilder, body: &Value) -> RequestBuilder {
    if body.get("id").is_some() { request } else { request.header("idempotency-key", "k") }
}

/// A body that is repeated with a key, and one that is repeated with an id.
fn bodies() -> [Value; 2] {
    [json!({ "content": "By key" }), json!({ "content": "By id", "id": "msg-1" })]
}

/// The answer to a message, and how often the service was too busy to answer it before.
type Answer = (Response, usize);

/// Sends a message, and repeats it while the service is too busy, as clients do.
async fn send(message: RequestBuilder) -> Answer {
    let deadline = Instant::now() + HUNG;
    let mut refusals = 0;
    loop {
        let response = message.try_clone().unwrap().send().await.unwrap();
        if response.status() != StatusCode::SERVICE_UNAVAILABLE {
            return (response, refusals);
        }
        assert!(Instant::now() < deadline, "the service is too busy");
        refusals += 1;
        sleep(Duration::from_millis(100)).await;
    }
}

/// Checks that all responses name the same run and that one of them is not a replay. The answer that
/// is not a replay may have been lost in a refusal. Returns the run.
async fn assert_one_run(answers: Vec<Answer>) -> Value {
    let refusals: usize = answers.iter().map(|(_, refusals)| refusals).sum();
    let answers: Vec<Response> = answers.into_iter().map(|(answer, _)| answer).collect();
    let is_new = |answer: &&Response| answer.headers().get("idempotency-replayed").is_none();
    let new = answers.iter().filter(is_new).count();
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status().as_u16()).collect();
    assert_eq!(statuses, vec![202; answers.len()]);
    assert!(new == 1 || (new == 0 && refusals > 0), "{new} new, {refusals} refused");
    let runs = join_all(answers.into_iter().map(Response::json::<Value>)).await;
    let mut ids: Vec<Value> =
        runs.into_iter().map(|run| json!({ "id": run.unwrap()["id"] })).collect();
    ids.dedup();
    let [run] = <[Value; 1]>::try_from(ids).unwrap();
    run
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_messages_to_two_services_start_one_run() {
    let app = TestApp::start(replies(&[says("Once.")])).await;
    let other = app.second_service(Setup::default()).await;
    for on_busy in ["queue", "reject", "interrupt"] {
        for mut body in bodies() {
            let session = app.session().await;
            body["on_busy"] = on_busy.into();
            body["content"] = format!("{} to {}", body["content"], session.id).into();
            let posts = (0..100).map(|number| {
                let is_first = number % 2 == 0;
                let message =
                    if is_first { session.message(&body) } else { other.message(&session, &body) };
                send(keyed(message, &body))
            });
            let run = assert_one_run(join_all(posts).await).await;
            assert_eq!(session.settled(&run).await["status"], "completed", "{on_busy}");
            assert_eq!(session.history().await.len(), 2);
            body["content"] = "Another".into();
            let another = keyed(other.message(&session, &body), &body).send().await.unwrap();
            problem(another, 422, "idempotency_key_reused").await;
        }
    }
    assert_eq!(app.upstream().len(), 6);
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_message_must_have_the_same_on_busy() {
    let app = TestApp::start(replies(&[says("Once.")])).await;
    let session = app.session().await;
    for mut body in bodies() {
        let run: Value =
            keyed(session.message(&body), &body).send().await.unwrap().json().await.unwrap();
        session.settled(&run).await;
        body["on_busy"] = "reject".into();
        let another = keyed(session.message(&body), &body).send().await.unwrap();
        problem(another, 422, "idempotency_key_reused").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_message_interrupts_nothing_and_is_not_refused() {
    let app = TestApp::start(hangs_first()).await;
    for on_busy in ["reject", "interrupt"] {
        let session = app.session().await;
        let content = format!("hang {on_busy}");
        let body = json!({ "content": content, "on_busy": on_busy, "id": "first" });
        let run = session.post(body.clone()).await;
        session.reached(&run, "span.model_request_start").await;
        let events = session.events().await;
        let posts = (0..10).map(|_| session.post(body.clone()));
        for again in join_all(posts).await {
            assert_eq!((&again["id"], &again["status"]), (&run["id"], &json!("running")));
        }
        assert_eq!(session.events().await, events);
        session.cancel(&run).await;
        session.settled(&run).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn repeated_messages_that_interrupt_do_so_once() {
    let app = TestApp::start(hangs_first()).await;
    let other = app.second_service(Setup::default()).await;
    for mut body in bodies() {
        let session = app.session().await;
        let first = json!({ "content": format!("hang {}", session.id) });
        let live = session.post(first).await;
        session.reached(&live, "span.model_request_start").await;
        body["on_busy"] = "interrupt".into();
        let posts = (0..100).map(|number| {
            let is_first = number % 2 == 0;
            let message =
                if is_first { session.message(&body) } else { other.message(&session, &body) };
            send(keyed(message, &body))
        });
        let run = assert_one_run(join_all(posts).await).await;
        assert_eq!(session.settled(&run).await["status"], "completed");
        assert_eq!(session.run(&live).await["status"], "cancelled");
        let events = session.events().await;
        let interrupts = events.iter().filter(|event| event["type"] == "user.interrupt");
        assert_eq!(interrupts.count(), 1);
    }
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_messages_to_two_processes_start_one_run() {
    // Another test of this process may have installed it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::builder().no_proxy().build().unwrap();
    let database = database().await;
    let serve = || {
        let mut command = binary(&["serve", "--offline", "--bind", "127.0.0.1:0"]);
        command.env("DATABASE_URL", database.url());
        Program::serve(command)
    };
    let programs = [serve().await, serve().await];
    let get_json = async |request: RequestBuilder| -> Value {
        request.send().await.unwrap().json().await.unwrap()
    };
    for body in bodies() {
        let session =
            get_json(client.post(format!("{}/v1/sessions", programs[0].url))).await["id"].clone();
        let path = format!("/v1/sessions/{}/messages", session.as_str().unwrap());
        let posts = (0..100).map(|number: usize| {
            let message = client.post(format!("{}{path}", programs[number % 2].url)).json(&body);
            send(keyed(message, &body))
        });
        let run = assert_one_run(join_all(posts).await).await;
        let again = client.post(format!("{}{path}", programs[1].url)).json(&body);
        let settled = get_json(keyed(again, &body).header("prefer", "wait=30")).await;
        assert_eq!((&settled["id"], &settled["status"]), (&run["id"], &json!("completed")));
        let history = get_json(client.get(format!("{}{path}", programs[1].url))).await;
        assert_eq!(history["data"].as_array().unwrap().len(), 2);
    }
    for program in programs {
        assert!(program.terminate().await.0.success());
    }
}
