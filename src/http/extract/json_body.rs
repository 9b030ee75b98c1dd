//! JSON bodies, checked against their types.

use std::fmt;
use std::marker::PhantomData;

use axum::body::Bytes;
use axum::extract::{FromRef, FromRequest, Request};
use http::header::CONTENT_TYPE;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_path_to_error::{Path as JsonPath, Segment};

use crate::http::error::{ApiError, FieldError};
use crate::http::extract::body::{BodyLimits, is_json, read_body};

/// A JSON body. What does not fit its type is refused with a pointer to it.
#[derive(Debug)]
pub(in crate::http) struct JsonBody<T>(pub(in crate::http) T);

impl<S, T> FromRequest<S> for JsonBody<T>
where
    S: Send + Sync,
    T: DeserializeOwned,
    BodyLimits: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        if !is_json(request.headers()) {
            return Err(ApiError::UnsupportedMediaType);
        }
        let body = read_body(request, &BodyLimits::from_ref(state)).await?;
        parse(&body).map(Self)
    }
}

/// A JSON body that may be absent.
#[derive(Debug)]
pub(in crate::http) struct OptionalJsonBody<T>(pub(in crate::http) T);

impl<S, T> FromRequest<S> for OptionalJsonBody<T>
where
    S: Send + Sync,
    T: DeserializeOwned + Default,
    BodyLimits: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let body = optional(request, &BodyLimits::from_ref(state)).await?;
        Ok(Self(body.map(|body| parse(&body)).transpose()?.unwrap_or_default()))
    }
}

/// The whole of a JSON body, if there is one.
pub(in crate::http) async fn optional(
    request: Request,
    limits: &BodyLimits,
) -> Result<Option<Bytes>, ApiError> {
    let has_type = request.headers().contains_key(CONTENT_TYPE);
    let is_json = is_json(request.headers());
    let body = read_body(request, limits).await?;
    match (body.is_empty(), has_type && !is_json) {
        (true, _) => Ok(None),
        (false, true) => Err(ApiError::UnsupportedMediaType),
        (false, false) => Ok(Some(body)),
    }
}

pub(in crate::http) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
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
pub(in crate::http) struct Object<T>(pub(in crate::http) T);

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
pub(in crate::http) fn object<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Object::deserialize(deserializer).map(|Object(value)| value)
}

/// Reads a member that must be a list of objects.
pub(in crate::http) fn objects<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let list = Vec::<Object<T>>::deserialize(deserializer)?;
    Ok(list.into_iter().map(|Object(value)| value).collect())
}

/// The same of one that may be absent, which says another thing than an empty list.
pub(in crate::http) fn object_lists<'de, T, D>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    objects(deserializer).map(Some)
}

/// Reads a member that may be absent, and of which null is no value.
pub(in crate::http) fn there<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// Reads a member of which null says another thing than its absence.
#[expect(clippy::option_option, reason = "null is another thing than nothing")]
pub(in crate::http) fn given<'de, T, D>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::deserialize(deserializer).map(Some)
}

pub(in crate::http) fn without_position(message: &str) -> String {
    message.split(" at line ").next().unwrap_or(message).to_owned()
}

pub(in crate::http) fn pointer(path: &JsonPath) -> String {
    path.iter()
        .map(|segment| match segment {
            Segment::Seq { index } => format!("/{index}"),
            Segment::Map { key } => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
            Segment::Enum { .. } | Segment::Unknown => String::new(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
