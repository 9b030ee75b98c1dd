//! Questions that need two calls, such as: "Search for a course that discusses the same topic as
//! lesson 4 of course X."

use serde_json::{Value, json};

use super::{parsed, results, source, start};
use crate::support::{TestApp, calls, calls_as, replies, says};

/// A typical system prompt of an agent for course materials.
const SYSTEM: &str = "You are an AI assistant specialized in course materials with access to \
comprehensive tools.

Available Tools:
- **search_course_content**: Search for specific course content and materials
- **get_course_outline**: Get course structure, titles, and lesson lists

Sequential Tool Usage:
- You may use tools up to 2 times to answer complex questions
- First tool call: Gather initial information (e.g., get course outline)
- Second tool call: Search for specific content based on first results
- After tool usage, provide a comprehensive final answer

Response Guidelines:
- For simple questions: Answer directly without tools
- For complex questions: Use tools sequentially as needed
- Synthesize all information into clear, educational responses
- Include relevant examples when helpful

Current conversation allows for sequential tool usage to fully answer your question.";

const QUESTION: &str = "Which course is about the same as lesson 4 of the computer use course?";
const ANSWER: &str = "The course on MCP: its fifth lesson lets a chatbot use tools.";

fn session() -> Value {
    json!({
        "system": SYSTEM,
        "tools": ["search_course_content", "get_course_outline"],
        "limits": { "rounds": 2 },
    })
}

fn outline() -> Value {
    calls_as(&[("toolu_1", "get_course_outline", json!({ "course_name": "computr use" }))])
}

fn search() -> Value {
    let query = json!({ "query": "{{result.0/lessons/3/title}}" });
    calls_as(&[("toolu_2", "search_course_content", query)])
}

/// The members of a run that describe its calls and the sources of its answer.
fn calls_and_sources(run: &Value) -> [Value; 3] {
    ["limited", "tool_log", "sources"].map(|member| run[member].clone())
}

fn log() -> Value {
    let call = |id: &str, name: &str| json!({ "tool_use_id": id, "name": name, "state": "done", "is_error": false });
    json!([call("toolu_1", "get_course_outline"), call("toolu_2", "search_course_content")])
}

/// The course of the outline, then the lessons of the passages, the best match first.
fn sources() -> Value {
    json!([
        source("Building Towards Computer Use", "https://example.com/computer-use"),
        source(
            "Building Towards Computer Use - Lesson 4: Tool use",
            "https://example.com/computer-use/4"
        ),
        source("MCP: Apps with Context - Lesson 5: Servers", "https://example.com/mcp"),
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fourth_lesson_of_one_course_leads_to_another_course() {
    let app = start(replies(&[outline(), search(), says(ANSWER)])).await;
    let session = app.session_with(session()).await;
    let run = session.ask(QUESTION).await;
    assert_eq!(run["output_text"], ANSWER);
    // The run is limited to two rounds, so its last request forbids tools.
    assert_eq!(calls_and_sources(&run), [json!(true), log(), sources()]);

    let history = session.history().await;
    let input = &history[3]["message"]["content"][0]["input"];
    assert_eq!(input, &json!({ "query": "Tool use" }), "the query is from the outline");
    let passages = parsed(&results(&session).await[1])["passages"].take();
    let last = passages.as_array().unwrap().last().unwrap();
    let expected = json!({
        "course": "MCP: Apps with Context",
        "lesson_number": 5,
        "lesson": "Servers",
        "text": "A server offers tools, and a chatbot makes use of them.",
    });
    assert_eq!(last, &expected);
    for index in 0..3 {
        assert_eq!(app.upstream().body(index)["system"][0]["text"], SYSTEM);
    }
    // The run has the same members when it is read again; in lists it has fewer.
    assert_eq!(calls_and_sources(&session.run(&run).await), calls_and_sources(&run));
    let runs: Value = app.get(&session.path("/runs")).send().await.unwrap().json().await.unwrap();
    assert_eq!(calls_and_sources(&runs["data"][0]), [json!(true), Value::Null, Value::Null]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_third_call_is_never_made_and_the_model_still_answers() {
    let mut third = search();
    third["when_forbidden"] = ANSWER.into();
    let app = start(replies(&[outline(), search(), third])).await;
    let session = app.session_with(session()).await;
    let run = session.ask(QUESTION).await;
    assert_eq!(run["output_text"], ANSWER);
    assert_eq!(calls_and_sources(&run), [json!(true), log(), sources()]);
    let upstream = app.upstream();
    let choices = (0..upstream.len()).map(|index| upstream.body(index)["tool_choice"].clone());
    let none = json!({ "type": "none" });
    assert_eq!(choices.collect::<Vec<_>>(), [Value::Null, Value::Null, none]);
    assert_eq!(upstream.body(2)["tools"], upstream.body(0)["tools"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_simple_question_makes_no_calls_and_has_no_sources() {
    let app = start(replies(&[says("Hello.")])).await;
    let run = app.session_with(session()).await.ask("Hello").await;
    assert_eq!((run["model_requests"].as_i64(), &run["output_text"]), (Some(1), &json!("Hello.")));
    assert_eq!(calls_and_sources(&run), [json!(false), Value::Null, Value::Null]);
}

#[tokio::test(flavor = "multi_thread")]
async fn sources_are_in_the_order_of_the_calls_and_each_is_listed_once() {
    let search = |query: &str| json!({ "query": query, "course_name": "mcp" });
    let both = calls_as(&[
        ("toolu_1", "search_course_content", search("templates")),
        ("toolu_2", "search_course_content", search("chatbot")),
    ]);
    let again = calls_as(&[("toolu_3", "search_course_content", search("prompts"))]);
    let app = start(replies(&[both, again, says("Found.")])).await;
    let run = app.session().await.ask("Search").await;
    let lesson = |title: &str| {
        source(&format!("MCP: Apps with Context - Lesson {title}"), "https://example.com/mcp")
    };
    assert_eq!(run["sources"], json!([lesson("6: Prompts"), lesson("5: Servers")]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_call_is_in_the_log_and_has_no_sources() {
    let missing =
        calls_as(&[("toolu_1", "get_course_outline", json!({ "course_name": "Cooking" }))]);
    let app = start(replies(&[missing, says("There is none.")])).await;
    let run = app.session().await.ask("Cook").await;
    let call = json!({
        "tool_use_id": "toolu_1", "name": "get_course_outline", "state": "failed", "is_error": true,
    });
    assert_eq!(calls_and_sources(&run), [json!(false), json!([call]), Value::Null]);
}

/// A running run lists the calls that it has made so far.
#[tokio::test(flavor = "multi_thread")]
async fn calls_and_sources_are_listed_while_the_run_is_running() {
    let hang = json!({ "content": [{ "type": "text", "text": "Well" }], "hang_after": 2 });
    let app: TestApp = start(replies(&[calls("get_time", json!({})), outline(), hang])).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": QUESTION })).await;
    let mut stream = session.open(&session.run_stream(&run), None).await;
    for _ in 0..2 {
        stream.until("agent.tool_result").await;
    }
    let run = session.run(&run).await;
    let log = run["tool_log"].as_array().unwrap().iter();
    let names: Vec<&Value> = log.map(|call| &call["name"]).collect();
    assert_eq!(run["status"], "running");
    assert_eq!(names, ["get_time", "get_course_outline"]);
    let expected = source("Building Towards Computer Use", "https://example.com/computer-use");
    assert_eq!(run["sources"], json!([expected]));
    session.cancel(&run).await;
    session.settled(&run).await;
}
