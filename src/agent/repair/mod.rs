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

pub use crate::domain::history_repair::RepairKind;
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
