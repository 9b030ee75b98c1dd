//! Tools that need nothing but their input: `sequential_thinking`, `get_time`, `get_current_user`.

use reqwest::RequestBuilder;
use serde_json::{Value, json};

use crate::support::{Identity, TestApp, calls, client_with, keys_needed, problem, replies, says};

fn block(name: &str, input: &Value) -> Value {
    json!({ "type": "tool_use", "name": name, "input": input })
}

/// `is_error` and content of each result of the first round.
fn results(history: &[Value]) -> Vec<Value> {
    let blocks = history[2]["message"]["content"].as_array().unwrap();
    blocks.iter().map(|block| json!([block["is_error"], block["content"]])).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn thoughts_are_returned_in_the_order_of_the_calls() {
    let thought = |number: u32| {
        let input = json!({ "thought": format!("Step {number}"), "thought_number": number,
                            "total_thoughts": 3, "next_thought_needed": number < 4 });
        block("sequential_thinking", &input)
    };
    let thoughts: Vec<Value> = (1..=4).map(thought).collect();
    let script = replies(&[json!({ "content": thoughts }), says("Thought through.")]);
    let app = TestApp::start(script).await;
    let session = app.session().await;
    assert_eq!(session.ask("Think").await["output_text"], "Thought through.");
    let expected_result = |number: u32, total: u32, next: bool| {
        let text = format!(
            r#"{{"thought_number":{number},"total_thoughts":{total},"next_thought_needed":{next},"thought":"Step {number}"}}"#
        );
        json!([null, text])
    };
    let expected = [
        expected_result(1, 3, true),
        expected_result(2, 3, true),
        expected_result(3, 3, true),
        expected_result(4, 4, false),
    ];
    assert_eq!(results(&session.history().await), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_time_zone_is_an_error_result_and_the_run_completes() {
    let script =
        replies(&[calls("get_time", json!({ "timezone": "Mars/Base" })), says("No such zone.")]);
    let app = TestApp::start(script).await;
    let session = app.session().await;
    let run = session.ask("What time is it on Mars?").await;
    assert_eq!(json!([run["status"], run["output_text"]]), json!(["completed", "No such zone."]));
    let text = "Error: \"Mars/Base\" is not a time zone; use a name such as Europe/Oslo";
    assert_eq!(results(&session.history().await), [json!([true, text])]);
}

/// A script that asks for the user.
fn asks_for_user() -> Value {
    replies(&[calls("get_current_user", json!({})), says("You are.")])
}

/// The user of a session that is created with this request.
async fn user_of(app: &TestApp, request: RequestBuilder, body: &Value) -> Value {
    let created = request.json(body).send().await.unwrap();
    assert_eq!(created.status(), 201);
    let created: Value = created.json().await.unwrap();
    let session = app.existing_session(created["id"].as_str().unwrap());
    let run = session.ask(&format!("Who am I? {body}")).await;
    assert_eq!(run["output_text"], "You are.");
    results(&session.history().await)[0][1].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn get_current_user_returns_the_user_that_the_client_names_or_the_owner() {
    let app = TestApp::start(asks_for_user()).await;
    let create = || app.post("/v1/sessions");
    assert_eq!(user_of(&app, create(), &json!({})).await, "default");
    let named = json!({ "user": "Ann \u{c5}s" });
    assert_eq!(user_of(&app, create(), &named).await, "Ann \u{c5}s");
    for user in ["", "a\nb", &"x".repeat(256)] {
        let refused = create().json(&json!({ "user": user })).send().await.unwrap();
        let refused = problem(refused, 422, "validation_failed").await;
        assert_eq!(refused["errors"][0]["pointer"], "/user");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn get_current_user_returns_the_name_of_the_key_that_created_the_session() {
    let app = TestApp::start_with(asks_for_user(), keys_needed()).await;
    assert_eq!(user_of(&app, app.post("/v1/sessions"), &json!({})).await, "test");
    let named = json!({ "user": "Ann" });
    assert_eq!(user_of(&app, app.post("/v1/sessions"), &named).await, "Ann");
}

#[tokio::test(flavor = "multi_thread")]
async fn get_current_user_returns_the_subject_of_the_token_that_created_the_session() {
    let identity = Identity::start().await;
    let app = TestApp::start_with(asks_for_user(), identity.trusted()).await;
    let claims = json!({ "sub": "ann@example.com", "tenant": "default" });
    let token = identity.token(claims);
    let create = || client_with(None).post(app.url("/v1/sessions")).bearer_auth(&token);
    assert_eq!(user_of(&app, create(), &json!({})).await, "ann@example.com");
    let refused = create().json(&json!({ "user": "Bob" })).send().await.unwrap();
    let refused = problem(refused, 422, "validation_failed").await;
    let message = "cannot be set with a token, whose subject is the user";
    assert_eq!(refused["errors"], json!([{ "pointer": "/user", "message": message }]));
}
