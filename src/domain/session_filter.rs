//! Which sessions are looked for.

use jiff::Timestamp;
use serde::Deserialize;

use super::ids::SessionId;

/// Which sessions of a tenant are looked for; all of it has to hold.
#[derive(Debug, Clone, Default)]
pub struct SessionFilter {
    /// Only those that are put away, or only those that are not.
    pub archived: Option<bool>,
    /// Only those that stand here.
    pub standing: Option<Standing>,
    /// Only those whose metadata has these members, with values that read so.
    pub metadata: Vec<(String, String)>,
    /// Only those whose title, or a message that somebody typed in them, has all of these words.
    pub words: Option<String>,
    /// Only those that were made after this moment.
    pub created_after: Option<Timestamp>,
    /// Only those that were made before this moment.
    pub created_before: Option<Timestamp>,
    /// Only those in which sub-agents of this session work; else those of no sub-agent.
    pub parent: Option<SessionId>,
}

/// Where a session stands, as it is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Its status is `idle`.
    Idle,
    /// Its status is `queued`.
    Queued,
    /// Its status is `running`.
    Running,
    /// It is idle because its live run waits for somebody to answer its calls.
    RequiresAction,
}

impl Standing {
    /// The word in queries.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::RequiresAction => "requires_action",
        }
    }
}
