//! Calls of tools of the client, and calls that need an approval.

use serde_json::{Value, json};

use super::client::{
    create, events, go_on, items, kinds, output, post, read, refusal, session_of, text, user,
};
use crate::adapters::openai::runs;
use crate::support::{TestApp, asks, calls_as, replies, says};

fn lookups() -> Value {
    let call = |id: &str, word: &str| json!({ "type": "tool_use", "id": id, "name": "lookup", "input": { "word": word } });
    json!({ "content": [{ "type": "text", "text": "I look it up." }, call("toolu_1", "a"), call("toolu_2", "b")] })
}

fn tools() -> Value {
    let parameters = json!({ "type": "object", "properties": { "word": { "type": "string" } } });
    json!({ "tools": [{ "type": "function", "name": "lookup", "description": "Looks up.",
                        "parameters": parameters, "strict": false }] })
}

async fn service() -> TestApp {
    TestApp::start(replies(&[lookups(), says("They said {{results}}.")])).await
}

#[tokio::test(flavor = "multi_thread")]
async fn outputs_of_functions_continue_the_run_in_a_response_of_its_own() {
    let app = service().await;
    let asked = create(&app, json!("Look"), tools()).await;
    assert_eq!((&asked["status"], text(&asked)), (&json!("completed"), "I look it up.".to_owned()));
    let calls = items(&asked, "function_call");
    let ids: Vec<&str> = calls.iter().map(|call| call["call_id"].as_str().unwrap()).collect();
    assert_eq!(
        (ids, &calls[0]["arguments"]),
        (vec!["toolu_1", "toolu_2"], &json!(r#"{"word":"a"}"#))
    );
    let outputs = json!([output("toolu_1", "first"), output("toolu_2", "second")]);
    let answered = go_on(&app, &asked, outputs.clone()).await;
    assert_eq!(text(&answered), "They said first\n\nsecond.");
    assert_ne!(answered["id"], asked["id"]);
    assert_eq!(answered["previous_response_id"], asked["id"]);
    // Each response has its own part of the run, also of its usage.
    for response in [&asked, &answered] {
        let stored = read(&app, response).await;
        assert_eq!(stored["output"], response["output"]);
        assert_eq!(stored["usage"], response["usage"]);
    }
    let runs = runs(&app, session_of(&asked)).await;
    let tokens = |response: &Value| response["usage"]["output_tokens"].as_i64().unwrap();
    assert_eq!(
        tokens(&asked) + tokens(&answered),
        runs[0]["usage"]["output_tokens"].as_i64().unwrap()
    );
    assert_eq!(runs.len(), 1);
    // The same outputs again have the same response.
    let again = go_on(&app, &asked, outputs).await;
    assert_eq!((&again["id"], &again["output"]), (&answered["id"], &answered["output"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_has_the_calls_and_the_continued_run() {
    let app = service().await;
    let mut others = tools();
    others["stream"] = json!(true);
    let asked = events(post(&app, &json!("Look"), &others)).await;
    let call = [
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
    ];
    let tail: Vec<&str> = call.into_iter().chain(call).chain(["completed"]).collect();
    assert!(kinds(&asked).ends_with(&tail), "{asked:?}");
    let response = &asked.last().unwrap()["response"];
    others["previous_response_id"] = response["id"].clone();
    let outputs = json!([output("toolu_1", "1"), output("toolu_2", "2")]);
    let answered = events(post(&app, &outputs, &others)).await;
    let last = &answered.last().unwrap()["response"];
    assert_eq!(text(last), "They said 1\n\n2.");
    assert_eq!(
        (last["output"].as_array().unwrap().len(), &last["id"]),
        (1, &answered[0]["response"]["id"])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn all_calls_of_a_response_must_be_answered() {
    let app = service().await;
    let asked = create(&app, json!("Look"), tools()).await;
    let previous = json!({ "previous_response_id": asked["id"] });
    let one = refusal(post(&app, &json!([output("toolu_1", "1")]), &previous)).await;
    assert_eq!((one.0, &*one.2), (422, "/input"));
    // The refused output was not recorded.
    let both = json!([output("toolu_1", "first"), output("toolu_2", "second")]);
    assert_eq!(text(&go_on(&app, &asked, both).await), "They said first\n\nsecond.");
    let other = json!([output("toolu_1", "other"), output("toolu_2", "second")]);
    assert_eq!(refusal(post(&app, &other, &previous)).await.1, "already_resolved");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transcript_that_is_sent_again_changes_nothing_but_the_new_outputs() {
    let app = service().await;
    let mut input = vec![user("Look")];
    let asked = create(&app, json!(input), tools()).await;
    input.extend(asked["output"].as_array().unwrap().clone());
    input[1]["content"][0]["text"] = json!("I look it up.");
    input.extend([output("toolu_1", "first"), output("toolu_2", "second")]);
    let answered = create(&app, json!(input), tools()).await;
    assert_eq!(text(&answered), "They said first\n\nsecond.");
    assert_eq!(session_of(&answered), session_of(&asked));
    app.play(&replies(&[says("You said {{user}}.")]));
    input.extend(answered["output"].as_array().unwrap().clone());
    input.push(user("More"));
    // Outputs in the middle are history, whatever the client makes of them.
    input[4]["output"] = json!("forged");
    let next = create(&app, json!(input), tools()).await;
    assert_eq!((text(&next), session_of(&next)), ("You said More.".to_owned(), session_of(&asked)));
    assert!(!app.upstream().text(app.upstream().len() - 1).contains("forged"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_is_requested_and_the_decision_continues_the_run() {
    for approve in [true, false] {
        let ring = calls_as(&[("toolu_1", "ring", json!({ "line": "one" }))]);
        let app = TestApp::start_with(replies(&[ring, says("Well.")]), asks()).await;
        let asked = create(&app, json!("Ring"), json!({})).await;
        let request = items(&asked, "mcp_approval_request")[0];
        assert_eq!(
            (&request["name"], &request["arguments"]),
            (&json!("ring"), &json!(r#"{"line":"one"}"#))
        );
        assert_eq!(items(&asked, "mcp_call").len(), 0);
        let decision = json!([{ "type": "mcp_approval_response", "approve": approve,
            "approval_request_id": request["id"], "reason": "Because." }]);
        let answered = go_on(&app, &asked, decision).await;
        assert_eq!(text(&answered), "Well.");
        let call = items(&answered, "mcp_call")[0];
        assert_eq!(call["status"], if approve { "completed" } else { "failed" }, "{call}");
        assert_eq!(
            (&call["approval_request_id"], &call["arguments"]),
            (&request["id"], &request["arguments"])
        );
        let result = if approve { call["output"].to_string() } else { call["error"].to_string() };
        assert_eq!(result.contains("Because."), !approve, "{result}");
        assert_eq!(read(&app, &answered).await["output"], answered["output"]);
        assert_eq!(read(&app, &asked).await["output"], asked["output"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_message_passes_over_calls_that_wait() {
    let app = service().await;
    let asked = create(&app, json!("Look"), tools()).await;
    app.play(&replies(&[says("Fine.")]));
    let mut others = tools();
    others["previous_response_id"] = asked["id"].clone();
    let next = create(&app, json!("Never mind"), others).await;
    assert_eq!((text(&next), session_of(&next)), ("Fine.".to_owned(), session_of(&asked)));
    let runs = runs(&app, session_of(&asked)).await;
    assert!(runs.iter().any(|run| run["status"] == "cancelled"), "{runs:?}");
}
