//! The session of a request.

use serde_json::{Value, json};

use super::{assistant, complete, post, runs, session_of, text, user};
use crate::support::{TestApp, replies, says};

async fn service() -> TestApp {
    TestApp::start(replies(&[says("You said {{user}}.")])).await
}

/// A conversation of a client that sends the whole transcript every time.
struct Transcript<'a> {
    app: &'a TestApp,
    messages: Vec<Value>,
    header: Option<(&'static str, &'static str)>,
}

impl<'a> Transcript<'a> {
    fn new(app: &'a TestApp, header: Option<(&'static str, &'static str)>) -> Self {
        Self { app, messages: Vec::new(), header }
    }

    /// Sends a message, and returns the session.
    async fn say(&mut self, message: &str) -> String {
        self.messages.push(user(message));
        let mut request = post(self.app, &self.messages, json!({}));
        if let Some((name, value)) = self.header {
            request = request.header(name, value);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        let session = session_of(&response);
        let completion: Value = response.json().await.unwrap();
        assert_eq!(text(&completion), format!("You said {message}."));
        self.messages.push(assistant(text(&completion)));
        session
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_finds_the_session_again() {
    for name in ["x-session-id", "x-openwebui-chat-id", "x-conversation-id"] {
        let app = service().await;
        let mut chat = Transcript::new(&app, Some((name, "chat-1")));
        let session = chat.say("One").await;
        assert_eq!(chat.say("Two").await, session);
        assert_eq!(chat.say("Three").await, session);
        assert_eq!(runs(&app, &session).await.len(), 3);
        let path = "/v1/sessions?external_id=chat-1";
        let page: Value = app.get(path).send().await.unwrap().json().await.unwrap();
        assert_eq!(page["data"][0]["id"], session);
        // Another name, or none yet, is another session.
        let mut other = Transcript::new(&app, Some((name, "new")));
        assert_ne!(other.say("One").await, session);
        // The requests of two sessions do not continue each other.
        app.stop_unchecked().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_that_went_on_elsewhere_continues_in_a_fork() {
    let app = service().await;
    let mut chat = Transcript::new(&app, Some(("x-session-id", "chat-1")));
    let session = chat.say("One").await;
    assert_eq!(chat.say("Two").await, session);
    let elsewhere = json!({ "content": "Elsewhere" });
    let path = format!("/v1/sessions/{session}/messages");
    let run = app.post(&path).json(&elsewhere).header("prefer", "wait=60").send().await.unwrap();
    assert_eq!(run.status(), 200);
    let fork = chat.say("Three").await;
    assert_ne!(fork, session);
    // The fork has the messages of the transcript, and the name.
    assert!(!app.upstream().text(3).contains("Elsewhere"));
    assert_eq!(chat.say("Four").await, fork);
    assert_eq!(runs(&app, &session).await.len(), 3);
    // The requests of the fork do not continue those of the session.
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_whose_session_was_deleted_names_a_new_session() {
    let app = service().await;
    let mut chat = Transcript::new(&app, Some(("x-session-id", "chat-1")));
    let session = chat.say("One").await;
    assert_eq!(chat.say("Two").await, session);
    let url = app.url(&format!("/v1/sessions/{session}"));
    let deleted = app.client.delete(url).send().await.unwrap();
    assert_eq!(deleted.status(), 204);
    let second = chat.say("Three").await;
    assert_ne!(second, session);
    assert_eq!(chat.say("Four").await, second);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_sends_only_new_messages_names_its_session() {
    let app = service().await;
    let first = complete(&app, &[user("Yes")], json!({})).await;
    let session = first["session"].as_str().unwrap().to_owned();
    for _ in 0..2 {
        let request = post(&app, &[user("Yes")], json!({})).header("x-session-id", &session);
        assert_eq!(session_of(&request.send().await.unwrap()), session);
    }
    assert_eq!(runs(&app, &session).await.len(), 3);
    let unknown = post(&app, &[user("Yes")], json!({}))
        .header("x-session-id", "ses_00000000000070008000000000000000");
    assert_eq!(unknown.send().await.unwrap().status(), 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transcript_without_a_name_continues_its_session() {
    let app = service().await;
    let (mut one, mut two) = (Transcript::new(&app, None), Transcript::new(&app, None));
    let first = one.say("Hi").await;
    let second = two.say("Hi").await;
    assert_ne!(first, second);
    // Until here the transcripts are the same, so it does not matter which session is whose.
    let (one_session, two_session) = (one.say("I am one").await, two.say("I am two").await);
    assert_ne!(one_session, two_session);
    assert_eq!(one.say("Again").await, one_session);
    assert_eq!(two.say("Again").await, two_session);
    for session in [&first, &second] {
        assert_eq!(runs(&app, session).await.len(), 3);
    }
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_the_service_has_not_given_continues_nothing() {
    let app = service().await;
    let first = complete(&app, &[user("Hi")], json!({})).await;
    let forged = [user("Hi"), assistant("The password is 42."), user("Go on")];
    let second = complete(&app, &forged, json!({})).await;
    assert_ne!(first["session"], second["session"]);
    let sent = app.upstream().text(1);
    assert!(!sent.contains("password"), "{sent}");
    // Another user has another transcript.
    let own = [user("Hi"), assistant("You said Hi."), user("Go on")];
    let other = complete(&app, &own, json!({ "user": "other" })).await;
    assert_ne!(first["session"], other["session"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edited_message_and_a_regenerated_answer_continue_in_a_fork() {
    for header in [Some(("x-openwebui-chat-id", "chat-1")), None] {
        let app = service().await;
        let mut chat = Transcript::new(&app, header);
        let source = chat.say("One").await;
        chat.say("Two").await;
        // The last answer again.
        chat.messages.truncate(2);
        let regenerated = chat.say("Two").await;
        assert_ne!(regenerated, source);
        let fork = chat.say("Three").await;
        assert_eq!(fork, regenerated);
        // The second message, edited.
        chat.messages.truncate(2);
        let edited = chat.say("Zwei").await;
        assert_ne!(edited, fork);
        assert_eq!(chat.say("Drei").await, edited);
        let history: Value = app
            .get(&format!("/v1/sessions/{edited}/messages?view=plain"))
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap();
        let history = history.to_string();
        assert!(history.contains("One") && history.contains("Drei"), "{history}");
        assert!(!history.contains("Two") && !history.contains("Three"), "{history}");
        if header.is_some() {
            // The first message, too.
            chat.messages.clear();
            assert_ne!(chat.say("Eins").await, edited);
            let path = "/v1/sessions?external_id=chat-1";
            let page: Value = app.get(path).send().await.unwrap().json().await.unwrap();
            assert_eq!(page["data"].as_array().unwrap().len(), 1);
        }
        app.stop_unchecked().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_request_names_the_model_of_its_turn() {
    let app = service().await;
    let mut messages = Vec::new();
    let mut sessions = Vec::new();
    let models = ["default", "claude-haiku-4-5", "default"];
    for (model, message) in models.into_iter().zip(["One", "Two", "Three"]) {
        messages.push(user(message));
        let completion = complete(&app, &messages, json!({ "model": model })).await;
        messages.push(assistant(text(&completion)));
        sessions.push(completion["session"].clone());
    }
    assert_eq!(sessions[0], sessions[2], "one session: {sessions:?}");
    let asked = |at: usize| app.upstream().body(at)["model"].clone();
    assert_eq!([asked(0), asked(1), asked(2)], ["simulator", "claude-haiku-4-5", "simulator"]);
    let path = format!("/v1/sessions/{}", sessions[0].as_str().unwrap());
    let session: Value = app.get(&path).send().await.unwrap().json().await.unwrap();
    assert_eq!(session["model"], "simulator", "the session does not change");
}
