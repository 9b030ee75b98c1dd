//! Errors that the gateways of the clouds report before a request reaches the Messages API.

use serde::Deserialize;

use crate::model::error::ErrorKind;
use crate::model::http::ErrorReport;

/// `{"message": "…"}` of AWS, `{"error": {"message": "…"}}` of Google.
#[derive(Deserialize)]
struct Body {
    #[serde(alias = "Message")]
    message: Option<String>,
    error: Option<Fields>,
}

#[derive(Deserialize)]
struct Fields {
    message: String,
}

/// The list with one error that Google returns instead of a stream, or the error.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrList {
    List(Vec<Body>),
    One(Body),
}

/// Parses the body of an error response with this status.
pub(in crate::model::anthropic) fn read(status: u16, body: &[u8]) -> Option<ErrorReport> {
    let body = match serde_json::from_slice(body).ok()? {
        OneOrList::List(list) => list.into_iter().next()?,
        OneOrList::One(body) => body,
    };
    let message = body.message.or(body.error.map(|error| error.message))?;
    Some(ErrorReport { kind: kind(status, &message), message, paths: Box::default() })
}

/// AWS answers requests with wrong credentials with 403, as it does those without permission.
fn kind(status: u16, message: &str) -> ErrorKind {
    let message = message.to_ascii_lowercase();
    let names_credentials =
        ["credential", "security token", "signature", "api key", "bearer token"]
            .iter()
            .any(|credential| message.contains(credential));
    if status == 403 && names_credentials {
        return ErrorKind::Authentication;
    }
    ErrorKind::of_status(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_errors_of_both_clouds_are_parsed() {
        let read = |status, body: &str| {
            read(status, body.as_bytes()).map(|report| (report.kind, report.message))
        };
        let expired = "The security token included in the request is expired";
        for (status, body, kind) in [
            (403, format!(r#"{{"message":"{expired}"}}"#), ErrorKind::Authentication),
            (403, format!(r#"{{"Message":"{expired}"}}"#), ErrorKind::Authentication),
            (
                401,
                format!(
                    r#"[{{"error":{{"code":401,"message":"{expired}","status":"UNAUTHENTICATED",
                        "details":[]}}}}]"#
                ),
                ErrorKind::Authentication,
            ),
            (429, format!(r#"{{"error":{{"message":"{expired}"}}}}"#), ErrorKind::RateLimit),
        ] {
            assert_eq!(read(status, &body), Some((kind, expired.to_owned())), "{body}");
        }
        let denied = read(403, r#"{"message":"User is not authorized to perform: bedrock"}"#);
        assert_eq!(denied.map(|(kind, _)| kind), Some(ErrorKind::Permission));
        assert_eq!(read(502, "<html>"), None);
        assert_eq!(read(500, "{}"), None);
    }
}
