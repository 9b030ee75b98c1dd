//! The trace span of a request.

use axum::extract::{MatchedPath, Request};
use http::{Method, StatusCode};

use crate::domain::trace::Trace;
use crate::http::server::forwarded::Origin;
use crate::http::server::request_id::PROBES;
use crate::spans::{Kind, OpenSpan, Spans};

/// Begins the span of a request, as a child of the trace of the caller. Probes have no span.
pub(in crate::http) fn begin(
    spans: &Spans,
    request: &Request,
    cause: Option<Trace>,
) -> Option<OpenSpan> {
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    if route.is_some_and(|route| PROBES.contains(&route)) {
        return None;
    }
    let method = method_name(request.method());
    let name = || match route {
        Some(route) => format!("{method} {route}"),
        None => method.to_owned(),
    };
    let mut span = spans.begin(Kind::Server, name, cause)?;
    span.set("http.request.method", method);
    span.set("url.path", request.uri().path());
    if let Some(route) = route {
        span.set("http.route", route);
    }
    if let Some(origin) = request.extensions().get::<Origin>() {
        span.set("client.address", origin.client.to_string());
    }
    Some(span)
}

/// Ends the span with the head of the response.
pub(in crate::http) fn end(span: Option<OpenSpan>, status: StatusCode) {
    let Some(mut span) = span else { return };
    span.set("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        span.fail(status.as_str());
    }
}

/// The name of a method in spans. Clients can send any text as a method, so unknown ones share one
/// name.
fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "_OTHER",
    }
}
