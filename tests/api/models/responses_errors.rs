//! Failures and incomplete replies of a server of Responses.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use twostep::domain::model::{Known, Models, ProviderModels};
use twostep::domain::provider::Provider;
use twostep::model::Server;
use twostep::service::ModelRules;

use super::responses::{start, stream_of};
use crate::support::model_server::NamedProvider;
use crate::support::{Setup, TestApp, replies, says};

/// A script that gives this reply to the message `go` and answers all others.
fn first(reply: &Value) -> Value {
    json!({ "conversations": [
        { "when": "go", "replies": [reply] },
        { "replies": [says("Still here.")] },
    ], "otherwise": "refuse" })
}

/// The same, for a reply to the first try only.
fn once(reply: &Value) -> Value {
    let mut answer = says("Here I am.");
    answer["fail_first"] = json!([reply]);
    first(&answer)
}

/// A message of the model with this part.
fn message(part: &str) -> String {
    format!(r#"{{"type":"message","role":"assistant","content":[{part}]}}"#)
}

fn text(text: &str) -> String {
    message(&format!(r#"{{"type":"output_text","text":"{text}"}}"#))
}

/// Input and output tokens.
fn tokens(usage: &Value) -> (i64, i64) {
    (usage["input_tokens"].as_i64().unwrap(), usage["output_tokens"].as_i64().unwrap())
}

/// A stream that ends with this error instead of a response.
fn error_event(error: &str) -> Value {
    json!({ "raw_sse": format!("data: {{\"type\":\"error\",\"sequence_number\":2,{error}}}\n\n") })
}

/// A stream that fails with this code.
fn failed(code: &str) -> Value {
    let error = format!(r#","error":{{"code":"{code}","message":"It failed."}}"#);
    stream_of(&[&text("WRONG")], "failed", &error)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_permanent_failure_has_its_own_reason() {
    let status = |status: u16, kind: &str| json!({ "status": status, "error": { "type": kind, "message": "It failed." } });
    let nested = |kind: &str, code: &str| {
        error_event(&format!(
            r#""error":{{"type":"{kind}","code":"{code}","message":"It failed.","param":null}}"#
        ))
    };
    let app = start(replies(&[])).await;
    for (number, (reply, kind, reason)) in [
        (status(401, "authentication_error"), "model_request_failed_error", "authentication_error"),
        (status(403, "permission_error"), "model_request_failed_error", "permission_error"),
        (status(404, "not_found_error"), "model_request_failed_error", "not_found_error"),
        (status(429, "billing_error"), "billing_error", "billing_error"),
        (failed("insufficient_quota"), "billing_error", "billing_error"),
        (failed("invalid_prompt"), "model_request_failed_error", "invalid_request_error"),
        (failed("image_too_large"), "model_request_failed_error", "invalid_request_error"),
        (
            nested("invalid_request_error", "unsupported_value"),
            "model_request_failed_error",
            "invalid_request_error",
        ),
        (
            nested("invalid_request_error", "context_length_exceeded"),
            "model_request_failed_error",
            "request_too_large",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        app.play(&first(&reply));
        let before = app.upstream().len();
        let session = app.session().await;
        let run = session.ask(&format!("go {number}")).await;
        assert_eq!(run["status"], "failed", "{reply}: {run}");
        let error = &run["error"];
        assert_eq!(
            json!([error["type"], error["reason"], error["provider_message"]]),
            json!([kind, reason, "It failed."]),
            "{reply}"
        );
        assert_eq!(app.upstream().len(), before + 1, "{reply}: nothing is retried");
        assert_eq!(session.history().await.len(), 1, "{reply}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_a_key_fails_with_the_reason() {
    let mut named =
        NamedProvider::start("gpt", Provider::OpenAiResponses, &replies(&[says("WRONG")])).await;
    if let Server::Responses(config) = &mut named.server.server {
        config.api_key = None;
    }
    let models = [("gpt".to_owned(), ProviderModels::new(Provider::OpenAiResponses, Known::new()))];
    let default = ProviderModels::new(Provider::Anthropic, Known::new());
    let models = Arc::new(Models::of(default, models.into()));
    let setup = Setup {
        model_rules: ModelRules { models, ..ModelRules::default() },
        providers: vec![named.server.clone()],
        ..Setup::default()
    };
    let app = TestApp::start_with(replies(&[]), setup).await;
    let session = app.session_with(json!({ "model": "gpt/gpt-5.4" })).await;
    let run = session.ask("go").await;
    assert_eq!(run["error"]["reason"], "authentication_error", "{run}");
    let message = run["error"]["provider_message"].as_str().unwrap();
    assert!(message.starts_with("You didn't provide an API key."), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_temporary_failure_inside_the_stream_is_retried() {
    let app = start(replies(&[])).await;
    let codes = ["server_error", "rate_limit_exceeded", "server_is_overloaded", "unheard_of"];
    let failures = codes.map(failed).into_iter().chain([
        error_event(r#""code":"server_error","message":"It failed.","param":null"#),
        // The stream ends without its last event.
        json!({ "raw_sse": "data: {\"type\":\"response.created\",\"response\":{}}\n\n" }),
    ]);
    for (number, reply) in failures.enumerate() {
        app.play(&once(&reply));
        let before = app.upstream().len();
        let session = app.session().await;
        let run = session.ask(&format!("go {number}")).await;
        assert_eq!(run["output_text"], "Here I am.", "{reply}: {run}");
        assert_eq!(app.upstream().len(), before + 2, "{reply}");
        let stored = json!([session.history().await, session.events().await]).to_string();
        assert!(!stored.contains("WRONG"), "{stored}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_usage_of_a_failed_response_counts() {
    let mut answer = says("Here I am.");
    answer["usage"] = json!({ "input_tokens": 100, "output_tokens": 10 });
    answer["fail_first"] = json!([failed("server_error")]);
    let app = start(first(&answer)).await;
    let run = app.session().await.ask("go").await;
    assert_eq!(tokens(&run["usage"]), (120, 15), "{run}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_limit_is_waited_for_as_long_as_the_server_asks() {
    let limited = json!({ "status": 429, "headers": { "retry-after": "1" } });
    let app = start(once(&limited)).await;
    let started = Instant::now();
    assert_eq!(app.session().await.ask("go").await["output_text"], "Here I am.");
    assert!(started.elapsed() >= Duration::from_secs(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_incomplete_or_refused_response_has_its_stop_reason() {
    let incomplete = |reason: &str| {
        let details = format!(r#","incomplete_details":{{"reason":"{reason}"}}"#);
        stream_of(&[&text("As I was say")], "incomplete", &details)
    };
    let call = r#"{"type":"function_call","call_id":"c","name":"get_time","arguments":"{\"a"}"#;
    let cut_call = stream_of(
        &[&text("As I was say"), call],
        "incomplete",
        r#","incomplete_details":{"reason":"max_output_tokens"}"#,
    );
    let refused = message(r#"{"type":"refusal","refusal":"I cannot help with that."}"#);
    let app = start(replies(&[])).await;
    // A truncated call is requested once more, with a larger output budget.
    for (number, (reply, stop_reason, output, requests)) in [
        (incomplete("max_output_tokens"), "max_tokens", json!("As I was say"), 1),
        (cut_call, "max_tokens", json!("As I was say"), 2),
        (incomplete("content_filter"), "refusal", json!(""), 1),
        (stream_of(&[&refused], "completed", ""), "refusal", json!(""), 1),
    ]
    .into_iter()
    .enumerate()
    {
        let before = app.upstream().len();
        app.play(&first(&reply));
        let session = app.session().await;
        let run = session.ask(&format!("go {number}")).await;
        let stop = run["stop_reason"]["type"].as_str();
        assert_eq!((stop, &run["output_text"]), (Some(stop_reason), &output), "{reply}: {run}");
        let count = i64::try_from(app.upstream().len() - before).unwrap();
        assert_eq!(
            (count, tokens(&run["usage"])),
            (requests, (20 * requests, 5 * requests)),
            "{reply}"
        );
        let explained = run["stop_reason"]["explanation"] == "I cannot help with that.";
        assert_eq!(explained, reply.to_string().contains("I cannot"), "{run}");
        let events = session.events().await;
        assert!(!events.iter().any(|event| event["type"] == "agent.tool_use"), "{reply}");
    }
}
