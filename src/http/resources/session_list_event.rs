//! Events of the stream of the session list.

use serde::Serialize;

use super::SessionResource;
use crate::domain::ids::SessionId;
use crate::domain::listed_change::ListedChange;

/// A change of a session in the list.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct SessionListEvent {
    /// `session.changed`.
    pub(in crate::http) r#type: &'static str,
    /// The id of the session.
    #[schema(value_type = String)]
    pub(in crate::http) session_id: SessionId,
    /// The changes since the previous event of the session, each once and in no order.
    pub(in crate::http) changes: Vec<ListedChange>,
    /// The session as in the list; absent if it was deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) session: Option<SessionResource>,
    /// The position after this event, from which a stream can resume; also the SSE `id`. Absent if
    /// further events belong to the same position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) position: Option<String>,
}
