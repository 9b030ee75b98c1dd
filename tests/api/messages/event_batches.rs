//! Several events in one request.

use futures::future::join_all;
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};

use crate::support::{
    Refusal, Session, TestApp, asks, assert_refused, calls, calls_as, hangs_first, invalid,
    problem, refusal, replies, says,
};

fn events(session: &Session<'_>, events: &Value) -> RequestBuilder {
    session.app.post(&session.path("/events")).json(&json!({ "events": events }))
}

async fn applied(response: Response) -> Value {
    assert_eq!(response.status(), 200);
    response.json().await.unwrap()
}

fn confirmation_of(call: &str, result: &str) -> Value {
    json!({ "type": "user.tool_confirmation", "tool_use_id": call, "result": result })
}

fn message(content: &str) -> Value {
    json!({ "type": "user.message", "content": content })
}

/// Starts a service whose first run waits for two decisions.
async fn start_with_two_approvals() -> TestApp {
    let [one, two] = ["one", "two"].map(|line| json!({ "line": line }));
    let rings = calls_as(&[("toolu_01one", "ring", one), ("toolu_01two", "ring", two)]);
    let script = json!({ "conversations": [
        { "when": "Ring", "replies": [rings, says("Rang.")] },
        { "replies": [says("Yes.")] },
    ], "otherwise": "refuse" });
    TestApp::start_with(script, asks()).await
}

async fn ring(session: &Session<'_>) -> Value {
    let run = session.post(json!({ "content": "Ring" })).await;
    session.waits_for(&run, &["toolu_01one", "toolu_01two"]).await;
    run
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_and_a_message_are_applied_in_order() {
    let app = start_with_two_approvals().await;
    let session = app.session().await;
    let run = ring(&session).await;
    let deny = json!({ "type": "user.tool_confirmation", "tool_use_id": "toolu_01two",
        "result": "deny", "deny_message": "Once is enough." });
    let all = json!([confirmation_of("toolu_01one", "allow"), deny, message("Are you there?")]);
    let mut answer = applied(events(&session, &all).send().await.unwrap()).await;
    let next = answer["data"][2]["run_ids"][0].clone();
    let followed = answer.as_object_mut().unwrap().remove("run").unwrap();
    assert_eq!(followed["id"], next);
    let event =
        |kind: &str, run: &Value| json!({ "type": kind, "repeated": false, "run_ids": [run] });
    let confirmation = event("user.tool_confirmation", &run["id"]);
    let expected = json!({ "has_more": false, "data": [
        confirmation, confirmation, event("user.message", &next) ] });
    assert_eq!(answer, expected);
    assert_eq!(session.settled(&run).await["output_text"], "Rang.");
    assert_eq!(session.settled(&json!({ "id": next })).await["output_text"], "Yes.");

    let stored = session.events().await;
    let posted = |event: &&Value| event["type"].as_str().unwrap().starts_with("user.");
    let posted: Vec<Value> = stored
        .iter()
        .filter(posted)
        .map(|event| {
            json!([event["type"], event["tool_use_id"], event["result"], event["deny_message"]])
        })
        .collect();
    let expected = json!([
        ["user.message", null, null, null],
        ["user.tool_confirmation", "toolu_01one", "allow", null],
        ["user.tool_confirmation", "toolu_01two", "deny", "Once is enough."],
        ["user.message", null, null, null],
    ]);
    assert_eq!(json!(posted), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn results_of_calls_are_applied_together() {
    let opens = calls_as(&[("toolu_01a", "open", json!({})), ("toolu_01b", "open", json!({}))]);
    let app = TestApp::start(replies(&[opens, says("Open.")])).await;
    let tool = json!({ "name": "open", "description": "Opens.", "client": true,
        "input_schema": { "type": "object" } });
    let session = app.session_with(json!({ "tools": [tool] })).await;
    let run = session.post(json!({ "content": "Open both" })).await;
    session.waits_for(&run, &["toolu_01a", "toolu_01b"]).await;
    let result = |call: &str, content: Value| json!({ "type": "user.custom_tool_result", "custom_tool_use_id": call, "content": content });
    let both = json!([
        result("toolu_01a", json!("It is.")),
        result("toolu_01b", json!([{ "type": "text", "text": "It is, too." }]))
    ]);
    for is_repeated in [false, true] {
        let answer = applied(events(&session, &both).send().await.unwrap()).await;
        let event = json!({ "type": "user.custom_tool_result", "repeated": is_repeated,
            "run_ids": [run["id"]] });
        assert_eq!(answer["data"], json!([event, event]));
    }
    assert_eq!(session.settled(&run).await["output_text"], "Open.");
    let other = json!([result("toolu_01a", json!("It is not."))]);
    problem(events(&session, &other).send().await.unwrap(), 409, "already_resolved").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_interrupt_and_a_message_with_one_key_are_applied_once() {
    let app = TestApp::start(hangs_first()).await;
    let session = app.session().await;
    let live = session.post(json!({ "content": "hang" })).await;
    let waiting = session.post(json!({ "content": "hang, too" })).await;
    session.reached(&live, "span.model_request_start").await;
    let both = json!([{ "type": "user.interrupt" }, message("Go on")]);
    let post = || events(&session, &both).header("idempotency-key", "k").send();
    let answers = join_all((0..40).map(|_| async { post().await.unwrap() })).await;
    let is_new = |answer: &&Response| answer.headers().get("idempotency-replayed").is_none();
    assert_eq!(answers.iter().filter(is_new).count(), 1);
    let answers = join_all(answers.into_iter().map(applied)).await;
    let run = json!({ "id": answers[0]["data"][1]["run_ids"][0] });
    for answer in &answers {
        assert_eq!(answer["data"][1]["run_ids"], json!([run["id"]]));
    }
    assert_eq!(session.settled(&run).await["output_text"], "You said Go on.");
    for stopped in [&live, &waiting] {
        assert_eq!(session.settled(stopped).await["status"], "cancelled");
    }
    let stored = session.events().await;
    let interrupts = stored.iter().filter(|event| event["type"] == "user.interrupt");
    assert_eq!(interrupts.count(), 2, "one for each cancelled run");

    // A repetition after the run has settled stops no later run.
    let later = session.post(json!({ "content": "hang" })).await;
    session.reached(&later, "span.model_request_start").await;
    let again = applied(post().await.unwrap()).await;
    let expected = json!([
        { "type": "user.interrupt", "repeated": true, "run_ids": [] },
        { "type": "user.message", "repeated": true, "run_ids": [run["id"]] },
    ]);
    assert_eq!(again["data"], expected);
    assert_eq!(session.run(&later).await["status"], "running");
    // The other events are a part of the request that the key identifies.
    let other =
        json!([{ "type": "user.interrupt" }, { "type": "user.interrupt" }, message("Go on")]);
    let other = events(&session, &other).header("idempotency-key", "k").send().await.unwrap();
    problem(other, 422, "idempotency_key_reused").await;
    session.cancel(&later).await;
    session.settled(&later).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_before_the_message_are_applied_atomically() {
    let app = start_with_two_approvals().await;
    let session = app.session().await;
    let run = ring(&session).await;
    let before = session.events().await;
    for (second, status, code) in [
        (confirmation_of("toolu_01none", "allow"), 404, "approval_not_found"),
        (
            json!({ "type": "user.custom_tool_result", "custom_tool_use_id": "toolu_01two" }),
            404,
            "tool_call_not_found",
        ),
        (confirmation_of("toolu_01one", "deny"), 409, "already_resolved"),
    ] {
        let all =
            json!([confirmation_of("toolu_01one", "allow"), second, message("Are you there?")]);
        let refused = events(&session, &all).send().await.unwrap();
        assert_eq!(problem(refused, status, code).await["applied"], Value::Null);
        assert_eq!(session.events().await, before);
    }
    let both =
        json!([confirmation_of("toolu_01one", "allow"), confirmation_of("toolu_01two", "allow")]);
    applied(events(&session, &both).send().await.unwrap()).await;
    assert_eq!(session.settled(&run).await["output_text"], "Rang.");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_error_of_a_refused_message_has_the_number_of_applied_events() {
    let app = start_with_two_approvals().await;
    let session = app.session().await;
    let run = ring(&session).await;
    let archive = app.client.patch(app.url(&session.path(""))).json(&json!({ "archived": true }));
    assert_eq!(archive.send().await.unwrap().status(), 200);
    let all = json!([
        confirmation_of("toolu_01one", "allow"),
        confirmation_of("toolu_01two", "allow"),
        message("Are you there?")
    ]);
    let refused = events(&session, &all).send().await.unwrap();
    assert_eq!(refused.headers().get("x-should-retry"), None);
    let refused = problem(refused, 409, "session_archived").await;
    assert_eq!(refused["applied"], 2);
    assert_eq!(session.settled(&run).await["output_text"], "Rang.");
    // Alone it is refused like a message that is posted to `/messages`.
    let alone = events(&session, &json!([message("Are you there?")])).send().await.unwrap();
    assert_eq!(alone.headers()["x-should-retry"], "false");
    assert_eq!(problem(alone, 409, "session_archived").await["applied"], Value::Null);
}

/// Invalid lists of events, with their errors.
fn invalid_lists() -> Vec<(Value, Refusal)> {
    let interrupt = json!({ "type": "user.interrupt" });
    let with = |mut event: Value, member: &str, value: Value| {
        event[member] = value;
        event
    };
    vec![
        (json!([]), invalid("/events")),
        (json!(vec![interrupt.clone(); 129]), invalid("/events")),
        (json!([message("Hello"), interrupt]), invalid("/events/0/type")),
        (json!([interrupt, {}]), invalid("/events/1")),
        (json!([interrupt, "user.message"]), invalid("/events/1")),
        (json!([interrupt, { "type": "agent.message" }]), invalid("/events/1/type")),
        (
            json!([interrupt, with(message("Hello"), "stream", json!(true))]),
            invalid("/events/1/stream"),
        ),
        (json!([interrupt, message("")]), invalid("/events/1/content")),
        (
            json!([interrupt, with(message("Hello"), "permission_mode", json!("bypass"))]),
            invalid("/events/1/permission_mode"),
        ),
        (
            json!([
                interrupt,
                with(message("Hello"), "tool_choice", json!({ "type": "tool", "name": "x" }))
            ]),
            invalid("/events/1/tool_choice"),
        ),
        (json!([with(interrupt.clone(), "reason", json!("Why"))]), invalid("/events/0/reason")),
        (json!([confirmation_of("toolu_01", "perhaps")]), invalid("/events/0/result")),
        (
            json!([with(confirmation_of("toolu_01", "allow"), "deny_message", json!("No"))]),
            invalid("/events/0/deny_message"),
        ),
        (
            json!([interrupt, { "type": "user.custom_tool_result", "custom_tool_use_id": "a", "content": 7 }]),
            invalid("/events/1/content"),
        ),
        (
            json!([interrupt, confirmation_of("toolu_01", "allow")]),
            refusal(404, "approval_not_found"),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn no_event_of_an_invalid_request_is_applied() {
    let setup = asks();
    let app = TestApp::start_with(replies(&[says("Yes.")]), setup).await;
    let session = app.session().await;
    for (list, expected) in invalid_lists() {
        assert_refused(&session, events(&session, &list), expected).await;
    }
    let elsewhere = app.existing_session("ses_0193a7c2b8f07d3c9e41f2a6b5c8d7e0");
    for list in [json!([message("Hello")]), json!([{ "type": "user.interrupt" }])] {
        let refused = events(&elsewhere, &list).send().await.unwrap();
        problem(refused, 404, "session_not_found").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_of_an_idle_session_stops_nothing() {
    let app = TestApp::start(replies(&[calls("get_time", json!({})), says("Noon.")])).await;
    let session = app.session().await;
    session.ask("What time is it?").await;
    let before = session.events().await;
    let answer = events(&session, &json!([{ "type": "user.interrupt" }])).send().await.unwrap();
    let expected = json!([{ "type": "user.interrupt", "repeated": false, "run_ids": [] }]);
    assert_eq!(applied(answer).await["data"], expected);
    assert_eq!(session.events().await, before);
}
