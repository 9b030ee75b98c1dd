//! The requests of a run, shown exactly as they were sent.

use serde_json::{Value, json};

use crate::support::{Session, Setup, TestApp, asked, calls, hangs_first, problem, replies, says};
use twostep::domain::price::Price;

/// Returns the path of the requests of a run; `rest` selects one of them.
fn path(session: &Session<'_>, run: &Value, rest: &str) -> String {
    session.path(&format!("/runs/{}/requests{rest}", run["id"].as_str().unwrap()))
}

async fn text(app: &TestApp, path: &str) -> String {
    app.get(path).send().await.unwrap().text().await.unwrap()
}

async fn list(session: &Session<'_>, run: &Value) -> Vec<Value> {
    let page = text(session.app, &path(session, run, "")).await;
    let page: Value = serde_json::from_str(&page).unwrap();
    assert_eq!(page["has_more"], false);
    page["data"].as_array().unwrap().clone()
}

/// Removes the members that differ between runs. They must be present.
fn redacted(mut request: Value) -> Value {
    let object = request.as_object_mut().unwrap();
    for member in ["session_id", "run_id", "body_sha256", "body_bytes", "started_at", "ended_at"] {
        assert!(object.remove(member).is_some_and(|value| !value.is_null()), "{member}");
    }
    for attempt in object["attempts"].as_array_mut().unwrap() {
        let attempt = attempt.as_object_mut().unwrap();
        for member in ["started_at", "head_ms", "duration_ms", "request_id"] {
            assert!(attempt.remove(member).is_some_and(|value| !value.is_null()), "{member}");
        }
    }
    let prefix = object["prefix"].as_object_mut().unwrap();
    for member in ["tools", "system", "messages"] {
        assert_eq!(prefix.remove(member).unwrap().as_str().unwrap().len(), 32, "{member}");
    }
    assert!(object.remove("duration_ms").unwrap().as_i64().unwrap() < 30_000);
    request
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_is_shown_as_it_was_sent_byte_for_byte() {
    let raw_input = r#"{"path":  "a.txt", "limit":1e1}"#;
    let reads = json!({ "content": [
        { "type": "text", "text": "I had better look \u{2028} caf\u{e9}." },
        { "type": "tool_use", "name": "read_file", "raw_input": raw_input },
    ], "when_forbidden": "Enough." });
    let app = TestApp::start(replies(&[reads, says("Done.")])).await;
    app.write_file("a.txt", "caf\u{e9}");
    let session = app.session().await;
    let tool = json!({ "client": true, "name": "ring", "description": "Rings.", "input_schema": { "type": "object" } });
    let first = json!({ "content": "Look", "tool_choice": { "type": "any" }, "tools": [tool] });
    let second = json!({ "content": "Look again", "limits": { "rounds": 0 }, "tools": [tool] });
    let runs = [session.ask_with(first).await, session.ask_with(second).await];
    let upstream = app.upstream();
    assert_eq!(upstream.len(), 3);
    for (run, n, index) in [(&runs[0], 1, 0), (&runs[0], 2, 1), (&runs[1], 1, 2)] {
        let shown = text(&app, &path(&session, run, &format!("/{n}"))).await;
        let sent = format!(r#","body":{}}}"#, upstream.text(index));
        assert!(shown.ends_with(&sent), "{shown}\n{sent}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_listed_with_their_usage() {
    let mut reads = calls("get_time", json!({}));
    reads["usage"] = json!({ "input_tokens": 100, "output_tokens": 10 });
    let mut answer = says("Noon.");
    answer["usage"] = json!({ "input_tokens": 150, "output_tokens": 5 });
    let price = Price { input: 1_000_000, output: 3_000_000, ..Price::default() };
    let prices = [("simulator".to_owned(), price)].into();
    let script = replies(&[reads, answer]);
    let app = TestApp::start_with(script, Setup { prices, ..Setup::default() }).await;
    let session = app.session().await;
    let run = session.ask("What time is it?").await;
    let requests: Vec<Value> = list(&session, &run).await.into_iter().map(redacted).collect();
    let expected = |n: i32, message_seq: i32, stop_reason, (input, output): (i64, i64)| {
        json!({
            "type": "request", "n": n, "attempt": 1, "model": "simulator",
            "message_seq": message_seq,
            "form": { "tool_choice": { "type": "auto" }, "prompt_cache": "5m" },
            "prefix": { "message_count": message_seq },
            "attempts": [{ "status": 200 }], "stop_reason": stop_reason,
            "usage": { "input_tokens": input, "cache_creation_input_tokens": 0,
                       "cache_read_input_tokens": 0, "output_tokens": output },
            "cost": input + 3 * output,
        })
    };
    assert_eq!(
        requests,
        [expected(1, 1, "tool_use", (100, 10)), expected(2, 3, "end_turn", (150, 5))]
    );
    let page = text(&app, &path(&session, &run, "?limit=1")).await;
    let page: Value = serde_json::from_str(&page).unwrap();
    assert_eq!((&page["has_more"], &page["next_cursor"]), (&json!(true), &json!("1")));
    let rest = text(&app, &path(&session, &run, "?limit=1&after=1")).await;
    let rest: Value = serde_json::from_str(&rest).unwrap();
    assert_eq!((&rest["has_more"], &rest["data"][0]["n"]), (&json!(false), &json!(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_request_is_recorded() {
    let refuses =
        json!({ "status": 400, "error": { "type": "invalid_request_error", "message": "no" } });
    let app = TestApp::start(replies(&[refuses])).await;
    let session = app.session().await;
    let run = session.ask("Try").await;
    assert_eq!(run["status"], "failed");
    let requests = list(&session, &run).await;
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0]["error"], run["error"]);
    assert_eq!(requests[0]["stop_reason"], Value::Null);
    assert_eq!(requests[0]["usage"]["input_tokens"], 0);
    let shown = text(&app, &path(&session, &run, "/1")).await;
    assert!(shown.ends_with(&format!(r#","body":{}}}"#, app.upstream().text(0))), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_request_of_a_cancelled_run_is_recorded_without_an_error() {
    let app = TestApp::start(hangs_first()).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "hang" })).await;
    asked(&app, 1).await;
    session.cancel(&run).await;
    let run = session.settled(&run).await;
    assert_eq!(run["status"], "cancelled");
    let request = redacted(list(&session, &run).await.remove(0));
    assert_eq!(
        (&request["n"], &request["stop_reason"], &request["error"]),
        (&json!(1), &Value::Null, &Value::Null)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_cannot_be_reproduced_is_not_shown() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let session = app.session().await;
    let run = session.ask("Hi").await;
    sqlx::query("UPDATE requests SET body_hash = sha256('')")
        .execute(&app.database.pool(1))
        .await
        .unwrap();
    let shown = text(&app, &path(&session, &run, "/1")).await;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert!(shown.as_object().unwrap().contains_key("body"));
    assert_eq!(shown["body"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_request_is_not_found() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let session = app.session().await;
    let run = session.ask("Hi").await;
    for n in ["0", "-1", "2", "x", "99999999999"] {
        let response = app.get(&path(&session, &run, &format!("/{n}"))).send().await.unwrap();
        problem(response, 404, "request_not_found").await;
    }
    let other = app.session().await;
    let response = app.get(&path(&other, &run, "/1")).send().await.unwrap();
    problem(response, 404, "run_not_found").await;
}
