//! Edits that meet other requests, and requests that leave nothing behind.

use std::collections::BTreeSet;

use futures::future::join_all;
use serde_json::{Value, json};

use super::chat::chunks;
use super::{Chat, user};
use crate::support::{TestApp, replies, says};

fn texts(messages: &[Value]) -> Vec<String> {
    let text = |message: &Value| {
        let parts = message["parts"].as_array().unwrap().iter();
        parts.filter_map(|part| part["text"].as_str()).collect::<String>()
    };
    messages.iter().map(text).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edited_message_that_is_queued_keeps_the_answer_before_it() {
    let slow = "one two three four five six seven eight nine ten";
    let script = json!({ "conversations": [
        { "when": "slow", "replies": [{ "content": [{ "type": "text", "text": slow }],
                                        "chunk": 2, "pace_ms": 40 }] },
        { "replies": [says("You said {{user}}.")] },
    ] });
    let app = TestApp::start(script).await;
    let chat = Chat::new(&app);
    let first = chat.request(json!({ "message": user("m1", "slow") })).send().await.unwrap();
    let before = chat.session().await;
    let mut queued = Vec::new();
    for (id, text) in [("m2", "Two"), ("m3", "Three")] {
        queued.push(chat.request(json!({ "message": user(id, text) })).send().await.unwrap());
    }
    let edit = json!({ "message": user("m2", "Zwei"), "messageId": "m2" });
    let edited = chat.request(edit.clone()).send().await.unwrap();
    let repeated = chat.request(edit).send().await.unwrap();
    let first = chunks(first).await;
    assert_eq!(first.last().unwrap()["finishReason"], "stop");
    for dropped in queued {
        assert_eq!(chunks(dropped).await.last().unwrap()["type"], "abort");
    }
    let (edited, repeated) = (chunks(edited).await, chunks(repeated).await);
    assert_eq!(edited[0], repeated[0]);
    assert_eq!(chat.session().await["id"], before["id"]);
    let kept = texts(&chat.messages().await);
    assert_eq!(kept, ["slow", slow, "Zwei", "You said Zwei."]);
}

#[tokio::test(flavor = "multi_thread")]
async fn edits_at_the_same_time_leave_one_fork_of_each_session() {
    let app = TestApp::start(replies(&[says("You said {{user}}.")])).await;
    let chat = Chat::new(&app);
    chat.ask("m1", "One").await;
    chat.ask("m2", "Two").await;
    let edits = ["Uno", "Eins", "Ein", "Un", "En", "Ichi", "Yksi", "Jeden"].map(|text| {
        let body = json!({ "messages": [user("m1", text)], "messageId": "m1" });
        async {
            let response = chat.request(body).send().await.unwrap();
            let status = response.status().as_u16();
            response.text().await.unwrap();
            status
        }
    });
    let statuses = join_all(edits).await;
    assert!(statuses.contains(&200), "{statuses:?}");
    // The workspaces of few forks are copied at once.
    assert!(statuses.iter().all(|status| [200, 412, 503].contains(status)), "{statuses:?}");
    let page = app.get("/v1/sessions?limit=100").send().await.unwrap();
    let page: Value = page.json().await.unwrap();
    let sessions = page["data"].as_array().unwrap();
    let sources: Vec<&Value> =
        sessions.iter().filter_map(|it| it["forked_from"].get("session_id")).collect();
    let distinct: BTreeSet<&str> = sources.iter().map(|it| it.as_str().unwrap()).collect();
    assert_eq!(sources.len(), distinct.len(), "a session has two forks: {page}");
    let holders = sessions.iter().filter(|it| it["external_id"] == chat.id).count();
    assert_eq!(holders, 1);
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_that_meets_its_original_replaces_it() {
    let app = TestApp::start(replies(&[says("You said {{user}}.")])).await;
    for id in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        let chat = Chat { app: &app, id };
        chat.ask("m0", "Zero").await;
        let both = [("One", Value::Null), ("Uno", json!("m1"))].map(|(text, message_id)| {
            let body = json!({ "messages": [user("m1", text)], "messageId": message_id });
            async {
                let response = chat.request(body).send().await.unwrap();
                let status = response.status();
                (status.as_u16(), response.text().await.unwrap())
            }
        });
        for (status, text) in join_all(both).await {
            assert_eq!(status, 200, "{text}");
        }
        let kept = texts(&chat.messages().await);
        assert!(
            [
                ["Zero", "You said Zero.", "One", "You said One."],
                ["Zero", "You said Zero.", "Uno", "You said Uno."]
            ]
            .iter()
            .any(|it| *it == kept[..]),
            "{kept:?}"
        );
    }
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_first_message_leaves_no_session() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let chat = Chat::new(&app);
    for body in [
        json!({ "message": { "id": "m1", "role": "user", "parts": [] } }),
        json!({ "message": user("not valid", "Hi") }),
        json!({ "message": user("m1", "Hi"), "tools": { "not valid": {} } }),
        json!({ "messages": [{ "id": "m1", "role": "user", "parts": [] }],
                "trigger": "regenerate-message" }),
    ] {
        assert_eq!(chat.refusal(body.clone()).await, (422, json!("validation_failed")), "{body}");
    }
    let page: Value = app.get("/v1/sessions").send().await.unwrap().json().await.unwrap();
    assert_eq!(page["data"], json!([]));
}
