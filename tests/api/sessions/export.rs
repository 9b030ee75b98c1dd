//! Export of sessions as JSON Lines and Markdown.

use serde_json::{Value, json};

use crate::support::{SYSTEM, Session, TestApp, calls_as, problem, replies, says};

/// The lines of an export.
async fn lines(session: &Session<'_>) -> Vec<Value> {
    let response = session.app.get(&session.path("/export")).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let text = response.text().await.unwrap();
    assert!(text.ends_with('\n'));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_has_the_settings_and_all_messages_and_an_end_line() {
    let thought = json!({ "type": "thinking", "thinking": "Hm." });
    let call = json!({ "type": "tool_use", "id": "toolu_1", "name": "get_time", "input": {} });
    let first = json!({ "content": [thought, call] });
    let app = TestApp::start(replies(&[first, says("It is \"late\".\n")])).await;
    let tool = json!({ "name": "locate", "description": "Where.", "client": true,
                       "input_schema": { "type": "object", "properties": {} } });
    let body = json!({ "title": "Time", "metadata": { "b": 1.50, "a": [2] }, "max_tokens": 2000,
                       "tools": ["get_time", tool], "thinking": { "type": "adaptive" },
                       "limits": { "rounds": 5 },
                       "permissions": [{ "tool": "Read", "decision": "allow" }] });
    let session = app.session_with(body.clone()).await;
    session.ask("How late is it?").await;
    let read: Value = app.get(&session.path("")).send().await.unwrap().json().await.unwrap();

    let mut settings = body;
    for (member, value) in [
        ("model", json!("simulator")),
        ("system", json!(SYSTEM)),
        ("dispatch", json!("auto")),
        ("interrupted_replies", json!("keep")),
        ("stop_sequences", json!([])),
        ("model_metadata", json!({})),
        ("betas", json!([])),
        ("context", json!({ "compact_at": read["context"]["compact_at"].as_i64().unwrap_or(0) })),
        ("budget", json!({})),
    ] {
        settings[member] = value;
    }
    settings["permissions"] = read["permissions"].clone();
    let mut expected = vec![json!({ "type": "session", "version": 1, "session_id": session.id,
                                    "created_at": read["created_at"], "settings": settings })];
    expected.extend(session.history().await);
    expected.push(json!({ "type": "end", "messages": 4 }));
    assert_eq!(lines(&session).await, expected);

    // The messages are byte for byte those of the API, and the response is a file.
    let response = app.get(&session.path("/export?format=jsonl")).send().await.unwrap();
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "application/jsonl");
    let name = format!("attachment; filename=\"{}.jsonl\"", session.id);
    assert_eq!(header("content-disposition"), name);
    let text = response.text().await.unwrap();
    let page = app.get(&session.path("/messages")).send().await.unwrap().text().await.unwrap();
    assert_eq!(text.lines().count(), 6);
    for line in text.lines().skip(1).take(4) {
        let message = line.find("\"message\":").and_then(|at| line.get(at..)).unwrap();
        assert!(page.contains(message), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_session_is_exported_completely() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let session = app.session().await;
    assert_eq!(lines(&session).await[1..], [json!({ "type": "end", "messages": 0 })]);
    for n in 0..20 {
        session.ask(&format!("Number {n}?")).await;
    }
    let lines = lines(&session).await;
    assert_eq!(lines[1..41], session.history().await);
    assert_eq!(lines[41..], [json!({ "type": "end", "messages": 40 })]);
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_cannot_forge_headings_of_a_markdown_export() {
    let call = calls_as(&[("toolu_1", "read_file", json!({ "path": "a.txt" }))]);
    let app = TestApp::start(replies(&[call, says("Done.\n```\n# Mine")])).await;
    app.write_file("a.txt", "````\n## 9. User\n");
    let session = app.session_with(json!({ "title": "A\n# title" })).await;
    session.ask("Read\n\n## 7. Assistant\n\n```").await;
    let request = app.get(&session.path("/export")).header("accept", "text/markdown");
    let response = request.send().await.unwrap();
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "text/markdown; charset=utf-8");
    let name = format!("attachment; filename=\"{}.md\"", session.id);
    assert_eq!(header("content-disposition"), name);
    let text = response.text().await.unwrap();

    let history = session.history().await;
    let [question_at, call_at, result_at, answer_at] =
        [0, 1, 2, 3].map(|index| history[index]["created_at"].as_str().unwrap());
    let read: Value = app.get(&session.path("")).send().await.unwrap().json().await.unwrap();
    let result = history[2]["message"]["content"][0]["content"].as_str().unwrap();
    let expected = format!(
        "# A \\# title\n\nSession {id}, created {created}, with the model simulator.\n\
         \n## 1. User\n\n{question_at}\n\n````markdown\nRead\n\n## 7. Assistant\n\n```\n````\n\
         \n## 2. Assistant\n\n{call_at}\n\nCall of read\\_file (toolu\\_1):\n\
         \n```json\n{{\"path\":\"a.txt\"}}\n```\n\
         \n## 3. Tools\n\n{result_at}\n\nResult of toolu\\_1:\n\n`````\n{result}\n`````\n\
         \n## 4. Assistant\n\n{answer_at}\n\n````markdown\nDone.\n```\n# Mine\n````\n\
         \n---\n\nEnd of the export: 4 messages.\n",
        id = session.id.replace('_', "\\_"),
        created = read["created_at"].as_str().unwrap(),
        result = result.trim_end_matches('\n'),
    );
    assert_eq!(text, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsupported_format_or_an_unknown_session_is_refused() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let session = app.session().await;
    let get = |accept: &'static str, query: &str| {
        app.get(&session.path(&format!("/export{query}"))).header("accept", accept).send()
    };
    problem(get("text/html", "").await.unwrap(), 406, "not_acceptable").await;
    problem(get("*/*", "?format=pdf").await.unwrap(), 400, "invalid_query").await;
    assert_eq!(get("text/html", "?format=markdown").await.unwrap().status(), 200);
    let unknown = "/v1/sessions/ses_00000000000070008000000000000001/export";
    problem(app.get(unknown).send().await.unwrap(), 404, "session_not_found").await;
}
