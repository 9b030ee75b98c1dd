//! Feedback of users on replies of the model.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The rating of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rating {
    /// The reply is good.
    Up,
    /// The reply is bad.
    Down,
}

impl Rating {
    /// The rating as text, on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }

    /// Parses the text of a rating.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Up, Self::Down].into_iter().find(|rating| rating.as_str() == text)
    }
}

/// The feedback of a user on a reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Feedback {
    /// The rating.
    pub rating: Rating,
    /// The text of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The time of the first feedback on the reply.
    #[schema(value_type = String, format = DateTime)]
    #[serde(serialize_with = "crate::domain::rfc3339::time")]
    pub created_at: Timestamp,
    /// The time of the last change.
    #[schema(value_type = String, format = DateTime)]
    #[serde(serialize_with = "crate::domain::rfc3339::time")]
    pub updated_at: Timestamp,
}
