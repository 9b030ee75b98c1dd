//! Filters of session lists.

use jiff::Timestamp;
use serde::Deserialize;

use super::ids::SessionId;

/// A filter of a tenant's sessions; all conditions must hold.
#[derive(Debug, Clone, Default)]
pub struct SessionFilter {
    /// Only archived sessions, or only sessions that are not archived.
    pub archived: Option<bool>,
    /// Only sessions in this state.
    pub state: Option<SessionState>,
    /// Only sessions whose metadata has these members with these values, compared as text.
    pub metadata: Vec<(String, String)>,
    /// Only sessions whose title, or a user message in them, contains all of these words.
    pub words: Option<String>,
    /// Only sessions created after this time.
    pub created_after: Option<Timestamp>,
    /// Only sessions created before this time.
    pub created_before: Option<Timestamp>,
    /// Only the session with this external id.
    pub external_id: Option<String>,
    /// Only sessions that were created from the agent of this name.
    pub agent: Option<String>,
    /// Only sessions that were created from this version of their agent.
    pub agent_version: Option<i32>,
    /// Only the sessions of this user.
    pub user: Option<String>,
    /// Only sub-agent sessions of this session; none for sessions that are not sub-agents.
    pub parent: Option<SessionId>,
}

/// A state of a session, as a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Standing)]
pub enum SessionState {
    /// Its status is `idle`.
    Idle,
    /// Its status is `queued`.
    Queued,
    /// Its status is `running`.
    Running,
    /// Idle because its active run waits for answers to its calls.
    RequiresAction,
    /// Its status is `queued` or `running`. Other protocols have one state for both.
    #[serde(skip)]
    Busy,
}

impl SessionState {
    /// The value in queries.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::RequiresAction => "requires_action",
            Self::Busy => "busy",
        }
    }
}
