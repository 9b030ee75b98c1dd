//! What handlers take from a request, checked at the edge.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, IntoDeserializer as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_path_to_error::{Path as JsonPath, Segment};
use tokio::time::{sleep, timeout};

use super::error::{ApiError, FieldError};
use super::{Api, MAX_BODY};
use crate::domain::ids::{RunId, SessionId};

/// A JSON body. What does not fit its type is refused with a pointer to it.
#[derive(Debug)]
pub(super) struct JsonBody<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Api> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, api: &Api) -> Result<Self, ApiError> {
        if !is_json(request.headers()) {
            return Err(ApiError::UnsupportedMediaType);
        }
        let body = body(request, api).await?;
        parse(&body).map(Self)
    }
}

/// A JSON body that may be absent.
#[derive(Debug)]
pub(super) struct OptionalJsonBody<T>(pub(super) T);

impl<T: DeserializeOwned + Default> FromRequest<Api> for OptionalJsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, api: &Api) -> Result<Self, ApiError> {
        let has_type = request.headers().contains_key(CONTENT_TYPE);
        let is_json = is_json(request.headers());
        let body = body(request, api).await?;
        match (body.is_empty(), has_type && !is_json) {
            (true, _) => Ok(Self(T::default())),
            (false, true) => Err(ApiError::UnsupportedMediaType),
            (false, false) => parse(&body).map(Self),
        }
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

/// The whole body, if it comes in time.
async fn body(request: Request, api: &Api) -> Result<Bytes, ApiError> {
    let announced = request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if announced
        .and_then(|length| length.parse().ok())
        .is_some_and(|length: usize| length > MAX_BODY)
    {
        return Err(ApiError::BodyTooLarge(MAX_BODY));
    }
    let patience = api.options.timeouts.body;
    let read = Bytes::from_request(request, api);
    tokio::select! {
        read = timeout(patience, read) => {
            read.map_err(|_| ApiError::RequestTimeout(patience))?.map_err(body_error)
        }
        () = stops_soon(api) => Err(ApiError::Draining),
    }
}

/// Returns a moment after the service has begun to stop: for a body that is all but here.
async fn stops_soon(api: &Api) {
    api.draining.cancelled().await;
    sleep(Duration::from_secs(1)).await;
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err takes")]
fn body_error(rejection: BytesRejection) -> ApiError {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        return ApiError::BodyTooLarge(MAX_BODY);
    }
    ApiError::BodyIncomplete
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let read: Result<Object<T>, _> = serde_path_to_error::deserialize(&mut deserializer);
    let Object(value) = read.map_err(|error| {
        let pointer = pointer(error.path());
        let cause = error.into_inner();
        if cause.is_data() {
            let message = without_position(&cause.to_string());
            return ApiError::Validation(vec![FieldError { pointer, message }]);
        }
        ApiError::BadJson(cause.to_string())
    })?;
    deserializer.end().map_err(|error| ApiError::BadJson(error.to_string()))?;
    Ok(value)
}

/// An object and nothing else: serde would read an array as the members of a struct in their
/// order, which no client means.
#[derive(Debug)]
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }

        deserializer.deserialize_map(Members(PhantomData)).map(Self)
    }
}

/// Reads a member that must be an object.
pub(super) fn object<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Object::deserialize(deserializer).map(|Object(value)| value)
}

/// Reads a word of an enum. The enum itself takes every value that is no string for broken JSON.
pub(super) fn word<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(String::deserialize(deserializer)?.into_deserializer())
}

/// Reads a word of an enum, or none.
pub(super) fn words<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let word = Option::<String>::deserialize(deserializer)?;
    word.map(|word| T::deserialize(word.into_deserializer())).transpose()
}

fn without_position(message: &str) -> String {
    message.split(" at line ").next().unwrap_or(message).to_owned()
}

fn pointer(path: &JsonPath) -> String {
    path.iter()
        .map(|segment| match segment {
            Segment::Seq { index } => format!("/{index}"),
            Segment::Map { key } => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
            Segment::Enum { .. } | Segment::Unknown => String::new(),
        })
        .collect()
}

/// A query whose members are known.
#[derive(Debug)]
pub(super) struct Params<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Query(query) = Query::from_request_parts(parts, state)
            .await
            .map_err(|error| ApiError::InvalidQuery(error.body_text()))?;
        Ok(Self(query))
    }
}

/// The session that a path names. A text that is no id names a session that does not exist.
#[derive(Debug, Clone, Copy)]
pub(super) struct SessionPath(pub(super) SessionId);

/// The session and the run that a path names.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunPath(pub(super) SessionId, pub(super) RunId);

/// The session and the call that a path names.
#[derive(Debug, Clone)]
pub(super) struct CallPath(pub(super) SessionId, pub(super) String);

#[derive(Deserialize)]
#[expect(clippy::struct_field_names, reason = "these are the names in the paths")]
struct Names {
    session_id: String,
    run_id: Option<String>,
    tool_use_id: Option<String>,
}

impl Names {
    async fn of<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path(names) = Path::from_request_parts(parts, state)
            .await
            .map_err(|error| ApiError::NoRoute(error.body_text()))?;
        Ok(names)
    }

    fn session(&self) -> Result<SessionId, ApiError> {
        SessionId::from_str(&self.session_id)
            .map_err(|_| ApiError::SessionNotFound(self.session_id.clone()))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for SessionPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        Names::of(parts, state).await?.session().map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for RunPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let names = Names::of(parts, state).await?;
        let run = names.run_id.clone().unwrap_or_default();
        let run_id = RunId::from_str(&run).map_err(|_| ApiError::RunNotFound(run))?;
        Ok(Self(names.session()?, run_id))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for CallPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let names = Names::of(parts, state).await?;
        let call = names.tool_use_id.clone().unwrap_or_default();
        // What the database cannot hold names no call.
        if call.contains('\0') {
            return Err(ApiError::ApprovalNotFound(call));
        }
        Ok(Self(names.session()?, call))
    }
}

/// What a client wants to get back from a post.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A JSON document.
    Json,
    /// Server-sent events.
    EventStream,
}

impl Form {
    /// Reads `Accept`. A client that names nothing, or anything, gets JSON.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        let mut kinds = headers
            .get_all(http::header::ACCEPT)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .map(|kind| kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
            .filter(|kind| !kind.is_empty())
            .peekable();
        if kinds.peek().is_none() {
            return Ok(Self::Json);
        }
        let mut takes_json = false;
        for kind in kinds {
            match kind.as_str() {
                "text/event-stream" => return Ok(Self::EventStream),
                "*/*" | "application/*" | "application/json" => takes_json = true,
                _ => {}
            }
        }
        if takes_json { Ok(Self::Json) } else { Err(ApiError::NotAcceptable) }
    }
}

/// The seconds of `Prefer: wait=N` (RFC 7240), at most two minutes.
pub(super) fn wait_seconds(headers: &HeaderMap) -> Option<u64> {
    const MAX: u64 = 120;
    headers
        .get_all("prefer")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split([',', ';']))
        .find_map(|preference| preference.trim().strip_prefix("wait=")?.parse::<u64>().ok())
        .map(|seconds| seconds.min(MAX))
}

/// Where a stream goes on: `Last-Event-ID`, or else `?after=`.
pub(super) fn resume_after(headers: &HeaderMap, after: Option<i64>) -> Result<i64, ApiError> {
    let after = match headers.get("last-event-id") {
        Some(value) => {
            let text = value.to_str().unwrap_or_default();
            text.parse().map_err(|_| ApiError::InvalidCursor(text.to_owned()))?
        }
        None => after.unwrap_or(0),
    };
    if after < 0 {
        return Err(ApiError::InvalidCursor(after.to_string()));
    }
    Ok(after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body {
        #[serde(default)]
        _items: Vec<Item>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Item {
        _n: u8,
    }

    fn refused(body: &str) -> (String, String) {
        match parse::<Body>(body.as_bytes()) {
            Err(ApiError::Validation(mut errors)) => {
                let FieldError { pointer, message } = errors.remove(0);
                (pointer, message)
            }
            other => panic!("expected a validation error, got {other:?}"),
        }
    }

    #[test]
    fn an_unknown_member_is_pointed_at() {
        let (pointer, message) = refused(r#"{"_items":[{"_n":1},{"x/y":2}]}"#);
        assert_eq!(pointer, "/_items/1/x~1y");
        assert_eq!(message, "unknown field `x/y`, expected `_n`");
    }

    #[test]
    fn a_wrong_type_is_pointed_at() {
        let (pointer, message) = refused(r#"{"_items":[{"_n":"one"}]}"#);
        assert_eq!(pointer, "/_items/0/_n");
        assert_eq!(message, "invalid type: string \"one\", expected u8");
    }

    #[test]
    fn an_array_is_not_taken_for_an_object() {
        let (pointer, message) = refused("[[]]");
        assert_eq!(
            (pointer.as_str(), message.as_str()),
            ("", "invalid type: sequence, expected an object")
        );
    }

    #[test]
    fn what_is_not_json_is_told_apart() {
        for body in ["", "{", "{}x", "nope", "{\"\\ud800\":1}"] {
            assert!(matches!(parse::<Body>(body.as_bytes()), Err(ApiError::BadJson(_))), "{body}");
        }
    }

    #[test]
    fn the_accept_header_chooses_the_form() {
        let form = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("accept", HeaderValue::from_str(accept).unwrap());
            Form::of(&headers).ok()
        };
        assert_eq!(Form::of(&HeaderMap::new()).ok(), Some(Form::Json));
        assert_eq!(form("*/*"), Some(Form::Json));
        assert_eq!(form("application/json, text/event-stream;q=0.9"), Some(Form::EventStream));
        assert_eq!(form("text/html"), None);
    }

    #[test]
    fn a_preference_to_wait_is_read_and_bounded() {
        let wait = |prefer: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("prefer", HeaderValue::from_str(prefer).unwrap());
            wait_seconds(&headers)
        };
        assert_eq!(wait("wait=30"), Some(30));
        assert_eq!(wait("respond-async, wait=5"), Some(5));
        assert_eq!(wait("wait=99999"), Some(120));
        assert_eq!(wait("respond-async"), None);
    }
}
