//! Images in the results of tools.

use serde_json::{Value, json};

use super::fake_server::{Fake, app, results, wait_until};
use crate::faults::takeover::lose_worker;
use crate::support::media::pixel;
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
