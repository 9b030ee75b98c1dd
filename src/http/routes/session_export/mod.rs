//! Exporting a session: all that was said, as lines of JSON or for people, read piece by piece.

mod header;
mod markdown;

use std::io;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::stream;
use http::HeaderMap;
use http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use serde::Deserialize;

use crate::domain::ids::{SessionId, TenantId};
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::accept::preferred;
use crate::http::extract::path::SessionPath;
use crate::http::extract::query::Params;
use crate::http::resources::HistoryItem;
use crate::http::server::stream_permits::StreamPermit;
use crate::http::state::Api;
use crate::store::messages::{Range, Stored, list};
use crate::store::session_transfer::count_messages;
use crate::store::sessions::find;
pub(super) use header::VERSION;
use header::{ExportEnd, ExportHeader, ExportLine};

/// Messages read at a time.
const PIECE: i64 = 16;

/// The form of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum ExportFormat {
    /// A JSON document a line.
    Jsonl,
    /// For people.
    Markdown,
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct ExportSession {
    /// `jsonl`, which is meant where neither this nor `Accept` says anything, or `markdown`.
    #[param(inline)]
    format: Option<ExportFormat>,
}

impl ExportFormat {
    /// What `Accept` asks for.
    fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        match preferred(headers, &["application/jsonl", "application/x-ndjson", "text/markdown"]) {
            Some("text/markdown") => Ok(Self::Markdown),
            Some(_) => Ok(Self::Jsonl),
            None => Err(ApiError::NotAcceptable("application/jsonl or text/markdown")),
        }
    }

    const fn content_type(self) -> &'static str {
        match self {
            Self::Jsonl => "application/jsonl",
            Self::Markdown => "text/markdown; charset=utf-8",
        }
    }

    /// The name of a file. Nothing that anybody wrote is in it.
    fn file_name(self, id: SessionId) -> String {
        match self {
            Self::Jsonl => format!("{id}.jsonl"),
            Self::Markdown => format!("{id}.md"),
        }
    }
}

/// Exports a session with all of its messages, up to the newest one of this moment.
///
/// `Accept` chooses the form where `format` is absent.
///
/// `application/jsonl`: a line of type `session`, whose `settings` are what `POST /v1/sessions`
/// takes; the messages in the form in which `GET …/messages` has them, byte for byte; and a last line
/// of type `end` with their number. An export without this line was cut. `POST /v1/sessions/import`
/// takes it. `text/markdown` is for people: images and documents are only named in it.
#[utoipa::path(
    get, path = "/sessions/{session_id}/export", operation_id = "export_session", tag = "sessions",
    params(
        ("session_id" = String, Path, description = "The session."),
        ExportSession,
    ),
    responses(
        (status = 200, description = "The session. The schema is that of one line.",
         content((ExportLine = "application/jsonl"), (String = "text/markdown")),
         headers(("content-disposition" = String, description = "A name for the file."),
                 ("cache-control" = String, description = "`no-store`"))),
        (status = 400, description = "`invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 406, description = "`not_acceptable`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`too_many_streams`, `draining`, `database_unavailable`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn export_session(
    State(api): State<Api>,
    caller: Caller,
    path: SessionPath,
    query: Params<ExportSession>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let (SessionPath(session_id), Params(ExportSession { format })) = (path, query);
    let format = format.map_or_else(|| ExportFormat::of(&headers), Ok)?;
    let (place, tenant) = (api.stream_permit(caller)?, caller.tenant);
    let missing = || ApiError::SessionNotFound(session_id.to_string());
    let mut conn = api.pool.acquire_as(caller.tenant).await?;
    let session = find(&mut conn, caller.tenant, session_id).await?.ok_or_else(missing)?;
    let count = count_messages(&mut conn, caller.tenant, session_id).await?.ok_or_else(missing)?;
    conn.give_back();
    let usual = api.defaults.workspace.as_deref();
    let first = match format {
        ExportFormat::Jsonl => line(&ExportHeader::new(session, usual)?)?,
        ExportFormat::Markdown => markdown::opening(&session).into(),
    };
    let piece = Piece::First(first);
    let export = Export { api, tenant, session_id, format, sent: 0, count, piece, _place: place };
    let body = stream::unfold(export, async |mut export| {
        let item = export.next().await?;
        Some((item, export))
    });
    let name = format!("attachment; filename=\"{}\"", format.file_name(session_id));
    let headers = [
        (CONTENT_TYPE, format.content_type().to_owned()),
        (CONTENT_DISPOSITION, name),
        (CACHE_CONTROL, "no-store".to_owned()),
    ];
    Ok((headers, Body::from_stream(body)).into_response())
}

/// A JSON document on one line. A line break can only stand between its words.
fn line(document: &impl serde::Serialize) -> Result<Bytes, ApiError> {
    let line = serde_json::to_string(document);
    let line = line.map_err(|error| ApiError::Internal(error.to_string()))?;
    Ok((line.replace(['\n', '\r'], " ") + "\n").into())
}

/// An export on its way.
struct Export {
    api: Api,
    tenant: TenantId,
    session_id: SessionId,
    format: ExportFormat,
    /// Messages that were sent, of so many.
    sent: i32,
    count: i32,
    piece: Piece,
    _place: StreamPermit,
}

/// What is sent next.
enum Piece {
    First(Bytes),
    Messages,
    Nothing,
}

impl Export {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        let read = match std::mem::replace(&mut self.piece, Piece::Messages) {
            Piece::First(first) => Ok(first),
            Piece::Messages if self.sent < self.count => self.messages().await,
            Piece::Messages => {
                self.piece = Piece::Nothing;
                self.end()
            }
            Piece::Nothing => return None,
        };
        // A reader takes a clean end for success, so an export that fails is torn.
        Some(read.map_err(|error| {
            tracing::warn!(session.id = %self.session_id, %error, "an export was cut");
            self.piece = Piece::Nothing;
            io::Error::other("the export was cut")
        }))
    }

    async fn messages(&mut self) -> Result<Bytes, ApiError> {
        if self.api.draining.is_cancelled() {
            return Err(ApiError::Draining);
        }
        let limit = PIECE.min(i64::from(self.count - self.sent));
        let (session_id, after) = (self.session_id, self.sent);
        let range = Range { session_id, after, before: None, limit };
        let mut conn = self.api.pool.acquire_as(self.tenant).await?;
        let messages = list(&mut conn, range).await?;
        conn.give_back();
        self.sent = match messages.last() {
            Some(last) => last.seq,
            // It has been deleted.
            None => return Err(ApiError::SessionNotFound(self.session_id.to_string())),
        };
        let mut piece = Vec::new();
        for message in messages {
            piece.extend_from_slice(&self.message(message)?);
        }
        Ok(piece.into())
    }

    fn message(&self, message: Stored) -> Result<Bytes, ApiError> {
        match self.format {
            ExportFormat::Jsonl => line(&HistoryItem::new(self.session_id, message)),
            ExportFormat::Markdown => {
                let text = markdown::message(&message);
                text.map(Bytes::from).map_err(|error| ApiError::Internal(error.to_string()))
            }
        }
    }

    fn end(&self) -> Result<Bytes, ApiError> {
        match self.format {
            ExportFormat::Jsonl => line(&ExportEnd { r#type: "end", messages: self.count }),
            ExportFormat::Markdown => Ok(markdown::closing(self.count).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn the_accept_header_chooses_the_form() {
        let of = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(http::header::ACCEPT, HeaderValue::from_str(accept).unwrap());
            ExportFormat::of(&headers).ok()
        };
        assert_eq!(ExportFormat::of(&HeaderMap::new()).ok(), Some(ExportFormat::Jsonl));
        assert_eq!(of("*/*"), Some(ExportFormat::Jsonl));
        assert_eq!(of("Application/X-NDJSON;q=1"), Some(ExportFormat::Jsonl));
        assert_eq!(of("text/html, text/markdown, */*;q=0.1"), Some(ExportFormat::Markdown));
        assert_eq!(of("text/html"), None);
    }
}
