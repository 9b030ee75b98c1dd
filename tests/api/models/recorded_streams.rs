//! Every recorded stream through the whole service: its blocks are stored and published as events,
//! its run settles according to its stop reason, and the stored blocks are sent back unchanged.

use std::fs;
use std::path::{Path, PathBuf};

use futures::future::join_all;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::support::{Session, TestApp, replies, says};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/streams").join(name)
}

/// The text of a recorded stream.
pub(crate) fn stream(name: &str) -> String {
    fs::read_to_string(fixture(&format!("{name}.sse"))).unwrap()
}

fn json_of(name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(fixture(name)).unwrap()).unwrap()
}

/// A recorded stream and the expected result.
struct Sample {
    name: String,
    sse: String,
    /// The message that it adds up to.
    message: Value,
    /// True for a complete reply. An incomplete one is requested again.
    is_complete: bool,
}

impl Sample {
    fn all() -> Vec<Self> {
        let manifest = json_of("MANIFEST.json");
        let samples: Vec<Self> = manifest.as_array().unwrap().iter().map(Self::read).collect();
        assert_eq!(samples.len(), 30);
        samples
    }

    fn read(entry: &Value) -> Self {
        let name = entry["name"].as_str().unwrap().to_owned();
        let message = without_nulls(json_of(&format!("{name}.json")));
        let is_complete = !matches!(entry["outcome"].as_str(), Some("api_error" | "truncated"));
        Self { sse: stream(&name), name, message, is_complete }
    }

    fn stop_reason(&self) -> &str {
        self.message["stop_reason"].as_str().unwrap_or_default()
    }

    /// The blocks that enter the history: without a refused draft and without truncated calls.
    fn kept(&self) -> Vec<Value> {
        let blocks = self.message["content"].as_array().cloned().unwrap_or_default();
        if !self.is_complete || self.stop_reason() == "refusal" {
            return Vec::new();
        }
        let may_call = self.stop_reason() == "tool_use";
        blocks.into_iter().filter(|block| may_call || block["type"] != "tool_use").collect()
    }

    /// The stop reason of its run. After calls and after a pause there is another reply.
    fn run_stop_reason(&self) -> &str {
        match self.stop_reason() {
            "tool_use" | "pause_turn" | "" => "end_turn",
            other => other,
        }
    }

    /// The text of the blocks that are complete in one event.
    fn whole_blocks(&self) -> Vec<String> {
        #[derive(Deserialize)]
        struct Event {
            index: Option<usize>,
            content_block: Option<Box<RawValue>>,
            delta: Option<Value>,
        }
        let data = self.sse.lines().filter_map(|line| line.strip_prefix("data:"));
        let events: Vec<Event> =
            data.filter_map(|data| serde_json::from_str(data.trim()).ok()).collect();
        let grows = |index: Option<usize>| {
            events.iter().any(|event| event.index == index && event.delta.is_some())
        };
        let whole = events.iter().filter(|event| !grows(event.index));
        whole.filter_map(|event| Some(event.content_block.as_ref()?.get().to_owned())).collect()
    }
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => members
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, without_nulls(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

fn of_type(blocks: &[Value], kind: &str) -> Vec<Value> {
    blocks.iter().filter(|block| block["type"] == kind).cloned().collect()
}

/// Results for the server tool calls that a sample leaves open. The model sends them in the reply
/// that continues the sample.
fn results(sample: &Sample) -> Vec<Value> {
    let blocks = sample.kept();
    let is_open = |call: &&Value| blocks.iter().all(|block| block["tool_use_id"] != call["id"]);
    let calls = of_type(&blocks, "server_tool_use");
    let result = |call: &Value| {
        let kind = format!("{}_tool_result", call["name"].as_str().unwrap());
        json!({ "type": kind, "tool_use_id": call["id"], "content": [] })
    };
    calls.iter().filter(is_open).map(result).collect()
}

/// A script that plays a sample and then replies `Done.`
fn plays(sample: &Sample) -> Value {
    let mut content = results(sample);
    content.push(json!({ "type": "text", "text": "Done." }));
    let mut done = json!({ "content": content });
    let played = json!({ "raw_sse": sample.sse });
    let replies = if sample.is_complete {
        json!([played, done])
    } else {
        done["fail_first"] = json!([played]);
        json!([done])
    };
    json!({ "conversations": [
        { "when": "play", "replies": replies }, { "replies": [says("Still here.")] },
    ], "otherwise": "refuse" })
}

/// The stored text of a message.
async fn stored_text(session: &Session<'_>, seq: i32) -> String {
    let select = "SELECT content::text FROM messages WHERE session_id = $1::uuid AND seq = $2";
    let id = session.id.strip_prefix("ses_").unwrap();
    let pool = session.app.database.pool(1);
    sqlx::query_scalar(select).bind(id).bind(seq).fetch_one(&pool).await.unwrap()
}

async fn check_history(session: &Session<'_>, sample: &Sample) {
    let (name, kept) = (&sample.name, sample.kept());
    if kept.is_empty() {
        let expected = if sample.is_complete { 1 } else { 2 };
        assert_eq!(session.history().await.len(), expected, "{name}");
        return;
    }
    let item = session.history().await.swap_remove(1);
    let message = without_nulls(item["message"].clone());
    let expected =
        json!([sample.message["id"], sample.message["model"], sample.stop_reason(), kept]);
    assert_eq!(
        json!([message["id"], message["model"], message["stop_reason"], message["content"]]),
        expected,
        "{name}"
    );
    let text = stored_text(session, 2).await;
    for block in sample.whole_blocks() {
        assert!(text.contains(&block), "{name}: {block} is not in {text}");
    }
}

async fn check_events(session: &Session<'_>, sample: &Sample) {
    let (name, kept) = (&sample.name, sample.kept());
    let events = without_nulls(session.events().await.into());
    let events = events.as_array().unwrap();
    let mut expected: Vec<Value> = Vec::new();
    let texts = of_type(&kept, "text");
    expected.extend((!texts.is_empty()).then(|| texts.into()));
    // After calls, a pause or a failure there is another reply.
    if !sample.is_complete || matches!(sample.stop_reason(), "tool_use" | "pause_turn") {
        expected.push(json!([{ "type": "text", "text": "Done." }]));
    }
    let messages: Vec<Value> =
        of_type(events, "agent.message").iter().map(|event| event["content"].clone()).collect();
    assert_eq!(messages, expected, "{name}");
    let calls_in = |blocks: Vec<Value>| -> Vec<Value> {
        let calls = blocks.iter().map(|block| json!([block["id"], block["name"], block["input"]]));
        calls.collect()
    };
    let calls = calls_in(of_type(&kept, "tool_use"));
    assert_eq!(calls_in(of_type(events, "agent.tool_use")), calls, "{name}");
    assert_eq!(of_type(events, "agent.tool_result").len(), calls.len(), "{name}");
    let thinking = of_type(&kept, "thinking").len();
    assert_eq!(of_type(events, "agent.thinking").len(), thinking.min(1), "{name}");
    let failures = usize::from(!sample.is_complete);
    assert_eq!(of_type(events, "session.status_rescheduled").len(), failures, "{name}");
}

/// The settings of a session for a sample: the model accepts a summary block only from a session
/// whose context edits allow compaction.
fn settings_for(sample: &Sample) -> Value {
    if of_type(&sample.kept(), "compaction").is_empty() {
        return json!({});
    }
    json!({ "context": { "edits": [{ "type": "compact_20260112" }] } })
}

async fn play(sample: Sample) {
    let app = TestApp::start(plays(&sample)).await;
    let session = app.session_with(settings_for(&sample)).await;
    let run = session.ask("play").await;
    let outcome = json!([run["status"], run["stop_reason"]["type"]]);
    assert_eq!(outcome, json!(["completed", sample.run_stop_reason()]), "{}: {run}", sample.name);
    check_history(&session, &sample).await;
    check_events(&session, &sample).await;

    assert_eq!(session.ask("And now?").await["output_text"], "Still here.", "{}", sample.name);
    if !sample.kept().is_empty() {
        let text = stored_text(&session, 2).await;
        let echoed = format!(r#"{{"role":"assistant","content":{text}}}"#);
        let last = app.upstream().text(app.upstream().len() - 1);
        assert!(last.contains(&echoed), "{}: {echoed} is not in {last}", sample.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_recorded_stream_is_stored_published_and_sent_back() {
    // The thinking of a local server has no signature. Other servers do not accept it back.
    let samples = Sample::all().into_iter().filter(|sample| !sample.name.starts_with("28_"));
    let samples: Vec<Sample> = samples.collect();
    assert_eq!(samples.len(), 29);
    let mut samples = samples.into_iter().peekable();
    while samples.peek().is_some() {
        join_all(samples.by_ref().take(6).map(play)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn thinking_without_a_signature_is_stored_unchanged() {
    let samples = Sample::all();
    let sample = samples.iter().find(|sample| sample.name.starts_with("28_")).unwrap();
    let app = TestApp::start(plays(sample)).await;
    let session = app.session().await;
    let run = session.ask("play").await;
    check_history(&session, sample).await;
    // The server that sent it accepts it back. The server that the simulator imitates does not, and
    // receives the history without it.
    assert_eq!(run["status"], "completed");
    let refused = "messages.1.content.0.thinking.signature: Field required";
    app.end_refused(&[refused]);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_blocks_are_sent_back_in_the_same_order() {
    let mut blocks = json!([
        { "type": "container_upload", "file_id": "file_011" },
        { "type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {} },
        { "type": "code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": {
            "type": "code_execution_result", "stdout": "", "stderr": "", "return_code": 0,
            "content": [{ "type": "code_execution_output", "file_id": "file_012" }] } },
        { "type": "mcp_tool_use", "id": "mcptoolu_1", "name": "a", "server_name": "b", "input": {} },
        { "type": "text", "text": "There it is." },
        { "type": "from_next_year", "of": { "b": 1, "a": [1e3] } },
    ]);
    let app = TestApp::start(replies(&[json!({ "content": blocks })])).await;
    let session = app.session().await;
    session.ask("Make a file").await;
    // The simulator adds this member where a script omits it.
    blocks[1]["caller"] = json!({ "type": "direct" });
    assert_eq!(session.history().await[1]["message"]["content"], blocks);
    session.ask("And another").await;
    assert_eq!(app.upstream().body(1)["messages"][1]["content"], blocks);
}
