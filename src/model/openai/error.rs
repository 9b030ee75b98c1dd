//! Parses the various error formats of servers of both protocols.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::decode::lenient;
use crate::model::error::ErrorKind;
use crate::model::http::ErrorReport;

/// `{"error": {…}}`, `{"error": "…"}`, or the members of the error at the top level.
#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct Fields {
    #[serde(default, deserialize_with = "lenient")]
    message: Option<String>,
    #[serde(default, rename = "type", deserialize_with = "lenient")]
    kind: Option<String>,
    /// The path of the invalid member.
    #[serde(default, deserialize_with = "lenient")]
    param: Option<String>,
    /// A name or an HTTP status.
    #[serde(default)]
    code: Value,
}

/// Parts of the messages of servers that refuse a request because it does not fit into the context
/// window, and whose code does not say so: `OpenAI` and vLLM, `OpenAI`'s Responses, `OpenRouter`, Gemini,
/// llama.cpp.
const TOO_LONG: [&str; 4] = [
    "maximum context length",
    "exceeds the context window",
    "exceeds the maximum number of tokens allowed",
    "exceeds the available context size",
];

/// Parses the body of an error response.
pub(super) fn read(status: u16, body: &[u8]) -> Option<ErrorReport> {
    parse(Some(status), std::str::from_utf8(body).ok()?)
}

/// Parses an error inside a stream.
pub(super) fn read_in_stream(data: &str) -> ErrorReport {
    parse(None, data).unwrap_or_else(|| report(ErrorKind::Api, "no readable error".to_owned()))
}

fn report(kind: ErrorKind, message: String) -> ErrorReport {
    ErrorReport { kind, message, paths: Box::default() }
}

fn parse(status: Option<u16>, json: &str) -> Option<ErrorReport> {
    let body: Body<'_> = serde_json::from_str(json).ok()?;
    let inner = body.error.map_or(json, RawValue::get);
    if let Ok(message) = serde_json::from_str::<String>(inner) {
        return Some(report(status.map_or(ErrorKind::Api, ErrorKind::of_status), message));
    }
    let fields: Fields = serde_json::from_str(inner).ok()?;
    let kind = fields.kind(status);
    let paths = fields.param.into_iter().collect();
    Some(ErrorReport { kind, message: fields.message.unwrap_or_default(), paths })
}

impl Fields {
    /// The error type. An account without credit is recognized by its error code, everything else
    /// preferably by the status, because the names differ between servers.
    fn kind(&self, status: Option<u16>) -> ErrorKind {
        let code = self.code.as_str();
        let words = [code, self.kind.as_deref()];
        let is = |known: &[&str]| words.iter().flatten().any(|word| known.contains(word));
        if is(&["insufficient_quota", "billing_hard_limit_reached"]) {
            return ErrorKind::Billing;
        }
        let message = self.message.as_deref().unwrap_or_default();
        if is(&["context_length_exceeded", "exceed_context_size_error"])
            || TOO_LONG.iter().any(|words| message.contains(words))
        {
            return ErrorKind::RequestTooLarge;
        }
        let code_status = self.code.as_u64().and_then(|code| u16::try_from(code).ok());
        if let Some(status) = status.or(code_status).filter(|status| *status >= 400) {
            return ErrorKind::of_status(status);
        }
        if is(&["rate_limit_exceeded", "rate_limit_error", "requests", "tokens"]) {
            return ErrorKind::RateLimit;
        }
        if is(&["server_error", "internal_server_error", "api_error", "InternalServerError"]) {
            return ErrorKind::Api;
        }
        if is(&["overloaded_error", "unavailable_error", "service_unavailable"])
            || is(&["server_is_overloaded", "slow_down"])
        {
            return ErrorKind::Overloaded;
        }
        // Codes of Responses, whose errors inside the stream have no type.
        let is_about = |part: &str| code.is_some_and(|code| code.contains(part));
        if is(&["invalid_prompt"]) || is_about("image") || is_about("policy") {
            return ErrorKind::InvalidRequest;
        }
        // The type of an event is not that of its error.
        match self.kind.as_deref().filter(|kind| *kind != "error").or(code) {
            Some(word) => ErrorKind::parse(word, None),
            None => ErrorKind::Api,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(ErrorReport { kind, message, .. }: ErrorReport) -> (ErrorKind, String) {
        (kind, message)
    }

    #[test]
    fn every_known_error_format_is_parsed() {
        let table = [
            (r#"{"error":{"message":"m","type":"server_error","code":null}}"#, ErrorKind::Api),
            (
                r#"{"error":{"message":"m","type":"tokens","code":"rate_limit_exceeded"}}"#,
                ErrorKind::RateLimit,
            ),
            (r#"{"error":{"message":"m","code":503}}"#, ErrorKind::Api),
            (r#"{"error":{"message":"m","code":429}}"#, ErrorKind::RateLimit),
            (r#"{"error":"m"}"#, ErrorKind::Api),
            (
                r#"{"object":"error","message":"m","type":"BadRequestError","code":400}"#,
                ErrorKind::InvalidRequest,
            ),
            (
                r#"{"error":{"message":"m","type":"invalid_request_error",
                    "code":"context_length_exceeded"}}"#,
                ErrorKind::RequestTooLarge,
            ),
            (
                r#"{"error":{"message":"m","type":"exceed_context_size_error","code":400}}"#,
                ErrorKind::RequestTooLarge,
            ),
            (r#"{"error":{"message":"m","type":"odd"}}"#, ErrorKind::Other("odd".to_owned())),
        ];
        for (data, kind) in table {
            assert_eq!(parsed(read_in_stream(data)), (kind, "m".to_owned()), "{data}");
        }
        assert_eq!(read_in_stream("{").kind, ErrorKind::Api);
    }

    #[test]
    fn the_status_decides_except_for_an_account_without_credit() {
        let quota = br#"{"error":{"message":"m","type":"insufficient_quota","code":null}}"#;
        let other = br#"{"error":{"message":"m","type":"odd","code":"odd"}}"#;
        let read = |status, body| read(status, body).map(parsed);
        assert_eq!(read(429, quota), Some((ErrorKind::Billing, "m".to_owned())));
        assert_eq!(read(429, other), Some((ErrorKind::RateLimit, "m".to_owned())));
        for message in TOO_LONG {
            let body = format!(r#"{{"error":{{"message":"It {message} of 8."}}}}"#);
            let kind = super::read(400, body.as_bytes()).map(|report| report.kind);
            assert_eq!(kind, Some(ErrorKind::RequestTooLarge), "{message}");
        }
        assert_eq!(read(404, other), Some((ErrorKind::NotFound, "m".to_owned())));
        assert_eq!(read(502, b"<html>"), None);
    }
}
