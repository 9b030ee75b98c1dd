//! Conditional requests: `If-None-Match` and `If-Match` with the version of a session.

use futures::future::join_all;
use reqwest::Response;
use serde_json::{Value, json};

use crate::support::media::pixel;
use crate::support::{Session, TestApp, problem, replies, says};

async fn start() -> TestApp {
    TestApp::start(replies(&[says("Yes.")])).await
}

async fn read(session: &Session<'_>, known: &str) -> Response {
    session.app.get(&session.path("")).header("if-none-match", known).send().await.unwrap()
}

fn tag(response: &Response) -> String {
    response.headers()["etag"].to_str().unwrap().to_owned()
}

async fn version(session: &Session<'_>) -> String {
    tag(&read(session, "").await)
}

async fn post(session: &Session<'_>, expected: &str, body: Value) -> Response {
    session.message(&body).header("if-match", expected).send().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_known_version_is_not_sent_again_until_the_session_changes() {
    let app = start().await;
    let session = app.session().await;
    session.ask("Are you there?").await;
    let first = version(&session).await;
    for known in [first.clone(), format!("W/{first}"), format!("\"x,y\", {first}"), "*".to_owned()]
    {
        for path in [session.path(""), session.path("/todos")] {
            let again = app.get(&path).header("if-none-match", &known).send().await.unwrap();
            assert_eq!((again.status().as_u16(), tag(&again)), (304, first.clone()), "{known}");
            assert_eq!(again.text().await.unwrap(), "", "{known}");
        }
    }
    session.ask("And now?").await;
    let now = read(&session, &first).await;
    assert_eq!(now.status(), 200);
    let second = tag(&now);
    assert_eq!(second, format!("\"v{}\"", now.json::<Value>().await.unwrap()["last_seq"]));
    assert_ne!(first, second);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_accepted_only_for_the_current_version() {
    let app = start().await;
    let session = app.session().await;
    session.ask("Are you there?").await;
    let old = version(&session).await;
    session.ask("Still?").await;
    let now = version(&session).await;
    let events = session.events().await;
    for stale in [old.clone(), format!("W/{now}"), "\"other\"".to_owned(), "nonsense".to_owned()] {
        for mode in ["queue", "reject", "interrupt"] {
            let body = json!({ "content": "Hello", "on_busy": mode });
            problem(post(&session, &stale, body).await, 412, "version_mismatch").await;
        }
        let body = json!({ "content": [pixel()] });
        problem(post(&session, &stale, body).await, 412, "version_mismatch").await;
    }
    assert_eq!(session.events().await, events);
    for known in [format!("{old}, {now}"), "*".to_owned()] {
        let response = post(&session, &known, json!({ "content": "Hello" })).await;
        assert_eq!(response.status(), 202, "{known}");
        session.settled(&response.json().await.unwrap()).await;
    }
    let missing = "/v1/sessions/ses_00000000000070008000000000000000/messages";
    let refused = app.post(missing).header("if-match", now).json(&json!({ "content": "Hello" }));
    problem(refused.send().await.unwrap(), 404, "session_not_found").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_concurrent_messages_for_one_version_one_is_accepted() {
    let app = start().await;
    for content in [json!("Hello"), json!([pixel()])] {
        for mode in ["queue", "interrupt"] {
            let session = app.session().await;
            session.ask(&format!("Are you there, to {mode} {content}?")).await;
            let known = version(&session).await;
            let body = json!({ "content": content, "on_busy": mode });
            let posts = join_all((0..8).map(|_| post(&session, &known, body.clone()))).await;
            let mut statuses: Vec<u16> =
                posts.iter().map(|response| response.status().as_u16()).collect();
            statuses.sort_unstable();
            assert_eq!(statuses, [202, 412, 412, 412, 412, 412, 412, 412], "{mode}");
            let accepted = posts.into_iter().find(|response| response.status() == 202).unwrap();
            session.settled(&accepted.json().await.unwrap()).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_interrupts_is_accepted_for_the_version_before_the_interruption() {
    let app = TestApp::start(crate::support::hangs_first()).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "hang" })).await;
    session.reached(&run, "span.model_request_start").await;
    let known = version(&session).await;
    let body = json!({ "content": "Stop it.", "on_busy": "interrupt" });
    let response = post(&session, &known, body).await;
    assert_eq!(response.status(), 202);
    let next = session.settled(&response.json().await.unwrap()).await;
    assert_eq!(next["output_text"], "You said Stop it..");
    assert_eq!(session.run(&run).await["status"], "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn repeating_an_accepted_message_succeeds_although_the_version_has_changed() {
    let app = start().await;
    let session = app.session().await;
    let known = version(&session).await;
    let body = json!({ "content": "Hello", "id": "first" });
    let first: Value = post(&session, &known, body.clone()).await.json().await.unwrap();
    session.settled(&first).await;
    let again = post(&session, &known, body).await;
    assert_eq!(
        (again.status().as_u16(), &again.headers()["idempotency-replayed"]),
        (202, &"true".parse().unwrap())
    );
    assert_eq!(again.json::<Value>().await.unwrap()["id"], first["id"]);
}
