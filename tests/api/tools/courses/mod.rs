//! Courses: import, search, and the sources of an answer.

mod command;
mod lookup_tools;
mod multi_step;
mod ranking;

use serde_json::{Value, json};
use twostep::domain::course::{Course, Form};
use twostep::domain::ids::TenantId;
use twostep::store::courses::replace;

use crate::support::{Session, Setup, TestApp, TestDatabase, database};

/// A course whose fourth lesson has the same topic as [`MCP`].
const COMPUTER_USE: &str = "Course Title: Building Towards Computer Use
Course Link: https://example.com/computer-use
Course Instructor: Ada Lovelace
Lesson 1: Introduction
Welcome to the course.
Lesson 2: Requests
How to send one.
Lesson 3: Pictures
How to send one of these.
Lesson 4: Tool use
Lesson Link: https://example.com/computer-use/4
The machine asks for what it wants done.
";

/// A course whose fifth lesson has the same topic as lesson 4 of [`COMPUTER_USE`].
const MCP: &str = "Course Title: MCP: Apps with Context
Course Link: https://example.com/mcp
Lesson 5: Servers
A server offers tools, and a chatbot makes use of them.
Lesson 6: Prompts
Prompts are templates.
";

/// Stores a course like an import.
async fn store_course(database: &TestDatabase, tenant: TenantId, text: &str) {
    let course = Course::read(text, Form::Text).unwrap();
    let passages = course.passages().unwrap();
    let mut conn = database.pool(1).acquire().await.unwrap();
    replace(&mut conn, tenant, &course, &passages, |_| {}).await.unwrap();
}

/// A service with both courses.
async fn start(script: Value) -> TestApp {
    let database = database().await;
    for text in [COMPUTER_USE, MCP] {
        store_course(&database, TenantId::DEFAULT, text).await;
    }
    let folder = tempfile::TempDir::new().unwrap();
    // Boxed, because it is large.
    Box::pin(TestApp::on(script, Setup::default(), database, folder)).await
}

/// The contents of all results of a session.
async fn results(session: &Session<'_>) -> Vec<Value> {
    let history = session.history().await;
    let blocks = history.iter().flat_map(|item| item["message"]["content"].as_array().unwrap());
    let results = blocks.filter(|block| block["type"] == "tool_result");
    results.map(|block| block["content"].clone()).collect()
}

/// Parses a result that is JSON.
fn parsed(result: &Value) -> Value {
    serde_json::from_str(result.as_str().unwrap()).unwrap()
}

fn source(title: &str, url: &str) -> Value {
    json!({ "title": title, "url": url })
}
