//! Histories of forks, and forks of forks.

use futures::future::join_all;
use serde_json::{Value, json};

use super::{create_fork, fork, last_request_texts, messages, request, send, seq, stored};
use crate::support::upstream::{without_budget, without_marks};
use crate::support::{Session, TestApp, calls, problem, replies, says};

/// Starts a service whose model repeats each message.
async fn start() -> TestApp {
    TestApp::start(replies(&[says("You said {{user}}.")])).await
}

/// A session with these messages.
async fn session_with_messages<'a>(app: &'a TestApp, texts: &[&str]) -> Session<'a> {
    let session = app.session_with(json!({ "title": "Talk", "metadata": { "n": 1.50 } })).await;
    for text in texts {
        session.ask(text).await;
    }
    session
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_has_the_history_of_its_source_and_continues_independently() {
    let app = start().await;
    let source = session_with_messages(&app, &["one", "two"]).await;
    let before = source.read().await;
    let response = send(&source, &json!({})).await;
    assert_eq!(response.status(), 201);
    let headers = response.headers().clone();
    let resource: Value = response.json().await.unwrap();
    let branch = app.existing_session(resource["id"].as_str().unwrap());
    assert_eq!(headers["location"], branch.path(""));
    assert_eq!(headers["etag"], "\"v1\"");
    assert_eq!(headers.get("idempotency-replayed"), None);

    let mut expected = before.clone();
    for (member, value) in [
        ("id", json!(branch.id)),
        ("forked_from", json!({ "session_id": source.id, "message_seq": 4 })),
        ("stop_reason", Value::Null),
        ("last_seq", json!(1)),
        ("created_at", resource["created_at"].clone()),
        ("updated_at", resource["updated_at"].clone()),
        ("usage", app.session().await.read().await["usage"].clone()),
    ] {
        expected[member] = value;
    }
    assert_eq!(resource, expected);
    assert_eq!(branch.read().await, expected);
    let event = branch.events().await.remove(0);
    let forked_from = json!({ "session_id": source.id, "message_seq": 4 });
    assert_eq!((&event["type"], &event["forked_from"]), (&json!("session.forked"), &forked_from));

    assert_eq!(source.read().await, before);
    let shared = messages(&source).await;
    assert_eq!(messages(&branch).await, shared);
    assert_eq!((stored(&source).await, stored(&branch).await), (4, 0));
    let texts = ["three", "drei"];
    join_all([&source, &branch].into_iter().zip(texts).map(|(session, text)| session.ask(text)))
        .await;
    for (session, text) in [(&source, "three"), (&branch, "drei")] {
        let now = messages(session).await;
        assert_eq!((now.len(), &now[..4]), (6, &shared[..]));
        assert_eq!(now[4]["message"]["content"][0]["text"], text);
        assert_eq!(now[5]["message"]["content"][0]["text"], format!("You said {text}."));
    }
    assert_eq!(stored(&branch).await, 2);
    assert_eq!(branch.verify().await["checked"]["messages"], 6);
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_the_history_of_a_fork_have_cursors_in_both_directions() {
    let app = start().await;
    let branch =
        fork(&session_with_messages(&app, &["one", "two"]).await, &json!({ "after": 3 })).await;
    branch.ask("three").await;
    let all = branch.history_with_events().await;
    let last_seq = branch.read().await["last_seq"].clone();
    let seqs: Vec<&Value> = all.iter().map(|item| &item["seq"]).collect();
    assert_eq!(json!(seqs), json!([1, 2, 3, 4, 5]));
    let page = async |query: &str| -> Value {
        let path = branch.path(&format!("/messages?{query}"));
        let mut page: Value = app.get(&path).send().await.unwrap().json().await.unwrap();
        assert_eq!(page.as_object_mut().unwrap().remove("last_seq"), Some(last_seq.clone()));
        page
    };
    let result = page("limit=2&after=2").await;
    assert_eq!(
        result,
        json!({ "data": all[2..4], "has_more": true, "next_cursor": "4", "prev_cursor": "3" })
    );
    let result = page("limit=2&before=5").await;
    assert_eq!(
        result,
        json!({ "data": all[2..4], "has_more": true, "next_cursor": "3", "prev_cursor": "4" })
    );
    let result = page("limit=2&before=3").await;
    assert_eq!(result, json!({ "data": all[..2], "has_more": false, "prev_cursor": "2" }));
    app.end_refused(&[]);
}

/// The text of a request without the parts that may differ between requests of a session.
fn request_text(app: &TestApp, index: usize) -> String {
    without_marks(&without_budget(&app.upstream().text(index), 1000))
}

/// The beginning of a message with a call.
const CALL: &str = r#",{"role":"assistant","content":[{"type":"tool_use""#;

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_a_fork_begin_with_the_bytes_of_the_requests_of_its_source() {
    let script = || {
        replies(&[
            calls("get_time", json!({ "zone": "UTC" })),
            says("You \"said\" {{user}}. \u{e9}\u{1f600}"),
        ])
    };
    let app = TestApp::start(script()).await;
    let new = json!({ "system": [{ "type": "text", "text": "Be  brief." }], "tools": ["get_time"],
                      "stop_sequences": ["END"], "limits": { "rounds": 7 } });
    let source = app.session_with(new).await;
    source.ask("one").await;
    source.ask("two").await;
    // Forks after the first answer and after the second question.
    for (after, text) in [(4, "zwei"), (5, "drei")] {
        let branch = fork(&source, &json!({ "after": after })).await;
        let first = app.upstream().len();
        branch.ask(text).await;
        let (before, now) = (request_text(&app, 3), request_text(&app, first));
        let next = if after == 4 {
            r#",{"role":"user","content":[{"type":"text","text":"two"#
        } else {
            CALL
        };
        let end = before.rfind(next).unwrap();
        assert!(end > 400, "{before}");
        assert_eq!(now.get(..end), before.get(..end));
        assert!(now[end..].contains(text));
    }
    let pinned = |session: &Session<'_>| {
        let id = session.uuid();
        let pool = app.database.pool(1);
        async move {
            let query = "SELECT settings::text FROM sessions WHERE id = $1";
            sqlx::query_scalar::<_, String>(query).bind(id).fetch_one(&pool).await.unwrap()
        }
    };
    let branch = fork(&source, &json!({})).await;
    assert_eq!(pinned(&branch).await, pinned(&source).await);

    // The same holds in another process, which reads the whole history from the database.
    branch.ask("vier").await;
    let last = request_text(&app, app.upstream().len() - 1);
    let id = branch.id.clone();
    let app = app.restarted(script()).await;
    app.existing_session(&id).ask("five").await;
    let messages = last.rfind("]}]").unwrap();
    assert_eq!(request_text(&app, 0).get(..messages), last.get(..messages));
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_of_a_fork_inherits_one_segment_of_each_session_that_wrote_messages() {
    let app = start().await;
    let one = session_with_messages(&app, &["one"]).await;
    let two = fork(&one, &json!({})).await;
    two.ask("two").await;
    let three = fork(&two, &json!({})).await;
    three.ask("three").await;
    let four = fork(&three, &json!({})).await;
    four.ask("four").await;
    assert_eq!(
        last_request_texts(&app),
        ["one", "You said one.", "two", "You said two.", "three", "You said three.", "four"]
    );
    // The fork point is in the messages of `two`, so `three` and `four` contribute no segment.
    let back = fork(&four, &json!({ "after": 3 })).await;
    back.ask("other").await;
    assert_eq!(last_request_texts(&app), ["one", "You said one.", "two", "other"]);
    let twice = fork(&back, &json!({})).await;
    twice.ask("more").await;
    let texts = ["one", "You said one.", "two", "other", "You said other.", "more"];
    assert_eq!(last_request_texts(&app), texts);

    let segments = async |session: &Session<'_>| -> Vec<(uuid::Uuid, i32, i32)> {
        sqlx::query_as(
            "SELECT source_id, after_seq, up_to FROM inherited WHERE session_id = $1
             ORDER BY after_seq",
        )
        .bind(session.uuid())
        .fetch_all(&app.database.pool(1))
        .await
        .unwrap()
    };
    let [a, b, c, e] = [&one, &two, &three, &back].map(Session::uuid);
    assert_eq!(segments(&four).await, [(a, 0, 2), (b, 2, 4), (c, 4, 6)]);
    assert_eq!(segments(&back).await, [(a, 0, 2), (b, 2, 3)]);
    assert_eq!(segments(&twice).await, [(a, 0, 2), (b, 2, 3), (e, 3, 5)]);
    let forked_from = &back.read().await["forked_from"];
    assert_eq!(*forked_from, json!({ "session_id": four.id, "message_seq": 3 }));
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_direct_forks_of_a_session_are_listed_newest_first() {
    let app = start().await;
    let source = session_with_messages(&app, &["one"]).await;
    let mut forks = Vec::new();
    for _ in 0..3 {
        forks.push(create_fork(&source, &json!({})).await);
    }
    let second = app.existing_session(forks[1]["id"].as_str().unwrap());
    let inner = create_fork(&second, &json!({})).await;
    let list = async |session: &Session<'_>, query: &str| -> Value {
        let path = session.path(&format!("/forks{query}"));
        app.get(&path).send().await.unwrap().json().await.unwrap()
    };
    let page = list(&source, "?limit=2").await;
    let cursor = forks[1]["id"].clone();
    let expected = json!({ "data": [forks[2], forks[1]], "has_more": true, "next_cursor": cursor });
    assert_eq!(page, expected);
    let rest = list(&source, &format!("?limit=2&after={}", cursor.as_str().unwrap())).await;
    let back = &forks[0]["id"];
    assert_eq!(rest, json!({ "data": [forks[0]], "has_more": false, "prev_cursor": back }));
    assert_eq!(list(&second, "").await, json!({ "data": [inner], "has_more": false }));
    for (query, code) in [("?limit=0", "invalid_query"), ("?after=x", "invalid_cursor")] {
        let path = source.path(&format!("/forks{query}"));
        problem(app.get(&path).send().await.unwrap(), 400, code).await;
    }
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_may_have_its_own_title_and_metadata() {
    let app = start().await;
    let source = session_with_messages(&app, &["one"]).await;
    let named =
        create_fork(&source, &json!({ "title": "Other", "metadata": { "b": [1.0] } })).await;
    assert_eq!((&named["title"], &named["metadata"]), (&json!("Other"), &json!({ "b": [1.0] })));
    let body = json!({ "after": 1, "before": 2, "title": "x".repeat(501), "metadata": [] });
    let refused = problem(send(&source, &body).await, 422, "validation_failed").await;
    let pointers: Vec<&Value> =
        refused["errors"].as_array().unwrap().iter().map(|error| &error["pointer"]).collect();
    assert_eq!(json!(pointers), json!(["/before", "/title", "/metadata"]));
    let large = json!({ "metadata": { "x": "x".repeat(17_000) } });
    problem(send(&source, &large).await, 422, "validation_failed").await;
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_returns_the_same_fork() {
    let app = start().await;
    let source = session_with_messages(&app, &["one"]).await;
    let with_key = |body: &Value| request(&source, body).header("idempotency-key", "k1").send();
    let body = json!({ "after": seq(1) });
    let at_once = join_all((0..5).map(|_| with_key(&body))).await;
    let mut first = 0;
    let mut ids = Vec::new();
    for response in at_once {
        let response = response.unwrap();
        assert_eq!(response.status(), 201);
        first += usize::from(!response.headers().contains_key("idempotency-replayed"));
        ids.push(response.json::<Value>().await.unwrap()["id"].clone());
    }
    ids.dedup();
    assert_eq!((ids.len(), first), (1, 1));
    let branch = app.existing_session(ids[0].as_str().unwrap());
    branch.ask("two").await;
    let again: Value = with_key(&body).await.unwrap().json().await.unwrap();
    assert_eq!(again, branch.read().await, "the current state of the fork");
    let other = with_key(&json!({ "after": 2 })).await.unwrap();
    problem(other, 422, "idempotency_key_reused").await;
    // A key belongs to the path of the request.
    let elsewhere = request(&branch, &body).header("idempotency-key", "k1").send().await.unwrap();
    let elsewhere: Value = elsewhere.json().await.unwrap();
    assert_ne!(elsewhere["id"], ids[0]);
    let long = request(&source, &body).header("idempotency-key", "k".repeat(256)).send();
    problem(long.await.unwrap(), 422, "validation_failed").await;
    app.end_refused(&[]);
}
