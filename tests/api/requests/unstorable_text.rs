//! Text that Postgres refuses, NUL and lone surrogates, in every member of every body: a client
//! receives a clear refusal, or what it sent is stored and everything that reads it works.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{TestApp, asks, calls, calls_as, replies, says};

/// A position for text that Postgres refuses.
const MARK: &str = "@@mark@@";

/// The body with a mark in one string or member name, for each of them.
fn marked(body: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    match body {
        Value::String(text) => all.push(Value::from(format!("{text}{MARK}"))),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                for changed in marked(item) {
                    let mut copy = items.clone();
                    copy[index] = changed;
                    all.push(Value::Array(copy));
                }
            }
        }
        Value::Object(members) => {
            for (name, value) in members {
                for changed in marked(value) {
                    let mut copy = members.clone();
                    copy.insert(name.clone(), changed);
                    all.push(Value::Object(copy));
                }
                let mut renamed = members.clone();
                renamed.remove(name);
                renamed.insert(format!("{name}{MARK}"), value.clone());
                all.push(Value::Object(renamed));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    all
}

/// The bodies as JSON text with NUL, and with a lone surrogate.
fn unstorable(body: &Value) -> Vec<String> {
    let texts = marked(body).into_iter().map(|body| body.to_string());
    texts.flat_map(|text| [r"\u0000", r"\ud800"].map(|escape| text.replace(MARK, escape))).collect()
}

/// Parses a response. Metadata is returned as it was sent, with any lone surrogate.
fn parsed(text: &str) -> Value {
    serde_json::from_str(&text.replace(r"\ud800", "")).unwrap_or_else(|_| panic!("{text}"))
}

/// Sends a body and returns the response if it is a success. A refusal names its cause.
async fn send(app: &TestApp, method: Method, path: &str, body: String) -> Option<Value> {
    let request = app.client.request(method, app.url(path)).header("prefer", "wait=20");
    let response =
        request.header("content-type", "application/json").body(body.clone()).send().await.unwrap();
    let status = response.status();
    let answer = parsed(&response.text().await.unwrap());
    assert!(status.is_success() || status.is_client_error(), "{path} {body}: {status} {answer}");
    if status.is_client_error() {
        let is_clear = answer["detail"].as_str().is_some_and(|detail| !detail.is_empty());
        assert!(is_clear, "{path} {body}: {answer}");
        return None;
    }
    Some(answer)
}

/// Uses a session in every way that reads its stored JSON.
async fn use_session(app: &TestApp, id: &str, body: &str) {
    let session = app.existing_session(id);
    // The model server distinguishes sessions by their first message.
    let run = session.ask(&format!("Hello from {id}")).await;
    assert!(run["id"].is_string(), "{body}: {run}");
    let of_run = format!("/runs/{}", run["id"].as_str().unwrap());
    let of_run = |rest: &str| session.path(&format!("{of_run}{rest}"));
    let paths = [
        session.path(""),
        session.path("/messages"),
        session.path("/events"),
        session.path("/export"),
        session.path("/verify"),
        session.path("/runs"),
        of_run(""),
        of_run("/explain"),
        of_run("/requests"),
    ];
    for path in paths {
        let response = app.get(&path).send().await.unwrap();
        assert!(response.status().is_success(), "{path} after {body}: {}", response.status());
    }
    let fork = app.post(&session.path("/forks")).json(&json!({})).send().await.unwrap();
    assert_eq!(fork.status(), 201, "{body}");
}

fn settings() -> Value {
    json!({
        "system": [{ "type": "text", "text": "You help." }],
        "tools": ["read_file", "Task", {
            "client": true, "name": "open_door", "description": "Opens a door.",
            "input_schema": { "type": "object", "description": "A door.",
                "properties": { "door": { "type": "string", "enum": ["a"] } } },
        }],
        "stop_sequences": ["END"],
        "permissions": [{ "tool": "read_file", "input": { "path": "a" }, "decision": "ask",
            "reason": "why" }],
        "sub_agents": [{ "name": "scout", "description": "Looks.", "system": "Look." }],
        "context": { "compact_instructions": "Keep names." },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_with_text_that_cannot_be_stored_are_refused_or_work() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let mut body = settings();
    body["title"] = json!("Notes");
    body["metadata"] = json!({ "user": "u", "deep": { "list": ["x"] } });
    body["model_metadata"] = json!({ "user_id": "u" });
    assert!(send(&app, Method::POST, "/v1/sessions", body.to_string()).await.is_some());
    for body in unstorable(&body) {
        if let Some(session) = send(&app, Method::POST, "/v1/sessions", body.clone()).await {
            use_session(&app, session["id"].as_str().unwrap(), &body).await;
        }
    }
    let mut profile = settings();
    profile["description"] = json!("Helps.");
    assert!(send(&app, Method::PUT, "/v1/agents/helper", profile.to_string()).await.is_some());
    for body in unstorable(&profile) {
        if send(&app, Method::PUT, "/v1/agents/helper", body.clone()).await.is_some() {
            let from_agent = json!({ "agent": "helper" }).to_string();
            let session = send(&app, Method::POST, "/v1/sessions", from_agent).await.unwrap();
            use_session(&app, session["id"].as_str().unwrap(), &body).await;
        }
    }
    let change = json!({ "title": "Notes", "metadata": { "user": "u", "deep": { "a": "b" } } });
    let session = app.session().await;
    for body in unstorable(&change) {
        if send(&app, Method::PATCH, &session.path(""), body.clone()).await.is_some() {
            use_session(&app, &session.id, &body).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_with_text_that_cannot_be_stored_are_refused_or_work() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let session = app.session().await;
    let text_document = json!({ "type": "text", "media_type": "text/plain", "data": "text" });
    let found = json!({ "type": "search_result", "source": "https://a.org", "title": "t",
        "content": [{ "type": "text", "text": "found" }] });
    let tool = json!({ "name": "open_door", "description": "Opens a door.",
        "input_schema": { "type": "object", "properties": { "door": { "description": "d" } } } });
    let bodies = [
        json!({ "content": "Hi", "id": "m-1", "on_busy": "queue" }),
        json!({ "content": [{ "type": "text", "text": "Hi" }], "tools": [tool],
            "tool_choice": { "type": "auto" } }),
        json!({ "content": [{ "type": "document", "source": text_document, "title": "t",
            "context": "c" }] }),
        json!({ "content": [found] }),
        json!({ "content": [{ "type": "image",
            "source": { "type": "url", "url": "https://a.org/a.png" } }] }),
    ];
    for body in bodies.iter().flat_map(unstorable) {
        if send(&app, Method::POST, &session.path("/messages"), body.clone()).await.is_some() {
            use_session(&app, &session.id, &body).await;
        }
    }
    let events = json!({ "events": [{ "type": "user.message", "content": "Hi" }] });
    for body in unstorable(&events) {
        if send(&app, Method::POST, &session.path("/events"), body.clone()).await.is_some() {
            use_session(&app, &session.id, &body).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn imports_with_text_that_cannot_be_stored_are_refused_or_work() {
    let call = calls("read_file", json!({ "path": "none.txt" }));
    let script = json!({ "conversations": [
        { "when": "Hello", "replies": [says("Yes.")] },
        { "replies": [call, says("There is none.")] },
    ], "otherwise": "refuse" });
    let app = TestApp::start(script).await;
    let session = app.session_with(json!({ "title": "Old", "metadata": { "a": "b" } })).await;
    session.ask("Read none.txt").await;
    let export = app.get(&session.path("/export")).send().await.unwrap().text().await.unwrap();
    let lines: Vec<String> = export.lines().map(str::to_owned).collect();
    let mut count = 0;
    for (index, line) in lines.iter().enumerate() {
        for changed in unstorable(&serde_json::from_str(line).unwrap()) {
            let mut copy = lines.clone();
            copy[index].clone_from(&changed);
            count += 1;
            let unique = format!("Read none.txt, number {count}");
            let text = copy.join("\n").replace("Read none.txt", &unique);
            let request =
                app.post("/v1/sessions/import").header("content-type", "application/jsonl");
            let response = request.body(text + "\n").send().await.unwrap();
            let (status, answer) = (response.status(), parsed(&response.text().await.unwrap()));
            assert!(status == 201 || status.is_client_error(), "{changed}: {status} {answer}");
            if status == 201 {
                use_session(&app, answer["id"].as_str().unwrap(), &changed).await;
            }
        }
    }
    // No final check: imported calls of the model have a NUL, which SQL cannot read.
    assert_eq!(app.findings().await, Vec::<String>::new());
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_with_text_that_cannot_be_stored_are_refused_or_work() {
    let door = json!({ "name": "open_door", "description": "Opens a door.", "client": true,
        "input_schema": { "type": "object" } });
    let script = json!({ "conversations": [
        { "when": "Open", "replies": [
            calls_as(&[("toolu_1", "open_door", json!({ "a": "b" }))]), says("Open."),
        ] },
        { "when": "Write", "replies": [
            calls_as(&[("toolu_1", "write_file", json!({ "path": "a", "content": "b" }))]),
            says("Written."),
        ] },
        { "replies": [says("Yes.")] },
    ], "otherwise": "refuse" });
    let app = TestApp::start_with(script, asks()).await;
    let text = json!({ "type": "text", "text": "It is open." });
    let results = [
        json!({ "results": [{ "tool_use_id": "toolu_1", "content": "It is open." }] }),
        json!({ "results": [{ "tool_use_id": "toolu_1", "content": [text, text] }] }),
    ];
    let allow = json!({ "decision": "allow", "input": { "path": "a", "content": "c" } });
    let deny = json!({ "decision": "deny", "message": "Not now." });
    let results = results.iter().map(|body| ("Open", "/tool_results", body));
    let decisions = [&allow, &deny].map(|body| ("Write", "/approvals/toolu_1", body));
    for (prompt, path, body) in results.chain(decisions) {
        for body in unstorable(body) {
            let session = app.session_with(json!({ "tools": ["write_file", door] })).await;
            let run = session.ask(&format!("{prompt} in {}", session.id)).await;
            assert_eq!(run["status"], "requires_action", "{run}");
            if send(&app, Method::POST, &session.path(path), body.clone()).await.is_some() {
                assert_eq!(session.settled(&run).await["status"], "completed", "{body}");
                use_session(&app, &session.id, &body).await;
            } else {
                session.cancel(&run).await;
                session.settled(&run).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_with_text_that_cannot_be_stored_are_refused() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let body = json!({ "url": "https://hooks.example/a", "events": ["run.completed"],
        "description": "The channel" });
    for body in unstorable(&body) {
        assert_eq!(send(&app, Method::POST, "/v1/webhooks", body.clone()).await, None, "{body}");
    }
    let response = app.get("/v1/webhooks").send().await.unwrap();
    assert_eq!(response.json::<Value>().await.unwrap()["data"], json!([]));
}
