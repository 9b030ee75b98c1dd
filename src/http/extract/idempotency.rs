//! Idempotency keys: a repeated request is recognized by its key and the fingerprint of its body.

use axum::body::Bytes;
use axum::extract::{FromRef, FromRequest, Request};
use axum::response::Response;
use http::HeaderValue;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::http::error::ApiError;
use crate::http::extract::body::BodyLimits;
use crate::http::extract::headers::idempotency_key;
use crate::http::extract::json_body::optional;
use crate::service::idempotency::IdempotencyKey;
use crate::service::json::parse;

/// An optional JSON body, and the idempotency key of the request, if there is one.
#[derive(Debug)]
pub(in crate::http) struct KeyedJsonBody<T>(
    pub(in crate::http) T,
    pub(in crate::http) Option<IdempotencyKey>,
);

impl<S, T> FromRequest<S> for KeyedJsonBody<T>
where
    S: Send + Sync,
    T: DeserializeOwned + Default,
    BodyLimits: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let key = idempotency_key(request.headers())?.map(str::to_owned);
        let body = optional(request, &BodyLimits::from_ref(state)).await?;
        let value = body.as_ref().map(|body| parse(body)).transpose()?.unwrap_or_default();
        let keyed = key.map(|key| IdempotencyKey { key, fingerprint: fingerprint(body.as_ref()) });
        Ok(Self(value, keyed))
    }
}

/// A hash of the JSON value of a body, independent of the order of members and of white space. An
/// absent body equals an empty object.
fn fingerprint(body: Option<&Bytes>) -> Vec<u8> {
    Sha256::digest(canonical(body.map_or(&b"{}"[..], |body| body))).to_vec()
}

/// JSON in a canonical form: sorted members, no white space.
pub(in crate::http) fn canonical(json: &[u8]) -> Vec<u8> {
    let canonical = serde_json::from_slice(json).map(|mut value: Value| {
        value.sort_all_objects();
        value.to_string().into_bytes()
    });
    // JSON that is nested too deep is used unchanged.
    canonical.unwrap_or_else(|_| json.to_vec())
}

/// Marks a response that belongs to an earlier request.
pub(in crate::http) fn mark_repeated(response: &mut Response, is_repeated: bool) {
    if is_repeated {
        let yes = HeaderValue::from_static("true");
        response.headers_mut().insert("idempotency-replayed", yes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_of_equal_json_have_equal_fingerprints() {
        let of = |body: &'static str| fingerprint(Some(&Bytes::from_static(body.as_bytes())));
        let first = of(r#"{"a":{"x":1,"y":[1,2]},"b":null}"#);
        assert_eq!(of("{ \"b\": null,\n \"a\": {\"y\": [1, 2], \"x\": 1} }"), first);
        for other in [r#"{"a":{"x":1,"y":[2,1]},"b":null}"#, r#"{"a":{"x":1,"y":[1,2]}}"#, "{}"] {
            assert_ne!(of(other), first, "{other}");
        }
        assert_eq!(fingerprint(None), of("{}"));
        let deep = |letter: &str| {
            let text = format!("{}{letter}{}", "[".repeat(200), "]".repeat(200));
            fingerprint(Some(&Bytes::from(text)))
        };
        assert_ne!(deep("1"), deep("2"));
    }
}
