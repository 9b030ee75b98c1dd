//! A minimal client for these tests: raw HTTP/1.1, and a parser of streams.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::{Options, Running, Script, Simulator};

/// Starts a simulator that plays `script` and records.
pub(super) async fn start(script: &Value) -> Running {
    let script = Script::from_json(&script.to_string()).unwrap();
    start_with(script, Options::recording()).await
}

pub(super) async fn start_with(script: Script, options: Options) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    Simulator::start(listener, script, options)
}

/// A script with one conversation for every text.
pub(super) fn script(replies: &Value) -> Value {
    json!({ "conversations": [{ "replies": replies }] })
}

pub(super) fn request(messages: &Value) -> Value {
    json!({
        "model": "simulator",
        "max_tokens": 1000,
        "tools": [{ "name": "read_file", "input_schema": { "type": "object" } }],
        "messages": messages,
    })
}

pub(super) fn streamed(mut body: Value) -> Value {
    body["stream"] = json!(true);
    body
}

/// A response; `complete` is true if the body ended as HTTP requires.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
    pub(super) chunks: Vec<String>,
    pub(super) complete: bool,
}

impl Reply {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

const KEY: &str = "x-api-key: k\r\nanthropic-version: 2023-06-01\r\n";

pub(super) async fn post_message(simulator: &Running, body: &Value) -> Reply {
    send(simulator, "POST /v1/messages", KEY, &body.to_string()).await
}

/// Sends a request with these beta features.
pub(super) async fn post_message_with(simulator: &Running, betas: &str, body: &Value) -> Reply {
    let headers = format!("{KEY}anthropic-beta: {betas}\r\n");
    send(simulator, "POST /v1/messages", &headers, &body.to_string()).await
}

pub(super) async fn send(simulator: &Running, route: &str, headers: &str, body: &str) -> Reply {
    let mut socket = open(simulator, route, headers, body).await;
    let mut bytes = Vec::new();
    let _ = socket.read_to_end(&mut bytes).await;
    parse(&String::from_utf8(bytes).unwrap())
}

pub(super) async fn get(simulator: &Running, path: &str) -> Reply {
    send(simulator, &format!("GET {path}"), KEY, "").await
}

pub(super) async fn open(simulator: &Running, route: &str, headers: &str, body: &str) -> TcpStream {
    let url = simulator.base_url();
    let mut socket = TcpStream::connect(url.strip_prefix("http://").unwrap()).await.unwrap();
    let length = body.len();
    let text = format!(
        "{route} HTTP/1.1\r\nhost: simulator\r\nconnection: close\r\ncontent-length: {length}\r\n\
         {headers}\r\n{body}"
    );
    socket.write_all(text.as_bytes()).await.unwrap();
    socket
}

pub(super) async fn open_stream(simulator: &Running, body: &Value) -> TcpStream {
    open(simulator, "POST /v1/messages", KEY, &body.to_string()).await
}

fn parse(text: &str) -> Reply {
    let (head, rest) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let lower = head.to_lowercase();
    let (chunks, complete) = if lower.contains("transfer-encoding: chunked") {
        dechunk(rest)
    } else {
        (vec![rest.to_owned()], lower.contains(&format!("content-length: {}", rest.len())))
    };
    Reply { status, head: lower, body: chunks.concat(), chunks, complete }
}

fn dechunk(mut rest: &str) -> (Vec<String>, bool) {
    let mut chunks = Vec::new();
    while let Some((size, tail)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return (chunks, true);
        }
        chunks.push(tail[..size].to_owned());
        rest = tail[size..].strip_prefix("\r\n").unwrap();
    }
    (chunks, false)
}

/// The events of a stream: name and data.
pub(super) fn events(body: &str) -> Vec<(String, Value)> {
    let event = |event: &str| {
        let (name, data) = event.split_once("\ndata: ").unwrap();
        let name = name.strip_prefix("event: ").unwrap().to_owned();
        (name, serde_json::from_str(data).unwrap())
    };
    body.split("\n\n").filter(|event| !event.is_empty()).map(event).collect()
}

/// The message that the events of a stream build, by the rules of the API.
pub(super) fn accumulate(body: &str) -> Value {
    let mut message = Value::Null;
    let mut inputs: Vec<String> = Vec::new();
    for (name, data) in events(body) {
        let at = usize::try_from(data["index"].as_u64().unwrap_or(0)).unwrap();
        match name.as_str() {
            "message_start" => message = data["message"].clone(),
            "content_block_start" => {
                let content = message["content"].as_array_mut().unwrap();
                content.push(data["content_block"].clone());
                inputs.push(String::new());
            }
            "content_block_delta" => {
                apply(&mut message["content"][at], &mut inputs[at], &data["delta"]);
            }
            "content_block_stop" if !inputs[at].is_empty() => {
                message["content"][at]["input"] =
                    serde_json::from_str(&inputs[at]).unwrap_or_else(|_| json!({}));
            }
            "message_delta" => {
                for part in ["delta", "usage"] {
                    for (field, value) in data[part].as_object().unwrap() {
                        let target =
                            if part == "usage" { &mut message["usage"] } else { &mut message };
                        target[field] = value.clone();
                    }
                }
                if let Some(report) = data.get("context_management") {
                    message["context_management"] = report.clone();
                }
            }
            _ => {}
        }
    }
    message
}

fn apply(block: &mut Value, input: &mut String, delta: &Value) {
    let text = |field: &str| delta[field].as_str().unwrap();
    let mut append = |field: &str| {
        block[field] = json!(format!("{}{}", block[field].as_str().unwrap(), text(field)));
    };
    match delta["type"].as_str().unwrap() {
        "text_delta" => append("text"),
        "thinking_delta" => append("thinking"),
        "compaction_delta" => block["content"] = delta["content"].clone(),
        "signature_delta" => block["signature"] = delta["signature"].clone(),
        "input_json_delta" => input.push_str(text("partial_json")),
        "citations_delta" => {
            block["citations"].as_array_mut().unwrap().push(delta["citation"].clone());
        }
        other => panic!("unexpected delta {other}"),
    }
}

/// Replaces every id of a message, call or request in `value` by its prefix.
pub(super) fn without_ids(value: &Value) -> Value {
    match value {
        Value::String(text) => match text.split_once("_01") {
            Some((prefix @ ("msg" | "toolu" | "srvtoolu" | "req"), _)) => json!(prefix),
            _ => value.clone(),
        },
        Value::Array(items) => items.iter().map(without_ids).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, field)| (key.clone(), without_ids(field))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}
