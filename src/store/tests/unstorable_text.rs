//! Text that Postgres refuses: NUL, and lone surrogates in raw JSON. Every member of a step that
//! holds text is stored with replacements, whatever the text.

use proptest::collection::vec;
use proptest::sample::select;
use proptest::strategy::{Strategy, ValueTree as _};
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::step_columns::request;
use super::*;
use crate::domain::context::Compaction;
use crate::domain::model_try::ModelTry;
use crate::domain::outcome::{ErrorType, RunError};
use crate::domain::request::RequestRecord;
use crate::domain::sampling::SamplingRequest;
use crate::domain::source::Source;
use crate::domain::state_change::{StateChange, Todo, TodoStatus};
use crate::domain::stop_reason::Refusal;
use crate::domain::storable::{storable_json, storable_text};
use crate::domain::sub_agent::StartedSubAgent;
use crate::store::sub_agents::SubAgentRow;

/// Number of random steps.
const CASES: usize = 16;

/// A text and a raw JSON string of random parts.
#[derive(Debug)]
struct Texts {
    text: String,
    json: String,
}

fn texts() -> impl Strategy<Value = Texts> {
    let texts =
        ["a", "\0", "\u{1}", "\u{1f}", "\u{7f}", "\u{85}", "é", "😀", "\u{ffff}", "\"", "\\", "\n"];
    let json = [
        "a",
        r"\u0000",
        r"\ud800",
        r"\uDC00",
        r"\ud83d\ude00",
        r"\u001f",
        r"\u007F",
        r"\\",
        r"\\u0000",
        r"\n",
        "é",
        "😀",
    ];
    (vec(select(texts.to_vec()), 0..12), vec(select(json.to_vec()), 0..12)).prop_map(
        |(text, json)| Texts { text: text.concat(), json: format!("\"{}\"", json.concat()) },
    )
}

impl Texts {
    fn text(&self) -> String {
        self.text.clone()
    }

    fn raw(&self) -> Box<RawValue> {
        RawValue::from_string(format!("{{{0}:[{0}]}}", self.json)).unwrap()
    }

    fn content(&self) -> Content {
        let text = Value::from(self.text.as_str());
        let blocks =
            format!(r#"[{{"type":"text","text":{text}}},{{"type":"x","a":{}}}]"#, self.json);
        Content::parse(blocks).unwrap()
    }

    fn stored(&self) -> String {
        storable_text(&self.text).into_owned()
    }

    fn events(&self) -> Vec<NewEvent> {
        let todos =
            vec![Todo { id: self.text(), content: self.text(), status: TodoStatus::Pending }];
        let bodies = [
            EventBody::UserMessage { content: self.content(), message_id: None, retry_of: None },
            EventBody::UserToolConfirmation {
                tool_use_id: self.text(),
                result: Decision::Deny,
                deny_message: Some(self.text()),
                input: Some(self.raw()),
            },
            EventBody::AgentThinking { content: self.content(), message_id: None },
            EventBody::AgentCustomToolUse {
                name: self.text(),
                input: self.raw(),
                message_id: None,
            },
            EventBody::Todos { todos },
            EventBody::ToolServerChanged {
                server: self.text(),
                added: vec![self.text()],
                removed: vec![self.text()],
                changed: vec![self.text()],
            },
            EventBody::ThreadEvent {
                session_thread_id: SessionId::new(),
                tool_use_id: self.text(),
                event: self.raw(),
            },
            EventBody::Error { error: self.error() },
            EventBody::ModelRequestStart { model: self.text(), tool_use_id: Some(self.text()) },
        ];
        let named = |body: &EventBody| {
            NewEvent::with_id(format!("{}{}", self.text, SessionId::new()), body)
        };
        bodies.iter().map(named).collect()
    }

    fn error(&self) -> RunError {
        RunError {
            r#type: ErrorType::InternalError,
            message: self.text(),
            reason: Some(self.text()),
            provider_message: Some(self.text()),
        }
    }

    fn request(&self) -> RequestRecord {
        let mut request = request();
        request.model = self.text();
        request.stop_reason = Some(self.text());
        request.error = Some(self.error());
        request.form.question = Some(SamplingRequest {
            tool_use_id: self.text(),
            system: Some(self.text()),
            prompt: self.text(),
            max_tokens: 1,
        });
        request.attempts = vec![ModelTry {
            started_at: jiff::Timestamp::UNIX_EPOCH,
            head_ms: None,
            duration_ms: 1,
            status: None,
            request_id: Some(self.text()),
            error: Some(self.text()),
            message: Some(self.text()),
        }];
        request
    }

    fn record(&self) -> CallRecord {
        CallRecord {
            result: Some(self.text()),
            change: Some(ChangeRecord {
                path: self.text(),
                before: None,
                after: b"after".to_vec(),
                result: self.text(),
            }),
            wait: Some(NewWait {
                awaits: Awaits::Approval,
                within: Duration::from_secs(1),
                reason: Some(self.text()),
                diff: Some(self.text()),
            }),
            sources: vec![Source { title: self.text(), url: Some(self.text()) }],
            ..CallRecord::new(&self.text, CallState::Done)
        }
    }

    fn state_changes(&self) -> Vec<StateChange> {
        let content = self.content().as_str().to_owned();
        vec![
            StateChange::FileRead { path: self.text(), hash: b"hash".to_vec() },
            StateChange::Todos(vec![Todo {
                id: self.text(),
                content: self.text(),
                status: TodoStatus::Completed,
            }]),
            StateChange::AnnouncedToolLists([(self.text(), self.text())].into()),
            StateChange::Compacted(Compaction {
                up_to: 1,
                content,
                tokens_before: 2,
                tokens_after: 1,
            }),
        ]
    }

    fn sub_agent(&self) -> SubAgentRow {
        let (session_id, run_id) = (SessionId::new(), RunId::new());
        SubAgentRow {
            sub_agent: StartedSubAgent { tool_use_id: self.text(), session_id, run_id },
            title: self.text(),
            settings: Settings {
                model: "m".into(),
                tools: RawValue::from_string("[]".into()).unwrap(),
                ..Settings::default()
            },
            prompt: self.text(),
            options: RunOptions::default(),
        }
    }
}

/// Commits two steps with these texts in all members, and compares what is stored.
async fn store_and_read(texts: &Texts) {
    let bed = bed().await;
    let run = bed.started().await;
    let reply = NewMessage {
        message_id: texts.text(),
        model: Some(texts.text()),
        message: Message {
            role: Role::Assistant,
            content: texts.content(),
            stop_reason: Some(ModelStop::Other(texts.text())),
            usage: Usage::default(),
        },
    };
    let planned = [ToolCall { tool_use_id: texts.text(), name: texts.text(), input: texts.raw() }];
    let (events, request) = (texts.events(), texts.request());
    let (messages, request) = (&[reply][..], Some(&request));
    let step = StepCommit {
        messages,
        planned: &planned,
        events: &events,
        request,
        ..StepCommit::default()
    };
    let mut conn = bed.pool.acquire().await.unwrap();
    let committed = commit(&mut conn, bed.session, run.fence, 0, &step).await.unwrap().unwrap();

    let range = EventRange { session_id: bed.session, run_id: None, after: 3, limit: 100 };
    let stored = events::list(&mut conn, range).await.unwrap();
    let bytes = |frames: &[crate::domain::event::Frame]| -> Vec<_> {
        frames.iter().map(crate::domain::event::Frame::sse).collect()
    };
    assert_eq!(bytes(&stored), bytes(&committed.frames), "{texts:?}");
    let content = messages::list_of_run(&mut conn, run.fence.run_id).await.unwrap();
    assert_eq!(content[1].message.content.as_str(), texts.content().as_str(), "{texts:?}");

    let (recorded, state_changes) = ([texts.record()], texts.state_changes());
    let sub_agents = [texts.sub_agent()];
    let refusal = Refusal { category: Some(texts.text()), explanation: Some(texts.text()) };
    let stop_reason = StopReason::Refusal(refusal);
    let outcome =
        Outcome { stop_reason, output_text: texts.text(), error: Some(texts.error()), ..outcome() };
    let step = StepCommit {
        recorded_message_seq: 2,
        recorded: &recorded,
        state_changes: &state_changes,
        sub_agents: &sub_agents,
        ..settling(&outcome)
    };
    commit(&mut conn, bed.session, run.fence, 1, &step).await.unwrap().unwrap();
    drop(conn);
    assert_stored(&bed, texts).await;
}

async fn assert_stored(bed: &Bed, texts: &Texts) {
    let call = "SELECT tool_use_id, name, result, change_path, change_result, wait_reason, diff,
                       sources FROM tool_calls";
    let stored = texts.stored();
    let expected = json!({ "tool_use_id": stored, "name": stored, "result": stored,
        "change_path": stored, "change_result": stored, "wait_reason": stored, "diff": stored,
        "sources": [{ "title": stored, "url": stored }] });
    assert_eq!(bed.row(call).await, expected, "{texts:?}");
    let message = "SELECT message_id, model, stop_reason FROM messages WHERE role = 'assistant'";
    let expected = json!({ "message_id": stored, "model": stored, "stop_reason": stored });
    assert_eq!(bed.row(message).await, expected, "{texts:?}");
    let request = "SELECT model, stop_reason, form -> 'question' AS question,
                          attempts -> 0 ->> 'error' AS error, error ->> 'message' AS message
                   FROM requests";
    let question =
        json!({ "tool_use_id": stored, "system": stored, "prompt": stored, "max_tokens": 1 });
    let expected = json!({ "model": stored, "stop_reason": stored, "question": question,
        "error": stored, "message": stored });
    assert_eq!(bed.row(request).await, expected, "{texts:?}");
    let session = "SELECT s.todos -> 0 ->> 'content' AS todo, s.told_servers AS lists, f.path,
                          r.outcome ->> 'output_text' AS answer,
                          s.stop_reason ->> 'explanation' AS explanation, c.title
                   FROM sessions s JOIN sessions c ON c.parent_session_id = s.id
                   JOIN runs r ON r.session_id = s.id JOIN seen_files f ON f.session_id = s.id";
    let expected = json!({ "todo": stored, "lists": { &stored: stored }, "path": stored,
        "answer": stored, "explanation": stored, "title": stored });
    assert_eq!(bed.row(session).await, expected, "{texts:?}");
    // As strict as Postgres can be.
    let readable = "SELECT count(body::jsonb) AS events FROM events";
    assert_eq!(bed.row(readable).await["events"], json!(bed.count("events").await));
}

#[tokio::test]
async fn a_step_with_any_text_in_any_member_is_stored_with_replacements() {
    let mut runner = TestRunner::default();
    let strategy = texts();
    let refused = Texts { text: "a\0b".into(), json: r#""\u0000 \ud800""#.into() };
    store_and_read(&refused).await;
    for _ in 0..CASES {
        let case = strategy.new_tree(&mut runner).unwrap().current();
        store_and_read(&case).await;
    }
}

#[test]
fn a_new_event_has_only_text_that_can_be_stored() {
    let texts = Texts { text: "a\0b".into(), json: r#""\u0000\ud800""#.into() };
    for event in texts.events() {
        assert_eq!(storable_text(&event.id), event.id);
        assert_eq!(storable_json(&event.body), event.body);
    }
}
