//! Extractor of the query parameters of a request.

use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequestParts, Query};
use http::Uri;
use http::request::Parts;
use serde::de::DeserializeOwned;

use crate::domain::plain_message::plain_message;
use crate::http::error::ApiError;

/// The query parameters as a struct.
#[derive(Debug)]
pub(in crate::http) struct Params<T>(pub(in crate::http) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let read = Query::from_request_parts(parts, state).await;
        let Query(query) = read.map_err(|error| invalid(&error))?;
        Ok(Self(query))
    }
}

/// Parses a query string that was derived from the one of the request.
pub(in crate::http) fn query<T: DeserializeOwned>(query: &str) -> Result<T, ApiError> {
    let uri = format!("/?{query}").parse::<Uri>();
    let uri = uri.map_err(|error| ApiError::query("", error.to_string()))?;
    let Query(read) = Query::try_from_uri(&uri).map_err(|error| invalid(&error))?;
    Ok(read)
}

/// The error of a query. The text of the rejection is the name of the parameter, if serde has reached
/// one, and the message of serde.
fn invalid(error: &QueryRejection) -> ApiError {
    let text = error.body_text();
    let text = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
    let (parameter, message) = split_name(text);
    let message = match message.split(" field `").next() {
        Some("duplicate") => "occurs more than once; once is allowed".to_owned(),
        Some("missing") => "is missing and required".to_owned(),
        _ => plain_message(message).replace("known member", "known parameter"),
    };
    ApiError::query(parameter, message)
}

/// The name of the parameter, empty if the message is about the query as a whole.
fn split_name(text: &str) -> (&str, &str) {
    let is_name = |name: &str| !name.is_empty() && !name.contains([' ', '`']);
    if let Some((name, message)) = text.split_once(": ").filter(|(name, _)| is_name(name)) {
        return (name, message);
    }
    let about_one = ["unknown field `", "missing field `", "duplicate field `"];
    let name = about_one.iter().find_map(|start| text.strip_prefix(start)?.split('`').next());
    (name.unwrap_or_default(), text)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::service::FieldError;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Example {
        #[serde(rename = "limit")]
        _limit: Option<i64>,
        #[serde(rename = "deltas")]
        _deltas: Option<bool>,
        #[serde(rename = "order")]
        _order: Option<Order>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Order {
        Asc,
        Desc,
    }

    #[test]
    fn an_error_names_the_parameter_and_the_rule() {
        let error = |text: &str| match query::<Example>(text) {
            Err(ApiError::InvalidQuery(FieldError { parameter, message, .. })) => {
                (parameter.unwrap_or_default(), message)
            }
            other => panic!("expected an invalid query, got {other:?}"),
        };
        for (query, parameter, message) in [
            ("limit=x", "limit", "is not an integer"),
            ("limit=", "limit", "is not an integer"),
            ("deltas=1", "deltas", "is not `true` or `false`"),
            ("order=up", "order", "is `up`; allowed: `asc`, `desc`"),
            ("x=1", "x", "is not a known parameter; allowed: `limit`, `deltas`, `order`"),
            ("limit=1&limit=2", "limit", "occurs more than once; once is allowed"),
        ] {
            assert_eq!(error(query), (parameter.to_owned(), message.to_owned()), "{query}");
        }
    }
}
