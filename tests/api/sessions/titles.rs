//! Titles that the model makes after the first completed run.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use twostep::domain::price::Price;
use twostep::domain::provider::Provider;

use crate::support::{Session, Setup, TestApp, asked, calls, problem, says};

const QUESTION: &str = "What is the time in Oslo?";

/// A script that answers requests for titles with `title`, and all messages with a text.
fn script(title: &Value) -> Value {
    json!({ "conversations": [
        { "when_system": "Write a title for the conversation", "replies": [title] },
        { "replies": [with_usage(says("It is noon."), 100, 10)] },
    ], "otherwise": "refuse" })
}

fn with_usage(mut reply: Value, input: i64, output: i64) -> Value {
    reply["usage"] = json!({ "input_tokens": input, "output_tokens": output });
    reply
}

fn priced() -> Setup {
    let price = Price { input: 1_000_000, output: 3_000_000, ..Price::default() };
    Setup { prices: [("simulator".to_owned(), price)].into(), ..Setup::default() }
}

fn wanted() -> Value {
    json!({ "generate_title": true })
}

async fn read(session: &Session<'_>) -> Value {
    session.app.get(&session.path("")).send().await.unwrap().json().await.unwrap()
}

/// The requests of a run, once there are this many.
async fn requests(session: &Session<'_>, run: &Value, count: usize) -> Vec<Value> {
    let path = session.path(&format!("/runs/{}/requests", run["id"].as_str().unwrap()));
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let page: Value = session.app.get(&path).send().await.unwrap().json().await.unwrap();
        let requests = page["data"].as_array().unwrap();
        if requests.len() >= count {
            return requests.clone();
        }
        assert!(Instant::now() < deadline, "the requests were not recorded: {page}");
        sleep(Duration::from_millis(10)).await;
    }
}

async fn rename(session: &Session<'_>, title: &str) {
    let request = session.app.client.patch(session.app.url(&session.path("")));
    let done = request.json(&json!({ "title": title })).send().await.unwrap();
    assert_eq!(done.status(), StatusCode::OK);
}

fn tokens(usage: &Value) -> (i64, i64) {
    (usage["input_tokens"].as_i64().unwrap(), usage["output_tokens"].as_i64().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_completed_run_of_a_session_without_a_title_is_followed_by_a_title() {
    for provider in [Provider::Anthropic, Provider::OpenAi, Provider::OpenAiResponses] {
        let title = with_usage(says("\"Time in Oslo.\"\nAt your service."), 40, 5);
        let app = TestApp::start_with(script(&title), Setup { provider, ..priced() }).await;
        let session = app.session_with(wanted()).await;
        let run = session.ask(QUESTION).await;
        let before = session.history_with_events().await;

        let recorded = requests(&session, &run, 2).await;
        let shown = read(&session).await;
        assert_eq!(shown["title"], "Time in Oslo");
        assert_eq!(shown["generate_title"], true);
        assert_eq!((tokens(&shown["usage"]), &shown["cost"]), ((140, 15), &json!(185)));
        let record = &recorded[1];
        let shown =
            json!([record["n"], record["message_seq"], record["stop_reason"], record["cost"]]);
        assert_eq!(shown, json!([2, 0, "end_turn", 55]));
        assert_eq!(tokens(&record["usage"]), (40, 5));
        assert_eq!(record["attempts"].as_array().unwrap().len(), 1);
        let prompt = record["form"]["title"]["prompt"].as_str().unwrap();
        assert!(prompt.contains(QUESTION) && prompt.contains("It is noon."), "{prompt}");
        let settled = session.run(&run).await;
        assert_eq!((tokens(&settled["usage"]), &settled["cost"]), ((140, 15), &json!(185)));

        // The exact request is shown; it has no tools and no part of the history.
        let path = session.path(&format!("/runs/{}/requests/2", run["id"].as_str().unwrap()));
        let shown = app.get(&path).send().await.unwrap().text().await.unwrap();
        let upstream = app.upstream();
        assert!(shown.ends_with(&format!(r#","body":{}}}"#, upstream.text(1))), "{shown}");
        assert!(upstream.body(1).get("tools").is_none(), "{}", upstream.text(1));

        // History and events of the run are as before; one event of the session reports the title.
        assert_eq!(session.history_with_events().await, before);
        let events = session.events().await;
        let last = events.last().unwrap();
        assert_eq!(
            (&last["type"], &last["title"]),
            (&json!("session.updated"), &json!("Time in Oslo"))
        );
        assert_eq!(last.get("run_id").filter(|id| !id.is_null()), None, "{last}");
        let of_run = events.iter().rfind(|event| event["run_id"] == run["id"]);
        assert_eq!(of_run.unwrap()["type"], "session.status_idle");

        session.ask("And in Bergen?").await;
        assert_eq!(app.upstream().len(), 3, "a later turn asks for no title");
        app.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_title_is_made_by_default_for_a_title_of_the_client_or_with_a_budget() {
    let app = TestApp::start_with(script(&says("Time in Oslo")), priced()).await;
    let settings = [
        json!({}),
        json!({ "generate_title": false }),
        json!({ "generate_title": true, "title": "Mine" }),
        json!({ "generate_title": true, "budget": { "tokens": 1_000_000 } }),
    ];
    let mut others = Vec::new();
    for settings in &settings {
        let session = app.session_with(settings.clone()).await;
        session.ask(&format!("{QUESTION} {settings}")).await;
        others.push(session);
    }
    // Were there a task for one of the others, it would be ahead of this one.
    let session = app.session_with(wanted()).await;
    let run = session.ask(QUESTION).await;
    requests(&session, &run, 2).await;
    assert_eq!(app.upstream().len(), settings.len() + 2);
    for (session, settings) in others.iter().zip(&settings) {
        assert_eq!(read(session).await["title"], settings["title"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_title_that_the_client_sets_meanwhile_wins() {
    let slow = json!({ "content": [{ "type": "text", "text": "Made" }], "delay_ms": 1000 });
    let app = TestApp::start(script(&slow)).await;
    let session = app.session_with(wanted()).await;
    let run = session.ask(QUESTION).await;
    asked(&app, 2).await;
    rename(&session, "Mine").await;
    let recorded = requests(&session, &run, 2).await;
    assert_eq!(recorded[1]["stop_reason"], "end_turn", "the request counts all the same");
    assert_eq!(read(&session).await["title"], "Mine");
    let events = session.events().await;
    assert_eq!(events.iter().filter(|event| event["type"] == "session.updated").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_request_for_a_title_changes_nothing_else() {
    let overloaded = json!({ "status": 529 });
    let refused = json!({ "content": [], "stop_reason": "refusal" });
    let calling = calls("get_time", json!({}));
    let broken = json!({ "content": [{ "type": "text", "text": "Time in Oslo" }], "cut_after": 3 });
    for (reply, has_failed) in
        [(overloaded, true), (broken, true), (refused, false), (calling, false)]
    {
        let app = TestApp::start(script(&reply)).await;
        let session = app.session_with(wanted()).await;
        let run = session.ask(QUESTION).await;
        let recorded = requests(&session, &run, 2).await;
        let record = &recorded[1];
        assert_eq!(record["error"].is_object(), has_failed, "{record}");
        assert_eq!(record["stop_reason"].is_null(), has_failed, "{record}");
        assert_eq!(read(&session).await["title"], Value::Null);
        assert_eq!(session.ask("And in Bergen?").await["output_text"], "It is noon.");
        assert_eq!(app.upstream().len(), 3, "no title is asked for again");
        app.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_ends_the_request_for_a_title_and_counts_what_it_used() {
    let hangs = json!({ "content": [{ "type": "text", "text": "Time in Oslo" }], "chunk": 4,
                        "hang_after": 4 });
    let app = TestApp::start_with(script(&hangs), priced()).await;
    let session = app.session_with(wanted()).await;
    let run = session.ask(QUESTION).await;
    asked(&app, 2).await;
    let id = session.id.clone();
    let started = Instant::now();
    let app = app.restarted(script(&says("Late"))).await;
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    let session = app.existing_session(&id);
    let recorded = requests(&session, &run, 2).await;
    assert_eq!(recorded[1]["stop_reason"], Value::Null);
    assert_eq!(read(&session).await["title"], Value::Null);
    assert_eq!(session.ask("And in Bergen?").await["status"], "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn titles_are_a_setting_of_operator_agent_and_session() {
    let setup = Setup { generate_title: true, ..Setup::default() };
    let app = TestApp::start_with(script(&says("Time in Oslo")), setup).await;
    let put =
        app.client.put(app.url("/v1/agents/untitled")).json(&json!({ "generate_title": false }));
    assert!(put.send().await.unwrap().status().is_success());
    let by_agent = |more: Value| {
        let mut body = json!({ "agent": "untitled" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    for (body, expected) in [
        (json!({}), true),
        (json!({ "generate_title": false }), false),
        (by_agent(json!({})), false),
        (by_agent(wanted()), true),
    ] {
        let session = app.session_with(body).await;
        assert_eq!(read(&session).await["generate_title"], expected);
    }
    let session = app.session().await;
    let run = session.ask(QUESTION).await;
    requests(&session, &run, 2).await;
    assert_eq!(read(&session).await["title"], "Time in Oslo");

    // A fork of a session with a title has that title.
    let fork = app.post(&session.path("/forks")).json(&json!({})).send().await.unwrap();
    let fork: Value = fork.json().await.unwrap();
    let fork = app.existing_session(fork["id"].as_str().unwrap());
    assert_eq!(fork.ask("And in Bergen?").await["model_requests"], 1);
    let asked_before = app.upstream().len();
    let last = app.session().await;
    let run = last.ask("Last").await;
    requests(&last, &run, 2).await;
    assert_eq!(app.upstream().len(), asked_before + 2, "the fork asks for no title");

    let pinned = app.client.patch(app.url(&session.path(""))).json(&wanted());
    let refused = problem(pinned.send().await.unwrap(), 422, "validation_failed").await;
    assert_eq!(refused["errors"][0]["pointer"], "/generate_title");
}
