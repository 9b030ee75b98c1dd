//! Built-in agents.

use std::sync::Arc;

use reqwest::Url;
use serde_json::{Value, json};
use tempfile::TempDir;
use twostep::domain::course::{Course, Form};
use twostep::domain::ids::TenantId;
use twostep::service::ModelRules;
use twostep::store::courses::replace;
use twostep::tools::builtin::{OpenMeteo, Options, Search, SearchProvider};

use super::{agent, refused};
use crate::support::{Setup, TestApp, calls, calls_as, database, problem, replies, says};

const COURSE: &str = "Course Title: MCP: Apps with Context
Course Link: https://example.com/mcp
Lesson 5: Servers
A server offers tools, and a chatbot makes use of them.
";

/// A service with one course.
async fn app_with_course(script: Value) -> TestApp {
    let database = database().await;
    let course = Course::read(COURSE, Form::Text).unwrap();
    let passages = course.passages().unwrap();
    let mut conn = database.pool(1).acquire().await.unwrap();
    replace(&mut conn, TenantId::DEFAULT, &course, &passages, |_| {}).await.unwrap();
    drop(conn);
    let folder = TempDir::new().unwrap();
    // Boxed, because it is large.
    Box::pin(TestApp::on(script, Setup::default(), database, folder)).await
}

/// The names of a session's tools.
async fn tools_of(app: &TestApp, agent: &str) -> Value {
    app.session_with(json!({ "agent": agent })).await.read().await["tools"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_course_agent_answers_after_at_most_two_rounds_of_tools() {
    let outline = calls_as(&[("toolu_1", "get_course_outline", json!({ "course_name": "mcp" }))]);
    let query = json!({ "query": "{{result.0/lessons/0/title}}" });
    let search = calls_as(&[("toolu_2", "search_course_content", query.clone())]);
    let mut third = calls_as(&[("toolu_3", "search_course_content", query)]);
    third["when_forbidden"] = "The lesson on servers.".into();
    let app = app_with_course(replies(&[outline, search, third])).await;
    let session = app.session_with(json!({ "agent": "course" })).await;
    let run = session.ask("Which lesson is about servers?").await;
    assert_eq!(run["output_text"], "The lesson on servers.");
    assert_eq!((&run["limited"], &run["limited_by"]), (&json!(true), &json!("rounds")));
    assert_eq!(run["tool_log"].as_array().unwrap().len(), 2, "the third call is not executed");
    let lesson = "MCP: Apps with Context - Lesson 5: Servers";
    assert_eq!(run["sources"][1], json!({ "title": lesson, "url": "https://example.com/mcp" }));
    let upstream = app.upstream();
    assert_eq!(upstream.len(), 3);
    let last = upstream.body(2);
    let names: Vec<&Value> =
        last["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["search_course_content", "get_course_outline"]);
    assert_eq!(last["tool_choice"], json!({ "type": "none" }));
    assert!(last["system"][0]["text"].as_str().unwrap().contains("two rounds of look-ups"));
    // A request may raise the limit.
    let session = app.session_with(json!({ "agent": "course", "limits": { "rounds": 5 } })).await;
    assert_eq!(session.read().await["limits"], json!({ "rounds": 5 }));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_researcher_answers_in_json() {
    let answer = json!({
        "answer": "In 1952.",
        "findings": [{ "fact": "A-0 ran in 1952.", "source_urls": [] }],
        "sources": [],
        "confidence": "medium",
        "open_questions": [],
    });
    let think = calls(
        "sequential_thinking",
        json!({
            "thought": "What counts as one?", "thoughtNumber": 1, "totalThoughts": 1,
            "nextThoughtNeeded": false,
        }),
    );
    let app = TestApp::start(replies(&[think, says(&answer.to_string())])).await;
    let session = app.session_with(json!({ "agent": "researcher" })).await;
    let run = session.ask("When was the first compiler?").await;
    assert_eq!((&run["output"], run.get("output_error")), (&answer, None));
    let format = &app.upstream().body(0)["output_config"]["format"];
    assert_eq!(
        (&format["type"], &format["schema"]["type"]),
        (&json!("json_schema"), &json!("object"))
    );
    assert_eq!(session.read().await["limits"]["rounds"], 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_that_the_operator_has_not_enabled_are_left_out_and_listed() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let files = json!([
        "LS",
        "Read",
        "Edit",
        "MultiEdit",
        "Write",
        "NotebookEdit",
        "Glob",
        "Grep",
        "TodoWrite",
        "ExitPlanMode",
        "Task",
    ]);
    assert_eq!(tools_of(&app, "coder").await, files);
    let left_out = |agent: &Value| agent["tools_left_out"].clone();
    let coder = agent(&app, "/coder").await;
    let expected = json!(["Bash", "WebFetch", "WebSearch"]);
    assert_eq!(left_out(&coder), expected);
    assert_eq!(
        coder["profile"]["tools"].as_array().unwrap().len(),
        14,
        "the profile lists all tools"
    );
    assert_eq!(tools_of(&app, "weather").await, json!(["get_time"]));
    assert_eq!(
        tools_of(&app, "researcher").await,
        json!(["get_time", "sequential_thinking", "paraphrase_query"])
    );
    assert_eq!(
        tools_of(&app, "general").await,
        json!(["read_file", "write_file", "list_files", "get_time"])
    );
    assert_eq!(agent(&app, "/course").await.get("tools_left_out"), None);
    // A request that names such a tool is refused.
    let body = json!({ "agent": "coder", "tools": ["Bash"] });
    assert_eq!(refused(&app, body).await["pointer"], "/tools");
    app.session_with(json!({ "agent": "coder" })).await.ask("Are you there?").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_that_the_operator_has_enabled_are_included() {
    // Fails if another test of this process has installed a provider already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let url: Url = "http://127.0.0.1:9/".parse().unwrap();
    let search = Search::new(SearchProvider::Searxng(url.clone())).unwrap();
    let weather = OpenMeteo::new(&url, &url).unwrap();
    let options = Options {
        search: Some(Arc::new(search)),
        weather: Some(Arc::new(weather)),
        ..Options::default()
    };
    let app = TestApp::start_with(replies(&[]), Setup { options, ..Setup::default() }).await;
    let weather = json!(["get_time", "get_weather", "get_temperature"]);
    assert_eq!(tools_of(&app, "weather").await, weather);
    let researcher = tools_of(&app, "researcher").await;
    assert!(researcher.as_array().unwrap().contains(&json!("web_search")), "{researcher}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_tool_of_the_same_name_counts_as_enabled() {
    let server_tools = vec!["web_search".parse().unwrap()];
    let model_rules = ModelRules { server_tools, ..ModelRules::default() };
    let app = TestApp::start_with(replies(&[]), Setup { model_rules, ..Setup::default() }).await;
    let researcher = tools_of(&app, "researcher").await;
    assert!(researcher.as_array().unwrap().contains(&json!("web_search")), "{researcher}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_cannot_use_the_name_of_a_built_in_agent() {
    let app = TestApp::start(replies(&[])).await;
    let conflict =
        problem(app.put("coder", &json!({})).send().await.unwrap(), 409, "agent_name_taken").await;
    let detail =
        "coder is an agent of the service itself, which tenants can neither change nor hide";
    assert_eq!(conflict["detail"], detail);
    let delete = app.client.delete(app.url("/v1/agents/coder")).send().await.unwrap();
    problem(delete, 409, "agent_name_taken").await;
}

/// An update of the service or a file of the operator may add an agent with the name of a tenant's
/// agent.
#[tokio::test(flavor = "multi_thread")]
async fn an_existing_agent_of_a_tenant_hides_a_later_shared_agent() {
    let app = TestApp::start(replies(&[])).await;
    let insert = "INSERT INTO agents (tenant_id, name, version) SELECT id, 'coder', 2 FROM tenants";
    sqlx::query(insert).execute(&app.database.pool(1)).await.unwrap();
    let insert = "INSERT INTO agent_versions (tenant_id, name, version, profile)
                   SELECT id, 'coder', 2, '{\"system\": \"Ours.\"}' FROM tenants";
    sqlx::query(insert).execute(&app.database.pool(1)).await.unwrap();
    let session = app.session_with(json!({ "agent": "coder" })).await.read().await;
    assert_eq!((&session["system"], &session["agent"]["version"]), (&json!("Ours."), &json!(2)));
    // The versions of the hidden agent cannot be selected.
    let message = "is coder@1, but there is no such agent";
    assert_eq!(refused(&app, json!({ "agent": "coder@1" })).await["message"], message);
    assert_eq!(super::put(&app, "coder", json!({})).await, 3);
    let page = agent(&app, "").await;
    assert_eq!(
        (page["data"].as_array().unwrap().len(), &page["data"][0]["source"]),
        (5, &json!("tenant"))
    );
}
