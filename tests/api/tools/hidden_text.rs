//! Invisible characters in results, whatever produced the result: the model reads their codes, and
//! can still edit a file that has them.

use std::sync::Arc;

use serde_json::{Value, json};
use twostep::domain::tool::{ToolClass, ToolTiming};
use twostep::tools::{Output, ToolContext, ToolError, Typed, TypedTool};

use crate::support::{Setup, TestApp, calls, calls_as, pending, replies, says};

/// "Hi" as tag characters, between two letters.
const HIDDEN: &str = "a\u{e0048}\u{e0069}b";
const SHOWN: &str = "a<U+E0048><U+E0069>b";
/// The flag of England, which consists of tag characters too.
const FLAG: &str = "🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}";

/// A tool whose answer or error has hidden text.
#[derive(Debug)]
struct Whisper;

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct WhisperInput {
    fails: bool,
}

impl TypedTool for Whisper {
    const NAME: &'static str = "whisper";
    const DESCRIPTION: &'static str = "Whispers.";
    const CLASS: ToolClass = ToolClass::Pure;
    const TIMING: ToolTiming = ToolTiming::Immediate;
    type Input = WhisperInput;

    async fn run(&self, _context: &ToolContext, input: WhisperInput) -> Result<Output, ToolError> {
        let text = format!("{HIDDEN}{FLAG}");
        if input.fails { Err(ToolError::Failed(text)) } else { Ok(text.into()) }
    }
}

/// The contents of all results in a history.
async fn results(session: &crate::support::Session<'_>) -> Vec<Value> {
    let history = session.history().await;
    let blocks = history.iter().flat_map(|item| item["message"]["content"].as_array().unwrap());
    blocks.filter(|block| block["type"] == "tool_result").map(|it| it["content"].clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn hidden_text_in_the_result_of_a_tool_is_shown_to_the_model() {
    let script = replies(&[
        calls_as(&[
            ("toolu_1", "whisper", json!({ "fails": false })),
            ("toolu_2", "whisper", json!({ "fails": true })),
        ]),
        says("Done."),
    ]);
    let setup = Setup { tools: vec![Arc::new(Typed(Whisper))], ..Setup::default() };
    let app = TestApp::start_with(script, setup).await;
    let session = app.session().await;
    session.ask("Listen").await;
    let expected = [format!("{SHOWN}{FLAG}"), format!("Error: {SHOWN}{FLAG}")];
    assert_eq!(json!(results(&session).await), json!(expected));
    let events = session.events().await;
    let shown = events.iter().find(|event| event["type"] == "agent.tool_result").unwrap();
    assert_eq!(shown["content"][0]["text"], expected[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn hidden_text_in_the_question_of_a_tool_is_shown_to_the_model() {
    let script = json!({ "conversations": [
        { "when": "<query>", "replies": [says("Another query")] },
        { "replies": [calls("paraphrase_query", json!({ "query": HIDDEN })), says("Done.")] },
    ], "otherwise": "refuse" });
    let app = TestApp::start(script).await;
    assert_eq!(app.session().await.ask("Search").await["output_text"], "Done.");
    let question = app.upstream().body(1)["messages"][0]["content"][0]["text"].clone();
    assert!(question.as_str().unwrap().contains(&format!("<query>\n{SHOWN}\n")), "{question}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hidden_text_in_the_result_of_a_client_is_shown_to_the_model() {
    let door = json!({
        "name": "open_door", "description": "Opens a door.", "client": true,
        "input_schema": { "type": "object" },
    });
    let script = replies(&[
        calls_as(&[("toolu_1", "open_door", json!({})), ("toolu_2", "open_door", json!({}))]),
        says("Done."),
    ]);
    let app = TestApp::start(script).await;
    let session = app.session_with(json!({ "tools": [door] })).await;
    let run = session.ask("Open").await;
    assert_eq!(pending(&run).len(), 2);
    let block = |text: &str| json!({ "type": "text", "text": text });
    let given = json!([
        { "tool_use_id": "toolu_1", "content": HIDDEN },
        { "tool_use_id": "toolu_2", "content": [block(HIDDEN), block(FLAG)] },
    ]);
    session.accepted(session.submit_results(&given)).await;
    assert_eq!(session.settled(&run).await["status"], "completed");
    let expected = json!([SHOWN, [block(SHOWN), block(FLAG)]]);
    assert_eq!(json!(results(&session).await), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn hidden_text_in_the_report_of_a_sub_agent_is_shown_to_the_model() {
    let task = calls("Task", json!({ "description": "Listen", "prompt": "Listen." }));
    let script = json!({ "conversations": [
        { "when": "Begin", "replies": [task, says("Done.")] },
        { "replies": [says(HIDDEN)] },
    ], "otherwise": "refuse" });
    let app = TestApp::start(script).await;
    let session = app.session_with(json!({ "tools": ["Task"] })).await;
    session.ask("Begin").await;
    assert_eq!(results(&session).await, [json!(SHOWN)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_with_hidden_text_is_edited_by_what_the_model_read() {
    let edit = |old: &str, new: &str| {
        calls("Edit", json!({ "file_path": "a.md", "old_string": old, "new_string": new }))
    };
    let script = replies(&[
        calls("Read", json!({ "file_path": "a.md" })),
        // Keeps the hidden text, then removes it.
        edit(&format!("one {SHOWN}\n"), &format!("two {SHOWN}\n")),
        edit(SHOWN, "ab"),
        says("Done."),
    ]);
    let app = TestApp::start_with(script, Setup { own_folders: true, ..Setup::default() }).await;
    let session = app.session_with(json!({ "tools": ["Read", "Edit"] })).await;
    let folder = app.folder.path().join("workspaces").join(&session.id);
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("a.md");
    std::fs::write(&file, format!("{FLAG}\u{e0041}\none {HIDDEN}\n")).unwrap();
    session.ask("Edit").await;
    let all = results(&session).await;
    let read = all[0].as_str().unwrap();
    assert!(read.contains(&format!("{FLAG}<U+E0041>")) && read.contains(SHOWN), "{read}");
    assert!(all[1].as_str().unwrap().contains(&format!("two {SHOWN}")), "{}", all[1]);
    // Text that was not edited keeps its bytes.
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{FLAG}\u{e0041}\ntwo ab\n"));
}
