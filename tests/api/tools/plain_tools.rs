//! Tools that need nothing but their input: `sequential_thinking`, `get_time`, `get_current_user`.

use serde_json::{Value, json};

use crate::support::{TestApp, calls, replies, says};

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

#[tokio::test(flavor = "multi_thread")]
async fn get_current_user_returns_the_owner_of_the_session() {
    let script = replies(&[calls("get_current_user", json!({})), says("You are.")]);
    let app = TestApp::start(script).await;
    let session = app.session().await;
    assert_eq!(session.ask("Who am I?").await["output_text"], "You are.");
    assert_eq!(results(&session.history().await), [json!([null, "default"])]);
}
