//! The session of a response.

use serde_json::{Value, json};

use super::client::{create, go_on, session_of, text, user};
use crate::adapters::openai::{complete, runs};
use crate::support::{TestApp, replies, says};

async fn service() -> TestApp {
    TestApp::start(replies(&[says("You said {{user}}.")])).await
}

/// The texts of the messages of a session.
async fn texts(app: &TestApp, session: &str) -> Vec<String> {
    let path = format!("/v1/sessions/{session}/messages");
    let page: Value = app.get(&path).send().await.unwrap().json().await.unwrap();
    let text = |it: &Value| {
        let content = &it["message"]["content"];
        let text = content.as_str().or_else(|| content[0]["text"].as_str());
        text.unwrap_or_default().to_owned()
    };
    page["data"].as_array().unwrap().iter().map(text).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_continues_the_previous_one() {
    let app = service().await;
    let first = create(&app, json!("One"), json!({})).await;
    let second = go_on(&app, &first, json!([user("Two")])).await;
    // The same text again is another message.
    let third = go_on(&app, &second, json!("Two")).await;
    assert_eq!(text(&third), "You said Two.");
    let session = session_of(&first);
    assert_eq!((session_of(&second), session_of(&third)), (session, session));
    let expected = ["One", "You said One.", "Two", "You said Two.", "Two", "You said Two."];
    assert_eq!(texts(&app, session).await, expected);
    // Another message after the first response goes on from there.
    let branch = go_on(&app, &first, json!([user("Three"), user("Four")])).await;
    assert_ne!(session_of(&branch), session);
    assert_eq!(texts(&app, session_of(&branch)).await[..3], ["One", "You said One.", "Three"]);
    assert_eq!(texts(&app, session).await, expected);
    let next = go_on(&app, &branch, json!("Five")).await;
    assert_eq!(session_of(&next), session_of(&branch));
    // The requests of the two sessions begin with the same message.
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_is_found_or_created() {
    let app = service().await;
    for conversation in [json!("chat-1"), json!({ "id": "chat-1" })] {
        for _ in 0..2 {
            let response = create(&app, json!("Hi"), json!({ "conversation": conversation })).await;
            assert_eq!(text(&response), "You said Hi.");
        }
    }
    let page: Value = app.get("/v1/sessions").send().await.unwrap().json().await.unwrap();
    let [session] = page["data"].as_array().unwrap().as_slice() else { panic!("{page}") };
    assert_eq!(session["external_id"], "chat-1");
    let id = session["id"].as_str().unwrap();
    assert_eq!(runs(&app, id).await.len(), 4);
    let response = create(&app, json!("Hi"), json!({ "conversation": id })).await;
    assert_eq!(session_of(&response), id);
    let header = json!({ "model": "default", "input": "Hi" });
    let named = app.post("/openai/v1/responses").header("x-session-id", "chat-1").json(&header);
    let named: Value = named.send().await.unwrap().json().await.unwrap();
    assert_eq!(session_of(&named), id);
    assert_eq!(runs(&app, id).await.len(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transcript_without_a_name_finds_its_session() {
    let app = service().await;
    let mut input = vec![user("One")];
    let first = create(&app, json!(input), json!({ "store": false })).await;
    input.extend(first["output"].as_array().unwrap().clone());
    input.push(json!({ "role": "user", "content": [{ "type": "input_text", "text": "Two" }] }));
    let second = create(&app, json!(input), json!({ "store": false })).await;
    assert_eq!(session_of(&second), session_of(&first));
    // Chat Completions know the same transcript.
    let messages = [
        json!({ "role": "user", "content": "One" }),
        json!({ "role": "assistant", "content": "You said One." }),
        json!({ "role": "user", "content": "Two" }),
        json!({ "role": "assistant", "content": "You said Two." }),
        json!({ "role": "user", "content": "Three" }),
    ];
    let third = complete(&app, &messages, json!({})).await;
    assert_eq!(third["session"], session_of(&first));
    // A forged transcript begins a new session with the new message alone.
    let forged =
        json!([user("Zero"), { "role": "assistant", "content": "Forged." }, user("Go on")]);
    let other = create(&app, forged, json!({})).await;
    assert_eq!(texts(&app, session_of(&other)).await, ["Go on", "You said Go on."]);
}
