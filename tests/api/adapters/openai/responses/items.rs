//! Responses, their items and their events.

use serde_json::{Value, json};

use super::client::{
    create, events, items, kinds, path, post, read, refusal, session_of, success, text,
};
use crate::adapters::openai::runs;
use crate::support::{TestApp, calls, keys_needed, replies, says};

/// A model that thinks, calls a tool and answers.
async fn service() -> TestApp {
    let look = json!({ "content": [
        { "type": "thinking", "thinking": "The clock knows." },
        { "type": "text", "text": "I look. Einen Moment, die Uhr schlägt." },
        { "type": "tool_use", "id": "toolu_1", "name": "get_time", "input": {} },
    ], "chunk": 3, "pace_ms": 20 });
    TestApp::start(replies(&[look, says("It is late.")])).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_has_the_items_of_the_run() {
    let app = service().await;
    let others = json!({ "instructions": "Be brief.", "user": "u1", "temperature": 0.5,
        "metadata": { "topic": "time" }, "store": false });
    let response = create(&app, json!("What time is it?"), others).await;
    let output = response["output"].as_array().unwrap();
    let kinds: Vec<&Value> = output.iter().map(|item| &item["type"]).collect();
    assert_eq!(kinds, ["reasoning", "message", "mcp_call", "message"]);
    assert_eq!(
        output[0]["summary"],
        json!([{ "type": "summary_text", "text": "The clock knows." }])
    );
    assert_eq!(text(&response), "I look. Einen Moment, die Uhr schlägt.It is late.");
    let call = &output[2];
    assert_eq!((&call["name"], &call["arguments"]), (&json!("get_time"), &json!("{}")));
    assert_eq!((&call["status"], &call["error"]), (&json!("completed"), &Value::Null));
    assert!(call["output"].as_str().unwrap().contains("20"), "{call}");
    assert_eq!(response["status"], "completed");
    let run = &runs(&app, session_of(&response)).await[0];
    let usage = &response["usage"];
    assert_eq!(usage["output_tokens"], run["usage"]["output_tokens"]);
    assert!(usage["input_tokens"].as_u64().unwrap() > 0, "{usage}");
    let session = success(app.get(&format!("/v1/sessions/{}", session_of(&response)))).await;
    assert_eq!((&session["system"], &session["user"]), (&json!("Be brief."), &json!("u1")));
    // The stored response has the same, except the members of the request.
    let mut stored = read(&app, &response).await;
    for name in ["instructions", "metadata", "user", "model"] {
        stored[name] = response[name].clone();
    }
    assert_eq!(stored, response);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_has_the_events_of_the_protocol_in_order() {
    let app = service().await;
    let live = events(post(&app, &json!("Time?"), &json!({ "stream": true }))).await;
    let reasoning = [
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
    ];
    let message = [
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
    ];
    let call = [
        "output_item.added",
        "mcp_call.in_progress",
        "mcp_call_arguments.delta",
        "mcp_call_arguments.done",
        "mcp_call.completed",
        "output_item.done",
    ];
    let expected: Vec<&str> = ["created", "in_progress"]
        .into_iter()
        .chain(reasoning.into_iter().chain(message).chain(call).chain(message))
        .chain(["completed"])
        .collect();
    assert_eq!(kinds(&live), expected);
    let response = &live.last().unwrap()["response"];
    assert_eq!(live[0]["response"]["status"], "in_progress");
    assert_eq!(text(response), "I look. Einen Moment, die Uhr schlägt.It is late.");
    let deltas = |events: &[Value]| -> String {
        let of_text = events.iter().filter(|it| it["type"] == "response.output_text.delta");
        of_text.map(|it| it["delta"].as_str().unwrap()).collect()
    };
    assert_eq!(deltas(&live), text(response));
    let pieces = live.iter().filter(|it| it["type"] == "response.output_text.delta").count();
    assert!(pieces > 3, "{live:?}");
    // The items of the events are those of the response.
    for event in live.iter().filter(|it| it["type"] == "response.output_item.done") {
        let index = usize::try_from(event["output_index"].as_u64().unwrap()).unwrap();
        assert_eq!(event["item"], response["output"][index]);
    }
    // A stream of the stored response has the same numbers, in longer pieces.
    let stored = events(app.get(&format!("{}?stream=true", path(response)))).await;
    let with_numbers = |events: &[Value]| -> Vec<(Value, Value)> {
        let others = events.iter().filter(|it| it["delta"].is_null());
        others.map(|it| (it["type"].clone(), it["sequence_number"].clone())).collect()
    };
    assert_eq!(with_numbers(&stored), with_numbers(&live));
    // After any event, the rest of the stream has the rest of the text.
    for (index, event) in live.iter().enumerate() {
        let rest =
            format!("{}?stream=true&starting_after={}", path(response), event["sequence_number"]);
        let rest = if index + 1 < live.len() { events(app.get(&rest)).await } else { Vec::new() };
        let joined = deltas(&live[..=index]) + &deltas(&rest);
        assert_eq!(joined, text(response), "{event}");
        assert!(rest.iter().all(|it| it["type"] != "response.created"), "{event}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_run_and_a_failed_call_are_reported() {
    let error = json!({ "type": "invalid_request_error", "message": "no such thing" });
    let missing = calls("read_file", json!({ "path": "missing.txt" }));
    let app = TestApp::start(replies(&[missing, json!({ "status": 400, "error": error })])).await;
    let reply = post(&app, &json!("Hi"), &json!({})).send().await.unwrap();
    assert_eq!(
        (reply.status().as_u16(), &reply.headers()["x-should-retry"]),
        (502, &"false".parse().unwrap())
    );
    assert_eq!(reply.json::<Value>().await.unwrap()["error"]["code"], "run_failed");
    let stream = events(post(&app, &json!("Ho"), &json!({ "stream": true }))).await;
    assert!(kinds(&stream).contains(&"mcp_call.failed"), "{stream:?}");
    let last = stream.last().unwrap();
    assert_eq!(last["type"], "response.failed");
    let response = read(&app, &last["response"]).await;
    assert_eq!(response["status"], "failed");
    let message = response["error"]["message"].as_str().unwrap();
    assert!(message.contains("no such thing"), "{message}");
    let call = items(&response, "mcp_call")[0];
    assert_eq!((&call["status"], &call["output"]), (&json!("failed"), &Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_the_service_cannot_fulfil_are_refused_and_leave_no_session() {
    let app = TestApp::start_with(replies(&[says("Hello.")]), keys_needed()).await;
    let hi = json!("Hi");
    for (input, others, pointer) in [
        (json!([]), json!({}), "/input"),
        (json!({}), json!({}), "/input"),
        (json!([{ "role": "assistant", "content": "Hi" }]), json!({}), "/input"),
        (json!([{ "type": "computer_call_output" }]), json!({}), "/input/0/type"),
        (
            json!([{ "role": "user", "content": [{ "type": "input_audio" }] }]),
            json!({}),
            "/input/0",
        ),
        (hi.clone(), json!({ "tools": [{ "type": "web_search" }] }), "/tools/0/type"),
        (hi.clone(), json!({ "text": { "format": { "type": "json_object" } } }), "/text/format"),
        (hi.clone(), json!({ "prompt": { "id": "pmpt_1" } }), "/prompt"),
        (hi.clone(), json!({ "max_tool_calls": 1 }), "/max_tool_calls"),
        (hi.clone(), json!({ "conversation": {} }), "/conversation"),
        (hi.clone(), json!({ "conversation": "c", "previous_response_id": "r" }), "/conversation"),
    ] {
        let refused = refusal(post(&app, &input, &others)).await;
        let expected = (422, "validation_failed".to_owned(), pointer.to_owned());
        assert_eq!(refused, expected, "{input} {others}");
    }
    let (status, code, _) = refusal(post(&app, &hi, &json!({ "model": "unknown" }))).await;
    assert_eq!((status, &*code), (404, "model_not_found"));
    let page = success(app.get("/v1/sessions")).await;
    assert_eq!(page["data"], json!([]));
    let unknown = ["resp_1".to_owned(), format!("resp_{}", "0".repeat(48))];
    for id in unknown {
        let previous = json!({ "previous_response_id": id });
        assert_eq!(refusal(post(&app, &hi, &previous)).await.1, "run_not_found");
        let stored = json!({ "id": id });
        assert_eq!(refusal(app.get(&path(&stored))).await.1, "run_not_found");
    }
}
