//! `search_course_content` and `get_course_outline`, called by the model.

use serde_json::{Value, json};
use twostep::domain::api_key::Scope;
use twostep::domain::ids::TenantId;

use super::{MCP, parsed, results, start, store_course};
use crate::support::{Setup, TestApp, calls, client_with, keys_needed, replies, says};

/// Runs the script and returns its results, one per round.
async fn run_script(app: TestApp, count: usize) -> Vec<Value> {
    let session = app.session().await;
    assert_eq!(session.ask("Look it up").await["output_text"], "Done.");
    let results = results(&session).await;
    assert_eq!(results.len(), count);
    drop(app);
    results
}

fn script(name: &str, inputs: &[Value]) -> Value {
    let calls = inputs.iter().map(|input| calls(name, input.clone()));
    replies(&calls.chain([says("Done.")]).collect::<Vec<_>>())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outline_has_the_titles_of_all_lessons_and_the_link_of_the_course() {
    let inputs = [json!({ "course_name": "mcp" })];
    let results = run_script(start(script("get_course_outline", &inputs)).await, 1).await;
    let expected = json!({
        "title": "MCP: Apps with Context",
        "link": "https://example.com/mcp",
        "lessons": [{ "number": 5, "title": "Servers" }, { "number": 6, "title": "Prompts" }],
    });
    assert_eq!(parsed(&results[0]), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_error_for_an_unknown_course_lists_the_existing_courses() {
    let inputs = [json!({ "course_name": "Cooking for two" })];
    let expected = "Error: no course matches \"Cooking for two\"; the courses are \"Building \
                    Towards Computer Use\", \"MCP: Apps with Context\"";
    for (tool, input) in [
        ("get_course_outline", inputs[0].clone()),
        ("search_course_content", json!({ "query": "x", "course_name": "Cooking for two" })),
    ] {
        assert_eq!(run_script(start(script(tool, &[input])).await, 1).await, [expected]);
    }
    let app = TestApp::start(script("get_course_outline", &inputs)).await;
    let expected = "Error: no course matches \"Cooking for two\": there are no courses";
    assert_eq!(run_script(app, 1).await, [expected]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_input_is_refused_with_the_reason() {
    let long = "x".repeat(1001);
    let inputs = [
        json!({ "query": " " }),
        json!({ "query": long }),
        json!({ "query": "x", "course_name": "" }),
        json!({ "query": "x", "lesson_number": "4" }),
        json!({ "query": "x", "limit": 4 }),
    ];
    let results = run_script(start(script("search_course_content", &inputs)).await, 5).await;
    let invalid = "Error: invalid input for search_course_content:";
    let expected = [
        "Error: the query is empty".to_owned(),
        "Error: the query is longer than 1,000 characters".to_owned(),
        "Error: the name of the course is empty".to_owned(),
        format!("{invalid} \"4\" is not of types \"null\", \"integer\" at /lesson_number"),
        format!("{invalid} Additional properties are not allowed ('limit' was unexpected)"),
    ];
    assert_eq!(results, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_without_a_match_returns_no_passages_and_is_not_an_error() {
    let inputs = [json!({ "query": "quarks" }), json!({ "query": "what is the" })];
    let results = run_script(start(script("search_course_content", &inputs)).await, 2).await;
    assert_eq!(results, [r#"{"passages":[]}"#, r#"{"passages":[]}"#]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_finds_only_the_courses_of_its_owner() {
    let outline = calls("get_course_outline", json!({ "course_name": "mcp" }));
    let search = calls("search_course_content", json!({ "query": "templates" }));
    let script = replies(&[outline, search, says("{{result.0}}")]);
    let app = TestApp::start_with(script, Setup { ..keys_needed() }).await;
    let other = app.database.tenant("other").await;
    store_course(&app.database, TenantId::DEFAULT, MCP).await;
    let client = client_with(Some(&app.database.key(other, Scope::Write).await));
    let created = client.post(app.url("/v1/sessions")).send().await.unwrap();
    let created: Value = created.json().await.unwrap();
    let path = format!("/v1/sessions/{}/messages", created["id"].as_str().unwrap());
    let request = client.post(app.url(&path)).header("prefer", "wait=60");
    let run = request.json(&json!({ "content": "Search" })).send().await.unwrap();
    let run: Value = run.json().await.unwrap();
    assert_eq!(run["output_text"], r#"{"passages":[]}"#);
    assert_eq!(run["tool_log"][0]["is_error"], true);
    assert_eq!(run["sources"], Value::Null);

    let own = app.session().await.ask("Search too").await;
    assert_eq!(own["tool_log"][0]["is_error"], false);
    assert_eq!(own["sources"].as_array().unwrap().len(), 2);
}
