//! Parsing the lines of an export.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::super::export::VERSION;
use crate::domain::message::Role;
use crate::domain::usage::Usage;
use crate::service::error::Error;
use crate::service::json::{object, parse};
use crate::service::session_settings::CreateSession;

/// The content of an export.
pub(super) struct ExportLines {
    pub(super) settings: CreateSession,
    pub(super) messages: Vec<MessageLine>,
}

/// A line with a message.
pub(super) struct MessageLine {
    /// The JSON pointer to the line, such as `/lines/2`.
    pub(super) pointer: String,
    pub(super) item: ExportedItem,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HeaderLine {
    r#type: String,
    version: u32,
    #[serde(rename = "session_id")]
    _session_id: Option<IgnoredAny>,
    #[serde(rename = "created_at")]
    _created_at: Option<IgnoredAny>,
    #[serde(deserialize_with = "object")]
    settings: CreateSession,
}

/// A message of the history in the form of `GET …/messages`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportedItem {
    pub(super) r#type: Role,
    #[serde(rename = "session_id")]
    _session_id: Option<IgnoredAny>,
    pub(super) seq: i32,
    pub(super) run_id: String,
    #[serde(rename = "created_at")]
    _created_at: Option<IgnoredAny>,
    /// It was given on a reply of another session.
    #[serde(rename = "feedback")]
    _feedback: Option<IgnoredAny>,
    #[serde(deserialize_with = "object")]
    pub(super) message: ExportedMessage,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportedMessage {
    pub(super) id: String,
    pub(super) role: Role,
    pub(super) content: Box<RawValue>,
    pub(super) model: Option<String>,
    pub(super) stop_reason: Option<String>,
    pub(super) stop_sequence: Option<String>,
    pub(super) interrupted: Option<bool>,
    pub(super) usage: Option<Usage>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EndLine {
    r#type: String,
    messages: usize,
}

fn read<T: serde::de::DeserializeOwned>(line: &[u8], pointer: &str) -> Result<T, Error> {
    parse(line).map_err(|error| {
        if let Error::BadJson(cause) = error {
            return Error::field(pointer, format!("is not JSON: {cause}"));
        }
        error.under(pointer)
    })
}

impl ExportLines {
    /// Parses the lines of an export. Each error has a pointer to its line, counted from 1.
    pub(super) fn parse(body: &[u8]) -> Result<Self, Error> {
        let body = body.strip_suffix(b"\n").unwrap_or(body);
        let mut lines = (1..).zip(body.split(|byte| *byte == b'\n'));
        let Some((_, header)) = lines.next() else {
            return Err(Error::field("/lines/1", "is missing"));
        };
        let header: HeaderLine = read(header, "/lines/1")?;
        if header.r#type != "session" {
            return Err(Error::field("/lines/1/type", "is not session"));
        }
        if header.version != VERSION {
            let message = format!("is not {VERSION}, the only version that this service supports");
            return Err(Error::field("/lines/1/version", message));
        }
        let mut lines: Vec<(usize, &[u8])> = lines.collect();
        let Some((number, end)) = lines.pop() else {
            return Err(Error::field("/lines/1", "is the only line: the export is truncated"));
        };
        check_end(end, number, lines.len())?;
        let message = |(number, line): (usize, &[u8])| {
            let pointer = format!("/lines/{number}");
            read(line, &pointer).map(|item| MessageLine { pointer, item })
        };
        let messages = lines.into_iter().map(message).collect::<Result<_, _>>()?;
        Ok(Self { settings: header.settings, messages })
    }
}

/// Checks the last line of an export with this number of messages.
fn check_end(line: &[u8], number: usize, messages: usize) -> Result<(), Error> {
    let pointer = format!("/lines/{number}");
    let end: EndLine = read(line, &pointer).map_err(|_| {
        Error::field(&pointer, "is not the line of type end: the export is truncated")
    })?;
    if end.r#type != "end" {
        return Err(Error::field(&format!("{pointer}/type"), "is not end"));
    }
    if end.messages != messages {
        let message = format!("is not {messages}, the number of lines with messages");
        return Err(Error::field(&format!("{pointer}/messages"), message));
    }
    Ok(())
}
