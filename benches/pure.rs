//! Measures the parts without IO with criterion: `cargo bench --bench pure`.

use std::hint::black_box;

use anyhow::Context as _;
use criterion::{BenchmarkId, Criterion, Throughput};
use serde_json::json;
use serde_json::value::RawValue;
use twostep::agent::repair::{Line, repair};
use twostep::agent::{AgentLoop, Bounds};
use twostep::domain::event::{EventBody, Frame, NewEvent, Stamp};
use twostep::domain::ids::{RunId, SessionId};
use twostep::domain::limits::Limits;
use twostep::domain::message::{Content, Message, Role};
use twostep::domain::prefix::Chain;
use twostep::domain::prompt_cache::CacheTtl;
use twostep::domain::session::Settings;
use twostep::domain::stop_reason::ModelStop;
use twostep::domain::tool::ToolChoice;
use twostep::domain::usage::Usage;
use twostep::model::Messages;
use twostep::model::anthropic::{Head, body};
use twostep::telemetry::{Form, Redactor};

const TEXT: &str = "Something that was said before, and that is about as long as what people say \
    and hear when they talk of files and dates.";

fn main() -> anyhow::Result<()> {
    let mut criterion = Criterion::default().configure_from_args();
    request_bodies(&mut criterion)?;
    event_frames(&mut criterion)?;
    resuming(&mut criterion)?;
    checking(&mut criterion)?;
    redacting(&mut criterion)?;
    criterion.final_summary();
    Ok(())
}

/// Builds the body of a request from the bytes of its messages, and adds the newest message to the
/// hash chain.
fn request_bodies(criterion: &mut Criterion) -> anyhow::Result<()> {
    let settings = Settings {
        model: "claude-bench".to_owned(),
        max_tokens: 8192,
        system: TEXT.repeat(5).into(),
        tools: RawValue::from_string(
            json!([{ "name": "read_file", "description": TEXT, "input_schema": {} }]).to_string(),
        )?,
        ..Settings::default()
    };
    let head = Head::new(&settings, None, Some(CacheTtl::FiveMinutes), None)?;
    let mut group = criterion.benchmark_group("request_body");
    for messages in [10, 100, 1_000, 5_000] {
        let content = json!([{ "type": "text", "text": TEXT }]);
        let message = json!({ "role": "user", "content": content }).to_string();
        let mut chain = Chain::default();
        for _ in 1..messages {
            chain.push(&message);
        }
        let position = chain.position();
        let transcript = vec![message.clone(); messages].join(",");
        let length = body(&head, whole(&transcript), &ToolChoice::AUTO).len();
        group.throughput(Throughput::Bytes(length.try_into()?));
        group.bench_with_input(
            BenchmarkId::from_parameter(messages),
            &transcript,
            |bencher, transcript| {
                bencher.iter(|| {
                    let _ = chain.truncate(position.clone());
                    chain.push(black_box(&message));
                    let messages = black_box(whole(transcript));
                    (body(black_box(&head), messages, &ToolChoice::AUTO), chain.last())
                });
            },
        );
    }
    group.finish();
    Ok(())
}

fn whole(text: &str) -> Messages<'_> {
    Messages { text, far_breakpoint: None, is_compacted: false, container: None }
}

/// Formats an event from its body to the SSE frame.
fn event_frames(criterion: &mut Criterion) -> anyhow::Result<()> {
    let stamp = Stamp {
        session_id: SessionId::new(),
        run_id: Some(RunId::new()),
        seq: 1234,
        created_at: jiff::Timestamp::now(),
    };
    let mut group = criterion.benchmark_group("event");
    for length in [100, 10_000] {
        let text: String = TEXT.chars().cycle().take(length).collect();
        let content = Content::text(&text)?;
        let message = EventBody::AgentMessage { content, interrupted: false, message_id: None };
        let event = NewEvent::new(&message);
        group.throughput(Throughput::Bytes(event.body.len().try_into()?));
        group.bench_function(BenchmarkId::new("body", length), |bencher| {
            bencher.iter(|| NewEvent::new(black_box(&message)));
        });
        group.bench_function(BenchmarkId::new("frame", length), |bencher| {
            bencher.iter(|| {
                let NewEvent { id, kind, body } = black_box(&event);
                Frame::encode(id.clone(), (*kind).to_owned(), body, &stamp)
            });
        });
    }
    group.finish();
    Ok(())
}

/// Derives the state of a run from its stored messages.
fn resuming(criterion: &mut Criterion) -> anyhow::Result<()> {
    let messages = rounds(50)?;
    let limits = Limits { rounds: Some(Limits::MAX_ROUNDS), ..Limits::default() };
    let bounds = Bounds::new(&limits, None);
    AgentLoop::resume(&messages, bounds).context("the messages of the benchmark")?;
    let bytes: usize = messages.iter().map(|message| message.content.as_str().len()).sum();
    let mut group = criterion.benchmark_group("agent_loop");
    group.throughput(Throughput::Bytes(bytes.try_into()?));
    group.bench_function("resume_100_messages", |bencher| {
        bencher.iter(|| AgentLoop::resume(black_box(&messages), bounds));
    });
    group.finish();
    Ok(())
}

/// Validates a history from the database, next to the copy that is made of it in any case.
fn checking(criterion: &mut Criterion) -> anyhow::Result<()> {
    let called = rounds(2_500)?;
    let said: Vec<Message> = (0..2_500)
        .flat_map(|_| [(Role::User, None), (Role::Assistant, Some(ModelStop::EndTurn))])
        .map(|(role, stop)| message(role, &json!([{ "type": "text", "text": TEXT }]), stop))
        .collect::<anyhow::Result<_>>()?;
    let mut group = criterion.benchmark_group("history_of_5000");
    for (name, messages) in [("said", said), ("called", called)] {
        let line = |message| {
            let Message { role, content, .. }: &Message = message;
            Line::stored(*role, content.as_str())
        };
        let lines: Vec<Line<'_>> = messages.iter().map(line).collect();
        let bytes: usize = lines.iter().map(|line| line.content.len()).sum();
        group.throughput(Throughput::Bytes(bytes.try_into()?));
        group.bench_function(BenchmarkId::new("check", name), |bencher| {
            bencher.iter(|| repair(black_box(&lines), true));
        });
        group.bench_function(BenchmarkId::new("copy", name), |bencher| {
            bencher.iter(|| {
                let contents = black_box(&lines).iter().map(|line| line.content.as_ref());
                contents.collect::<Vec<_>>().join(",")
            });
        });
    }
    group.finish();
    Ok(())
}

/// Redacts secrets in log lines.
fn redacting(criterion: &mut Criterion) -> anyhow::Result<()> {
    let secrets = ["sk-ant-api03-0123456789abcdefghij", "a password of the database"];
    let redactor = Redactor::new(secrets.into_iter(), Form::Json)?;
    let usual = r#"{"timestamp":"2026-11-22T17:18:57.123456Z","level":"INFO","message":"answered",
        "status":200,"duration_ms":3,"span":{"http.method":"POST","http.path":"/v1/sessions/x",
        "request.id":"req_01a20090ea3376d5bd93702259ddc48b","name":"http.request"}}"#;
    let with_url = usual.replace("/v1/", "https://me:pass@api.example/v1/");
    let with_key = usual.replace("answered", "Bearer sk-ant-api03-0123456789abcdefghij");
    let mut group = criterion.benchmark_group("log_line");
    for (name, line) in [("usual", usual), ("with_url", &with_url), ("with_key", &with_key)] {
        group.throughput(Throughput::Bytes(line.len().try_into()?));
        group.bench_function(BenchmarkId::new("redact", name), |bencher| {
            bencher.iter(|| redactor.redact(black_box(line.as_bytes())).len());
        });
    }
    group.finish();
    Ok(())
}

/// A user message, followed by calls and their results.
fn rounds(count: usize) -> anyhow::Result<Vec<Message>> {
    let mut messages = Vec::new();
    for round in 0..count {
        let id = format!("toolu_{round}");
        let asked = match round {
            0 => json!([{ "type": "text", "text": TEXT }]),
            _ => json!([{ "type": "tool_result", "tool_use_id": id, "content": TEXT }]),
        };
        let id = format!("toolu_{}", round + 1);
        let called = json!([
            { "type": "text", "text": "I will look." },
            { "type": "tool_use", "id": id, "name": "read_file", "input": { "path": "a.txt" } },
        ]);
        messages.push(message(Role::User, &asked, None)?);
        messages.push(message(Role::Assistant, &called, Some(ModelStop::ToolUse))?);
    }
    Ok(messages)
}

fn message(
    role: Role,
    content: &serde_json::Value,
    stop_reason: Option<ModelStop>,
) -> anyhow::Result<Message> {
    Ok(Message {
        role,
        content: Content::parse(content.to_string())?,
        stop_reason,
        usage: Usage::default(),
    })
}
