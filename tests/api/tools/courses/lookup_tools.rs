//! The two tools, as the model meets them.

use serde_json::{Value, json};
use twostep::domain::api_key::Scope;
use twostep::domain::ids::TenantId;

use super::{MCP, put, read, results, start};
use crate::support::{Setup, TestApp, calls, client_with, keys_needed, replies, says};

/// What the model reads of each call, one a round.
async fn told(app: TestApp, count: usize) -> Vec<Value> {
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
async fn an_outline_has_the_titles_of_all_lessons_and_what_is_known_besides() {
    let inputs = [json!({ "course_name": "mcp" })];
    let results = told(start(script("get_course_outline", &inputs)).await, 1).await;
    let expected = json!({
        "title": "MCP: Apps with Context",
        "link": "https://example.com/mcp",
        "lessons": [{ "number": 5, "title": "Servers" }, { "number": 6, "title": "Prompts" }],
    });
    assert_eq!(read(&results[0]), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_course_that_is_not_there_is_an_error_that_says_which_are() {
    let inputs = [json!({ "course_name": "Cooking for two" })];
    let expected = "Error: there is no course like \"Cooking for two\"; there are \"Building \
                    Towards Computer Use\", \"MCP: Apps with Context\"";
    for (tool, input) in [
        ("get_course_outline", inputs[0].clone()),
        ("search_course_content", json!({ "query": "x", "course_name": "Cooking for two" })),
    ] {
        assert_eq!(told(start(script(tool, &[input])).await, 1).await, [expected]);
    }
    let app = TestApp::start(script("get_course_outline", &inputs)).await;
    let expected =
        "Error: there is no course like \"Cooking for two\": there are no courses at all";
    assert_eq!(told(app, 1).await, [expected]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_that_means_nothing_is_refused_in_words() {
    let long = "x".repeat(1001);
    let inputs = [
        json!({ "query": " " }),
        json!({ "query": long }),
        json!({ "query": "x", "course_name": "" }),
        json!({ "query": "x", "lesson_number": "4" }),
        json!({ "query": "x", "limit": 4 }),
    ];
    let results = told(start(script("search_course_content", &inputs)).await, 5).await;
    let invalid = "Error: invalid input for search_course_content:";
    let expected = [
        "Error: the query is empty".to_owned(),
        "Error: the query is longer than 1,000 letters".to_owned(),
        "Error: the name of the course is empty".to_owned(),
        format!("{invalid} \"4\" is not of types \"null\", \"integer\" at /lesson_number"),
        format!("{invalid} Additional properties are not allowed ('limit' was unexpected)"),
    ];
    assert_eq!(results, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fits_nothing_finds_nothing_and_is_no_error() {
    let inputs = [json!({ "query": "quarks" }), json!({ "query": "what is the" })];
    let results = told(start(script("search_course_content", &inputs)).await, 2).await;
    assert_eq!(results, [r#"{"passages":[]}"#, r#"{"passages":[]}"#]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_finds_the_courses_of_its_owner_and_no_others() {
    let outline = calls("get_course_outline", json!({ "course_name": "mcp" }));
    let search = calls("search_course_content", json!({ "query": "templates" }));
    let script = replies(&[outline, search, says("{{result.0}}")]);
    let app = TestApp::start_with(script, Setup { ..keys_needed() }).await;
    let other = app.database.tenant("other").await;
    put(&app.database, TenantId::DEFAULT, MCP).await;
    let client = client_with(Some(&app.database.key(other, Scope::Write).await));
    let made = client.post(app.url("/v1/sessions")).send().await.unwrap();
    let made: Value = made.json().await.unwrap();
    let path = format!("/v1/sessions/{}/messages", made["id"].as_str().unwrap());
    let asked = client.post(app.url(&path)).header("prefer", "wait=60");
    let run = asked.json(&json!({ "content": "Look" })).send().await.unwrap();
    let run: Value = run.json().await.unwrap();
    assert_eq!(run["output_text"], r#"{"passages":[]}"#);
    assert_eq!(run["tool_log"][0]["is_error"], true);
    assert_eq!(run["sources"], Value::Null);

    let own = app.session().await.ask("Look, too").await;
    assert_eq!(own["tool_log"][0]["is_error"], false);
    assert_eq!(own["sources"].as_array().unwrap().len(), 2);
}
