//! Regenerated answers and edited messages.

use serde_json::{Value, json};

use super::{Chat, kinds, user};
use crate::support::{TestApp, replies, says};

fn regenerate(messages: &Value, message_id: &Value) -> Value {
    json!({ "messages": messages, "trigger": "regenerate-message", "messageId": message_id })
}

async fn service() -> TestApp {
    TestApp::start(replies(&[says("You said {{user}}.")])).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_regenerated_answer_is_in_a_fork_that_takes_over_the_id() {
    let app = service().await;
    let chat = Chat::new(&app);
    chat.ask("m1", "One").await;
    let answer = chat.ask("m2", "Two").await;
    let before = chat.session().await;
    // The content that the client sends again does not count.
    let messages = json!([user("m1", "One"), user("m2", "forged")]);
    let body = regenerate(&messages, &answer[0]["messageId"]);
    let again = chat.send(body.clone()).await;
    assert_ne!(again[0]["messageId"], answer[0]["messageId"]);
    assert_eq!((kinds(&again)[0], kinds(&again).last()), ("start", Some(&"finish")));

    let after = chat.session().await;
    assert_eq!(after["forked_from"]["session_id"], before["id"]);
    let ids: Vec<Value> = chat.messages().await.iter().map(|it| it["id"].clone()).collect();
    assert_eq!(ids[2..], [json!("m2"), again[0]["messageId"].clone()]);
    assert_eq!(chat.messages().await[2], user("m2", "Two"));
    // The source keeps its answer.
    assert_eq!(chat.runs(&before).await.len(), 2);

    // The same request again: the answer exists.
    let repeated = chat.send(body).await;
    assert_eq!(repeated[0], again[0]);
    assert_eq!(chat.session().await["id"], after["id"]);
    assert_eq!(chat.runs(&after).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edited_message_drops_what_follows_it() {
    let app = service().await;
    let chat = Chat::new(&app);
    chat.ask("m1", "One").await;
    chat.ask("m2", "Two").await;
    let before = chat.session().await;
    let body = json!({ "messages": [user("m1", "Uno")], "messageId": "m1" });
    let edited = chat.send(body.clone()).await;
    let repeated = chat.send(body).await;
    assert_eq!(repeated[0], edited[0]);
    let texts: Vec<Value> = chat
        .messages()
        .await
        .iter()
        .map(|it| it["parts"].as_array().unwrap().last().unwrap()["text"].clone())
        .collect();
    assert_eq!(texts, ["Uno", "You said Uno."]);
    assert_eq!(chat.runs(&before).await.len(), 2);
    assert_eq!(chat.session().await["forked_from"]["session_id"], before["id"]);

    // An inherited message can be edited as well, and the conversation goes on.
    chat.ask("m3", "Three").await;
    let fork = chat.session().await;
    chat.send(json!({ "messages": [user("m1", "Uno"), user("m3", "Tres")] })).await;
    chat.send(json!({ "messages": [user("m1", "Eins")], "messageId": "m1" })).await;
    let last = chat.session().await;
    assert_ne!(last["id"], fork["id"]);
    assert_eq!(chat.messages().await[0], user("m1", "Eins"));
    let kept = app.get(&format!("/v1/sessions/{}", before["id"].as_str().unwrap()));
    let kept: Value = kept.send().await.unwrap().json().await.unwrap();
    assert_eq!(kept["external_id"], Value::Null);
    // The requests of a fork do not continue those of its source.
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_never_arrived_is_posted_by_its_regeneration() {
    let app = service().await;
    let chat = Chat::new(&app);
    let answer = chat.send(regenerate(&json!([user("m1", "One")]), &Value::Null)).await;
    assert_eq!(answer.last().unwrap()["finishReason"], "stop");
    assert_eq!(chat.messages().await.len(), 2);
    assert_eq!(chat.session().await["forked_from"], Value::Null);
}
