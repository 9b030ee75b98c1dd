//! Refusal of query parameters that a route does not have.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{MatchedPath, Query, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{Method, Uri};
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::{OpenApi, PathItem, RefOr};

use crate::http::error::ApiError;

/// The query parameters of the operations of a document, by path and method.
#[derive(Debug, Default)]
pub(in crate::http) struct QueryParameters(HashMap<(String, Method), Vec<String>>);

impl QueryParameters {
    /// The parameters that the operations of a document declare.
    pub(in crate::http) fn of(document: &OpenApi) -> Self {
        let mut known = HashMap::new();
        for (path, item) in &document.paths.paths {
            for (method, operation) in operations(item) {
                known.insert((path.clone(), method), names(operation));
            }
        }
        Self(known)
    }

    /// Refuses the first parameter that the operation does not have.
    fn check(&self, path: &str, method: &Method, uri: &Uri) -> Result<(), ApiError> {
        let method = if method == Method::HEAD { Method::GET } else { method.clone() };
        let path = path.strip_prefix("/v1").unwrap_or(path).to_owned();
        let Some(known) = self.0.get(&(path, method)) else { return Ok(()) };
        let Ok(Query(pairs)) = Query::<Vec<(String, String)>>::try_from_uri(uri) else {
            return Err(ApiError::query("", "is not a list of `name=value` pairs"));
        };
        for (name, _) in pairs {
            // `metadata[key]` is a member of the parameter `metadata`.
            let base = name.split('[').next().unwrap_or_default();
            if !known.iter().any(|known| *known == name || known == base) {
                return Err(ApiError::query(&name, unknown(known)));
            }
        }
        Ok(())
    }
}

fn operations(item: &PathItem) -> impl Iterator<Item = (Method, &Operation)> {
    let PathItem { get, put, post, delete, patch, .. } = item;
    let all = [
        (Method::GET, get),
        (Method::PUT, put),
        (Method::POST, post),
        (Method::DELETE, delete),
        (Method::PATCH, patch),
    ];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_ref()?)))
}

fn names(operation: &Operation) -> Vec<String> {
    let parameters = operation.parameters.iter().flatten();
    let parameters = parameters.filter_map(|parameter| match parameter {
        RefOr::T(parameter) => Some(parameter),
        RefOr::Ref(_) => None,
    });
    let of_query = parameters.filter(|one| matches!(one.parameter_in, ParameterIn::Query));
    of_query.map(|parameter| parameter.name.clone()).collect()
}

fn unknown(known: &[String]) -> String {
    if known.is_empty() {
        return "is not a known parameter; this route has no query parameters".to_owned();
    }
    let known: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    format!("is not a known parameter; allowed: {}", known.join(", "))
}

/// Refuses requests with unknown query parameters. A misspelled filter would otherwise be ignored.
pub(in crate::http) async fn layer(
    State(known): State<Arc<QueryParameters>>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    if request.uri().query().is_some_and(|query| !query.is_empty())
        && let Some(route) = request.extensions().get::<MatchedPath>()
    {
        known.check(route.as_str(), request.method(), request.uri())?;
    }
    Ok(next.run(request).await)
}
