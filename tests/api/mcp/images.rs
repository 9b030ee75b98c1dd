//! Images in the results of tools.

use serde_json::{Value, json};

use super::fake_server::{Fake, app, results, wait_until};
use crate::faults::takeover::lose_worker;
use crate::support::media::{base64, pixel, png};
use crate::support::{TestApp, calls_as, replies, says};

/// The text and the image of the result of `picture`. The type is that of the bytes.
fn picture() -> Value {
    json!([{ "type": "text", "text": "Taken:\n[image/png, 70 bytes]" }, pixel()])
}

/// The content of the first result in the last message of a request.
fn first_result(app: &TestApp, request: usize) -> Value {
    let body = app.upstream().body(request);
    let last = body["messages"].as_array().unwrap().last().unwrap();
    last["content"][0]["content"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_receives_an_image_with_the_type_of_its_bytes() {
    let app = Fake::new().app(&["picture"]).await;
    let session = app.session().await;
    assert_eq!(session.ask("Go").await["output_text"], "Done.");
    assert_eq!(first_result(&app, 1), picture());
    let reported = ("Taken:\n[image/png, 70 bytes]".to_owned(), false);
    assert_eq!(results(&session).await, [reported]);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_worker_that_continues_the_round_has_the_image_too() {
    let fake = Fake::new();
    let input = json!({ "text": "hello" });
    let both = calls_as(&[
        ("toolu_1", "mcp__fake__picture", input.clone()),
        ("toolu_2", "mcp__fake__hang", input),
    ]);
    let app = app(fake.settings(), &replies(&[both, says("Done.")])).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Go" })).await;
    let is_called = |message: &Value| message["params"]["name"] == "hang";
    wait_until("the second tool was not called", async || fake.received().iter().any(is_called))
        .await;
    lose_worker(&app, &run, 1).await;
    assert_eq!(session.settled(&run).await["output_text"], "Done.");
    assert_eq!(first_result(&app, 1), picture());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_round_that_waits_for_the_client_keeps_the_image() {
    let fake = Fake::new();
    let both = calls_as(&[
        ("toolu_1", "mcp__fake__picture", json!({ "text": "hello" })),
        ("toolu_2", "ask", json!({})),
    ]);
    let app = app(fake.settings(), &replies(&[both, says("Done.")])).await;
    let ask = json!({ "name": "ask", "client": true, "input_schema": { "type": "object" } });
    let session = app.session_with(json!({ "tools": ["mcp__fake__picture", ask] })).await;
    let run = session.post(json!({ "content": "Go" })).await;
    session.waits_for(&run, &["toolu_2"]).await;
    let answer = json!([{ "tool_use_id": "toolu_2", "content": "Yes." }]);
    session.accepted(session.submit_results(&answer)).await;
    assert_eq!(session.settled(&run).await["output_text"], "Done.");
    assert_eq!(first_result(&app, 1), picture());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_that_ends_at_the_call_has_the_image() {
    let app = Fake::new().app(&["picture"]).await;
    let session = app.session().await;
    session.ask("Go").await;
    let fork = app.post(&session.path("/forks")).json(&json!({ "before": 3 })).send().await;
    let fork: Value = fork.unwrap().json().await.unwrap();
    let fork = app.existing_session(fork["id"].as_str().unwrap());
    assert_eq!(fork.history().await[2]["message"]["content"][0]["content"], picture());
}

#[tokio::test(flavor = "multi_thread")]
async fn images_of_tools_are_left_out_if_a_queued_message_brings_too_many() {
    let fake = Fake::new();
    let shot = |number| (format!("toolu_{number}"), "mcp__fake__picture", json!({ "text": "a" }));
    let shots: Vec<_> = (10..25).map(shot).collect();
    let shots: Vec<_> =
        shots.iter().map(|(id, name, input)| (&**id, *name, input.clone())).collect();
    let ask = calls_as(&[("toolu_1", "ask", json!({}))]);
    let script = json!({ "conversations": [
        { "when": "Take", "replies": [ask, calls_as(&shots), says("Taken.")] },
        { "replies": [says("Seen.")] },
    ], "otherwise": "refuse" });
    let app = app(fake.settings(), &script).await;
    let ask = json!({ "name": "ask", "client": true, "input_schema": { "type": "object" } });
    let session = app.session_with(json!({ "tools": ["mcp__fake__picture", ask] })).await;
    let image = json!({ "type": "image", "source": base64("image/png", &png(3, 0)) });
    let text = json!({ "type": "text", "text": "Look" });
    let images = |count: usize| {
        let content: Vec<_> = std::iter::once(&text).chain(vec![&image; count]).collect();
        json!({ "content": content })
    };
    session.ask_with(images(60)).await;

    // Each is allowed when it is accepted: 95 images, then 75 before the queued message.
    let run = session.post(json!({ "content": "Take some" })).await;
    session.waits_for(&run, &["toolu_1"]).await;
    let queued = session.post(images(35)).await;
    let answer = json!([{ "tool_use_id": "toolu_1", "content": "Yes." }]);
    session.accepted(session.submit_results(&answer)).await;
    assert_eq!(session.settled(&run).await["output_text"], "Taken.");
    let run = session.settled(&queued).await;
    assert_eq!(run["output_text"], "Seen.", "{run}");
    app.end_refused(&["messages: Too much media: 0 document pages + 110 images > 100"]);
}
