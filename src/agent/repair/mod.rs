//! The second net: a stored history that the model would refuse is sent in a form that it takes.
//!
//! What the loop stores is right by itself, so a repair means that a write path is broken, or
//! that a turn was left in a state that only its end could have closed. What is stored is never
//! changed; only what is sent. A history without fault is sent as it is, byte for byte, and it
//! is told from the others without building anything.
//!
//! Thinking blocks are signed over all that comes before them, so that any repair may cost the
//! thinking behind it its validity. A history that needs one is refused as a whole without it,
//! and blocks that stay are never edited: that is the least harm.

mod check;
mod entry;
mod mend;

use std::borrow::Cow;

use crate::domain::message::Role;

/// A message as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line<'a> {
    /// Who speaks.
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

/// What was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RepairKind {
    /// A call had no result: it is answered as interrupted.
    MissingResult,
    /// A result belonged to no call before it: it is left out.
    OrphanedResult,
    /// A result stood too late: it is moved to its place.
    LateResult,
    /// A call had more than one result: a real one is kept.
    DuplicateResult,
    /// A text said nothing: it is left out.
    BlankText,
    /// A message had nothing left to say: it is left out.
    EmptyMessage,
    /// A call of the model's own tools was still open when the user went on: it is left out.
    OpenServerCall,
    /// The history did not begin with the user: a word is put before it.
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

    /// The word in logs and metrics.
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
    /// What was wrong.
    pub kind: RepairKind,
    /// Where: the index of the message among those that were given.
    pub place: usize,
}

/// A history that was repaired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired<'a> {
    /// The messages to send.
    pub lines: Vec<Line<'a>>,
    /// What was done, in the order of the messages that it was found in.
    pub repairs: Vec<Repair>,
}

/// Repairs messages that follow each other; none if nothing is wrong. The calls of the last one
/// may be open: their results come next. `is_start` says whether they begin a history.
pub fn repair<'a>(lines: &[Line<'a>], is_start: bool) -> Option<Repaired<'a>> {
    if check::is_sound(lines, is_start) {
        return None;
    }
    let repaired = mend::mend(lines, is_start);
    (!repaired.repairs.is_empty()).then_some(repaired)
}

#[cfg(test)]
mod tests;
