//! Tests: every call has a result, and the definitions for the model are stable.

use std::time::Duration;

use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::domain::tool_error::ToolErrorType;
use crate::tools::builtin;
use crate::tools::error::ToolError;
use crate::tools::output::Output;
use crate::tools::results::MAX_RESULT;
use crate::tools::tool::ToolContext;
use crate::tools::typed::{Typed, TypedTool};
use crate::tools::workspace::Workspace;

#[derive(Debug)]
struct Misbehave;

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Manner {
    manner: String,
    #[serde(default = "seven")]
    number: u32,
}

fn seven() -> u32 {
    7
}

impl TypedTool for Misbehave {
    const NAME: &'static str = "misbehave";
    const DESCRIPTION: &'static str = "Fails in the way that is asked for.";
    const CLASS: ToolClass = ToolClass::Pure;
    const TIMING: ToolTiming = ToolTiming::Immediate;
    type Input = Manner;

    async fn run(&self, _context: &ToolContext, input: Manner) -> Result<Output, ToolError> {
        match input.manner.as_str() {
            "panic" => panic!("as asked"),
            "hang" => futures::future::pending().await,
            "nul" => Ok("a\0b".to_owned().into()),
            "flood" => Ok("ü".repeat(MAX_RESULT).into()),
            "default" => Output::json(&json!({ "number": input.number })),
            _ => Err(ToolError::Failed("no such manner".to_owned())),
        }
    }
}

fn registry() -> Registry {
    let mut tools = builtin::all(&builtin::Options::default());
    tools.push(Arc::new(Typed(Misbehave)));
    Registry::new(tools).unwrap()
}

async fn call(name: &str, input: Value) -> CallOutcome {
    let folder = TempDir::new().unwrap();
    let context = ToolContext::without_run(Workspace::new(folder.path().to_owned()));
    registry().call(&context, name, &to_raw_value(&input).unwrap()).await
}

fn error(text: &str) -> CallOutcome {
    CallOutcome { is_error: true, ..success(text) }
}

fn error_of(error_type: ToolErrorType, text: &str) -> CallOutcome {
    CallOutcome { error_type: Some(error_type), ..error(text) }
}

fn success(text: &str) -> CallOutcome {
    let text = text.to_owned();
    CallOutcome {
        text,
        images: Vec::new(),
        is_error: false,
        error_type: None,
        state_changes: Vec::new(),
        sources: Vec::new(),
        sandbox: None,
    }
}

#[test]
fn every_tool_has_a_description_and_a_valid_schema() {
    for entry in registry().catalog() {
        assert!(entry.description.contains('.'), "{}", entry.name);
        assert!(jsonschema::meta::is_valid(&entry.input_schema), "{}", entry.name);
        assert_eq!(entry.input_schema["type"], "object");
        assert!(entry.input_schema.get("$schema").is_none());
    }
}

#[test]
fn definitions_are_the_same_bytes_every_time() {
    let definitions = |only| registry().definitions(only).unwrap().get().to_owned();
    assert_eq!(definitions(None), definitions(None));
    let backwards = ["get_time".to_owned(), "read_file".to_owned()];
    let forwards = ["read_file".to_owned(), "get_time".to_owned()];
    assert_eq!(definitions(Some(&backwards)), definitions(Some(&forwards)));
    assert_eq!(registry().definitions(Some(&["nope".to_owned()])).unwrap_err(), "nope");
}

#[test]
fn optional_fields_are_not_required_and_state_their_default() {
    let catalog = registry().catalog();
    let read_file = catalog.iter().find(|entry| entry.name == "read_file").unwrap();
    assert_eq!(read_file.input_schema["required"], json!(["path"]));
    assert_eq!(read_file.input_schema["properties"]["limit"]["default"], 2000);
}

#[tokio::test]
async fn an_unknown_tool_is_an_error_result() {
    assert_eq!(call("x", json!({})).await, error(r#"{"error":"Unknown tool: 'x'"}"#));
}

#[tokio::test]
async fn an_input_without_a_required_field_is_refused_before_the_call() {
    let answer = call("misbehave", json!({ "number": 1 })).await;
    let expected = r#"Error: invalid input for misbehave: "manner" is a required property"#;
    assert_eq!(answer, error_of(ToolErrorType::ValidationError, expected));
}

#[tokio::test]
async fn the_error_for_a_wrong_type_contains_the_json_pointer() {
    let answer = call("misbehave", json!({ "manner": 3 })).await;
    let expected = r#"Error: invalid input for misbehave: 3 is not of type "string" at /manner"#;
    assert_eq!(answer, error_of(ToolErrorType::ValidationError, expected));
}

#[tokio::test]
async fn the_error_for_a_long_input_does_not_repeat_the_input() {
    let answer = call("misbehave", json!({ "manner": ["x".repeat(2 * MAX_RESULT)] })).await;
    let expected =
        r#"Error: invalid input for misbehave: value is not of type "string" at /manner"#;
    assert_eq!(answer, error_of(ToolErrorType::ValidationError, expected));
    let input = to_raw_value(&json!({ "manner": ["x".repeat(2 * MAX_RESULT)] })).unwrap();
    let problem = ("/manner".to_owned(), r#"value is not of type "string""#.to_owned());
    assert_eq!(registry().input_problems("misbehave", &input), [problem]);
}

#[tokio::test]
async fn a_truncated_error_keeps_its_tags() {
    let answer = call("Read", json!({ "file_path": "x".repeat(2 * MAX_RESULT) })).await;
    let (start, end) = ("<tool_use_error>xxx", "]</tool_use_error>");
    assert!(answer.text.starts_with(start) && answer.text.ends_with(end), "{:?}", {
        answer.text.get(answer.text.len() - 200..)
    });
    assert!(answer.is_error && answer.text.len() < MAX_RESULT + 500);
}

#[tokio::test]
async fn an_input_that_is_not_json_is_refused() {
    let answer = call("misbehave", json!({ "INVALID_JSON": "{\"a" })).await;
    let expected = "Error: the input for misbehave is not valid JSON";
    assert_eq!(answer, error_of(ToolErrorType::ValidationError, expected));
}

#[tokio::test]
async fn an_optional_field_gets_its_default_and_a_struct_arrives_as_json() {
    assert_eq!(call("misbehave", json!({ "manner": "default" })).await, success(r#"{"number":7}"#));
}

#[tokio::test]
async fn a_panic_is_an_error_result() {
    let expected = "Error: misbehave stopped because of an internal error";
    assert_eq!(call("misbehave", json!({ "manner": "panic" })).await, error(expected));
}

#[tokio::test(start_paused = true)]
async fn a_hanging_tool_is_stopped_at_its_deadline() {
    let started = tokio::time::Instant::now();
    let expected = "Error: misbehave timed out after 2 s";
    let expected = error_of(ToolErrorType::Timeout, expected);
    assert_eq!(call("misbehave", json!({ "manner": "hang" })).await, expected);
    assert_eq!(started.elapsed().as_secs(), Duration::from_secs(2).as_secs());
}

#[tokio::test]
async fn a_nul_becomes_the_replacement_character() {
    assert_eq!(call("misbehave", json!({ "manner": "nul" })).await, success("a\u{fffd}b"));
}

#[tokio::test]
async fn a_long_result_is_truncated_and_saved_whole_in_a_file() {
    let folder = TempDir::new().unwrap();
    let context = ToolContext::without_run(Workspace::new(folder.path().to_owned()));
    let input = to_raw_value(&json!({ "manner": "flood" })).unwrap();
    let text = registry().call(&context, "misbehave", &input).await.text;
    let (shown, note) = text.split_once('\n').unwrap();
    assert_eq!(shown, "ü".repeat(MAX_RESULT / 2));
    let path = note
        .strip_prefix("[truncated: the whole result has 204800 bytes and is in the file ")
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap();
    assert_eq!(context.workspace.read(path).unwrap(), "ü".repeat(MAX_RESULT).as_bytes());
}

#[tokio::test]
async fn an_unknown_time_zone_is_an_error() {
    let expected = "Error: \"Mars/Base\" is not a time zone; use a name such as Europe/Oslo";
    let expected = error_of(ToolErrorType::ValidationError, expected);
    assert_eq!(call("get_time", json!({ "timezone": "Mars/Base" })).await, expected);
    assert!(!call("get_time", json!({})).await.is_error);
    assert!(call("get_time", json!({ "timezone": "Asia/Kolkata" })).await.text.contains("+05:30"));
}

#[test]
fn two_tools_with_the_same_name_are_rejected() {
    let twice: Vec<Arc<dyn Tool>> = vec![Arc::new(Typed(Misbehave)), Arc::new(Typed(Misbehave))];
    assert!(matches!(Registry::new(twice), Err(BadTool::Repeated(name)) if name == "misbehave"));
}

/// A tool of a server that hides an instruction in its description.
#[derive(Debug)]
struct Hiding;

impl TypedTool for Hiding {
    const NAME: &'static str = "hiding";
    const DESCRIPTION: &'static str = "Adds\u{e0041} numbers.";
    const CLASS: ToolClass = ToolClass::Pure;
    const TIMING: ToolTiming = ToolTiming::Immediate;
    type Input = Manner;
}

#[test]
fn hidden_text_in_a_definition_is_shown_to_the_model() {
    let registry = Registry::new(vec![Arc::new(Typed(Hiding))]).unwrap();
    let definitions = registry.definitions(None).unwrap().get().to_owned();
    assert!(definitions.contains("Adds<U+E0041> numbers."), "{definitions}");
}

#[test]
fn only_local_tools_without_effects_are_quick() {
    let registry = registry();
    for name in ["get_time", "read_file", "list_files", "Read", "Grep", "Glob"] {
        assert!(registry.is_quick(name), "{name}");
    }
    for name in ["write_file", "Edit", "TodoWrite", "ExitPlanMode", "Task", "get_weather", "none"] {
        assert!(!registry.is_quick(name), "{name}");
    }
}
