//! Tools that the client runs.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use twostep::tools::{Tool, Typed};

use crate::support::media::pixel;
use crate::support::{
    Endless, Setup, TestApp, asks, asks_for_approval_within, assert_refused, calls_as, invalid,
    pending, problem, replies, says,
};

fn door() -> Value {
    json!({
        "name": "open_door", "description": "Opens a door.", "client": true,
        "input_schema": { "type": "object", "properties": { "door": { "type": "integer" } } },
    })
}

/// The definition of the tool that is sent to the model.
fn definition() -> Value {
    let mut door = door();
    door.as_object_mut().unwrap().remove("client");
    door
}

fn two_doors() -> Value {
    replies(&[
        calls_as(&[
            ("toolu_1", "open_door", json!({ "door": 1 })),
            ("toolu_2", "get_time", json!({})),
            ("toolu_3", "open_door", json!({ "door": 3 })),
        ]),
        says("{{result.0}} and {{result.2}}"),
    ])
}

fn one_door() -> Value {
    replies(&[
        calls_as(&[("toolu_1", "open_door", json!({ "door": 1 }))]),
        says("It said: {{results}}"),
    ])
}

fn with_door() -> Value {
    json!({ "tools": [door(), "get_time"] })
}

fn result(id: &str, content: &Value) -> Value {
    json!({ "tool_use_id": id, "content": content })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_a_call_that_does_not_wait_yet_is_refused() {
    let script = replies(&[calls_as(&[
        ("toolu_1", "launch", json!({})),
        ("toolu_2", "open_door", json!({ "door": 1 })),
    ])]);
    let tools: Vec<Arc<dyn Tool>> = vec![Arc::new(Typed(Endless::<false>))];
    let app = TestApp::start_with(script, Setup { tools, ..Setup::default() }).await;
    let session = app.session_with(json!({ "tools": [door(), "launch"] })).await;
    let run = session.post(json!({ "content": "Go" })).await;
    session.reached(&run, "agent.custom_tool_use").await;
    let body = json!({ "results": [result("toolu_2", &json!("open"))] });
    let early = app.post(&session.path("/tool_results")).json(&body).send().await.unwrap();
    problem(early, 409, "call_not_waiting").await;
    let path = session.path("/approvals/toolu_2");
    let early = app.post(&path).json(&json!({ "decision": "allow" })).send().await.unwrap();
    problem(early, 409, "call_not_waiting").await;
    session.cancel(&run).await;
    assert_eq!(session.settled(&run).await["status"], "cancelled");
    let late = app.post(&session.path("/tool_results")).json(&body).send().await.unwrap();
    problem(late, 404, "tool_call_not_found").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_submits_results_one_by_one() {
    let app = TestApp::start_with(two_doors(), asks()).await;
    let session = app.session_with(with_door()).await;
    let read = session.read().await;
    assert_eq!(
        (&read["tools"], &read["client_tools"], &read["dispatch"]),
        (&json!(["get_time", "open_door"]), &json!(["open_door"]), &json!("auto"))
    );
    let run = session.ask("Open them").await;
    let by = &run["pending"][0]["answer_by"];
    let call = |id: &str, door: i64| {
        json!({ "tool_use_id": id, "name": "open_door", "input": { "door": door },
                "awaits": "client", "answer_by": by })
    };
    assert_eq!(run["pending"], json!([call("toolu_1", 1), call("toolu_3", 3)]));
    assert_eq!(session.approvals().await, json!([]));
    let run = session
        .accepted(session.submit_results(&json!([result("toolu_3", &json!("three"))])))
        .await;
    assert_eq!(pending(&run), ["toolu_1"]);
    assert_eq!(session.verify().await["findings"], json!([]));
    session.accepted(session.submit_results(&json!([result("toolu_1", &json!("one"))]))).await;
    assert_eq!(session.settled(&run).await["output_text"], "one and three");
    // The last tool of the session, so the prompt cache has a breakpoint after it.
    let mut sent = app.upstream().body(0)["tools"][1].clone();
    assert_eq!(sent["cache_control"].take(), json!({ "type": "ephemeral" }));
    let mut expected = definition();
    expected["cache_control"] = Value::Null;
    assert_eq!(sent, expected);
    let kinds = [
        "user.message",
        "session.status_running",
        "agent.custom_tool_use",
        "agent.tool_use",
        "agent.custom_tool_use",
        "agent.tool_result",
        "session.status_idle",
        "user.custom_tool_result",
        "session.status_idle",
        "user.custom_tool_result",
        "session.status_running",
        "agent.message",
        "session.usage",
        "session.status_idle",
    ];
    assert_eq!(session.kinds().await, kinds);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_after_a_change_that_waits_for_the_client_wait_too() {
    let script = replies(&[
        calls_as(&[
            ("toolu_1", "open_door", json!({ "door": 1 })),
            ("toolu_2", "write_file", json!({ "path": "a.txt", "content": "new\n" })),
            ("toolu_3", "read_file", json!({ "path": "a.txt" })),
        ]),
        says("It said: {{result.2}}"),
    ]);
    let app = TestApp::start(script).await;
    app.write_file("a.txt", "old\n");
    let tools = json!([door(), "write_file", "read_file"]);
    let session = app.session_with(json!({ "tools": tools })).await;
    let run = session.ask("Open it, write it and read it").await;
    assert_eq!((&run["status"], pending(&run)), (&json!("requires_action"), vec!["toolu_1"]));
    assert!(!session.kinds().await.contains(&"agent.tool_result".to_owned()));
    session.accepted(session.submit_results(&json!([result("toolu_1", &json!("open"))]))).await;
    assert_eq!(session.settled(&run).await["output_text"], "It said: new");
}

#[tokio::test(flavor = "multi_thread")]
async fn results_that_are_submitted_together_are_all_accepted_or_all_refused() {
    let app = TestApp::start_with(two_doors(), asks()).await;
    let session = app.session_with(with_door()).await;
    let run = session.ask("Open them").await;
    let (one, three) = (result("toolu_1", &json!("one")), result("toolu_3", &json!("three")));
    let events = session.events().await;
    for unknown in ["toolu_2", "toolu_9", "", "a\u{0}b"] {
        let results = json!([one, result(unknown, &json!("?")), three]);
        let refused = session.submit_results(&results).send().await.unwrap();
        problem(refused, 404, "tool_call_not_found").await;
    }
    assert_eq!(
        (session.events().await, pending(&session.run(&run).await)),
        (events, vec!["toolu_1", "toolu_3"])
    );
    session.accepted(session.submit_results(&json!([three, one]))).await;
    assert_eq!(session.settled(&run).await["output_text"], "one and three");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_result_changes_nothing_and_a_different_one_is_refused() {
    let app = TestApp::start_with(one_door(), asks()).await;
    let session = app.session_with(with_door()).await;
    let run = session.ask("Open it").await;
    let open = json!([{ "tool_use_id": "toolu_1", "content": "open", "is_error": true }]);
    session.accepted(session.submit_results(&open)).await;
    session.settled(&run).await;
    let events = session.events().await;
    let again = session.submit_results(&open).send().await.unwrap();
    assert_eq!(again.status(), 200);
    assert_eq!(again.headers()["idempotency-replayed"], "true");
    // A text and a text block with the same text are equal.
    let blocks = json!([{ "type": "text", "text": "open" }]);
    let blocks = json!([{ "tool_use_id": "toolu_1", "content": blocks, "is_error": true }]);
    assert_eq!(session.submit_results(&blocks).send().await.unwrap().status(), 200);
    for different in [
        json!([{ "tool_use_id": "toolu_1", "content": "open" }]),
        json!([{ "tool_use_id": "toolu_1", "content": "shut", "is_error": true }]),
        json!([{ "tool_use_id": "toolu_1" }]),
    ] {
        let refused = session.submit_results(&different).send().await.unwrap();
        problem(refused, 409, "already_resolved").await;
    }
    assert_eq!(session.events().await, events);
    let stored = &session.history().await[2]["message"]["content"][0];
    let expected = json!({ "type": "tool_result", "tool_use_id": "toolu_1", "content": "open", "is_error": true });
    assert_eq!(stored, &expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_different_results_at_once_one_is_accepted() {
    let app = TestApp::start_with(one_door(), asks()).await;
    for pair in 0..20 {
        let session = app.session_with(with_door()).await;
        let run = session.ask(&format!("Open {pair}")).await;
        let (one, two) =
            (json!([result("toolu_1", &json!("1"))]), json!([result("toolu_1", &json!("2"))]));
        let (one, two) =
            tokio::join!(session.submit_results(&one).send(), session.submit_results(&two).send());
        let (one, two) = (one.unwrap().status().as_u16(), two.unwrap().status().as_u16());
        let output = session.settled(&run).await["output_text"].clone();
        match (one, two) {
            (202, 409) => assert_eq!(output, "It said: 1"),
            (409, 202) => assert_eq!(output, "It said: 2"),
            statuses => panic!("{statuses:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_after_the_deadline_is_refused() {
    let app =
        TestApp::start_with(one_door(), asks_for_approval_within(Duration::from_millis(300))).await;
    let session = app.session_with(with_door()).await;
    let run = session.ask("Open it").await;
    let settled = session.settled(&run).await;
    let output = settled["output_text"].as_str().unwrap();
    assert!(output.contains("The client sent no result in time."), "{output}");
    let late =
        session.submit_results(&json!([result("toolu_1", &json!("open"))])).send().await.unwrap();
    problem(late, 410, "tool_result_expired").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_with_an_image_is_stored_and_its_event_has_only_the_type_and_size() {
    let script =
        replies(&[calls_as(&[("toolu_1", "open_door", json!({ "door": 1 }))]), says("I see.")]);
    let app = TestApp::start_with(script, asks()).await;
    let session = app.session_with(with_door()).await;
    let run = session.ask("Open it").await;
    let blocks = json!([{ "type": "text", "text": "A room:" }, pixel()]);
    let results = json!([result("toolu_1", &blocks)]);
    session.accepted(session.submit_results(&results)).await;
    assert_eq!(session.settled(&run).await["output_text"], "I see.");
    let stored = &session.history().await[2]["message"]["content"][0]["content"];
    assert_eq!(stored, &blocks);
    let events = session.events().await;
    let event = events.iter().find(|event| event["type"] == "user.custom_tool_result").unwrap();
    let expected = json!([{ "type": "text", "text": "A room:" }, { "type": "text", "text": "[image/png, 70 bytes]" }]);
    assert_eq!((&event["content"], &event["custom_tool_use_id"]), (&expected, &json!("toolu_1")));
    assert_eq!(session.submit_results(&results).send().await.unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn characters_that_cannot_be_stored_are_replaced() {
    let app = TestApp::start_with(one_door(), asks()).await;
    let session = app.session_with(with_door()).await;
    let run = session.ask("Open it").await;
    let body = r#"{"results":[{"tool_use_id":"toolu_1","content":"a\u0000b\ud800c\ud83d\ude00"}]}"#;
    let post = app.post(&session.path("/tool_results")).header("content-type", "application/json");
    session.accepted(post.body(body)).await;
    let expected = "It said: a\u{fffd}b\u{fffd}c\u{1f600}";
    assert_eq!(session.settled(&run).await["output_text"], expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_may_define_tools_for_its_run() {
    let app = TestApp::start_with(
        json!({ "conversations": [
        { "when": "again", "replies": [calls_as(&[("toolu_9", "open_door", json!({}))])] },
        { "replies": one_door()["conversations"][0]["replies"] },
    ], "otherwise": "refuse" }),
        asks(),
    )
    .await;
    let session = app.session_with(json!({ "tools": ["get_time"] })).await;
    let message = json!({ "content": "Open it", "tools": [door()] });
    let run = session.ask_with(message).await;
    assert_eq!((&run["status"], pending(&run)), (&json!("requires_action"), vec!["toolu_1"]));
    session.accepted(session.submit_results(&json!([result("toolu_1", &json!("open"))]))).await;
    assert_eq!(session.settled(&run).await["output_text"], "It said: open");
    for request in 0..2 {
        let tools = &app.upstream().body(request)["tools"];
        assert_eq!((&tools[0]["name"], &tools[1]), (&json!("get_time"), &definition()));
    }
    let forced = json!({ "type": "tool", "name": "open_door" });
    let without = json!({ "content": "Again", "tool_choice": forced });
    let refused = session.message(&without).send().await.unwrap();
    let refused = problem(refused, 422, "validation_failed").await;
    assert_eq!(refused["errors"][0]["pointer"], "/tool_choice");
    let with = json!({ "content": "Again", "tool_choice": forced, "tools": [door()] });
    let run = session.ask_with(with).await;
    assert_eq!(run["status"], "requires_action");
    session.cancel(&run).await;
    session.settled(&run).await;
}

/// Invalid definitions of tools, each with the pointer of its error.
fn invalid_tools() -> Vec<(Value, &'static str)> {
    let door = |change: fn(&mut Value)| {
        let mut door = door();
        change(&mut door);
        json!([door])
    };
    vec![
        (door(|door| door["name"] = json!("open door")), "/tools/0/name"),
        (door(|door| door["name"] = json!("")), "/tools/0/name"),
        (door(|door| door["name"] = json!("x".repeat(65))), "/tools/0/name"),
        (door(|door| door["name"] = json!(1)), "/tools/0/name"),
        (door(|door| door["client"] = json!(false)), "/tools/0/client"),
        (door(|door| door["clients"] = json!(true)), "/tools/0/clients"),
        (door(|door| door["description"] = json!("a\u{0}")), "/tools/0/description"),
        (door(|door| door["description"] = json!("x".repeat(10_001))), "/tools/0/description"),
        (door(|door| door["input_schema"] = json!({})), "/tools/0/input_schema"),
        (door(|door| door["input_schema"] = json!({ "type": "string" })), "/tools/0/input_schema"),
        (
            door(|door| door["input_schema"]["properties"] = json!({ "a": { "type": "x" } })),
            "/tools/0/input_schema",
        ),
        (
            door(|door| door["input_schema"]["$ref"] = json!("https://example.org/schema")),
            "/tools/0/input_schema",
        ),
        (
            door(|door| door["input_schema"]["title"] = json!("x".repeat(40_000))),
            "/tools/0/input_schema",
        ),
        (json!([door(|_| {})[0], door(|_| {})[0]]), "/tools/1/name"),
        (json!([["open_door", "", {}, true]]), "/tools/0"),
        (json!([7]), "/tools/0"),
        (json!("open_door"), "/tools"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_definition_of_a_tool_is_refused_with_a_pointer() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let session = app.session().await;
    for (tools, pointer) in invalid_tools() {
        let create = app.post("/v1/sessions").json(&json!({ "tools": tools }));
        assert_refused(&session, create, invalid(pointer)).await;
        let message = json!({ "content": "Hi", "tools": tools });
        assert_refused(&session, session.message(&message), invalid(pointer)).await;
    }
    let mut clash = door();
    clash["name"] = json!("get_time");
    let create = app.post("/v1/sessions").json(&json!({ "tools": ["get_time", clash] }));
    assert_refused(&session, create, invalid("/tools/1/name")).await;
    let message = session.message(&json!({ "content": "Hi", "tools": [clash] }));
    assert_refused(&session, message, invalid("/tools/0/name")).await;
    let create = app.post("/v1/sessions").json(&json!({ "dispatch": "unknown" }));
    assert_refused(&session, create, invalid("/dispatch")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_result_is_refused_with_a_pointer() {
    let app = TestApp::start_with(one_door(), asks()).await;
    let session = app.session_with(with_door()).await;
    let run = session.ask("Open it").await;
    let one = |content: Value| json!({ "results": [result("toolu_1", &content)] });
    let image = |source: Value| one(json!([{ "type": "image", "source": source }]));
    let table = [
        (json!({}), ""),
        (json!({ "results": [] }), "/results"),
        (json!({ "results": [["toolu_1", "x"]] }), "/results/0"),
        (json!({ "results": [{ "content": "x" }] }), "/results/0"),
        (json!({ "results": [{ "tool_use_id": "toolu_1", "output": "x" }] }), "/results/0/output"),
        (json!({ "results": [{ "tool_use_id": 1 }] }), "/results/0/tool_use_id"),
        (
            json!({ "results": [result("toolu_1", &json!("a")), result("toolu_1", &json!("a"))] }),
            "/results/1/tool_use_id",
        ),
        (one(json!(1)), "/results/0/content"),
        (one(json!({ "type": "text", "text": "a" })), "/results/0/content"),
        (one(json!([{ "type": "text", "text": " " }])), "/results/0/content/0/text"),
        (one(json!([{ "type": "text", "text": "a", "b": 1 }])), "/results/0/content/0/b"),
        (one(json!("x".repeat(100 * 1024 + 1))), "/results/0/content"),
        (
            image(json!({ "type": "base64", "media_type": "image/svg+xml", "data": "AAAA" })),
            "/results/0/content/0/source/media_type",
        ),
        (
            image(json!({ "type": "base64", "media_type": "image/png", "data": "no!" })),
            "/results/0/content/0/source/data",
        ),
        (
            image(json!({ "type": "base64", "media_type": "image/png", "data": "AAAA" })),
            "/results/0/content/0/source/data",
        ),
        (
            json!({ "results": [
                { "tool_use_id": "toolu_1", "is_error": true, "content": [pixel()] }] }),
            "/results/0/content",
        ),
        (
            image(json!({ "type": "url", "url": "file:///etc/passwd" })),
            "/results/0/content/0/source/url",
        ),
    ];
    let events = session.events().await;
    for (body, pointer) in table {
        let refused = app.post(&session.path("/tool_results")).json(&body).send().await.unwrap();
        let refused = problem(refused, 422, "validation_failed").await;
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{body}: {refused}");
    }
    assert_eq!(session.events().await, events);
    session.accepted(session.submit_results(&json!([result("toolu_1", &json!("open"))]))).await;
    assert_eq!(session.settled(&run).await["output_text"], "It said: open");
}
