//! Exporting a session: all of its messages, as JSON Lines or Markdown, read in batches.

mod header;
mod history_item;
mod markdown;

use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::domain::feedback::Feedback;
use crate::domain::ids::{SessionId, TenantId};
use crate::service::error::Error;
use crate::service::history::is_reply;
use crate::service::state::Service;
use crate::store::feedback;
use crate::store::messages::{MessageRange, StoredMessage, list};
use crate::store::session_transfer::count_messages;
use crate::store::sessions::find;
pub(super) use header::VERSION;
pub(crate) use header::{ExportEnd, ExportHeader, ExportLine};
pub(crate) use history_item::HistoryItem;

/// Messages that are read at once.
const BATCH: i64 = 16;

/// The format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExportFormat {
    /// JSON Lines: one JSON document per line.
    Jsonl,
    /// Markdown, for reading.
    Markdown,
}

/// A request to export a session.
pub(crate) struct ExportRequest {
    pub(crate) tenant: TenantId,
    pub(crate) session_id: SessionId,
    pub(crate) format: ExportFormat,
    /// Fires when the process begins to stop, which aborts the export.
    pub(crate) draining: CancellationToken,
}

/// An export in progress.
pub(crate) struct Export {
    service: Arc<Service>,
    request: ExportRequest,
    /// The number of messages that were read so far.
    read: i32,
    /// The number of messages to export.
    count: i32,
    next: Part,
}

/// The next part of an export.
enum Part {
    Header(Bytes),
    Messages,
    Nothing,
}

impl Export {
    /// Begins an export of the messages that the session has now.
    pub(crate) async fn begin(
        service: Arc<Service>,
        request: ExportRequest,
    ) -> Result<Self, Error> {
        let ExportRequest { tenant, session_id, .. } = request;
        let not_found = || Error::SessionNotFound(session_id.to_string());
        let (session, count) = service
            .pool
            .with(tenant, async |conn| {
                let session = find(conn, tenant, session_id).await?.ok_or_else(not_found)?;
                let count = count_messages(conn, tenant, session_id).await?;
                Ok::<_, Error>((session, count.ok_or_else(not_found)?))
            })
            .await?;
        let header = match request.format {
            ExportFormat::Jsonl => {
                line(&ExportHeader::new(session, service.defaults.workspace.as_deref())?)?
            }
            ExportFormat::Markdown => markdown::opening(&session).into(),
        };
        Ok(Self { service, request, read: 0, count, next: Part::Header(header) })
    }

    /// The next part; none after the last one. An export that fails has no further parts: without
    /// its last line it is recognized as incomplete.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, Error>> {
        let part = match std::mem::replace(&mut self.next, Part::Messages) {
            Part::Header(header) => Ok(header),
            Part::Messages if self.read < self.count => self.messages().await,
            Part::Messages => {
                self.next = Part::Nothing;
                self.end()
            }
            Part::Nothing => {
                self.next = Part::Nothing;
                return None;
            }
        };
        Some(part.inspect_err(|error| {
            tracing::warn!(session.id = %self.request.session_id, %error, "export aborted");
            self.next = Part::Nothing;
        }))
    }

    async fn messages(&mut self) -> Result<Bytes, Error> {
        if self.request.draining.is_cancelled() {
            return Err(Error::Draining);
        }
        let ExportRequest { tenant, session_id, .. } = self.request;
        let limit = BATCH.min(i64::from(self.count - self.read));
        let range = MessageRange { session_id, after: self.read, before: None, limit };
        let read = self.service.pool.with(tenant, async |conn| {
            let messages = list(conn, range).await?;
            let ids: Vec<String> =
                messages.iter().filter(|it| is_reply(it)).map(|it| it.message_id.clone()).collect();
            let feedback = feedback::list(conn, session_id, &ids).await?;
            Ok::<_, Error>((messages, feedback))
        });
        let (messages, mut feedback) = read.await?;
        self.read = match messages.last() {
            Some(last) => last.seq,
            // The session was deleted in between.
            None => return Err(Error::SessionNotFound(session_id.to_string())),
        };
        let mut part = Vec::new();
        for message in messages {
            let feedback = feedback.remove(&message.message_id);
            part.extend_from_slice(&self.message(message, feedback)?);
        }
        Ok(part.into())
    }

    fn message(&self, message: StoredMessage, feedback: Option<Feedback>) -> Result<Bytes, Error> {
        match self.request.format {
            ExportFormat::Jsonl => {
                let item = HistoryItem::new(self.request.session_id, message);
                line(&item.with_feedback(feedback))
            }
            ExportFormat::Markdown => {
                markdown::message(&message).map(Bytes::from).map_err(Error::internal)
            }
        }
    }

    fn end(&self) -> Result<Bytes, Error> {
        match self.request.format {
            ExportFormat::Jsonl => line(&ExportEnd::new(self.count)),
            ExportFormat::Markdown => Ok(markdown::closing(self.count).into()),
        }
    }
}

/// A JSON document on one line. A line break can only be whitespace between its tokens.
fn line(document: &impl serde::Serialize) -> Result<Bytes, Error> {
    let line = serde_json::to_string(document).map_err(Error::internal)?;
    Ok((line.replace(['\n', '\r'], " ") + "\n").into())
}
