//! The lines of an export, each by itself.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::domain::message::Role;
use crate::domain::usage::Usage;
use crate::http::error::{ApiError, FieldError};
use crate::http::extract::json_body::{object, parse};
use crate::http::routes::session_export::VERSION;
use crate::http::routes::sessions::CreateSession;

/// What an export says.
pub(super) struct Lines {
    pub(super) settings: CreateSession,
    /// The messages, with the pointers to their lines.
    pub(super) items: Vec<(String, Item)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct First {
    r#type: String,
    version: u32,
    #[serde(rename = "session_id")]
    _session_id: Option<IgnoredAny>,
    #[serde(rename = "created_at")]
    _created_at: Option<IgnoredAny>,
    #[serde(deserialize_with = "object")]
    settings: CreateSession,
}

/// A message of the history, as lists show it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Item {
    pub(super) r#type: Role,
    #[serde(rename = "session_id")]
    _session_id: Option<IgnoredAny>,
    pub(super) seq: i32,
    pub(super) run_id: String,
    #[serde(rename = "created_at")]
    _created_at: Option<IgnoredAny>,
    #[serde(deserialize_with = "object")]
    pub(super) message: ItemMessage,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ItemMessage {
    pub(super) id: String,
    pub(super) role: Role,
    pub(super) content: Box<RawValue>,
    pub(super) model: Option<String>,
    pub(super) stop_reason: Option<String>,
    pub(super) usage: Option<Usage>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Last {
    r#type: String,
    messages: usize,
}

/// One wrong place.
pub(super) fn wrong(pointer: impl Into<String>, message: impl Into<String>) -> FieldError {
    FieldError { pointer: pointer.into(), message: message.into() }
}

fn read<T: serde::de::DeserializeOwned>(line: &[u8], at: &str) -> Result<T, ApiError> {
    parse(line).map_err(|error| {
        if let ApiError::BadJson(cause) = error {
            return ApiError::field(at, format!("is not JSON: {cause}"));
        }
        error.beneath(at)
    })
}

impl Lines {
    pub(super) fn read(body: &[u8]) -> Result<Self, ApiError> {
        let body = body.strip_suffix(b"\n").unwrap_or(body);
        let mut lines = (1..).zip(body.split(|byte| *byte == b'\n'));
        let Some((_, first)) = lines.next() else {
            return Err(ApiError::field("/lines/1", "is missing"));
        };
        let first: First = read(first, "/lines/1")?;
        if first.r#type != "session" {
            return Err(ApiError::field("/lines/1/type", "is not session"));
        }
        if first.version != VERSION {
            let message = format!("is not {VERSION}, which is all that this service knows");
            return Err(ApiError::field("/lines/1/version", message));
        }
        let mut lines: Vec<(usize, &[u8])> = lines.collect();
        let Some((number, last)) = lines.pop() else {
            return Err(ApiError::field("/lines/1", "is all that there is: the rest was cut"));
        };
        let at = format!("/lines/{number}");
        let last: Last = read(last, &at)
            .map_err(|_| ApiError::field(&at, "is not the line of type end: the export was cut"))?;
        if last.r#type != "end" {
            return Err(ApiError::field(&format!("{at}/type"), "is not end"));
        }
        if last.messages != lines.len() {
            let message = format!("is not {}, the number of lines with messages", lines.len());
            return Err(ApiError::field(&format!("{at}/messages"), message));
        }
        let item = |(number, line): (usize, &[u8])| {
            let at = format!("/lines/{number}");
            read(line, &at).map(|item| (at, item))
        };
        let items = lines.into_iter().map(item).collect::<Result<_, _>>()?;
        Ok(Self { settings: first.settings, items })
    }
}
