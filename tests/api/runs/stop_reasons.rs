//! Stop reasons of the model: each has one outcome and one event, and the session continues.

use serde_json::{Value, json};
use twostep::domain::limits::Limits;
use twostep::domain::price::Price;

use crate::support::{Session, Setup, TestApp, calls, replies, says};

/// A script that answers a message `go` with `reply`, and all later messages with text.
fn stops(reply: &Value) -> Value {
    json!({ "conversations": [
        { "when": "go", "replies": [reply] },
        { "replies": [says("Still here.")] },
    ], "otherwise": "refuse" })
}

/// A reply with text and this stop reason.
fn with(stop: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": "So far." }], "stop_reason": stop })
}

/// A call that is truncated at `max_tokens`.
fn truncated() -> Value {
    json!({ "content": [
        { "type": "text", "text": "I will write." },
        { "type": "tool_use", "name": "write_file", "raw_input": "{\"path\": \"half.txt\", \"cont" },
    ], "stop_reason": "max_tokens", "usage": { "output_tokens": 1000 } })
}

/// Returns the status, stop reason, text and number of stored replies of a run. Its last event must
/// have the same stop reason.
async fn outcome(session: &Session<'_>, run: &Value) -> Value {
    let events = session.events().await;
    let idle = events.iter().rfind(|event| event["run_id"] == run["id"]).unwrap();
    assert_eq!(idle["type"], "session.status_idle");
    assert_eq!(idle["stop_reason"], run["stop_reason"]);
    let of_run = |item: &&Value| item["run_id"] == run["id"] && item["type"] == "assistant";
    let kept = session.history().await.iter().filter(of_run).count();
    json!([run["status"], run["stop_reason"], run["output_text"], kept])
}

/// Returns the stop reason, the error flag and the output tokens of each request.
async fn requests(session: &Session<'_>) -> Vec<Value> {
    let events = session.events().await;
    let ends = events.iter().filter(|event| event["type"] == "span.model_request_end");
    ends.map(|end| {
        json!([end["stop_reason"], end["is_error"], end["model_usage"]["output_tokens"]])
    })
    .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_stop_reason_has_one_outcome_and_the_session_continues() {
    let mut met = says("So far.");
    met["stop_sequence"] = "###".into();
    let empty = json!({ "content": [], "stop_reason": "end_turn" });
    let no_call = with("tool_use");
    let refusal = json!({
        "content": [{ "type": "text", "text": "WRONG" }], "stop_reason": "refusal",
        "stop_details": { "type": "refusal", "category": "cyber", "explanation": "It is \u{0}risky." },
    });
    let bare = json!({ "content": [], "stop_reason": "refusal",
                       "stop_details": { "type": "refusal", "category": null } });
    let reason = |name: &str| json!({ "type": name });
    let unknown = json!({ "type": "unknown", "model_stop_reason": "brand_new" });
    let full = "model_context_window_exceeded";
    let table = [
        (says("So far."), json!(["completed", reason("end_turn"), "So far.", 1])),
        (empty, json!(["completed", reason("end_turn"), "", 0])),
        (
            met,
            json!(["completed", { "type": "stop_sequence", "stop_sequence": "###" }, "So far.", 1]),
        ),
        (with("max_tokens"), json!(["completed", reason("max_tokens"), "So far.", 1])),
        (with(full), json!(["completed", reason(full), "So far.", 1])),
        (no_call, json!(["completed", reason("end_turn"), "So far.", 1])),
        (
            refusal,
            json!(["completed", { "type": "refusal", "category": "cyber",
                                  "explanation": "It is risky." }, "", 0]),
        ),
        (bare, json!(["completed", reason("refusal"), "", 0])),
        (with("brand_new"), json!(["completed", unknown, "So far.", 1])),
    ];
    for (reply, expected) in table {
        let app = TestApp::start(stops(&reply)).await;
        let session = app.session().await;
        let run = session.ask("go").await;
        let mut actual = outcome(&session, &run).await;
        if let Some(text) = actual[1]["explanation"].as_str() {
            // A NUL, which the database cannot store, is removed or replaced.
            actual[1]["explanation"] = text.replace('\u{fffd}', "").into();
        }
        assert_eq!(actual, expected, "{reply}");
        assert_eq!(app.upstream().len(), 1, "the request is not repeated: {reply}");
        assert_eq!(session.ask("Are you there?").await["output_text"], "Still here.");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stop_sequence_that_the_model_wrote_is_shown_and_exported() {
    let mut met = says("So far.");
    met["stop_sequence"] = "###".into();
    let app = TestApp::start(stops(&met)).await;
    let session = app.session().await;
    let run = session.ask("go").await;
    assert_eq!(run["stop_reason"]["stop_sequence"], "###");
    let shown = |history: &[Value]| {
        let message = &history[1]["message"];
        (message["stop_reason"].clone(), message["stop_sequence"].clone())
    };
    let expected = (json!("stop_sequence"), json!("###"));
    assert_eq!(shown(&session.history().await), expected);

    let export = app.get(&session.path("/export")).send().await.unwrap().text().await.unwrap();
    let import = app.post("/v1/sessions/import").body(export);
    let imported = import.header("content-type", "application/jsonl").send().await.unwrap();
    assert!(imported.status().is_success(), "{:?}", imported.text().await);
    let imported: Value = imported.json().await.unwrap();
    let copy = app.existing_session(imported["id"].as_str().unwrap());
    assert_eq!(shown(&copy.history().await), expected);
    assert_eq!(imported["stop_reason"]["stop_sequence"], "###");
}

/// A stream whose only block is a call, whatever the request allows.
fn only_calls(id: &str) -> Value {
    let events = [
        json!({ "type": "message_start", "message": { "id": format!("msg_{id}"),
            "type": "message", "role": "assistant", "model": "simulator", "content": [],
            "stop_reason": null, "usage": { "input_tokens": 10, "output_tokens": 1 } } }),
        json!({ "type": "content_block_start", "index": 0, "content_block":
            { "type": "tool_use", "id": id, "name": "get_time", "input": {} } }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" },
            "usage": { "output_tokens": 5 } }),
        json!({ "type": "message_stop" }),
    ];
    let events: Vec<String> = events.iter().map(Value::to_string).collect();
    json!({ "raw_sse": format!("data: {}\n\n", events.join("\n\ndata: ")) })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_final_reply_that_only_calls_a_tool_is_requested_once_more() {
    let mut answer = says("It is noon.");
    answer["fail_first"] = json!([only_calls("toolu_2")]);
    let app = TestApp::start(replies(&[only_calls("toolu_1"), answer])).await;
    let session = app.session().await;
    let ask = json!({ "content": "What time is it?", "limits": { "rounds": 1 } });
    let run = session.ask_with(ask).await;
    let expected = json!(["completed", { "type": "end_turn" }, "It is noon.", 2]);
    assert_eq!(outcome(&session, &run).await, expected);
    assert_eq!((&run["limited"], &run["model_requests"]), (&json!(true), &json!(3)));
    for index in [1, 2] {
        assert_eq!(app.upstream().body(index)["tool_choice"], json!({ "type": "none" }));
    }
    assert_eq!(requests(&session).await[1], json!(["tool_use", false, 5]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_final_replies_only_call_tools_reports_that_it_has_no_answer() {
    let mut again = only_calls("toolu_3");
    again["fail_first"] = json!([only_calls("toolu_2")]);
    let app = TestApp::start(replies(&[only_calls("toolu_1"), again])).await;
    let session = app.session().await;
    let ask = json!({ "content": "What time is it?", "limits": { "rounds": 1 } });
    let run = session.ask_with(ask).await;
    let reason = json!({ "type": "unknown", "model_stop_reason": "tool_use" });
    assert_eq!(outcome(&session, &run).await, json!(["completed", reason, "", 1]));
    assert_eq!(run["limited"], true);
    assert_eq!(app.upstream().len(), 3, "the request is repeated once");
    let explained = session.explain(&run).await.to_string();
    assert!(
        explained.contains("called a tool instead of answering, at the limit of rounds"),
        "{explained}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_draft_counts_as_usage() {
    let mut refusal = with("refusal");
    refusal["usage"] = json!({ "input_tokens": 70, "output_tokens": 5 });
    let app = TestApp::start(stops(&refusal)).await;
    let session = app.session().await;
    let run = session.ask("go").await;
    let usage = &run["usage"];
    assert_eq!((&usage["input_tokens"], &usage["output_tokens"]), (&json!(70), &json!(5)));
    assert_eq!(requests(&session).await, [json!(["refusal", false, 5])]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_call_is_requested_again_with_twice_the_max_tokens() {
    let mut call = calls("write_file", json!({ "path": "whole.txt", "content": "all of it" }));
    call["fail_first"] = json!([truncated()]);
    call["usage"] = json!({ "output_tokens": 1500 });
    let mut answer = says("Written.");
    answer["usage"] = json!({ "output_tokens": 7 });
    let app = TestApp::start(replies(&[call, answer])).await;
    let session = app.session().await;
    let run = session.ask("Write it").await;
    assert_eq!(run["output_text"], "Written.");
    let limits: Vec<Value> =
        (0..3).map(|index| app.upstream().body(index)["max_tokens"].clone()).collect();
    assert_eq!(limits, [1000, 2000, 1000], "the next round has the usual limit again");
    assert_eq!(app.upstream().body(0)["messages"], app.upstream().body(1)["messages"]);
    let written = std::fs::read_to_string(app.folder.path().join("whole.txt")).unwrap();
    assert_eq!(written, "all of it");
    assert!(!app.folder.path().join("half.txt").exists());

    let ends = [
        json!(["max_tokens", false, 1000]),
        json!(["tool_use", false, 1500]),
        json!(["end_turn", false, 7]),
    ];
    assert_eq!(requests(&session).await, ends);
    assert_eq!(run["model_requests"], 3);
    assert_eq!(run["usage"]["output_tokens"], 2507, "both requests count as usage");
    let events = session.events().await;
    let usage = events.iter().rfind(|event| event["type"] == "session.usage").unwrap();
    assert_eq!(usage["usage"], run["usage"]);
    let history = Value::from(session.history().await).to_string();
    assert!(!history.contains("I will write."), "the truncated reply is not stored: {history}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_truncated_twice_completes_the_run() {
    let app = TestApp::start(stops(&truncated())).await;
    let session = app.session().await;
    let run = session.ask("go").await;
    let expected = json!(["completed", { "type": "max_tokens" }, "I will write.", 1]);
    assert_eq!(outcome(&session, &run).await, expected);
    assert_eq!(app.upstream().len(), 2);
    assert!(!app.folder.path().join("half.txt").exists());
    assert_eq!(session.ask("Are you there?").await["output_text"], "Still here.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_call_is_not_requested_again_if_that_cannot_help() {
    let price = Price { output: 1_000_000, ..Price::default() };
    let limits = |limits: Value| serde_json::from_value::<Limits>(limits).unwrap();
    let table = [
        (json!({ "max_tokens": 128_000 }), Limits::default(), "it is the maximum of the model"),
        (json!({}), limits(json!({ "tokens": 500 })), "the run has reached its token limit"),
        (json!({}), limits(json!({ "cost": 900 })), "the run has reached its cost limit"),
    ];
    for (body, limits, reason) in table {
        let prices = [("simulator".to_owned(), price)].into();
        let setup = Setup { limits, prices, ..Setup::default() };
        let app = TestApp::start_with(stops(&truncated()), setup).await;
        let session = app.session_with(body).await;
        let run = session.ask("go").await;
        assert_eq!(run["stop_reason"], json!({ "type": "max_tokens" }), "{reason}");
        assert_eq!(app.upstream().len(), 1, "{reason}");
    }
}

/// A reply that pauses during a call of a server tool.
fn paused() -> Value {
    json!({ "content": [
        { "type": "text", "text": "Searching." },
        { "type": "server_tool_use", "name": "web_search", "input": { "query": "x" } },
    ], "stop_reason": "pause_turn" })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_turn_is_resumed_at_most_ten_times() {
    let mut pause = paused();
    pause["repeat"] = 99.into();
    let script = json!({ "conversations": [
        { "when": "go", "replies": [pause] },
        { "replies": [says("Still here.")] },
    ], "otherwise": "refuse" });
    let app = TestApp::start(script).await;
    let session = app.session().await;
    let run = session.ask("go").await;
    let reason = json!({ "type": "unknown", "model_stop_reason": "pause_turn" });
    assert_eq!(outcome(&session, &run).await, json!(["completed", reason, "Searching.", 11]));
    assert_eq!(app.upstream().len(), 11);
    assert_eq!(app.upstream().roles(10).len(), 11, "each reply is sent back without a new message");
    // The unfinished server call is left out of later requests, which is logged and counted.
    assert_eq!(session.ask("Are you there?").await["output_text"], "Still here.");
    assert_valid(&app, &session).await;
    app.end_repaired(&[("open_server_call", 10)]);
}

/// Checks that the model refused nothing and that the stored session is valid.
async fn assert_valid(app: &TestApp, session: &Session<'_>) {
    assert_eq!(app.simulator.refusals(), Vec::<String>::new());
    assert_eq!(session.verify().await["findings"], json!([]));
    assert_eq!(app.broken_invariants().await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_ends_without_its_server_call_leaves_the_session_valid() {
    let script = json!({ "conversations": [
        { "when": "go", "replies": [paused(), says("I found nothing.")] },
        { "replies": [says("Still here.")] },
    ], "otherwise": "refuse" });
    let app = TestApp::start(script).await;
    let session = app.session().await;
    assert_eq!(session.ask("go").await["output_text"], "I found nothing.");
    assert_valid(&app, &session).await;
    assert_eq!(session.ask("Are you there?").await["output_text"], "Still here.");
    assert_valid(&app, &session).await;
    app.end_repaired(&[("open_server_call", 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_that_the_model_compacts_continues_with_the_summary() {
    let summary = json!({ "content": [{ "type": "compaction", "content": "We said hello." }],
                          "stop_reason": "compaction" });
    let app = TestApp::start(replies(&[summary, says("As I said, hello.")])).await;
    let edits = json!([{ "type": "compact_20260112" }]);
    let session = app.session_with(json!({ "context": { "edits": edits } })).await;
    let run = session.ask("go").await;
    let expected = json!(["completed", { "type": "end_turn" }, "As I said, hello.", 2]);
    assert_eq!(outcome(&session, &run).await, expected);
    assert_eq!(app.upstream().roles(1), ["user", "assistant"]);
    assert_eq!(
        app.upstream().body(1)["messages"][1]["content"],
        json!([{ "type": "compaction", "content": "We said hello." }])
    );
}
