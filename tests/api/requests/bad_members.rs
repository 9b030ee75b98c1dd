//! JSON bodies with invalid members: each error has a pointer to the member.

use serde_json::{Value, json};

use crate::support::{TestApp, assert_refused, invalid, raw, replies, says};

async fn app() -> TestApp {
    TestApp::start(replies(&[says("Yes.")])).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_message_is_refused_with_a_pointer() {
    let app = app().await;
    let session = app.session().await;
    let text = |text: &str| json!({ "type": "text", "text": text });
    let table = [
        (json!({}), ""),
        (json!(null), ""),
        (json!("Hi"), ""),
        (json!({ "content": "Hi", "contents": 1 }), "/contents"),
        (json!({ "content": 1 }), "/content"),
        (json!({ "content": null }), "/content"),
        (json!({ "content": text("Hi") }), "/content"),
        (json!({ "content": "" }), "/content"),
        (json!({ "content": " \n\t\u{a0}" }), "/content"),
        (json!({ "content": "a\u{0}b" }), "/content"),
        (json!({ "content": [] }), "/content"),
        (json!({ "content": ["Hi"] }), "/content/0"),
        (json!({ "content": [["text", "Hi"]] }), "/content/0"),
        (json!({ "content": [{ "type": { "text": null }, "text": "Hi" }] }), "/content/0/type"),
        (json!({ "content": [{ "type": "image", "text": "Hi" }] }), "/content/0/text"),
        (
            json!({ "content": [{ "type": "text", "text": "Hi", "cache_control": {} }] }),
            "/content/0/cache_control",
        ),
        (json!({ "content": [text("Hi"), text(" ")] }), "/content/1/text"),
        (json!({ "content": [text("a\u{0}b")] }), "/content/0/text"),
    ];
    for (body, pointer) in table {
        assert_refused(&session, session.message(&body), invalid(pointer)).await;
    }
    let twice = r#"{"content":"Hi","content":"Ho"}"#;
    assert_refused(&session, raw(&session, twice), invalid("")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_id_and_the_options_of_a_message_are_checked() {
    let app = app().await;
    let session = app.session().await;
    let long = "x".repeat(129);
    let table = [
        (json!({ "content": "Hi", "id": "" }), "/id"),
        (json!({ "content": "Hi", "id": "a b" }), "/id"),
        (json!({ "content": "Hi", "id": "\u{e9}" }), "/id"),
        (json!({ "content": "Hi", "id": long }), "/id"),
        (json!({ "content": "Hi", "id": 7 }), "/id"),
        (json!({ "content": "Hi", "stream": "yes" }), "/stream"),
        (json!({ "content": "Hi", "on_busy": "drop" }), "/on_busy"),
        (json!({ "content": "Hi", "on_busy": true }), "/on_busy"),
        (json!({ "content": "Hi", "permission_mode": true }), "/permission_mode"),
    ];
    for (body, pointer) in table {
        assert_refused(&session, session.message(&body), invalid(pointer)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limits_and_the_tool_choice_of_a_message_are_checked() {
    let app = app().await;
    let session = app.session().await;
    let table = [
        (json!({ "content": "Hi", "limits": { "round": 1 } }), "/limits/round"),
        (json!({ "content": "Hi", "limits": { "rounds": 1001 } }), "/limits/rounds"),
        (json!({ "content": "Hi", "limits": { "rounds": -1 } }), "/limits/rounds"),
        (json!({ "content": "Hi", "limits": { "rounds": 1.5 } }), "/limits/rounds"),
        (json!({ "content": "Hi", "limits": { "rounds": 4_294_967_296_u64 } }), "/limits/rounds"),
        (json!({ "content": "Hi", "limits": { "tokens": 0 } }), "/limits/tokens"),
        (json!({ "content": "Hi", "limits": { "tokens": u64::MAX } }), "/limits/tokens"),
        (json!({ "content": "Hi", "limits": { "seconds": 0 } }), "/limits/seconds"),
        (json!({ "content": "Hi", "tool_choice": "any" }), "/tool_choice"),
        (json!({ "content": "Hi", "tool_choice": ["any"] }), "/tool_choice"),
        (json!({ "content": "Hi", "tool_choice": { "type": true } }), "/tool_choice/type"),
        (json!({ "content": "Hi", "tool_choice": { "type": "some" } }), "/tool_choice/type"),
        (json!({ "content": "Hi", "tool_choice": { "type": "tool" } }), "/tool_choice"),
        (json!({ "content": "Hi", "tool_choice": { "type": "auto", "x": 1 } }), "/tool_choice/x"),
        (json!({ "content": "Hi", "tool_choice": { "type": "any", "x": 1 } }), "/tool_choice/x"),
        (json!({ "content": "Hi", "tool_choice": { "type": "none", "x": 1 } }), "/tool_choice/x"),
        (json!({ "content": "Hi", "tool_choice": { "type": "any", "name": "a" } }), "/tool_choice"),
        (
            json!({ "content": "Hi",
                    "tool_choice": { "type": "none", "disable_parallel_tool_use": true } }),
            "/tool_choice",
        ),
        (
            json!({ "content": "Hi",
                    "tool_choice": { "type": "auto", "disable_parallel_tool_use": 1 } }),
            "/tool_choice/disable_parallel_tool_use",
        ),
        (
            json!({ "content": "Hi", "tool_choice": { "type": "tool", "name": "a\u{0}" } }),
            "/tool_choice",
        ),
    ];
    for (body, pointer) in table {
        assert_refused(&session, session.message(&body), invalid(pointer)).await;
    }
}

#[expect(clippy::needless_pass_by_value, reason = "callers write the patterns in place")]
fn rule(tool: &str, input: Value) -> Value {
    json!({ "tool": tool, "input": input, "decision": "allow" })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_session_is_refused_with_a_pointer() {
    let big = "x".repeat(16 * 1024);
    let table = [
        (json!("Hi"), ""),
        (json!({ "name": "Hi" }), "/name"),
        (json!({ "title": 1 }), "/title"),
        (json!({ "title": "a\u{0}b" }), "/title"),
        (json!({ "title": "x".repeat(501) }), "/title"),
        (json!({ "metadata": [] }), "/metadata"),
        (json!({ "metadata": "Hi" }), "/metadata"),
        (json!({ "metadata": { "a": big } }), "/metadata"),
        (json!({ "model": "" }), "/model"),
        (json!({ "model": "a\u{0}b" }), "/model"),
        (json!({ "model": "x".repeat(201) }), "/model"),
        (json!({ "max_tokens": 0 }), "/max_tokens"),
        (json!({ "max_tokens": 128_001 }), "/max_tokens"),
        (json!({ "max_tokens": -1 }), "/max_tokens"),
        (json!({ "system": ["Hi"] }), "/system/0"),
        (json!({ "tools": ["read_file", "no_such_tool"] }), "/tools"),
        (json!({ "tools": ["a\u{0}b"] }), "/tools"),
        (json!({ "tools": "read_file" }), "/tools"),
        (json!({ "tools": [1] }), "/tools/0"),
        (json!({ "thinking": "enabled" }), "/thinking"),
        (json!({ "thinking": true }), "/thinking"),
        (json!({ "stop_sequences": ["END", " "] }), "/stop_sequences"),
        (json!({ "stop_sequences": "END" }), "/stop_sequences"),
        (json!({ "dispatch": 1 }), "/dispatch"),
        (json!({ "limits": { "rounds": 1001 } }), "/limits/rounds"),
        (json!({ "limits": { "tokens": -5 } }), "/limits/tokens"),
        (json!({ "limits": { "seconds": 0 } }), "/limits/seconds"),
    ];
    assert_no_session_is_created(&table).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_with_invalid_permissions_is_refused_with_a_pointer() {
    assert_no_session_is_created(&[
        (json!({ "permission_mode": "yolo" }), "/permission_mode"),
        (json!({ "permission_mode": true }), "/permission_mode"),
        (json!({ "permission_mode": { "default": null } }), "/permission_mode"),
        (json!({ "permissions": {} }), "/permissions"),
        (json!({ "permissions": [{ "tool": "Bash" }] }), "/permissions/0"),
        (json!({ "permissions": [["Bash", {}, "allow"]] }), "/permissions/0"),
        (json!({ "permissions": [{ "tool": "x", "decision": 1 }] }), "/permissions/0/decision"),
        (json!({ "permissions": [rule("", json!({}))] }), "/permissions/0/tool"),
        (
            json!({ "permissions": [rule("*", json!({})), rule("Bash", json!({ "command": "a;b" }))] }),
            "/permissions/1/input/command",
        ),
        (
            json!({ "permissions": [rule("x", json!({ "a/b": "c\u{200b}" }))] }),
            "/permissions/0/input/a~1b",
        ),
        (json!({ "permissions": vec![rule("x", json!({})); 201] }), "/permissions"),
        (
            json!({ "permissions": vec![rule("x", json!({ "a": "y".repeat(1000) })); 17] }),
            "/permissions",
        ),
    ])
    .await;
}

async fn assert_no_session_is_created(table: &[(Value, &'static str)]) {
    let app = app().await;
    let session = app.session().await;
    let listed = || async { app.get("/v1/sessions?limit=200").send().await.unwrap().text().await };
    for (body, pointer) in table {
        let before = listed().await.unwrap().matches("\"type\":\"session\"").count();
        let request = app.post("/v1/sessions").json(body);
        assert_refused(&session, request, invalid(pointer)).await;
        let after = listed().await.unwrap().matches("\"type\":\"session\"").count();
        assert_eq!(before, after, "{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_that_are_stored_unchanged_must_not_be_nested_too_deeply() {
    let app = app().await;
    let session = app.session().await;
    for (member, depth) in [("metadata", 8_000), ("thinking", 8_000), ("thinking", 1_000_000)] {
        let deep = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        let body = format!("{{\"{member}\":{{\"a\":{deep}}}}}");
        let request = app.post("/v1/sessions").header("content-type", "application/json");
        let pointer = if member == "metadata" { "/metadata" } else { "/thinking" };
        assert_refused(&session, request.body(body), invalid(pointer)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unusual_valid_json_is_stored_unchanged() {
    let app = app().await;
    let metadata = r#"{"a":1e999, "a":"\ud800\u0000", "z":{"b" : [ ]},"é":-0.0}"#;
    let body = format!("{{\"metadata\":{metadata},\"title\":\"\u{202e}title\"}}");
    let create = app.post("/v1/sessions").header("content-type", "application/json");
    let created = create.body(body).send().await.unwrap();
    assert_eq!(created.status(), 201);
    let location = created.headers()["location"].to_str().unwrap().to_owned();
    assert!(created.text().await.unwrap().contains(metadata));
    let read = app.get(&location).send().await.unwrap().text().await.unwrap();
    assert!(read.contains(metadata), "{read}");
}
