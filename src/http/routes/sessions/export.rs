//! Exporting sessions.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use futures::stream;
use http::HeaderMap;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use serde::Deserialize;

use crate::domain::ids::SessionId;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::accept::preferred;
use crate::http::extract::path::SessionPath;
use crate::http::extract::query::Params;
use crate::http::state::Api;
use crate::service::sessions::export::{Export, ExportFormat, ExportLine, ExportRequest};

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct ExportSession {
    /// The format: `jsonl` or `markdown`. When absent, `Accept` selects it, by default `jsonl`.
    #[param(inline)]
    format: Option<ExportFormat>,
}

/// The format that `Accept` selects.
fn accepted_format(headers: &HeaderMap) -> Result<ExportFormat, ApiError> {
    match preferred(headers, &["application/jsonl", "application/x-ndjson", "text/markdown"]) {
        Some("text/markdown") => Ok(ExportFormat::Markdown),
        Some(_) => Ok(ExportFormat::Jsonl),
        None => Err(ApiError::NotAcceptable("application/jsonl or text/markdown")),
    }
}

const fn content_type(format: ExportFormat) -> &'static str {
    match format {
        ExportFormat::Jsonl => "application/jsonl",
        ExportFormat::Markdown => "text/markdown; charset=utf-8",
    }
}

/// The name of the file. It has only the id of the session, no text from a client.
fn file_name(format: ExportFormat, id: SessionId) -> String {
    match format {
        ExportFormat::Jsonl => format!("{id}.jsonl"),
        ExportFormat::Markdown => format!("{id}.md"),
    }
}

/// Exports a session with all messages that it has at the time of the request.
///
/// If `format` is absent, `Accept` selects the format.
///
/// `application/jsonl`: a line of type `session`, whose `settings` are a body for
/// `POST /v1/sessions`; the messages as `GET …/messages` returns them, byte for byte; and a last line
/// of type `end` with the number of messages. An export without that line is truncated.
/// `POST /v1/sessions/import` accepts this format. `text/markdown`: a text for readers, in which
/// images and documents appear only by name.
#[utoipa::path(
    get, path = "/sessions/{session_id}/export", operation_id = "export_session", tag = "sessions",
    params(
        ("session_id" = String, Path, description = "The id of the session."),
        ExportSession,
    ),
    responses(
        (status = 200, description = "The export. The schema is that of one line.",
         content((ExportLine = "application/jsonl"), (String = "text/markdown")),
         headers(("content-disposition" = String, description = "A name for the file."),
                 ("cache-control" = String, description = "`private, no-store`"))),
        (status = 400, description = "`invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 406, description = "`not_acceptable`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`too_many_streams`, `draining`, `database_unavailable`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn export_session(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SessionPath,
    query: Params<ExportSession>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let (SessionPath(session_id), Params(ExportSession { format })) = (path, query);
    let format = format.map_or_else(|| accepted_format(&headers), Ok)?;
    let permit = api.stream_permit(&caller)?;
    let draining = api.draining.clone();
    let request = ExportRequest { tenant: caller.tenant, session_id, format, draining };
    let export = Export::begin(Arc::clone(&api.service), request).await?;
    // The permit is held until the body has been sent.
    let body = stream::unfold((export, permit), async |(mut export, permit)| {
        let part = export.next().await?;
        // A failed export aborts the connection: a clean end would look complete.
        let part = part.map_err(|_| io::Error::other("the export was aborted"));
        Some((part, (export, permit)))
    });
    let name = format!("attachment; filename=\"{}\"", file_name(format, session_id));
    let headers = [(CONTENT_TYPE, content_type(format).to_owned()), (CONTENT_DISPOSITION, name)];
    Ok((headers, Body::from_stream(body)).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn the_accept_header_selects_the_format() {
        let of = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(http::header::ACCEPT, HeaderValue::from_str(accept).unwrap());
            accepted_format(&headers).ok()
        };
        assert_eq!(accepted_format(&HeaderMap::new()).ok(), Some(ExportFormat::Jsonl));
        assert_eq!(of("*/*"), Some(ExportFormat::Jsonl));
        assert_eq!(of("Application/X-NDJSON;q=1"), Some(ExportFormat::Jsonl));
        assert_eq!(of("text/html, text/markdown, */*;q=0.1"), Some(ExportFormat::Markdown));
        assert_eq!(of("text/html"), None);
    }
}
