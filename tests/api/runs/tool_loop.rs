//! The tool loop, from a message to the answer of the model.

use serde_json::{Value, json};

use crate::support::{SYSTEM, Setup, TestApp, calls, replies, says};
use twostep::domain::limits::Limits;
use twostep::domain::price::Price;

fn texts(events: &[Value], kind: &str) -> Vec<String> {
    events
        .iter()
        .filter(|event| event["type"] == kind)
        .flat_map(|event| event["content"].as_array().unwrap().clone())
        .map(|block| block["text"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_output_of_a_tool_is_never_the_answer() {
    let reads = calls("read_file", json!({ "path": "secret-plan.txt" }));
    let app = TestApp::start(replies(&[reads, says("It is a plan for a garden.")])).await;
    app.write_file("secret-plan.txt", "dig, sow, water: RAW-BYTES");
    let session = app.session().await;
    let run = session.ask("Read secret-plan.txt and explain it").await;
    assert_eq!(run["status"], "completed");
    assert_eq!(run["output_text"], "It is a plan for a garden.");
    assert_eq!(run["model_requests"], 2);

    let events = session.events().await;
    let messages = texts(&events, "agent.message");
    assert_eq!(messages, ["It is a plan for a garden."]);
    assert!(app.upstream().text(1).contains("RAW-BYTES"), "the model receives the file");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_tool_serves_different_questions() {
    let reads = calls("read_file", json!({ "path": "a.txt" }));
    let script = json!({ "conversations": [
        { "when": "how long", "replies": [reads, says("Three lines.")] },
        { "when": "which language", "replies": [reads, says("English.")] },
    ], "otherwise": "refuse" });
    let app = TestApp::start(script).await;
    app.write_file("a.txt", "one\ntwo\nthree\n");
    for (question, answer) in
        [("How long is it?", "Three lines."), ("Which language is it?", "English.")]
    {
        let run = app.session().await.ask(question).await;
        assert_eq!(run["output_text"], answer);
        let upstream = app.upstream();
        let last = upstream.text(upstream.len() - 1);
        assert!(last.contains(question) && last.contains(r"one\ntwo\nthree\n"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rounds_repeat_until_the_model_answers() {
    let reads = calls("get_time", json!({}));
    let script = replies(&[reads.clone(), reads.clone(), reads, says("Late.")]);
    let app = TestApp::start(script).await;
    let run = app.session().await.ask("What time is it?").await;
    assert_eq!(run["output_text"], "Late.");
    let upstream = app.upstream();
    assert_eq!(upstream.len(), 4);
    let expected: Vec<&str> =
        ["user", "assistant", "user", "assistant", "user", "assistant", "user"].into();
    assert_eq!(upstream.roles(3), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_rounds_end_in_an_answer() {
    let mut reads = calls("get_time", json!({}));
    reads["repeat"] = 1000.into();
    let app = TestApp::start(replies(&[reads, says("Enough.")])).await;
    let session = app.session().await;
    let run =
        session.post(json!({ "content": "Watch the clock", "limits": { "rounds": 1000 } })).await;
    let path = session.path(&format!("/runs/{}/stream?deltas=false", run["id"].as_str().unwrap()));
    let response = app.get(&path).send().await.unwrap();
    let mut results = 0;
    for event in crate::support::EventStream::new(response).rest().await {
        results += usize::from(event.name == "agent.tool_result");
    }
    assert_eq!(results, 1000);
    let run = session.settled(&run).await;
    assert_eq!(run["output_text"], "Enough.");
    assert_eq!(run["limited"], true);
    assert_eq!(run["model_requests"], 1001);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_with_a_call_is_sent_back_byte_for_byte() {
    // Unusual numbers, spaces and key order must not be normalised.
    let raw_input = r#"{"path":  "a.txt", "limit":1e1, "offset":0}"#;
    let asks = json!({ "content": [
        { "type": "thinking", "thinking": "I had better look." },
        { "type": "text", "text": "Let me look \u{2028} caf\u{e9}." },
        { "type": "tool_use", "name": "read_file", "raw_input": raw_input },
    ]});
    let app = TestApp::start(replies(&[asks, says("Done.")])).await;
    app.write_file("a.txt", "hello");
    let session = app.session().await;
    session.ask("Look at a.txt").await;

    let upstream = app.upstream();
    let text = upstream.text(1);
    assert!(text.contains(&format!(r#""input":{raw_input}"#)));
    assert!(text.contains(r#""signature":"sim1."#), "thinking is sent back with its signature");
    let response = session.app.get(&session.path("/messages")).send().await.unwrap();
    let stored = response.text().await.unwrap();
    assert!(stored.contains(raw_input));
    let sent = upstream.body(1)["messages"][1]["content"].clone();
    let history: Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(history["data"][1]["message"]["content"], sent);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_has_the_whole_history_and_the_same_head() {
    let reads = calls("list_files", json!({}));
    let app = TestApp::start(replies(&[reads, says("One file.")])).await;
    app.write_file("only.txt", "");
    let session = app.session().await;
    session.ask("How many files are there?").await;
    session.ask("Are you sure?").await;
    let upstream = app.upstream();
    assert_eq!(upstream.len(), 4);
    let heads: Vec<String> = (0..4)
        .map(|index| upstream.text(index).split(r#""messages""#).next().unwrap().to_owned())
        .collect();
    assert!(heads.iter().all(|head| *head == heads[0]));
    assert_eq!(upstream.body(0)["system"][0]["text"], SYSTEM);
    for index in 0..4 {
        let first = &upstream.body(index)["messages"][0]["content"][0]["text"];
        assert_eq!(first, "How many files are there?");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn earlier_calls_and_results_are_sent_again_after_a_restart() {
    let reads = calls("read_file", json!({ "path": "a.txt" }));
    let script = replies(&[reads, says("It says hello.")]);
    let app = TestApp::start(script).await;
    app.write_file("a.txt", "hello from the file");
    let session = app.session().await;
    session.ask("Read a.txt").await;
    let id = session.id.clone();

    let second = app.restarted(replies(&[says("Hello, as I said.")])).await;
    let session = second.existing_session(&id);
    let run = session.ask("What did it say?").await;
    assert_eq!(run["output_text"], "Hello, as I said.");
    let upstream = second.upstream();
    assert!(upstream.text(0).contains("hello from the file"));
    assert!(upstream.text(0).contains(r#""type":"tool_use""#));
    assert_eq!(upstream.roles(0), ["user", "assistant", "user", "assistant", "user"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_tools_there_is_one_request() {
    let app = TestApp::start(replies(&[says("Four.")])).await;
    let run = app.session().await.ask("What is 2 + 2?").await;
    assert_eq!(run["output_text"], "Four.");
    assert_eq!(run["model_requests"], 1);
    assert_eq!(run["limited"], false);
    assert_eq!(run["empty"], false);
    assert_eq!(app.upstream().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_limit_of_rounds_the_model_answers_without_tools() {
    let mut asks = calls("get_time", json!({}));
    asks["repeat"] = 9.into();
    asks["when_forbidden"] = "It is about noon.".into();
    let app = TestApp::start(replies(&[asks])).await;
    let session = app.session().await;
    let message = json!({ "content": "What time is it?", "limits": { "rounds": 2 } });
    let run = session.ask_with(message).await;
    assert_eq!(run["output_text"], "It is about noon.");
    assert_eq!(run["limited"], true);
    assert_eq!(run["limited_by"], "rounds");

    let upstream = app.upstream();
    assert_eq!(upstream.len(), 3);
    assert_eq!(upstream.body(2)["tool_choice"], json!({ "type": "none" }));
    assert_eq!(upstream.body(2)["tools"], upstream.body(0)["tools"]);
    let results = session.events().await;
    let results = results.iter().filter(|event| event["type"] == "agent.tool_result");
    assert_eq!(results.count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_of_rounds_can_be_set_for_the_service_and_for_a_session() {
    let mut asks = calls("get_time", json!({}));
    asks["repeat"] = 99.into();
    asks["when_forbidden"] = "Enough.".into();
    let limits = Limits { rounds: Some(3), ..Limits::default() };
    let setup = Setup { limits, ..Setup::default() };
    let app = TestApp::start_with(replies(&[asks]), setup).await;
    let by_service = app.session().await.ask("Service: what time is it?").await;
    assert_eq!(by_service["model_requests"], 4);
    let session = app.session_with(json!({ "limits": { "rounds": 1 } })).await;
    let by_session = session.ask("Session: what time is it?").await;
    assert_eq!(by_session["model_requests"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_and_time_limit_a_run() {
    let mut asks = calls("get_time", json!({}));
    asks["repeat"] = 99.into();
    asks["when_forbidden"] = "Enough.".into();
    asks["delay_ms"] = 300.into();
    let app = TestApp::start(replies(&[asks])).await;
    let session = app.session().await;
    let run =
        session.ask_with(json!({ "content": "Spend little", "limits": { "tokens": 1 } })).await;
    assert_eq!((&run["limited_by"], &run["model_requests"]), (&json!("tokens"), &json!(2)));
    let session = app.session().await;
    let limits = json!({ "seconds": 1, "rounds": 500 });
    let run = session.ask_with(json!({ "content": "Be quick", "limits": limits })).await;
    assert_eq!(run["limited_by"], "seconds");
    assert!(run["model_requests"].as_i64().unwrap() < 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn cost_limits_a_run_if_the_model_has_a_price() {
    let mut asks = calls("get_time", json!({}));
    asks["repeat"] = 99.into();
    asks["when_forbidden"] = "Enough.".into();
    let price = Price { output: 1_000_000, ..Price::default() };
    let prices = [("simulator".to_owned(), price)].into();
    let app = TestApp::start_with(replies(&[asks]), Setup { prices, ..Setup::default() }).await;
    let message = json!({ "content": "Spend little", "limits": { "cost": 1 } });
    let run = app.session().await.ask_with(message.clone()).await;
    assert_eq!((&run["limited_by"], &run["model_requests"]), (&json!("cost"), &json!(2)));

    let other = app.session_with(json!({ "model": "simulator-2" })).await;
    let response = other.message(&message).send().await.unwrap();
    let problem = crate::support::problem(response, 422, "validation_failed").await;
    let expected = json!([{ "pointer": "/limits/cost", "message": "no price is known for simulator-2; the operator sets prices with --prices" }]);
    assert_eq!(problem["errors"], expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_can_depend_on_the_previous_result() {
    let script = replies(&[
        calls("read_file", json!({ "path": "index.txt" })),
        calls("read_file", json!({ "path": "{{result.0}}" })),
        says("The fourth lesson says: {{result.0}}"),
    ]);
    let app = TestApp::start(script).await;
    app.write_file("index.txt", "lesson-4.txt\n");
    app.write_file("lesson-4.txt", "Tool results are handed back.");
    let session = app.session().await;
    let run = session.ask("What does the fourth lesson say?").await;
    assert_eq!(run["output_text"], "The fourth lesson says: Tool results are handed back.");
    let events = session.events().await;
    let inputs: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "agent.tool_use")
        .map(|event| &event["input"]["path"])
        .collect();
    assert_eq!(inputs, ["index.txt", "lesson-4.txt"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forced_tool_choice_applies_only_to_the_first_round() {
    let table = [
        json!({ "type": "any" }),
        json!({ "type": "tool", "name": "get_time" }),
        json!({ "type": "auto" }),
    ];
    for choice in table {
        let app = TestApp::start(replies(&[calls("get_time", json!({})), says("Noon.")])).await;
        let message = json!({ "content": "What time is it?", "tool_choice": choice });
        let run = app.session().await.ask_with(message).await;
        assert_eq!(run["output_text"], "Noon.");
        let upstream = app.upstream();
        let sent = if choice["type"] == "auto" { Value::Null } else { choice };
        assert_eq!(upstream.body(0)["tool_choice"], sent);
        assert_eq!(upstream.body(1)["tool_choice"], Value::Null);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_choice_of_no_tools_is_sent_to_the_model() {
    let app = TestApp::start(replies(&[says("I do not know.")])).await;
    let message = json!({ "content": "What time is it?", "tool_choice": { "type": "none" } });
    let run = app.session().await.ask_with(message).await;
    assert_eq!(run["output_text"], "I do not know.");
    assert_eq!(app.upstream().body(0)["tool_choice"], json!({ "type": "none" }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forced_tool_choice_that_the_model_would_refuse_is_refused_before_any_request() {
    let app = TestApp::start(replies(&[says("never said")])).await;
    let thinking = json!({ "thinking": { "type": "enabled", "budget_tokens": 1024 },
                           "max_tokens": 4000 });
    let strict = json!({ "model": "claude-opus-5-5" });
    let bare = json!({ "tools": [] });
    for (body, choice) in [
        (thinking, json!({ "type": "any" })),
        (strict, json!({ "type": "tool", "name": "get_time" })),
        (bare, json!({ "type": "any" })),
        (json!({}), json!({ "type": "tool", "name": "no_such_tool" })),
    ] {
        let session = app.session_with(body).await;
        let message = json!({ "content": "Hi", "tool_choice": choice });
        let response = session.message(&message).send().await.unwrap();
        let problem = crate::support::problem(response, 422, "validation_failed").await;
        assert_eq!(problem["errors"][0]["pointer"], "/tool_choice");
        assert_eq!(session.events().await, Vec::<Value>::new(), "nothing was accepted");
    }
    assert_eq!(app.upstream().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_turn_is_resumed() {
    let paused = json!({ "content": [
        { "type": "text", "text": "Searching." },
        { "type": "server_tool_use", "name": "web_search", "input": { "query": "x" } },
    ], "stop_reason": "pause_turn" });
    let app = TestApp::start(replies(&[paused, says("Found it.")])).await;
    let run = app.session().await.ask("Search for x").await;
    assert_eq!(run["output_text"], "Found it.");
    assert_eq!(app.upstream().roles(1), ["user", "assistant"]);
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_text_of_the_last_reply_is_the_answer_which_may_be_empty() {
    let two = json!({ "content": [{ "type": "text", "text": "One. " }, { "type": "text", "text": "Two." }] });
    let empty = json!({ "content": [], "stop_reason": "end_turn" });
    let script = json!({ "conversations": [
        { "when": "twice", "replies": [two] },
        { "when": "silence", "replies": [calls("get_time", json!({})), empty] },
    ], "otherwise": "refuse" });
    let app = TestApp::start(script).await;
    let session = app.session().await;
    let run = session.ask("Say it twice").await;
    assert_eq!((&run["output_text"], &run["empty"]), (&json!("One. Two."), &json!(false)));
    let run = session.ask("Silence please").await;
    assert_eq!(run["status"], "completed");
    assert_eq!((&run["output_text"], &run["empty"]), (&json!(""), &json!(true)));
    // No empty message was stored, and the next turn is accepted upstream.
    assert_eq!(session.ask("Say it twice, again").await["output_text"], "One. Two.");
}

#[tokio::test(flavor = "multi_thread")]
async fn text_streams_before_the_tool_that_follows_it_starts() {
    let asks = json!({ "content": [
        { "type": "text", "text": "I will look it up for you, one moment please." },
        { "type": "tool_use", "name": "get_time", "input": {} },
    ], "pace_ms": 20 });
    let app = TestApp::start(replies(&[asks, says("Noon.")])).await;
    let session = app.session().await;
    let events = session.stream("What time is it?").await.rest().await;
    let position_of = |wanted: &dyn Fn(&Value) -> bool| {
        events.iter().position(|event| wanted(&event.data)).unwrap()
    };
    let first_text = position_of(&|data| data["delta"]["type"] == "content_delta");
    let tool_use = position_of(&|data| data["type"] == "agent.tool_use");
    let result = position_of(&|data| data["type"] == "agent.tool_result");
    assert!(first_text < tool_use && tool_use < result);
    let deltas = events.iter().filter(|event| event.data["delta"]["type"] == "content_delta");
    assert!(deltas.count() >= 3, "the text streams in several deltas");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_is_append_only() {
    let app = TestApp::start(replies(&[says("Done.")])).await;
    app.session().await.ask("Hello").await;
    let pool = app.database.pool(1);
    for statement in
        ["UPDATE messages SET content = '[1]'", "DELETE FROM messages", "TRUNCATE messages CASCADE"]
    {
        let error = sqlx::query(statement).execute(&pool).await.unwrap_err().to_string();
        assert!(error.contains("append-only"), "{statement}: {error}");
    }
    sqlx::query("DELETE FROM sessions").execute(&pool).await.unwrap();
    let left: i64 =
        sqlx::query_scalar("SELECT count(*) FROM messages").fetch_one(&pool).await.unwrap();
    assert_eq!(left, 0, "messages are deleted with their session");
}
