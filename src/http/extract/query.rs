//! Extractor of the query parameters of a request.

use axum::extract::{FromRequestParts, Query};
use http::Uri;
use http::request::Parts;
use serde::de::DeserializeOwned;

use crate::http::error::ApiError;

/// The query parameters as a struct.
#[derive(Debug)]
pub(in crate::http) struct Params<T>(pub(in crate::http) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Query(query) = Query::from_request_parts(parts, state)
            .await
            .map_err(|error| ApiError::InvalidQuery(error.body_text()))?;
        Ok(Self(query))
    }
}

/// Parses a query string that was derived from the one of the request.
pub(in crate::http) fn query<T: DeserializeOwned>(query: &str) -> Result<T, ApiError> {
    let uri: Uri = format!("/?{query}")
        .parse()
        .map_err(|error: http::uri::InvalidUri| ApiError::InvalidQuery(error.to_string()))?;
    let Query(read) =
        Query::try_from_uri(&uri).map_err(|error| ApiError::InvalidQuery(error.body_text()))?;
    Ok(read)
}
