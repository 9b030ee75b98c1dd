//! Refusals that explain themselves: each names the parameter or member, the rule and the remedy.

use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use crate::support::{TestApp, problem, replies, says};

async fn app() -> TestApp {
    TestApp::start(replies(&[says("Yes.")])).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_query_names_the_parameter_and_the_rule() {
    let app = app().await;
    let session = app.session().await;
    for (path, parameter, message) in [
        ("/messages?limit=ten", "limit", "is not an integer"),
        ("/messages?limit=201", "limit", "is 201; 1 to 200 are allowed"),
        ("/messages?order=up", "order", "is `up`; allowed: `asc`, `desc`"),
        ("/messages?after=1&before=2", "before", "is not allowed together with `after`"),
        ("/events/stream?deltas=maybe", "deltas", "is not `true` or `false`"),
        ("/events?limit=1&limit=2", "limit", "occurs more than once; once is allowed"),
    ] {
        let response = app.get(&session.path(path)).send().await.unwrap();
        let problem = problem(response, 400, "invalid_query").await;
        let expected = json!([{ "pointer": "", "parameter": parameter, "message": message }]);
        assert_eq!(problem["errors"], expected, "{path}");
        assert_eq!(problem["detail"], format!("the query is not valid: {parameter} {message}"));
    }
    let response = app.get(&session.path("/messages?page=2")).send().await.unwrap();
    let problem = problem(response, 400, "invalid_query").await;
    assert_eq!(problem["errors"][0]["parameter"], "page");
    let message = problem["errors"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("is not a known parameter; allowed: `limit`"), "{message}");
    let response = app.get("/v1/sessions?created_after=yesterday").send().await.unwrap();
    let problem = crate::support::problem(response, 400, "invalid_query").await;
    let message = problem["errors"][0]["message"].as_str().unwrap();
    assert!(message.contains("RFC 3339"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_body_is_explained_in_the_terms_of_json() {
    let app = app().await;
    let session = app.session().await;
    for (body, pointer, message) in [
        (json!({}), "", "lacks the member `content`, which is required"),
        (
            json!({ "content": "Hi", "stream": "yes" }),
            "/stream",
            "is a string; `true` or `false` is required",
        ),
        (
            json!({ "content": "Hi", "limits": { "tokens": "many" } }),
            "/limits/tokens",
            "is a string; an integer is required",
        ),
        (
            json!({ "content": "Hi", "on_busy": "drop" }),
            "/on_busy",
            "is `drop`; allowed: `queue`, `reject`, `interrupt`",
        ),
        (json!([]), "", "is an array; an object is required"),
    ] {
        let response = session.message(&body).send().await.unwrap();
        let problem = problem(response, 422, "validation_failed").await;
        assert_eq!(
            problem["errors"][0],
            json!({ "pointer": pointer, "message": message }),
            "{body}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_members_of_a_wrong_type_are_listed() {
    let app = app().await;
    let session = app.session().await;
    let text = json!({ "type": "text", "text": "Hi" });
    for (body, expected) in [
        (
            json!({ "content": "Hi", "on_busy": true, "limits": { "rounds": "x" }, "odd": 1 }),
            vec!["/on_busy", "/limits/rounds", "/odd"],
        ),
        (json!({ "on_busy": 1, "stream": "yes" }), vec!["/on_busy", "/stream", ""]),
        (
            json!({ "content": [text], "limits": { "a": 1, "b": 2 } }),
            vec!["/limits/a", "/limits/b"],
        ),
    ] {
        let response = session.message(&body).send().await.unwrap();
        let problem = problem(response, 422, "validation_failed").await;
        let errors = problem["errors"].as_array().unwrap();
        let found: Vec<&str> = errors.iter().map(|it| it["pointer"].as_str().unwrap()).collect();
        assert_eq!(found, expected, "{body}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(errors[0]["message"].as_str().unwrap()), "{problem}");
    }
    assert_eq!(session.events().await, Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_not_json_is_explained_with_line_and_column() {
    let app = app().await;
    let session = app.session().await;
    for (body, expected) in [
        ("", "the body is not JSON: it is empty"),
        (
            "{\n  \"content\":",
            "the body is not JSON: line 2, column 12: the text ends where a value is required",
        ),
        (
            "{'content': 1}",
            "the body is not JSON: line 1, column 2: the name of a member must be a string in double quotes",
        ),
        (
            "{\"content\":\"Hi\"} {}",
            "the body is not JSON: line 1, column 18: nothing may follow the document",
        ),
    ] {
        let request =
            app.post(&session.path("/messages")).header("content-type", "application/json");
        let response = request.body(body).send().await.unwrap();
        let problem = problem(response, 400, "bad_json").await;
        assert_eq!(problem["detail"], expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_in_another_charset_is_refused() {
    let app = app().await;
    let session = app.session().await;
    let post = |path: String, kind: &str| app.post(&path).header("content-type", kind).body("{}");
    for (path, kind) in [
        (session.path("/messages"), "application/json; charset=utf-16"),
        (session.path("/forks"), "application/json; Charset=\"ISO-8859-1\""),
        (session.path("/approvals/toolu_1"), "application/json;charset=latin1"),
        ("/v1/sessions/import".to_owned(), "application/jsonl; charset=utf-16"),
    ] {
        let response = post(path, kind).send().await.unwrap();
        let problem = problem(response, 415, "unsupported_media_type").await;
        assert!(problem["detail"].as_str().unwrap().contains("UTF-8"), "{problem}");
    }
    for kind in ["application/json; charset=UTF-8", "application/json; charset=\"utf-8\"; a=b"] {
        assert_eq!(post(session.path("/messages"), kind).send().await.unwrap().status(), 422);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_header_is_named() {
    let app = app().await;
    let session = app.session().await;
    let request = session.message(&json!({ "content": "Hi" })).header("idempotency-key", "");
    let problem = problem(request.send().await.unwrap(), 422, "validation_failed").await;
    let message = "is not 1 to 255 printable characters";
    let expected = json!([{ "pointer": "", "header": "Idempotency-Key", "message": message }]);
    assert_eq!(problem["errors"], expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compressed_body_is_refused_with_the_accepted_coding() {
    let app = app().await;
    let session = app.session().await;
    for path in ["/messages", "/forks", "/tool_results"] {
        let request = app.post(&session.path(path)).header("content-encoding", "gzip");
        let request = request.header("content-type", "application/json").body("\u{1f}\u{8b}");
        let response = request.send().await.unwrap();
        assert_eq!(response.headers()["accept-encoding"], "identity", "{path}");
        let problem = problem(response, 415, "unsupported_media_type").await;
        assert!(problem["detail"].as_str().unwrap().contains("Content-Encoding"), "{problem}");
    }
    let request =
        session.message(&json!({ "content": "Hi" })).header("content-encoding", "identity");
    assert_eq!(request.send().await.unwrap().status(), 202);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsupported_media_type_is_refused_with_the_accepted_ones() {
    let app = app().await;
    let session = app.session().await;
    let headers = |headers: &HeaderMap| {
        ["accept", "accept-post", "accept-patch"]
            .map(|name| headers.get(name).map(|value| value.to_str().unwrap().to_owned()))
    };
    let json = Some("application/json".to_owned());
    let posted = app.post(&session.path("/messages")).body("content=Hi").send().await.unwrap();
    assert_eq!(headers(posted.headers()), [json.clone(), json.clone(), None]);
    problem(posted, 415, "unsupported_media_type").await;
    let patched =
        app.client.patch(app.url(&session.path(""))).body("title=Hi").send().await.unwrap();
    let patches = Some("application/merge-patch+json, application/json".to_owned());
    assert_eq!(headers(patched.headers()), [patches.clone(), None, patches]);
    problem(patched, 415, "unsupported_media_type").await;
    let patch = app.client.patch(app.url(&session.path("")));
    let patch = patch.header("content-type", "application/merge-patch+json");
    assert_eq!(patch.body(r#"{"title":"Hi"}"#).send().await.unwrap().status(), 200);
    let lines = Some("application/jsonl, application/x-ndjson".to_owned());
    let imported = app.post("/v1/sessions/import").body("{}").send().await.unwrap();
    assert_eq!(headers(imported.headers()), [lines.clone(), lines, None]);
    problem(imported, 415, "unsupported_media_type").await;
}

async fn tagged(app: &TestApp, path: &str) -> (String, Value) {
    let response = app.get(path).send().await.unwrap();
    assert_eq!(response.status(), 200, "{path}");
    let tag = response.headers()["etag"].to_str().unwrap().to_owned();
    let again = app.get(path).header("if-none-match", &tag).send().await.unwrap();
    assert_eq!((again.status().as_u16(), again.headers()["etag"].to_str().unwrap()), (304, &*tag));
    assert_eq!(again.content_length().unwrap_or(0), 0);
    (tag, response.json().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_and_lists_are_sent_once_to_a_client_that_keeps_them() {
    let app = app().await;
    tagged(&app, "/openapi.json").await;
    let session = app.session().await;
    session.ask("Hi").await;
    for path in [session.path("/messages"), session.path("/events"), session.path("/runs")] {
        tagged(&app, &path).await;
    }
    let (before, _) = tagged(&app, "/v1/sessions").await;
    app.session().await;
    let (after, _) = tagged(&app, "/v1/sessions").await;
    assert_ne!(before, after);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_sessions_truncate_long_system_prompts() {
    let app = app().await;
    let long = "x".repeat(500);
    let agent = json!({ "name": "ducks", "description": "Counts ducks.", "system": long });
    let body = json!({ "system": long, "tools": ["Task"], "sub_agents": [agent] });
    let session = app.session_with(body).await;
    let short = app.session_with(json!({ "system": "Be brief." })).await;
    let list: Value = app.get("/v1/sessions").send().await.unwrap().json().await.unwrap();
    let item = |id: &str| {
        let items = list["data"].as_array().unwrap();
        items.iter().find(|item| item["id"] == id).unwrap().clone()
    };
    let (listed, whole) = (item(&session.id), session.read().await);
    assert_eq!(listed["system"], "x".repeat(200));
    assert_eq!(listed["sub_agents"][0]["system"], "x".repeat(200));
    assert_eq!(listed["truncated"], json!(["system", "sub_agents"]));
    assert_eq!((&whole["system"], whole.get("truncated")), (&json!(long), None));
    assert_eq!(whole["sub_agents"][0]["system"], long);
    assert_eq!(item(&short.id), short.read().await);
}
