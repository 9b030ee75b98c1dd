//! Repair of histories: a stored history that the model would refuse is sent in a form that it
//! accepts.
//!
//! The loop stores valid histories, so a repair means that a write path is broken, or that a turn
//! was left in a state that only its end could have closed. The stored history never changes, only
//! the requests do. A valid history is sent byte for byte as it is stored, and is recognized without
//! building a second one.
//!
//! The signature of a thinking block covers all content before it, so a repair may invalidate the
//! thinking after it. Without the repair the model refuses the whole history, and blocks that are kept
//! are never edited, so this is the smallest damage.

mod check;
mod entry;
mod fix;

use std::borrow::Cow;

use crate::domain::message::Role;

/// A message as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line<'a> {
    /// The role.
    pub role: Role,
    /// The JSON array of blocks.
    pub content: Cow<'a, str>,
}

impl<'a> Line<'a> {
    /// A message as it is stored.
    pub fn stored(role: Role, content: &'a str) -> Self {
        Self { role, content: Cow::Borrowed(content) }
    }
}

/// The kinds of faults and their repairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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

    /// The name in logs and metrics.
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

/// One repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repair {
    /// The fault.
    pub kind: RepairKind,
    /// The index of the message in the history that was repaired.
    pub index: usize,
}

/// A history that was repaired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired<'a> {
    /// The messages to send.
    pub lines: Vec<Line<'a>>,
    /// The repairs, in the order of the messages that had the faults.
    pub repairs: Vec<Repair>,
}

/// Repairs consecutive messages; none if they are valid. The calls of the last message may be open:
/// their results come next. `is_start` is true if the messages begin a history.
pub fn repair<'a>(lines: &[Line<'a>], is_start: bool) -> Option<Repaired<'a>> {
    if check::is_valid(lines, is_start) {
        return None;
    }
    let repaired = fix::fix(lines, is_start);
    (!repaired.repairs.is_empty()).then_some(repaired)
}

#[cfg(test)]
mod tests;
