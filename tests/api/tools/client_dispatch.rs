//! Sessions with `dispatch: client`: the client runs all tools.

use serde_json::{Value, json};

use crate::support::{TestApp, asks, calls_as, pending, replies, says};

fn client_runs_all_tools() -> Value {
    json!({ "tools": ["read_file", "write_file"], "dispatch": "client" })
}

fn script_of_two_calls() -> Value {
    replies(&[
        calls_as(&[
            ("toolu_1", "read_file", json!({ "path": "a.txt" })),
            ("toolu_2", "write_file", json!({ "path": "b.txt", "content": "b" })),
        ]),
        says("{{result.0}} and {{result.1}}"),
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn with_client_dispatch_the_client_gets_all_calls_and_the_service_runs_no_tool() {
    let app = TestApp::start(script_of_two_calls()).await;
    app.write_file("a.txt", "ours");
    let session = app.session_with(client_runs_all_tools()).await;
    let read = session.read().await;
    assert_eq!(
        (&read["dispatch"], &read["client_tools"]),
        (&json!("client"), &json!(["read_file", "write_file"]))
    );
    let run = session.ask("Go on").await;
    assert_eq!(
        (&run["status"], pending(&run)),
        (&json!("requires_action"), vec!["toolu_1", "toolu_2"])
    );
    // The client runs the first call and refuses the second.
    let results = json!([
        { "tool_use_id": "toolu_1", "content": "theirs" },
        { "tool_use_id": "toolu_2", "content": "You may not write.", "is_error": true },
    ]);
    session.accepted(session.submit_results(&results)).await;
    let run = session.settled(&run).await;
    assert_eq!(run["output_text"], "theirs and You may not write.");
    assert!(!app.folder.path().join("b.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_client_dispatch_is_cancelled_while_a_call_has_no_result() {
    let app = TestApp::start(script_of_two_calls()).await;
    let session = app.session_with(client_runs_all_tools()).await;
    let run = session.ask("Go on").await;
    let one = json!([{ "tool_use_id": "toolu_1", "content": "theirs" }]);
    session.accepted(session.submit_results(&one)).await;
    session.cancel(&run).await;
    assert_eq!(session.settled(&run).await["status"], "cancelled");
    let history = session.history().await;
    let results = history[2]["message"]["content"].as_array().unwrap();
    let contents: Vec<&str> = results.iter().map(|it| it["content"].as_str().unwrap()).collect();
    assert_eq!(contents[0], "theirs", "the result of the client is kept");
    assert!(contents[1].starts_with("Cancelled: "), "{contents:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_the_client_runs_need_no_approval() {
    let app = TestApp::start_with(script_of_two_calls(), asks()).await;
    let session = app.session_with(client_runs_all_tools()).await;
    let run = session.ask("Go on").await;
    let awaits: Vec<&Value> =
        run["pending"].as_array().unwrap().iter().map(|call| &call["awaits"]).collect();
    assert_eq!(awaits, [&json!("client"), &json!("client")]);
    assert_eq!(session.approvals().await, json!([]));
    let decision = session.decide("toolu_1", &json!({ "decision": "allow" }));
    assert_eq!(decision.send().await.unwrap().status(), 404);
    session.cancel(&run).await;
    session.settled(&run).await;
}
