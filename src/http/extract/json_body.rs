//! JSON bodies, checked against their types.

use axum::body::Bytes;
use axum::extract::{FromRef, FromRequest, Request};
use http::header::CONTENT_TYPE;
use serde::de::DeserializeOwned;

use crate::http::error::ApiError;
use crate::http::extract::body::{BodyLimits, check_json, read_body};
use crate::service::json::parse;

/// A JSON body. A member that does not match the type is refused with a pointer to it.
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
        check_json(request.headers())?;
        let body = read_body(request, &BodyLimits::from_ref(state)).await?;
        Ok(Self(parse(&body)?))
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
    let checked = if has_type { check_json(request.headers()) } else { Ok(()) };
    let body = read_body(request, limits).await?;
    if body.is_empty() {
        return Ok(None);
    }
    checked.map(|()| Some(body))
}
