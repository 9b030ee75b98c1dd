//! Repairs of a stored history that the model would refuse.

use serde::Serialize;

/// The kinds of faults of a stored history and their repairs in requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RepairKind {
    /// A call had no result: it is answered as interrupted.
    MissingResult,
    /// A result belonged to no call before it: it is left out.
    OrphanedResult,
    /// A result was in a later message, or after other content: it is moved to its place.
    LateResult,
    /// A call had more than one result: a real one is kept.
    DuplicateResult,
    /// A text was blank: it is left out.
    BlankText,
    /// A message had no content left: it is left out.
    EmptyMessage,
    /// A call of the model's own tools was still open when the user went on: it is left out.
    OpenServerCall,
    /// The history did not begin with a user message: one is added.
    MissingUserMessage,
}

impl RepairKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::MissingResult,
        Self::OrphanedResult,
        Self::LateResult,
        Self::DuplicateResult,
        Self::BlankText,
        Self::EmptyMessage,
        Self::OpenServerCall,
        Self::MissingUserMessage,
    ];

    /// The name in events, logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MissingResult => "missing_result",
            Self::OrphanedResult => "orphaned_result",
            Self::LateResult => "late_result",
            Self::DuplicateResult => "duplicate_result",
            Self::BlankText => "blank_text",
            Self::EmptyMessage => "empty_message",
            Self::OpenServerCall => "open_server_call",
            Self::MissingUserMessage => "missing_user_message",
        }
    }
}

/// A repair of the history in a request. The stored history does not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct HistoryRepair {
    /// The fault and its repair.
    pub kind: RepairKind,
    /// The number of the message that had the fault.
    pub message_seq: i32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_one_name() {
        for kind in RepairKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }
}
