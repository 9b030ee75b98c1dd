//! Structured output: answers that must match a schema.

use serde_json::{Value, json};

use crate::support::{TestApp, assert_refused, calls, invalid, replies, says};

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": { "city": { "type": "string" }, "degrees": { "type": "integer" } },
        "required": ["city", "degrees"],
        "additionalProperties": false,
    })
}

/// Returns `output` and `output_error` of a run with this answer.
async fn output(answer: Value) -> (Value, Value) {
    let app = TestApp::start(replies(&[calls("get_time", json!({})), answer])).await;
    let session = app.session_with(json!({ "output_schema": schema() })).await;
    let run = session.ask("How warm is it?").await;
    let upstream = app.upstream();
    let sent = json!({ "format": { "type": "json_schema", "schema": schema() } });
    assert_eq!((&upstream.body(0)["output_config"], upstream.len()), (&sent, 2));
    assert_eq!(upstream.body(1)["output_config"], sent);
    assert_eq!(run["status"], "completed");
    let events = session.events().await;
    let idle = events.last().unwrap();
    assert_eq!(idle["type"], "session.status_idle");
    assert_eq!(idle.get("output_error"), run.get("output_error"));
    let member = |name: &str| run.get(name).cloned().unwrap_or_default();
    (member("output"), member("output_error"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_matches_the_schema_is_returned_as_json() {
    let answer = says(r#"{"city": "Oslo", "degrees": -4}"#);
    assert_eq!(output(answer).await, (json!({ "city": "Oslo", "degrees": -4 }), Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mismatch_is_reported_with_a_pointer() {
    let answer = says(r#"{"city": "Oslo", "degrees": "cold"}"#);
    let (output, mut error) = output(answer).await;
    assert!(error["message"].take().as_str().unwrap().contains("cold"));
    let expected = json!({ "type": "schema_mismatch", "message": null, "pointer": "/degrees" });
    assert_eq!((output, error), (Value::Null, expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_answer_is_not_json() {
    let mut answer = says(r#"{"city": "Os"#);
    answer["stop_reason"] = "max_tokens".into();
    let (output, error) = output(answer).await;
    assert_eq!((output, &error["type"]), (Value::Null, &json!("not_json")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_not_an_answer() {
    let answer = json!({ "content": [], "stop_reason": "refusal" });
    let (output, error) = output(answer).await;
    assert_eq!((output, &error["type"]), (Value::Null, &json!("no_answer")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_a_schema_has_no_structured_output() {
    let app = TestApp::start(replies(&[says("{}")])).await;
    let run = app.session().await.ask("Hi").await;
    assert_eq!((run.get("output"), run.get("output_error")), (None, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsupported_schema_is_refused_with_a_pointer() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let session = app.session().await;
    let long = json!({ "type": "string", "description": "x".repeat(33_000) });
    for (schema, pointer) in [
        (json!("string"), "/output_schema"),
        (json!({ "type": "text" }), "/output_schema"),
        (json!({ "type": "object" }), "/output_schema/additionalProperties"),
        (
            json!({ "type": "object", "additionalProperties": false,
                    "properties": { "n": { "type": "integer", "maximum": 9 } } }),
            "/output_schema/properties/n/maximum",
        ),
        (json!({ "$ref": "https://example.org/schema.json" }), "/output_schema/$ref"),
        (long, "/output_schema"),
    ] {
        let request = app.post("/v1/sessions").json(&json!({ "output_schema": schema }));
        assert_refused(&session, request, invalid(pointer)).await;
    }
}
