//! Parts of the history that the model server refuses: they are no longer sent, the stored history
//! does not change, and the session continues.

use serde_json::{Value, json};
use twostep::domain::provider::Provider;

use crate::support::media::{WORD, image_at};
use crate::support::{Session, Setup, TestApp, asks, calls_as, replies, says};

fn door() -> Value {
    json!({ "name": "open_door", "description": "Opens a door.", "client": true,
            "input_schema": { "type": "object" } })
}

async fn stored(session: &Session<'_>) -> Vec<Value> {
    session.history().await.into_iter().map(|item| item["message"].clone()).collect()
}

/// The reported changes of the history that a session sends, in order.
async fn changes(session: &Session<'_>) -> Vec<Value> {
    let events = session.events().await;
    let updated = events.iter().filter(|event| event["type"] == "session.updated");
    updated.map(|event| event["sent_history"].clone()).collect()
}

fn kinds_of(message: &Value) -> Vec<&str> {
    let blocks = message["content"].as_array().unwrap();
    blocks.iter().map(|block| block["type"].as_str().unwrap()).collect()
}

const BOUND: &str = "messages.1.content.0: Invalid `signature` in `thinking` block. The block is \
    bound to a different conversation. Remove the block, or set \
    `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\".";

/// The simulator's signatures of thinking cover the tools, so that other tools invalidate them.
#[tokio::test(flavor = "multi_thread")]
async fn refused_thinking_is_no_longer_sent() {
    let thinks = || {
        replies(&[json!({ "content": [
            { "type": "thinking", "thinking": "Hm." },
            { "type": "text", "text": "I see." },
        ] })])
    };
    let app = TestApp::start(thinks()).await;
    let session = app.session().await;
    let id = session.id.clone();
    session.ask("Hello").await;
    let before = stored(&session).await;
    let run = session.ask_with(json!({ "content": "Again", "tools": [door()] })).await;
    assert_eq!((&run["status"], &run["output_text"]), (&json!("completed"), &json!("I see.")));
    assert_eq!(stored(&session).await[..2], before);
    assert_eq!(kinds_of(&before[1]), ["thinking", "text"]);
    let dropped = json!([{ "change": "thinking_dropped", "up_to": 3 }]);
    assert_eq!(json!(changes(&session).await), dropped);
    let upstream = app.upstream();
    assert_eq!(upstream.len(), 3, "one retry");
    assert_eq!(kinds_of(&upstream.body(2)["messages"][1]), ["text"]);
    assert_eq!(app.simulator.refusals(), [BOUND]);

    // Another process reads the change from the database. Later thinking is valid and is sent.
    let app = app.restarted_after_refusals(thinks()).await;
    let session = app.existing_session(&id);
    session.ask_with(json!({ "content": "And now?", "tools": [door()] })).await;
    assert_eq!(json!(changes(&session).await), dropped);
    let body = app.upstream().body(0);
    assert_eq!(kinds_of(&body["messages"][1]), ["text"]);
    assert_eq!(kinds_of(&body["messages"][3]), ["thinking", "text"]);
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_image_is_replaced_by_a_placeholder() {
    let script = || {
        json!({ "conversations": [
            { "when": "again", "replies": [says("It still is.")] },
            { "replies": [calls_as(&[("toolu_1", "open_door", json!({}))]), says("It is open.")] },
        ], "unreadable": [{ "type": "image", "message": "Could not process image" }] })
    };
    let app = TestApp::start_with(script(), asks()).await;
    let session = app.session_with(json!({ "tools": [door()] })).await;
    let id = session.id.clone();
    let run = session.ask("Open it").await;
    let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let image = json!({ "type": "image", "source":
        { "type": "base64", "media_type": "image/png", "data": png } });
    let content = json!([{ "type": "text", "text": "A photo:" }, image]);
    let results = json!([{ "tool_use_id": "toolu_1", "content": content }]);
    session.accepted(session.submit_results(&results)).await;
    let run = session.settled(&run).await;
    assert_eq!((&run["status"], &run["output_text"]), (&json!("completed"), &json!("It is open.")));
    let replaced = json!([{ "change": "block_replaced", "message_seq": 3, "block": 0, "part": 1 }]);
    assert_eq!(json!(changes(&session).await), replaced);
    assert_eq!(stored(&session).await[2]["content"][0]["content"], content);
    let refusal =
        "messages.2.content.0.tool_result.content.1.image.source: Could not process image";
    assert_eq!(app.simulator.refusals(), [refusal]);
    let last = app.upstream().len() - 1;
    let sent = app.upstream().body(last)["messages"][2]["content"][0]["content"].clone();
    assert_eq!(sent, json!([content[0], { "type": "text", "text": WORD }]));

    // A process that reads the history from the database sends the placeholder too.
    let app = app.restarted_after_refusals(script()).await;
    let session = app.existing_session(&id);
    assert_eq!(session.ask("Look again").await["output_text"], "It still is.");
    assert_eq!(app.upstream().body(0)["messages"][2]["content"][0]["content"], sent);
    app.end_refused(&[]);
}

/// The message of an error names one image. The details of an error apply to all images.
#[tokio::test(flavor = "multi_thread")]
async fn an_image_of_the_user_is_replaced_however_the_error_names_it() {
    let [one, other] = ["https://example.org/one.png", "https://example.org/other.png"];
    let placeholder = json!({ "type": "text", "text": WORD });
    let replaced =
        |block: i32| json!({ "change": "block_replaced", "message_seq": 1, "block": block });
    let details =
        json!({ "error_code": "image_dimensions_too_large", "max_side_length_pixels": 8000 });
    let table = [
        (
            json!({ "type": "image", "contains": "other", "message": "Could not process image" }),
            "messages.0.content.2.image.source: Could not process image",
            json!([replaced(2)]),
            json!([image_at(one), { "type": "text", "text": "or" }, placeholder]),
        ),
        (
            json!({ "type": "image", "message": "They are too large", "details": details }),
            "They are too large",
            json!([replaced(0), replaced(2)]),
            json!([placeholder, { "type": "text", "text": "or" }, placeholder]),
        ),
    ];
    for (unreadable, refusal, changed, sent) in table {
        let mut script = replies(&[says("It is.")]);
        script["unreadable"] = json!([unreadable]);
        let app = TestApp::start(script).await;
        let session = app.session().await;
        let content = json!([image_at(one), { "type": "text", "text": "or" }, image_at(other)]);
        let run = session.ask_with(json!({ "content": content })).await;
        assert_eq!((&run["status"], &run["output_text"]), (&json!("completed"), &json!("It is.")));
        assert_eq!(json!(changes(&session).await), changed);
        assert_eq!(stored(&session).await[0]["content"], content);
        session.ask("And now?").await;
        let upstream = app.upstream();
        assert_eq!(upstream.len(), 3, "refused once");
        for nth in [1, 2] {
            assert_eq!(upstream.body(nth)["messages"][0]["content"], sent);
        }
        app.end_refused(&[refusal]);
    }
}

/// In this protocol, the images of a result follow in a user message, and the system prompt is the
/// first message.
#[tokio::test(flavor = "multi_thread")]
async fn refused_images_are_replaced_in_chat_completions() {
    let script = json!({
        "conversations": [
            { "when": "images of the result", "replies": [says("It is open.")] },
            { "replies": [calls_as(&[("toolu_1", "open_door", json!({}))])] },
        ],
        "unreadable": [{ "type": "image", "contains": "bad", "message": "Invalid image." }],
    });
    let setup = Setup { provider: Provider::OpenAi, ..asks() };
    let app = TestApp::start_with(script, setup).await;
    let session = app.session_with(json!({ "tools": [door()] })).await;
    let image = |name: &str| image_at(&format!("https://example.org/{name}.png"));
    let text = json!({ "type": "text", "text": "Look" });
    let content = json!([text, image("good"), image("bad-1")]);
    let run = session.ask_with(json!({ "content": content })).await;
    let results = json!([{ "tool_use_id": "toolu_1", "content": [image("good"), image("bad-2")] }]);
    session.accepted(session.submit_results(&results)).await;
    let run = session.settled(&run).await;
    assert_eq!((&run["status"], &run["output_text"]), (&json!("completed"), &json!("It is open.")));
    let replaced = json!([
        { "change": "block_replaced", "message_seq": 1, "block": 2 },
        { "change": "block_replaced", "message_seq": 3, "block": 0, "part": 1 },
    ]);
    assert_eq!(json!(changes(&session).await), replaced);
    let sent = app.upstream().text(3);
    assert_eq!((sent.matches("good.png").count(), sent.matches("bad").count()), (2, 0), "{sent}");
    app.end_refused(&["Invalid image."; 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_without_a_repair_fails_the_run_at_once() {
    for message in [
        "messages.0.content.0.text: unheard of",
        "messages.7.content.0.image.source: no such message",
        BOUND,
        "max_tokens: too many",
    ] {
        let error = json!({ "type": "invalid_request_error", "message": message });
        let app = TestApp::start(replies(&[json!({ "status": 400, "error": error })])).await;
        let session = app.session().await;
        let run = session.ask("Hello").await;
        assert_eq!(run["status"], "failed", "{message}");
        assert_eq!((app.upstream().len(), changes(&session).await.len()), (1, 0), "{message}");
        app.end_refused(&[]);
    }
}
